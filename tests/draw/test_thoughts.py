"""Records, pictures, pages and traces show a reply's reasoning, its cached tokens, and what was not read of it."""

import io
import json
from pathlib import Path

import pytest

from graphexec import AgentExecutor, InputError, RunResult, models
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.cli.runs.trace import TracePrinter
from graphexec.draw import Recorder, Recording, recording_of
from graphexec.draw.page import html
from graphexec.messages import ModelReply, Reasoning, ReplyDelta, Usage
from tests.draw.browser import Pages, press
from tests.executor.actors import call, caller_of, echo, make_react
from tests.models.picky_server import PickyServer
from tests.traces import unpack_page

LONG = "I think of a number. " * 100
THOUGHT = ModelReply("", (call("echo", text="a"),), Usage(900, 20, 512), reasoning=(Reasoning(LONG, "secret"),))
PLAIN = ModelReply("done", usage=Usage(950, 2))


def make_executor(*replies: ModelReply) -> AgentExecutor:
    return caller_of(models.ScriptedModel(replies), echo)


THOUGHTFUL = recording_of(make_executor(THOUGHT, PLAIN).run("q"))


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
    follow(RunSetup("q", make_executor(*replies), "scripted", "tool_calling"), [TracePrinter(out, err)])
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


def run(*replies: str) -> RunResult:
    return make_react(*replies).run("q")


INVENTED_RUN, PLAIN_RUN = run(ACT, ACT, FINISH), run("Action: echo\nAction Input: hi", "Final Answer: done")


def test_records_have_what_was_not_read() -> None:
    records = Recording.from_json_lines(recording_of(INVENTED_RUN).to_json_lines()).records
    result = records[-1]
    assert [step["unread"] for step in result["steps"]] == [INVENTED, INVENTED]
    assert result["unread"] == LIED
    moved = [record["value"] for record in records if record["event"] == "moved" and record["node"] == "parse"]
    assert [value.get("unread") or value["actions"][0]["unread"] for value in moved] == [INVENTED, INVENTED, LIED]
    assert "unread" not in json.dumps(recording_of(PLAIN_RUN).records[-1])


def test_page_has_it_as_text_and_records_as_a_string(tmp_path: Path) -> None:
    hostile = "Observation: </script><script>alert(1)</script>"
    page = run(f"{FINISH}\n{hostile}").draw(tmp_path / "run.html").read_text()
    assert LIED in unpack_page(page)
    assert "<script>alert(1)" not in page
    *records, result = recording_of(INVENTED_RUN).records
    lines = Recording([*records, {**result, "unread": 3}]).to_json_lines()
    with pytest.raises(InputError, match=r"not a valid record: result\.unread"):
        Recording.from_json_lines(lines)


def test_end_of_the_page_shows_it(pages: Pages) -> None:
    page = pages.run(recording_of(INVENTED_RUN))
    page.locator("#slider").press("End")
    detail = page.locator("#detail")
    assert detail.get_by_text("Not read, since the model invented it").count() == 1
    assert detail.get_by_text(LIED).count() == 1
    assert detail.get_by_text("not read: Observation: a rabbit").count() == 2
