"""The cost of one loop for sync and async runs: three implementations around the same engine.

    python benchmarks/waiting.py

A machine of one node asks for one effect a visit, and a function answers it at once; there are no observers and no
deadline. *Coroutine* is the package's way: `async def`, which a sync run steps itself through an `IO`.
*Generator* yields each effect to a driver that answers it, one driver with and one without `await`. *Twins* are the
loop written twice. The last row is the package's own loop, which also keeps a journal and a clock. Times are the best
of several rounds, in µs of wall time per effect; calls are of Python and C functions per effect, and repeat exactly.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

from graphexec import END, ITERATIONS, Asks, Effect, Exhausted, Limits, ask, edges, graph, node, on
from graphexec.kernel import begin
from graphexec.kernel.execution import Execution
from graphexec.runtime import ASYNC, BLOCKING, IO, arun, run
from graphexec.runtime.io import run_sync

EFFECTS = 2_000
ROUNDS = 15


@final
@dataclass(frozen=True, slots=True)
class Go:
    """A number on its way."""

    number: int


@final
@dataclass(frozen=True, slots=True)
class Over:
    """The limit is reached."""

    number: int


@dataclass(frozen=True, slots=True)
class Look(Effect[int]):
    """Ask for the next number."""

    number: int


def over(go: Go, limit: Exhausted) -> Over:
    """Leave the loop."""
    del limit
    return Over(go.number)


@node(when_spent=over, meters=[ITERATIONS], asks=1)
def look(go: Go) -> Asks[Look, Go]:
    """Ask, and go on."""
    return Go((yield from ask(Look(go.number))))


MACHINE = graph(edges(look, on(Go, look) | on(Over, END)), start=look)


def answer(effect: Look) -> int:
    """Answer in a sync run."""
    return effect.number + 1


async def answer_async(effect: Look) -> int:
    """Answer in an async run."""
    return effect.number + 1


# What a loop is sent: the reply, the second at which it came, and how many seconds it took.
Path: TypeAlias = Generator[Any, tuple[int, float, float] | None, Over]


def path_of(effects: int) -> Path:
    """Return the path of a run that asks for so many effects."""
    # Any: an engine's path is of any machine; and it is sent nothing before it has begun.
    execution: Any = Execution(MACHINE, begin(MACHINE, Go(0)), Limits(iterations=effects))
    path: Path = execution.run()
    return path


async def coroutine(effects: int, io: IO) -> Over:
    """The loop, once."""
    path = path_of(effects)
    reply: tuple[int, float, float] | None = None
    try:
        while True:
            effect = path.send(reply).effect
            reply = await io.either(lambda: answer(effect), lambda: answer_async(effect)), 0.0, 0.0  # noqa: B023 - called at once
    except StopIteration as end:
        return over_of(end)


def generator(effects: int) -> Generator[Look, int, Over]:
    """The loop, once, without a word of how effects are answered."""
    path = path_of(effects)
    reply: tuple[int, float, float] | None = None
    try:
        while True:
            reply = (yield path.send(reply).effect), 0.0, 0.0
    except StopIteration as end:
        return over_of(end)


def drive(effects: int) -> Over:
    """Answer what the generator yields."""
    flow = generator(effects)
    try:
        effect = next(flow)
        while True:
            effect = flow.send(answer(effect))
    except StopIteration as end:
        return over_of(end)


async def drive_async(effects: int) -> Over:
    """Answer what the generator yields, on an event loop."""
    flow = generator(effects)
    try:
        effect = next(flow)
        while True:
            effect = flow.send(await answer_async(effect))
    except StopIteration as end:
        return over_of(end)


def twin(effects: int) -> Over:
    """The loop for sync runs."""
    path = path_of(effects)
    reply: tuple[int, float, float] | None = None
    try:
        while True:
            reply = answer(path.send(reply).effect), 0.0, 0.0
    except StopIteration as end:
        return over_of(end)


async def async_twin(effects: int) -> Over:
    """The loop for async runs."""
    path = path_of(effects)
    reply: tuple[int, float, float] | None = None
    try:
        while True:
            reply = await answer_async(path.send(reply).effect), 0.0, 0.0
    except StopIteration as end:
        return over_of(end)


def over_of(end: StopIteration) -> Over:
    """Return the outcome with which a generator has ended."""
    outcome: Over = end.value
    return outcome


def package(effects: int) -> Over:
    """The package's own loop."""
    return run(MACHINE, Go(0), handlers={Look: answer}, limits=Limits(iterations=effects)).outcome


async def package_async(effects: int) -> Over:
    """The package's own loop, on an event loop."""
    return (await arun(MACHINE, Go(0), handlers={Look: answer_async}, limits=Limits(iterations=effects))).outcome


SYNC: dict[str, Callable[[int], Over]] = {
    "coroutine": lambda effects: run_sync(coroutine(effects, BLOCKING)),
    "generator": drive,
    "twins": twin,
    "package": package,
}
ON_A_LOOP: dict[str, Callable[[int], Awaitable[Over]]] = {
    "coroutine": lambda effects: coroutine(effects, ASYNC),
    "generator": drive_async,
    "twins": async_twin,
    "package": package_async,
}


def run_on(runner: asyncio.Runner, make: Callable[[int], Awaitable[Over]], effects: int) -> Over:
    """Run what is made on an event loop that is there already."""
    return runner.run(awaited(make, effects))


async def awaited(make: Callable[[int], Awaitable[Over]], effects: int) -> Over:
    """Await what is made, so that a runner can run it."""
    return await make(effects)


def calls_of(measured: Callable[[int], object]) -> float:
    """Return the calls per effect: those of a run of twice the length less those of one."""
    counts: list[int] = []
    for effects in (100, 200):
        calls = 0

        def profile(frame: object, event: str, argument: object) -> None:
            del frame, argument
            nonlocal calls
            calls += event in ("call", "c_call")

        measured(effects)
        sys.setprofile(profile)
        measured(effects)
        sys.setprofile(None)
        counts.append(calls)
    return (counts[1] - counts[0]) / 100


def main() -> None:
    """Measure and print."""
    with asyncio.Runner() as runner:
        rows: dict[str, Callable[[int], Over]] = {f"{name}, sync": one for name, one in SYNC.items()}
        for name, make in ON_A_LOOP.items():
            rows[f"{name}, async"] = partial(run_on, runner, make)
        best = dict.fromkeys(rows, float("inf"))
        for _ in range(ROUNDS):
            for name, one in rows.items():
                began = time.perf_counter()
                one(EFFECTS)
                best[name] = min(best[name], time.perf_counter() - began)
        print(f"{'per effect':<18}{'µs':>8}{'calls':>8}")
        for name, one in rows.items():
            print(f"{name:<18}{best[name] / EFFECTS * 1e6:>8.2f}{calls_of(one):>8.1f}")


if __name__ == "__main__":
    main()
