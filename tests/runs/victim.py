"""The program that test_kills.py kills: its tools write what really begins and ends into a file.

It imports the package once, and forks a process for each attempt that a line of its input describes.
"""

import asyncio
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, product
from types import FrameType
from typing import Any, TypeAlias

from graphexec import AgentExecutor, create_agent, tool
from graphexec.kernel import CallContext
from graphexec.messages import ModelReply, ToolCall, ToolMessage
from graphexec.nodes import map_agents
from graphexec.runs import CallInDoubtError, RunBusyError, SQLiteRuns, Waiting
from graphexec.runs.fingerprint import describe_machine

POLICIES = ("tell", "retry", "ask", "fail")
# Seconds that a call takes, and the wait for another worker.
WORK, BUSY = 0.001, 0.003
# Seconds that a run may take whose only call takes so many.
DEADLINE, HANGS = 0.4, 60.0


class Notes:
    """A file of lines of JSON that outlives its process: each is one write."""

    def __init__(self) -> None:
        self._file = self.stops_at = 0
        self._numbers = count(1)
        # Any: the store's, which nobody holds who does not write.
        self.lock: Any = None

    def open(self, path: str) -> None:
        """Write into this file from now on."""
        self._file, self._numbers = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY), count(1)

    def add(self, **note: object) -> None:
        """Write a line."""
        os.write(self._file, f"{json.dumps(note)}\n".encode())

    def work(self, name: str, call: str) -> str:
        """Carry out a call; return a word that says which attempt of it this was."""
        number = next(self._numbers)
        word = f"{name}/{call}/{os.getpid()}-{number}"
        self.add(kind="begin", name=name, call=call, word=word)
        if number == self.stops_at:
            # A process that is stopped while it writes keeps the lock of the file.
            with self.lock:
                self.add(kind="stopped", process=os.getpid())
                # Sent to the process, another thread may take it, and this one goes on for a moment.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        time.sleep(WORK)
        self.add(kind="end", word=word)
        return f"<{word}>"


def make_tools(notes: Notes, *, retry_all: bool) -> dict[str, Any]:
    """Return a tool for each policy of calls in doubt; with `retry_all`, they retry what is refused otherwise."""

    def make(name: str) -> Any:
        policy: Any = "retry" if retry_all and name == "fail" else name

        @tool(name=name, in_doubt=policy)
        def work(n: int, call: CallContext[Any]) -> str:
            """Work."""
            del n
            return notes.work(name, str(call.id))

        return work

    return {name: make(name) for name in POLICIES}


def make_model(notes: Notes, *rounds: Sequence[tuple[str, str]]) -> Callable[[Any], ModelReply]:
    """Return a model that calls these tools, round by round, and answers with all observations."""

    def model(request: Any) -> ModelReply:
        notes.add(kind="begin", name="model", call="", word="")
        done = [message for message in request.messages if isinstance(message, ToolMessage)]
        before = 0
        for number, calls in enumerate(rounds):
            if before == len(done):
                made = [ToolCall(f"{number}.{place}", *one) for place, one in enumerate(calls)]
                return ModelReply("", tool_calls=tuple(made))
            before += len(calls)
        return ModelReply(" ".join(str(message.content) for message in done))

    return model


Rounds: TypeAlias = Sequence[Sequence[tuple[str, str]]]

TWO: Rounds = [[("tell", '{"n": 1}'), ("retry", '{"n": 1}')]]
INNER: Rounds = [[*TWO[0], ("deep", '{"input": "d"}')]]
# Batches, agents as tools on three levels, and agents for tasks.
OUTER: Rounds = [
    [*TWO[0], ("inner", '{"input": "a"}')],
    [(name, '{"n": 7}') for name in POLICIES],
    [("tasks", '{"tasks": ["b", "c"]}')],
    [("tell", '{"n": 8}')],
    [("retry", '{"n": 8}')],
]


def make_executor(
    notes: Notes, *, retry_all: bool = False, seconds: float | None = None, one_by_one: bool = False
) -> AgentExecutor[Any]:
    """Return an agent that makes these calls; `one_by_one`, no batch is among them."""
    tools = make_tools(notes, retry_all=retry_all)

    def agent(rounds: Rounds, *more: Any, nodes: Sequence[Any] = ()) -> AgentExecutor[Any]:
        if one_by_one:
            rounds = [[one] for calls in rounds for one in calls[:3]]
        return create_agent(
            make_model(notes, *rounds),
            [*tools.values(), *more],
            kind="tool_calling",
            max_iterations=12,
            max_execution_time=seconds,
            nodes=nodes,
        )

    inner = agent(INNER, agent(TWO).as_tool("deep", "Work."))
    outer = [*OUTER[:2], [("tasks", '{"tasks": ["b"]}')]] if one_by_one else OUTER
    return agent(outer, inner.as_tool("inner", "Work."), nodes=[map_agents(inner, "tasks", "Work.")])


NOTES = Notes()


@cache
def find_executor(timed: bool, retry_all: bool) -> AgentExecutor[Any]:
    """Return the executor with or without a deadline, which may make calls again that others refuse."""
    return make_executor(NOTES, retry_all=retry_all, seconds=60.0 if timed else None)


@cache
def make_hanging() -> AgentExecutor[Any]:
    """Return an executor whose only call lasts longer than its run may."""

    @tool(in_doubt="retry")
    def hang() -> str:
        """Hang."""
        time.sleep(HANGS)
        return ""

    model = make_model(NOTES, [("hang", "{}")])
    return create_agent(model, [hang], kind="tool_calling", max_execution_time=DEADLINE)


def warm_up(path: str) -> None:
    """Load what runs load when they use it, without a thread that a fork would not have."""
    importlib.import_module("graphexec.runtime.tasks")
    NOTES.open(f"{path}.notes")
    with SQLiteRuns(f"{path}.db") as store:
        make_executor(NOTES, one_by_one=True).run("q", runs=store, run_id="r")
    for executor in (make_hanging(), *map(find_executor, *zip(*product((False, True), repeat=2), strict=True))):
        describe_machine(executor.graph)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()


def drive(executor: AgentExecutor[Any], store: SQLiteRuns, run_id: str, way: str) -> Any:
    """Return the result of a run, or the `Waiting`."""
    events: list[Any] = []

    async def follow() -> None:
        events.extend([event async for event in executor.astream("q", runs=store, run_id=run_id)])

    if way == "run":
        return executor.run("q", runs=store, run_id=run_id)
    if way == "arun":
        return asyncio.run(executor.arun("q", runs=store, run_id=run_id))
    if way == "stream":
        events.extend(executor.stream("q", runs=store, run_id=run_id))
    else:
        asyncio.run(follow())
    return events[-1] if isinstance(events[-1], Waiting) else executor.make_result(events[-1])


def carry_on(job: dict[str, Any]) -> None:
    """Carry the runs of a job on until all have ended."""
    store = SQLiteRuns(job["store"], lease=job["lease"])
    NOTES.stops_at, NOTES.lock = job["stops_at"], store._lock  # pyright: ignore[reportPrivateUsage]
    runs = dict.fromkeys(job["runs"], False)
    while runs:
        for run_id, is_refused in [*runs.items()]:
            executor = make_hanging() if job["hangs"] else find_executor(job["timed"], is_refused)
            try:
                result = drive(executor, store, run_id, job["way"])
            except RunBusyError:
                time.sleep(BUSY)
                continue
            except CallInDoubtError:
                NOTES.add(kind="refused", run=run_id)
                runs[run_id] = True
                continue
            if isinstance(result, Waiting):
                for question in result.questions:
                    answer = random.choice(["retry", f"<decided {question.key}>"])
                    NOTES.add(kind="reply", key=question.key, answer=answer)
                    store.reply(question.run_id, question.key, answer)
                continue
            spent = dict(result.spent.meters)
            NOTES.add(kind="result", run=run_id, output=result.output, spent=spent, seconds=result.spent.seconds)
            del runs[run_id]


# What is killed at a point is in one of these.
_PLACES = ("/graphexec/runs/", "/runtime/stored.py", "/runtime/loop.py", "/runtime/members.py", "/runs/victim.py")


def die_at(point: int) -> None:
    """Kill this process at this call or return of a function of the store, of the loop or of the tools."""
    left = point
    lock = threading.Lock()

    def follow(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        del event, argument
        if any(place in frame.f_code.co_filename for place in _PLACES):
            with lock:
                left -= 1
                is_here = left == 0
            if is_here:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(follow)
    sys.setprofile(follow)


def attempt(job: dict[str, Any]) -> str:
    """Carry out a job in a process of its own, which is killed `after` seconds, or gets a signal at a `point`."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            NOTES.open(job["notes"])
            random.seed(job["seed"])
            if job["bytes"]:
                # As a full disk: what would make a file longer fails.
                resource.setrlimit(resource.RLIMIT_FSIZE, (job["bytes"],) * 2)
            if job["point"]:
                die_at(job["point"])
            carry_on(job)
        except BaseException as error:  # noqa: BLE001 - it is told, and the process ends
            NOTES.add(kind="error", error=repr(error))
            os._exit(1)
        os._exit(0)
    os.close(writing)
    # The end of the pipe is that of the process.
    ended, _, _ = select.select([reading], [], [], job["after"])
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    return "killed" if os.WIFSIGNALED(status) else "ended" if status == 0 else "failed"


if __name__ == "__main__":
    warm_up(sys.argv[1])
    for line in sys.stdin:
        print(attempt(json.loads(line)), flush=True)
