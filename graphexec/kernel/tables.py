"""Tables of nodes and edges: a node that is a whole graph is inlined, and every fault is reported with its remedy.

The nodes of a subgraph are named `research.plan`, so that the graph stays flat.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.errors import Fault, NodeError
from graphexec.kernel.meters import ITERATIONS, Meter, make_measure
from graphexec.kernel.node import END, Edge, Frame, Node
from graphexec.kernel.node import node as as_node
from graphexec.kernel.signatures import accepts


def measured(nodes: Iterable[Node[Any, Any]]) -> list[Node[Any, Any]]:
    """Return the nodes with `decreases`."""
    return [one for one in nodes if one.decreases is not None]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph that takes the place of a node; each entry resets its `own` meters."""

    nodes: tuple[Node[Any, Any], ...]
    edges: tuple[Edge, ...]
    start: str
    own: tuple[Meter, ...]
    # The meters that an entry resets; `None`: all its own.
    refilled: tuple[Meter, ...] | None = None

    def renamed_meters(self, name: str) -> dict[str, Meter]:
        """Return the own meters of this graph and of graphs within it, renamed with the prefix `name`, by old name."""
        deeper = [meter for node in self.nodes for meter in node.meters if "." in meter.name]
        measures = {one.measure.name: make_measure(f"{name}.{one.name}") for one in measured(self.nodes)}
        return {meter.name: Meter(f"{name}.{meter.name}", meter.limit) for meter in (*deeper, *self.own)} | measures

    def refilled_meters(self, name: str) -> list[Meter]:
        """Return the meters that an entry into the node `name` resets: with the measures of its nodes."""
        renamed = self.renamed_meters(name)
        own = self.own if self.refilled is None else self.refilled
        return [renamed[meter.name] for meter in (*own, *(one.measure for one in measured(self.nodes)))]


def inline_subgraphs(
    nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge], start: str
) -> tuple[list[Node[Any, Any]], list[Edge], str]:
    """Return the nodes, edges and start of the table, with every subgraph in the place of its node."""
    inner = {node.name: node.inner for node in nodes.values() if node.inner is not None}
    entries = {name: f"{name}.{subgraph.start}" for name, subgraph in inner.items()}
    flat_nodes: list[Node[Any, Any]] = []
    for node in nodes.values():
        flat_nodes += (node,) if node.inner is None else _prefix_nodes(node, node.inner)
    flat_edges: list[Edge] = []
    for name, node in nodes.items():
        row = [_redirect_edge(edge, inner, entries) for edge in edges if edge.source == name]
        flat_edges += row if node.inner is None else _inline_edges(name, node.inner, row)
    return flat_nodes, flat_edges, entries.get(start, start)


def _prefix_nodes(node: Node[Any, Any], inner: Subgraph) -> Iterable[Node[Any, Any]]:
    """Yield the nodes of a subgraph, with the prefix of its node's name, and with its own meters.

    They belong to the piece of their node or, if it has none, to their own one, with the prefix.
    """
    own = inner.renamed_meters(node.name)
    for part in inner.nodes:
        meters = tuple(own.get(meter.name, meter) for meter in part.meters)
        group = node.group or (part.group and f"{node.name}.{part.group}")
        frame = part.frame
        if frame is not None:
            frame = dataclasses.replace(frame, name=f"{node.name}.{frame.name}" if frame.name else node.name)
        yield dataclasses.replace(part, name=f"{node.name}.{part.name}", meters=meters, group=group, frame=frame)


def _redirect_edge(edge: Edge, inner: Mapping[str, Subgraph], entries: Mapping[str, str]) -> Edge:
    """Return the edge; one that leads to a subgraph leads to its first node, and resets its own meters."""
    if edge.target not in entries:
        return edge
    own = inner[edge.target].refilled_meters(edge.target)
    return dataclasses.replace(edge, target=entries[edge.target], resets=(*edge.resets, *own))


def _inline_edges(name: str, inner: Subgraph, row: Iterable[Edge]) -> Iterable[Edge]:
    """Yield the edges of a subgraph; its edges to END continue with those of its node's row."""
    leaving = {edge.outcome: edge for edge in row}
    own = inner.renamed_meters(name)
    for edge in inner.edges:
        resets = tuple(own.get(meter.name, meter) for meter in edge.resets)
        source = f"{name}.{edge.source}"
        if edge.target != END.name:
            yield Edge(source, edge.outcome, f"{name}.{edge.target}", resets)
        else:
            # A row without an edge for it is a fault of the table.
            after = leaving.get(edge.outcome, edge)
            combined = tuple(dict.fromkeys((*resets, *after.resets)))
            yield Edge(source, edge.outcome, after.target, combined)


# A function, or a node made of one.
Framing: TypeAlias = Node[Any, Any] | Callable[..., Any]


def add_frame(name: str, inner: Subgraph, enter: Framing, leave: Framing | None, each: Meter | None) -> Subgraph:
    """Return a subgraph with the nodes `enter` before it and `leave` behind it.

    `enter` saves its argument for `leave`. With `each`, a meter of `enter`, outcomes of `leave` may lead back to it.
    Raises `NodeError` for functions that do not fit the subgraph.
    """
    before = _framing_node(name, "enter", enter)
    taken = next(one.takes for one in inner.nodes if one.name == inner.start)
    entering = [kind for kind in before.returns if accepts(taken, kind)]
    if not entering:
        raise NodeError(
            f"{name} starts with {_list_names(taken)}, but its enter returns "
            f"{_list_names(before.returns)}; return {_list_names(taken)}"
        )
    if before.spent_outcome in entering:
        raise NodeError(
            f"{name} is entered with {_list_names(entering)}, and when_spent returns that, too; return another class"
        )
    resets = (*(meter for meter in inner.own if meter != each), *(one.measure for one in measured(inner.nodes)))
    edges = [
        Edge("enter", kind, inner.start, resets) if kind in entering else Edge("enter", kind, END.name)
        for kind in before.outcomes
    ]
    nodes = [*inner.nodes]
    if {"enter", "leave"} & {one.name for one in nodes}:
        raise NodeError(f"{name} has a node of its own that is named enter or leave; rename it")
    if leave is None:
        return Subgraph((before, *nodes), (*edges, *inner.edges), "enter", inner.own, ())
    after, before = _receiving_node(name, leave, before), dataclasses.replace(before, frame=Frame(""))
    endings = [edge.outcome for edge in inner.edges if edge.target == END.name]
    if not any(accepts(after.takes, kind) for kind in endings):
        raise NodeError(
            f"{name} ends with {_list_names(endings)}, but its leave takes "
            f"{_list_names(after.takes)}; take {_list_names(endings)}"
        )
    for edge in inner.edges:
        leads = edge.target == END.name and accepts(after.takes, edge.outcome)
        edges.append(dataclasses.replace(edge, target="leave") if leads else edge)
    back = [] if each is None else [kind for kind in after.outcomes if accepts(before.takes, kind)]
    if each is not None and not back:
        raise NodeError(
            f"{name} has each={each}, but its leave never returns {_list_names(before.takes)}, which enters it "
            "again; return that, or leave out each="
        )
    edges += [Edge("leave", kind, "enter" if kind in back else END.name) for kind in after.outcomes]
    refilled = tuple(meter for meter in inner.own if meter == each)
    return Subgraph((before, *nodes, after), tuple(edges), "enter", inner.own, refilled)


def _framing_node(name: str, role: str, given: Framing) -> Node[Any, Any]:
    made: Node[Any, Any] = as_node(name=role)(given)
    if made.kind != "pure" or made.inner is not None:
        raise NodeError(f"{name} has {role}=, which asks for effects; give a pure function")
    return made


def _receiving_node(name: str, given: Framing, before: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node `leave`, whose second parameter receives what `enter` took."""
    made = _framing_node(name, "leave", given)
    if not made.parameters:
        wanted = _list_names(before.takes)
        raise NodeError(
            f"{name} has a leave that takes one value; write def leave(ending: ..., outer: {wanted}) -> ..."
        )
    parameter, kinds = next(iter(made.parameters.items()))
    strangers = [kind for kind in before.takes if not accepts(kinds, kind)]
    if strangers:
        raise NodeError(
            f"{name} is entered with {_list_names(strangers)}, but the parameter {parameter} of its leave takes "
            f"{_list_names(kinds)}; widen the annotation of {parameter}"
        )
    rest = {other: of for other, of in made.parameters.items() if other != parameter}
    return dataclasses.replace(made, parameters=rest, frame=Frame("", parameter))


def _list_names(kinds: Iterable[type]) -> str:
    return " | ".join(kind.__name__ for kind in dict.fromkeys(kinds))


def faults_of(nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge], start: str) -> list[Fault]:
    """Return every fault of the table with these nodes and edges, and of the classes and meters of its subgraphs."""
    rows: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        rows[edge.source].append(edge)
    flat_nodes, flat_edges, _ = inline_subgraphs(nodes, edges, start)
    names = Counter(node.name for node in flat_nodes)
    doubled = {name: f"two nodes are named {name}; embed one under another name" for name in names if names[name] > 1}
    return [
        *(Fault("GX020", name, None, text) for name, text in doubled.items()),
        *_row_faults(nodes, rows),
        *_class_faults(flat_nodes),
        *_meter_faults(flat_nodes, flat_edges),
        *_path_faults(nodes, rows, start),
    ]


def _row_faults(nodes: Mapping[str, Node[Any, Any]], rows: Mapping[str, list[Edge]]) -> Iterator[Fault]:
    for node in nodes.values():
        row = rows.get(node.name, [])
        if node.name == END.name:
            text = "the name END is reserved for the end of a run; rename the node's function"
            yield Fault("GX020", node.name, None, text)
        if not row:
            yield Fault("GX005", node.name, None, f"{node.name} has no row; add edges({node.name}, ...)")
            continue
        for outcome in _unrouted_outcomes(node, row):
            takers = [other.name for other in nodes.values() if outcome in other.takes]
            to = takers[0] if len(takers) == 1 else "..."
            name = outcome.__name__
            text = f"{node.name} may return {name}, which no edge takes; add on({name}, {to})"
            yield Fault("GX002", node.name, name, text)
        routed = [edge.outcome for edge in row]
        for position, edge in enumerate(row):
            name = edge.outcome.__name__
            if edge.outcome not in node.outcomes:
                yield Fault(
                    "GX003", node.name, name, f"{node.name} never returns {name}; remove on({name}, {edge.target})"
                )
            elif edge.outcome in routed[:position]:
                yield Fault(
                    "GX021", node.name, name, f"{node.name} routes {name} twice; remove on({name}, {edge.target})"
                )
            target = nodes.get(edge.target)
            if target is not None and not any(issubclass(edge.outcome, kind) for kind in target.takes):
                takes = " | ".join(kind.__name__ for kind in target.takes)
                text = f"{node.name} sends {name} to {target.name}, which takes {takes}"
                yield Fault("GX022", node.name, name, f"{text}; send it to a node that takes it")
        if node.kind != "pure" and node.when_spent is None:
            remedy = "write @node(when_spent=...) and route that outcome"
            description = _describe_effects(node)
            text = f"{node.name} {description}, which a limit may stop, but has no outcome for that; {remedy}"
            yield Fault("GX008", node.name, None, text)


def _describe_effects(node: Node[Any, Any]) -> str:
    if node.kind == "opaque":
        return "is an async function" if inspect.iscoroutinefunction(node.function) else "is opaque"
    return f"asks for {', '.join(effect.__name__ for effect in node.effects)}"


def _class_faults(nodes: Sequence[Node[Any, Any]]) -> Iterator[Fault]:
    named: dict[str, type] = {}
    reported: set[type] = set()
    for node in nodes:
        for outcome in (*node.takes, *node.outcomes):
            name = outcome.__name__
            if named.setdefault(name, outcome) is not outcome and outcome not in reported:
                reported.add(outcome)
                yield Fault("GX020", node.name, name, f"two outcomes are named {name}; rename one of the classes")
        for outcome in node.outcomes:
            name = outcome.__name__
            if outcome in reported:
                continue
            reported.add(outcome)
            for mistake in _class_mistakes(outcome):
                yield Fault("GX023", node.name, name, f"{node.name} returns {name}, which is {mistake}")


def _class_mistakes(kind: type) -> Iterator[str]:
    if kind.__module__ == "builtins":
        yield "a built-in class; return a frozen dataclass that holds the value"
        return
    if not _is_final(kind):
        yield f"not final; write @final above class {kind.__name__}"
    if not _is_frozen(kind):
        yield f"not frozen; write @dataclass(frozen=True) above class {kind.__name__}"


def _meter_faults(nodes: Sequence[Node[Any, Any]], edges: Sequence[Edge]) -> Iterator[Fault]:
    """Find different meters of one name, meters of entries and of effects, and resets of meters that no node costs."""
    known: dict[str, Meter] = {}
    of_nodes = {meter.name for node in nodes for meter in _entry_meters(node)}
    for node in nodes:
        effects = [meter for effect in node.effects for meter in (*effect.charges, *effect.measures)]
        for meter in dict.fromkeys((*_entry_meters(node), *effects)):
            first = known.setdefault(meter.name, meter)
            if first != meter:
                text = f"{node.name} counts {meter!r}, but there is also {first!r}; use one Meter for both"
                yield Fault("GX011", node.name, None, text)
            elif meter in effects and meter.name in {*of_nodes, ITERATIONS.name}:
                text = f"{node.name} asks for effects that charge {meter}, which entries into nodes cost, too"
                yield Fault("GX011", node.name, None, f"{text}; use one Meter for each")
    for edge in edges:
        for meter in edge.resets:
            if meter.name not in of_nodes:
                remedy = "add meters=[...] to the @node of the node that it bounds, or remove the reset"
                text = f"{edge} resets {meter.name}, but no node is metered by it; {remedy}"
                yield Fault("GX011", edge.source, edge.outcome.__name__, text)


def _entry_meters(node: Node[Any, Any]) -> Sequence[Meter]:
    return node.meters if node.decreases is None else (*node.meters, node.measure)


def _path_faults(nodes: Mapping[str, Node[Any, Any]], rows: Mapping[str, list[Edge]], start: str) -> Iterator[Fault]:
    """Find nodes that cannot be reached, or cannot reach END. A missing edge counts as one to every possible target."""
    pairs = [(edge.source, edge.target) for row in rows.values() for edge in row]
    for node in nodes.values():
        missing = _unrouted_outcomes(node, rows.get(node.name, []))
        if missing:
            takers = [other.name for other in nodes.values() if not missing.keys().isdisjoint(other.takes)]
            pairs += [(node.name, target) for target in (END.name, *takers)]
    forward = reachable(start, pairs)
    backward = reachable(END.name, [(target, source) for source, target in pairs])
    for name in nodes:
        if name not in forward:
            text = f"{name} cannot be reached from {start}; route an outcome to it, or remove its row"
            yield Fault("GX004", name, None, text)
        elif name not in backward:
            text = f"{name} cannot reach END; route an outcome of it, or of a node after it, to END"
            yield Fault("GX006", name, None, text)


def _unrouted_outcomes(node: Node[Any, Any], row: Sequence[Edge]) -> dict[type, None]:
    routed = {edge.outcome for edge in row}
    return {outcome: None for outcome in node.outcomes if outcome not in routed}


def reachable(begin: str, pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the nodes that these edges reach from `begin`, including `begin`."""
    following: dict[str, list[str]] = defaultdict(list)
    for source, target in pairs:
        following[source].append(target)
    seen = {begin}
    pending = [begin]
    while pending:
        for name in following[pending.pop()]:
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


def _is_final(kind: type) -> bool:
    return bool(getattr(kind, "__final__", False)) or (issubclass(kind, enum.Enum) and len(kind) > 0)


def _is_frozen(kind: type[Any]) -> bool:
    if dataclasses.is_dataclass(kind):
        # The stub of @dataclass lacks its parameters.
        return bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009
    if config := getattr(kind, "model_config", None):
        return bool(config.get("frozen"))
    if issubclass(kind, (enum.Enum, tuple)):
        return True
    # A class without fields cannot change.
    return not any(getattr(base, "__annotations__", {}) or "__init__" in vars(base) for base in kind.__mro__[:-1])
