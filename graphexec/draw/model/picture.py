"""What every picture shows: the nodes and edges of one machine, read from its table and its proof, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from graphexec.draw.model.marks import Mark, Marks, marked_nodes, marks_of
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool
from graphexec.errors import InputError, format_number
from graphexec.kernel.effects import Effect, Perform
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Budget, Limits
from graphexec.kernel.node import END, Edge, Node
from graphexec.verify.proof.findings import Verdict
from graphexec.verify.proof.flow import flow_of, limits_of

# What a node does, for whoever looks at it: `effect` asks for an effect of the user's own, `absent` is a node that
# edges of a draft name and that it does not have.
Look: TypeAlias = Literal["model", "tools", "person", "effect", "opaque", "pure", "absent"]

_ASKED: Mapping[type[Effect[Any]], Look] = {
    AskHuman: "person",
    CallModel: "model",
    CallAgent: "model",
    CallTool: "tools",
}

# The line under a node's name, and its line in the legend.
SAID: Mapping[Look, str] = {
    "model": "asks the model",
    "tools": "calls tools",
    "person": "asks a person",
    "effect": "asks the world",
    "opaque": "does as it likes",
    "pure": "",
    "absent": "is not there",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its name, what it does, and the `lines` that say so, with what its entries cost.

    `notes` are what a run laid over the machine says of it, `heat` is how much of the runs came here (0 to 1, `None`
    where no run is shown), and `current` says that the run is here.
    """

    name: str
    look: Look
    lines: tuple[str, ...] = ()
    metered: bool = False
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    heat: float | None = None
    current: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the graphs that it stands in, outermost first."""
        return tuple(self.name.split(".")[:-1])

    @property
    def title(self) -> str:
        """Its own name, without those of the graphs that it stands in."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge: `outcome` (a class's name) of the node `source` leads to the node `target`, or to `"END"`.

    `resets` names the budgets that are full again then; `exhausts` says that only a spent limit takes it, and `limits`
    which ones of those that are set (`None` where none are known). `notes` and `heat` are as a node's.
    """

    source: str
    outcome: str
    target: str
    resets: tuple[str, ...] = ()
    exhausts: bool = False
    limits: tuple[str, ...] | None = None
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    heat: float | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that stand at it: its outcome, which limits send it there or are full again, and the notes."""
        spent: tuple[str, ...] = ()
        if self.limits is not None:
            names = ", ".join(self.limits).replace("_", " ")
            spent = (f"of {names}" if names else "no such limit is set",)
        again = (f"{', '.join(self.resets)} again",) if self.resets else ()
        return (self.outcome, *spent, *again, *self.notes)


@dataclass(frozen=True, slots=True)
class Picture:
    """A machine as it is drawn, in any format: plain data, which JSON can hold. `caption` is a sentence a line."""

    start: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    caption: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
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
        ends = [picture.start, *(end for arrow in picture.arrows for end in (arrow.source, arrow.target))]
        if strangers := [end for end in ends if end not in known and end != END.name]:
            raise InputError(f"this is not the picture of a machine: it has no node {strangers[0]}")
        return picture


@cache
def _adapter() -> TypeAdapter[Picture]:
    return TypeAdapter(Picture)


def picture_of(subject: Graph[Any, Any] | Verdict, marks: Marks | None = None) -> Picture:
    """Return the picture of a machine; of a verdict, with its limits, its bounds, and what was found.

    `marks` point edges out, instead of what was found.
    """
    if isinstance(subject, Verdict):
        graph, limits = subject.graph, subject.limits
        shown = marks_of(graph, subject.findings) if marks is None else marks
        nodes = marked_nodes(subject.findings) if marks is None else {}
        caption, causes = caption_of(subject), _causes(subject)
    else:
        graph, limits, shown, nodes, caption, causes = subject, None, marks or {}, {}, (), {}
    boxes = [
        Box(node.name, look(node), _lines(node, limits), node.metered, mark=nodes.get(node.name)) for node in graph
    ]
    boxes += [Box(name, "absent", (SAID["absent"],), mark="red") for name in _absent(graph)]
    arrows = tuple(
        Arrow(
            edge.source,
            edge.outcome.__name__,
            edge.target,
            tuple(map(str, edge.resets)),
            exhausts(graph, edge),
            causes.get((edge.source, edge.outcome.__name__)),
            shown.get(edge),
        )
        for edge in graph.edges
    )
    return Picture(graph.start, tuple(boxes), arrows, caption)


def look(node: Node[Any, Any]) -> Look:
    """What the node asks for, the most telling first."""
    if node.kind != "asks":
        return "opaque" if node.kind == "opaque" else "pure"
    for effect, asked in _ASKED.items():
        if any(issubclass(one, effect) for one in node.effects):
            return asked
    return "effect"


def exhausts(graph: Graph[Any, Any], edge: Edge) -> bool:
    """Whether only a spent limit takes the edge."""
    source = graph.nodes.get(edge.source)
    return source is not None and edge.outcome not in source.returns and source.spent_outcome is edge.outcome


def caption_of(verdict: Verdict) -> tuple[str, ...]:
    """Whether every run ends, and within what: a sentence a line."""
    bounds = verdict.bounds
    if bounds is None:
        errors = [finding for finding in verdict.findings if finding.severity == "error"]
        first = "Unproved: it is not known that every run ends." if verdict.status == "unproved" else "Refuted."
        return (first, *map(str, errors))
    known = [
        f"{format_number(bound.number)} {name.removesuffix('s') if bound.number == 1 else name}".replace("_", " ")
        + ("" if bound.form in (None, format_number(bound.number)) else f" ({bound.form})")
        + bound.condition
        for name, bound in bounds.rows()
        if bound.number is not None
    ]
    listed = " and ".join(filter(None, (", ".join(known[:-1]), known[-1])))
    return (f"Proved: every run ends, after at most {listed}.",)


def _causes(verdict: Verdict) -> dict[tuple[str, str], tuple[str, ...]]:
    """The limits, of those that are set, that take each edge which only a spent limit takes."""
    graph, limits = verdict.graph, verdict.limits
    flow = flow_of(graph)
    known = limits_of(flow, limits)
    found: dict[tuple[str, str], tuple[str, ...]] = {
        (edge.source, edge.outcome.__name__): () for edge in graph.edges if exhausts(graph, edge)
    }
    for one in flow.transitions:
        place = one.source, one.outcome
        if one.kind != "move" and place in found:
            set_ones = [cause for cause in one.causes if known.get(cause) is not None]
            found[place] = tuple(dict.fromkeys([*found[place], *set_ones]))
    return found


def _lines(node: Node[Any, Any], limits: Limits | None) -> tuple[str, ...]:
    kind = look(node)
    own = [effect.__name__ for effect in node.effects if effect is not Perform]
    asks = f"asks for {', '.join(own)}" if kind == "effect" else SAID[kind]
    costs = [_cost(budget, limits) for budget in node.meters]
    reserved = "its calls are reserved" if node.grace is not None else ""
    return tuple(line for line in (asks, *costs, reserved) if line)


def _cost(budget: Budget, limits: Limits | None) -> str:
    iteration = budget.name == ITERATIONS.name
    if limits is None and budget.limit is None:
        return "costs an iteration" if iteration else f"costs one of {budget}"
    limit = budget.limit
    if limits is not None:
        limit = limits.iterations if iteration else limits.budgets.get(budget.name, limit)
    return f"counts {budget}, without limit" if limit is None else f"costs 1 of {format_number(limit)} {budget}"


def _absent(graph: Graph[Any, Any]) -> list[str]:
    ends = [name for edge in graph.edges for name in (edge.source, edge.target)]
    return [name for name in dict.fromkeys(ends) if name not in graph and name != END.name]


Numbered: TypeAlias = tuple[int, Box]


@dataclass(slots=True)
class Nest:
    """A graph within the machine, or the machine itself (whose name is empty), and what stands in it, in order.

    Nodes have their numbers in the picture. A graph stands where its first node does.
    """

    number: int
    name: str
    inside: list[Numbered | Nest] = field(default_factory=list["Numbered | Nest"])

    def nests(self) -> Iterator[Nest]:
        """Yield the graphs within it, outer ones before inner ones."""
        for one in self.inside:
            if isinstance(one, Nest):
                yield one
                yield from one.nests()


def nest_of(picture: Picture) -> Nest:
    """Return the machine as nested graphs."""
    nests: dict[tuple[str, ...], Nest] = {(): Nest(0, "")}
    for number, box in enumerate(picture.boxes):
        path = box.path
        for depth in range(1, len(path) + 1):
            if path[:depth] not in nests:
                nest = nests[path[:depth]] = Nest(len(nests), path[depth - 1])
                nests[path[: depth - 1]].inside.append(nest)
        nests[path].inside.append((number, box))
    return nests[()]


Entry: TypeAlias = Look | Mark | Literal["start", "end", "edge", "exhausts", "taken", "untaken", "current"]

# The size of a sample, the room between things, and the height of a row.
SAMPLE, GAP, ROW = (26.0, 14.0), 9.0, 23.0

# In the order of the legend.
_TEXTS: Mapping[Entry, str] = {
    "start": "where a run starts",
    "edge": "a transition, with its outcome",
    "exhausts": "taken when a limit is spent",
    "end": "where it ends",
    "model": "asks a language model",
    "tools": "calls tools",
    "person": "asks a person",
    "effect": "asks the world for something else",
    "opaque": "a function that asks by itself",
    "pure": "a function that asks for nothing",
    "absent": "a node that is missing",
    "red": "can go on for ever, or is wrong",
    "orange": "the way there",
    "grey": "never taken",
    "taken": "taken: at which steps, or how often",
    "untaken": "not taken",
    "current": "the run is here",
}


def text_of(entry: Entry) -> str:
    """What it means."""
    return _TEXTS[entry]


def legend_of(picture: Picture) -> list[Entry]:
    """What is in the picture, and may need a word."""
    shown: set[Entry | None] = {"start", "edge"}
    shown |= {one for box in picture.boxes for one in (box.look, box.mark)}
    shown |= {arrow.mark for arrow in picture.arrows}
    shown |= {"exhausts" for arrow in picture.arrows if arrow.exhausts}
    shown |= {"end" for arrow in picture.arrows if arrow.target == END.name}
    shown |= {"taken" if arrow.heat > 0 else "untaken" for arrow in picture.arrows if arrow.heat is not None}
    shown |= {"current" for box in picture.boxes if box.current}
    return [entry for entry in _TEXTS if entry in shown]
