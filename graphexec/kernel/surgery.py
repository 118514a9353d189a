"""Changing a machine: each operation returns a new graph, checked like any other, and leaves the old one as it is."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from graphexec.errors import Fault, GraphError, InputError, NodeError, format_value
from graphexec.kernel.effects import O
from graphexec.kernel.graph import Graph, Table, check_table, edges_of, require_graph
from graphexec.kernel.meters import Budget, Limits, Meter
from graphexec.kernel.node import END, Edge, I, Node, Subgraph, rename
from graphexec.kernel.validation import reachable

S = TypeVar("S")
F = TypeVar("F")
G = TypeVar("G")
K = TypeVar("K")
S_contra = TypeVar("S_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)


def replace(
    machine: Graph[S, F], new: Node[Any, Any], *, narrowed: bool = False, allow_nonterminating: bool = False
) -> Graph[S, F]:
    """Put `new` in the place of the node of the same name: same edges (`narrowed`: without those it cannot return).

    Raises `GraphError` if there is no such node, if `new` takes or returns something that the edges do not fit, if it
    lacks a meter of the old one, or if runs were provable and are not any more, as with `splice`.
    """
    _require_node(machine, new.name)
    lost = [budget.name for budget in machine[new.name].meters if budget not in new.meters]
    if lost:
        text = f"{new.name} is metered by {', '.join(lost)} in the graph and not in its replacement; decorate it with"
        raise GraphError([Fault("GX025", new.name, None, f"{text} @metered(...)")])
    nodes = [new if node.name == new.name else node for node in machine]
    edges = [edge for edge in machine.edges if edge.source != new.name or not narrowed or edge.outcome in new.outcomes]
    changed = check_table(nodes, edges, machine.start)
    return changed if allow_nonterminating else _check_still_provable(changed, machine)


def splice(
    machine: Graph[S, F],
    table: Table[G],
    *,
    after: Node[Any, Any] | Sequence[Node[Any, Any]],
    on: type | Sequence[type],
    allow_nonterminating: bool = False,
) -> Graph[S, F | G]:
    """Put a node on an edge: the outcome `on` of the node `after` now goes to the first node of `table`.

    `table` holds the rows of the new node (or nodes), which may lead to nodes of the machine: `splice(machine,
    edges(guard, on(Paid, ship) | on(Refused, END)), after=charge, on=Paid)`. With several nodes or outcomes,
    `after=[charge, invoice]`, it is put on every edge of one of the nodes for one of the outcomes.

    Raises `GraphError` if there is no such edge, if the result is not a total table, or if the machine could be proved
    under some limits before and cannot any more, unless it `allow_nonterminating`. Under which limits it is proved is
    seen where they are known: by `verify`, by runs, and by an executor (`AgentExecutor.splice`).
    """
    sources = _each("after", after, Node, "a node")
    outcomes = _each("on", on, type, "an outcome class")
    old = _edges_between(machine, sources, outcomes, "splice on")
    entry = table.rows[0][0].name
    added = [edge for source, routes in table.rows for edge in edges_of(source, routes)]
    names = [source.name for source, _ in table.rows]
    faults = [
        Fault("GX020", name, None, f"the graph already has a node {name}; rename the function, or use replace")
        for name in names
        if name in machine or names.count(name) > 1
    ]
    for edge in added:
        if edge.target not in machine and edge.target not in (*names, END.name):
            text = f"{edge.source} leads to {edge.target}, which is not in the graph; add edges({edge.target}, ...) to"
            faults.append(Fault("GX001", edge.source, edge.outcome.__name__, f"{text} the table"))
    if faults:
        raise GraphError(faults)
    edges = [dataclasses.replace(edge, target=entry) if edge in old else edge for edge in machine.edges]
    changed = check_table([*machine, *(source for source, _ in table.rows)], [*edges, *added], machine.start)
    return changed if allow_nonterminating else _check_still_provable(changed, machine)


def drop_edge(
    machine: Graph[S, F], *, after: Node[Any, Any], on: type, allow_nonterminating: bool = False
) -> Graph[S, F]:
    """Remove an edge, and the nodes to which only it leads: the node `after` is not to return `on` any more.

    A run in which it does is stopped with an `UndeclaredOutcomeError`. Raises `GraphError` if there is no such edge, if
    it is the node's only one or the one that a spent limit takes, and as `splice` does.
    """
    if not isinstance(after, Node) or not isinstance(on, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        text = "it drops one edge: give a node and an outcome class"
        raise InputError(f"drop_edge has after={format_value(after)} and on={format_value(on)}; {text}")
    (dropped,) = _edges_between(machine, [after], [on], "drop")
    node = machine[after.name]
    kept = tuple(outcome for outcome in node.outcomes if outcome is not on)
    if on is node.spent_outcome:
        text = f"{node.name} is left with {on.__name__} when a limit is spent; keep the edge, or splice on it"
        raise GraphError([Fault("GX008", node.name, on.__name__, text)])
    if not kept:
        text = f"{node.name} returns nothing but {on.__name__}; keep the edge, or splice on it"
        raise GraphError([Fault("GX005", node.name, on.__name__, text)])
    narrowed = dataclasses.replace(node, outcomes=kept, returns=tuple(one for one in node.returns if one is not on))
    edges = [edge for edge in machine.edges if edge is not dropped]
    left = reachable(machine.start, [(edge.source, edge.target) for edge in edges])
    nodes = [narrowed if one is node else one for one in machine if one.name in left]
    changed = check_table(nodes, [edge for edge in edges if edge.source in left], machine.start)
    return changed if allow_nonterminating else _check_still_provable(changed, machine)


def _each(option: str, given: K | Sequence[K], kind: type[K], what: str) -> list[K]:
    """Return one value as a list, and several as they are. Raises `InputError` for none, and for other things."""
    # Any: a front door, where names, sets and generators come too.
    value: Any = given
    several: list[Any] = [*value] if type(value) in (list, tuple) else [value]
    if not several or not all(isinstance(one, kind) for one in several):
        raise InputError(f"splice has {option}={format_value(value)}; give {what}, or a list of them")
    return several


def _edges_between(
    machine: Graph[Any, Any], sources: Sequence[Node[Any, Any]], outcomes: Sequence[type], verb: str
) -> list[Edge]:
    """Return the edges of these nodes for these outcomes; each node has to have one, and each outcome."""
    found: list[Edge] = []
    faults: list[Fault] = []
    for source in sources:
        _require_node(machine, source.name)
        row = [edge for edge in machine.edges if edge.source == source.name]
        fitting = [edge for edge in row if edge.outcome in outcomes]
        found += fitting
        if not fitting:
            wanted = " or ".join(outcome.__name__ for outcome in outcomes)
            text = f"{source.name} has no edge for {wanted}; {verb} one of"
            has = ", ".join(edge.outcome.__name__ for edge in row)
            faults.append(Fault("GX026", source.name, wanted, f"{text} {has}"))
    taken = {edge.outcome for edge in found}
    names = ", ".join(source.name for source in sources)
    faults += [
        Fault("GX026", None, name, f"none of {names} has an edge for {name}; leave {name} out of on=")
        for name in (outcome.__name__ for outcome in outcomes if found and outcome not in taken)
    ]
    if faults:
        raise GraphError(faults)
    return found


class HasGraph(Protocol[S_contra, F_co]):
    """An object with a `graph`, such as an executor."""

    @property
    def graph(self) -> Graph[S_contra, F_co]:
        """The machine itself."""
        ...


def embed(child: Graph[S, F] | HasGraph[S, F], name: str, *, own: Sequence[Budget] = ()) -> Node[S, F]:
    """Return a node that is a whole graph: what it takes starts `child`, what ends `child` are its outcomes.

    In a table its nodes stand inlined, named `name.plan`. Its `own` budgets are full again at each entry:
    `own=[Budget("iterations", 5)]` gives it 5 iterations each time. Other budgets, limits and handlers are those of the
    run: of an executor (`child` may be one) only the graph is embedded, and an executor with another agent, other tools
    or other handlers refuses it (`with_graph`).

    Raises `NodeError` for a name that is not an identifier, and for a budget that meters nothing in `child`, and
    `InputError` if `child` has no graph.
    """
    # Users without a type checker pass tables, and functions.
    given: Any = getattr(child, "graph", child)
    require_graph(given, "embed(graph, name)")
    machine: Graph[S, F] = given
    spent = dict.fromkeys(budget.name for node in machine for budget in node.meters)
    for budget in own:
        if budget.name not in spent:
            raise NodeError(
                f"{name} cannot own {budget.name}, which meters no node of it; own one of {', '.join(spent) or 'none'}"
            )
    endings = tuple(dict.fromkeys(edge.outcome for edge in machine.edges if edge.target == END.name))

    def stands_for_a_graph(value: Any) -> Any:
        raise AssertionError(f"{name} is inlined, so {value!r} does not come here")

    takes = machine[machine.start].takes
    whole: Node[S, F] = Node(
        name,
        "pure",
        stands_for_a_graph,
        takes=takes,
        outcomes=endings,
        returns=endings,
        inner=Subgraph(tuple(machine), machine.edges, machine.start, tuple(own)),
    )
    return rename(whole, name)


def wrap(
    machine: Graph[S, F],
    wrapped: Node[I, O],
    *,
    before: Callable[[I], I] | None = None,
    after: Callable[[O], O] | None = None,
) -> Graph[S, F]:
    """Change what a node is given (`before`) or returns (`after`); both are pure functions of one value.

    `after` sees what the node's function returns, not the outcome of a spent limit, and returns a declared outcome.
    Raises `GraphError` if there is no such node.
    """
    _require_node(machine, wrapped.name)
    inner = machine[wrapped.name]
    function = _wrap_function(inner, before or _same, after or _same)
    functools.update_wrapper(function, inner.function)
    return replace(machine, dataclasses.replace(inner, function=function))


def bind(machine: Graph[S, F], *settings: object) -> Graph[S, F]:
    """Supply the settings of the machine's nodes: each parameter gets the one of `settings` that is of its class.

    Unused settings are ignored, and nodes that are bound stay so. Raises `GraphError` if a parameter fits none of
    them, or several.
    """
    faults: list[Fault] = []
    nodes: list[Node[Any, Any]] = []
    for node in machine:
        found: dict[str, object] = {}
        for name, kinds in node.settings.items():
            fitting = [setting for setting in settings if isinstance(setting, kinds)]
            if len(fitting) == 1:
                found[name] = fitting[0]
                continue
            how = f"{len(fitting)} were given" if fitting else "none was given"
            wanted = " | ".join(kind.__name__ for kind in kinds)
            text = f"{node.name} needs one {wanted} for {name}, and {how}; pass it to bind(machine, ...)"
            faults.append(Fault("GX024", node.name, None, text))
        if found:
            function = functools.partial(node.function, **found)
            node = dataclasses.replace(node, function=function, settings={}, bound=settings)  # noqa: PLW2901
        elif node.kind == "asks" and not node.bound:
            node = dataclasses.replace(node, bound=settings)  # noqa: PLW2901
        nodes.append(node)
    if faults:
        raise GraphError(faults)
    return check_table(nodes, machine.edges, machine.start)


# A limit for whatever has none: as high as no node asks for at a time, so that every edge may be taken.
_AMPLE = 1_000


def _check_still_provable(changed: Graph[S, F], machine: Graph[Any, Any]) -> Graph[S, F]:
    """Return the changed machine, unless the change is what keeps its runs from being proved to end."""
    found = _obstacles(changed)
    if found and not _obstacles(machine):
        raise GraphError(found)
    return changed


def _obstacles(machine: Graph[Any, Any]) -> list[Fault]:
    """Return what stands against a proof where all that can be limited is; nothing if there are limits for a proof.

    It tries every limit set, and then none on iterations, on what effects charge, or on both: a loop that is taken when
    a limit is spent is not there without that limit. Budgets of the machine's own always have one.
    """
    charged = {meter: _AMPLE for node in machine for effect in node.effects for meter in effect.charges}
    budgets = {name: _AMPLE if limit is None else limit for name, limit in machine.budgets.items()}
    metering: tuple[dict[Meter, int], ...] = (charged, {})
    tried = (
        machine.verify(Limits(meters, iterations=iterations, budgets=budgets))
        for iterations in (_AMPLE, None)
        for meters in metering
    )
    first = next(tried)
    if first.proved or any(verdict.proved for verdict in tried):
        return []
    errors = [finding for finding in first.findings if finding.severity == "error"]
    return [Fault(one.code, one.node, one.outcome, f"{one.fact}; {one.remedy}") for one in errors]


def _wrap_function(
    inner: Node[Any, Any], before: Callable[[Any], Any], after: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    function = inner.function

    # `settings` are the function's own, forwarded whole: a graph may be wrapped before it is bound.
    def pure(value: Any, **settings: Any) -> Any:
        return after(function(before(value), **settings))

    def asks(value: Any, **settings: Any) -> Generator[Any, Any, Any]:
        node: Generator[Any, Any, Any] = function(before(value), **settings)
        return after((yield from node))

    async def awaits(value: Any, **settings: Any) -> Any:
        return after(await function(before(value), **settings))

    if inner.kind == "asks":
        return asks
    return awaits if inspect.iscoroutinefunction(function) else pure


def _same(value: Any) -> Any:
    return value


def _require_node(machine: Graph[Any, Any], name: str) -> None:
    if name not in machine:
        text = f"the graph has no node {name}; its nodes are {', '.join(machine.nodes)}"
        raise GraphError([Fault("GX001", name, None, text)])
