"""A forked process shares no connection, lock and server with its parent."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.parameters import cases

# They start processes. tests/models/test_connections.py has what can be tested in one.
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


# The start of every program: it forks workers, and collects a number from each.
COMMON = """
import asyncio, os, sys, threading
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import OpenAICompatible, cached, rate_limited, MemoryCache

def ask(model, text):
    return model.complete(ChatRequest([UserMessage(text)])).content == text

async def aask(model, text):
    return (await model.acomplete(ChatRequest([UserMessage(text)]))).content == text

def fork(work, workers):
    pipes = []
    for worker in range(workers):
        read, write = os.pipe()
        if os.fork() == 0:
            code = "failed"
            try:
                code = str(work(worker))
            finally:
                os.write(write, code.encode())
                os._exit(0)
        os.close(write)
        pipes.append(read)
    return pipes

def collect(pipes):
    found = [os.read(pipe, 100).decode() for pipe in pipes]
    for _ in pipes:
        os.wait()
    return found
"""


def run(program: str, *args: str, seconds: float = 60) -> list[str]:
    """Run a program that forks, apart from the threads of the tests; return the lines that it prints."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COMMON + textwrap.dedent(program), *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    assert done.stderr == ""
    return done.stdout.split()


CALLS = """
    model = OpenAICompatible("tiny", base_url=sys.argv[1])
    calls, workers = int(sys.argv[2]), int(sys.argv[3])
    assert ask(model, "before")
    if sys.argv[4] == "sync":
        work = lambda worker: sum(ask(model, f"{worker} {call}") for call in range(calls))
        pipes = fork(work, workers)
        print(sum(ask(model, f"parent {call}") for call in range(calls)))
    else:
        async def main():
            assert await aask(model, "before")
            def work(worker):
                async def call_all():
                    return sum([await aask(model, f"{worker} {call}") for call in range(calls)])
                return asyncio.run(call_all())
            pipes = fork(work, workers)
            print(sum([await aask(model, f"parent {call}") for call in range(calls)]))
            return pipes
        pipes = asyncio.run(main())
    print(*collect(pipes))
"""


@cases(("way", "opened"), [("sync", 3), ("async", 4)])
def test_forked_process_opens_its_own_connections(way: str, opened: int) -> None:
    with serve() as server:
        assert run(CALLS, server.url, "5", "2", way) == ["5"] * 3
        # Also the one of the sync call before the async ones.
        assert server.connections == opened


@cases("way", ["sync", "async"])
def test_no_worker_gets_the_answer_of_another(way: str) -> None:
    with serve() as server:
        assert run(CALLS, server.url, "300", "4", way, seconds=110) == ["300"] * 5


def test_locks_of_other_threads_do_not_block_a_forked_process() -> None:
    program = """
        inner = OpenAICompatible("tiny", base_url=sys.argv[1])
        store = MemoryCache()
        gated = rate_limited(inner, at_once=1, per_second=1000)
        model = cached(gated, store, name="x")
        assert ask(model, "before")
        held, leave = threading.Event(), threading.Event()
        locks = [inner._connections._lock, inner._refusals._lock, store._lock]
        def hold():
            with locks[0], locks[1], locks[2]:
                held.set()
                leave.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        print(*collect(fork(lambda worker: ask(model, "a") and ask(model, "b"), 2)))
        leave.set()
        thread.join()
        assert ask(model, "after")
    """
    with serve() as server:
        assert run(program, server.url) == ["True", "True"]


def test_place_taken_by_another_thread_is_free_after_a_fork() -> None:
    program = """
        from graphexec.models.wrappers.rate_limits import Gate
        gate = Gate(1)
        gate.turns |= {"turn": None, "waiting": None}
        def work(worker):
            gate.turns |= {"own": None, "next": None}
            first = gate.admits("own") and not gate.admits("next")
            # The thread that forked had a place, and leaves it.
            gate.turns.pop("turn", None)
            del gate.turns["own"]
            return first and gate.admits("next")
        print(*collect(fork(work, 2)))
        del gate.turns["turn"]
        print(gate.admits("waiting"))
    """
    assert run(program) == ["True", "True", "True"]


def test_summaries_go_on_after_a_fork() -> None:
    program = """
        from graphexec.memory import SummaryMemory
        from graphexec.models import ScriptedModel
        memory = SummaryMemory(ScriptedModel(["a summary"] * 3))
        memory._asking[os.getpid()] = "a thread of this process"
        def work(worker):
            memory.save({"input": "a"}, {"output": "b"})
            return memory.load({})["chat_history"] == "Summary: a summary"
        print(*collect(fork(work, 1)))
    """
    assert run(program) == ["True"]


def test_passed_client_is_refused_after_a_fork() -> None:
    program = """
        import httpx
        used, fresh = (OpenAICompatible("tiny", base_url=sys.argv[1], client=httpx.Client()) for _ in range(2))
        assert ask(used, "before")
        def work(worker):
            assert ask(fresh, "unused before the fork")
            try:
                ask(used, "after")
            except Exception as error:
                return str(error)[:100]
        print(*collect(fork(work, 1)))
        assert ask(used, "after")
    """
    with serve() as server:
        found = " ".join(run(program, server.url))
    assert found.startswith("the client that was passed to the model was used before this process was forked")


def test_forked_process_closes_its_copy_of_a_connection() -> None:
    program = """
        model = OpenAICompatible("tiny", base_url=sys.argv[1])
        assert ask(model, "before")
        def sockets():
            links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            return [os.readlink(link) for link in links if os.path.islink(link) and "socket:" in os.readlink(link)]
        before = sockets()
        print(len(before), *collect(fork(lambda worker: len(sockets()), 1)))
        assert ask(model, "after")
    """
    with serve() as server:
        assert run(program, server.url) == ["1", "0"]
        assert server.connections == 1


def test_server_of_a_local_model_stays_with_the_parent() -> None:
    program = """
        import subprocess
        from graphexec.models.local import llama_process
        # Ends when its input ends, as the server of a local model does.
        server = subprocess.Popen(["cat"], stdin=subprocess.PIPE, text=True)
        llama_process._RUNNING.add(server)
        def work(worker):
            ended = server.poll() is not None
            llama_process._kill(server)
            llama_process._close_pipes()
            return ended and server.stdin.closed
        print(*collect(fork(work, 2)))
        print(server.poll())
        llama_process._kill(server)
        print(server.poll() is not None)
    """
    assert run(program) == ["True", "True", "None", "True"]
