"""A function as a model, and the model with predefined replies."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from graphexec.errors import InputError, InvalidReplyError, ServerError
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolCall
from graphexec.models import FunctionModel, ScriptedModel
from tests.models.actors import HELLO
from tests.parameters import cases


def shout(request: ModelRequest) -> str:
    assert isinstance(request, ChatRequest)
    (message,) = request.messages
    return message.content.upper()


async def shout_later(request: ModelRequest) -> ModelReply:
    return ModelReply(shout(request))


class Shouting:
    def __call__(self, request: ModelRequest) -> str:
        return shout(request)


class ShoutingLater:
    async def __call__(self, request: ModelRequest) -> str:
        return shout(request)


@cases("function", [shout, shout_later, Shouting(), ShoutingLater()])
def test_function_replies_in_both_ways(function: Any) -> None:
    model = FunctionModel(function)
    assert model.complete(HELLO).content == "HELLO"
    assert asyncio.run(model.acomplete(HELLO, timeout=3)).content == "HELLO"


def test_blocking_function_does_not_block_the_loop() -> None:
    threads: list[threading.Thread] = []

    def remember(request: ModelRequest) -> str:
        threads.append(threading.current_thread())
        return ""

    asyncio.run(FunctionModel(remember).acomplete(HELLO))
    assert threads != [threading.main_thread()]


def test_model_has_the_name_of_its_function() -> None:
    assert (FunctionModel(shout).name, FunctionModel(shout).provider) == ("shout", "function")
    assert repr(FunctionModel(Shouting())) == "FunctionModel(Shouting)"


@cases("wrong", [None, 3, ["HELLO"]])
def test_other_reply_is_refused(wrong: Any) -> None:
    def reply(request: ModelRequest) -> Any:
        return wrong

    with pytest.raises(InvalidReplyError, match=r"reply returned .*; return a string, or a ModelReply"):
        FunctionModel(reply).complete(HELLO)


def test_exception_of_the_function_is_raised() -> None:
    def fail(request: ModelRequest) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        FunctionModel(fail).complete(HELLO)


@cases("wrong", [3, "gpt-5", None, Shouting])
def test_other_values_are_no_functions(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"FunctionModel has function=.*; give a function from a request to its reply"):
        FunctionModel(wrong)


def by_name(*, request: ModelRequest) -> str:
    return f"{request}"


def with_default(request: ModelRequest, times: int = 2) -> str:
    return shout(request) * times


# A function, and how the error shows it.
MISFITS: list[tuple[Any, str]] = [
    (lambda request, history: "", r"<lambda>\(request, history\)"),
    (by_name, r"by_name\(\*, request: 'ModelRequest'\)"),
    (lambda: "", r"<lambda>\(\)"),
    (lambda request, *, key: "", r"<lambda>\(request, \*, key\)"),
    (partial(by_name, request=HELLO), r"partial\(\*, request"),
]
FITTING: list[Any] = [with_default, lambda *requests: "", partial(with_default, times=1), print, max]


@cases(("function", "shown"), MISFITS)
def test_function_with_other_parameters_is_refused(function: Any, shown: str) -> None:
    with pytest.raises(InputError, match=f"the function {shown}.*, which cannot be called with a request") as caught:
        FunctionModel(function)
    assert str(caught.value).endswith("; write a function of one argument, the request")


@cases("function", FITTING)
def test_function_that_takes_a_request_is_accepted(function: Any) -> None:
    assert repr(FunctionModel(function)).startswith("FunctionModel(")


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
    with pytest.raises(AssertionError, match=r"called 1 times and has 0 replies; add another reply, or pass repeat"):
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
    with ThreadPoolExecutor(4) as threads:
        replies = threads.map(model.complete, [HELLO] * len(texts))
    assert sorted(reply.content for reply in replies) == sorted(texts)
    model.assert_complete()


def test_model_is_instant() -> None:
    assert ScriptedModel.instant
