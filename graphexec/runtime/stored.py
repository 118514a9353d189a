"""Runs that a store keeps: what the loop of a run writes and asks for, and how such a run begins and pauses."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, final

from graphexec.errors import AbandonedError, InputError, RunSuspended
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Done, JournalEntry
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.calls import host_call, scope_of
from graphexec.runtime.handlers import Handler, Handlers, RunContext, RunOptions
from graphexec.runtime.io import IO
from graphexec.runtime.loop import RunLoop
from graphexec.runtime.observers import OnEvent
from graphexec.runtime.threads import check_cancelled

R = TypeVar("R")


@final
class RunRefused(BaseException):
    """A nested run cannot go on because of its store, and neither can the runs around it.

    It is no `Exception`, so that tools and nodes between them pass it on. The outermost run raises the `error`.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(f"{error}")


@final
@dataclass(frozen=True, slots=True)
class Opening:
    """A run that a store is to begin or to continue.

    `value` is what it begins with, or the snapshot; `None` for a run that the store has already. `handlers_of` returns
    the handlers of a node. `width` is the number of effects of a batch that run at once. A run nested in a call of a
    stored run has that `parent`.
    """

    graph: Graph[Any, Any]
    value: object
    limits: Limits
    handlers_of: Callable[[str], Handlers]
    run_id: str
    width: int
    # A stream may wait for its consumer, so that each reply is stored at once.
    eager: bool
    migrate: bool
    parent: str = ""


class RunStore(Protocol):
    """A store of runs, such as `SQLiteRuns`."""

    def open(self, opening: Opening) -> RunLog:
        """Begin or continue a run, which belongs to this caller until the log is closed."""
        ...


class RunLog(Protocol):
    """What a run that goes on writes to its store, and what the store knows of it.

    `root` is the id of the run around it, or its own. The journal of the run begins at `start` with the `entries`,
    within `limits`; it goes on from `snapshot`. `charged` is what the nested runs of open calls had charged by then, by
    their ids and by meter. `failure` is why the store could not be written.
    """

    root: str
    start: Snapshot
    limits: Limits
    snapshot: Snapshot
    charged: Mapping[str, Mapping[str, float]]
    failure: Exception | None

    @property
    def store(self) -> RunStore:
        """The store, whose class is its own."""
        ...

    @property
    def entries(self) -> Sequence[JournalEntry]:
        """The journal until now."""
        ...

    def __call__(self, event: Any) -> None:
        """Note an edge that the run takes: it is an observer of these."""
        ...

    async def choose(self, call: CallContext[Any], handlers: Handlers, io: IO) -> Handler | None:
        """Return the handler of a call, which may be an answer from the store; `None` for a call that has to wait."""
        ...

    async def ask(self, calls: Iterable[CallContext[Any]], io: IO) -> None:
        """Store that these calls begin, unless they are answered from the store. Raises `RunLostError`."""
        ...

    async def keep(self, call: CallContext[Any], reply: object, at: float, seconds: float, io: IO) -> object:
        """Store the reply to a call at the second `at`; return it as another process would read it."""
        ...

    def note_error(self, call: CallContext[Any]) -> None:
        """Note that a call of a batch has raised, so that a resume makes it again."""
        ...

    async def done(self, done: Done[Any], io: IO) -> None:
        """Store that the run has ended."""
        ...

    def fail(self, error: BaseException, calls: Sequence[CallContext[Any]], at: float) -> None:
        """Store that an exception ends the run here while these calls are open; it may be continued."""
        ...

    def suspended(self) -> object:
        """Return what the caller of a run gets that waits."""
        ...

    def close(self) -> None:
        """Give the run up, so that others may continue it."""
        ...


# Any: the value and the outcome of the graph.
def follow(
    graph: Graph[Any, Any],
    value: Any,
    run_context: RunContext,
    io: IO,
    consumer: OnEvent | None,
    *,
    tokens: bool,
    options: RunOptions,
    finish: Callable[[Done[Any]], R],
) -> Coroutine[Any, Any, R]:
    """Return the run; one with a store is opened there first. It returns what `finish` makes of its last event."""
    store, outer = options.runs, None
    if options.run_id is not None and (host := options.host or host_call()) is not None:
        # A nested run with an id of its own is stored where the run is that contains it.
        outer = scope_of(host).log
        store = store or (None if outer is None else outer.store)
    if store is None:
        # Not awaited here, to save one coroutine per event.
        return RunLoop(graph, value, run_context, io, consumer, tokens=tokens, options=options, finish=finish).follow()
    return _follow_stored(graph, value, run_context, io, consumer, store, outer, tokens, options, finish)


async def _follow_stored(  # noqa: PLR0913, PLR0917
    graph: Graph[Any, Any],
    value: Any,
    run_context: RunContext,
    io: IO,
    consumer: OnEvent | None,
    store: RunStore,
    outer: RunLog | None,
    tokens: bool,  # noqa: FBT001
    options: RunOptions,
    finish: Callable[[Done[Any]], R],
) -> Any:
    embedded, is_nested = run_context.handlers_of(graph), outer is not None and outer.store is store
    opening = Opening(
        graph,
        value,
        run_context.limits,
        lambda node: embedded.get(node, run_context.handlers),
        options.run_id or (value.run_id if isinstance(value, Snapshot) else "") or os.urandom(8).hex(),
        run_context.at_once,
        consumer is not None,
        options.migrate,
        "" if outer is None or not is_nested else outer.root,
    )
    try:
        log = await _open(io, store, opening)
    except InputError:
        raise
    except Exception as error:
        if is_nested:
            raise RunRefused(error) from error
        raise
    try:
        watched = replace(options, run_id=opening.run_id, observers=(*options.observers, log))
        run = RunLoop(graph, value, run_context, io, consumer, tokens=tokens, options=watched, finish=finish, log=log)
        result = await run.follow()
        await io.call(log.close)
    except RunSuspended:
        if is_nested:
            # The run that contains it waits, too.
            raise
        waiting: Any = await io.call(log.suspended)
        if consumer is not None:
            await consumer(waiting)
        return waiting
    except RunRefused as refused:
        if is_nested:
            raise
        # With the snapshot and the journal of this run.
        refused.error.__dict__.update(refused.__dict__, error=None)
        raise refused.error from None
    except Exception:
        if is_nested and log.failure is not None:
            raise RunRefused(log.failure) from log.failure
        raise
    else:
        return result
    finally:
        log.close()


async def _open(io: IO, store: RunStore, opening: Opening) -> RunLog:
    """Open a run. It is given up again if the caller is cancelled meanwhile, in whichever thread that is seen first."""
    opened: list[RunLog] = []

    def open_run() -> None:
        opened.append(store.open(opening))
        try:
            check_cancelled()
        except AbandonedError:
            give_up()
            raise

    def give_up() -> None:
        with suppress(IndexError):
            opened.pop().close()

    try:
        await io.call(open_run)
    except BaseException:
        give_up()
        raise
    return opened[0]
