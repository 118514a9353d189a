"""A run in a few facts: what a list of many runs shows of each, and filters them by."""

from __future__ import annotations

from collections import Counter
from typing import Any

from graphexec.draw.model.picture import Picture
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import format_data
from graphexec.draw.runs.overlay import steps_of
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.visits import Visit, visits_of

# Characters of a question, an answer and an error.
_LONG = 300
_NOTHING: Record = {}


def summarize(recording: Recording, picture: Picture) -> Record:
    """Return the facts of a run on its machine. Raises `InputError` if the run took an edge that it does not have.

    They are `asked`, `answer`, `error`, `outcome` (the result's status, or `unfinished`), `reason`, `model`, `agent`,
    `began`, `run`, `parent`, `steps`, `failures`, `seconds`, `tokens`, `cost`; `edges` (by index, how often each was
    taken), `nodes` (the visits and failures of each), and `calls` of tools (name, status, seconds).
    """
    start = recording.records[0]
    # A run that could not begin has a result without usage.
    result: Record = recording.result or {"status": "unfinished"}
    visits = visits_of(recording)
    spent: Record = next((one["spent"] for one in reversed(recording.records) if "spent" in one), _NOTHING)
    error: Record = result.get("error") or {}
    return {
        "asked": _question(start.get("input")),
        "answer": _text(result.get("output")),
        "error": _text(error.get("message") or error.get("type")),
        "outcome": result["status"],
        "reason": _text(result.get("reason")),
        "model": _text(start.get("model")),
        "agent": _text(start.get("agent")),
        "began": _text(start.get("began")),
        "run": next((one["run"] for one in recording.records if one["event"] == "entered" and "run" in one), ""),
        "parent": start.get("parent"),
        "steps": len(visits),
        "failures": sum(visit.failures for visit in visits),
        "seconds": max(spent.get("seconds", 0.0), result.get("seconds", 0.0)),
        "tokens": spent.get("tokens", 0),
        "cost": spent.get("cost", 0),
        "edges": dict(Counter(step.edge for step in steps_of(picture, recording.records))),
        "nodes": _nodes(visits),
        "calls": [call for visit in visits for call in _calls(visit)],
    }


# Any: a run's input is arbitrary.
def _question(given: Any) -> str:
    match given:
        case {"input": asked}:
            return _text(asked)
        case _:
            return _text(given)


def _text(value: object) -> str:
    return "" if value is None else format_data(value, _LONG)


def _nodes(visits: list[Visit]) -> dict[str, list[int]]:
    visited = Counter(visit.node for visit in visits)
    failed: Counter[str] = Counter()
    for visit in visits:
        failed[visit.node] += visit.failures
    return {node: [count, failed[node]] for node, count in visited.items()}


def _calls(visit: Visit) -> list[list[str | float]]:
    """Return the calls of tools: the name, the status, and the seconds."""
    pending: Record = {"status": "pending"}
    return [
        [call.effect["tool"], (call.reply or pending).get("status", "ok"), round(call.seconds, 3)]
        for request in visit.requests
        for call in request.calls
        if "tool" in call.effect
    ]
