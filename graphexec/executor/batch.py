"""Run several inputs concurrently: in threads, or on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, final

from graphexec._arguments import optional, validate, whole
from graphexec.errors import InputError, format_value
from graphexec.kernel.meters import is_whole
from graphexec.runtime.handlers import AT_ONCE, RunOptions
from graphexec.runtime.io import IO

I = TypeVar("I")  # noqa: E741 - the inputs of one run


@final
@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch: the concurrency, the handling of exceptions, and the progress bar."""

    max_concurrency: int | None = None
    return_exceptions: bool = False
    progress: bool = False


async def run_batch(
    invoke: Callable[[I, IO, RunOptions], Coroutine[Any, Any, Any]],
    many: Sequence[I],
    io: IO,
    options: BatchOptions,
    of_each: RunOptions,
) -> list[Any]:
    """Invoke for each of `many`; see `AgentExecutor.batch`. Raises `InputError` for invalid options."""
    width = _validate_concurrency(many, options.max_concurrency)
    with _progress_bar(len(many), shown=options.progress) as done:

        async def one(inputs: I) -> Any:
            try:
                return await invoke(inputs, io, of_each)
            except Exception as error:
                if options.return_exceptions:
                    return error
                raise
            finally:
                done()

        return list(await io.gather([partial(one, inputs) for inputs in many], None, at_once=width))


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


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Generator[Callable[[], object], None, None]:
    if not shown:
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ImportError as error:
        raise InputError(
            "progress=True requires rich, which is not installed; pip install 'graphexec-agents[cli]'"
        ) from error
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda: bar.advance(task)
