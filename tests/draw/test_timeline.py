"""The timeline has a row for each visit of a node, fits its width, and contains no control characters."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import graphexec as gx
from graphexec.draw import Recorder, Recording, sequence_mermaid, timeline
from graphexec.draw.model.text import count_cells, pad, truncate
from graphexec.draw.runs.visits import visits_of
from graphexec.effects import CallTool, ToolResult
from graphexec.runtime import make_run_context, stream
from tests.draw import recorded
from tests.draw.readers import read_sequence
from tests.draw.recorded import asked_and_answered, asked_together, record_events, sample_conversation
from tests.kernel.machines import Landed, Left, Stopped, countdown
from tests.parameters import cases, read_tables

widths = st.integers(40, 160)
# The number of an iteration, its start, and its waiting time.
ROW = re.compile(r" *(\d*)  +([\d,.]+ m?s)  +(?:([\d,.]+ m?s)  )?.*")
# The row of a call of a larger request: its name is indented.
CALL = re.compile(r" {7,}[\d,.]+ m?s  [ \d,.ms#▏▎▍▌▋▊▉█]*  (?:echo|broken|unknown)\b.*")


def all_rows_of(text: str) -> list[str]:
    """Return the rows between the head and the empty line."""
    _, *lines = text.splitlines()
    return lines[: lines.index("")]


def rows_of(text: str) -> list[str]:
    return [row for row in all_rows_of(text) if not CALL.fullmatch(row)]


@given(recorded.recordings(), st.integers(0, 60), widths)
def test_each_visit_has_a_row(recording: Recording, records: int, width: int) -> None:
    run = recorded.truncate_run(recording, records)
    entered = [record for record in run.records if record["event"] == "entered"]
    moved = [record for record in run.records if record["event"] == "moved"]
    rows = rows_of(timeline(run, width=160))
    assert len(rows) == len(entered) == len(rows_of(timeline(run, width=width)))
    for row, begun in zip(rows, entered, strict=True):
        shown = ROW.fullmatch(row)
        assert shown is not None
        number, unit = shown[2].replace(",", "").split()
        assert float(number) / (1 if unit == "s" else 1000) == pytest.approx(begun["spent"]["seconds"], abs=0.006)
        assert begun["node"] in row
    for row, left in zip(rows, moved, strict=False):
        assert f"{left['node']} → {left['outcome']}" in row


@given(recorded.recordings())
def test_iterations_are_numbered_in_order(recording: Recording) -> None:
    numbers = [shown[1] for row in rows_of(timeline(recording)) if (shown := ROW.fullmatch(row))]
    spent = max(record["spent"]["iterations"] for record in recording.records if record.get("spent"))
    numbered = [int(number) for number in numbers if number]
    # A failed iteration was begun, but not charged yet.
    assert numbered == list(range(1, len(numbered) + 1))
    assert len(numbered) - spent in (0, 1 if recording.result and recording.result["status"] == "error" else 0)


@given(recorded.recordings(), widths, st.booleans())
def test_bars_are_proportional_to_time(recording: Recording, width: int, ascii_only: bool) -> None:
    visits = visits_of(recording)
    took = visits[-1].ended - visits[0].began
    text = timeline(recording, width=max(width, 84), ascii_only=ascii_only)
    for visit, row in zip(visits, rows_of(text), strict=True):
        bar = re.sub("[^#▏▎▍▌▋▊▉█]", "", row[: row.index(visit.node[:8])])
        eighths = sum(8 if sign == "#" else "▏▎▍▌▋▊▉█".index(sign) + 1 for sign in bar)
        if not visit.waited:
            assert not bar
        else:
            part = 8 if ascii_only else 1
            assert abs(eighths - max(part, visit.waited / took * 16 * 8)) <= part / 2 + 1e-6


@given(recorded.recordings(), st.integers(0, 60), widths, st.booleans())
def test_lines_fit_the_width(recording: Recording, records: int, width: int, ascii_only: bool) -> None:
    text = timeline(recorded.truncate_run(recording, records), width=width, ascii_only=ascii_only)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii() or not ascii_only


HOSTILE = st.sampled_from(
    ["\x1b[31mred\x07", "\u202eback\u202c", "漢字" * 90, "🎉" * 90, "é" * 90, "a\r\nb\x85c\u2028d"]
)


@given(st.text() | HOSTILE, widths)
def test_hostile_text_fits_and_has_no_controls(text: str, width: int) -> None:
    run = record_events(
        *asked_and_answered(CallTool(text, {text: text}), ToolResult(text)),
        *asked_and_answered(gx.AskHuman(text), text, node=text),
        gx.Reported(text, gx.AskHuman(text), text),
        given=text,
    )
    drawn = timeline(run, width=width)
    assert drawn.endswith("\n")
    for line in drawn.split("\n"):
        assert all(one.isprintable() or one in "\u200c\u200d" for one in line)
        assert cell_len(line) <= width


@given(st.text() | HOSTILE, st.integers(0, 30))
def test_truncate_and_pad_count_cells(text: str, room: int) -> None:
    cut = truncate(text, room)
    assert count_cells(cut) <= room
    assert cut == text or count_cells(text) > room
    assert count_cells(pad(cut, room)) == room


def echoed(result: str = "b", status: Any = "ok", **options: Any) -> list[Any]:
    return asked_and_answered(CallTool("echo", "a"), ToolResult(result, status), **options)


def test_conversation_on_120_and_on_50_columns() -> None:
    assert timeline(sample_conversation(), width=120) == read_tables(__file__)["wide"]
    # On 50 columns, in ASCII.
    lines = timeline(sample_conversation(), width=50, ascii_only=True).splitlines()
    assert lines[:3] == [
        "    #   began  waited  node -> outcome",
        "    1  0.00 s  3.92 s  plan -> Replied",
        "       3.92 s          parse -> Acted",
    ]
    # Very long times fit the width, too.
    long = record_events(*echoed(), gx.Entered("plan", None, gx.Spent(seconds=3.2e9)))
    assert max(map(len, timeline(long, width=40).splitlines())) == 40
    with pytest.raises(gx.InputError, match="width=39 is too small for a row; pass 40 or more"):
        timeline(long, width=39)
    assert timeline(record_events()).splitlines()[1:] == ["", "still running"]
    # Columns align for wide characters.
    rows = rows_of(timeline(record_events(*echoed(node="計画"), *echoed(node="plan"))))
    assert len({count_cells(row[: row.index('echo("a")')]) for row in rows}) == 1


CUT = "cut: the limit of 3 seconds was reached (3 spent)"


@cases("fact", f'echo("a") → {CUT}\n', f'echo("b") → {CUT}\n', 'echo("a") → error: oh', "May I? → no reply")
def test_deadline_failure_and_wait_are_described(fact: str) -> None:
    limit = gx.Exhausted("seconds", 3.0, 3.0)
    run = record_events(
        *asked_together(*((CallTool("echo", one), limit, 3.0) for one in "ab")),
        *echoed("oh", "error", at=2.0),
        *asked_and_answered(gx.AskHuman("May I?"), "yes", at=4.0)[:2],
    )
    assert fact in timeline(run, width=200)
    assert "still running" in timeline(run, width=200)


CALLS = [(CallTool(name, "x"), ToolResult("y"), seconds) for name, seconds in (("quick", 0.02), ("slow", 0.5))]
AT_ONCE = [
    "         0.00 ms  500.00 ms  ████████████████  dispatch_tools  2 calls at once",
    '         0.00 ms   20.00 ms  ▋                   quick         quick("x") → y',
    '         0.00 ms  500.00 ms  ████████████████    slow          slow("x") → y',
]
IN_TURN = [
    "         0.00 ms  520.00 ms  ████████████████  dispatch_tools  2 calls in turn",
    '         0.00 ms   20.00 ms  ▋                   quick         quick("x") → y',
    '        20.00 ms  500.00 ms  ███████████████▍    slow          slow("x") → y',
]


@cases("in_turn, rows", (False, AT_ONCE), (True, IN_TURN))
def test_calls_have_their_own_times(in_turn: bool, rows: list[str]) -> None:
    assert all_rows_of(timeline(record_events(*asked_together(*CALLS, in_turn=in_turn)), width=90)) == rows


def test_parts_of_runs_have_visits() -> None:
    run = record_events(*asked_together(*CALLS)[:-1])
    (visit,) = visits_of(run)
    quick, slow = visit.requests[0].calls
    assert (quick.seconds, slow.reply) == (0.02, None)
    assert 'slow("x") → no reply' in timeline(run, width=120)
    # A resumed run may begin within a node.
    run = record_events(*echoed(at=7.0)[2:])
    (visit,) = visits_of(run)
    assert (visit.node, visit.iteration, len(visit.requests), visit.waited) == ("dispatch_tools", None, 1, 2.0)
    assert [message.kind for message, _ in read_sequence(sequence_mermaid(run))] == ["call", "call", "reply"]


def test_nested_runs_are_counted_at_their_call() -> None:
    asked = CallTool("ask", "x")
    inner = recorded.call_of(asked)
    inner.charged = {"model_calls": 3, "tokens": 70, "tool_calls": 1}
    answered = gx.Answered("dispatch_tools", asked, ToolResult("y"), 1.0, gx.Spent(seconds=1.0), inner)
    run = record_events(gx.Asked("dispatch_tools", asked, inner), answered)
    for drawn in (timeline(run, width=120), sequence_mermaid(run)):
        assert "nested runs: 3 model calls, 1 tool call" in drawn
    # A report between calls belongs to no call.
    run = record_events(
        *asked_and_answered(gx.AskHuman("May I?"), "yes"), gx.Reported("dispatch_tools", None, "not observed")
    )
    assert "    Note over p1: not observed\n" in sequence_mermaid(run)
    assert "May I? → yes; [not observed]" in timeline(run, width=160)


def three_entries() -> Recording:
    """Record a run in which each visit consumes an iteration and its edge resets them."""
    ways = gx.on(Left, countdown, resets=[gx.ITERATIONS]) | gx.on(Landed, gx.END) | gx.on(Stopped, gx.END)
    machine, limits = gx.graph(gx.edges(countdown, ways), start=countdown), gx.Limits(iterations=2)
    recorder = Recorder(machine, limits=limits)
    list(map(recorder, stream(machine, Left(3), make_run_context({}, limits=limits))))
    return recorder.recording


def last_record(**fields: Any) -> Recording:
    """Return the run with other fields in its last record, and what was spent before its last visit."""
    *records, result = three_entries().records
    return Recording([*records, {**result, "spent": records[-2]["spent"], **fields}])


@cases(
    "recording, numbers",
    # Edges that reset iterations do not stop numbering.
    (three_entries(), [1, 2, 3]),
    (last_record(status="interrupted"), [1, 2, 3]),
    # The last visit is not charged.
    (last_record(), [1, 2, None]),
    # It is charged elsewhere.
    (record_events(*echoed(node="plan")), [None]),
)
def test_visits_that_consume_an_iteration_are_numbered(recording: Recording, numbers: Iterable[int | None]) -> None:
    assert [visit.iteration for visit in visits_of(recording)] == numbers
