"""Batches: the order of results, invalid inputs, the progress, and failures."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish
from graphexec.errors import InputError
from tests.executor.actors import answer
from tests.parameters import cases


def upper(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
    text = str(inputs["input"])
    if text.startswith("bad"):
        raise LookupError(text)
    return answer(text.upper())


def executor() -> AgentExecutor:
    return AgentExecutor(agent=upper, tools=[])


def in_threads(many: Any, **given: Any) -> list[Any]:
    return executor().batch(many, **given)


def on_the_loop(many: Any, **given: Any) -> list[Any]:
    return asyncio.run(executor().abatch(many, **given))


both = cases("batch", [in_threads, on_the_loop])
Batch = Callable[..., list[Any]]


def show(one: Any) -> str:
    return repr(one) if isinstance(one, Exception) else str(one["output"])


@both
@settings(max_examples=15, deadline=None)
@given(many=st.lists(st.sampled_from(["a", "b", "bad"]), max_size=8), width=st.none() | st.integers(1, 9))
def test_results_and_exceptions_keep_the_order_of_inputs(batch: Batch, many: list[str], width: int | None) -> None:
    texts = [f"{one}{number}" for number, one in enumerate(many)]
    found = batch(texts, max_concurrency=width, return_exceptions=True)
    assert [*map(show, found)] == [repr(LookupError(one)) if one.startswith("bad") else one.upper() for one in texts]


@both
@cases("many", ["text", {"input": "a"}])
def test_invalid_list_of_inputs_is_refused(batch: Batch, many: Any) -> None:
    with pytest.raises(InputError, match="batch takes several inputs; pass a list of them, or use invoke for one"):
        batch(many)
    nothing: list[Any] = [None, 3, (one for one in ["a"])]
    for wrong in nothing:
        with pytest.raises(InputError, match=f"batch was given {re.escape(repr(wrong))}; pass a list of inputs"):
            batch(wrong)


@both
def test_any_collection_of_inputs_is_accepted(batch: Batch) -> None:
    assert [*map(show, batch({"first": "a", "second": "b"}.values()))] == ["A", "B"]


@both
@cases(
    ("width", "wanted"),
    [(0, "1"), (-1, "1"), (2.5, "a whole number, 1"), ("3", "a whole number, 1"), (True, "a whole number, 1")],
)
def test_zero_concurrency_is_refused_even_without_inputs(batch: Batch, width: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=f"max_concurrency is {width!r}; give {wanted} or more, or None for 64"):
        batch([], max_concurrency=width)


@both
@cases("many", [["a", "b", "c"], []])
def test_progress_counts_finished_runs(batch: Batch, many: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = batch(many, progress=True)
    assert [one["output"] for one in found] == [one.upper() for one in many]
    out, err = capsys.readouterr()
    assert out == ""
    # A batch without inputs shows nothing, sync or async.
    assert f"{len(many)}/{len(many)}" in err or not many


@both
def test_progress_counts_failed_runs(batch: Batch, capsys: pytest.CaptureFixture[str]) -> None:
    batch(["a", "bad", "c"], return_exceptions=True, progress=True)
    assert "3/3" in capsys.readouterr().err


@both
def test_exception_ends_the_progress(batch: Batch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError, match="bad"):
        batch(["a", "bad", "c"], progress=True)
    assert "/3" in capsys.readouterr().err


def test_exceptions_of_a_batch_are_all_retrieved() -> None:
    """asyncio reports exceptions that are never retrieved; the batch itself raises only the first one."""
    reports: list[dict[str, Any]] = []
    together = threading.Barrier(3)

    def failing(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        together.wait(20)
        raise LookupError(inputs["input"])

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        with pytest.raises(LookupError):
            await AgentExecutor(agent=failing, tools=[]).abatch(["a", "b", "c"])

    asyncio.run(scenario())
    import gc

    gc.collect()
    assert reports == []


def test_async_batch_fails_without_threads() -> None:
    reports: list[dict[str, Any]] = []

    async def failing(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        await asyncio.sleep(0)
        raise LookupError(inputs["input"])

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        with pytest.raises(LookupError, match="a"):
            await AgentExecutor(agent=failing, tools=[]).abatch(["a", "b", "c"])
        import gc

        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert reports == []
