"""A fork in a browser: the page's own request is admitted, that of a page of another port is not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from graphexec.live import serving
from tests.draw.browser import chromium
from tests.draw.debugged import answering
from tests.live.readers import PATIENCE
from tests.live.test_forks import OBSERVATION, make, recorder_of_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

# As the page sends it: to the address in its data.
ASK = """async (body) => {
    const { fork } = JSON.parse(document.getElementById("data").textContent);
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(fork, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: answer.status, ...(await answer.json()) };
}"""
# A page of another server on this computer, to which the browser sends the cookie, too.
ATTACK = """async ([address, kind]) => {
    const headers = { "Content-Type": kind };
    const body = '{"step": 3}';
    try {
        await fetch(address, { method: "POST", mode: "no-cors", credentials: "include", headers, body });
    } catch {}
    const form = document.createElement("form");
    form.method = "post";
    form.enctype = "text/plain";
    form.action = address;
    document.body.append(form);
    form.submit();
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.jsonl"
    file.write_text(recorder_of_run().recording.to_json_lines(), encoding="utf-8")
    return file


def test_page_forks_its_run_and_shows_the_new_one(browser: Browser, trace: Path) -> None:
    with serving(trace, executor=make(answering("only a"))) as url:
        page = browser.new_page()
        page.goto(url)
        answer: Any = page.evaluate(ASK, OBSERVATION)
        assert (answer["status"], answer["page"], answer["trace"]) == (201, "/forks/1/", "trace.fork-1.jsonl")
        refused: Any = page.evaluate(ASK, {"step": 99})
        assert (refused["status"], refused["error"][:22]) == (400, "there is no step 99: t")
        page.goto(f"{url.partition('/?')[0]}{answer['page']}")
        page.locator("#status", has_text="answered").wait_for(timeout=PATIENCE * 1000)
        assert "only a" in page.inner_text("#detail")
        page.close()


def test_page_of_another_port_cannot_fork(browser: Browser, trace: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<!doctype html><title>another</title>", encoding="utf-8")
    other = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site)))
    Thread(target=other.serve_forever, daemon=True).start()
    try:
        with serving(trace, executor=make(answering("never"))) as url:
            context = browser.new_context()
            page = context.new_page()
            page.goto(url)
            assert context.cookies()
            address = f"http://{urlsplit(url).netloc}/fork"
            statuses: list[int] = []
            context.on(
                "response", lambda response: statuses.append(response.status) if response.url == address else None
            )
            page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
            with page.expect_navigation():
                page.evaluate(ATTACK, [address, "text/plain"])
            assert "does not come from this page" in page.inner_text("body")
            assert 201 not in statuses
            context.close()
        assert [one.name for one in tmp_path.iterdir() if "fork" in one.name] == []
    finally:
        other.shutdown()
        other.server_close()
