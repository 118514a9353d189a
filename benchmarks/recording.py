"""The time of recording a run of tool calls, and of writing its trace and its page, as the run grows.

    python benchmarks/recording.py [--check]

A recorded run has one call of a trivial tool in each iteration, by a scripted model. Recording is
`recording_of(result)`, which replays the run; its time for 1,200 calls is compared with those for 300 before and after
it, and in the median may be four times as long, beside the noise of the clock; so is that of writing the trace. The
page is `draw(..., "html", runs=recording)` of 1,000 steps, four of them an iteration, and of ten times as many. The
payload of a run is its replies, arguments and observations, each once, here of random words: a gzipped trace of 1,000
calls with observations of 2,000 characters may have 0.6 times its bytes. Times are of the processor, and the best of
some rounds; the garbage collector rests, as with `timeit`. With `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import gc
import gzip
import random
import statistics
import sys
import time
from collections.abc import Callable

from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.draw import Recording, draw, recording_of
from graphexec.executor.result import RunResult
from graphexec.messages import ModelReply, ToolCall, Usage
from graphexec.models import ScriptedModel

REPEATS = 15
# Four times the calls, and the noise of the clock.
GROWTH = 4.0 * 1.05
PAGE_SECONDS = 0.7
PAGE_GROWTH = 10.0 * 1.2
# Characters of the observations, of which a reply has a quarter, and the bytes of the trace by those of the payload.
SIZES = (200, 2000, 10_000)
GOAL_SIZE = 2000
TRACE_BYTES = 0.6
WORDS = (
    *("the", "a", "of", "in", "to", "is", "was", "fox", "dog", "page", "river", "seven", "under", "quickly", "report"),
    *("value", "error", "found", "between", "city"),
)


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return f"contents of {url}"


def run_calls(calls: int) -> RunResult:
    """Run an agent that makes so many calls, one in each iteration."""
    replies = [
        ModelReply("", (ToolCall(f"call_{number}", "fetch", f'{{"url": "{number}"}}'),), usage=Usage(10, 2))
        for number in range(calls)
    ]
    agent = create_tool_calling_agent(ScriptedModel([*replies, "done"]), [fetch])
    return AgentExecutor(agent=agent, tools=[fetch], max_iterations=calls + 1).run("q")


def run_pages(calls: int, size: int) -> RunResult:
    """Run an agent that makes so many calls, with observations of about so many characters."""

    def write(seed: str, characters: int) -> str:
        return " ".join(random.Random(seed).choices(WORDS, k=characters // 5))  # noqa: S311 - they are no secret

    @tool
    def read(page: str) -> str:
        """Read a page."""
        return write(page, size)

    replies = [
        ModelReply(
            write(f"reply {number}", size // 4),
            (ToolCall(f"call_{number}", "read", f'{{"page": "{number}"}}'),),
        )
        for number in range(calls)
    ]
    agent = create_tool_calling_agent(ScriptedModel([*replies, "done"]), [read])
    return AgentExecutor(agent=agent, tools=[read], max_iterations=calls + 1).run("q")


def payload(recording: Recording) -> int:
    """Return the bytes of the replies, the arguments and the observations of a run, each once."""
    replies = [reply for record in recording.records for reply in record.get("replies", ())]
    texts = [reply.get(name, "") for reply in replies for name in ("content", "observation")]
    texts += [call["arguments"] for reply in replies for call in reply.get("tool_calls", ())]
    return sum(len(text.encode()) for text in texts)


def trace_ratio(size: int) -> float:
    """Print how many bytes of a trace there are for one of its payload, and return it for the gzipped trace."""
    recording = recording_of(run_pages(1000, size))
    text = recording.to_json_lines().encode()
    plain, packed = (len(content) / payload(recording) for content in (text, gzip.compress(text)))
    print(f"trace of 1,000 calls with observations of {size:,}: {plain:.2f} times the payload, gzipped {packed:.2f}")
    return packed


def processor_time(function: Callable[[], object]) -> float:
    """Return the seconds of processor time of a call, in which the garbage collector rests."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        function()
        return time.process_time() - began
    finally:
        gc.enable()


def best(functions: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the shortest time of each function, in seconds."""
    times = [[processor_time(function) for function in functions] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def growth(short: Callable[[], object], long: Callable[[], object]) -> tuple[float, float]:
    """Return the shortest time of the longer function, and the median of its ratios to those of the other."""
    seconds, ratios = list[float](), list[float]()
    for _ in range(REPEATS):
        before = processor_time(short)
        seconds.append(processor_time(long))
        ratios.append(2 * seconds[-1] / (before + processor_time(short)))
    return min(seconds), statistics.median(ratios)


def write_page(recording: Recording) -> str:
    """Return the page of a run."""
    return draw(recording.machine, "html", runs=recording)


def main() -> int:
    """Print the figures, and return 1 if `--check` finds that a goal is missed."""
    short, long = run_calls(300), run_calls(1200)
    seconds, recording = growth(lambda: recording_of(short), lambda: recording_of(long))
    print(f"recording 1,200 calls: {seconds:.3f} s, {recording:.2f} times 300 calls")
    written, writing = growth(recording_of(short).to_json_lines, recording_of(long).to_json_lines)
    print(f"writing their trace: {written:.3f} s, {writing:.2f} times that of 300 calls")
    print(f"a call: {seconds / 1200 * 1e6:.0f} us to record, {written / 1200 * 1e6:.0f} us to write")
    ratios = {size: trace_ratio(size) for size in SIZES}
    # An iteration has four steps.
    small, large = recording_of(run_calls(250)), recording_of(run_calls(2500))
    pages = best([lambda: write_page(small), lambda: write_page(large)], 3)
    thousand = best([lambda: write_page(recording_of(run_calls(1000)))], 1)[0]
    print(f"pages of 1,000 and 10,000 steps: {pages[0]:.3f} s, {pages[1]:.3f} s, ratio {pages[1] / pages[0]:.2f}")
    print(f"run, record and write a page of 1,000 tool calls: {thousand:.3f} s")
    missed = max(recording, writing) > GROWTH or pages[0] > PAGE_SECONDS or pages[1] > PAGE_GROWTH * pages[0]
    missed = missed or ratios[GOAL_SIZE] > TRACE_BYTES
    return int(missed and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
