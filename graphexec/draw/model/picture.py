"""The content of every picture: the nodes and edges of one machine, read from its table and proof, and the legend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from graphexec.draw.model.text import wrap_text
from graphexec.effects import AskHuman, CallAgent, CallTool, ModelEffect
from graphexec.errors import InputError, format_number
from graphexec.kernel.effects import Effect, Perform
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Limits, Meter
from graphexec.kernel.node import END, Edge, Node
from graphexec.verify.proof.findings import Finding, Verdict
from graphexec.verify.proof.flow import flow_of, limits_of

# The width of an edge's label, in characters: a longer list of limits has several lines.
_LABEL = 34

# The kind of a node as a picture shows it. `effect` requests an effect class of the user's own.
Look: TypeAlias = Literal["model", "tools", "person", "effect", "opaque", "pure"]

_ASKED: Mapping[type[Effect[Any]], Look] = {
    AskHuman: "person",
    ModelEffect: "model",
    CallAgent: "model",
    CallTool: "tools",
}

# The line under a node's name.
DESCRIPTIONS: Mapping[Look, str] = {
    "model": "asks the model",
    "tools": "calls tools",
    "person": "asks a person",
    "effect": "other effects",
    "opaque": "arbitrary code",
    "pure": "",
}

# red: a loop that may not terminate, or the place of a fault.  orange: the path to it.  grey: never taken.
Mark: TypeAlias = Literal["red", "orange", "grey"]
Marks: TypeAlias = Mapping[Edge, Mark]

# From Matplotlib's palette: distinct on white and on black. The widths distinguish them without colour.
COLOURS: Mapping[Mark, str] = {"red": "#d62728", "orange": "#ff7f0e", "grey": "#b0b0b0"}
WIDTHS: Mapping[Mark, int] = {"red": 3, "orange": 2, "grey": 1}


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its name, its kind, and the `lines` that describe it and the cost of entering it.

    `notes` hold data of the runs that are drawn over the machine. `taken` is true for a node that they visited and
    false for others (`None` without runs). `current` marks the node that an unfinished run is at, `failed` one where
    something failed. `group` is the name of the piece that it belongs to, if there is one.
    """

    name: str
    look: Look
    lines: tuple[str, ...] = ()
    metered: bool = False
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    taken: bool | None = None
    current: bool = False
    failed: bool = False
    group: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the graphs and of the piece that contain it, outermost first."""
        graphs = tuple(self.name.split(".")[:-1])
        if not self.group:
            return graphs
        pieces = tuple(self.group.split("."))
        inner = graphs[len(pieces) - 1 :]
        # A piece that is one embedded graph of its name is one box.
        return (*pieces, *(inner[1:] if inner[:1] == pieces[-1:] else inner))

    @property
    def title(self) -> str:
        """Its own name, without those of the graphs that contain it."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge: the node `source` leads to the node `target`, or to `"END"`, on `outcome` (a class's name).

    An edge of another library's graph has no outcome: the string is empty.

    `resets` names the meters that the edge resets. `exhausts` is true if the edge is taken only when a limit is used
    up, and `limits` names those limits, as far as they are set (`None` if unknown). `notes` hold data of runs; `taken`
    is true if one of them took the edge.
    """

    source: str
    outcome: str
    target: str
    resets: tuple[str, ...] = ()
    exhausts: bool = False
    limits: tuple[str, ...] | None = None
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    taken: bool | None = None

    @property
    def details(self) -> tuple[str, ...]:
        """The limits that cause it, and the meters that it resets."""
        limits: tuple[str, ...] = ()
        if self.limits is not None:
            limits = (f"limit: {', '.join(self.limits)}" if self.limits else "limit not set",)
        resets = (f"resets {', '.join(self.resets)}",) if self.resets else ()
        return (*limits, *resets)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of its label: the outcome, its details, and the notes."""
        lines = [line for text in self.details for line in wrap_text(text.split(), _LABEL, len)]
        return (*filter(None, [self.outcome]), *lines, *self.notes)


@dataclass(frozen=True, slots=True)
class Picture:
    """A machine as it is drawn in any format: plain data that JSON can hold. `caption` has one sentence per line."""

    start: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    caption: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json", exclude_defaults=True)
        return data

    @staticmethod
    def from_data(data: object) -> Picture:
        """Read what `to_data` wrote. Raises `InputError` for anything else."""
        try:
            picture = _adapter().validate_python(data)
        except ValidationError as error:
            what = error.errors()[0]
            where = ".".join(map(str, what["loc"])) or "it"
            raise InputError(f"this is not the picture of a machine: {where}: {what['msg']}") from None
        known = {box.name for box in picture.boxes}
        if len(known) < len(picture.boxes):
            raise InputError("this is not the picture of a machine: two of its nodes have the same name")
        ends = [picture.start, *(arrow.source for arrow in picture.arrows)]
        ends += [arrow.target for arrow in picture.arrows if arrow.target != END.name]
        if unknown := [end for end in ends if end not in known]:
            raise InputError(
                f"this is not the picture of a machine: its start or an arrow names {unknown[0]}, which is not one of "
                f"its nodes"
            )
        return picture


@cache
def _adapter() -> TypeAdapter[Picture]:
    return TypeAdapter(Picture)


def picture_of(subject: Graph[Any, Any] | Verdict, marks: Marks | None = None) -> Picture:
    """Return the picture of a machine; of a verdict, with its limits, bounds and findings.

    `marks` highlight edges, instead of the findings.
    """
    if isinstance(subject, Verdict):
        graph, limits = subject.graph, subject.limits
        shown = marks_of(graph, subject.findings) if marks is None else marks
        nodes = marked_nodes(subject.findings) if marks is None else {}
        caption, causes = _caption_of(subject), _causes(subject)
    else:
        graph, limits, shown, nodes, caption, causes = subject, None, marks or {}, {}, (), {}
    boxes = [
        Box(
            node.name,
            look_of(node),
            _lines(node, limits),
            bool(node.meters),
            mark=nodes.get(node.name),
            group=node.group,
        )
        for node in graph
    ]
    arrows = tuple(
        Arrow(
            edge.source,
            edge.outcome.__name__,
            edge.target,
            tuple(map(str, edge.resets)),
            is_limit_edge(graph, edge),
            causes.get((edge.source, edge.outcome.__name__)),
            shown.get(edge),
        )
        for edge in graph.edges
    )
    # An exit, as an edge to the end is.
    raised = [Arrow(node.name, f"raises {error.__name__}", END.name) for node in graph for error in node.raises]
    return Picture(graph.start, tuple(boxes), (*arrows, *raised), caption)


def marks_of(graph: Graph[Any, Any], findings: Iterable[Finding]) -> dict[Edge, Mark]:
    """Mark the edges of the findings: red for loops and faults, orange for the paths to them.

    An edge of a loop stays red even if the path to another loop uses it. An outcome without an edge is not marked.
    """
    found = list(findings)
    witnesses = [one.witness for one in found if one.witness is not None]
    marks: dict[tuple[str | None, str | None], Mark] = {}
    marks |= {(step.source, step.outcome): "orange" for one in witnesses for step in one.stem}
    marks |= {(step.source, step.outcome): "red" for one in witnesses for step in one.loop}
    marks |= {(one.node, one.outcome): "red" for one in found}
    places = {edge: (edge.source, edge.outcome.__name__) for edge in graph.edges}
    return {edge: marks[place] for edge, place in places.items() if place in marks}


def marked_nodes(findings: Iterable[Finding]) -> dict[str, Mark]:
    """Mark the nodes of errors, and those of loops that may not terminate, in red."""
    errors = [one for one in findings if one.severity == "error"]
    loops = [step.source for one in errors if one.witness is not None for step in one.witness.loop]
    return dict.fromkeys([*(one.node for one in errors if one.node is not None), *loops], "red")


def look_of(node: Node[Any, Any]) -> Look:
    """Return the kind of the first effect in `_ASKED` that the node requests, or the kind of node if there is none."""
    if node.kind != "asks":
        return "opaque" if node.kind == "opaque" else "pure"
    for effect, asked in _ASKED.items():
        if any(issubclass(one, effect) for one in node.effects):
            return asked
    return "effect"


def is_limit_edge(graph: Graph[Any, Any], edge: Edge) -> bool:
    """Return whether the edge is taken only when a limit is used up."""
    source = graph[edge.source]
    return edge.outcome not in source.returns and source.spent_outcome is edge.outcome


def _caption_of(verdict: Verdict) -> tuple[str, ...]:
    """Return the verdict and its bounds, one sentence per line."""
    bounds = verdict.bounds
    if bounds is None:
        errors = [finding for finding in verdict.findings if finding.severity == "error"]
        first = "Unproved: some run may not end." if verdict.status == "unproved" else "Refuted."
        return (first, *map(str, errors))
    known = [
        f"{format_number(bound.number)} {name.removesuffix('s') if bound.number == 1 else name}".replace("_", " ")
        + ("" if bound.form in (None, format_number(bound.number)) else f" ({bound.form})")
        + bound.condition
        if bound.number is not None
        else f"{bound.form} {name.replace('_', ' ')}"
        for name, bound in bounds.rows()
        if bound.number is not None or bound.form is not None
    ]
    if not known:
        return ("Proved: every run ends.",)
    listed = " and ".join(filter(None, (", ".join(known[:-1]), known[-1])))
    return (f"Proved: every run ends, after at most {listed}.",)


def _causes(verdict: Verdict) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the limits, of those that are set, that cause each edge of a used-up limit."""
    graph, limits = verdict.graph, verdict.limits
    flow = flow_of(graph)
    known = limits_of(flow, limits)
    found: dict[tuple[str, str], tuple[str, ...]] = {
        (edge.source, edge.outcome.__name__): () for edge in graph.edges if is_limit_edge(graph, edge)
    }
    for one in flow.transitions:
        place = one.source, one.outcome
        if one.kind != "move" and place in found:
            set_ones = [cause for cause in one.causes if known.get(cause) is not None]
            found[place] = tuple(dict.fromkeys([*found[place], *set_ones]))
    return found


def _lines(node: Node[Any, Any], limits: Limits | None) -> tuple[str, ...]:
    kind = look_of(node)
    own = [effect.__name__ for effect in node.effects if effect is not Perform]
    asks = f"requests {', '.join(own)}" if kind == "effect" else DESCRIPTIONS[kind]
    costs = [_cost(meter, limits) for meter in node.meters]
    reserved = "calls are reserved" if node.grace is not None else ""
    measure = "its measure decreases" if node.decreases is not None else ""
    return tuple(line for line in (asks, *costs, measure, reserved) if line)


def _cost(meter: Meter, limits: Limits | None) -> str:
    iteration = meter.name == ITERATIONS.name
    if limits is None and meter.limit is None:
        return "costs an iteration" if iteration else f"costs one of {meter}"
    limit = meter.limit
    if limits is not None:
        limit = limits.iterations if iteration else limits[meter]
    return f"counts {meter}, without limit" if limit is None else f"costs 1 of {format_number(limit)} {meter}"


NumberedBox: TypeAlias = tuple[int, Box]


@dataclass(slots=True)
class Cluster:
    """An embedded graph, a piece, or the machine itself (with an empty name), and its nodes and graphs in order.

    Nodes have their numbers in the picture. A graph takes the place of its first node.
    """

    number: int
    name: str
    inside: list[NumberedBox | Cluster] = field(default_factory=list["NumberedBox | Cluster"])

    def clusters(self) -> Iterator[Cluster]:
        """Yield the graphs in it, outer ones before inner ones."""
        for one in self.inside:
            if isinstance(one, Cluster):
                yield one
                yield from one.clusters()


def cluster_tree(picture: Picture) -> Cluster:
    """Return the machine as nested graphs."""
    clusters: dict[tuple[str, ...], Cluster] = {(): Cluster(0, "")}
    for number, box in enumerate(picture.boxes):
        path = box.path
        for depth in range(1, len(path) + 1):
            if path[:depth] not in clusters:
                cluster = clusters[path[:depth]] = Cluster(len(clusters), path[depth - 1])
                clusters[path[: depth - 1]].inside.append(cluster)
        clusters[path].inside.append((number, box))
    return clusters[()]


Entry: TypeAlias = Look | Mark | Literal["start", "end", "edge", "exhausts", "taken", "untaken", "current", "failed"]

# The size of a symbol in the legend, the gap between parts, and the height of a row.
SAMPLE, GAP, ROW = (26.0, 14.0), 9.0, 23.0

# The texts of the legend, in its order.
LEGEND: Mapping[Entry, str] = {
    "start": "start of a run",
    "edge": "transition with its outcome",
    "exhausts": "taken when a limit is used up",
    "end": "end of a run",
    "model": "asks a language model",
    "tools": "calls tools",
    "person": "asks a person",
    "effect": "requests other effects",
    "opaque": "arbitrary code",
    "pure": "function without effects",
    "red": "may not terminate, or is wrong",
    "orange": "path to the red part",
    "grey": "never taken",
    "taken": "taken: step numbers or count",
    "untaken": "not taken",
    "current": "current node of the run",
    "failed": "calls failed here, or an exception was raised",
}


def legend_of(picture: Picture) -> list[Entry]:
    """Return the legend's entries for what the picture contains."""
    shown: set[Entry | None] = {"start", "edge"}
    shown |= {one for box in picture.boxes for one in (box.look, box.mark)}
    shown |= {arrow.mark for arrow in picture.arrows}
    shown |= {"exhausts" for arrow in picture.arrows if arrow.exhausts}
    shown |= {"end" for arrow in picture.arrows if arrow.target == END.name}
    shown |= {"taken" if arrow.taken else "untaken" for arrow in picture.arrows if arrow.taken is not None}
    shown |= {"current" for box in picture.boxes if box.current}
    shown |= {"failed" for box in picture.boxes if box.failed}
    return [entry for entry in LEGEND if entry in shown]
