"""A run in a browser while it happens, with a reload of its page."""

import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from graphexec import AgentExecutor, create_structured_agent, draw, live, models, tool
from tests.cli.conversations import answer_text, tool_call_text
from tests.cli.terminals import Program
from tests.cli.traced import record_run, recorder_of
from tests.draw.browser import Browser, Page, Request, open_page
from tests.live.readers import PATIENCE, credentials

pytestmark = pytest.mark.browser

QUESTION = "Is it <b>done</b>?"


def wait_for_text(page: Page, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for(timeout=PATIENCE * 1000)


def test_slow_run_is_shown_live_and_after_reload(browser: Browser) -> None:
    steps = [threading.Event() for _ in range(3)]

    @tool
    def wait(step: int) -> str:
        """Wait until the test has checked the page."""
        assert steps[step].wait(PATIENCE)
        return f"<i>looked {step}</i>"

    replies = [*(tool_call_text("wait", step=step) for step in range(3)), answer_text("All is <b>done</b>.")]
    agent = create_structured_agent(models.ScriptedModel(replies), [wait], rules=())
    executor = AgentExecutor(agent=agent, tools=[wait], handle_parsing_errors=True)
    recorder = draw.Recorder(executor.verify(), inputs=QUESTION)

    running = threading.Thread(target=lambda: list(map(recorder, executor.stream(QUESTION))))
    with live.serving(recorder) as url, open_page(browser, url) as one:
        page = one.page
        wait_for_text(page, "#connection", "live")
        running.start()
        wait_for_text(page, "#detail h2", "dispatch_tools")
        wait_for_text(page, "#status", "running")
        steps[0].set()
        wait_for_text(page, "#rows", "looked 0")
        wait_for_text(page, "#position", "7 / 7")
        page.reload()
        # The reloaded page has all records, and the run continues.
        wait_for_text(page, "#asked", QUESTION)
        wait_for_text(page, "#position", "7 / 7")
        wait_for_text(page, "#rows", "looked 0")
        steps[1].set()
        wait_for_text(page, "#rows", "looked 1")
        steps[2].set()
        wait_for_text(page, "#status", "answered")
        wait_for_text(page, "#detail", "All is <b>done</b>.")
        wait_for_text(page, "#connection", "ended")
        assert one.faults == []
        address, _ = credentials(url)
        assert {request.partition("?")[0] for request in one.requests} == {address, f"{address}events"}
    running.join(PATIENCE)


def note_referrer(referrers: list[str], request: Request) -> None:
    referrers.append(request.headers.get("referer", ""))


def test_token_leaves_the_address_and_the_page(browser: Browser, tmp_path: Path) -> None:
    recorder = recorder_of()
    with live.serving(recorder) as url:
        address, _ = credentials(url)
        token = url.partition("=")[2]
        leading = tmp_path / "leading.html"
        leading.write_text(f'<a href="{url}">open</a>', encoding="utf-8")
        # From another site, whose redirects carry no strict cookie, and as typed.
        for first in (leading.as_uri(), url):
            context = browser.new_context()
            page = context.new_page()
            referrers: list[str] = []
            page.on("request", partial(note_referrer, referrers))
            page.goto(first)
            if first != url:
                page.click("a")
            wait_for_text(page, "#status", "answered")
            assert page.evaluate("location.href") == address
            assert token not in page.content()
            assert token not in "".join(referrers)
            assert page.evaluate("document.cookie") == ""
            assert page.request.get(f"{address}events").ok
            context.close()
        stranger = browser.new_context()
        assert stranger.request.get(address).status == 403
        stranger.close()


@pytest.mark.full
def test_page_of_a_killed_server_knows_a_new_one(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(record_run().splitlines(keepends=True)[:5]), encoding="utf-8")
    with Program("view", "--live", str(file), "--no-open") as viewing:
        assert viewing.process.stdout is not None
        url: str = viewing.process.stdout.readline().strip()
        port = urlsplit(url).port
        assert port is not None
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        wait_for_text(page, "#connection", "live")
        viewing.process.kill()
        viewing.process.wait(PATIENCE)
        wait_for_text(page, "#connection", "reconnecting")
        with live.serving(file, port=port):
            wait_for_text(page, "#connection", "the server is gone; a new one prints a new address")
        context.close()
    # Without a new one, the page says that it is gone.
    recorder = recorder_of(to=5)
    with ExitStack() as servers:
        url = servers.enter_context(live.serving(recorder))
        with open_page(browser, url) as one:
            wait_for_text(one.page, "#connection", "live")
            servers.close()
            wait_for_text(one.page, "#connection", "the server is gone; a new one prints a new address")
