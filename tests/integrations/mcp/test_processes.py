"""Servers in other processes: they are cancelled, killed, send too much, and say nothing on our terminal."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from graphexec import create_agent
from graphexec.integrations.mcp import MCPServer, MCPServerError, Progress
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from tests.integrations.mcp.noting_server import make_server
from tests.integrations.mcp.programs import PLAIN, noting
from tests.integrations.mcp.test_tools import calling, tools_of

pytestmark = pytest.mark.medium


def lines_of(notes: Path, count: int) -> list[str]:
    """Return the lines of a file once it has so many."""
    ends = time.monotonic() + 10
    while len(lines := notes.read_text(encoding="utf-8").split("\n")[:-1] if notes.exists() else []) < count:
        assert time.monotonic() < ends, f"it has {lines}"
        time.sleep(0.01)
    return lines


@pytest.mark.parametrize(("over_http", "mode"), [*product((False, True), ("auto", "legacy"))])
def test_the_server_notes_a_call_cut_at_the_deadline(tmp_path: Path, over_http: bool, mode: str) -> None:
    """Both in a sync and in an async run."""
    notes = tmp_path / "notes"
    with noting(notes, over_http=over_http) as target, MCPServer(target, mode=mode) as server:
        for number, is_async in enumerate((False, True), 1):
            model = ScriptedModel([ToolCall("1", "wait", '{"number": 30}')])
            executor = create_agent(model, server.tools(), kind="tool_calling", max_execution_time=0.3)
            result = asyncio.run(executor.arun("")) if is_async else executor.run("")
            assert result.reason == "seconds"
            assert lines_of(notes, 2 * number) == ["began", "cancelled"] * number


def test_a_killed_server_is_told_and_reconnected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Fifty times. Each call is made once, also the one that the server did not survive."""
    notes, kills = tmp_path / "notes", 50
    with MCPServer([sys.executable, PLAIN, str(notes)]) as server:
        tools = tools_of(server)
        for number in range(kills):
            with pytest.raises(MCPServerError, match=r"lost during die, which may have taken place: .* -9: the end is"):
                tools["die"](number=number)
            assert tools["add"](number=number) == str(number + 1)
    assert lines_of(notes, 0) == [f"{name} {number}" for number in range(kills) for name in ("die", "add")]
    assert capfd.readouterr() == ("", "")


def test_large_or_unreadable_answers_end_their_call(tmp_path: Path) -> None:
    with MCPServer([sys.executable, PLAIN, str(tmp_path / "notes")], max_observation=10) as server:
        tools = tools_of(server)
        model = ScriptedModel([ToolCall("1", "large", '{"number": 1}'), "done"])
        create_agent(model, server.tools(), kind="tool_calling").run("")
        assert "[... 999,990 more characters were cut" in str(model.requests[-1])
        with pytest.raises(MCPServerError, match=r"during big, .*: it sent a message of more than 16,777,216 bytes$"):
            tools["big"](number=1_000)
        with pytest.raises(MCPServerError, match=r"the answer to odd cannot be read, .*: Invalid JSON: .* it wrote "):
            tools["odd"](number=1)
        assert tools["add"](number=1) == "2"


def test_a_program_that_is_no_server_is_one_sentence() -> None:
    rows = {
        "import sys; sys.exit('no key')": "with status 1: no key; it wrote 'Hello!', which is no message of MCP",
        "input(); input()": "it did not answer within 0.5 seconds; it wrote 'Hello!'",
    }
    targets: dict[Any, str] = {
        (sys.executable, "-c", f"print('Hello!', flush=True); {code}"): text for code, text in rows.items()
    }
    targets["no-such-program --token secret"] = "MCP server no-such-program: it cannot be started"
    targets["http://u:secret@127.0.0.1:9/mcp?token=secret"] = "MCP server http://127.0.0.1:9/mcp: "
    for target, text in targets.items():
        with pytest.raises(MCPServerError) as raised:
            MCPServer(target, connect_timeout=0.5).tools()
        assert text in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "secret" not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_children_of_a_program_end_with_it(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = ["sh", "-c", 'sleep 60 > "$1" & exec "$2" "$3" notes', "sh", pipe, sys.executable, PLAIN]
    with MCPServer(command) as server:
        server.tools()
        assert select.select([reading], [], [], 0) == ([], [], [])
    # Its end is read when nobody writes any more.
    assert select.select([reading], [], [], 10)[0] == [reading]
    os.close(reading)


def test_a_timeout_names_the_tool(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with noting(notes, over_http=False) as target, MCPServer(target, timeout=0.1) as server:
        with pytest.raises(MCPServerError, match=r"wait was not answered within 0.1 seconds"):
            tools_of(server)["wait"](number=30)
        assert lines_of(notes, 2) == ["began", "cancelled"]
        assert tools_of(server)["add"](number=1) == "2"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_consumer_of_progress_stops_no_other_session(is_async: bool) -> None:
    """Another session answers while the consumer of a thousand reports does not take the first of them."""
    resume, reported = threading.Event(), threading.Event()

    def observe(event: object) -> None:
        if isinstance(getattr(event, "news", None), Progress):
            reported.set()
            assert resume.wait(30)

    with MCPServer(make_server(print)) as talking, MCPServer(make_server(print)) as other:
        executor = calling(talking, "talk", '{"number": 1000}', observers=[observe])

        def run() -> None:
            asyncio.run(executor.arun("")) if is_async else executor.run("")

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert reported.wait(30)
            began = time.perf_counter()
            assert tools_of(other)["add"](number=1) == "2"
            assert time.perf_counter() - began < 1
        finally:
            resume.set()
            thread.join(30)


_EXIT = """
import os, sys
from graphexec.integrations.mcp import MCPServer
server = MCPServer([sys.executable, sys.argv[1], sys.argv[2]])
add = next(one for one in server.tools() if one.name == "add")
if (child := os.fork()) == 0:
    print(add(number=2), flush=True)
    sys.exit()
os.waitpid(child, 0)
print(add(number=1))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_its_own_server_and_exit_ends_both(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _EXIT, PLAIN, str(tmp_path / "notes")]
    # The servers have the same standard error as their parents only if they are not kept apart; then this would wait.
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("3\n2\n", "")


class _Wrong(BaseHTTPRequestHandler):
    """Answers each path in a way of its own."""

    def do_POST(self) -> None:
        status, headers, body = (ANSWERS | CALLS)[self.path][0](self.rfile.read(int(self.headers["content-length"])))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        pass


_Answer = tuple[int, dict[str, str], bytes]
_JSON = {"content-type": "application/json"}


def _result(request: bytes, **result: Any) -> _Answer:
    return 200, _JSON, json.dumps({"jsonrpc": "2.0", "id": json.loads(request)["id"], "result": result}).encode()


ANSWERS: dict[str, tuple[Callable[[bytes], _Answer], str]] = {
    "/secret": (lambda _: (401, {}, b""), "it answered 401 Unauthorized"),
    "/page": (lambda _: (200, {"content-type": "text/html"}, b"<html>"), "Unexpected content type: text/html"),
    "/packed": (lambda _: (200, {**_JSON, "content-encoding": "gzip"}, b""), "a compressed form"),
    "/large": (lambda _: (200, _JSON, b" " * 17_000_000), "more than 16,777,216 bytes"),
    "/odd": (lambda request: _result(request, some="thing"), "Field required"),
}


def _gateway(status: int) -> Callable[[bytes], _Answer]:
    """Return a server with one tool, whose calls get a page of this status."""

    def answer(request: bytes) -> _Answer:
        match json.loads(request)["method"]:
            case "initialize":
                server = {"name": "a", "version": "1"}
                return _result(request, protocolVersion="2025-11-25", capabilities={"tools": {}}, serverInfo=server)
            case "tools/list":
                return _result(request, tools=[{"name": "act", "inputSchema": {"type": "object"}}])
            case "tools/call":
                return status, {"content-type": "text/html"}, b"<html>"
            case _:
                return 202, {}, b""

    return answer


CALLS: dict[str, tuple[Callable[[bytes], _Answer], str]] = {
    "/forgotten": (_gateway(404), "it did not take the call of act: it answered 404 Not Found; call it again"),
    "/slow": (_gateway(504), "act, which may have taken place: it answered 504 Gateway Timeout"),
    "/login": (_gateway(200), "act, which may have taken place: Unexpected content type: text/html"),
}


def test_an_address_that_is_no_server_is_one_sentence() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Wrong) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        for path, (_, text) in ANSWERS.items():
            address = f"http://127.0.0.1:{http.server_port}{path}"
            with pytest.raises(MCPServerError) as raised:
                MCPServer(address, headers={"authorization": "secret"}, connect_timeout=10).tools()
            assert str(raised.value).startswith(f"MCP server {address}: ")
            assert text in str(raised.value)
            assert "\n" not in str(raised.value)
        for path, (_, text) in CALLS.items():
            with MCPServer(f"http://127.0.0.1:{http.server_port}{path}", mode="legacy") as server:
                with pytest.raises(MCPServerError) as raised:
                    tools_of(server)["act"]()
                assert str(raised.value).endswith(text)
        http.shutdown()
