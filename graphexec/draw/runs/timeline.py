"""The timeline of a run as text: a row for each visit of a node, with a bar for its waiting time.

The calls of one request have a row each below it, with their own times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from graphexec.draw.model.text import (
    count_cells,
    format_cached,
    format_duration,
    format_quantity,
    format_sum,
    pad,
    truncate,
)
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import (
    failure_label,
    format_data,
    format_effect,
    format_nested_usage,
    format_reasoning,
    format_reply,
    shorten,
)
from graphexec.draw.runs.recorder import AnyRun, recording_of
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.visits import CallRecord, RequestRecord, Visit, limit_text, visits_of
from graphexec.errors import InputError, format_integer

# The minimum width: a node's name needs space beside its times.
_LEAST = 40
# Widths: the iteration, the maximum for a node with its outcome, the bar, and the minimum for a time.
_NUMBER, _MOVE, _BAR, _TIME = 5, 40, 16, 6
# Between columns.
_GAP = "  "
# The minimum width for bars, and the minimum for the description of requests and replies.
_WIDE, _DESCRIPTION = 84, 12
# The maximum length of one label.
_TEXT = 200
# That of reasoning, which comes before an answer.
_REASONING = 60

# Other effects that have a prompt wait for the model.
_WAITED_FOR = {"CallModel": "model", "CallAgent": "model", "CallTool": "tools", "AskHuman": "people"}


def timeline(run: AnyRun, *, width: int = 100, ascii_only: bool = False) -> str:
    """Draw a run's timeline, at most `width` columns wide; the last lines give its result and cost.

    A row gives the number of the iteration that begins, the start of the visit, its waiting time, the node, its
    outcome, and the requests with their replies. Several calls of one request have a row each below that of the node.
    Raises `InputError` for less than 40 columns.
    """
    if width < _LEAST:
        raise InputError(f"width={width!r} is too small for a row; pass {_LEAST} or more")
    recording = recording_of(run)
    visits = visits_of(recording)
    rows = _Rows(visits, width, ascii_only=ascii_only)
    shown = [row for visit in visits for row in rows.rows(visit)]
    lines = [rows.head(), *shown, "", *map(rows.line, _totals(recording, visits))]
    return "".join(f"{line.rstrip()}\n" for line in lines)


@final
class _Rows:
    def __init__(self, visits: Sequence[Visit], width: int, *, ascii_only: bool) -> None:
        self._width = width
        self._ascii = ascii_only
        # The characters of a bar's last cell, from the shortest to the full one.
        self._parts = "#" if ascii_only else "▏▎▍▌▋▊▉█"
        self._began = visits[0].began if visits else 0.0
        self._duration = _duration(visits)
        self._bar = _BAR if width >= _WIDE else 0
        self._time = max(_TIME, len(self._clock(self._duration)))
        times = _NUMBER + 2 * (self._time + len(_GAP)) + len(_GAP) + (self._bar + len(_GAP) if self._bar else 0)
        moves = [self._format_move(visit) for visit in visits]
        moves += [self._format_target(call) for visit in visits for call in _grouped_calls(visit)]
        widest = max(map(count_cells, moves), default=0)
        self._move = min(widest, _MOVE, width - times)
        self._description = width - times - self._move - len(_GAP)

    def head(self) -> str:
        bar = " " * (self._bar + len(_GAP)) if self._bar else ""
        times = f"{'began':>{self._time}}{_GAP}{'waited':>{self._time}}"
        return self.line(f"{'#':>{_NUMBER}}{_GAP}{times}{_GAP}{bar}node → outcome")

    def rows(self, visit: Visit) -> Iterator[str]:
        """Yield the row of a visit, and those of its requests with several calls."""
        number = "" if visit.iteration is None else format_integer(visit.iteration)
        yield self._row(number, visit.began, visit.waited, self._format_move(visit), _describe_visit(visit))
        for call in _grouped_calls(visit):
            yield self._row("", call.began, call.seconds, self._format_target(call), _describe_call(call))

    def _row(self, number: str, began: float, waited: float, move: str, description: str) -> str:
        columns = [f"{number:>{_NUMBER}}", f"{self._clock(began - self._began):>{self._time}}"]
        columns.append(f"{self._clock(waited) if waited else '':>{self._time}}")
        if self._bar:
            columns.append(pad(self._bar_of(began, waited), self._bar))
        columns.append(pad(self._fit(move, self._move), self._move))
        if self._description >= _DESCRIPTION:
            columns.append(self._fit(description, self._description))
        return self.line(_GAP.join(columns))

    def line(self, text: str) -> str:
        return self._fit(text, self._width)

    def _fit(self, text: str, room: int) -> str:
        return truncate(self._to_ascii(text), room, more="..." if self._ascii else "…")

    def _clock(self, seconds: float) -> str:
        return f"{seconds:,.2f} s" if self._duration >= 1 else f"{seconds * 1000:,.2f} ms"

    def _format_move(self, visit: Visit) -> str:
        node = shorten(visit.node, _TEXT)
        return self._to_ascii(node if visit.outcome is None else f"{node} → {shorten(visit.outcome, _TEXT)}")

    def _format_target(self, call: CallRecord) -> str:
        name = call.effect.get("tool", call.effect["effect"])
        return self._to_ascii(f"{_GAP}{shorten(str(name), _TEXT)}")

    def _bar_of(self, began: float, waited: float) -> str:
        """Return a bar at the time of the wait, with its length in fractions of a cell."""
        if not waited or not self._duration:
            return ""
        parts = self._parts
        many = min(max(1, round(waited / self._duration * self._bar * len(parts))), self._bar * len(parts))
        full, rest = divmod(many, len(parts))
        long = full + bool(rest)
        before = min(int((began - self._began) / self._duration * self._bar), self._bar - long)
        return " " * max(before, 0) + parts[-1] * full + (parts[rest - 1] if rest else "")

    def _to_ascii(self, text: str) -> str:
        if not self._ascii:
            return text
        return text.replace("→", "->").replace("…", "...").encode("ascii", "replace").decode()


def _duration(visits: Sequence[Visit]) -> float:
    return visits[-1].ended - visits[0].began if visits else 0.0


def _grouped_calls(visit: Visit) -> Iterator[CallRecord]:
    """Yield the calls with rows of their own, in the order of the request."""
    for request in visit.requests:
        if len(request.calls) > 1:
            yield from sorted(request.calls, key=lambda call: call.member)


def _describe_visit(visit: Visit) -> str:
    texts = [text for request in visit.requests for text in _describe_request(request)]
    texts += [f"[{shorten(f'not read: {visit.unread}', _TEXT)}]"] if visit.unread else []
    texts += [
        shorten(f"could not be parsed: {format_data(step['observation'], _TEXT)}", _TEXT) for step in visit.unasked
    ]
    texts += [shorten(f"failed: {visit.error['message']}", _TEXT)] if visit.error else []
    return "; ".join([*texts, *([shorten(visit.limit, _TEXT)] if visit.limit else [])])


def _describe_request(request: RequestRecord) -> Iterator[str]:
    yield from (f"[{shorten(text, _TEXT)}]" for text in request.news)
    if len(request.calls) > 1:
        yield f"{len(request.calls)} calls {'at once' if request.at_once else 'in turn'}"
    else:
        yield from map(_describe_call, request.calls)


def _describe_call(call: CallRecord) -> str:
    parts = [f"[{shorten(text, _TEXT)}]" for text in call.news]
    answer, effect, reply = "no reply", call.effect, call.reply
    if reply is not None:
        if thoughts := format_reasoning(reply, _REASONING):
            parts.append(f"[{thoughts}]")
        answer, failure = format_reply(reply, _TEXT), failure_label(reply)
        answer = f"{failure}: {answer}" if failure else answer
    # A prompt repeats what the rows above show.
    parts.append(answer if _waited_for(effect) == "model" else f"{format_effect(effect, _TEXT)} → {answer}")
    inner = format_nested_usage(call.within)
    return "; ".join([*parts, *([inner] if inner else [])])


def _waited_for(effect: Record) -> str:
    return _WAITED_FOR.get(effect["effect"], "model" if "prompt" in effect else "world")


def _totals(recording: Recording, visits: Sequence[Visit]) -> Iterator[str]:
    result = recording.result
    yield "still running" if result is None else _describe_ending(result)
    nothing: Record = {}
    spent: Record = next((one["spent"] for one in reversed(recording.records) if one.get("spent")), nothing)
    if spent:
        parts = format_sum(spent["prompt_tokens"], spent["completion_tokens"])
        tokens = f"{format_quantity(spent['tokens'], 'token')} ({parts}{format_cached(spent.get('cached_tokens', 0))})"
        facts = [
            format_quantity(spent["iterations"], "iteration"),
            format_quantity(spent["model_calls"], "model call"),
            format_quantity(spent["tool_calls"], "tool call"),
            tokens if spent["tokens"] else "",
            f"cost {spent['cost']:.6g}" if spent["cost"] else "",
            format_duration(_duration(visits)),
        ]
        yield ", ".join(fact for fact in facts if fact)
    yield from _shares(visits)


def _describe_ending(result: Record) -> str:
    error, output = result.get("error"), result.get("output")
    facts = [
        limit_text(result.get("limit")) or "",
        "" if output is None else format_data(output, _TEXT),
        shorten(str(error["message"]), _TEXT) if error else "",
    ]
    return f"{result['status']}: {'; '.join(filter(None, facts))}".removesuffix(": ")


def _shares(visits: Sequence[Visit]) -> Iterator[str]:
    took = _duration(visits)
    if not took:
        return
    waited: dict[str, float] = {}
    for visit in visits:
        for request in visit.requests:
            for call in request.calls[:1]:
                who = _waited_for(call.effect)
                waited[who] = waited.get(who, 0.0) + request.seconds
    waited["machine"] = max(took - sum(waited.values()), 0.0)
    yield "time: " + ", ".join(f"{who} {share / took:.0%}" for who, share in waited.items())
