"""Retries of tools: their number, the retried errors, the waits and the reports."""

import asyncio
import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, runtime, tool
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import AbandonedError, ToolDefinitionError
from graphexec.runtime.threads import wait_for
from graphexec.testing import loop_time, run_virtually
from graphexec.tools import ToolRetried
from graphexec.tools.calling import make_tool_handler
from graphexec.tools.options import LONGEST_WAIT, ToolRaisedError
from tests import garbage
from tests.executor import actors
from tests.parameters import cases
from tests.runtime.actors import listening
from tests.tools.actors import HOW as RUNS
from tests.tools.actors import KIND, call_tool

How = Callable[[actors.AnyTool], ToolResult]

CALL = CallTool("flaky", {})


def flaky(*errors: BaseException, kind: str = "def", **settings: Any) -> tuple[actors.AnyTool, list[int]]:
    """Make a tool that first raises these and then returns the number of the call; also return its calls."""
    left = list(errors)
    calls: list[int] = []

    def blocking() -> int:
        """Answer in the end."""
        calls.append(len(calls) + 1)
        if left:
            raise left.pop(0)
        return len(calls)

    async def awaiting() -> int:
        """Answer in the end."""
        await asyncio.sleep(0)
        return blocking()

    return tool(name="flaky", **settings)(blocking if kind == "def" else awaiting), calls


def is_down(error: Exception) -> bool:
    return str(error) == "down"


def is_up(error: Exception) -> bool:
    return not is_down(error)


async def call_async(one: actors.AnyTool) -> ToolResult:
    result: ToolResult = await make_tool_handler({one.name: one}).answer(CALL, actors.call_of(CALL), runtime.ASYNC)
    return result


def call_in_virtual_time(one: actors.AnyTool) -> ToolResult:
    return run_virtually(call_async(one))


HOW = cases("how", call_tool, call_in_virtual_time)


@pytest.mark.medium
@KIND
@cases("timeout", None, 20)
def test_success_after_retries_is_the_result(kind: str, timeout: float | None) -> None:
    errors = OSError("a"), ValueError("b")

    def make() -> AgentExecutor:
        one, _ = flaky(*errors, kind=kind, timeout=timeout, retries=2)
        return actors.make_executor(actors.act("flaky"), actors.answer(), tools=[one])

    result = actors.run_executor(make)
    assert actors.observations(result) == [3]
    # The limit of tool calls counts the calls that the model requested.
    assert result.spent["tool_calls"] == 1


@given(
    st.integers(0, 4),
    st.integers(0, 6),
    st.sampled_from(["def", "async def"]),
    st.sampled_from([call_tool, call_async]),
)
def test_retries_stop_at_success_or_the_limit(retries: int, failures: int, kind: str, how: Any) -> None:
    errors = [OSError(str(number)) for number in range(failures)]
    # By default, there are none.
    one, calls = flaky(*errors, kind=kind, **({"retries": retries} if retries else {}))
    assert (one.retry is None) == (retries == 0)
    reports: list[Any] = []
    with listening(reports.append):
        result = how(one) if how is call_tool else asyncio.run(how(one))
    assert calls == list(range(1, min(retries, failures) + 2))
    assert [(one.tool, str(one.error), one.attempt) for one in reports] == [
        ("flaky", str(number), number + 1) for number in range(min(retries, failures))
    ]
    if failures <= retries:
        assert result == ToolResult(failures + 1)
    else:
        assert result == ToolResult(f"flaky failed: OSError: {retries}", "error", error="OSError")


@cases(
    ("report", "text"),
    (ToolRetried("flaky", OSError("down"), 1, 2.5), "attempt 1 of flaky failed with OSError: down; .* in 2.5 s"),
    (ToolRetried("flaky", OSError(), 2), "attempt 2 of flaky failed with OSError; the next one follows in 0.0 s"),
)
def test_retry_progress_is_readable(report: ToolRetried, text: str) -> None:
    assert re.fullmatch(text, str(report))


@cases(
    ("options", "waits"),
    ({"retry_wait": 8}, [8, 16, 32, *[LONGEST_WAIT] * 4]),
    ({"retry_wait": 100}, [100, 100]),
    ({"retry_wait": 2, "retry_factor": 10, "retry_longest_wait": 150}, [2, 20, 150, 150]),
    ({"retry_wait": 8, "retry_longest_wait": 3}, [3, 3]),
    ({"retry_wait": 90}, [90, 90]),
    ({"retry_wait": 2, "retry_factor": 1}, [2, 2, 2]),
)
def test_waits_grow_up_to_a_minute_or_the_first(options: dict[str, Any], waits: list[float]) -> None:
    one, calls = flaky(*[OSError()] * len(waits), kind="async def", retries=len(waits), **options)
    reports: list[Any] = []

    async def call() -> float:
        await call_async(one)
        return loop_time()

    with listening(reports.append):
        assert run_virtually(call()) == sum(waits)
    assert [one.wait for one in reports] == waits
    assert len(calls) == len(waits) + 1


@HOW
@KIND
@cases(
    ("error", "settings", "calls_made"),
    *((ConnectionError("down"), {"retry_on": on}, 2) for on in (OSError, (KeyError, OSError))),
    (ConnectionError("down"), {"retry_on": KeyError}, 1),
    *((ConnectionError("down"), {"retry_on": on}, made) for on, made in ((is_down, 2), (is_up, 1))),
    # A timeout of the tool's own.
    (TimeoutError("the server's"), {"retry_on": TimeoutError, "timeout": 20}, 2),
    (asyncio.CancelledError("odd"), {}, 1),
)
def test_only_selected_errors_are_retried(
    how: How, kind: str, error: BaseException, settings: dict[str, Any], calls_made: int
) -> None:
    one, calls = flaky(error, kind=kind, retries=3, **settings)
    result = how(one)
    assert calls == [1, 2][:calls_made]
    assert (result.status, result.observation == 2) == (("ok", True) if calls_made == 2 else ("error", False))


@RUNS
@KIND
@cases("error", KeyboardInterrupt(), SystemExit(3))
def test_interrupt_is_not_retried(run: actors.Running, kind: str, error: BaseException) -> None:
    one, calls = flaky(error, kind=kind, retries=3)
    with pytest.raises(type(error)):
        run(actors.make_executor(actors.act("flaky"), actors.answer(), tools=[one]))
    assert calls == [1]


@HOW
@cases("policy", "raise", "in the end: {}".format)
def test_on_error_is_called_after_the_last_attempt(how: How, policy: Any) -> None:
    errors = [OSError("a"), OSError("b")]
    one, calls = flaky(*errors, retries=1, on_error=policy)
    if policy == "raise":
        with pytest.raises(OSError, match="b") as raised:
            how(one)
        assert raised.value is errors[1]
    else:
        assert how(one) == ToolResult("in the end: b", "error", error="OSError")
    assert calls == [1, 2]


def test_timeout_ends_the_attempts() -> None:
    calls: list[float] = []

    @tool(timeout=10, retries=5, retry_on=(OSError, TimeoutError))
    async def flaky() -> str:
        """Fail after eight seconds, then hang."""
        calls.append(loop_time())
        await asyncio.sleep(8 if len(calls) < 3 else 1000)
        raise OSError("slow")

    assert call_in_virtual_time(flaky).status == "timed_out"
    assert calls == [0, 8, 16]


def test_invalid_arguments_are_not_retried() -> None:
    one, calls = flaky(retries=3)
    assert call_tool(one, {"x": 1}).status == "bad_arguments"
    assert calls == []


def test_wait_ends_when_the_call_is_abandoned() -> None:
    one, calls = flaky(OSError(), retries=1, retry_wait=3600)
    ended, raised = threading.Event(), list[BaseException]()

    def call() -> None:
        try:
            call_tool(one)
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    wait_for(call, 0.05)
    assert ended.wait(20)
    assert [type(error) for error in raised] == [AbandonedError]
    assert calls == [1]


def test_earlier_cancellation_does_not_prevent_retries() -> None:
    one, calls = flaky(OSError(), kind="async def", retries=1)

    async def cleaning_up() -> ToolResult:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return await call_async(one)
        raise AssertionError

    async def main() -> ToolResult:
        task = asyncio.create_task(cleaning_up())
        await asyncio.sleep(1)
        task.cancel()
        return await task

    assert run_virtually(main()) == ToolResult(2)
    assert calls == [1, 2]


# Only modes in which no thread of ours can still be ending.
@cases(("how", "kind"), (call_tool, "def"), (call_in_virtual_time, "async def"))
@cases("failures", 1, 3)
def test_error_of_a_tool_is_garbage_collected(how: How, kind: str, failures: int) -> None:
    """The error is freed without the garbage collector, so there are no reference cycles."""

    class Odd(OSError):
        """An error that supports weak references, which built-in errors do not."""

    errors: list[BaseException] = [Odd() for _ in range(failures)]
    kept = [weakref.ref(error) for error in errors]
    one, _ = flaky(*errors, kind=kind, retries=2)
    errors.clear()
    garbage.collect()
    gc.disable()
    try:
        how(one)
        assert [error() for error in kept] == [None] * failures
    finally:
        gc.enable()


@cases(
    ("settings", "says"),
    ({"retries": -1}, "retries=-1; give a whole number, 0 for none"),
    ({"retries": 1.5}, "retries=1.5; give a whole number"),
    ({"retries": "2"}, "retries='2'; give a whole number"),
    ({"retries": 1, "retry_on": "OSError"}, "retry_on='OSError'; give a class of Exception"),
    ({"retries": 1, "retry_on": (OSError, KeyboardInterrupt)}, "retry_on=.*KeyboardInterrupt'>\\); give a class"),
    *(
        ({"retries": 1, "retry_wait": wait}, f"retry_wait={wait!r}; give seconds, 0 or more")
        for wait in (-1, float("nan"), float("inf"), "1")
    ),
    ({"retries": 1, "retry_factor": 11}, "retry_factor=11; give a number from 1"),
    ({"retries": 1, "retry_jitter": -0.1}, "retry_jitter=-0.1; give a number from 0 to 1"),
    *(
        (alone, f"{next(iter(alone))} without retries; pass retries=2, say")
        for alone in ({"retry_wait": 1}, {"retry_on": OSError})
    ),
)
def test_invalid_retries_are_rejected_with_the_remedy(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"flaky has {says}"):
        flaky(**settings)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 100), st.floats(1, 10), st.integers(1, 2_000))
def test_jitter_takes_at_most_its_share(
    jitter: float, chance: float, first: float, factor: float, attempt: int
) -> None:
    one, _ = flaky(retries=3_000, retry_wait=first, retry_factor=factor, retry_jitter=jitter)
    steady, _ = flaky(retries=3_000, retry_wait=first, retry_factor=factor)
    assert one.retry is not None
    assert steady.retry is not None
    error = ToolRaisedError(OSError())
    wait, whole = (each.wait_after(error, attempt, chance=chance) for each in (one.retry, steady.retry))
    assert wait is not None
    assert whole is not None
    assert whole * (1 - jitter) <= wait <= whole <= max(first, LONGEST_WAIT)


def test_options_are_added_to_a_tool() -> None:
    one, calls = flaky(OSError("a"), OSError("b"))
    patient = one.with_options(retries=1, on_error="{} again".format)
    assert (call_tool(patient).observation, calls) == ("b again", [1, 2])
    assert (one.retry, patient.with_options(timeout=5).retry, patient.spec) == (None, patient.retry, one.spec)
    with pytest.raises(ToolDefinitionError, match="flaky has retries=-1"):
        one.with_options(retries=-1)
