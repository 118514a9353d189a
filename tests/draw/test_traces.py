"""Records in the lines of a trace and in a page: what Python and the page read, and how large they are."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import tool
from graphexec.draw import Recording, recording_of
from graphexec.draw.page.assembly import pack_records, read_file, readable
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import read_record, record_line
from graphexec.live import serving
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.cli.traced import record_run
from tests.draw.browser import Browser, Page, Pages, open_page, page_of
from tests.draw.debugged import failed_run, sixty_steps, two_agents
from tests.executor.actors import caller_of, make_react
from tests.parameters import cases
from tests.traces import read_trace

OLD = Path(__file__).with_name("version_2.jsonl")
START: Record = {"event": "start", "version": 2, "machine": {"start": "a", "boxes": [], "arrows": []}}

STRINGS = st.sampled_from(["", "<b> & </b>", "\u2028\n", "\ud83d" * 3, "𝄞" * 2]) | st.text(max_size=5)
NAMES = st.sampled_from(["a", "b", "10", "2", "1st", "", "spent", "__proto__", "constructor"])
NUMBERS = st.sampled_from([0, 1, -0.0, 0.0, 1.0, True, False, None, 10**400, -(2**53), 5e-324, float("nan")])
VALUES = st.recursive(
    STRINGS | NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=8)


def exactly(records: Sequence[Record]) -> list[str]:
    """Return records as JSON, which tells 1, 1.0 and true, and the order of fields apart."""
    return [json.dumps(record) for record in records]


@given(RECORDS)
def test_beginning_of_a_trace_is_a_trace(records: list[Record]) -> None:
    named = [START, *({**record, "event": "x"} for record in records)]
    lines = list(map(record_line, named))
    for count in range(len(lines) + 1):
        assert exactly(read_trace("".join(lines[:count]))) == exactly(named[:count])


@cases("make", failed_run, sixty_steps, two_agents)
def test_records_of_runs_are_read_as_written(make: Any) -> None:
    recording = make()
    assert exactly(Recording.from_json_lines(recording.to_json_lines()).records) == exactly(recording.records)


def test_stored_traces_and_those_of_several_runs_are_read() -> None:
    text = OLD.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert records[0]["version"] == 2
    recording = Recording.from_json_lines(text)
    assert exactly(recording.records) == exactly(records)
    assert exactly(Recording.from_json_lines(recording.to_json_lines()).records) == exactly(records)
    # Each start begins a run.
    text = record_run()
    assert read_trace(text + OLD.read_text(encoding="utf-8") + text)[-20:] == read_trace(text)
    # A record of an error that prevented the run is alone.
    assert read_record('{"event": "result", "a": 3}', "line 1") == {"event": "result", "a": 3}


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
        executor = caller_of(ScriptedModel([*replies, "done"]), fetch, max_iterations=steps + 1)
    else:
        written = [f"{text}\nAction: fetch\nAction Input: p{number}" for number, text in enumerate(texts)]
        executor = make_react(*written, "Final Answer: done", tools=[fetch], max_iterations=steps + 1)
    return recording_of(executor.run("go"))


def payload(recording: Recording) -> int:
    """Return the characters of the replies, the arguments and the observations, each once."""
    replies = [reply for record in recording.records for reply in record.get("replies", ())]
    calls = [call["arguments"] for reply in replies for call in reply.get("tool_calls", ())]
    return sum(len(one.get("content", "")) + len(one.get("observation", "")) for one in replies) + sum(map(len, calls))


@pytest.mark.medium
@cases("kind", "tool_calling", "react")
def test_packed_records_are_smaller_than_their_payload(kind: str) -> None:
    recording = recorded(200, kind)
    text = recording.to_json_lines()
    assert max(len(gzip.compress(text.encode())), len(pack_records(recording.records))) <= 0.15 * payload(recording)
    assert len(page_of(recording)) - len(page_of(Recording(recording.records[:1]))) <= 0.15 * payload(recording)
    # A trace grows with its steps.
    short, long = (len(recorded(steps, kind).to_json_lines()) for steps in (100, 400))
    assert long <= 4.1 * short


@pytest.fixture(scope="module")
def reading(browser: Browser) -> Iterator[Page]:
    """Open a page with the function `readAll`, from packed records to records as JSON."""
    page = browser.new_page()
    page.add_script_tag(
        content=f"{{ {read_file('scripts/base/records.js').replace('export ', '')}"
        "globalThis.readAll = async (packed) => JSON.stringify(await unpack(packed)); }"
    )
    yield page
    page.close()


@given(records=RECORDS)
def test_page_reads_all_records(reading: Page, records: list[Record]) -> None:
    found: str = reading.evaluate("readAll", pack_records(records))
    assert json.loads(found) == [readable(record) for record in records]


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
