"""Read what a compiled graph declares: edges, routers, commands, limits, and the graphs in its nodes.

A task of one step is started by a task of the step before, along an edge, a router, a `Command` or a `Send`. So if the
declarations hold, an endless run is an endless path in what is read here. A join, which waits for several nodes, and
the nodes that run at once are read as choices between them: more paths than there are, and never fewer.
"""

from __future__ import annotations

import functools
import operator
import typing
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from graphexec.errors import InputError, format_value
from graphexec.integrations.declared.declared import END, START, DeclaredGraph
from graphexec.integrations.declared.judging import Judgement, judge
from graphexec.integrations.langgraph.functions import (
    Function,
    arguments_of,
    codes_of,
    functions_of,
    keys_compared,
    keys_counted,
    named_in,
    return_hint,
    runnables_of,
    targets_in,
    use_of,
)
from graphexec.integrations.langgraph.middleware import CallLimits, agents_in_tools, texts_of_made, tools_of
from graphexec.kernel.tables import reachable
from graphexec.verify.paths import strongly_connected_components
from graphexec.verify.reports.subject import SourceLocation

if TYPE_CHECKING:
    # It is a namespace package, whose types pyright reads but reports.
    from langgraph.graph.state import CompiledStateGraph, StateGraph  # pyright: ignore[reportMissingTypeStubs]

    # Any: a graph of any state.
    AnyGraph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any] | StateGraph[Any, Any, Any, Any]

# Packages whose functions are not read for counters: what they declare is enough.
_LIBRARIES = ("deepagents", "langchain", "langgraph")

# Why other objects are refused, by their class.
_REFUSED = {
    "Pregel": "a functional workflow (@entrypoint) declares no edges, because code calls its tasks; check a StateGraph",
    "RemoteGraph": "a remote graph does not say here what its routers return; check it where it is deployed",
}


def check(compiled: AnyGraph, name: str | None = None, *, max_rounds: int | None = None) -> Judgement:
    """Say whether every run of a compiled graph ends, and what ends it; `tell` returns the answer as text.

    With `max_rounds`, an answer passes only if no loop may have more rounds. Raises `InputError` as `load` does.
    """
    return judge(load(compiled, name), max_rounds=max_rounds)


def load(compiled: AnyGraph, name: str | None = None) -> DeclaredGraph:
    """Return what a compiled graph declares. Nothing is run, and no model is called.

    Raises `InputError` for what declares no edges, such as a functional workflow or a remote graph.
    """
    return _Reader(compiled, name).read()


class _Reader:
    """Reads one graph. `leaving` are the nodes of the parent that it may go to: `None` if that may be any."""

    # Any: users pass other objects, too, and the fields of graphs are not typed.
    def __init__(self, compiled: Any, name: str | None, limit: int | None = None, outer: tuple[Any, ...] = ()) -> None:
        """`limit` is the one that the parent has set, and takes the place of its own; it is in the graphs `outer`."""
        builder = getattr(compiled, "builder", compiled)
        if not all(hasattr(builder, field) for field in ("nodes", "edges", "waiting_edges", "branches")):
            other = f"{format_value(compiled)} is not a graph of LangGraph; give a compiled StateGraph"
            raise InputError(_REFUSED.get(type(compiled).__name__, other))
        self.compiled, self.builder, self.outer = compiled, builder, (*outer, compiled)
        self.config: Mapping[str, Any] = getattr(compiled, "config", None) or {}
        self.limit: int | None = limit or self.config.get("recursion_limit")
        self.name = name or str(getattr(compiled, "name", None) or "graph")
        self.specs: dict[str, Any] = dict(builder.nodes)
        self.edges: dict[str, set[str]] = {START: set(), **{node: set[str]() for node in self.specs}}
        self.use_of = functools.cache(functools.partial(use_of, named=functools.cache(named_in)))
        self.functions = {node: functions_of(spec.runnable) for node, spec in self.specs.items()}
        self.leaving: set[str] | None = set()
        self.open: list[str] = []
        self.notes: list[str] = []
        self.advice: list[str] = []
        self.subgraphs: dict[str, DeclaredGraph] = {}

    def read(self) -> DeclaredGraph:
        """Return the graph."""
        for source, target in self.builder.edges:
            self.edges[source].add(target)
        self._add_routers()
        for node in self.specs:
            self._add_commands(node)
        self._add_subgraphs()
        self._add_joins()
        silent = self._add_silent_ends()
        self._note_settings()
        maker = self.config.get("metadata", {}).get("ls_integration")
        limits = CallLimits(self.specs, is_agent=maker in ("langchain_create_agent", "deepagents"))
        modules = {one.__module__ for functions in self.functions.values() for one in functions}
        if "langgraph.prebuilt.chat_agent_executor" in modules:
            limits.advice.append("make it with langchain's create_agent, and ModelCallLimitMiddleware(run_limit=20)")
        tools = [tool for spec in self.specs.values() for tool in tools_of(spec)]
        uses = [(node, self.use_of(one)) for node, functions in self.functions.items() for one in functions]
        made = dict.fromkeys(text for node, use in uses for text in texts_of_made(use.makes, f"by the node {node}"))
        codes = {node: code for node in self.specs for one in self.functions[node] for code in [*codes_of(one)][:1]}
        return DeclaredGraph(
            self.name,
            {node: frozenset(targets) for node, targets in self.edges.items()},
            _default_limit() if self.limit is None else self.limit,
            self.limit is not None,
            guards=limits.guards,
            counters=self._find_counters() | limits.counters,
            open=tuple(self.open),
            silent=silent,
            notes=tuple(self.notes),
            deferred=tuple(node for node, spec in self.specs.items() if spec.defer),
            subgraphs=self.subgraphs,
            unseen=(*agents_in_tools(tools), *made),
            advice=tuple(dict.fromkeys((*self.advice, *limits.advice))),
            places={node: SourceLocation(code.co_filename, code.co_firstlineno) for node, code in codes.items()},
        )

    def _add(self, node: str, targets: set[str] | None, why: str = "", remedy: str = "") -> None:
        """Add edges to the targets that are in the graph; if they are not known, to every node, and say `why`."""
        if targets is None:
            self.open.append(why)
            self.advice.append(remedy)
        every = {*self.specs, END}
        self.edges[node] |= every if targets is None else every & targets

    def _add_routers(self) -> None:
        for source, branches in self.builder.branches.items():
            for name, branch in branches.items():
                ends = None if branch.ends is None else {*branch.ends.values()}
                for function in functions_of(branch.path) if ends is None else ():
                    ends = targets_in(return_hint(function))
                where = "the start" if source == START else source
                why = f"the router {name} of {where} has no path_map, and returns no Literal"
                self._add(source, ends, why, f"give add_conditional_edges a path_map for {name}")

    def _add_commands(self, node: str) -> None:
        """Add the targets of commands: those of the annotation, or all."""
        from langgraph.types import Command

        spec, functions, tools = self.specs[node], self.functions[node], tools_of(self.specs[node])
        kinds = {kind for function in functions for kind in self.use_of(function).commands}
        in_tools = {
            kind for tool in tools for function in functions_of(tool) for kind in self.use_of(function).commands
        }
        declared = {*(spec.ends or ())}
        # LangGraph has read the annotations of nodes, but not those of error handlers.
        for function in functions if kinds and not declared else ():
            declared |= targets_in(return_hint(function), Command) or set()
        self._add(node, declared | ({spec.error_handler_node} - {None}))
        # Tools that hand over to another agent say to which, in LangGraph's packages.
        named = {
            tool.metadata["__handoff_destination"] for tool in tools if "__handoff_destination" in (tool.metadata or ())
        }
        if True in kinds | in_tools:
            self.leaving = named | declared - {*self.specs, END} or None
        why = "returns Command(goto=...), and is not annotated with Command[Literal[...]]"
        if False in kinds and not declared:
            self._add(node, None, f"the node {node} {why}", f"annotate {node} with Command[Literal[...]]")
        if False in in_tools and not declared:
            self._add(
                node, None, f"a tool of {node} {why}", f"name the targets in add_node({node!r}, destinations=(...))"
            )

    def _add_subgraphs(self) -> None:
        """Read the graphs that nodes are, or may invoke."""
        graph: Any = import_module("langgraph.pregel.protocol").PregelProtocol
        known = dict(getattr(self.compiled, "get_subgraphs", dict[str, Any]().items)())
        for node, spec in self.specs.items():
            values = [value for function in self.functions[node] for value in self.use_of(function).values]
            values += [known.get(node), *runnables_of(spec.runnable), *arguments_of(spec.runnable)]
            found = {id(one): one for one in reversed(values) if isinstance(one, graph)}
            for number, inner in enumerate(found.values()):
                self._add_subgraph(node, inner, f"{node} ({number + 1})" if number else node)

    def _add_subgraph(self, node: str, inner: Any, name: str) -> None:
        if inner in self.outer:
            self.notes.append(f"{node} may invoke the graph that it is in, and nothing bounds how often")
            return
        try:
            reader = _Reader(inner, name, self.limit, self.outer)
        except InputError as error:
            self.notes.append(f"the graph in {node} is not read: {error}")
            return
        self.subgraphs[name] = reader.read()
        leaving = set[str]() if reader.leaving is None and self.specs[node].ends else reader.leaving
        why = f"the graph in {node} returns Command(goto=..., graph=Command.PARENT)"
        self._add(node, leaving, why, f"name the targets in add_node({node!r}, destinations=(...))")

    def _add_joins(self) -> None:
        """Add the edges of joins, but not of those of which a node is never reached: they wait for ever."""
        waiting, seen = list(self.builder.waiting_edges), set[str]()
        while True:
            seen = reachable(START, [(source, target) for source, several in self.edges.items() for target in several])
            complete = [join for join in waiting if seen.issuperset(join[0])]
            for sources, target in complete:
                waiting.remove((sources, target))
                for source in sources:
                    self.edges[source].add(target)
            if not complete:
                break
        for sources, target in waiting:
            never = [source for source in sources if source not in seen]
            self.notes.append(f"the edge from {' and '.join(sources)} to {target} waits for {' and '.join(never)}")
        if unreached := [node for node in self.specs if node not in seen]:
            self.notes.append(f"never reached: {', '.join(unreached)}")

    def _add_silent_ends(self) -> tuple[str, ...]:
        """Add an edge to `END` where nothing may follow, and remove it where an edge always leads on.

        Return the nodes that nothing follows.
        """
        from langgraph.types import Command

        following = {source for source, target in self.builder.edges if target != END}
        ending = {source for source, _ in self.builder.edges} - following
        rest = [node for node in self.specs if node not in {*following, *ending, *self.builder.branches}]
        silent = tuple(node for node in rest if not self.edges[node])
        for node in following:
            self.edges[node].discard(END)
        for node in rest:
            # A node that is annotated with commands alone always returns one, but perhaps without a target.
            hints = [return_hint(one) for one in self.functions[node] if self.specs[node].ends]
            updating = any(self.use_of(one).updates for one in self.functions[node])
            if updating or not any(typing.get_origin(hint) is Command for hint in hints):
                self.edges[node].add(END)
        return silent

    def _find_counters(self) -> dict[str, frozenset[str]]:
        """Return the nodes whose way out compares a number that a node in a loop with them counts."""
        routers = {
            node: [one for one in functions if self.use_of(one).commands] for node, functions in self.functions.items()
        }
        for node, branches in self.builder.branches.items():
            routers.setdefault(node, []).extend(
                one for branch in branches.values() for one in functions_of(branch.path)
            )
        keys, lists, numbers = {*self.builder.channels}, set[str](), set[str]()
        for key, channel in self.builder.channels.items():
            reducer = getattr(channel, "operator", None)
            if reducer is operator.add or getattr(reducer, "__name__", "") == "_add_messages":
                (numbers if getattr(channel, "value", None) == 0 else lists).add(key)
        compared = {
            node: {key for one in _own(several) for key in keys_compared(one, keys, lists)}
            for node, several in routers.items()
        }
        wanted = set[str]().union(*compared.values())
        following = {node: targets - {END} for node, targets in self.edges.items()} if wanted else {}
        found: dict[str, frozenset[str]] = {}
        for component in strongly_connected_components(following):
            functions = [one for node in component for one in _own(self.functions.get(node, []))]
            counted = set[str]().union(*(keys_counted(one, wanted, lists | numbers) for one in functions))
            found |= {node: frozenset(both) for node in component if (both := compared.get(node, set()) & counted)}
        return found

    def _note_settings(self) -> None:
        for name in getattr(self.builder, "managed", ()):
            self.notes.append(f"{name} tells a node how near the limit is, so that it may end the run before")
        settings = {when: getattr(self.compiled, f"interrupt_{when}_nodes", ()) for when in ("before", "after")}
        asking = [
            f"{when} {'every node' if nodes == '*' else ', '.join(nodes)}" for when, nodes in settings.items() if nodes
        ]
        for node, functions in self.functions.items():
            if any("interrupt" in code.co_names for one in functions for code in codes_of(one)):
                asking.append(f"at {node}")
        self.notes += [f"a person is asked {where}, which bounds no loop" for where in asking]


def _own(functions: list[Function]) -> list[Function]:
    return [one for one in functions if not (one.__module__ or "").startswith(_LIBRARIES)]


def _default_limit() -> int:
    # It is public in no module, and the environment may change it.
    return int(import_module("langgraph._internal._config").DEFAULT_RECURSION_LIMIT)
