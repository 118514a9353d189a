"""The live page during a long call: its clock, the text as it comes, and signs of life."""

import asyncio
import signal
import threading
from pathlib import Path

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent, draw, kernel, messages, tool
from graphexec.live import serving
from graphexec.models import ScriptedModel
from tests.cli.conversations import Silence
from tests.cli.conversations import serving as model_serving
from tests.cli.terminals import Program
from tests.cli.test_run import asking
from tests.draw.browser import Browser, open_page
from tests.live.readers import PATIENCE

pytestmark = pytest.mark.browser


# Whether the clock shows more seconds than these.
RISEN = """least => {
  const shown = document.querySelector("#time").textContent;
  return !shown.includes("ms") && parseFloat(shown) > least;
}"""


def test_clock_rises_and_pieces_appear_before_the_reply(browser: Browser) -> None:
    executor = AgentExecutor(agent=create_tool_calling_agent(ScriptedModel(["One <b>two</b> three."]), []), tools=[])
    recorder = draw.Recorder(executor.verify(), inputs="q")
    events = executor.stream("q")
    recorder(next(events))
    asked = next(events)
    assert isinstance(asked, kernel.Asked)
    recorder(asked)
    with serving(recorder) as url, open_page(browser, url) as one:
        page = one.page
        page.locator("#detail h2", has_text="plan").wait_for()
        text = page.locator("#time").inner_text()
        before = 0.0 if "ms" in text else float(text.removesuffix(" s"))
        for rise in (1, 2, 3):
            page.wait_for_function(RISEN, arg=before + rise, timeout=PATIENCE * 1000)
        for piece in ("One ", "<b>two</b> ", "three."):
            recorder(kernel.Reported("plan", asked.effect, messages.ReplyDelta(piece), asked.call))
            page.locator("#detail pre.streamed", has_text=piece.strip()).wait_for()
        assert page.locator("#detail pre.streamed").inner_text() == "One <b>two</b> three."
        assert "Waiting for the next record." in page.locator("#detail").inner_text()
        list(map(recorder, events))
        page.locator("#status", has_text="answered").wait_for()
        assert one.faults == []


@pytest.mark.full
def test_each_tool_is_shown_when_it_ends(browser: Browser) -> None:
    ends = threading.Event()

    @tool
    async def quick() -> str:
        """End at once."""
        return "quick result"

    @tool
    async def slow() -> str:
        """End when the test has seen the other."""
        assert await asyncio.to_thread(ends.wait, PATIENCE)
        return "slow result"

    model = ScriptedModel([[messages.ToolCall("a", "quick", "{}"), messages.ToolCall("b", "slow", "{}")], "Done."])
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [quick, slow]), tools=[quick, slow])
    recorder = draw.Recorder(executor.verify(), inputs="q")

    async def follow() -> None:
        async for event in executor.astream("q"):
            recorder(event)

    running = threading.Thread(target=asyncio.run, args=(follow(),))
    with serving(recorder) as url, open_page(browser, url) as one:
        running.start()
        try:
            calls = one.page.locator("#detail .pair")
            calls.first.locator(".part.reply", has_text="quick result").wait_for()
            assert calls.last.locator(".part.reply").count() == 0
            assert one.page.locator("#detail .together .count").last.inner_text() == "no reply yet"
        finally:
            ends.set()
        one.page.locator("#status", has_text="answered").wait_for()
        assert one.faults == []
    running.join(PATIENCE)


@pytest.mark.full
def test_silence_of_a_living_writer_is_named(browser: Browser) -> None:
    executor = AgentExecutor(agent=create_tool_calling_agent(ScriptedModel(["Done."]), []), tools=[])
    recorder = draw.Recorder(executor.verify(), inputs="q")
    recorder(next(executor.stream("q")))
    with serving(recorder) as url, open_page(browser, "about:blank") as one:
        one.page.clock.install()
        one.page.goto(url)
        connection = one.page.locator("#connection")
        connection.filter(has_text="live").wait_for()
        one.page.clock.fast_forward(31_000)
        connection.filter(has_text="nothing for 3").wait_for()
        assert one.page.locator("#status").inner_text() == "running"


@pytest.mark.slow
def test_killed_writer_gives_no_sign_of_life(browser: Browser, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with (
        model_serving([Silence()]) as server,
        Program(*asking(server, "--record", str(trace))) as program,
        serving(trace) as url,
        # Opened at once, the page would load itself again when the run begins.
        open_page(browser, "about:blank") as one,
    ):
        assert server.waiting.wait(PATIENCE)
        one.page.goto(url)
        connection = one.page.locator("#connection")
        connection.filter(has_text="live").wait_for(timeout=PATIENCE * 1000)
        # Longer than three heartbeats, which would be reported as missing.
        one.page.wait_for_timeout(7000)
        assert "no sign of life" not in connection.inner_text()
        program.process.send_signal(signal.SIGKILL)
        connection.filter(has_text="no sign of life").wait_for(timeout=PATIENCE * 1000)
        assert one.page.locator("#status").inner_text() == "no sign of life"
