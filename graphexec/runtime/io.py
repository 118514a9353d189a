"""Blocking and async waiting behind one interface, so that each coroutine is written once.

A sync run passes `BLOCKING`, whose methods never suspend, and steps the coroutine itself (`run_sync`, `iterate_sync`).
An async run passes `ASYNC` and awaits the coroutine. Only this module, `threads` and `tasks` differ between the two.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypeAlias, TypeVar, final

from graphexec.runtime.calls import adopt
from graphexec.runtime.retry import RetryPolicy
from graphexec.runtime.threads import (
    NotDone,
    ThreadGroup,
    check_cancelled,
    sleep_unless_cancelled,
    wait_for,
)

P = ParamSpec("P")
T = TypeVar("T")

Call: TypeAlias = Callable[[], Coroutine[Any, Any, T]]

if TYPE_CHECKING:
    from graphexec.runtime.tasks import CallTaskGroup

    # Runs several calls at once, each with a position; their results and reports are taken one by one as they come.
    CallGroup: TypeAlias = ThreadGroup[Call[T], T] | CallTaskGroup[T]


@final
class _BlockingItems(Generic[T]):
    """Items that are iterated in the caller's thread.

    This is not an async generator, because an event loop that runs in this thread would close that with its own ones.
    """

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._items = iter(iterable)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:
            # Otherwise an error of the iterator would look like its end. PEP 479 does the same for generators.
            raise RuntimeError("a sync iterator raised StopAsyncIteration") from error

    async def aclose(self) -> None:
        # A model's `stream` may return any iterable; a generator can be closed.
        close: Callable[[], object] | None = getattr(self._iterable, "close", None)
        if close is not None:
            close()


# An async iterator that can be closed before its end.
Items: TypeAlias = _BlockingItems[T] | AsyncGenerator[T, None]


class IO:
    """Waits for a coroutine: `BLOCKING` in the caller's thread, `ASYNC` on the running event loop.

    The methods of this class, which are those of `BLOCKING`, never suspend, so one step runs a coroutine to its end.
    """

    __slots__ = ()
    # True in a sync run, in which waiting blocks the caller's thread; false in an async one.
    blocking: ClassVar[bool] = True

    def now(self) -> float:
        """Return the time of the clock that it waits by, in seconds."""
        return time.monotonic()

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:
        """Return what `blocking()` returns in a sync run, or `await awaiting()` in an async one."""
        del awaiting
        return blocking()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may block: in the caller's thread, or in a separate thread in an async run."""
        return function(*args, **kwargs)

    async def call_async(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await what `function` returns: on the running event loop, or on a separate loop in a sync run."""
        # Importing asyncio takes half of the import time, and a sync run may never need it.
        from graphexec.runtime.tasks import run_on_own_loop

        return run_on_own_loop(partial(function, *args, **kwargs))

    def iterate(self, blocking: Callable[[], Iterable[T]], awaiting: Callable[[], AsyncIterable[T]]) -> Items[T]:
        """Iterate over `blocking()` in a sync run, over `awaiting()` in an async one; closing this closes it."""
        del awaiting
        return _BlockingItems(blocking())

    async def sleep(self, seconds: float) -> None:
        """Sleep. Raises `AbandonedError`, or is cancelled, when the caller is cancelled."""
        sleep_unless_cancelled(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise `TimeoutError` after `seconds` in the block; in a sync run nothing interrupts it."""
        del seconds
        return nullcontext()

    def make_check(self) -> Callable[[], None]:
        """Return a function that raises `AbandonedError` or `CancelledError` if the caller has been cancelled."""
        return check_cancelled

    async def within(self, call: Call[T], seconds: float) -> T | NotDone:
        """Return the result of `call()`, or `NOT_DONE` after `seconds`: then the call is abandoned."""
        return wait_for(partial(_run, call), seconds)

    def call_group(self) -> CallGroup[Any]:
        """Return a group of concurrent calls; the end of `async with` abandons the unfinished ones."""
        return ThreadGroup(_run)

    async def checkpoint(self) -> None:
        """Let other tasks of the event loop run. Raises `AbandonedError` in a thread if its caller is cancelled."""
        check_cancelled()


@final
class _AsyncIO(IO):
    """Waits on the running event loop; blocking functions run in threads."""

    __slots__ = ()
    blocking = False

    def now(self) -> float:
        import asyncio

        return asyncio.get_running_loop().time()

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:
        del blocking
        return await awaiting()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        # Importing asyncio takes half of the import time, and a sync run never needs it; the same below.
        from graphexec.runtime.tasks import call_in_thread

        return await call_in_thread(partial(function, *args, **kwargs))

    async def call_async(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return await function(*args, **kwargs)

    def iterate(self, blocking: Callable[[], Iterable[T]], awaiting: Callable[[], AsyncIterable[T]]) -> Items[T]:
        del blocking
        # Any: a model's `astream` may return any async iterable. The consumer closes it if it can be closed.
        items: Any = awaiting()
        return items if hasattr(items, "aclose") else _async_items(items)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        import asyncio

        return asyncio.timeout(seconds)

    def make_check(self) -> Callable[[], None]:
        from graphexec.runtime.tasks import make_check

        return make_check()

    async def within(self, call: Call[T], seconds: float) -> T | NotDone:
        from graphexec.runtime.tasks import await_for

        return await await_for(call, seconds)

    def call_group(self) -> CallGroup[Any]:
        from graphexec.runtime.tasks import CallTaskGroup, require_event_loop

        require_event_loop()
        group: CallTaskGroup[Any] = CallTaskGroup()
        return group

    async def checkpoint(self) -> None:
        import asyncio

        await asyncio.sleep(0)


BLOCKING = IO()
ASYNC = _AsyncIO()


async def gather(io: IO, calls: Sequence[Call[T]], *, at_once: int) -> list[T]:
    """Return the results of the calls in their order, at most `at_once` running at a time.

    The first exception is raised, and the other calls are abandoned.
    """
    results: dict[int, T] = {}
    waiting, running = deque(enumerate(calls)), 0
    async with io.call_group() as group:
        # Not a condition of the loop: Python 3.12 and 3.13 would miss the end of the block at an interrupt there.
        while True:
            if waiting and running < at_once:
                group.start(*waiting.popleft())
                running += 1
                continue
            if not running:
                break
            update = await group.take(None)
            if update is not None and update[1] is not None:
                results[update[0]] = update[1]()
                running -= 1
    return [results[position] for position in range(len(calls))]


async def retry(
    attempt: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    io: IO,
    *,
    announce: Callable[[Exception, int, float], None],
    sleep: Callable[[float], Awaitable[None]] | None = None,
    allows: Callable[[float], bool] = lambda _: True,
) -> T:
    """Return the result of the first attempt that succeeds, or raise the last attempt's exception.

    `announce` is called before each wait with the error, the number of the attempt and the seconds. `sleep` defaults to
    `io.sleep`. `allows` returns whether another attempt may follow after a wait of so many seconds. If the caller has
    been cancelled there is no retry: raises `AbandonedError` or `CancelledError`, even if the attempt suppressed the
    cancellation.
    """
    check = io.make_check()
    number = 1
    while True:
        try:
            return await attempt()
        except Exception as error:
            # Imported here because most runs do not need it. Jitter needs no secure randomness.
            import random

            wait = policy.wait_after(error, number, chance=random.random())  # noqa: S311
            if wait is None or not allows(wait):
                raise
            announce(error, number, wait)
        # Outside the except block, or the next error would have this one as its context.
        check()
        await (sleep or io.sleep)(wait)
        number += 1


async def call_method(io: IO, owner: object, name: str, *args: object, **options: object) -> Any:
    """Call a method of a user's object: in an async run its async form, `acomplete` of `complete`, or else a thread."""
    method = getattr(owner, name if io.blocking else f"a{name}", None)
    if method is None:
        return await io.call(getattr(owner, name), *args, **options)
    return method(*args, **options) if io.blocking else await method(*args, **options)


def run_sync(coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> T:
    """Return the result of a coroutine that waits through `BLOCKING`. Raises `RuntimeError` if it suspends.

    It runs in a copy of the context variables, as a task does, so that an interrupt leaves no changes behind.
    """
    try:
        (copy_context() if context is None else context).run(coroutine.send, None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a sync call awaited an event loop; use its async form, such as arun")


def iterate_sync(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of an async generator that never suspends; closing this closes it."""
    # Hide it from an event loop that runs in this thread, which would close it with its own generators.
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        following = anext(items)
    finally:
        sys.set_asyncgen_hooks(*hooks)
    try:
        while True:
            try:
                item = run_sync(_await(following))
            except StopAsyncIteration:
                return
            yield item
            following = anext(items)
    finally:
        run_sync(_await(items.aclose()))


def _run(call: Call[T]) -> T:
    """Run a call in its thread; what it sets is set there."""
    context = copy_context()
    try:
        return run_sync(call(), context)
    finally:
        adopt(context)


async def _async_items(items: AsyncIterable[T]) -> AsyncGenerator[T, None]:
    async for item in items:
        yield item


# `anext` of an async generator is an awaitable, but `run_sync` needs a coroutine.
async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable
