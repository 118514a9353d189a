"""The transition table: it maps each outcome of each node to the next node. A graph is only built of a total table.

A row is `edges(review, on(Approved, ship) | on(Refused, END))`, a table is rows joined with `|`, and `graph(table,
start=review)` is the machine. Type checkers verify that the table is total, and `graph` verifies it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Never, Self, TypeVar, overload

from graphexec._mistakes import explain_calls
from graphexec.errors import Fault, GraphError, InputError, NodeError, did_you_mean, format_value
from graphexec.kernel.effects import O
from graphexec.kernel.meters import ITERATIONS, Limits, Meter
from graphexec.kernel.node import Edge, End, Node, require_node
from graphexec.kernel.tables import faults_of, inline_subgraphs

H_contra = TypeVar("H_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)
S = TypeVar("S")
F = TypeVar("F")
G = TypeVar("G")
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trait:
    """A setting that no table shows, and that another version of the machine may have otherwise: its name, its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """The target of one class of outcomes, and the meters that this edge resets."""

    outcome: type
    target: Node[Any, Any] | End
    resets: tuple[Meter, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Routes(Generic[H_contra, F_co]):
    """Routes for the outcome classes `H`, of which `F` end the run. Created by `on`, joined with `|`."""

    routes: tuple[Route, ...]

    def __call__(self, outcome: H_contra) -> F_co:
        """For type checkers alone, a function from each outcome to the class that ends the run; see `edges`."""
        raise AssertionError(f"routes are not called, but joined in edges(node, ...); the outcome is {outcome!r}")

    def __or__(self: Routes[A, F], other: Routes[B, G]) -> Routes[A | B, F | G]:
        return Routes(self.routes + other.routes)


@dataclass(frozen=True, slots=True, eq=False)
class Table(Generic[F_co]):
    """Rows of a transition table; the outcomes `F` end the run. Created by `edges`, joined with `|`."""

    rows: tuple[tuple[Node[Any, Any], Routes[Any, Any]], ...]

    def __or__(self: Table[F], other: Table[G]) -> Table[F | G]:
        return Table(self.rows + other.rows)


@overload
def on(outcome: type[O], target: End, *, resets: Sequence[Meter] = ()) -> Routes[O, O]: ...
@overload
def on(outcome: type[O], target: Node[O, object], *, resets: Sequence[Meter] = ()) -> Routes[O, Never]: ...
@explain_calls("on", "on(Outcome, target)", {})
def on(outcome: type[Any], target: Node[Any, Any] | End, *, resets: Sequence[Meter] = ()) -> Routes[Any, Any]:
    """Route outcomes of exactly the class `outcome` to the node `target`, or end the run with them (`END`).

    Taking this edge resets the meters in `resets`: `on(Next, work, resets=[REVISIONS])`. Raises `NodeError` if
    `outcome` is not one class, or `target` is not a node.
    """
    # Users without a type checker write on("Outcome", ...) and on(A | B, ...).
    if not isinstance(outcome, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeError(f"{outcome!r} is not an outcome class; write on(Outcome, target), one for each class")
    if not isinstance(target, End):
        require_node(target, "decorate the function with @node")
    # Users without a type checker pass names, and a single meter.
    if not isinstance(resets, (list, tuple)) or not all(isinstance(one, Meter) for one in resets):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeError(f"on({outcome.__name__}, ...) has resets={resets!r}; write resets=[METER], a list of meters")
    return Routes((Route(outcome, target, tuple(resets)),))


@explain_calls("edges", "edges(node, on(Outcome, target))", {})
def edges(source: Node[Never, O], routes: Callable[[O], F]) -> Table[F]:
    """Return the row of `source`: `routes` has one `on` for each outcome. Raises `NodeError` for other arguments."""
    require_node(source, "decorate the function with @node")
    # `routes` is typed as a function of every outcome: with `Routes[O, F]`, pyright would infer `O` from the routes
    # themselves, and accept a row without a route for some outcome.
    if not isinstance(routes, Routes):
        raise NodeError(f"the routes of {source.name} are {routes!r}; write on(Outcome, target) | on(...)")
    return Table(((source, Routes(routes.routes)),))


class Graph(Generic[S_contra, F_co]):
    """A validated, immutable machine that starts with an `S` and ends with an `F`; created by `graph` and by surgery.

    `nodes` maps names to nodes, and `edges` lists every transition. `meters` maps names to the meters of its nodes and
    effects, without the iterations; `own` has the limits of those that its nodes cost. `settings` are the values for
    its nodes' further parameters. `str(machine)` lists its edges.
    """

    def __init__(
        self, nodes: Iterable[Node[Any, Any]], edges: Iterable[Edge], start: str, settings: tuple[object, ...] = ()
    ) -> None:
        # What is compiled and proved of the graph; see `cached_for_limits`.
        self.caches: dict[Callable[..., Any], Callable[[Limits], Any]] = {}
        self.settings = settings
        self.nodes: Mapping[str, Node[Any, Any]] = MappingProxyType({node.name: node for node in nodes})
        self.edges = tuple(edges)
        self.start = start
        carried = (*self.nodes[start].takes, *(edge.outcome for edge in self.edges))
        own: list[Meter] = []
        for node in self.nodes.values():
            own += node.meters
            own += [Meter(one.name, one.limit) for one in node.quotas if one.name]
        # The limit of iterations is in `Limits`.
        costs = {one.name: one for one in own if one.name != ITERATIONS.name}
        # Any: a whole number or `None`, as node meters are whole.
        limits: dict[str, Any] = {name: one.limit for name, one in costs.items()}
        self.own: Mapping[str, int | None] = MappingProxyType(limits)
        effects = [effect for node in self.nodes.values() for effect in node.effects]
        charged = {meter.name: meter for effect in effects for meter in (*effect.charges, *effect.measures)}
        self.meters: Mapping[str, Meter] = MappingProxyType(charged | costs)
        self.outcomes: Mapping[str, type] = MappingProxyType({kind.__name__: kind for kind in carried})

    @property
    def effect_meters(self) -> Mapping[str, Meter]:
        """The meters of its effects, which count in outer runs, too."""
        return {name: meter for name, meter in self.meters.items() if name not in self.own}

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(
                f"a graph is immutable, so its {name} cannot be set; make another one with replace, splice or wrap"
            )
        super().__setattr__(name, value)

    def with_settings(self, *settings: object) -> Self:
        """Return the machine with other settings: each further parameter of a node receives the one of its class.

        Unused settings are ignored, and embedded machines keep their own. A run raises `GraphError` before its first
        step if a parameter fits no setting, or several.
        """
        return type(self)(self, self.edges, self.start, settings)

    def find_settings(self, kind: type[T]) -> list[T]:
        """Return the settings of a class, those of embedded machines included, each once."""
        groups = (self.settings, *(node.settings or () for node in self))
        return list({id(one): one for group in groups for one in group if isinstance(one, kind)}.values())

    def __getitem__(self, name: str) -> Node[Any, Any]:
        try:
            return self.nodes[name]
        except KeyError:
            hint = did_you_mean(name, self.nodes, f"its nodes are {', '.join(self.nodes)}")
            raise KeyError(f"the graph has no node {name}; {hint}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.nodes

    def __iter__(self) -> Iterator[Node[Any, Any]]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes and {len(self.edges)} edges, start={self.start}>"

    def __str__(self) -> str:
        """Return the edges, a line for each, in the order in which a run comes to their nodes."""
        order: dict[str, None] = {}
        waiting = [*(edge.source for edge in reversed(self.edges)), self.start]
        while waiting:
            name = waiting.pop()
            if name not in order:
                order[name] = None
                waiting += [edge.target for edge in reversed(self.edges) if edge.source == name]
        return "\n".join(str(edge) for name in order for edge in self.edges if edge.source == name)


# The class of a graph, which a changed graph keeps.
M = TypeVar("M", bound=Graph[Any, Any])


def require_graph(given: object, call: str) -> None:
    """Raise `InputError` if `given` is not a graph, such as an executor; the error recommends `call`."""
    if not isinstance(given, Graph):
        raise InputError(f"{format_value(given)} is not a graph; write {call}")


def build(kind: type[M], table: Table[Any], start: Node[Any, Any]) -> M:
    """Return a graph of the class `kind`; see `graphexec.graph`."""
    # Users without a type checker pass lists of rows, or functions.
    if not isinstance(table, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeError(f"the table is {table!r}; write edges(...) | edges(...)")
    require_node(start, "decorate the function with @node")
    faults: list[Fault] = []
    nodes: dict[str, Node[Any, Any]] = {}
    all_edges: list[Edge] = []
    for source, routes in table.rows:
        if source.name in nodes:
            text = f"{source.name} has two rows; join its routes with | in one row"
            faults.append(Fault("GX020", source.name, None, text))
            continue
        nodes[source.name] = source
        all_edges.extend(edges_of(source, routes))
    targets = [route.target for _, routes in table.rows for route in routes.routes]
    doubled = [
        node.name
        for node in (*targets, start)
        if not isinstance(node, End) and nodes.setdefault(node.name, node) is not node
    ]
    faults += [
        Fault("GX020", name, None, f"two nodes are named {name}; rename one of the functions")
        for name in dict.fromkeys(doubled)
    ]
    return check_table(kind, nodes.values(), all_edges, start.name, faults)


def edges_of(source: Node[Any, Any], routes: Routes[Any, Any]) -> list[Edge]:
    """Return the edges of a row."""
    return [Edge(source.name, route.outcome, route.target.name, route.resets) for route in routes.routes]


def check_table(
    kind: type[M],
    nodes: Iterable[Node[Any, Any]],
    all_edges: Sequence[Edge],
    start: str,
    faults: Sequence[Fault] = (),
    settings: tuple[object, ...] = (),
) -> M:
    """Return the graph of these nodes and edges, of the class `kind`.

    Raises `GraphError` with `faults` and every other fault.
    """
    by_name = {node.name: node for node in nodes}
    all_faults = [*faults, *faults_of(by_name, all_edges, start)]
    if all_faults:
        raise GraphError(all_faults)
    return kind(*inline_subgraphs(by_name, all_edges, start), settings)


def change_table(machine: M, nodes: Iterable[Node[Any, Any]], edges: Sequence[Edge], start: str | None = None) -> M:
    """Return the machine with another table. Raises `GraphError` with every fault of it."""
    return check_table(type(machine), nodes, edges, start or machine.start, settings=machine.settings)
