"""Records in traces and pages: what is read again, how large they are, and what is shown of images and of reasoning."""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import models, tool, tools
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.cli.runs.trace import TracePrinter
from graphexec.draw import Recorder, Recording, recording_of
from graphexec.draw.model.text import format_call, format_data
from graphexec.draw.page import html
from graphexec.draw.page.assembly import pack_records, read_file, readable
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import read_record, record_line
from graphexec.live import serving
from graphexec.messages import Image, ModelReply, Reasoning, ReplyDelta, ToolCall, Usage
from graphexec.messages.images import image_from_json
from graphexec.models import ScriptedModel
from tests.cli.traced import record_run
from tests.draw.browser import Browser, Page, Pages, open_page, page_of, press
from tests.draw.recorded import failed_run, nested, sixty_steps, two_agents
from tests.executor.actors import call, caller_of, echo, make_react
from tests.models.picky_server import PickyServer
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.parameters import cases
from tests.traces import read_trace, unpack_page

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


# ---- images


LABEL = "image/gif, 42 bytes"


@gx.tool
def look(text: str) -> list[Any]:
    """Look at the dog."""
    return [f"The {text}:", DOG, {"address": ADDRESS}]


def make_executor(one: tools.AnyTool = look, **settings: Any) -> gx.AgentExecutor:
    """Return an executor whose model calls the tool once."""
    return caller_of(models.ScriptedModel([ToolCall("c1", one.name, '{"text": "dog"}'), "done"]), one, **settings)


def run(**settings: Any) -> gx.RunResult:
    return make_executor(**settings).run({"input": "Which?", "images": [CAT]})


def test_records_keep_images_and_prompts_have_labels() -> None:
    recording = Recording.from_json_lines(recording_of(run()).to_json_lines())
    start, *others = recording.records
    assert [image_from_json(one) for one in start["input"]["images"]] == [CAT]
    replies = [reply for record in others for reply in record.get("replies", ())]
    (observation,) = [reply["observation"] for reply in replies if "observation" in reply]
    assert image_from_json(observation[1]) == DOG
    assert image_from_json(observation[2]["address"]) == ADDRESS
    # Prompts have labels.
    messages = [
        message
        for record in recording_of(run()).records
        for effect in record.get("effects", ())
        if record["event"] == "asked" and "prompt" in effect
        for message in effect["prompt"]["messages"]
    ]
    assert [message["images"] for message in messages if "images" in message] == [
        ["[image 1: image/png, 70 bytes]"],
        [f"[image 1: {LABEL}]", "[image 2: https://example.com/cat.png]"],
    ]
    assert "base64" not in json.dumps(messages)


def page_text(result: gx.RunResult, folder: Path) -> str:
    return unpack_page(result.draw(folder / "run.html").read_text())


VIEWS: list[tuple[Callable[[gx.RunResult, Path], str], list[str]]] = [
    (page_text, [f"[image: {LABEL}]", "[image: image/png, 70 bytes]"]),
    (lambda result, folder: result.draw(folder / "run.svg").read_text(), []),
    (lambda result, folder: result.draw(folder / "run.txt").read_text(), []),
]


@pytest.mark.medium
@cases("show, labels", *VIEWS)
def test_pictures_show_labels(show: Callable[[gx.RunResult, Path], str], labels: list[str], tmp_path: Path) -> None:
    written = show(run(), tmp_path)
    # A page has scripts that know the word.
    for data in (DOG.data, CAT.data, *([] if show is page_text else ["base64"])):
        assert data not in written
    assert [label for label in labels if label not in written] == []


def test_forged_image_is_shown_as_data(tmp_path: Path) -> None:
    @gx.tool
    def fetch(text: str) -> Any:
        """Fetch a document."""
        return {"kind": "graphexec.image", "url": ADDRESS.url}

    result = make_executor(fetch).run("?")
    shown = page_text(result, tmp_path)
    assert "[image" not in shown
    assert "graphexec.image" in shown
    assert "graphexec.data" not in shown


@cases("innermost", 3, {"kind": "graphexec.image", "url": ADDRESS.url})
def test_deep_data_have_a_label(innermost: Any) -> None:
    deep = nested(600, innermost)
    assert format_data(deep, 9) == f"{'[' * 8}…"
    # A reader of JSON may just read what code that runs deeper cannot write again.
    deep = nested(100_000, [])
    assert format_data(deep, 9) == "…"
    assert format_call("echo", {"text": deep, "times": 2}, 40) == "echo(text=…, times=2)"
    assert format_call("echo", deep, 40) == "echo(…)"


def test_prompt_on_the_page_shows_labels(pages: Pages) -> None:
    page = pages.run(recording_of(run()))
    page.locator("#slider").fill("1")
    asked = page.locator("#detail .part.model")
    assert asked.get_by_text("[image 1: image/png, 70 bytes]").count() == 1
    page.locator("#slider").fill("5")
    # The text of the observation has it already.
    assert asked.get_by_text(LABEL).count() == 1


def test_printed_runs_show_labels(capsys: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    printer = TracePrinter(io.StringIO(), err)
    for event in make_executor().stream("Which?"):
        printer.on_event(event)
    assert f"[image 1: {LABEL}]" in err.getvalue()
    assert "base64" not in err.getvalue()
    run(verbose=True)
    printed = capsys.readouterr().err
    assert f"[image 1: {LABEL}]" in printed
    assert "base64" not in printed

    # So does an answer.
    @gx.tool(return_direct=True)
    def show(text: str) -> Image:
        """Show the dog."""
        return DOG

    out = io.StringIO()
    TracePrinter(out, io.StringIO()).answer(make_executor(show).run("Which?").ending)
    assert out.getvalue() == f"[image 1: {LABEL}]\n"


# ---- the reasoning of a reply


LONG = "I think of a number. " * 100
THOUGHT = ModelReply("", (call("echo", text="a"),), Usage(900, 20, 512), reasoning=(Reasoning(LONG, "secret"),))
PLAIN = ModelReply("done", usage=Usage(950, 2))
THOUGHTFUL = recording_of(caller_of(models.ScriptedModel([THOUGHT, PLAIN]), echo).run("q"))


@pytest.mark.medium
def test_page_and_records_have_the_text_of_reasoning() -> None:
    page = unpack_page(html(THOUGHTFUL.machine, THOUGHTFUL))
    assert LONG[:-1] in page
    assert '"cached_tokens":512' in page
    assert "secret" not in page
    assert "secret" not in THOUGHTFUL.to_json_lines()


def test_page_folds_the_reasoning(pages: Pages) -> None:
    page = pages.run(THOUGHTFUL)
    assert "cached tokens\n512" in page.locator("#totals").inner_text().lower()
    press(page, "Home", "ArrowRight")
    reply = page.locator("#detail .part.reply")
    assert "900 + 20 tokens, 512 cached" in reply.inner_text()
    folded = reply.locator("details", has_text="reasoning")
    assert "I think of a number." not in folded.inner_text()
    # In one task: the browser's own event comes in a later one.
    shown = folded.locator("summary").evaluate("summary => (summary.click(), summary.parentElement.innerText)")
    assert "I think of a number." in shown


def trace_of(*replies: ModelReply) -> str:
    out, err = io.StringIO(), io.StringIO()
    executor = caller_of(models.ScriptedModel(replies), echo)
    follow(RunSetup("q", executor, "scripted", "tool_calling"), [TracePrinter(out, err)])
    assert out.getvalue() == "done\n"
    return " ".join(err.getvalue().split())


def test_trace_shows_the_beginning_of_the_reasoning() -> None:
    shown = trace_of(THOUGHT, PLAIN)
    assert "reasoning: I think of a number." in shown
    assert "more characters; --json has them" in shown
    assert "900 + 20 tokens, 512 cached" in shown
    assert "1,872 tokens (1,850 + 22, 512 cached)" in shown
    assert "cached" not in trace_of(PLAIN)


def test_streamed_reasoning_is_recorded_apart() -> None:
    server = PickyServer("chat", ["done"], thoughts="I think of it.")
    executor = caller_of(server.model(), echo)
    recorder = Recorder(executor.verify())
    list(map(recorder, executor.stream("q", tokens=True)))
    read = Recording.from_json_lines(recorder.recording.to_json_lines())
    recording = [record for record in read.records if record["event"] == "reported"]
    assert "".join(record["text"] for record in recording) == "done"
    assert "".join(record.get("reasoning", "") for record in recording) == "I think of it."
    assert {record["news"] for record in recording} == {ReplyDelta.__name__}


# ---- what a reader left of a reply


INVENTED = "Observation: a rabbit\nThought: it is cute"
LIED = "Observation: that is right"
ACT = f"Action: echo\nAction Input: hi\n{INVENTED}"
FINISH = f"Final Answer: done\n{LIED}"
INVENTED_RUN = make_react(ACT, ACT, FINISH).run("q")


def test_records_have_what_was_not_read() -> None:
    records = Recording.from_json_lines(recording_of(INVENTED_RUN).to_json_lines()).records
    result = records[-1]
    assert [step["unread"] for step in result["steps"]] == [INVENTED, INVENTED]
    assert result["unread"] == LIED
    moved = [record["value"] for record in records if record["event"] == "moved" and record["node"] == "parse"]
    assert [value.get("unread") or value["actions"][0]["unread"] for value in moved] == [INVENTED, INVENTED, LIED]
    plain = make_react("Action: echo\nAction Input: hi", "Final Answer: done").run("q")
    assert "unread" not in json.dumps(recording_of(plain).records[-1])


def test_page_has_it_as_text_and_records_as_a_string(tmp_path: Path) -> None:
    hostile = "Observation: </script><script>alert(1)</script>"
    page = make_react(f"{FINISH}\n{hostile}").run("q").draw(tmp_path / "run.html").read_text()
    assert LIED in unpack_page(page)
    assert "<script>alert(1)" not in page
    *records, result = recording_of(INVENTED_RUN).records
    lines = Recording([*records, {**result, "unread": 3}]).to_json_lines()
    with pytest.raises(gx.InputError, match=r"not a valid record: result\.unread"):
        Recording.from_json_lines(lines)


def test_end_of_the_page_shows_it(pages: Pages) -> None:
    page = pages.run(recording_of(INVENTED_RUN))
    page.locator("#slider").press("End")
    detail = page.locator("#detail")
    assert detail.get_by_text("Not read, since the model invented it").count() == 1
    assert detail.get_by_text(LIED).count() == 1
    assert detail.get_by_text("not read: Observation: a rabbit").count() == 2
