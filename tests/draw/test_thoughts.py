"""Pictures and traces of runs show a reply's reasoning, shortened, and the tokens from a provider's cache."""

from __future__ import annotations

import io

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.cli.runs.trace import TracePrinter
from graphexec.draw import Recorder, Recording, compare_runs, recording_of, sequence_mermaid, timeline
from graphexec.draw.page import html, record_json
from graphexec.messages import ModelReply, Reasoning, ReplyDelta, Usage
from graphexec.models import ScriptedModel
from tests.draw.browser import Pages, press
from tests.executor.actors import call, echo
from tests.models.picky_server import PickyServer

LONG = "I think of a number. " * 100
THOUGHT = ModelReply("", (call("echo", text="a"),), Usage(900, 20, 512), reasoning=(Reasoning(LONG, "secret"),))
PLAIN = ModelReply("done", usage=Usage(950, 2))


def make_executor(*replies: ModelReply) -> AgentExecutor:
    return AgentExecutor(agent=create_tool_calling_agent(ScriptedModel(replies), [echo]), tools=[echo])


@pytest.fixture
def thoughtful() -> Recording:
    return recording_of(make_executor(THOUGHT, PLAIN).run("q"))


@pytest.fixture
def plain() -> Recording:
    return recording_of(make_executor(PLAIN).run("q"))


def test_diagrams_show_the_beginning_of_the_reasoning(thoughtful: Recording, plain: Recording) -> None:
    shown = timeline(thoughtful, width=160)
    assert "[reasoning: I think of a number. I think" in shown
    assert "1,872 tokens (1,850 + 22, 512 cached)" in shown
    assert "reasoning" not in timeline(plain)
    assert "952 tokens (950 + 2)" in timeline(plain)
    # A note of a sequence diagram.
    shown = sequence_mermaid(thoughtful)
    (note,) = [line for line in shown.splitlines() if "reasoning" in line]
    assert note.strip().startswith("Note over p2: reasoning")
    assert "I think of a number. I think" in note
    assert "900 + 20 tokens, 512 cached" in shown.replace("#43;", "+")
    assert "reasoning" not in sequence_mermaid(plain)


def test_page_has_the_reasoning_but_not_its_data(thoughtful: Recording) -> None:
    page = html(thoughtful.machine, thoughtful)
    assert LONG[:-1] in page
    assert '"cached_tokens":512' in page
    assert "secret" not in page
    assert "secret" not in compare_runs(thoughtful, thoughtful)
    assert "secret" not in "".join(map(record_json, thoughtful.records))
    # A fork sends it back.
    assert "secret" in thoughtful.to_json_lines()


def test_page_folds_the_reasoning(pages: Pages, thoughtful: Recording) -> None:
    page = pages.run(thoughtful)
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
    executor = AgentExecutor(agent=create_tool_calling_agent(server.model(), [echo]), tools=[echo])
    recorder = Recorder(executor.verify())
    list(map(recorder, executor.stream("q", tokens=True)))
    read = Recording.from_json_lines(recorder.recording.to_json_lines())
    recording = [record for record in read.records if record["event"] == "reported"]
    assert "".join(record["text"] for record in recording) == "done"
    assert "".join(record.get("reasoning", "") for record in recording) == "I think of it."
    assert {record["news"] for record in recording} == {ReplyDelta.__name__}
