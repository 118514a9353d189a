"""The model with predefined replies."""

from __future__ import annotations

import asyncio
import threading

import pytest

from graphexec.errors import ServerError
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.models.actors import HELLO

CALL = ToolCall("c1", "add", "{}")


def test_replies_come_in_order_blocking_and_async() -> None:
    model = ScriptedModel(["one", ModelReply("two", finish_reason="length"), CALL, [CALL, CALL]])
    assert model.complete(HELLO) == ModelReply("one")
    assert asyncio.run(model.acomplete(HELLO)) == ModelReply("two", finish_reason="length")
    assert model.complete(HELLO) == ModelReply("", (CALL,), finish_reason="tool_calls")
    assert model.complete(HELLO, timeout=1) == ModelReply("", (CALL, CALL), finish_reason="tool_calls")
    model.assert_complete()
    assert model.requests == [HELLO] * 4
    assert all(request is HELLO for request in model.requests)


def test_exception_is_raised() -> None:
    model = ScriptedModel([ServerError("down"), "up"])
    with pytest.raises(ServerError, match="down"):
        model.complete(HELLO)
    assert model.complete(HELLO).content == "up"


def test_missing_reply_error_has_a_remedy() -> None:
    with pytest.raises(
        AssertionError, match=r"called 1 times and has 0 replies; add another reply, or pass repeat_last"
    ):
        ScriptedModel([]).complete(HELLO)


def test_last_reply_can_be_repeated() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [model.complete(HELLO).content for _ in range(4)] == ["one", "two", "two", "two"]
    with pytest.raises(ValueError, match="no reply to repeat"):
        ScriptedModel([], repeat_last=True)


def test_unused_replies_are_an_error() -> None:
    model = ScriptedModel(["one", "two"])
    model.complete(HELLO)
    assert repr(model) == "<ScriptedModel: 1 of 2 replies left>"
    with pytest.raises(AssertionError, match="has 1 of 2 replies left after 1 requests"):
        model.assert_complete()


def test_threads_get_each_reply_once() -> None:
    texts = [str(number) for number in range(2000)]
    model = ScriptedModel(texts)
    got: list[str] = []
    threads = [
        threading.Thread(target=lambda: got.extend(model.complete(HELLO).content for _ in range(500))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(texts)
    model.assert_complete()


def test_model_is_instant() -> None:
    assert ScriptedModel.instant
