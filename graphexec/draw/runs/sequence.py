"""Mermaid: a run as a sequence diagram of requests and replies, in the order in which they happened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from graphexec.draw.model.text import format_duration, format_quantity, sanitize_line
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import (
    failure_label,
    format_data,
    format_effect,
    format_nested_usage,
    format_reasoning,
    format_reply,
    format_tokens,
    shorten,
)
from graphexec.draw.runs.recorder import AnyRun, recording_of
from graphexec.draw.runs.visits import CallRecord, RequestRecord, Visit, limit_text, visits_of
from graphexec.errors import format_integer

# The Mermaid identifiers of the participants that every run has.
_USER, _AGENT = "p0", "p1"
# The maximum length of a line, and of a name.
_LABEL, _NAME = 60, 24

_Role: TypeAlias = Literal["user", "agent", "model", "tool", "person", "world", "function"]
_Participant: TypeAlias = tuple[_Role, str]
# The roles from left to right, with their names; tools and functions have names of their own.
_ROLES: Mapping[_Role, str] = {
    "user": "User",
    "agent": "Agent",
    "model": "Model",
    "tool": "",
    "person": "Person",
    "world": "World",
    "function": "",
}
# The role that each effect addresses; others that have a prompt address "model", and the rest "world".
_ASKED: Mapping[str, _Role] = {
    "CallModel": "model",
    "CallAgent": "model",
    "CallTool": "tool",
    "AskHuman": "person",
    "Perform": "function",
}
# Mermaid's arrows, with the sign that activates the target or deactivates the source.
_CALL, _REPLY, _FAILURE = "->>+", "-->>-", "--x-"
# Characters that Mermaid may read as an entity, a delimiter, a tag, a directive or a formula; its two placeholders for
# entities while it parses; and the keyword `wrap:`.
_READ = re.compile(r"[#;<>&%$ﬂ¶]|^(?:no)?wrap(?=:)", re.IGNORECASE)


def sequence_mermaid(run: AnyRun) -> str:
    """Draw a run as Mermaid's `sequenceDiagram`.

    Mermaid itself draws at most 50,000 characters, unless its `maxTextSize` is set.
    """
    recording = recording_of(run)
    start, visits = recording.records[0], visits_of(recording)
    calls = ((visit.node, call) for visit in visits for request in visit.requests for call in request.calls)
    others = dict.fromkeys(_participant_for(call.effect, node) for node, call in calls)
    participants: list[_Participant] = [("user", _ROLES["user"]), ("agent", _ROLES["agent"])]
    participants += sorted(others, key=lambda one: [*_ROLES].index(one[0]))
    places = {one: f"p{place}" for place, one in enumerate(participants)}
    lines = ["sequenceDiagram", "    autonumber"]
    for one, place in places.items():
        kind = "actor" if one[0] in ("user", "person") else "participant"
        lines.append(f"    {kind} {place} as {_text(shorten(one[1], _NAME) or '?', _detail(one[0], start))}")
    lines.append(f"    {_arrow(_USER, _CALL, _AGENT, format_data(_input(start), _LABEL))}")
    for visit in visits:
        lines += [f"    {line}" for line in _visit(visit, places)]
    noted = any(visit.limit is not None for visit in visits)
    lines += [f"    {line}" for line in _ending(recording.result, noted=noted)]
    return "\n".join(lines) + "\n"


def _participant_for(effect: Record, node: str) -> _Participant:
    role = _ASKED.get(effect["effect"], "model" if "prompt" in effect else "world")
    return role, str(effect.get("tool", node)) if role == "tool" else _ROLES[role] or node


def _detail(role: _Role, start: Record) -> str:
    match role:
        case "agent" | "model":
            return shorten(str(start.get(role) or ""), _NAME)
        case "tool" | "function":
            return role
        case _:
            return ""


def _visit(visit: Visit, places: Mapping[_Participant, str]) -> Iterator[str]:
    if visit.iteration is not None:
        yield _note(f"{_USER},p{len(places) - 1}", f"iteration {format_integer(visit.iteration, ',')}")
    for request in visit.requests:
        yield from _request(request, [places[_participant_for(call.effect, visit.node)] for call in request.calls])
    if visit.unread:
        yield _note(_AGENT, f"not read: {visit.unread}")
    if visit.limit is not None:
        yield _note(_AGENT, visit.limit)


def _request(request: RequestRecord, places: Sequence[str]) -> Iterator[str]:
    called = sorted(zip(request.calls, places, strict=True), key=lambda one: one[0].member)
    if request.at_once:
        took = "" if request.waiting() else f", {format_duration(request.seconds)}"
        for index, (call, place) in enumerate(called):
            yield "and" if index else f"par {_text(f'{len(called)} at once{took}')}"
            yield from (f"    {line}" for line in _call(call, place))
        yield "end"
    else:
        for call, place in called:
            yield from _call(call, place)
    yield from (_note(_AGENT, text) for text in request.news)


def _call(call: CallRecord, place: str) -> Iterator[str]:
    yield _arrow(_AGENT, _CALL, place, format_effect(call.effect, _LABEL))
    yield from (_note(place, text) for text in call.news)
    if call.reply is not None:
        if thoughts := format_reasoning(call.reply, _LABEL):
            yield _note(place, thoughts)
        wrong = failure_label(call.reply)
        facts = filter(
            None, (wrong, format_tokens(call.reply), format_duration(call.seconds), format_nested_usage(call.within))
        )
        arrow = _FAILURE if wrong else _REPLY
        yield _arrow(place, arrow, _AGENT, format_reply(call.reply, _LABEL), ", ".join(facts))


def _ending(result: Record | None, *, noted: bool) -> Iterator[str]:
    if result is None:
        yield _note(_AGENT, "still running")
        return
    limit = limit_text(result.get("limit"))
    if limit and not noted:
        yield _note(_AGENT, limit)
    output, error, status = result.get("output"), result.get("error"), str(result["status"])
    facts = [] if output is None else [format_data(output, _LABEL)]
    if error:
        facts.append(shorten(str(error["message"]), _LABEL))
    if status != "answered":
        facts.append(f"{status}: {shorten(str(result['reason']), _NAME)}" if limit else status)
    yield _arrow(_AGENT, _REPLY if status == "answered" else _FAILURE, _USER, *facts, _totals(result))


# Any: a run's input is arbitrary.
def _input(start: Record) -> Any:
    match start.get("input"):
        case {"input": given}:
            return given
        case None:
            return "start"
        case given:
            return given


def _totals(result: Record) -> str:
    spent: Record = result.get("spent") or {}
    seconds = result.get("seconds", spent.get("seconds"))
    facts = [
        format_quantity(spent.get("model_calls", 0), "model call"),
        format_quantity(spent["tokens"], "token") if spent.get("tokens") else "",
        "" if seconds is None else format_duration(seconds),
    ]
    return ", ".join(filter(None, facts))


def _arrow(source: str, arrow: str, target: str, *lines: str) -> str:
    return f"{source}{arrow}{target}: {_text(*lines)}"


def _note(over: str, text: str) -> str:
    return f"Note over {over}: {_text(shorten(text, _LABEL))}"


def _text(*lines: str) -> str:
    return "<br/>".join(_READ.sub(_entities, sanitize_line(line)) for line in lines if line) or "#32;"


def _entities(found: re.Match[str]) -> str:
    return "".join(f"#{ord(sign)};" for sign in found[0])
