"""Interrupt runs at random moments, and resume them: `python -m tests.runtime.interrupting SEED COUNT [timers]`.

Python handles a signal when a function in Python begins, after a call of a function in C, and where a loop jumps back.
The interrupts come at the first two, each of which is equally likely; with `timers`, a timer sends half of them.
Half of the runs start new threads, as the first run of a process does.
"""

import asyncio
import faulthandler
import random
import signal
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, TypeAlias

import graphexec as gx
from graphexec.kernel import Done
from graphexec.runtime import threads

# Seconds after which a run hangs.
LONG = 60.0

# Of calls that belong to no run.
NUMBERS = count(-1, -1)

# The answer of each run.
ANSWER = 6

# The decisions and calls of a run, in its context: a thread of an earlier run may go on.
begun: ContextVar[list[object]] = ContextVar("begun")


@gx.tool
def double(number: int) -> int:
    """Double a number."""
    begun.get().append(number)
    return number * 2


@gx.tool(name="double")
async def double_async(number: int) -> int:
    """Double a number."""
    begun.get().append(number)
    await asyncio.sleep(0)
    return number * 2


def decide(steps: Any, inputs: Any) -> Any:
    """Call one tool, then two at once, then finish."""
    begun.get().append(inputs)
    if len(steps) >= 3:
        return gx.AgentFinish({"output": sum(int(step.observation) for step in steps)})
    return [gx.AgentAction("double", {"number": len(steps) + one}) for one in range(2 if steps else 1)]


async def decide_async(steps: Any, inputs: Any) -> Any:
    """Decide without waiting."""
    return decide(steps, inputs)


def executor_of(agent: Any, tool: Any, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(
        agent=agent, tools=[tool], max_iterations=None, allow_nonterminating=True, max_nested_runs=1_000, **options
    )


def nested(inner: gx.AgentExecutor) -> Any:
    @gx.tool(name="double")
    def double_within(number: int) -> int:
        """Double a number after another run."""
        assert inner.run("within").output == ANSWER
        return number * 2

    return double_within


# Observes events, and keeps none.
ignore = deque[object](maxlen=0).append

PLAIN = executor_of(decide, double)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_execution_time": LONG},
    {"tool_concurrency": 1},
    {"tool_concurrency": 1, "max_execution_time": LONG},
    {"observers": [ignore]},
    {"observers": [ignore], "max_execution_time": LONG},
]
EXECUTORS = [
    *(executor_of(*one, **options) for one in ((decide, double), (decide_async, double_async)) for options in OPTIONS),
    *(executor_of(decide, nested(PLAIN), **options) for options in OPTIONS[:4]),
    executor_of(decide, nested(executor_of(decide, double, max_execution_time=LONG)), tool_concurrency=1),
]


# The answer of a run, or its events. Any: the class of its outcome.
Found: TypeAlias = list[Any]


class Sending:
    """Sends an interrupt at the place of a `number` in a run, or some `seconds` after its begin, or never."""

    def __init__(self, number: int = 0, seconds: float = 0.0) -> None:
        self.number = number
        self.seconds = seconds
        # Kept: Python may call it once more after it has been taken away, and has no reference to it then.
        self._profile = self._count

    def arm(self) -> None:
        """Begin to count."""
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        if self.number:
            sys.setprofile(self._profile)

    def disarm(self) -> None:
        """Send nothing more."""
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _count(self, _: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_return"):
            self.number -= 1
            if not self.number:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)


Way: TypeAlias = Callable[[gx.AgentExecutor, Any, Found, Sending], None]


def run(executor: gx.AgentExecutor, state: Any, found: Found, sending: Sending) -> None:
    sending.arm()
    found.append(executor.run(state))


def invoke(executor: gx.AgentExecutor, state: Any, found: Found, sending: Sending) -> None:
    sending.arm()
    found.append(executor.run(state) if isinstance(state, gx.Snapshot) else executor.invoke(state))


def stream(executor: gx.AgentExecutor, state: Any, found: Found, sending: Sending) -> None:
    sending.arm()
    # No code of the consumer, whose interrupts are not the run's.
    found.extend(executor.stream(state))


def arun(executor: gx.AgentExecutor, state: Any, found: Found, sending: Sending) -> None:
    async def main() -> None:
        # Not while `asyncio.run` itself begins or ends: there it raises no `CancelledError`.
        sending.arm()
        try:
            found.append(await executor.arun(state))
        finally:
            sending.disarm()

    asyncio.run(main())


WAYS: list[Way] = [run, invoke, stream, arun]


def last_of(found: Found) -> object:
    """Return the answer, or `None` if the run has not ended."""
    # The output of a result is read here, when no interrupt comes any more.
    last: Any = found[-1] if found else None
    kind: type[Any] = type(last)  # pyright: ignore[reportUnknownVariableType]
    if kind is Done:
        return last.outcome.output
    if kind is gx.RunResult:
        return last.output
    return last["output"] if kind is dict else None


def interrupt(way: Way, executor: gx.AgentExecutor, sending: Sending) -> str:
    """Interrupt a run, and return what came of it: it is `ended`, `not begun`, `resumed`, or else it is a fault."""
    found: Found = []
    calls: list[object] = []
    begun.set(calls)
    try:
        try:
            way(executor, "q", found, sending)
        finally:
            sending.disarm()
    except KeyboardInterrupt as error:
        if last_of(found) is None:
            snapshot = gx.snapshot_of(error)
            if snapshot is None:
                return f"lost after {len(calls)} calls" if calls else "not begun"
            way(executor, gx.Snapshot.from_json(snapshot.to_json(), executor.graph), found, Sending())
            return "resumed" if last_of(found) == ANSWER else f"wrong answer {found} of {snapshot}"
    return "ended" if last_of(found) == ANSWER else f"wrong answer {found}"


# Any: the module of threads, of which this uses what is private.
def use_threads(module: Any, *, new: bool) -> None:
    """Let the next calls start new threads, which end with them, or share the idle ones."""
    module._MOST_IDLE = 0 if new else 64
    idle = module._threads._idle
    while new and idle:
        # A call that does nothing, whose thread ends then.
        idle.pop().put((next(NUMBERS), lambda: int))


def send(_: int, __: FrameType | None) -> None:
    """Send an interrupt to this process, when the timer has ended."""
    signal.raise_signal(signal.SIGINT)


def main(seed: int, runs: int, *, timers: bool) -> Counter[str]:
    """Interrupt so many runs; return how often each thing came of it."""
    chance, came = random.Random(seed), Counter[str]()
    # A process in the background may ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, send)
    begun.set([])
    kinds = [(way, number, new) for way in WAYS for number in range(len(EXECUTORS)) for new in (False, True)]
    places: dict[tuple[Way, int, bool], int] = {}
    took: dict[tuple[Way, int, bool], float] = {}
    for _ in range(runs):
        way, number, new = kind = chance.choice(kinds)
        prepare = partial(use_threads, threads, new=new)
        faulthandler.dump_traceback_later(2 * LONG, exit=True)
        if kind not in places:
            counting = Sending(1 << 40)
            way(EXECUTORS[number], "q", [], Sending())
            prepare()
            way(EXECUTORS[number], "q", [], counting)
            counting.disarm()
            places[kind] = (1 << 40) - counting.number
            prepare()
            began = time.perf_counter()
            way(EXECUTORS[number], "q", [], Sending())
            took[kind] = time.perf_counter() - began
        prepare()
        place, seconds = chance.randint(1, places[kind]), chance.uniform(1e-6, took[kind])
        sending = Sending(seconds=seconds) if timers and chance.random() < 0.5 else Sending(place)
        try:
            what = interrupt(way, EXECUTORS[number], sending)
        except BaseException as error:  # noqa: BLE001 - each is counted
            what = repr(error)
            traceback.print_exc()
        came[what] += 1
        if what not in {"ended", "not begun", "resumed"}:
            at = f"after {seconds} s" if sending.seconds else f"at {place} of {places[kind]}"
            print(what, way.__name__, number, "new threads" if new else "", at, file=sys.stderr)
    return came


if __name__ == "__main__":
    print(dict(main(int(sys.argv[1]), int(sys.argv[2]), timers="timers" in sys.argv)))
