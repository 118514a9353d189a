"""The answers for graphs of one's own: odd and counted ones, remedies that change the answer, and what is refused."""

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import pytest

from graphexec.errors import InputError
from tests.counting import count_calls
from tests.parameters import cases

if not all(map(find_spec, ("langchain", "langgraph"))):
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain.agents import middleware as m
from langchain_core.runnables import RunnableLambda
from langgraph.types import Command, Send

from graphexec.integrations.declared import DeclaredGraph, Guard, judge, tell
from graphexec.integrations.langgraph import load
from tests.integrations.langgraph.agents import (
    Critic,
    Insistent,
    State,
    answer,
    draft,
    drive,
    graphs,
    make_agent,
    prebuilt,
    search,
)

# Of the packages themselves.
pytestmark = pytest.mark.filterwarnings("ignore")

START: Literal["__start__"] = "__start__"
END: Literal["__end__"] = "__end__"
A = (START, "a")


def step(state: State) -> Any:
    return {"log": ["x"]}


def either(state: State) -> Literal["a", "__end__"]:
    return "a"


def anywhere(state: State) -> Any:
    return "a"


def command(state: State) -> Any:
    return Command(goto="a")


def annotated(state: State) -> Command[Literal["b", "__end__"]] | None:
    return Command(goto="b")


def leaving(state: State) -> Any:
    return Command(goto="z", graph=Command.PARENT)


async def waiting(state: State) -> Any:
    return Command(goto=END)


class Callables:
    def __init__(self) -> None:
        self.graph: Any = LOOP

    def __call__(self, state: State) -> Any:
        return Command(goto="a")

    def method(self, state: State) -> Any:
        return Command(goto="a")

    def other_method(self, state: State) -> Any:
        return self.method(state)

    def invoke(self, state: State) -> Any:
        return self.graph.invoke(state)


def bound(first: int, state: State) -> Any:
    return Command(goto="a")


def helped(state: State) -> Any:
    return command(state)


def helped_twice(state: State) -> Any:
    return helped(state)


def wrapped(function: Any) -> Any:
    def call(state: State) -> Any:
        return function(state)

    return call


def constant(state: State) -> Any:
    return TO_A


def chosen(state: State) -> Command[Literal["a"]]:
    return Command(update={"log": ["x"]}) if state["log"] else Command(goto="a")


def either_or_any(state: State) -> Literal["a", "__end__"] | Send:
    return "a"


def declaring(*names: str) -> Any:
    builder = draft({}, (START, "s"))
    builder.add_node("s", LEAVING, destinations=names)
    builder.add_node("z", step)
    return builder


def several(state: State) -> list[Literal["b", "__end__"]]:
    return ["b"]


def again(state: State) -> Command[Literal["a"]]:
    return Command(goto="a")


TO_A = Command(goto="a")
LOOP = draft({"a": step}, A, a=either).compile()
LINE = draft({"a": step}, A).compile()
LEAVING = draft({"o": leaving}, (START, "o")).compile()


def invoking(state: State) -> Any:
    return LOOP.invoke(LINE.invoke(state))


def invoking_inside(state: State) -> Any:
    def inner() -> Any:
        return [graph.invoke(state) for graph in GRAPHS.values()]

    return inner()


def invoking_by_default(state: State, *, graph: Any = LOOP) -> Any:
    return graph.invoke(state)


def invoking_by_helper(state: State) -> Any:
    return invoking(state)


def invoking_given(graph: Any, state: State) -> Any:
    return graph.invoke(state)


def making(state: State) -> Any:
    return prebuilt.create_react_agent("model", []).invoke(state)


GRAPHS = {"loop": LOOP}
LISTED: list[Any] = [[LOOP]]
LISTED.append(LISTED)


def invoking_listed(state: State) -> Any:
    return LISTED[0][0].invoke(state)


def nesting(state: State) -> Any:
    return NESTED.invoke(state)


NESTED = draft({"a": nesting}, A).compile()


def handled(goto: Any) -> Any:
    builder = graphs.StateGraph(State)
    builder.add_node("a", step, error_handler=goto)
    builder.add_edge(*A)
    return builder


def jump(query: str) -> Any:
    """Jump."""
    return Command(goto="a")


def sending(state: State) -> Any:
    return [Send("b", {})]


JOINS = (A, (START, "b"), (["a", "b"], "c"), ("c", "a"), ("c", "b"))
AB = {"a": step, "b": step}
OUT = (anywhere, ["b", END])


def looping(**options: Any) -> Any:
    return draft({"a": step}, A, a=either).compile(**options)


def within(node: Any) -> Any:
    return draft({"x": node}, (START, "x"))


# Graphs by their answers, with the loop in the answer.
ODD: dict[str, dict[str, tuple[Callable[[], Any], str]]] = {
    "ends": {
        "nothing": (lambda: draft({}, (START, END)), ""),
        "reserved names": (lambda: draft({"END": step, "a.b": step}, (START, "END"), ("END", "a.b")), ""),
        "no bytecode": (lambda: draft({"a": len}, A), ""),
        "a join that waits": (lambda: draft({**AB, "c": step}, A, (["a", "b"], "c"), ("c", "a")), ""),
        "a router that names several": (lambda: draft(AB, A, a=several), ""),
        "an annotated command": (lambda: draft({"a": annotated, "b": step}, A), ""),
        "an error handler": (lambda: handled(step), ""),
        "a declared command for the parent": (lambda: declaring("z"), ""),
        "sends": (lambda: draft(AB, A, ("b", END), a=(sending, ["b"])), ""),
    },
    "never": {
        "a command that goes back": (lambda: draft({"a": again}, A), "a"),
        "no way out": (lambda: draft(AB, A, ("a", "b"), ("b", "a")), "a b"),
        "an edge beside the way out": (lambda: draft({"a": step}, A, ("a", "a"), a=either), "a"),
        "a way out for some": (lambda: draft(AB, A, ("b", "b"), a=OUT), "b"),
    },
    "limited": {
        "a loop in a subgraph": (lambda: within(looping()), ""),
        "a loop two levels deep": (lambda: within(within(looping()).compile()), ""),
        "a loop through a subgraph": (
            lambda: draft({"x": LINE, "b": step}, (START, "x"), ("x", "b"), b=(anywhere, ["x", END])),
            "x b",
        ),
        "graphs that a node invokes": (lambda: within(invoking), ""),
        "a graph that an object invokes": (lambda: within(Callables().invoke), ""),
        "a graph without checkpoints": (lambda: within(looping(checkpointer=False)), ""),
        "a cycle of joins": (lambda: draft({**AB, "c": step}, *JOINS), "a c"),
        "a router without a map": (lambda: draft(AB, A, a=anywhere), "a"),
        "a router that may name others": (lambda: draft(AB, A, ("b", "a"), a=either_or_any), "a b"),
        "a command": (lambda: draft({"a": command}, A), "a"),
        "a command of a helper": (lambda: draft({"a": helped}, A), "a"),
        "a command of a helper's helper": (lambda: draft({"a": helped_twice}, A), "a"),
        "a command of a wrapped function": (lambda: draft({"a": wrapped(command)}, A), "a"),
        "a command of another method": (lambda: draft({"a": Callables().other_method}, A), "a"),
        "a command in a variable": (lambda: draft({"a": constant}, A), "a"),
        "a command of a retried runnable": (lambda: draft({"a": RunnableLambda(command).with_retry()}, A), "a"),
        "a command without a target": (lambda: draft({"a": chosen}, A), "a"),
        "graphs that inner functions invoke": (lambda: within(invoking_inside), ""),
        "a graph that a helper invokes": (lambda: within(invoking_by_helper), ""),
        "a graph in a default": (lambda: within(invoking_by_default), ""),
        "a graph in a partial": (lambda: within(functools.partial(invoking_given, LOOP)), ""),
        "a graph in a list that contains itself": (lambda: within(invoking_listed), ""),
        "a retried graph": (lambda: within(LOOP.with_retry()), ""),
        "a command of a method": (lambda: draft({"a": Callables().method}, A), "a"),
        "a command of an instance": (lambda: draft({"a": Callables()}, A), "a"),
        "a command of a partial": (lambda: draft({"a": functools.partial(bound, 1)}, A), "a"),
        "a command of a coroutine": (lambda: draft({"a": waiting}, A), "a"),
        "a command in a tool": (lambda: draft({"a": step, "b": prebuilt.ToolNode([jump])}, A, ("a", "b")), "a b"),
        "a command for the parent": (lambda: draft({"s": LEAVING, "z": step}, (START, "s"), ("z", "s")), "s z"),
        "an error handler that goes back": (lambda: handled(command), "__error_handler__a a"),
    },
}


@pytest.mark.medium
@cases(("status", "name"), *((status, name) for status, several in ODD.items() for name in several))
def test_odd_graph_is_answered(status: str, name: str) -> None:
    make, loop = ODD[status][name]
    judged = answer(make().compile())
    assert (judged.status, judged.loops) == (status, (tuple(loop.split()),) if loop else ())
    assert judged.verdict.proved == (judged.own in ("ends", "bounded"))
    assert judged.passes == (status == "ends")


def test_text_says_what_is_odd() -> None:
    builder = draft({"a": step, "b": LOOP, "c": step}, A, ("a", "b"), (["b", "c"], "a"))
    told = tell(answer(builder.compile(interrupt_before=["a"])))
    told += tell(answer(NESTED))
    for fact in (
        "nothing bounds how often",
        "never reached: c",
        "waits for c",
        "asked before a",
        "b has no edge out",
        "10,007",
        "a -> a",
    ):
        assert fact in told, told


def count_up(state: State) -> Any:
    return {"n": state["n"] + 1}


async def count_down(state: State) -> Any:
    return {"n": state["n"] - 1}


def count_variable(state: State) -> Any:
    rounds = state.get("n", 0)
    rounds += 1
    return {"n": rounds}


def add_length(state: State) -> Any:
    return {"n": state["n"] + len(state["log"])}


def add_one(state: State) -> Any:
    return {"total": 1}


def reply(state: State) -> Any:
    return {"messages": [("ai", "x")]}


def compare(state: State) -> Literal["a", "__end__"]:
    return "a" if state["n"] < 3 else END


def compare_variable(state: State) -> Literal["a", "__end__"]:
    rounds = state["n"]
    if rounds >= 3:
        return END
    return "a"


def compare_total(state: State) -> Literal["a", "__end__"]:
    return END if state["total"] > 3 else "a"


def compare_length(state: State) -> Literal["a", "__end__"]:
    return END if len(state["messages"]) > 6 else "a"


def compare_stored_length(state: State) -> Literal["a", "__end__"]:
    number = len(state["messages"])
    return END if number > 6 else "a"


def compare_content(state: State) -> Literal["a", "__end__"]:
    return END if state["messages"][-1].content == "done" else "a"


def compare_word(state: State) -> Literal["a", "__end__"]:
    return END if state["word"] == "done" else "a"


def compare_length_in_lines(state: State) -> Literal["a", "__end__"]:
    messages = state["messages"]
    number = len(
        [message for message in messages if message.content],
    )
    return END if number > 6 else "a"


def compare_calls(state: State) -> Literal["a", "__end__"]:
    message = state["messages"][-1]
    return END if len(message.tool_calls) == 0 else "a"


def compare_rest(state: State) -> Literal["a", "__end__"]:
    return "a" if len(state["word"]) > 0 else END


def take_first(state: State) -> Any:
    return {"word": state["word"][1:]}


@cases(
    ("node", "router", "key"),
    (reply, compare_length_in_lines, "messages"),
    (reply, compare_calls, None),
    (take_first, compare_rest, "word"),
    (count_up, compare, "n"),
    (count_variable, compare_variable, "n"),
    (count_down, compare_variable, "n"),
    (add_one, compare_total, "total"),
    (reply, compare_length, "messages"),
    (reply, compare_stored_length, "messages"),
    (reply, compare_content, None),
    (count_up, compare_word, None),
    (step, compare, None),
    (add_length, compare, None),
)
def test_counted_loop_is_not_a_false_alarm(node: Any, router: Any, key: str | None) -> None:
    judged = answer(draft({"a": node}, A, a=router).compile())
    assert judged.status == ("limited" if key is None else "counted")
    assert judged.graph.counters == ({} if key is None else {"a": {key}})
    assert not judged.passes


def test_counter_outside_the_loop_does_not_count() -> None:
    assert answer(draft({"z": count_up, "a": step}, (START, "z"), ("z", "a"), a=compare).compile()).status == "limited"


def test_guard_is_a_way_to_the_end() -> None:
    graph = DeclaredGraph("own", {START: frozenset("a"), "a": frozenset("a")}, guards={"a": Guard("at most 3", 3)})
    assert (judge(graph).status, judge(graph).rounds) == ("bounded", 3)
    assert judge(replace(graph, guards={})).status == "never"
    assert judge(replace(graph, deferred=("a",))).longest is None
    other = {**graph.edges, START: frozenset("ab"), "b": frozenset(["b", END])}
    assert judge(replace(graph, edges=other)).status == "limited"


LIMIT = m.ModelCallLimitMiddleware(run_limit=20)


def limited_tools(behavior: Any, name: str | None = None) -> Any:
    return make_agent(m.ToolCallLimitMiddleware(run_limit=20, exit_behavior=behavior, tool_name=name))


class Overridden(m.ModelCallLimitMiddleware[Any, Any]):
    def after_model(self, state: Any, runtime: Any) -> Any:
        return super().after_model(state, runtime)


def leaving_anywhere() -> Any:
    return draft({"s": LEAVING, "z": step}, (START, "s")).compile()


def declaring_compiled() -> Any:
    return declaring("z").compile()


def chain(limit: int) -> Any:
    return draft(AB, A, ("a", "b")).compile().with_config(recursion_limit=limit)


def react() -> Any:
    return prebuilt.create_react_agent(Insistent(), [search])


def bounded() -> Any:
    return make_agent(Critic(), LIMIT)


def counted() -> Any:
    return draft({"a": count_up}, A, a=compare).compile()


# Graphs, a part of the remedy for each, the graph with the remedy, and its answer.
REMEDIES: list[tuple[Callable[[], Any], str, Callable[[], Any], str]] = [
    (make_agent, "add ModelCallLimitMiddleware(run_limit=20)", bounded, "bounded"),
    (react, "make it with langchain's create_agent", bounded, "bounded"),
    (lambda: make_agent(LIMIT, Critic()), "put ModelCallLimitMiddleware last", bounded, "bounded"),
    (lambda: make_agent(Overridden(run_limit=20)), "let Overridden inherit after_model", bounded, "bounded"),
    (lambda: limited_tools("continue"), "set exit_behavior='end'", lambda: limited_tools("end"), "bounded"),
    (lambda: limited_tools("end", "search"), "leave tool_name='search' out", lambda: limited_tools("end"), "bounded"),
    (
        lambda: compiled(AB, a=anywhere),
        "give add_conditional_edges a path_map for anywhere",
        lambda: compiled(AB, a=OUT),
        "ends",
    ),
    (
        lambda: compiled({"a": command, "b": step}),
        "annotate a with Command[Literal[...]]",
        lambda: compiled({"a": annotated, "b": step}),
        "ends",
    ),
    (leaving_anywhere, "name the targets in add_node('s', destinations=(...))", declaring_compiled, "ends"),
    (looping, "count the rounds in the state, and let a return END", counted, "counted"),
    (
        lambda: draft({"a": step}, A, ("a", "a")).compile(),
        "add_conditional_edges in the place of an edge of a",
        counted,
        "counted",
    ),
    (lambda: chain(2), "set .with_config(recursion_limit=3)", lambda: chain(3), "ends"),
]


def compiled(nodes: dict[str, Any], **routers: Any) -> Any:
    return draft(nodes, A, **routers).compile()


@pytest.mark.medium
@cases(("make", "remedy", "change", "status"), *REMEDIES)
def test_remedy_changes_the_answer(make: Any, remedy: str, change: Any, status: str) -> None:
    before, after = answer(make()), answer(change())
    assert any(remedy in one for one in before.remedies), before.remedies
    assert (before.passes, after.status) == (False, status)
    assert after.passes or status == "counted"


@cases(
    ("limit", "most", "passes"),
    (25, 25, True),
    (25, 24, False),
    (None, 25, False),
)
def test_rounds_are_a_gate(limit: int | None, most: int, passes: bool) -> None:
    graph = LOOP if limit is None else LOOP.with_config(recursion_limit=limit)
    assert answer(graph, max_rounds=most).passes is passes
    assert answer(make_agent(LIMIT), max_rounds=most - 5).passes is (most == 25)


@cases(
    ("looping", "most"),
    (LOOP, 7),
    (draft({"a": step, "b": step}, A, ("a", "b"), b=(anywhere, ["a", END])).compile(), 3),
)
def test_remedy_for_too_many_rounds_passes(looping: Any, most: int) -> None:
    remedy = answer(looping, max_rounds=most).remedies[-1]
    assert remedy == "set .with_config(recursion_limit=7)"
    limited = looping.with_config(recursion_limit=7)
    assert (answer(limited, max_rounds=most).passes, answer(limited, max_rounds=most - 1).passes) == (True, False)


def test_guard_beyond_the_limit_does_not_count() -> None:
    graph = make_agent(m.ModelCallLimitMiddleware(run_limit=100)).with_config(recursion_limit=30)
    judged = answer(graph)
    assert (judged.status, judged.rounds, drive(graph, 30)) == ("bounded", 10, "limited")
    assert not judged.passes
    assert "may stop it before" in tell(judged)
    assert answer(graph.with_config(recursion_limit=(judged.longest or 0) + 1)).passes


@cases(("parent", "own", "limit"), (None, 5, 5), (7, 5, 7), (7, None, 7), (None, None, 10_007))
def test_limit_of_the_parent_takes_precedence(parent: int | None, own: int | None, limit: int) -> None:
    inner = LOOP if own is None else LOOP.with_config(recursion_limit=own)
    outer = draft({"x": inner}, (START, "x")).compile()
    graph = outer if parent is None else outer.with_config(recursion_limit=parent)
    assert load(graph).subgraphs["x"].limit == limit
    if limit < 10:
        with pytest.raises(Exception, match=f"limit of {limit} reached"):
            graph.invoke({"log": []})


@pytest.mark.medium
def test_what_declares_nothing_is_refused() -> None:
    workflow: Any = import_module("langgraph.func").entrypoint()(step)
    remote: Any = import_module("langgraph.pregel.remote").RemoteGraph("x", url="http://127.0.0.1:1")
    refused: Any = (
        (workflow, "@entrypoint"),
        (remote, "remote"),
        (3, "3 is not"),
        (make_agent() | str, "is not a graph"),
    )
    for given, fact in refused:
        with pytest.raises(InputError, match=fact):
            load(given)
    outer = load(draft({"a": workflow}, A).compile())
    assert "@entrypoint" in outer.notes[0]


def test_agents_made_in_a_run_are_named() -> None:
    assert load(within(making).compile()).unseen == ("that create_react_agent makes, by the node x",)


@pytest.mark.medium
def test_graph_of_many_nodes_takes_linear_work() -> None:
    def work(number: int) -> int:
        edges = [(f"n{one}", f"n{one + 1}") for one in range(number - 1)]
        routers = {f"n{one}": (anywhere, [f"n{one // 2}", f"n{one + 2}", END]) for one in range(number - 2)}
        graph = draft({f"n{one}": step for one in range(number)}, (START, "n0"), edges[-1], **routers).compile()
        return count_calls(lambda: answer(graph))

    few = work(30)
    assert few < 25_000
    assert work(60) < 3 * few
