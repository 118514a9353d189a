"""Reports of judged graphs: the subjects of `graphexec check`, with a finding for each loop and gap, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Literal

from graphexec.draw.model.picture import Arrow, Box, Mark, Picture
from graphexec.integrations.declared.declared import END, START
from graphexec.integrations.declared.judging import Judgement
from graphexec.integrations.declared.telling import answer_text, format_limit, format_loop
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END as FINISH
from graphexec.verify import Finding, Witness
from graphexec.verify.paths import find_path, label_edges, strongly_connected_components
from graphexec.verify.proof.flow import Transition
from graphexec.verify.reports import Answer, SourceLocation, Subject
from graphexec.verify.reports.subject import SubjectStatus


def to_subject(
    judgement: Judgement, name: str, place: SourceLocation | None = None, *, max_rounds: int | None = None
) -> Subject:
    """Return a judged graph as a subject of a report. `max_rounds` are those that `judge` was given."""
    graph = judgement.graph
    answer = Answer(
        _status(judgement, max_rounds),
        _answer(judgement),
        tuple(f"note: {note}" for _, one in _judgements(judgement) for note in one.graph.notes),
        {
            "library": graph.library,
            "ending": judgement.status,
            "answer": _answer(judgement),
            "notes": list(graph.notes),
            "loops": [list(loop) for loop in judgement.loops],
            "longest": judgement.longest,
            "rounds": judgement.rounds,
            "limit": graph.limit,
        },
        {path + one: where for path, inner in _judgements(judgement) for one, where in inner.graph.places.items()},
    )
    return Subject(name, tuple(findings_in(judgement, max_rounds)), None, place or graph.places.get(""), answer=answer)


def _status(judgement: Judgement, max_rounds: int | None) -> SubjectStatus:
    """Return the status: proved if the answer passes; a limit on rounds refutes what does not pass."""
    if judgement.passes:
        return "proved"
    several = [one for _, one in _judgements(judgement)]
    # A loop that nothing bounds may be one that is assumed, because routes are not declared.
    unclear = [one for one in several if one.own == "counted" or (one.own == "limited" and one.graph.open)]
    failing = [one for one in several if one.own in ("counted", "limited", "never")]
    return "unproved" if max_rounds is None and failing == unclear != [] else "refuted"


def _judgements(judgement: Judgement, path: str = "") -> Iterator[tuple[str, Judgement]]:
    """Yield the answers for the graph and those in its nodes, each with the prefix of its nodes' names."""
    yield path, judgement
    for name, inner in judgement.inner.items():
        yield from _judgements(inner, f"{path}{name}.")


def _answer(judgement: Judgement) -> str:
    """Return the answer for a graph, or for the worst one of its subgraphs."""
    worst = [(name, one) for name, one in judgement.inner.items() if one.status == judgement.status != judgement.own]
    return f"in {worst[0][0]}: {_answer(worst[0][1])}" if worst else answer_text(judgement)


def findings_in(judgement: Judgement, max_rounds: int | None = None) -> Iterator[Finding]:
    """Yield the findings of a graph and of those in its nodes. `max_rounds` are those that `judge` was given."""
    for path, one in _judgements(judgement):
        yield from _loop_findings(one, max_rounds, path)
        for text in one.graph.open:
            fact = f"{text}, so that any node may follow"
            yield Finding("GX044", "warning", None, None, fact, "declare where it goes")
        for name in one.graph.silent:
            fact = f"{path}{name} has no edge, so the run ends after it"
            remedy = f'write add_edge("{name}", END) if that is meant'
            yield Finding("GX045", "warning", f"{path}{name}", None, fact, remedy)
        for name in one.graph.unseen:
            fact = f"the agent {name}, is not a part of this graph"
            yield Finding("GX046", "warning", None, None, fact, "check it by itself")


def _loop_findings(judgement: Judgement, max_rounds: int | None, path: str) -> Iterator[Finding]:
    graph, own, remedy = judgement.graph, judgement.own, ", or ".join(judgement.remedies)
    longest, rounds = judgement.longest, judgement.rounds
    severity: Literal["error", "warning"] = "error"
    if longest is not None and graph.limit is not None and longest >= graph.limit:
        fact = f"a run may take {longest:,} steps, and {format_limit(graph)} stops it before"
        yield Finding("GX043", "error", None, None, fact, remedy)
    limit = "nothing" if graph.limit is None else f"only {format_limit(graph)}"
    guards = " and ".join(guard.text for guard in graph.guards.values())
    for loop in judgement.loops:
        around = format_loop(tuple(f"{path}{one}" for one in loop))
        if own == "never":
            code, fact = "GX041", f"no run ends that enters the loop {around}: {limit} stops it"
        elif max_rounds is not None and rounds is not None and rounds > max_rounds:
            code, fact = "GX043", f"the loop {around} has up to {rounds:,} rounds, and {max_rounds:,} are allowed"
            remedy = remedy or f"lower the limit of {guards}, or raise --max-rounds"
        elif own == "bounded":
            continue
        else:
            # The limit on rounds allows those that the limit on steps does.
            severity = "error" if max_rounds is None or rounds is None else "warning"
            keys = sorted({key for name in loop for key in graph.counters.get(name, ())})
            code, fact = "GX040", f"{limit} ends the loop {around}"
            if own == "counted":
                code = "GX042"
                fact = f"the loop {around} seems to be counted in code, by {', '.join(keys)}; that is not proved"
        yield Finding(code, severity, f"{path}{loop[0]}", None, fact, remedy, _witness(judgement, loop, path))


def _witness(judgement: Judgement, loop: tuple[str, ...], path: str) -> Witness:
    stem, around = (
        tuple(Transition(f"{path}{source}", "", f"{path}{target}") for source, target in pairs)
        for pairs in (_stem(judgement, loop), pairwise((*loop, loop[0])))
    )
    return Witness(stem, around, Limits(iterations=None))


def _stem(judgement: Judgement, loop: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the edges of a shortest path to a loop, without the one from the start."""
    edges = judgement.graph.edges
    pairs = [(source, target) for source, found in edges.items() for target in sorted(found)]
    return (find_path(label_edges((*pair, pair) for pair in pairs), START, loop[0]) or [])[1:]


def to_picture(judgement: Judgement) -> Picture:
    """Return the picture of a judged graph: loops without a bound are red, and the graphs in nodes are frames."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    starts, leaving = _draw(judgement, "", boxes, arrows)
    if len(starts) != 1 or END in judgement.graph.edges[START]:
        # A picture begins at one node.
        boxes.insert(0, Box(START, "opaque"))
        arrows[:0] = [Arrow(START, "", one) for one in starts]
        leaving = (*([START] if END in judgement.graph.edges[START] else []), *leaving)
        starts = (START,)
    arrows += [Arrow(one, "", FINISH.name) for one in leaving]
    text = _answer(judgement)
    notes = [f"Note: {note}." for _, one in _judgements(judgement) for note in (*one.graph.open, *one.graph.notes)]
    return Picture(starts[0], tuple(boxes), tuple(arrows), (f"{text[:1].upper()}{text[1:]}.", *notes))


def _draw(
    judgement: Judgement, path: str, boxes: list[Box], arrows: list[Arrow]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add the boxes and arrows of a graph; return the boxes that begin it, and those after which it ends."""
    graph, marks = judgement.graph, _marks(judgement)
    red = {source for (source, _), mark in marks.items() if mark == "red"}
    # The first and the last boxes of each node.
    ends: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for name in [one for one in graph.edges if one != START]:
        inner = judgement.inner.get(name)
        # What begins with its end has no boxes on that way.
        if inner is not None and END not in inner.graph.edges[START]:
            ends[name] = _draw(inner, f"{path}{name}.", boxes, arrows)
            continue
        lines = [graph.guards[name].text] if name in graph.guards else []
        lines += [f"compares {key}" for key in sorted(graph.counters.get(name, ()))]
        boxes.append(Box(f"{path}{name}", "opaque", tuple(lines), mark="red" if name in red else None))
        ends[name] = (boxes[-1].name,), (boxes[-1].name,)
    pairs = [(source, target) for source, targets in graph.edges.items() for target in sorted(targets)]
    inside = [(source, target) for source, target in pairs if source != START and target != END]
    for source, target in inside:
        mark = marks.get((source, target))
        arrows += [Arrow(one, "", other, mark=mark) for one, other in product(ends[source][1], ends[target][0])]
    starts = tuple(one for target in sorted(graph.edges[START] - {END}) for one in ends[target][0])
    return starts, tuple(
        one for source, target in pairs if target == END and source != START for one in ends[source][1]
    )


def _marks(judgement: Judgement) -> Mapping[tuple[str, str], Mark]:
    """Mark the edges of loops without a bound, also of those beside the shortest ones, and of the paths to them."""
    graph, marks = judgement.graph, dict[tuple[str, str], Mark]()
    if judgement.own in ("ends", "bounded"):
        return marks
    bound = {END, *graph.guards, *(graph.counters if judgement.own == "limited" else ())}
    rest = {name: targets - bound for name, targets in graph.edges.items() if name not in bound}
    for loop in judgement.loops:
        marks |= dict.fromkeys(_stem(judgement, loop), "orange")
    for component in map(set, strongly_connected_components(rest)):
        if any(component.issuperset(loop) for loop in judgement.loops):
            marks |= {(source, target): "red" for source in component for target in rest[source] & component}
    return marks
