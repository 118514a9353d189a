"""Several runs at once: in threads, or on the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from graphexec.drive import AT_ONCE
from graphexec.errors import InputError
from graphexec.given import check, is_whole, maybe, told, whole
from graphexec.waiting import wait_for_all

I = TypeVar("I")  # noqa: E741 - the inputs of one run


def in_threads(
    invoke: Callable[[I], Any],
    many: Sequence[I],
    *,
    max_concurrency: int | None,
    return_exceptions: bool,
    progress: bool,
) -> list[Any]:
    """Invoke for each of `many`, at most `max_concurrency` at a time; return the results in their order.

    The first exception is raised, or with `return_exceptions` each stands in the place of its result. Raises
    `InputError` for what is no sequence of inputs, and for no concurrency.
    """
    width = _width(many, max_concurrency)
    with _counting(len(many), shown=progress) as done:

        def one(inputs: I) -> Any:
            try:
                return invoke(inputs)
            except Exception as error:
                if return_exceptions:
                    return error
                raise
            finally:
                done()

        return list(wait_for_all([partial(one, inputs) for inputs in many], None, at_once=width))


async def on_the_loop(
    invoke: Callable[[I], Awaitable[Any]],
    many: Sequence[I],
    *,
    max_concurrency: int | None,
    return_exceptions: bool,
    progress: bool,
) -> list[Any]:
    """Invoke for each of `many` like `in_threads`, on the running event loop."""
    # Before a coroutine is made that nobody would await.
    width = _width(many, max_concurrency)
    if not many:
        return []
    from graphexec.awaiting import await_all

    with _counting(len(many), shown=progress) as done:

        async def one(inputs: I) -> Any:
            try:
                return await invoke(inputs)
            except Exception as error:
                if return_exceptions:
                    return error
                raise
            finally:
                done()

        return list(await await_all([one(inputs) for inputs in many], None, at_once=width))


def _width(many: Sequence[Any], max_concurrency: int | None) -> int:
    # A text is a sequence of texts, and a dict looks like one.
    if isinstance(many, (str, Mapping)):
        raise InputError("batch takes several inputs; pass a list of them, or use invoke for one")
    # Users without a type checker pass generators, and None.
    if not isinstance(many, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"batch was given {told(many)}; pass a list of inputs: batch(list(...)), say")
    wanted = whole(1, "1 or more" if is_whole(max_concurrency) else "")
    check("", ("max_concurrency", max_concurrency, maybe(wanted, str(AT_ONCE))))
    return max_concurrency or AT_ONCE


@contextmanager
def _counting(total: int, *, shown: bool) -> Generator[Callable[[], object], None, None]:
    """Count the runs that are done, in a progress bar on stderr if it is to be shown."""
    if not shown:
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ImportError as error:
        raise InputError(
            "progress=True draws a bar with rich, which is not there; pip install 'graphexec-agents[cli]'"
        ) from error
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda: bar.advance(task)
