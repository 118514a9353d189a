"""Requests refuse what is not a message, and show how to write it."""

from __future__ import annotations

import dataclasses
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from graphexec import actions, effects, errors
from graphexec.messages import AssistantMessage, ChatRequest, CompletionRequest, SystemMessage, ToolMessage, UserMessage
from graphexec.messages.turns import Conversation
from tests.kernel.machines import error_message
from tests.parameters import cases

MESSAGES = (SystemMessage("s"), UserMessage("u"), AssistantMessage("a"), ToolMessage("c", "t"))


class Loud(UserMessage):
    """A message of a user's class."""


@cases(
    "kind", actions.AgentAction, actions.AgentStep, actions.Run, effects.CallModel, effects.CallTool, effects.ToolResult
)
def test_value_that_fills_its_slots_is_made_as_any_dataclass(kind: Any) -> None:
    fields = dataclasses.fields(kind)
    given = [inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default for one in fields]
    parameters = inspect.signature(kind).parameters.values()
    assert [(one.name, one.default) for one in parameters] == [
        (one.name, default) for one, default in zip(fields, given, strict=True)
    ]
    assert all(one.annotation is not inspect.Parameter.empty for one in parameters)
    assert (kind.__init__.__qualname__, kind.__init__.__module__) == (f"{kind.__name__}.__init__", kind.__module__)


@cases("messages", (), [], MESSAGES, list(MESSAGES), [Loud("hi")], [*MESSAGES, Loud("hi")])
def test_messages_make_a_request(messages: Any) -> None:
    assert ChatRequest(messages).messages is messages


def test_lazy_messages_are_not_read_early() -> None:
    def fail(steps: Any, first: int) -> Any:
        raise AssertionError("no message is read before the request is sent")

    ChatRequest(Conversation(MESSAGES, actions.NO_STEPS, fail))


@cases(
    "message",
    "hi",
    {"role": "assistant", "content": "hi"},
    {"role": ["user"]},
    ("human", "hi"),
    SimpleNamespace(type="ai", content="hi"),
    None,
    3,
)
def test_message_of_another_form_is_refused(message: Any) -> None:
    for messages in ([*MESSAGES, message], (*MESSAGES, message)):
        with pytest.raises(errors.InputError) as raised:
            ChatRequest(messages)
        assert str(raised.value).startswith("ChatRequest has messages[4]=")
        assert "; write UserMessage('...'), or another of graphexec.messages" in str(raised.value)


SYSTEM = {"role": "system", "content": "hi"}


@cases(
    ("request_", "given", "start", "remedy"),
    (ChatRequest, "hi", "ChatRequest has messages='hi'", "; write ChatRequest([UserMessage('...')])"),
    (ChatRequest, None, "ChatRequest has messages=None", "; write ChatRequest([UserMessage('...')])"),
    (ChatRequest, SYSTEM, f"ChatRequest has messages={SYSTEM}", "; write ChatRequest([UserMessage('...')])"),
    (ChatRequest, UserMessage("hi"), "ChatRequest has", "; write ChatRequest([UserMessage(content='hi'"),
    *(
        (CompletionRequest, prompt, "CompletionRequest has prompt=", "; give a string, or messages in a ChatReq")
        for prompt in (None, ["hi"], [UserMessage("hi")])
    ),
    *(
        (effects.CallModel, given, "CallModel has request=", "; write CallModel(ChatRequest([UserMessage('...')]))")
        for given in ("hello", None, [UserMessage("hello")], UserMessage("hello"))
    ),
)
def test_invalid_request_is_refused(request_: Any, given: object, start: str, remedy: str) -> None:
    message = error_message(errors.InputError, request_, given)
    assert message.startswith(start)
    assert remedy in message
