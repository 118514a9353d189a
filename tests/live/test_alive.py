"""The live page during a long call: its clock, the text as it comes, and signs of life."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.draw import Recorder
from graphexec.kernel import Asked, Reported
from graphexec.live import serving
from graphexec.messages import ReplyDelta
from graphexec.models import ScriptedModel
from tests.cli.conversations import Silence
from tests.cli.conversations import serving as model_serving
from tests.cli.terminals import Program
from tests.cli.test_run import asking
from tests.draw.browser import chromium, open_page
from tests.live.readers import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


# Whether the clock shows more seconds than these.
RISEN = """least => {
  const shown = document.querySelector("#time").textContent;
  return !shown.includes("ms") && parseFloat(shown) > least;
}"""


def seconds_shown(page: Page) -> float:
    text = page.locator("#time").inner_text()
    return 0.0 if "ms" in text else float(text.removesuffix(" s"))


def test_clock_rises_and_pieces_appear_before_the_reply(browser: Browser) -> None:
    executor = AgentExecutor(agent=create_tool_calling_agent(ScriptedModel(["One two three."]), []), tools=[])
    recorder = Recorder(executor.verify(), inputs="q")
    events = executor.stream("q")
    asked = None
    while asked is None:
        event = next(events)
        recorder(event)
        asked = event if isinstance(event, Asked) else None
    with serving(recorder) as url, open_page(browser, url) as one:
        page = one.page
        page.locator("#detail h2", has_text="plan").wait_for()
        before = seconds_shown(page)
        for rise in (1, 2, 3):
            page.wait_for_function(RISEN, arg=before + rise, timeout=5000)
        for piece in ("One ", "two ", "three."):
            recorder(Reported("plan", asked.effect, ReplyDelta(piece), asked.call))
            page.locator("#detail pre.streamed", has_text=piece.strip()).wait_for()
        assert page.locator("#detail pre.streamed").inner_text() == "One two three."
        for later in events:
            recorder(later)
        page.locator("#status", has_text="answered").wait_for()
        assert one.faults == []


@pytest.mark.slow
def test_killed_writer_gives_no_sign_of_life(browser: Browser, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with (
        model_serving([Silence()]) as server,
        Program(*asking(server, "--record", str(trace))) as program,
        serving(trace) as url,
        open_page(browser, url) as one,
    ):
        assert server.waiting.wait(PATIENCE)
        one.page.goto(url)
        connection = one.page.locator("#connection")
        connection.filter(has_text="live").wait_for(timeout=PATIENCE * 1000)
        # Longer than three heartbeats, which would be reported as missing.
        one.page.wait_for_timeout(7000)
        assert "no sign of life" not in connection.inner_text()
        program.process.send_signal(signal.SIGKILL)
        connection.filter(has_text="no sign of life").wait_for(timeout=10_000)
        assert one.page.locator("#status").inner_text() == "no sign of life"
