"""Change a machine: each operation returns a new, validated graph and leaves the old one unchanged."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar, overload

from graphexec.errors import Fault, GraphError, InputError, NodeError, format_value
from graphexec.kernel.effects import O
from graphexec.kernel.graph import Graph, M, Table, change_table, check_table, edges_of, require_graph
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import END, Edge, I, Node
from graphexec.kernel.node import node as as_node
from graphexec.kernel.tables import Subgraph, add_frame, reachable

S = TypeVar("S")
F = TypeVar("F")
G = TypeVar("G")
K = TypeVar("K")
T = TypeVar("T")
S_contra = TypeVar("S_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)


def replace(machine: M, new: Node[Any, Any], *, narrowed: bool = False) -> M:
    """Replace the node that has the name of `new`, and keep its edges and the piece that it belongs to.

    `narrowed` drops the edges for outcomes that `new` does not return, and the nodes that only they lead to.

    Raises `GraphError` if there is no such node, if the edges do not fit what `new` takes or returns, or if `new` lacks
    a meter of the old node.
    """
    _require_node(machine, new.name)
    lost = [meter.name for meter in machine[new.name].meters if meter not in new.meters]
    if lost:
        text = f"{new.name} is metered by {', '.join(lost)} in the graph and not in its replacement; add meters=[...]"
        raise GraphError([Fault("GX025", new.name, None, f"{text} to its @node")])
    group = machine[new.name].group
    kept = new if new.group or not group else dataclasses.replace(new, group=group)
    nodes = [kept if node.name == new.name else node for node in machine]
    edges = [*machine.edges]
    if narrowed:
        edges = [edge for edge in edges if edge.source != new.name or edge.outcome in new.outcomes]
        left = reachable(machine.start, [(edge.source, edge.target) for edge in edges])
        nodes = [node for node in nodes if node.name in left]
        edges = [edge for edge in edges if edge.source in left]
    return change_table(machine, nodes, edges)


def splice(
    machine: Graph[S, F],
    table: Table[G],
    *,
    after: Node[Any, Any] | Sequence[Node[Any, Any]],
    on: type | Sequence[type],
) -> Graph[S, F | G]:
    """Insert the rows of `table` into the edges from the nodes `after` for the outcomes `on`.

    Raises `GraphError` if there is no such edge, or if the new table is not total.
    """
    sources = _each("after", after, Node, "a node")
    outcomes = _each("on", on, type, "an outcome class")
    old = _edges_between(machine, sources, outcomes)
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
    # The class of the machine, whose outcomes are more than before.
    kind: type[Graph[S, F | G]] = type(machine)
    nodes = [*machine, *(source for source, _ in table.rows)]
    return check_table(kind, nodes, [*edges, *added], machine.start, settings=machine.settings)


def _each(option: str, given: K | Sequence[K], kind: type[K], what: str) -> list[K]:
    """Return one value, or several, as a list. Raises `InputError` for an empty list and for other values."""
    # Any: users without a type checker pass names, sets and generators.
    value: Any = given
    several: list[Any] = [*value] if type(value) in (list, tuple) else [value]
    if not several or not all(isinstance(one, kind) for one in several):
        raise InputError(f"splice has {option}={format_value(value)}; give {what}, or a list of them")
    return several


def _edges_between(machine: Graph[Any, Any], sources: Sequence[Node[Any, Any]], outcomes: Sequence[type]) -> list[Edge]:
    """Return the edges of these nodes for these outcomes. Raises unless each node and each outcome has one."""
    matches: list[Edge] = []
    faults: list[Fault] = []
    for source in sources:
        _require_node(machine, source.name)
        row = [edge for edge in machine.edges if edge.source == source.name]
        fitting = [edge for edge in row if edge.outcome in outcomes]
        matches += fitting
        if not fitting:
            wanted = " or ".join(outcome.__name__ for outcome in outcomes)
            text = f"{source.name} has no edge for {wanted}; splice on one of"
            available = ", ".join(edge.outcome.__name__ for edge in row)
            faults.append(Fault("GX026", source.name, wanted, f"{text} {available}"))
    taken = {edge.outcome for edge in matches}
    names = ", ".join(source.name for source in sources)
    faults += [
        Fault("GX026", None, name, f"none of {names} has an edge for {name}; leave {name} out of on=")
        for name in (outcome.__name__ for outcome in outcomes if matches and outcome not in taken)
    ]
    if faults:
        raise GraphError(faults)
    return matches


class HasGraph(Protocol[S_contra, F_co]):
    """An object with a `graph`, such as an executor."""

    @property
    def graph(self) -> Graph[S_contra, F_co]:
        """The machine itself."""
        ...


@overload
def embed(child: Graph[S, F] | HasGraph[S, F], name: str, *, own: Sequence[Meter] = ()) -> Node[S, F]: ...
@overload
def embed(
    child: Graph[S, F] | HasGraph[S, F],
    name: str,
    *,
    own: Sequence[Meter] = (),
    enter: Callable[[K], S | G] | Node[K, S | G],
    leave: Callable[[Any, K], Any] | None = None,
    each: Meter | None = None,
    when_spent: Callable[[K, Exhausted], object] | None = None,
) -> Node[K, Any]: ...
def embed(
    child: Graph[Any, Any] | HasGraph[Any, Any],
    name: str,
    *,
    own: Sequence[Meter] = (),
    enter: Callable[[Any], Any] | Node[Any, Any] | None = None,
    leave: Callable[..., Any] | None = None,
    each: Meter | None = None,
    when_spent: Callable[[Any, Exhausted], object] | None = None,
) -> Node[Any, Any]:
    """Return a node that is a whole graph: its value starts `child`, and the results of `child` are its outcomes.

    A table inlines its nodes, named `name.plan`. Each entry resets its `own` meters: `own=[Meter("iterations", 5)]`
    allows 5 iterations per entry. Other meters and limits are those of the run. A child with settings keeps them: the
    model, tools, memory and handlers of an executor answer its nodes. Without settings, it has those of the run.

    `enter(outer)` is a pure function that makes the start of `child` from another class of values; its other outcomes
    leave the node at once. Its argument is saved in the run's state, and `leave(ending, outer)` receives it with an
    ending of `child`; endings that it does not take leave the node unchanged. Both are nodes, `name.enter` and
    `name.leave`. With `each=Meter("rounds", 3)` it is a loop: outcomes of `leave` that `enter` takes lead back to
    `enter`, which is visited at most 3 times; then `when_spent(outer, exhausted)` returns the outcome. `each` counts
    per run or, in `own`, per entry from outside.

    Raises `NodeError` for a name that is not an identifier, for an own meter that no node costs, and for functions
    that do not fit `child`, and `InputError` if `child` has no graph.
    """
    # Users without a type checker pass tables and functions.
    given: Any = getattr(child, "graph", child)
    require_graph(given, "embed(graph, name)")
    machine: Graph[Any, Any] = given
    # A quota is for a run of the child, and an entry is no run.
    parts = tuple(
        part if part.settings else dataclasses.replace(part, settings=machine.settings or None, quotas=())
        for part in machine
    )
    inner = Subgraph(parts, machine.edges, machine.start, tuple(own))
    if enter is not None:
        inner = add_frame(name, inner, _meter_entry(name, enter, each, when_spent), leave, each)
    elif leave is not None or each is not None or when_spent is not None:
        option = next(one for one, value in (("leave", leave), ("each", each), ("when_spent", when_spent)) if value)
        raise NodeError(f"{name} has {option}= without enter=; pass enter, a function that starts the graph")
    spent = dict.fromkeys(meter.name for part in inner.nodes for meter in part.meters)
    for meter in own:
        if meter.name not in spent:
            raise NodeError(
                f"{name} cannot own {meter.name}, which meters none of its nodes; "
                f"own one of {', '.join(spent) or 'none'}"
            )
    endings = tuple(dict.fromkeys(edge.outcome for edge in inner.edges if edge.target == END.name))
    takes = next(part.takes for part in inner.nodes if part.name == inner.start)
    # A table inlines the node, so nothing calls its function.
    whole: Node[Any, Any] = Node(name, "pure", same, takes=takes, outcomes=endings, returns=endings, inner=inner)
    return as_node(name=name)(whole)


def _meter_entry(
    name: str,
    enter: Callable[[Any], Any] | Node[Any, Any],
    each: Meter | None,
    when_spent: Callable[[Any, Exhausted], object] | None,
) -> Callable[[Any], Any] | Node[Any, Any]:
    """Return `enter`, metered by `each` if there is one."""
    if each is None:
        if when_spent is not None:
            raise NodeError(f"{name} has when_spent= without each=; pass each, the meter that limits its rounds")
        return enter
    if when_spent is None:
        raise NodeError(f"{name} has each={each} without when_spent=; pass a function of the value and the limit")
    if each.limit is None:
        raise NodeError(f'{name} has each={each}, which has no limit; write Meter("{each.name}", 3)')
    return as_node(when_spent=when_spent, meters=[each])(enter)


def wrap(
    machine: M,
    wrapped: Node[I, O],
    *,
    before: Callable[[I], I] | None = None,
    after: Callable[[O], O] | None = None,
) -> M:
    """Change the argument of a node (`before`) or its outcome (`after`); both are pure functions of one value.

    `after` receives the outcome of the node's function, but not the outcome for a limit, and returns a declared
    outcome. Raises `GraphError` if there is no such node.
    """
    _require_node(machine, wrapped.name)
    inner = machine[wrapped.name]
    change = after or same
    function = wrap_function(inner, before or same, lambda outcome, _: change(outcome))
    return replace(machine, dataclasses.replace(inner, function=function))


def wrap_function(
    inner: Node[Any, Any], before: Callable[[Any], Any], after: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """Return the node's function with its argument changed, and its outcome by `after(outcome, value)`."""
    function = inner.function

    # The function's further parameters are filled when it runs.
    def pure(value: Any, **settings: Any) -> Any:
        return after(function(before(value), **settings), value)

    def asks(value: Any, **settings: Any) -> Generator[Any, Any, Any]:
        node: Generator[Any, Any, Any] = function(before(value), **settings)
        return after((yield from node), value)

    async def awaits(value: Any, **settings: Any) -> Any:
        return after(await function(before(value), **settings), value)

    if inner.kind == "asks":
        wrapper: Callable[..., Any] = asks
    else:
        wrapper = awaits if inspect.iscoroutinefunction(function) else pure
    return functools.update_wrapper(wrapper, function)


def same(value: T) -> T:
    """Return the value."""
    return value


def _require_node(machine: Graph[Any, Any], name: str) -> None:
    if name not in machine:
        text = f"the graph has no node {name}; its nodes are {', '.join(machine.nodes)}"
        raise GraphError([Fault("GX001", name, None, text)])
