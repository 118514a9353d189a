"""A forked process shares no connection, lock and server with its parent."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.parameters import cases, read_tables

PROGRAMS = read_tables(__file__)

# They start processes.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")]


class Echo(BaseHTTPRequestHandler):
    """Answers with the question, and keeps the connection open."""

    protocol_version = "HTTP/1.1"
    # Without it, each of two writes waits for the other side.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": body["messages"][-1]["content"]}
        reply = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Print nothing."""


class EchoServer(ThreadingHTTPServer):
    """Counts its connections."""

    daemon_threads = True
    connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def process_request(self, request: object, client_address: object) -> None:
        self.connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]  # pyright: ignore


@contextmanager
def serve() -> Generator[EchoServer, None, None]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def run(program: str, *args: str, seconds: float = 60) -> list[str]:
    """Run a program that forks, apart from the threads of the tests; return the lines that it prints."""
    code = PROGRAMS["common"] + PROGRAMS[program]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    assert done.stderr == ""
    return done.stdout.split()


@cases(("way", "opened"), ("sync", 3), ("async", 4))
def test_forked_process_opens_its_own_connections(way: str, opened: int) -> None:
    with serve() as server:
        assert run("calls", server.url, "5", "2", way) == ["5"] * 3
        # Also the one of the sync call before the async ones.
        assert server.connections == opened


@cases("way", "sync", "async")
def test_no_worker_gets_the_answer_of_another(way: str) -> None:
    with serve() as server:
        assert run("calls", server.url, "300", "4", way, seconds=110) == ["300"] * 5


@cases(
    ("program", "printed"),
    # The locks of other threads do not block a forked process.
    ("locks", ["True", "True"]),
    # A forked process closes its copy of a connection.
    ("sockets", ["1", "0"]),
    # The server of a local model stays with the parent.
    ("servers", ["True", "True", "None", "True"]),
)
def test_forked_process_does_not_wait_for_its_parent(program: str, printed: list[str]) -> None:
    with serve() as server:
        assert run(program, server.url) == printed
        assert program != "sockets" or server.connections == 1


def test_passed_client_is_refused_after_a_fork() -> None:
    with serve() as server:
        found = " ".join(run("clients", server.url))
    assert found.startswith("the client that was passed to the model was used before this process was forked")
