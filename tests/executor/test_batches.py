"""Batches: the order of results, invalid inputs, the progress, and failures."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, create_tool_calling_agent, errors, models
from tests.executor.actors import answer
from tests.executor.test_progress import shout
from tests.parameters import cases, examples
from tests.semantics.endings import raising


def in_threads(many: Any, agent: Any = shout, **given: Any) -> list[Any]:
    return AgentExecutor(agent=agent, tools=[]).batch(many, **given)


def on_the_loop(many: Any, agent: Any = shout, **given: Any) -> list[Any]:
    return asyncio.run(AgentExecutor(agent=agent, tools=[]).abatch(many, **given))


both = cases("batch", [in_threads, on_the_loop])
Batch = Callable[..., list[Any]]


def show(results: list[Any]) -> list[Any]:
    return [repr(one) if isinstance(one, Exception) else one for one in results]


def expected(texts: Iterable[str]) -> list[Any]:
    return [
        repr(LookupError(text)) if text.startswith("bad") else {"input": text, "output": text.upper()} for text in texts
    ]


@both
@settings(max_examples=examples(15), deadline=None)
@given(many=st.lists(st.sampled_from(["a", "b", "bad"]), max_size=8), width=st.none() | st.integers(1, 9))
def test_results_and_exceptions_keep_the_order_of_inputs(batch: Batch, many: list[str], width: int | None) -> None:
    texts = [f"{one}{number}" for number, one in enumerate(many)]
    found = batch(texts, max_concurrency=width, return_exceptions=True)
    assert show(found) == expected(texts)


# Any collection of inputs is accepted.
@both
@cases(
    ("many", "texts", "options"),
    [
        ([f"q{number}" for number in range(100)], [f"q{number}" for number in range(100)], {}),
        ([], "", {}),
        ([{"input": "a"}, "b"], "ab", {"max_concurrency": 1}),
        ({"first": "a", "second": "b"}.values(), "ab", {}),
        (["a", "bad", "b"], ["a", "bad", "b"], {"return_exceptions": True}),
    ],
)
def test_a_batch_returns_its_results_in_order(
    batch: Batch, many: Any, texts: Iterable[str], options: dict[str, Any]
) -> None:
    assert show(batch(many, **options)) == expected(texts)


@both
def test_missing_input_is_the_exception_of_its_run(batch: Batch) -> None:
    agent = create_tool_calling_agent(models.ScriptedModel([]), [])
    assert [type(one) for one in batch([{}], agent, return_exceptions=True)] == [errors.InputError]


@both
@cases("width", [1, 3])
def test_batch_runs_as_many_as_allowed(batch: Batch, width: int) -> None:
    barrier, lock = threading.Barrier(width), threading.Lock()
    inside = most = 0

    def meeting(steps: Any, inputs: Any) -> AgentFinish:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        barrier.wait(20)
        with lock:
            inside -= 1
        return answer()

    batch(["q"] * 6, meeting, max_concurrency=width)
    assert most == width


def test_interrupt_ends_a_batch_despite_return_exceptions() -> None:
    with pytest.raises(KeyboardInterrupt):
        in_threads(["a", "b"], raising(KeyboardInterrupt()), return_exceptions=True)


ONE = "batch takes several inputs; pass a list of them, or use invoke for one"
LIST = "batch was given {}; pass a list of inputs"
WIDTH = "max_concurrency is {}; give {} or more, or None for 64"
WHOLE = "a whole number, 1"
LETTERS = (one for one in ["a"])


@both
@cases(
    ("many", "width", "message"),
    [
        ("text", None, ONE),
        ({"input": "a"}, None, ONE),
        *((many, None, LIST.format(repr(many))) for many in (None, 3, LETTERS)),
        # Also without inputs.
        *(([], width, WIDTH.format(width, "1")) for width in (0, -1)),
        *(([], width, WIDTH.format(repr(width), WHOLE)) for width in (2.5, "3", True)),
    ],
)
def test_invalid_batch_is_refused(batch: Batch, many: Any, width: Any, message: str) -> None:
    with pytest.raises(errors.InputError, match=re.escape(message)):
        batch(many, max_concurrency=width)


# A batch without inputs shows nothing, sync or async.
@both
@cases(("many", "output"), [(["a", "b", "c"], "3/3"), ([], ""), (["a", "bad", "c"], "3/3")])
def test_progress_counts_ended_runs(
    batch: Batch, many: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = batch(many, return_exceptions=True, progress=True)
    assert show(found) == expected(many)
    out, err = capsys.readouterr()
    assert out == ""
    assert output in err


@both
@cases("progress", [False, True])
def test_exception_ends_the_batch(batch: Batch, progress: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError, match="bad"):
        batch(["a", "bad", "c"], progress=progress)
    assert ("/3" in capsys.readouterr().err) == progress


together = threading.Barrier(3)


def fail_together(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
    together.wait(20)
    raise LookupError(inputs["input"])


async def fail_later(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
    await asyncio.sleep(0)
    raise LookupError(inputs["input"])


@cases("agent", [fail_together, fail_later])
def test_exceptions_of_a_batch_are_all_retrieved(agent: Any) -> None:
    """asyncio reports exceptions that are never retrieved; the batch itself raises only the first one."""
    reports: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        with pytest.raises(LookupError):
            await AgentExecutor(agent=agent, tools=[]).abatch(["a", "b", "c"])
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    gc.collect()
    assert reports == []
