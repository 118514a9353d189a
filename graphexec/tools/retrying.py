"""Calling a tool again that failed, in sync and in async runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec.effects import ToolResult
from graphexec.reporting import report
from graphexec.tools.retry import LONGEST_WAIT, Retry, ToolRetried
from graphexec.waiting import sleep_while_waited_for

if TYPE_CHECKING:
    from tenacity import RetryCallState


@final
@dataclass(frozen=True, slots=True)
class Raised:
    """What came of an attempt that raised."""

    error: BaseException


Came: TypeAlias = ToolResult | Raised


def retried(name: str, retry: Retry, attempt: Callable[[], Came]) -> Came:
    """Return what came of the last attempt. Raises `Abandoned` when nobody waits for it any more."""
    from tenacity import Retrying

    # tenacity's parameters are of many types.
    rules: Any = _rules(name, retry)
    return Retrying(sleep=sleep_while_waited_for, **rules)(attempt)


async def aretried(name: str, retry: Retry, attempt: Callable[[], Awaitable[Came]]) -> Came:
    """Return what came of the last attempt, on the running event loop; a cancellation ends it."""
    from asyncio import CancelledError, current_task, sleep

    from tenacity import AsyncRetrying

    task = current_task()
    assert task is not None, "a tool is called from a task"
    cancelled = task.cancelling()

    async def asleep(seconds: float) -> None:
        if task.cancelling() > cancelled:
            # The tool raised something else where it was cancelled.
            raise CancelledError
        await sleep(seconds)

    rules: Any = _rules(name, retry)
    return await AsyncRetrying(sleep=asleep, **rules)(attempt)


def _rules(name: str, retry: Retry) -> dict[str, Any]:
    from tenacity import retry_if_result, stop_after_attempt, wait_exponential

    def announce(state: RetryCallState) -> None:
        error = _came(state).error
        assert isinstance(error, Exception), "only such classes are called again after"
        report(ToolRetried(name, error, state.attempt_number, state.upcoming_sleep))

    return {
        "retry": retry_if_result(lambda came: isinstance(came, Raised) and isinstance(came.error, retry.on)),
        "stop": stop_after_attempt(retry.times + 1),
        "wait": wait_exponential(multiplier=retry.wait, max=max(retry.wait, LONGEST_WAIT)),
        "before_sleep": announce,
        "retry_error_callback": _came,
    }


def _came(state: RetryCallState) -> Raised:
    """What the last attempt raised: tenacity asks only after one that did."""
    assert state.outcome is not None, "there was an attempt"
    came = state.outcome.result()
    assert isinstance(came, Raised), "only what raised is called again"
    return came
