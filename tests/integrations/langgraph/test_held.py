"""`held`: a node that leaves its declaration fails, and all other runs are as they were."""

from __future__ import annotations

import asyncio
import operator
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict

import pytest

from graphexec.errors import InputError
from tests.parameters import cases

pytest.importorskip("langgraph", reason="the graphs are those of LangGraph")
# Any, here and below: type checkers do not find LangGraph's types.
graphs: Any = pytest.importorskip("langgraph.graph.state")
types: Any = pytest.importorskip("langgraph.types")

from graphexec.integrations.langgraph import UndeclaredGotoError, check, held  # noqa: E402 - it needs LangGraph

START, END = "__start__", "__end__"
Command, Send = types.Command, types.Send

pytestmark = pytest.mark.medium


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


Node = Callable[[Any], Any]


def make_graph(
    nodes: Mapping[str, Node], *edges: tuple[str, str], routers: Mapping[str, Node | tuple[Node, Any]] | None = None
) -> Any:
    """Return the builder of a graph; a router is a function, or one with its path map."""
    builder = graphs.StateGraph(State)
    for name, function in nodes.items():
        builder.add_node(name, function)
    for source, target in edges:
        builder.add_edge(source, target)
    for source, router in (routers or {}).items():
        builder.add_conditional_edges(source, *(router if isinstance(router, tuple) else [router]))
    return builder


def see(name: str) -> Node:
    """Return a node that appends its name to the state."""
    return lambda _: {"seen": [name]}


def go(name: str, goto: Any, **more: Any) -> Node:
    """Return a node that appends its name, and goes to others."""
    return lambda _: Command(update={"seen": [name]}, goto=goto, **more)


def declared(function: Node) -> Node:
    # A lambda has no annotations of its own.
    function.__annotations__["return"] = Command[Literal["b", "__end__"]]
    return function


def with_child(goto: str, to: tuple[str, ...]) -> Any:
    child = make_graph({"c": go("c", goto, graph=Command.PARENT)}, (START, "c")).compile()
    builder = make_graph({"b": see("b"), "d": see("d")}, (START, "team"), ("b", END), ("d", END))
    builder.add_node("team", child, destinations=to)
    return builder


ENDS = ((START, "a"), ("b", END), ("d", END))


def three(a: Node, *edges: tuple[str, str], routers: Mapping[str, Node | tuple[Node, Any]] | None = None) -> Any:
    return make_graph({"a": a, "b": see("b"), "d": see("d")}, *ENDS, *edges, routers=routers)


# The graph, and the node and the target that are not declared.
UNDECLARED: list[tuple[Any, str, str]] = [
    # LangGraph ignores the first two, and runs the others.
    (three(declared(go("a", "nope"))), "a", "nope"),
    (three(see("a"), routers={"a": lambda _: "nope"}), "a", "nope"),
    (three(declared(go("a", "d"))), "a", "d"),
    (three(declared(go("a", ["b", "d"]))), "a", "d"),
    (three(declared(go("a", Send("d", {"seen": []})))), "a", "d"),
    (three(see("a"), routers={"a": (lambda _: [Send("d", {"seen": []})], ["b"])}), "a", "d"),
    (make_graph({"a": see("a"), "b": see("b")}, routers={START: (lambda _: Send("b", {}), ["a"])}), START, "b"),
    (with_child("d", ("b",)), "team", "d"),
    (make_graph({"in": three(declared(go("a", "d"))).compile()}, (START, "in")), "a", "d"),
]
DECLARED: list[Any] = [
    three(see("a"), ("a", "b")),
    three(declared(go("a", "b"))),
    three(declared(go("a", END))),
    three(declared(go("a", Send("b", {"seen": []})))),
    three(see("a"), routers={"a": lambda _: ["b", "d"]}),
    three(see("a"), routers={"a": (lambda _: "yes", {"yes": "b", "no": END})}),
    three(see("a"), routers={"a": lambda _: [Send("b", {"seen": [name]}) for name in "xy"]}),
    make_graph({"a": see("a"), "b": see("b"), "c": see("c")}, (START, "a"), (START, "b"), ("a", "c"), ("b", "c")),
    with_child("b", ("b",)),
    make_graph({"in": three(declared(go("a", "b"))).compile(), "b": see("b")}, (START, "in"), ("in", "b")),
]


async def collect(graph: Any, mode: Any) -> list[Any]:
    return [one async for one in graph.astream({"seen": []}, stream_mode=mode, subgraphs=True)]


WAYS: Mapping[str, Callable[[Any], Any]] = {
    "invoke": lambda graph: graph.invoke({"seen": []}),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke({"seen": []})),
    "stream": lambda graph: list(graph.stream({"seen": []}, stream_mode=["updates", "values"], subgraphs=True)),
    "astream": lambda graph: asyncio.run(collect(graph, ["updates", "values"])),
}


def comparable(value: Any) -> list[str]:
    """Return events in one order, because nodes run at once, and without the ids in namespaces of subgraphs."""
    # Any: `isinstance` says nothing of a list's elements.
    kind: Any = list
    events = value if isinstance(value, kind) else [value]
    return sorted(re.sub("[0-9a-f-]{36}", "id", repr(one)) for one in events)


@cases("how", *WAYS)
def test_undeclared_goto_is_an_error(how: str) -> None:
    for builder, node, target in UNDECLARED:
        with pytest.raises(UndeclaredGotoError) as raised:
            WAYS[how](held(builder.compile()))
        assert (raised.value.node, raised.value.target) == (node, target)
        where = "the start" if node == START else f"the node {node}"
        assert f"{where} goes to {target!r}, which " in str(raised.value)
        again = pickle.loads(pickle.dumps(raised.value))
        assert (again.node, str(again)) == (node, str(raised.value))


@cases("how", *WAYS)
def test_declared_runs_are_as_they_were(how: str) -> None:
    for builder in DECLARED:
        graph = builder.compile()
        first, second = (WAYS[how](one) for one in (held(graph), graph))
        assert comparable(first) == comparable(second)


def test_held_graph_keeps_all_else() -> None:
    """Its picture, its name and settings, its state and its answer; the given graph is not changed."""
    memory: Any = pytest.importorskip("langgraph.checkpoint.memory")
    builder = three(declared(go("a", "d")))
    graph = builder.compile(checkpointer=memory.InMemorySaver(), interrupt_before=["a"], name="mine")
    strict = held(graph.with_config(recursion_limit=9))
    assert strict.get_graph().draw_mermaid() == graph.get_graph().draw_mermaid()
    assert (strict.name, strict.config["recursion_limit"], strict.checkpointer) == ("mine", 9, graph.checkpointer)
    assert check(strict).graph.edges == check(graph).graph.edges
    thread = {"configurable": {"thread_id": "1"}}
    for one in (strict, graph):
        assert one.invoke({"seen": []}, thread) == {"seen": []}
        assert one.get_state(thread).next == ("a",)
    with pytest.raises(UndeclaredGotoError):
        strict.invoke(None, thread)
    assert graph.invoke(None, thread) == {"seen": ["a", "d"]}
    # An update of the state as a node also runs its writers.
    with pytest.raises(UndeclaredGotoError):
        strict.update_state(thread, Command(goto="d"), as_node="a")


def test_error_names_a_remedy() -> None:
    (undeclared, *_), (unknown, *_) = UNDECLARED[2], UNDECLARED[0]
    with pytest.raises(UndeclaredGotoError, match=r'Command\[Literal\["d"\]\].*destinations=\("d",\).*path_map'):
        held(undeclared.compile()).invoke({"seen": []})
    with pytest.raises(UndeclaredGotoError, match=r"the start goes to 'b', .* in the path_map of its"):
        held(UNDECLARED[6][0].compile()).invoke({"seen": []})
    with pytest.raises(UndeclaredGotoError, match="is not a node; the nodes are a, b, d"):
        held(unknown.compile()).invoke({"seen": []})
    with pytest.raises(InputError, match="is not a graph of LangGraph"):
        held(3)
    with pytest.raises(InputError, match=r"takes a compiled graph; pass builder.compile\(\)"):
        held(undeclared)
