"""The table: which outcome of which node leads to which node. It is total, or it is not built.

A row is `edges(parse, on(Acted, dispatch_tools) | on(AgentFinish, END))`, a table is rows joined with `|`, and
`graph(table, start=plan)` is the machine. It is checked twice: for a type checker `edges` fits only when every outcome
has its `on`, and when the graph is built, everything that is wrong with it is reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Never, TypeVar, final, overload

from graphexec.effects import O, Perform
from graphexec.errors import Fault, GraphError
from graphexec.limits import Exhausted
from graphexec.node import Node

H_contra = TypeVar("H_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)
S = TypeVar("S")
F = TypeVar("F")
G = TypeVar("G")
A = TypeVar("A")
B = TypeVar("B")


@final
class End:
    """Where a run ends: the target of an edge whose outcome is the run's result."""

    __slots__ = ()
    name = "END"

    def __repr__(self) -> str:
        return self.name


END = End()


class Routes(Generic[H_contra, F_co]):
    """Where outcomes go: handles the classes `H`, of which `F` end the run. Made by `on`, joined with `|`."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: tuple[tuple[type, Node[Any, Any] | End], ...]) -> None:
        self.pairs = pairs

    def __call__(self, outcome: H_contra) -> F_co:
        """Return an outcome that ends the run. Raises `LookupError` for one that goes on, or has no route."""
        if (type(outcome), END) in self.pairs:
            value: Any = outcome
            # An outcome of a class that is routed to the end is an F.
            ending: F_co = value
            return ending
        raise LookupError(f"{type(outcome).__name__} does not end the run")

    def __or__(self: Routes[A, F], other: Routes[B, G]) -> Routes[A | B, F | G]:
        return Routes(self.pairs + other.pairs)


class Table(Generic[F_co]):
    """Rows of a table, of whose outcomes `F` end the run. Made by `edges`, joined with `|`."""

    __slots__ = ("rows",)

    def __init__(self, rows: tuple[tuple[Node[Any, Any], Routes[Any, Any]], ...]) -> None:
        self.rows = rows

    def __or__(self: Table[F], other: Table[G]) -> Table[F | G]:
        return Table(self.rows + other.rows)


@overload
def on(outcome: type[O], target: End) -> Routes[O, O]: ...
@overload
def on(outcome: type[O], target: Node[O, object]) -> Routes[O, Never]: ...
def on(outcome: type[Any], target: Node[Any, Any] | End) -> Routes[Any, Any]:
    """Send outcomes of exactly the class `outcome` to the node `target`, or end the run with them (`END`)."""
    return Routes(((outcome, target),))


def edges(source: Node[Never, O], routes: Callable[[O], F]) -> Table[F]:
    """Return the row of `source`: every outcome that it may return has an `on` in `routes`.

    Raises `TypeError` if `routes` is not made of `on`.
    """
    # Routes, seen as a function of every outcome: were the parameter `Routes[O, F]`, pyright would infer a lone `on`
    # from it, and let an outcome that has none pass.
    if not isinstance(routes, Routes):
        raise TypeError(f"the routes of {source.name} are {routes!r}; write on(Outcome, target) | on(...)")
    return Table(((source, Routes(routes.pairs)),))


@dataclass(frozen=True, slots=True)
class Edge:
    """One transition: `outcome` (a class) of the node `source` leads to the node `target`, or to `"END"`."""

    source: str
    outcome: type
    target: str

    def __str__(self) -> str:
        return f"{self.source} --{self.outcome.__name__}--> {self.target}"


class Step:
    """A node compiled for the engine: its function, and the next step for each class of outcome (`None`: the end)."""

    __slots__ = ("asks", "effects", "following", "function", "generator", "metered", "name", "when_spent")

    def __init__(self, source: Node[Any, Any]) -> None:
        self.name = source.name
        self.function = source.function
        # For a node that asks, and for an opaque one, which asks to be performed.
        self.generator = _performed(source) if source.kind == "opaque" else source.function
        self.asks = source.kind != "pure"
        self.metered = source.metered
        self.when_spent: Callable[[Any, Exhausted], object] | None = source.when_spent
        self.effects = frozenset[type](source.effects)
        self.following: dict[type, Step | None] = {}


def _performed(source: Node[Any, Any]) -> Callable[[Any], Generator[Perform, Any, Any]]:
    def perform(value: Any) -> Generator[Perform, Any, Any]:
        outcome = yield Perform(source.name, source.function, value)
        return outcome

    return perform


@final
class Graph(Generic[S_contra, F_co]):
    """A checked machine that starts with an `S` and ends with an `F`. Immutable; made by `graph` and by surgery.

    `nodes` maps names to nodes and `edges` lists every transition there is: the table that the engine follows, the
    pictures show and the checks read. `f"{machine:mermaid}"` and `f"{machine:dot}"` draw it; `f"{machine}"` lists it.
    """

    __slots__ = ("edges", "nodes", "outcomes", "start", "steps")

    def __init__(self, nodes: Iterable[Node[Any, Any]], edges: Iterable[Edge], start: str) -> None:
        self.nodes: Mapping[str, Node[Any, Any]] = {node.name: node for node in nodes}
        self.edges = tuple(edges)
        self.start = start
        self.outcomes: Mapping[str, type] = {
            kind.__name__: kind for kind in (*self.nodes[start].takes, *(edge.outcome for edge in self.edges))
        }
        self.steps: Mapping[str, Step] = {name: Step(node) for name, node in self.nodes.items()}
        for edge in self.edges:
            self.steps[edge.source].following[edge.outcome] = (
                None if edge.target == END.name else self.steps[edge.target]
            )

    def __getitem__(self, name: str) -> Node[Any, Any]:
        try:
            return self.nodes[name]
        except KeyError:
            close = difflib.get_close_matches(name, self.nodes, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; its nodes are {', '.join(self.nodes)}"
            raise KeyError(f"the graph has no node {name}{hint}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.nodes

    def __iter__(self) -> Iterator[Node[Any, Any]]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes and {len(self.edges)} edges, start={self.start}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.edges))

    def __format__(self, specification: str) -> str:
        # The one import that points up, and only when it is asked for: a picture is one format away.
        from graphexec.draw import draw

        return draw(self, specification) if specification else str(self)


def graph(table: Table[F], *, start: Node[S, object]) -> Graph[S, F]:
    """Build the machine, or raise `GraphError` with everything that is wrong with the table.

    It is wrong if an outcome has no edge or two, if an edge's outcome cannot occur or does not fit its target, if a
    node has no row or two, cannot be reached, or cannot reach the end, if two nodes or two outcomes share a name, if an
    outcome is not a `@final` frozen class, or if a node asks for effects and does not say what becomes of it when a
    limit is spent.
    """
    faults: list[Fault] = []
    nodes: dict[str, Node[Any, Any]] = {}
    found: list[Edge] = []
    for source, routes in table.rows:
        if source.name in nodes:
            faults.append(Fault(source.name, None, f"{source.name} has two rows; join its routes with | in one"))
            continue
        nodes[source.name] = source
        found.extend(Edge(source.name, outcome, target.name) for outcome, target in routes.pairs)
    targets = [target for _, routes in table.rows for _, target in routes.pairs]
    for node in [*(source for source, _ in table.rows), *targets, start]:
        if not isinstance(node, End) and nodes.setdefault(node.name, node) is not node:
            text = f"two nodes are named {node.name}; rename one of the functions"
            if text not in (fault.text for fault in faults) and not _has_row_twice(faults, node.name):
                faults.append(Fault(node.name, None, text))
    return checked(nodes.values(), found, start.name, faults)


def checked(
    nodes: Iterable[Node[Any, Any]], found: Sequence[Edge], start: str, faults: Sequence[Fault] = ()
) -> Graph[Any, Any]:
    """Return the graph of these nodes and edges, or raise `GraphError` with `faults` and all that is found here."""
    by_name = {node.name: node for node in nodes}
    every = [*faults, *_row_faults(by_name, found), *_class_faults(by_name), *_path_faults(by_name, found, start)]
    if every:
        raise GraphError(every)
    return Graph(by_name.values(), found, start)


def _has_row_twice(faults: Sequence[Fault], name: str) -> bool:
    return any(fault.node == name for fault in faults)


def _row_faults(nodes: Mapping[str, Node[Any, Any]], found: Sequence[Edge]) -> Iterator[Fault]:
    """What is wrong with each row by itself: totality, fit of the edges, and exhaustion."""
    for node in nodes.values():
        row = [edge for edge in found if edge.source == node.name]
        if node.name == END.name:
            yield Fault(node.name, None, "a node is named END, as the end of a run is; rename its function")
        if not row:
            yield Fault(node.name, None, f"{node.name} has no row; add edges({node.name}, ...)")
            continue
        routed = [edge.outcome for edge in row]
        for outcome in node.outcomes:
            if outcome not in routed:
                takers = [other.name for other in nodes.values() if outcome in other.takes]
                to = takers[0] if len(takers) == 1 else "..."
                name = outcome.__name__
                text = f"{node.name} may return {name}, which no edge takes; add on({name}, {to})"
                yield Fault(node.name, name, text)
        for position, edge in enumerate(row):
            name = edge.outcome.__name__
            if edge.outcome not in node.outcomes:
                yield Fault(node.name, name, f"{node.name} never returns {name}; remove on({name}, {edge.target})")
            elif edge.outcome in routed[:position]:
                yield Fault(node.name, name, f"{node.name} routes {name} twice; remove on({name}, {edge.target})")
            target = nodes.get(edge.target)
            if target is not None and not any(issubclass(edge.outcome, kind) for kind in target.takes):
                takes = " | ".join(kind.__name__ for kind in target.takes)
                text = (
                    f"{node.name} sends {name} to {target.name}, which takes {takes}; send it to a node that takes it"
                )
                yield Fault(node.name, name, text)
        if node.kind != "pure" and node.when_spent is None:
            asks = ", ".join(effect.__name__ for effect in node.effects)
            text = (
                f"{node.name} asks for {asks}, which a limit may stop, and does not say what then; decorate it with "
                f"@charged(when_spent=...) and route that outcome"
            )
            yield Fault(node.name, None, text)


def _class_faults(nodes: Mapping[str, Node[Any, Any]]) -> Iterator[Fault]:
    """What is wrong with the outcomes as classes."""
    named: dict[str, type] = {}
    reported: set[type] = set()
    for node in nodes.values():
        for outcome in (*node.takes, *node.outcomes):
            name = outcome.__name__
            if named.setdefault(name, outcome) is not outcome and outcome not in reported:
                reported.add(outcome)
                yield Fault(node.name, name, f"two outcomes are named {name}; rename one of the classes")
        for outcome in node.outcomes:
            name = outcome.__name__
            if outcome in reported:
                continue
            reported.add(outcome)
            if not _is_final(outcome):
                text = f"{node.name} returns {name}, which is not final; write @final above class {name}"
                yield Fault(node.name, name, text)
            if not _is_frozen(outcome):
                text = (
                    f"{node.name} returns {name}, which is not frozen; write @dataclass(frozen=True) above class {name}"
                )
                yield Fault(node.name, name, text)


def _path_faults(nodes: Mapping[str, Node[Any, Any]], found: Sequence[Edge], start: str) -> list[Fault]:
    """What is wrong with the table as a whole.

    A missing edge is a fault of its own and might lead anywhere that takes its outcome, so no other is blamed on it.
    """
    pairs = [(edge.source, edge.target) for edge in found]
    for node in nodes.values():
        routed = [edge.outcome for edge in found if edge.source == node.name]
        missing = [outcome for outcome in node.outcomes if outcome not in routed]
        if missing:
            pairs.append((node.name, END.name))
        pairs += [(node.name, other.name) for other in nodes.values() if not set(missing).isdisjoint(other.takes)]
    forward = _reached([start], pairs)
    backward = _reached([END.name], [(target, source) for source, target in pairs])
    unreachable = [
        Fault(name, None, f"{name} cannot be reached from {start}; route an outcome to it, or remove its row")
        for name in nodes
        if name not in forward
    ]
    endless = [
        Fault(name, None, f"{name} cannot reach END; route an outcome of it, or of a node behind it, to END")
        for name in nodes
        if name in forward and name not in backward
    ]
    return unreachable + endless


def _reached(begin: Iterable[str], pairs: Sequence[tuple[str, str]]) -> set[str]:
    following: dict[str, list[str]] = {}
    for source, target in pairs:
        following.setdefault(source, []).append(target)
    seen = set(begin)
    waiting = list(seen)
    while waiting:
        for name in following.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def _is_final(kind: type) -> bool:
    return bool(getattr(kind, "__final__", False)) or (issubclass(kind, enum.Enum) and len(kind) > 0)


def _is_frozen(kind: type[Any]) -> bool:
    if dataclasses.is_dataclass(kind):
        # The parameters of @dataclass are not in its stub.
        return bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009
    if config := getattr(kind, "model_config", None):
        return bool(config.get("frozen"))
    return issubclass(kind, (enum.Enum, tuple)) or not _has_fields(kind)


def _has_fields(kind: type) -> bool:
    return any(getattr(base, "__annotations__", {}) or "__init__" in vars(base) for base in kind.__mro__[:-1])
