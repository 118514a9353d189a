"""A forked process shares no connection, lock and server with its parent."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.models.actors import LoopbackServer, response, send
from tests.parameters import cases, read_tables

PROGRAMS = read_tables(__file__)

# They start processes.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")]


class EchoServer(LoopbackServer):
    """Answers with the question, and keeps the connection open."""

    def answer(self, connection: socket.socket, body: bytes) -> bool:
        message = {"role": "assistant", "content": json.loads(body)["messages"][-1]["content"]}
        reply = {"choices": [{"message": message, "finish_reason": "stop"}]}
        return send(response(json.dumps(reply).encode()))(connection)


def run(program: str, *args: str, seconds: float = 60) -> list[str]:
    """Run a program that forks, apart from the threads of the tests; return the lines that it prints."""
    code = PROGRAMS["common"] + PROGRAMS[program]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    assert done.stderr == ""
    return done.stdout.split()


# No worker gets the answer of another, and each opens its own connections: in async calls, also one for the sync call.
@cases(
    ("way", "calls", "workers", "opened"),
    *(("sync", 5, 2, 3), ("async", 5, 2, 4)),
    *((way, 300, 4, None) for way in ("sync", "async")),
)
def test_forked_process_has_its_own_connections(way: str, calls: int, workers: int, opened: int | None) -> None:
    with EchoServer() as server:
        found = run("calls", server.url, str(calls), str(workers), way, seconds=110)
        assert found == [str(calls)] * (workers + 1)
        assert opened in (None, server.connections)


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
    with EchoServer() as server:
        assert run(program, server.url) == printed
        assert program != "sockets" or server.connections == 1


def test_passed_client_is_refused_after_a_fork() -> None:
    with EchoServer() as server:
        found = " ".join(run("clients", server.url))
    assert found.startswith("the client that was passed to the model was used before this process was forked")
