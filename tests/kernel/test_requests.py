"""Requests refuse what is not a message, and show how to write it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphexec.actions import NO_STEPS
from graphexec.effects import CallModel
from graphexec.errors import InputError
from graphexec.messages import AssistantMessage, ChatRequest, CompletionRequest, SystemMessage, ToolMessage, UserMessage
from graphexec.messages.turns import Conversation
from tests.parameters import cases

MESSAGES = (SystemMessage("s"), UserMessage("u"), AssistantMessage("a"), ToolMessage("c", "t"))


class Loud(UserMessage):
    """A message of a user's class."""


@cases("messages", [(), [], MESSAGES, list(MESSAGES), [Loud("hi")], [*MESSAGES, Loud("hi")]])
def test_messages_make_a_request(messages: Any) -> None:
    assert ChatRequest(messages).messages is messages


def test_lazy_messages_are_not_read_early() -> None:
    def fail(steps: Any, first: int) -> Any:
        raise AssertionError("no message is read before the request is sent")

    ChatRequest(Conversation(MESSAGES, NO_STEPS, fail))


def lang_chain(kind: str) -> Any:
    return SimpleNamespace(type=kind, content="hi")


@cases(
    ("message", "remedy"),
    [
        ("hi", "write UserMessage('hi')"),
        ({"role": "user", "content": "hi"}, "write UserMessage('hi')"),
        ({"role": "system", "content": "hi"}, "write SystemMessage('hi')"),
        ({"role": "developer", "content": "hi"}, "write SystemMessage('hi')"),
        ({"role": "assistant", "content": "hi"}, "write AssistantMessage('hi')"),
        ({"role": "tool", "content": "hi", "tool_call_id": "c"}, "write ToolMessage(call_id, 'hi')"),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, "write UserMessage('...')"),
        ({"role": ["user"]}, "write UserMessage('...')"),
        (("human", "hi"), "write UserMessage('hi')"),
        (("ai", "hi"), "write AssistantMessage('hi')"),
        (lang_chain("human"), "write UserMessage('hi')"),
        (lang_chain("ai"), "write AssistantMessage('hi')"),
        (SimpleNamespace(content="hi"), "write UserMessage('hi')"),
        (None, "write UserMessage('...')"),
        (3, "write UserMessage('...')"),
    ],
)
def test_message_of_another_form_is_refused(message: Any, remedy: str) -> None:
    for messages in ([*MESSAGES, message], (*MESSAGES, message)):
        with pytest.raises(InputError) as raised:
            ChatRequest(messages)
        assert str(raised.value).startswith("ChatRequest has messages[4]=")
        assert str(raised.value).endswith(f"; {remedy}")


@cases(
    ("messages", "text"),
    [
        ("hi", "ChatRequest has messages='hi'; write ChatRequest([UserMessage('hi')])"),
        (None, "ChatRequest has messages=None; write ChatRequest([UserMessage('...')])"),
        (
            {"role": "system", "content": "hi"},
            "ChatRequest has messages={'role': 'system', 'content': 'hi'}; write ChatRequest([SystemMessage('hi')])",
        ),
    ],
)
def test_single_value_is_not_a_list_of_messages(messages: Any, text: str) -> None:
    with pytest.raises(InputError) as raised:
        ChatRequest(messages)
    assert str(raised.value) == text


def test_single_message_is_put_in_a_list() -> None:
    one: Any = UserMessage("hi")
    with pytest.raises(InputError, match=r"; write ChatRequest\(\[UserMessage\(content='hi'.*\)\]\)$"):
        ChatRequest(one)


@cases("prompt", [None, ["hi"], [UserMessage("hi")]])
def test_prompt_must_be_a_string(prompt: Any) -> None:
    with pytest.raises(InputError, match=r"^CompletionRequest has prompt=.*; give a string, or messages in a ChatReq"):
        CompletionRequest(prompt)


@cases("request_", ["hello", None, [UserMessage("hello")], UserMessage("hello")])
def test_model_is_asked_with_a_request(request_: Any) -> None:
    with pytest.raises(InputError) as raised:
        CallModel(request_)
    assert str(raised.value).startswith("CallModel has request=")
    assert str(raised.value).endswith("; write CallModel(ChatRequest([UserMessage('...')]))")
