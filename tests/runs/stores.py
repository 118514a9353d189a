"""A machine whose runs are stored, and what the tests of stores do with it."""

import os
import signal
import time
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from graphexec import Asks, Effect, Exhausted, Machine, ask, ask_all, node
from graphexec.effects import AskHuman
from graphexec.runs import PostgresRuns, Runs, SQLiteRuns, Waiting
from tests.kernel.machines import machine_of, value

# Seconds in which what a test waits for happens, however busy the machine.
LONG = 30.0


@final
@dataclass(frozen=True)
class Place:
    """A file, or the address of a server."""

    address: Path | str

    def open(self, **options: Any) -> Runs:
        if isinstance(self.address, Path):
            return SQLiteRuns(self.address, **options)
        return PostgresRuns(self.address, **options)


@value
class Plan:
    """A trip: its stops are booked, then several people are asked at once, who have so many seconds.

    `along`: one more stop is booked meanwhile.
    """

    stops: int = 1
    waits: tuple[float | None, ...] = (None,)
    along: bool = False


@dataclass(frozen=True, slots=True)
class Book(Effect[str]):
    stop: int


@value
class Trip:
    booked: tuple[str, ...]
    answers: tuple[str, ...]


@value
class Stopped:
    plan: Plan
    cause: Exhausted


@node(when_spent=Stopped)
def travel(plan: Plan) -> Asks[Book | AskHuman, Trip]:
    booked: tuple[str, ...] = ()
    for stop in range(plan.stops):
        booked += ((yield from ask(Book(stop))),)
    # mypy does not infer the reply of one or the other.
    asked: list[Any] = [
        AskHuman(f"Where to, {person}?", ("sea", "hills", "home"), seconds, None if seconds is None else "home")
        for person, seconds in enumerate(plan.waits)
    ]
    if plan.along:
        asked.append(Book(plan.stops))
    answers = yield from ask_all(asked)
    return Trip(booked, answers)


TRAVEL: Machine[Plan, Trip | Stopped] = machine_of(travel)


@dataclass
class Desk:
    """Books stops, and counts what it books; `before` is called first."""

    store: Runs
    before: Callable[[int], object] = lambda stop: None
    booked: list[int] = field(default_factory=list[int])

    def run(self, plan: Plan | None = None, run_id: str = "trip") -> Any:
        """Return the outcome of the run, or its questions."""

        def book(effect: Book) -> str:
            self.before(effect.stop)
            self.booked.append(effect.stop)
            return f"stop {effect.stop}"

        done = TRAVEL.run(plan, runs=self.store, run_id=run_id, handlers={Book: book})
        return done if isinstance(done, Waiting) else done.outcome


def apart(work: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own, so that a run in it is not nested in the one that calls this."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def wait_until(is_true: Callable[[], object]) -> None:
    """Wait for a condition; fail after a long time."""
    end = time.monotonic() + LONG
    while not is_true():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.002)


@contextmanager
def forked(work: Callable[[], object]) -> Generator[int]:
    """Carry out a function in a forked process, which must succeed before the block ends, unless it was killed."""
    with warnings.catch_warnings():
        # Threads that renew leases do not matter in the new process.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 1
        with suppress(BaseException):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(LONG))
            work()
            code = 0
        os._exit(code)
    try:
        yield child
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    assert status in {0, signal.SIGKILL}, "the other process has failed"
