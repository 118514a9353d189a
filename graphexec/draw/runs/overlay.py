"""Runs drawn over their machine: the edges they took, how often, and where something failed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from graphexec.draw.model.picture import Arrow, Box, Picture
from graphexec.draw.model.text import format_data, format_duration, format_quantity, shorten
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError

# An edge that was taken at most so often lists its step numbers; others show the count only.
_STEPS = 4
# Characters of an answer, and of an error.
_ANSWER, _ERROR = 80, 200


def overlay_runs(picture: Picture, runs: Sequence[Recording]) -> Picture:
    """Return the picture with the path of one run, or with the edges that several took and how often.

    Raises `InputError` for a run with an edge that the machine does not have.
    """
    if not runs:
        return picture
    steps = [steps_of(picture, run.records) for run in runs]
    taken = Counter(edge for path in steps for edge in path)
    visits = Counter(picture.arrows[edge].source for path in steps for edge in path)
    failures = Counter(node for run in runs for node in _failed_nodes(run))
    single = len(runs) == 1
    current_node = _current_node(runs[0]) if single else None

    def annotate_arrow(index: int, arrow: Arrow) -> Arrow:
        count = taken[index]
        notes = (f"×{count:,}",) if count else ()
        if single and 0 < count <= _STEPS:
            numbers = [str(number) for number, edge in enumerate(steps[0], 1) if edge == index]
            notes = (f"{'step' if count == 1 else 'steps'} {', '.join(numbers)}",)
        return dataclasses.replace(arrow, notes=notes, taken=count > 0)

    def annotate_box(box: Box) -> Box:
        count, failed, current = visits[box.name], failures[box.name], box.name == current_node
        notes: tuple[str, ...] = (f"×{count:,}",) if count > 1 else ()
        notes += (f"{failed:,} failed",) if failed else ()
        return dataclasses.replace(
            box, notes=notes, taken=bool(count or current or failed), current=current, failed=failed > 0
        )

    return dataclasses.replace(
        picture,
        boxes=tuple(map(annotate_box, picture.boxes)),
        arrows=tuple(annotate_arrow(index, arrow) for index, arrow in enumerate(picture.arrows)),
        caption=(*(_describe(runs[0]) if single else _describe_all(runs)), *picture.caption),
    )


def _failed_nodes(run: Recording) -> Iterator[str]:
    """Yield the node of each call that failed, of each reply that could not be parsed, and of an exception."""
    for record in run.records:
        match record:
            case {"event": "answered", "node": node, "replies": replies}:
                yield from (node for reply in replies if reply.get("status", "ok") != "ok")
            case {"event": "moved", "node": node, "steps": unread}:
                yield from (node for _ in unread)
            case {"event": "failed", "node": node}:
                yield node
            case _:
                pass


def steps_of(picture: Picture, records: Iterable[Record]) -> list[int]:
    """Return the edges that a run took. Raises `InputError` for one that the machine does not have."""
    indices = {(arrow.source, arrow.outcome, arrow.target): index for index, arrow in enumerate(picture.arrows)}
    steps: list[int] = []
    for record in records:
        if record["event"] == "moved":
            edge = record["node"], record["outcome"], record["target"]
            if edge not in indices:
                raise InputError(
                    f"the run took {edge[0]} --{edge[1]}--> {edge[2]}, which this machine does not have; draw it over "
                    f"the one that ran"
                )
            steps.append(indices[edge])
    return steps


def _current_node(run: Recording) -> str | None:
    """Return the last node of an unfinished run."""
    if run.result is not None and run.result["status"] in ("answered", "stopped"):
        return None
    for record in reversed(run.records):
        if "node" in record:
            return str(record.get("target", record["node"]))
    return None


def _describe(run: Recording) -> tuple[str, ...]:
    result = run.result
    nothing: Record = {}
    spent: Record = next((record["spent"] for record in reversed(run.records) if "spent" in record), nothing)
    costs = [
        format_quantity(spent.get("model_calls", 0), "model call"),
        format_quantity(spent.get("tool_calls", 0), "tool call"),
        format_quantity(spent.get("tokens", 0), "token"),
        format_duration(max(spent.get("seconds", 0.0), (result or {}).get("seconds", 0.0))),
    ]
    if spent.get("cost"):
        costs.append(f"cost {spent['cost']:.4g}")
    output = None if result is None else result["output"]
    answer = () if output is None else (f"Answer: {format_data(output, _ANSWER)}",)
    error: Record = (result or {}).get("error") or {}
    message = (shorten(str(error["message"]), _ERROR),) if error.get("message") else ()
    return (*answer, f"{_status(result)} after {', '.join(costs)}.", *message)


def _status(result: Record | None) -> str:
    match result:
        case None:
            return "Still running"
        case {"status": "stopped", "cause": {"by": by}}:
            return f"Refused by {by}"
        case {"status": "stopped", "cause": {"limit": limit}}:
            return f"Stopped by the limit on {str(limit).replace('_', ' ')},"
        case {"status": "error", "error": {"type": kind}}:
            return f"Failed with {kind}"
        case {"status": status}:
            return str(status).capitalize()
        case _:
            return "Ended"


def _describe_all(runs: Sequence[Recording]) -> tuple[str, ...]:
    ends = Counter("still running" if run.result is None else str(run.result["status"]) for run in runs)
    counts = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
    return (f"{format_quantity(len(runs), 'run')}: {counts}.",)
