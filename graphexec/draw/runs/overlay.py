"""Runs drawn over their machine: the edges they took, how often, and the time at each node."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """Return the picture with the path of one run, or a heat map of several.

    Raises `InputError` for a run with an edge that the machine does not have.
    """
    if not runs:
        return picture
    steps = [steps_of(picture, run.records) for run in runs]
    taken = Counter(edge for path in steps for edge in path)
    runs_through = Counter(edge for path in steps for edge in set(path))
    most = max(taken.values(), default=1)
    visits = Counter(picture.arrows[edge].source for path in steps for edge in path)
    costs = _costs_of(runs)
    single = len(runs) == 1
    current_node = _current_node(runs[0]) if single else None

    def annotate_arrow(index: int, arrow: Arrow) -> Arrow:
        count = taken[index]
        notes: tuple[str, ...] = ()
        if count and single:
            numbers = [str(number) for number, edge in enumerate(steps[0], 1) if edge == index]
            which = f"{'step' if count == 1 else 'steps'} {', '.join(numbers)}"
            notes = (which,) if count <= _STEPS else (f"×{count:,}",)
        elif count:
            notes = (f"×{count:,} in {runs_through[index]:,} of {format_quantity(len(runs), 'run')}",)
        return dataclasses.replace(arrow, notes=notes, heat=count / most)

    def annotate_box(box: Box) -> Box:
        count = visits[box.name]
        current = box.name == current_node
        cost = costs[box.name]
        times = [f"×{count:,}"] if count > 1 else []
        if cost.calls:
            # The number of visits is enough where each made one call.
            made = [format_quantity(cost.calls, "call")] if cost.calls != count else []
            times += [*made, format_duration(cost.seconds)]
        notes: tuple[str, ...] = (" · ".join(times),) if times else ()
        notes += (f"{cost.failures:,} failed",) if cost.failures else ()
        heat = float(bool(count or current or cost.failures))
        return dataclasses.replace(box, notes=notes, heat=heat, current=current, failed=cost.failures > 0)

    return dataclasses.replace(
        picture,
        boxes=tuple(map(annotate_box, picture.boxes)),
        arrows=tuple(annotate_arrow(index, arrow) for index, arrow in enumerate(picture.arrows)),
        caption=(*(_describe(runs[0]) if single else _describe_all(runs)), *picture.caption),
    )


@dataclass(slots=True)
class _Cost:
    """What happened at a node: calls with a reply, what failed, and the seconds in which a call was open."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0


def _costs_of(runs: Iterable[Recording]) -> dict[str, _Cost]:
    costs: dict[str, _Cost] = defaultdict(_Cost)
    for run in runs:
        times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        # The calls without a reply, by request and member: where and when each was requested.
        pending: dict[tuple[int | None, int], tuple[str, float]] = {}
        now = 0.0
        for record in run.records:
            now = record["spent"]["seconds"] if "spent" in record else now
            call: Record = record.get("call", {})
            key = call.get("sequence"), call.get("member", 0)
            match record:
                case {"event": "entered"}:
                    pending.clear()
                case {"event": "asked", "node": node}:
                    pending[key] = node, now
                case {"event": "answered", "node": node, "replies": replies}:
                    pending.pop(key, None)
                    costs[node].calls += len(replies)
                    costs[node].failures += sum(reply.get("status", "ok") != "ok" for reply in replies)
                    times[node] += [(reply["began"], reply["began"] + reply["seconds"]) for reply in replies]
                case {"event": "moved", "node": node}:
                    # Replies that could not be parsed.
                    costs[node].failures += len(record.get("steps", ()))
                case {"event": "failed", "node": node}:
                    costs[node].failures += 1
                case {"event": "result", "seconds": seconds}:
                    for node, began in pending.values():
                        times[node].append((began, seconds))
                case _:
                    pass
        for node, spans in times.items():
            costs[node].seconds += _covered(spans)
    return costs


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that spans of time cover together: concurrent calls count once."""
    covered = ended = 0.0
    for began, end in sorted(spans):
        covered += max(0.0, end - max(began, ended))
        ended = max(ended, end)
    return covered


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
