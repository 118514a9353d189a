"""The compact form of records: what it holds, how large it is, and how Python and the page read it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, InputError, create_react_agent, create_tool_calling_agent, tool
from graphexec.draw import Recording, recording_of
from graphexec.draw.page.bundle import bundle
from graphexec.draw.page.encoding import page_records, readable
from graphexec.draw.runs import compact
from graphexec.draw.runs.compact import RecordEncoder
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.lines import TraceReader, TraceWriter
from graphexec.live import serving
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.cli.traced import record_run
from tests.draw.browser import Browser, Page, Pages, open_page
from tests.draw.debugged import failed_run, sixty_steps, two_agents
from tests.parameters import cases
from tests.traces import read_compact, read_trace

OLD = Path(__file__).with_name("version_2.jsonl")
LONG = "a string that is long enough for a reference"
START: Record = {"event": "start", "version": 2, "machine": {"start": "a", "boxes": [], "arrows": []}}

# Few strings and names, so that records have them in common.
STRINGS = st.sampled_from(["", "=", "a", LONG, f"{LONG}!", f"<{LONG}> & <{LONG}!>", "\ud83d" * 30, "𝄞" * 20])
NAMES = st.sampled_from(["=", "a", "b", "10", "2", "1st", "", "spent", "event", "__proto__", "constructor", LONG])
NUMBERS = st.sampled_from([0, 1, -0.0, 0.0, 1.0, True, False, None, 10**400, -(2**53), 5e-324, float("nan")])
VALUES = st.recursive(
    STRINGS | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS: st.SearchStrategy[Record] = st.dictionaries(NAMES, VALUES, max_size=4)
ALIKE: st.SearchStrategy[Record] = st.fixed_dictionaries(
    {"event": st.just("a"), "spent": OBJECTS, "b": VALUES}, optional={"c": VALUES}
)
RECORDS = st.lists(OBJECTS | ALIKE, max_size=8)


def as_lines(records: Sequence[Record]) -> list[str]:
    lines: list[str] = []
    writer = TraceWriter(lines.append)
    for record in records:
        writer.write(record)
    return lines


def exactly(records: Sequence[Record]) -> list[str]:
    """Return records as JSON, which tells 1, 1.0 and true, and the order of fields apart."""
    return [json.dumps(record) for record in records]


def encoded(records: Iterable[Record]) -> Iterator[Record]:
    """Return the records in their compact form, written as JSON and read."""
    return (json.loads(json.dumps(record)) for record in map(RecordEncoder().encode, records))


def nested(depth: int) -> Any:
    value: Any = LONG
    for _ in range(depth):
        value = {"a": [value, LONG]}
    return value


@given(RECORDS)
def test_all_records_are_read_as_written(records: list[Record]) -> None:
    assert exactly(read_compact(encoded(records))) == exactly(records)


@given(RECORDS)
def test_beginning_of_a_trace_is_a_trace(records: list[Record]) -> None:
    named = [START, *({**record, "event": "x"} for record in records)]
    lines = as_lines(named)
    for count in range(len(lines) + 1):
        assert exactly(read_trace("".join(lines[:count]))) == exactly(named[:count])


@cases("make", failed_run, sixty_steps, two_agents)
def test_records_of_runs_are_read_as_written(make: Any) -> None:
    recording = make()
    assert exactly(Recording.from_json_lines(recording.to_json_lines()).records) == exactly(recording.records)


@given(depth=st.integers(26, 36), values=st.lists(VALUES, min_size=3, max_size=3))
def test_values_around_the_greatest_depth_are_read_as_written(depth: int, values: list[Any]) -> None:
    records: list[Record] = []
    for value in values:
        deep: Any = [LONG, value, f"{LONG}!"]
        for _ in range(depth):
            deep = [deep]
        records.append({"event": "a", "deep": deep, "later": f"{LONG}?"})
    assert exactly(read_compact(encoded(records))) == exactly(records)


DEEP: list[Record] = [{"event": "a", "deep": nested(200), "n": number} for number in range(3)]
NUMBERED: list[Any] = [{"event": "a", "b": {name: LONG, "c": number}} for name in (1, None, 1.5) for number in range(2)]


@cases("records", DEEP, NUMBERED)
def test_deep_values_and_names_that_are_numbers_are_as_they_are(records: list[Record]) -> None:
    assert exactly(read_compact(encoded(records))) == exactly(records)


def test_lines_hold_what_is_new() -> None:
    entered: Record = {"event": "entered", "node": "a", "spent": {"model_calls": 1, "tokens": 10}}
    more = entered | {"spent": {"model_calls": 1, "tokens": 12}}
    first: Record = {"event": "said", "text": [LONG], "usage": None}
    second = {"event": "said", "text": [f"I said: {LONG}.", LONG], "usage": {"=": 1}}
    texts = [{"=": ["I said: ", 3, "."]}, {"=": 3}]
    encoder = RecordEncoder()
    for record, line in (
        (entered, entered),
        (first, first),
        (more, {"=": 0, "spent": {"tokens": 12}}),
        (second, {"=": 1, "text": texts, "usage": {"=": {"=": 1}}}),
        (more, {"=": 0}),
    ):
        assert encoder.encode(record) == line


def test_traces_of_version_2_and_of_several_runs_are_read() -> None:
    text = OLD.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert records[0]["version"] == 2
    recording = Recording.from_json_lines(text)
    assert exactly(recording.records) == exactly(records)
    # Written again, it is smaller, and the same.
    again = recording.to_json_lines()
    assert len(again) < len(text)
    assert exactly(Recording.from_json_lines(again).records) == exactly(records)
    # Objects with the mark are data.
    lines = [json.dumps(START), json.dumps({"event": "x", "a": {"=": 3}}), json.dumps({"=": 4, "event": "x"})]
    assert read_trace("\n".join(lines))[1:] == [{"event": "x", "a": {"=": 3}}, {"=": 4, "event": "x"}]
    # Each start begins a run.
    text = record_run()
    assert read_trace(text + OLD.read_text(encoding="utf-8") + text)[-20:] == read_trace(text)
    # A record of an error that prevented the run is alone.
    assert TraceReader().read('{"event": "result", "a": {"=": 3}}', "line 1") == {"event": "result", "a": {"=": 3}}


@cases(
    ("line", "fact"),
    ('{"=":999}', "refers to kind 999, which no line before has"),
    ('{"=":-1}', "refers to kind -1, which no line before has"),
    ('{"=":true}', "refers to kind True, which no line before has"),
    ('{"=":"x"}', "refers to kind 'x', which no line before has"),
    ('{"event":"x","a":{"=":999}}', "refers to string 999, which no line before has"),
    ('{"event":"x","a":[{"=":["b",999]}]}', "refers to string 999, which no line before has"),
    ('{"event":"x","a":{"=":null}}', "refers to string None, which no line before has"),
    ('{"=":[]}', "is not a record"),
    ('{"=":[3]}', "is not a record"),
    ('{"=":{"event":3}}', "is not a record"),
)
def test_missing_reference_is_an_error_with_its_line(line: str, fact: str) -> None:
    with pytest.raises(InputError) as raised:
        Recording.from_json_lines(record_run() + line)
    number = record_run().count("\n") + 1
    assert str(raised.value) == f"line {number} {fact}; pass the file that graphexec run --record wrote"


def test_few_lines_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "_TOGETHER", 1000)
    doubling: list[Any] = [{"event": "x", "a": LONG}, *({"=": 0, "a": {"=": [n, n]}} for n in range(1, 60))]
    with pytest.raises(InputError, match="puts together strings of more than 1,000 characters"):
        read_compact([{"event": "x", "a": LONG}, *doubling])
    records: list[Record] = [{"event": "x", "a": [LONG, f"{number}{LONG}"]} for number in range(100)]
    assert read_compact(map(RecordEncoder().encode, records)) == records


def test_trace_goes_on_after_an_interrupted_line() -> None:
    """A line that was not written may have made kinds and strings to which later lines would refer."""
    lines: list[str] = []

    def write(line: str) -> None:
        if "interrupted" in line:
            raise KeyboardInterrupt
        lines.append(line)

    writer = TraceWriter(write)
    records: list[Record] = [START, *({"event": "x", "a": LONG, "b": str(number)} for number in range(4))]
    writer.write(records[0])
    writer.write(records[1])
    with pytest.raises(KeyboardInterrupt):
        writer.write({"event": "y", "c": f"interrupted {LONG}", "b": LONG})
    for record in records[2:]:
        writer.write(record)
    assert lines[2].startswith('{"=":[{"event":"x"')
    assert read_trace("".join(lines)) == records


@tool
def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page} " * (2000 // (len(page) + 1))


def recorded(steps: int, kind: str) -> Recording:
    """Record a run with so many calls, each with an observation of 2,000 characters."""
    texts = [f"I think about step {number}. " * 20 for number in range(steps)]
    if kind == "tool_calling":
        replies = [
            ModelReply(text, (ToolCall(f"call_{number}", "fetch", json.dumps({"page": f"p{number}"})),))
            for number, text in enumerate(texts)
        ]
        agent = create_tool_calling_agent(ScriptedModel([*replies, "done"]), [fetch])
    else:
        written = [f"{text}\nAction: fetch\nAction Input: p{number}" for number, text in enumerate(texts)]
        agent = create_react_agent(ScriptedModel([*written, "Final Answer: done"]), [fetch])
    return recording_of(AgentExecutor(agent=agent, tools=[fetch], max_iterations=steps + 1).run("go"))


def payload(recording: Recording) -> int:
    """Return the characters of the replies, the arguments and the observations, each once."""
    replies = [reply for record in recording.records for reply in record.get("replies", ())]
    calls = [call["arguments"] for reply in replies for call in reply.get("tool_calls", ())]
    return sum(len(one.get("content", "")) + len(one.get("observation", "")) for one in replies) + sum(map(len, calls))


@pytest.mark.medium
@cases("kind", "tool_calling", "react")
def test_trace_is_hardly_larger_than_its_payload(kind: str) -> None:
    recording = recorded(200, kind)
    assert len(recording.to_json_lines()) <= 1.5 * payload(recording)
    # It grows with its steps.
    short, long = (len(recorded(steps, kind).to_json_lines()) for steps in (100, 400))
    assert long <= 4.1 * short


@pytest.fixture(scope="module")
def reading(browser: Browser) -> Iterator[Page]:
    """Open a page with the function `readAll`, from records in their compact form to records, both as JSON."""
    page = browser.new_page()
    page.add_script_tag(
        content=f"{{ {bundle('base/records.js')}"
        "globalThis.readAll = (text) => JSON.stringify(JSON.parse(text).map(makeRecordReader())); }"
    )
    yield page
    page.close()


@given(records=RECORDS)
def test_page_reads_all_records(reading: Page, records: list[Record]) -> None:
    text = json.dumps(page_records(records), allow_nan=False)
    found: str = reading.evaluate("readAll", text)
    assert json.loads(found) == [readable(record) for record in records]


def test_objects_of_page_records_are_their_own(reading: Page) -> None:
    records = page_records([{"event": "x", "effects": [{"effect": "A"}], "n": number} for number in range(2)])
    assert records[1] == {"=": 0, "n": 1}
    same = "text => { const [a, b] = JSON.parse(text).map(makeRecordReader()); return a.effects[0] === b.effects[0]; }"
    reading.add_script_tag(content=bundle("base/records.js"))
    assert reading.evaluate(same, json.dumps(records)) is False


def texts_of(page: Page) -> list[str]:
    shown: list[str] = []
    for step in range(int(page.locator("#slider").get_attribute("max") or 0) + 1):
        page.locator("#slider").fill(str(step))
        shown.append(page.inner_text("#detail"))
    return [page.inner_text("#steps"), *shown]


def test_live_page_of_a_trace_shows_the_same(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(record_run("no JSON at all"), encoding="utf-8")
    recording = Recording.from_json_lines(file.read_text(encoding="utf-8"))
    page = pages.run(recording)
    still = texts_of(page)
    with serving(file) as url, open_page(browser, url) as opened:
        opened.page.locator("#status", has_text="answered").wait_for()
        opened.page.locator("#connection", has_text="ended").wait_for()
        live = texts_of(opened.page)
    assert len(still) > 10
    assert live == still
