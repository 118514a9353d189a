"""Tampered traces: with one part exchanged, left out or moved, each is refused with its fault."""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor
from graphexec.verify.audit.audit import audit
from tests.parameters import cases
from tests.verify.tampering import CHANGES, GONE, HUGE, JSON, Path, changed, exchange, paths
from tests.verify.test_audit import ending_with
from tests.verify.test_audit_members import calling, nesting, recorded
from tests.verify.traces import Trace, acting, facts_of, proof_of, trace_of

RUNS: dict[str, Callable[[], AgentExecutor]] = {
    "answered": lambda: acting([1, 1], max_execution_time=60),
    "stopped": lambda: acting([1, 1], max_iterations=1),
    "failed": lambda: ending_with(ValueError, 2),
    "interrupted": lambda: ending_with(KeyboardInterrupt, 0),
    "members": lambda: calling("quick", "slow", "broken", max_tool_calls=5),
    "outer": lambda: nesting(2)[0],
}


@functools.cache
def executor_of(run: str) -> AgentExecutor:
    return RUNS[run]()


@functools.cache
def lines_of(run: str) -> str:
    executor = executor_of(run)
    return json.dumps(recorded(executor) if run in ("members", "outer") else trace_of(executor))


def trace(run: str) -> Trace:
    records: Trace = json.loads(lines_of(run))
    return records


def facts(run: str, tampered: Any) -> list[str]:
    return facts_of(tampered, proof_of(executor_of(run)))


@cases("run", *RUNS)
def test_unchanged_trace_conforms(run: str) -> None:
    assert facts(run, trace(run)) == []


@dataclass(frozen=True)
class Place:
    """A record, by its event, its node (`None` for results), and the number of such records before it."""

    event: str
    node: str | None = None
    number: int = 0

    def of(self, records: Trace) -> int:
        kinds = [(record["event"], record.get("node")) for record in records]
        return [line for line, kind in enumerate(kinds) if kind == (self.event, self.node)][self.number]


START, RESULT = Place("start"), Place("result")
FIRST, SECOND = Place("entered", "plan"), Place("entered", "plan", 1)
ASKED, ANSWERED, MOVED = Place("asked", "plan"), Place("answered", "plan"), Place("moved", "plan")
TOOL, REPLY, LEFT = (Place(event, "dispatch_tools") for event in ("asked", "answered", "moved"))
LAST = Place("moved", "stopped_response")
END = Place("moved", "parse", 2)


@dataclass(frozen=True)
class Tampering:
    """A change of a run's trace at a place, and the expected message."""

    run: str
    place: Place
    message: str
    change: Callable[[Trace, int], Trace]


def value(run: str, place: Place, path: Path, message: str, *values: Any) -> list[Tampering]:
    """Return changes of one value of a record."""

    def change(new: Any) -> Callable[[Trace, int], Trace]:
        return lambda records, line: [*records[:line], changed(records[line], path, new), *records[line + 1 :]]

    return [Tampering(run, place, message, change(new)) for new in values]


def left_out(records: Trace, line: int) -> Trace:
    return [*records[:line], *records[line + 1 :]]


def twice(records: Trace, line: int) -> Trace:
    return [*records[:line], records[line], *records[line:]]


def again_at_the_end(records: Trace, line: int) -> Trace:
    return [*records[:-1], records[line], records[-1]]


def after_the_end(records: Trace, line: int) -> Trace:
    return [*records, records[line]]


def swapped(records: Trace, line: int) -> Trace:
    return [*records[: line - 1], records[line], records[line - 1], *records[line + 1 :]]


def without_the_beginning(records: Trace, line: int) -> Trace:
    return [records[0], *records[line:]]


SPENT: Path = ("spent",)
NO_FORM = "a record does not have the form that graphexec run --json prints"

STATUS = [
    *value("answered", RESULT, ("status",), "ended with AgentFinish, but its status is", "stopped"),
    *value("answered", RESULT, ("status",), "the run reached END, but its status is", "error", "interrupted", "usage"),
    *value("answered", RESULT, ("status",), "a run cannot have the status", "done", "Answered", "", 0),
    *value("answered", RESULT, ("status",), "the trace ends before|cannot have the status", None),
    *value("stopped", RESULT, ("status",), "its status is", "answered", "error"),
    *value("failed", RESULT, ("status",), "did not reach END", "answered", "stopped"),
    *value("failed", RESULT, ("status",), "a run cannot have the status", "failed"),
    *value("interrupted", RESULT, ("status",), "did not reach END", "answered", "stopped"),
    *value("answered", RESULT, ("exit_code",), "its exit code", 3, 1, None),
    *value("stopped", RESULT, ("exit_code",), "its exit code", 0, 130),
    *value("answered", RESULT, ("limit",), "is answered, but also stopped by", {"limit": "iterations"}),
    *value("stopped", RESULT, ("reason",), "the reason is", "finished", "tokens", None),
    *value("stopped", RESULT, ("limit", "limit"), "the reason is", "seconds"),
    *value("stopped", RESULT, ("limit", "value"), "that of the proof is 1", 2, 15, HUGE),
    *value("stopped", RESULT, ("limit",), "but no limit", None),
    *value("stopped", LAST, ("outcome",), "not a transition of the proved machine", "AgentFinish", "Stopped"),
]

NUMBERS = [
    *value("answered", RESULT, (*SPENT, "iterations"), "spends|counted", 2, 4),
    *value("answered", RESULT, (*SPENT, "iterations"), "counts are whole numbers", True, -1, 3.0, "3", None, -0.0),
    *value("answered", RESULT, (*SPENT, "model_calls"), "are counted|goes back", 0, 2, 4, HUGE),
    *value("answered", RESULT, (*SPENT, "model_calls"), "counts are whole numbers", -1, 1.5, None, "1", True),
    *value("answered", RESULT, (*SPENT, "tool_calls"), "are counted|goes back", 0, 1, 3),
    *value("answered", RESULT, (*SPENT, "tokens"), "counts are whole numbers", -1, 0.01, True),
    *value("answered", RESULT, (*SPENT, "cost"), "it must be a number", -0.01, float("nan"), float("inf"), True, "1"),
    *value("answered", RESULT, (*SPENT, "prompt_tokens"), "it must be a number of at least 0", -1, float("nan"), None),
    *value("answered", RESULT, (*SPENT, "seconds"), "the run takes .* seconds", 61.5, 1e300),
    *value("answered", RESULT, ("seconds",), "the run takes 61.5 seconds, but at most 60.05 is proved", 61.5),
    *value("answered", RESULT, ("seconds",), "the run takes .* seconds", 1e300),
    *value("answered", RESULT, ("seconds",), "they must be at least 0", -1.0, float("nan"), True, None, "1", HUGE),
    *value("answered", SECOND, (*SPENT, "iterations"), "spends|rank", 0, 2, 9),
    *value("answered", SECOND, (*SPENT, "tool_calls"), "are counted", 0, 2),
    *value("answered", SECOND, (*SPENT, "budgets"), NO_FORM, None, [], 3),
    *value("answered", SECOND, SPENT, NO_FORM, GONE, None, []),
    *value("answered", FIRST, (*SPENT, "iterations"), "the run begins with", 1),
    *value("answered", FIRST, (*SPENT, "restarts"), "the run begins with", 1),
    *value("answered", REPLY, (*SPENT, "seconds"), "seconds goes back from 30 to 0", 30.0),
    *value("answered", REPLY, ("seconds",), "they must be at least 0", -0.5, True),
    *value("stopped", Place("entered", "stopped_response"), (*SPENT, "iterations"), "spends|rank", 0, 2),
    *value("members", RESULT, (*SPENT, "tool_calls"), "are counted|goes back", 2, 4, 6),
    *value("outer", REPLY, ("within", "model_calls"), "counts are whole numbers", -3, 1.5, True),
    *value("outer", REPLY, ("within", "cost"), "it must be a number of at least 0", -3, float("nan"), True),
    *value("outer", RESULT, (*SPENT, "model_calls"), "are counted|goes back", 2, 4, 6),
]

LIMITS = [
    *value("answered", START, ("limits", "iterations"), "15 for the proof", 14, 16, None, GONE, "15"),
    *value("answered", START, ("limits", "iterations"), "15 for the proof", HUGE, float("nan")),
    *value("answered", START, ("limits", "seconds"), "60 for the proof", 61, None),
    *value("answered", START, ("limits", "tokens"), "none for the proof", 5),
    *value("answered", START, ("limits", "rounds"), "none for the proof", 5),
    *value("answered", START, ("limits", "budgets"), "none for the proof", {"revisions": 3}),
    *value("stopped", START, ("limits", "iterations"), "1 for the proof", True, 2, 0),
    *value("members", START, ("limits", "fan_out"), "1,000 for the proof", 999, None),
    *value("answered", START, ("limits",), NO_FORM, GONE, None, [], "none"),
]

REQUESTS = [
    *value("answered", ASKED, ("call", "sequence"), "not a number|was due", True, 1.0, 0, 2, "1", HUGE),
    *value("answered", ASKED, ("call", "member"), "not a number|was due", False, -0.0, 1),
    *value("answered", TOOL, ("call", "run"), "belongs to the run another, but earlier calls to", "another"),
    *value("answered", TOOL, ("call",), NO_FORM, GONE, None, []),
    *value("answered", TOOL, ("effects",), NO_FORM, [], None, [{}], [{"effect": "CallTool"}] * 2),
    *value("answered", TOOL, ("effects", 0, "effect"), "waits for", "CallModel", "AskHuman", "Fetch"),
    *value("answered", TOOL, ("node",), "asks for CallTool, but the run is not at this node", "plan", "nowhere"),
    *value("answered", REPLY, ("node",), "plan is answered, but the run is not at this node", "plan"),
    *value("answered", REPLY, ("replies", 0, "effect"), "is answered CallModel, but waits for CallTool", "CallModel"),
    *value("answered", REPLY, ("replies",), NO_FORM, [], None),
    *value("members", Place("asked", "dispatch_tools", 1), ("call", "member"), "was due", 0, 2),
    *value("members", Place("asked", "dispatch_tools", 1), ("call", "member"), "as 2.3, but 2.1 or 3.0 was due", 3),
    *value("members", Place("answered", "dispatch_tools", 1), ("call", "member"), "was answered before", 0),
    *value("members", REPLY, ("call", "sequence"), "was answered before|not asked for", 1, 3),
]

MOVES = [
    *value("answered", MOVED, ("target",), "not a transition of the proved machine", "plan", "END", "nowhere", 1),
    *value("answered", MOVED, ("outcome",), "not a transition of the proved machine", "Acted", "replied", None),
    *value("answered", MOVED, ("outcome",), "not a transition|is taken when|stops", "LimitReached"),
    *value("answered", MOVED, ("node",), "the run is not at this node", "parse", None),
    *value("answered", SECOND, ("node",), "was due", "parse", "END"),
    *value("answered", FIRST, ("node",), "starts at parse", "parse"),
    *value("answered", ASKED, ("event",), "is not an event of a run", "requested", "ask"),
    *value("answered", START, ("event",), "no run begins here", "begin", "result", None),
    *value("answered", MOVED, ("event",), "is not an event|left|entered", "left", HUGE, [], None),
]

PLACES = [
    *[("answered", place) for place in (FIRST, ASKED, ANSWERED, MOVED, SECOND, TOOL, REPLY, LEFT, END)],
    ("stopped", LAST),
    ("failed", REPLY),
    *[("members", place) for place in (TOOL, REPLY, Place("answered", "dispatch_tools", 2))],
]
ORDER = [
    *[Tampering(*one, "", change) for one in PLACES for change in (left_out, twice, again_at_the_end, after_the_end)],
    *[Tampering("answered", place, "", swapped) for place in (ASKED, ANSWERED, MOVED, SECOND, REPLY, LEFT, RESULT)],
    *[
        Tampering("answered", place, "ends before the run does", lambda rows, line: rows[:line])
        for place in (ASKED, MOVED, SECOND, REPLY, END)
    ],
    Tampering("answered", RESULT, "the trace ends before the run does", left_out),
    Tampering("answered", RESULT, "result comes after the result, which is the last record of a run", twice),
    Tampering("answered", START, "another run begins here, but a trace has one run", twice),
    Tampering("answered", START, "no run begins here", left_out),
    Tampering("answered", START, "no run begins here", lambda _, __: []),
    # This looks like a resumed run without its first part.
    Tampering("answered", SECOND, "the run begins with", without_the_beginning),
    Tampering("answered", TOOL, "the run is not at this node", without_the_beginning),
]


@pytest.mark.medium
@cases("tampering", *STATUS, *NUMBERS, *LIMITS, *REQUESTS, *MOVES, *ORDER)
def test_tampered_trace_is_refused(tampering: Tampering) -> None:
    records = trace(tampering.run)
    found = facts(tampering.run, tampering.change(records, tampering.place.of(records)))
    assert found
    assert any(re.search(tampering.message, fact) for fact in found), found


def test_trace_of_other_limits_is_refused() -> None:
    for run in RUNS:
        others = [other for other in RUNS if executor_of(other).limits != executor_of(run).limits]
        assert all(facts(other, trace(run)) for other in others)


@given(data=st.lists(JSON, max_size=3))
def test_any_json_is_refused(data: list[Any]) -> None:
    assert facts("answered", data)
    assert facts("answered", [trace("answered")[0], *data])


@pytest.mark.medium
@settings(max_examples=10 * settings().max_examples)
@given(run=st.sampled_from(sorted(RUNS)), data=st.data())
def test_changed_value_hides_no_excess(run: str, data: st.DataObject) -> None:
    records = trace(run)
    # The audit does not read the picture of the machine.
    where = [(line, path) for line, one in enumerate(records) for path in paths(one) if path[:1] != ("machine",)]
    for _ in range(data.draw(st.integers(1, 2))):
        line, path = data.draw(st.sampled_from(where))
        records[line] = exchange(records[line], path, data.draw(st.sampled_from(CHANGES)), data.draw(JSON))
    proof = proof_of(executor_of(run))
    found = audit(records, proof)
    str(found)
    if found.conforms:
        assert found.status == trace(run)[-1]["status"] or "answered" not in (found.status, trace(run)[-1]["status"])
        most = proof.bounds.transitions.number
        assert most is not None
        assert found.transitions == sum(record["event"] == "moved" for record in records) <= most
