"""Run a graph: sync, async, and as a stream of events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, TypeVar

from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Done, Event
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.program import Proof
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.handlers import AT_ONCE, NO_OPTIONS, HandlerLike, RunContext, RunOptions, handlers_for
from graphexec.runtime.io import ASYNC, BLOCKING, run_sync
from graphexec.runtime.loop import conclude, follow

# With what the functions take.
__all__ = ["RunContext", "RunOptions", "arun", "astream", "make_run_context", "run", "stream"]

S = TypeVar("S")
F = TypeVar("F")


def make_run_context(
    answers: Mapping[type[Effect[Any]], HandlerLike],
    *,
    limits: Limits | None = None,
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
    proof: Proof | None = None,
) -> RunContext:
    """Make a context from functions: `make_run_context({AskHuman: lambda asked: input(asked.question)})`."""
    return RunContext(handlers_for(answers), limits or Limits(), at_once, clock, proof)


def run(
    graph: Graph[S, F], value: S | Snapshot, run_context: RunContext, *, options: RunOptions = NO_OPTIONS
) -> Done[F]:
    """Run `graph` from `value`, or from a snapshot, to its end. If it raises, `snapshot_of(error)` is the run's state.

    A snapshot's calls without a reply are made and charged again. A nested run, within a call of another run, is also
    subject to that run's limits.
    """
    return run_sync(follow(graph, value, run_context, BLOCKING, options=options))


def stream(
    graph: Graph[S, F],
    value: S | Snapshot,
    run_context: RunContext,
    *,
    pieces: bool = False,
    options: RunOptions = NO_OPTIONS,
) -> Generator[Event[F], None, None]:
    """Run `graph` like `run`, and yield each event; the last one is `Done`. Closing the generator ends the run.

    With `pieces`, models that can stream do so, and each piece of a reply is a `Reported` event with a `ReplyDelta`.
    """
    return stream_sync(lambda: follow(graph, value, run_context, BLOCKING, emit, pieces=pieces, options=options))


async def arun(
    graph: Graph[S, F], value: S | Snapshot, run_context: RunContext, *, options: RunOptions = NO_OPTIONS
) -> Done[F]:
    """Run like `run`, on the running event loop; blocking functions run in threads."""
    return await conclude(follow(graph, value, run_context, ASYNC, options=options), lambda done: done, ASYNC)


def astream(
    graph: Graph[S, F],
    value: S | Snapshot,
    run_context: RunContext,
    *,
    pieces: bool = False,
    options: RunOptions = NO_OPTIONS,
) -> AsyncGenerator[Event[F], None]:
    """Run like `stream`, on the running event loop."""
    return stream_async(lambda: follow(graph, value, run_context, ASYNC, emit, pieces=pieces, options=options))
