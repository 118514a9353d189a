"""Run a graph: sync, async, and as a stream of events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Done, Event
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.program import Proof
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.surgery import same
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.handlers import (
    AT_ONCE,
    HandlerLike,
    Handlers,
    RunContext,
    RunOptions,
    find_handlers,
    handlers_for,
)
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync
from graphexec.runtime.observers import OnEvent
from graphexec.runtime.stored import follow

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphexec.runtime.handlers import AnySettings, GraphSettings

S = TypeVar("S")
F = TypeVar("F")


def run(graph: Graph[S, F], value: S | Snapshot, **options: Unpack[GraphSettings]) -> Done[F]:
    """Run `graph` from `value`, or from a snapshot, to its end. If it raises, `snapshot_of(error)` is the run's state.

    `handlers` maps classes of effects to functions that answer them, which take precedence over those of the graph.
    `limits` are by default `Limits()`, `at_once` is the number of effects of a batch that run at once, and `clock` a
    function of the time in seconds. With the `proof` of a verdict, a step that this does not allow raises
    `CertificateError`. `around_call` makes a context manager, such as a telemetry span, around each call. `overrides`
    are handlers that answer the nodes of embedded machines, too, before their own do: for scripted replies.

    `context` is passed to the run's calls and never stored. `run_id` defaults to that of the snapshot, or to a new one.
    `host` is the call that contains the run, by default the current one. `observers` are called with each event.

    A snapshot's calls without a reply are made and charged again. A nested run, within a call of another run, is also
    subject to that run's limits.
    """
    return run_sync(_follow(graph, value, BLOCKING, **options))


def stream(
    graph: Graph[S, F], value: S | Snapshot, *, tokens: bool = False, **options: Unpack[GraphSettings]
) -> Generator[Event[F], None, None]:
    """Run `graph` like `run`, and yield each event; the last one is `Done`. Closing the generator ends the run.

    With `tokens`, models that can stream do so, and each piece of a reply is a `Reported` event with a `ReplyDelta`.
    """
    return stream_sync(lambda: _follow(graph, value, BLOCKING, emit, tokens=tokens, **options))


async def arun(graph: Graph[S, F], value: S | Snapshot, **options: Unpack[GraphSettings]) -> Done[F]:
    """Run like `run`, on the running event loop; blocking functions run in threads."""
    return await _follow(graph, value, ASYNC, **options)


def astream(
    graph: Graph[S, F], value: S | Snapshot, *, tokens: bool = False, **options: Unpack[GraphSettings]
) -> AsyncGenerator[Event[F], None]:
    """Run like `stream`, on the running event loop."""
    return stream_async(lambda: _follow(graph, value, ASYNC, emit, tokens=tokens, **options))


def _follow(  # noqa: PLR0913
    graph: Graph[S, F],
    value: S | Snapshot,
    io: IO,
    consumer: OnEvent | None = None,
    *,
    tokens: bool = False,
    handlers: Mapping[type[Effect[Any]], HandlerLike] | None = None,
    limits: Limits | None = None,
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
    proof: Proof | None = None,
    overrides: Mapping[type[Effect[Any]], HandlerLike] | None = None,
    **options: Unpack[AnySettings],
) -> Coroutine[Any, Any, Done[F]]:
    known = handlers_for({**find_handlers(graph.settings), **(handlers or {}), **(overrides or {})})
    everywhere = Handlers({kind: known[kind] for kind in overrides or ()})
    context = RunContext(known, limits or Limits(), at_once, clock, proof, overrides=everywhere)
    options_of_run = RunOptions(**options)
    return follow(graph, value, context, io, consumer, tokens=tokens, options=options_of_run, finish=same)
