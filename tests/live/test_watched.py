"""A run that is watched in a browser while it happens, and whose page is reloaded in the middle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec import AgentExecutor, create_structured_agent, tool
from graphexec.agents.structured import EVERYDAY_EXAMPLES
from graphexec.draw import Recorder
from graphexec.live import serving
from graphexec.models import LocalModel, ScriptedModel
from graphexec.tools.everyday import EVERYDAY_TOOLS
from tests.cli.conversations import answering, calling
from tests.cli.traced import recorded
from tests.draw.browser import chromium, opened
from tests.live.readers import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

QUESTION = "Is it <b>done</b>?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


def shown(page: Page, selector: str, text: str) -> None:
    """Wait until the page shows the text."""
    page.locator(selector, has_text=text).first.wait_for(timeout=PATIENCE * 1000)


def test_slow_run_is_shown_live_and_after_reload(browser: Browser) -> None:
    steps = [threading.Event() for _ in range(3)]

    @tool
    def wait(step: int) -> str:
        """Wait until somebody has looked."""
        assert steps[step].wait(PATIENCE)
        return f"<i>looked {step}</i>"

    replies = [*(calling("wait", step=step) for step in range(3)), answering("All is <b>done</b>.")]
    agent = create_structured_agent(ScriptedModel(replies), [wait])
    executor = AgentExecutor(agent=agent, tools=[wait], handle_parsing_errors=True)
    recorder = Recorder(executor.verify(), inputs=QUESTION)

    def go() -> None:
        for event in executor.stream(QUESTION):
            recorder(event)

    running = threading.Thread(target=go)
    with serving(recorder) as url, opened(browser, url) as one:
        page = one.page
        shown(page, "#connection", "live")
        running.start()
        shown(page, "#detail h2", "dispatch_tools")
        shown(page, "#status", "running")
        steps[0].set()
        shown(page, "#rows", "looked 0")
        shown(page, "#position", "7 / 7")
        page.reload()
        # All of it is there again, and the run goes on.
        shown(page, "#asked", QUESTION)
        shown(page, "#position", "7 / 7")
        shown(page, "#rows", "looked 0")
        steps[1].set()
        shown(page, "#rows", "looked 1")
        steps[2].set()
        shown(page, "#status", "answered")
        shown(page, "#detail", "All is <b>done</b>.")
        shown(page, "#connection", "ended")
        assert one.faults == []
        assert {request.partition("?")[0] for request in one.requests} == {url, f"{url}events"}
    running.join(PATIENCE)


def test_error_is_shown_on_the_open_page(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    lines = recorded().splitlines(keepends=True)
    file.write_text("".join(lines[:9]), encoding="utf-8")
    with serving(file) as url, opened(browser, url) as one:
        shown(one.page, "#status", "running")
        with file.open("a", encoding="utf-8") as writing:
            writing.write("garbage\n")
        shown(one.page, "#fault", f"line 10 of {file} is not a record")
        shown(one.page, "#status", "broke off")
        assert one.faults == []


@pytest.mark.local_model
def test_local_model_run_is_shown_live(browser: Browser) -> None:
    question = "What is 37 * 48?"
    with LocalModel() as model:
        agent = create_structured_agent(model, EVERYDAY_TOOLS, examples=EVERYDAY_EXAMPLES)
        executor = AgentExecutor(agent=agent, tools=EVERYDAY_TOOLS, handle_parsing_errors=True)
        recorder = Recorder(executor.verify(), inputs=question)
        reloaded = threading.Event()

        def go() -> None:
            for event in executor.stream(question):
                recorder(event)
                # In the middle: the tool was called, and the model is to be asked again.
                if len(recorder.records) == 12:
                    assert reloaded.wait(PATIENCE)

        running = threading.Thread(target=go)
        with serving(recorder) as url, opened(browser, url) as one:
            running.start()
            shown(one.page, "#rows", "1776")
            shown(one.page, "#status", "running")
            one.page.reload()
            shown(one.page, "#rows", "1776")
            reloaded.set()
            shown(one.page, "#status", "answered")
            shown(one.page, "#detail", "1776")
            assert one.faults == []
        running.join(PATIENCE)
