"""The timeline of a run as text: a row for each visit of a node, with a bar for the time that it waited.

Calls that a node asked for together have a row each below it, with their own times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from graphexec.draw.model.text import cells, counted, duration, fitted, format_sum, padded
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import failed, format_data, format_effect, format_reply, shorten, within
from graphexec.draw.runs.records import AnyRun, Recording, recording_of
from graphexec.draw.runs.visits import CallRecord, RequestRecord, Visit, limit_text, visits_of
from graphexec.errors import InputError, format_integer

# Fewer columns have no room for a node beside its times.
_LEAST = 40
# The columns of iterations, what a node and its outcome take at most, and a bar; and of the names of the times.
_NUMBER, _WAY, _BAR, _TIME = 5, 40, 16, 6
# Between columns.
_GAP = "  "
# With fewer, there are no bars; and what was said needs so many.
_WIDE, _SAID = 84, 12
# So many characters of one text are looked at.
_TEXT = 200

_MODELS = frozenset({"CallModel", "CallAgent"})
_WAITED_FOR = {"CallModel": "model", "CallAgent": "model", "CallTool": "tools", "AskHuman": "people"}


def timeline(run: AnyRun, *, width: int = 100, ascii_only: bool = False) -> str:
    """Draw a run's timeline, no wider than `width` columns; the last lines say how it ended and what it cost.

    A row says which iteration begins, when the visit began and how long it waited for replies, the node, its outcome,
    and what was asked and answered. Several calls that were asked for together have a row each, below that of the node.
    Raises `InputError` for less than 40 columns.
    """
    if width < _LEAST:
        raise InputError(f"the width is {width!r}, and a row needs {_LEAST} columns; give {_LEAST} or more")
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
        # The signs of a bar's last cell, from the shortest to the full one.
        self._parts = "#" if ascii_only else "▏▎▍▌▋▊▉█"
        self._began = visits[0].began if visits else 0.0
        self._duration = _duration(visits)
        self._bar = _BAR if width >= _WIDE else 0
        self._time = max(_TIME, len(self._clock(self._duration)))
        times = _NUMBER + 2 * (self._time + len(_GAP)) + len(_GAP) + (self._bar + len(_GAP) if self._bar else 0)
        ways = [self._way_of(visit) for visit in visits]
        ways += [self._way_of_call(call) for visit in visits for call in _calls_together(visit)]
        widest = max(map(cells, ways), default=0)
        self._way = min(widest, _WAY, width - times)
        self._said = width - times - self._way - len(_GAP)

    def head(self) -> str:
        bar = " " * (self._bar + len(_GAP)) if self._bar else ""
        times = f"{'began':>{self._time}}{_GAP}{'waited':>{self._time}}"
        return self.line(f"{'#':>{_NUMBER}}{_GAP}{times}{_GAP}{bar}node → outcome")

    def rows(self, visit: Visit) -> Iterator[str]:
        """Yield the row of a visit, and of each call that was asked for together with others."""
        number = "" if visit.iteration is None else format_integer(visit.iteration)
        yield self._row(number, visit.began, visit.waited, self._way_of(visit), _describe_visit(visit))
        for call in _calls_together(visit):
            yield self._row("", call.began, call.seconds, self._way_of_call(call), _describe_call(call))

    def _row(self, number: str, began: float, waited: float, way: str, said: str) -> str:
        columns = [f"{number:>{_NUMBER}}", f"{self._clock(began - self._began):>{self._time}}"]
        columns.append(f"{self._clock(waited) if waited else '':>{self._time}}")
        if self._bar:
            columns.append(padded(self._bar_of(began, waited), self._bar))
        columns.append(padded(self._fit(way, self._way), self._way))
        if self._said >= _SAID:
            columns.append(self._fit(said, self._said))
        return self.line(_GAP.join(columns))

    def line(self, text: str) -> str:
        return self._fit(text, self._width)

    def _fit(self, text: str, room: int) -> str:
        return fitted(self._to_ascii(text), room, more="..." if self._ascii else "…")

    def _clock(self, seconds: float) -> str:
        return f"{seconds:,.2f} s" if self._duration >= 1 else f"{seconds * 1000:,.2f} ms"

    def _way_of(self, visit: Visit) -> str:
        node = shorten(visit.node, _TEXT)
        return self._to_ascii(node if visit.outcome is None else f"{node} → {shorten(visit.outcome, _TEXT)}")

    def _way_of_call(self, call: CallRecord) -> str:
        name = call.effect.get("tool", call.effect["effect"])
        return self._to_ascii(f"{_GAP}{shorten(str(name), _TEXT)}")

    def _bar_of(self, began: float, waited: float) -> str:
        """A bar where it waited, as long as it did: in the parts of which a cell has several."""
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


def _calls_together(visit: Visit) -> Iterator[CallRecord]:
    """Yield the calls that have rows of their own, in the order of the request."""
    for request in visit.requests:
        if len(request.calls) > 1:
            yield from sorted(request.calls, key=lambda call: call.member)


def _describe_visit(visit: Visit) -> str:
    said = [text for request in visit.requests for text in _describe_request(request)]
    return "; ".join([*said, *([shorten(visit.limit, _TEXT)] if visit.limit else [])])


def _describe_request(request: RequestRecord) -> Iterator[str]:
    yield from (f"[{shorten(text, _TEXT)}]" for text in request.news)
    if len(request.calls) > 1:
        yield f"{len(request.calls)} calls {'at once' if request.at_once else 'in turn'}"
    else:
        yield from map(_describe_call, request.calls)


def _describe_call(call: CallRecord) -> str:
    parts = [f"[{shorten(text, _TEXT)}]" for text in call.news]
    told, effect, reply = "no reply", call.effect, call.reply
    if reply is not None:
        told, wrong = format_reply(reply, _TEXT), failed(reply)
        told = f"{wrong}: {told}" if wrong else told
    # What a model is told was said in the rows above.
    parts.append(told if effect["effect"] in _MODELS else f"{format_effect(effect, _TEXT)} → {told}")
    inner = within(call.within)
    return "; ".join([*parts, *([inner] if inner else [])])


def _totals(recording: Recording, visits: Sequence[Visit]) -> Iterator[str]:
    result = recording.result
    yield "still running" if result is None else _describe_ending(result)
    nothing: Record = {}
    spent: Record = next((one["spent"] for one in reversed(recording.records) if one.get("spent")), nothing)
    if spent:
        parts = format_sum(spent["prompt_tokens"], spent["completion_tokens"])
        tokens = f"{counted(spent['tokens'], 'token')} ({parts})"
        facts = [
            counted(spent["iterations"], "iteration"),
            counted(spent["model_calls"], "model call"),
            counted(spent["tool_calls"], "tool call"),
            tokens if spent["tokens"] else "",
            f"cost {spent['cost']:.6g}" if spent["cost"] else "",
            duration(_duration(visits)),
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
                who = _WAITED_FOR.get(call.effect["effect"], "world")
                waited[who] = waited.get(who, 0.0) + request.seconds
    waited["machine"] = max(took - sum(waited.values()), 0.0)
    yield "time: " + ", ".join(f"{who} {share / took:.0%}" for who, share in waited.items())
