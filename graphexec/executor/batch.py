"""Run several inputs concurrently: in threads, or on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphexec._arguments import optional, validate, whole
from graphexec.errors import InputError, format_value
from graphexec.kernel.meters import is_whole
from graphexec.runtime.handlers import AT_ONCE, RunOptions
from graphexec.runtime.io import IO
from graphexec.runtime.observers import Observer

if TYPE_CHECKING:
    from graphexec.executor.progress import Progress

I = TypeVar("I")  # noqa: E741 - the inputs of one run


@final
@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch: the concurrency, the handling of exceptions, and whether progress is shown."""

    max_concurrency: int | None = None
    return_exceptions: bool = False
    progress: bool = False


async def run_batch(
    invoke: Callable[[I, IO, RunOptions, Observer | None], Coroutine[Any, Any, Any]],
    many: Sequence[I],
    io: IO,
    options: BatchOptions,
    of_each: RunOptions,
) -> list[Any]:
    """Invoke for each of `many`; see `AgentExecutor.batch`. Raises `InputError` for invalid options."""
    width = _validate_concurrency(many, options.max_concurrency)
    progress = _make_progress() if options.progress else None

    async def one(inputs: I) -> Any:
        watch = None if progress is None else progress.watch()
        try:
            return await invoke(inputs, io, of_each, watch)
        except BaseException as error:
            # A run with invalid inputs has no events.
            if watch is not None:
                watch.fail(error)
            if options.return_exceptions and isinstance(error, Exception):
                return error
            raise

    with nullcontext() if progress is None else progress.batch(len(many)):
        return list(await io.gather([partial(one, inputs) for inputs in many], None, at_once=width))


def _make_progress() -> Progress:
    # Most programs show no progress.
    from graphexec.executor.progress import Progress

    return Progress()


def _validate_concurrency(many: Sequence[Any], max_concurrency: int | None) -> int:
    # A string is a sequence of strings, and a dict is a collection.
    if isinstance(many, (str, Mapping)):
        raise InputError("batch takes several inputs; pass a list of them, or use invoke for one")
    # Callers without a type checker may pass a generator or None.
    if not isinstance(many, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"batch was given {format_value(many)}; pass a list of inputs, for example batch(list(...))")
    wanted = whole(1, "1 or more" if is_whole(max_concurrency) else "")
    validate("", ("max_concurrency", max_concurrency, optional(wanted, str(AT_ONCE))))
    return max_concurrency or AT_ONCE
