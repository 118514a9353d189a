"""Run several inputs concurrently: in threads, or on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from graphexec._arguments import optional, validate, whole
from graphexec.errors import InputError, format_value
from graphexec.kernel.meters import is_whole
from graphexec.runtime.handlers import AT_ONCE, RunOptions
from graphexec.runtime.io import IO, gather

I = TypeVar("I")  # noqa: E741 - the inputs of one run


async def run_batch(
    invoke: Callable[[I, IO, RunOptions], Coroutine[Any, Any, Any]],
    many: Sequence[I],
    io: IO,
    options: RunOptions,
    max_concurrency: int | None,
    *,
    return_exceptions: bool,
) -> list[Any]:
    """Invoke for each of `many`; see `AgentExecutor.batch`. Raises `InputError` for invalid arguments."""
    width = _validate_concurrency(many, max_concurrency)

    async def run_one(inputs: I) -> Any:
        try:
            return await invoke(inputs, io, options)
        except Exception as error:
            if return_exceptions:
                return error
            raise

    return await gather(io, [partial(run_one, inputs) for inputs in many], at_once=width)


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
