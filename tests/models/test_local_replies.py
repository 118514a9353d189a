"""A function as a model, and the model with predefined replies."""

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
        self.thread = threading.current_thread()
        return shout(request)


class ShoutingLater:
    async def __call__(self, request: ModelRequest) -> str:
        return shout(request)


SHOUTING = Shouting()


@cases(
    ("function", "name"),
    (shout, "shout"),
    (shout_later, "shout_later"),
    (SHOUTING, "Shouting"),
    (ShoutingLater(), "ShoutingLater"),
)
def test_function_replies_in_both_ways(function: Any, name: str) -> None:
    model = FunctionModel(function)
    assert model.complete(HELLO).content == "HELLO"
    assert asyncio.run(model.acomplete(HELLO, timeout=3)).content == "HELLO"
    assert (model.name, model.provider, repr(model)) == (name, "function", f"FunctionModel({name})")
    # A blocking function does not block the loop.
    assert function is not SHOUTING or SHOUTING.thread is not threading.main_thread()


@cases("wrong", None, 3, ["HELLO"])
def test_other_reply_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidReplyError, match=r"<lambda> returned .*; return a string, or a ModelReply"):
        FunctionModel(lambda _: wrong).complete(HELLO)
    with pytest.raises(ZeroDivisionError):
        FunctionModel(lambda _: f"{1 / 0}").complete(HELLO)


def by_name(*, request: ModelRequest) -> str:
    return f"{request}"


def with_default(request: ModelRequest, times: int = 2) -> str:
    return shout(request) * times


ONE = "; write a function of one argument, the request"
NO_FUNCTION = "; give a function from a request to its reply"


# A function, and how the error shows it.
@cases(
    ("function", "fact", "end"),
    (lambda request, history: "", r"<lambda>\(request, history\).*, which cannot be called with a request", ONE),  # pyright: ignore[reportUnknownLambdaType]
    (by_name, r"by_name\(\*, request: .*ChatRequest", ONE),
    (lambda: "", r"the function <lambda>\(\)", ONE),
    (partial(by_name, request=HELLO), r"partial\(\*, request", ONE),
    *((other, "FunctionModel has function=", NO_FUNCTION) for other in (3, "gpt-5", None, Shouting)),
)
def test_only_a_function_of_a_request_is_accepted(function: Any, fact: str, end: str) -> None:
    with pytest.raises(InputError, match=fact) as caught:
        FunctionModel(function)
    assert str(caught.value).endswith(end)
    others: list[Any] = [with_default, partial(with_default, times=1), print, max]
    for fitting in others:
        FunctionModel(fitting)


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


def test_errors_unused_and_missing_replies_are_raised() -> None:
    model = ScriptedModel([ServerError("down"), "up"])
    assert model.instant
    with pytest.raises(ServerError, match="down"):
        model.complete(HELLO)
    assert repr(model) == "<ScriptedModel: 1 of 2 replies left>"
    with pytest.raises(AssertionError, match="has 1 of 2 replies left after 1 requests"):
        model.assert_complete()
    assert model.complete(HELLO).content == "up"
    with pytest.raises(AssertionError, match=r"called 1 times and has 0 replies; add another reply, or pass repeat"):
        ScriptedModel([]).complete(HELLO)


def test_last_reply_can_be_repeated() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [model.complete(HELLO).content for _ in range(4)] == ["one", "two", "two", "two"]
    with pytest.raises(ValueError, match="no reply to repeat"):
        ScriptedModel([], repeat_last=True)


def test_threads_get_each_reply_once() -> None:
    texts = [str(number) for number in range(2000)]
    model = ScriptedModel(texts)
    with ThreadPoolExecutor(4) as threads:
        replies = threads.map(model.complete, [HELLO] * len(texts))
    assert sorted(reply.content for reply in replies) == sorted(texts)
    model.assert_complete()
