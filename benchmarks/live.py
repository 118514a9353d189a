"""The cost of a live page for a run: the same run recorded and served to a reader, and without.

    python benchmarks/live.py [--check] [--scripted]

Rounds of both kinds take turns, and their medians are compared. The reader is a separate process, which receives
every record like a browser. Two rows are of scripted models that take 10 and 50 ms for a reply, the last is of
the local model. The cost is about half a millisecond per step, so its share is larger for faster models.
With `--check` the exit status is 1 if a goal is missed; `--scripted` leaves out the local model.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from graphexec import AgentExecutor, create_structured_agent, create_tool_calling_agent, tool
from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.draw import Recorder
from graphexec.live import serving
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from graphexec.models import LocalModel
from graphexec.tools.everyday import EVERYDAY_TOOLS

ROUNDS = 15
# Plans of one scripted run, as many as an executor allows by default; seconds that models take: one that is faster than
# any real one, and one as fast as they are.
STEPS, INSTANT, FAST = 15, 0.010, 0.050

# The goal: how much longer a run takes that is watched.
COST = 0.05

# A reader that has the page, says when it receives a record, and continues until the stream ends.
READER = """
import sys
from urllib.request import Request, urlopen

address, _, token = sys.argv[1].partition("?token=")
headers = {"Authorization": f"Bearer {token}"}
urlopen(Request(address, headers=headers)).read()
with urlopen(Request(address + "events", headers=headers)) as stream:
    for line in stream:
        if line.strip() == b"id: 0":
            print("there", flush=True)
"""

ASKS_FOR_A_TOOL = ModelReply("", (ToolCall("call_1", "double", '{"x": 21}'),))


@dataclass(frozen=True, slots=True)
class Case:
    """A run that can be made again and again: who runs, and what is asked."""

    name: str
    executor: AgentExecutor
    question: str


class SlowModel:
    """A model that takes its time, as a server does."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:  # noqa: ARG002
        """Ask for the tool, after a while."""
        time.sleep(self._pause)
        return ASKS_FOR_A_TOOL

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:  # noqa: ARG002
        """Ask for the tool, after a while."""
        await asyncio.sleep(self._pause)
        return ASKS_FOR_A_TOOL


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def scripted(pause: float) -> Case:
    """A run of many steps whose model is no work for this machine."""
    agent = create_tool_calling_agent(SlowModel(pause), [double])
    executor = AgentExecutor(agent=agent, tools=[double], max_iterations=STEPS)
    return Case(f"a model of {pause * 1000:.0f} ms", executor, "Go on.")


def local(model: LocalModel) -> Case:
    """The first question of the README."""
    agent = create_structured_agent(model, EVERYDAY_TOOLS, examples=EVERYDAY_EXAMPLES)
    executor = AgentExecutor(agent=agent, tools=EVERYDAY_TOOLS, handle_parsing_errors=True)
    return Case("the local model", executor, "What is 37 * 48?")


def alone(case: Case) -> float:
    """Return the seconds that the run takes without a reader."""
    began = time.perf_counter()
    case.executor.run(case.question)
    return time.perf_counter() - began


def watched(case: Case) -> float:
    """Return the seconds that the run takes while a reader receives all of it; the page is there before."""
    recorder = Recorder(case.executor.verify(), inputs=case.question)
    with serving(recorder) as url, reader_of(url):
        began = time.perf_counter()
        for event in case.executor.stream(case.question):
            recorder(event)
        return time.perf_counter() - began


@contextmanager
def reader_of(url: str) -> Generator[None]:
    """A process that reads the events; it has come to the end when the block is left."""
    # This very Python, and the text above.
    process = subprocess.Popen([sys.executable, "-c", READER, url], stdout=subprocess.PIPE)  # noqa: S603
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"there\n"
        yield
    assert process.returncode == 0


def measured(case: Case, rounds: int) -> float:
    """Print a row, and return how much longer the run takes that is watched, as a ratio of medians."""
    # The first run is cold.
    alone(case)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        # Each kind goes first as often as the other.
        for serves in (number % 2 == 0, number % 2 == 1):
            times[serves].append(watched(case) if serves else alone(case))
    unwatched, seen = statistics.median(times[False]), statistics.median(times[True])
    print(f"{case.name:<20}{unwatched:>10.3f} s{seen:>10.3f} s{seen / unwatched - 1:>10.1%}", flush=True)
    return seen / unwatched


def main() -> int:
    """Measure, print, and return the exit status."""
    print(f"{'median of a run':<20}{'unwatched':>12}{'watched':>12}{'cost':>10}")
    ratios = [measured(scripted(pause), ROUNDS) for pause in (INSTANT, FAST)]
    if "--scripted" not in sys.argv:
        with LocalModel() as model:
            ratios.append(measured(local(model), ROUNDS))
    kept = all(ratio < 1 + COST for ratio in ratios)
    print(f"goal: a run that is watched takes less than {COST:.0%} longer: {'kept' if kept else 'missed'}")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
