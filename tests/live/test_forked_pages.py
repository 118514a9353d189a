"""Forks in a browser: a reply is changed on the page, whose own request is admitted; that of another port is not."""

import json
import shlex
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from graphexec import AgentExecutor, draw, live
from graphexec.draw.page import html
from tests.draw.browser import Browser, Page, open_page, open_text
from tests.draw.debugged import answering
from tests.draw.forked import requests_of
from tests.draw.test_forks import make
from tests.live.readers import PATIENCE
from tests.live.test_forks import recorder_of_run, write_trace
from tests.parameters import read_tables

pytestmark = pytest.mark.browser


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path)


def test_page_of_another_port_cannot_fork(browser: Browser, trace: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<!doctype html><title>another</title>", encoding="utf-8")
    other = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site)))
    Thread(target=other.serve_forever, daemon=True).start()
    try:
        with live.serving(trace, executor=make(answering("never"))) as url:
            context = browser.new_context()
            page = context.new_page()
            page.goto(url)
            assert context.cookies()
            address = f"http://{urlsplit(url).netloc}/fork"
            statuses: list[int] = []
            context.on("response", lambda one: statuses.append(one.status) if one.url == address else None)
            page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
            with page.expect_navigation():
                page.evaluate(read_tables(__file__)["attack"], [address, "text/plain"])
            assert "does not come from this page" in page.inner_text("body")
            assert 201 not in statuses
            context.close()
        assert [one.name for one in tmp_path.iterdir() if "fork" in one.name] == []
    finally:
        other.shutdown()
        other.server_close()


def go_to(page: Page, step: int) -> None:
    """Go to a step of a run that has ended."""
    page.locator("#status", has_text="answered").wait_for(timeout=PATIENCE * 1000)
    page.locator("#slider").fill(str(step))


def test_reply_is_changed_on_the_page(browser: Browser, trace: Path) -> None:
    executor = make(answering("only a"))
    with live.serving(trace, executor=executor) as url, open_page(browser, url) as one:
        page = one.page
        go_to(page, 1)
        page.locator(".fork button", has_text="change and go on").click()
        field = page.get_by_label("The reply of step 1, as JSON")
        changed = json.loads(field.input_value())
        changed["tool_calls"] = [{"name": "look_up", "arguments": {"word": "z"}}]
        field.fill("{")
        page.get_by_role("button", name="go on from here").click()
        assert page.locator(".fork [role=alert]").inner_text()
        field.fill(json.dumps(changed))
        page.get_by_role("button", name="go on from here").click()
        page.wait_for_url("**/forks/1/**")
        page.locator("#status", has_text="answered").wait_for(timeout=PATIENCE * 1000)
        assert "z is a word" in page.locator("#list").inner_text()
        # The first of two requests was answered by the reader.
        assert requests_of(executor) == 1
        assert page.locator("#forked").inner_text() == "fork of trace.jsonl at step 1 · that run · compare both"
        page.locator("#forked a", has_text="compare both").click()
        page.wait_for_url("**/forks/1/comparison**")
        shown = page.locator("body").inner_text()
        assert "z is a word" in shown
        assert page.locator("ins").count() > 0
        page.go_back()
        page.locator("#forked a", has_text="that run").click()
        page.locator("#position", has_text="1 / ").wait_for()
        assert one.faults == []


@pytest.mark.full
def test_refused_change_stays_in_the_editor(browser: Browser, trace: Path) -> None:
    def refuse(recording: draw.Recording) -> AgentExecutor:
        if len(recording.records) > 1:
            raise ValueError("the tools are gone")
        return make(answering("never"))

    with live.serving(trace, executor=refuse) as url, open_page(browser, url) as one:
        page = one.page
        go_to(page, 3)
        page.locator(".fork button").nth(1).click()
        field = page.get_by_label("The observation of step 3")
        field.fill("nothing")
        page.get_by_role("button", name="go on from here").click()
        page.locator(".fork [role=alert]", has_text="the tools are gone").wait_for()
        assert field.input_value() == "nothing"
        field.press("Escape")
        assert page.evaluate("document.activeElement.textContent") == "change and go on"


@pytest.mark.full
def test_draft_survives_the_next_rendering(browser: Browser, trace: Path) -> None:
    """The detail is made anew when the run ends, and when a search marks its words."""
    records = trace.read_text("utf-8").splitlines(keepends=True)
    trace.write_text("".join(records[:-1]), encoding="utf-8")
    with live.serving(trace, executor=make(answering("never"))) as url, open_page(browser, f"{url}#step=1") as one:
        page = one.page
        page.locator("#position", has_text="1 / ").wait_for()
        page.locator(".fork button", has_text="change and go on").click()
        field = page.get_by_label("The reply of step 1")
        field.fill("a draft")
        with trace.open("a", encoding="utf-8") as out:
            out.write(records[-1])
        page.locator("#status", has_text="answered").wait_for(timeout=PATIENCE * 1000)
        assert field.input_value() == "a draft"
        assert page.evaluate("document.activeElement.value") == "a draft"
        field.press("Escape")
        assert page.locator(".fork textarea").count() == 0
        assert one.faults == []


LOST = {"token": "the server refused it with the status 403", "server": "the server cannot be reached"}


@pytest.mark.full
@pytest.mark.parametrize("lost", LOST)
def test_lost_server_is_named_at_the_editor(browser: Browser, trace: Path, lost: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(ExitStack())
        url = server.enter_context(live.serving(trace, executor=make(answering("never"))))
        page = stack.enter_context(open_page(browser, url)).page
        go_to(page, 3)
        page.locator(".fork button").first.click()
        field = page.get_by_label("The observation of step 3")
        field.fill("nothing")
        if lost == "server":
            server.close()
        else:
            page.context.clear_cookies()
        page.get_by_role("button", name="go on from here").click()
        page.locator(".fork [role=alert]", has_text=LOST[lost]).wait_for()
        assert field.input_value() == "nothing"


@pytest.mark.full
def test_page_without_a_server_copies_the_command(browser: Browser, tmp_path: Path) -> None:
    recording = recorder_of_run().recording
    with open_text(browser, tmp_path, html(recording.machine, recording), "#step=3") as page:
        page.locator(".fork button").nth(1).click()
        page.locator(".fork button", has_text="copied").wait_for()
        copied: str = page.evaluate("navigator.clipboard.readText()")
        wanted = ["replay", "trace.jsonl", "--at", "3", "--call", "1", "--observation", "b is a word"]
        assert shlex.split(copied) == ["graphexec", *wanted]
