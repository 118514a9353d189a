"""Hold the runs of a compiled graph to its declaration: a node goes where its edges lead, or the run fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from graphexec.errors import GraphexecError, InputError, did_you_mean
from graphexec.integrations.declared.declared import END, START, DeclaredGraph
from graphexec.integrations.langgraph.loading import load

# A compiled graph of any state. It cannot be bound to LangGraph's class, which type checkers do not find.
CompiledT = TypeVar("CompiledT")

# The channels that start nodes of a compiled graph: one of each node, and that of all packets.
_STARTS, _PACKETS = "branch:to:", "__pregel_tasks"


class UndeclaredGotoError(GraphexecError, ValueError):
    """A node went to another node that its declaration does not name. `node` and `target` are their names.

    LangGraph runs such a node, or ignores the command if there is none of that name.
    """

    def __init__(self, node: str, target: str, nodes: Iterable[str]) -> None:
        self.node, self.target = node, target
        known = sorted({*nodes} - {START, END})
        if target in known and node == START:
            reason = f'its declaration does not name; name "{target}" in the path_map of its add_conditional_edges'
        elif target in known:
            reason = (
                f'its declaration does not name; return Command[Literal["{target}"]] in its annotation, or pass '
                f'destinations=("{target}",) to add_node, or path_map to add_conditional_edges'
            )
        else:
            names = f"the nodes are {', '.join(known)}"
            reason = f"is not a node; {did_you_mean(target, known, names)}"
        where = "the start" if node == START else f"the node {node}"
        super().__init__(f"{where} goes to {target!r}, which {reason}")


def held(compiled: CompiledT) -> CompiledT:
    """Return a copy of a graph whose runs raise `UndeclaredGotoError` where a node leaves the declared edges.

    Commands, packets (`Send`) and routers are checked, in the graph and in those that are its nodes, but not a command
    that the caller gives to `invoke`; what `check` says of the declared graph then holds for every run. Otherwise the
    copy gives what the graph gives, by each of its methods. Raises `InputError` for what is not a compiled
    `StateGraph`.
    """
    graph: Any = compiled
    declared = load(graph)
    if not hasattr(graph, "builder"):
        raise InputError("held() takes a compiled graph; pass builder.compile()")
    checked: CompiledT = _hold(graph, declared)
    return checked


# Any, here, above and below: LangGraph's classes of nodes and of their writers are not public.
def _hold(compiled: Any, graph: DeclaredGraph) -> Any:
    nodes: dict[str, Any] = {}
    for name, node in compiled.nodes.items():
        check = _make_check(name, graph)
        changes: dict[str, Any] = {"writers": [_checked(writer, check) for writer in node.writers]}
        # Otherwise, code starts the graph.
        if name in graph.subgraphs and node.bound in node.subgraphs:
            changes["bound"] = _hold(node.bound, graph.subgraphs[name])
            changes["subgraphs"] = [changes["bound"]]
        nodes[name] = node.copy(changes)
    return compiled.copy({"nodes": nodes})


def _make_check(name: str, graph: DeclaredGraph) -> Callable[[str], None]:
    def check(target: str) -> None:
        if target not in {*graph.edges.get(name, ()), END}:
            raise UndeclaredGotoError(name, target, graph.edges)

    return check


def _checked(writer: Any, check: Callable[[str], None]) -> Any:
    """Return a writer of a node that checks what it starts: by commands, or by the choices of a router."""
    if hasattr(writer, "writes"):
        # The class copies its own methods into its fields, so that a shallow copy would write what the original does.
        return type(writer)([_checked_entry(entry, check) for entry in writer.writes])
    if "writer" in getattr(writer, "kwargs", ()):
        routed = copy.copy(writer)
        routed.kwargs = {**writer.kwargs, "writer": _checked_choices(writer.kwargs["writer"], check)}
        return routed
    return writer


def _checked_entry(entry: Any, check: Callable[[str], None]) -> Any:
    # Only an entry that maps the node's value to channels has declared `static` ones.
    if not hasattr(entry, "static"):
        return entry

    def mapped(value: Any) -> Any:
        found = entry.mapper(value)
        for channel, written in found or ():
            if channel.startswith(_STARTS):
                check(channel.removeprefix(_STARTS))
            elif channel == _PACKETS:
                check(written.node)
        return found

    return entry._replace(mapper=mapped)


def _checked_choices(write: Callable[..., Any], check: Callable[[str], None]) -> Callable[..., Any]:
    # The names of nodes, and packets; `static` as LangGraph passes it.
    def checked(choices: Sequence[Any], *static: Any) -> Any:
        for choice in choices:
            check(getattr(choice, "node", choice))
        return write(choices, *static)

    return checked
