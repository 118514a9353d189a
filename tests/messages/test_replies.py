"""Replies of users' models are checked."""

from types import SimpleNamespace
from typing import Any

import pytest

import graphexec.messages as gm
from graphexec import errors
from graphexec.messages.conversation import transcript
from graphexec.messages.model import check_access, check_reply, request_parameters, require_reply
from tests.models.pictures import PNG
from tests.parameters import cases

CALL = gm.ToolCall("c1", "look", "{}")
IMAGE = gm.Image.from_bytes(PNG)


def usage(**counts: Any) -> gm.ModelReply:
    return gm.ModelReply("a", usage=gm.Usage(**{"prompt_tokens": 1, "completion_tokens": 2, **counts}))


def with_part(**parts: Any) -> gm.ModelReply:
    given: dict[str, Any] = {"content": "a", **parts}
    return gm.ModelReply(**given)


WRONG_CALLS: list[Any] = [None, (1,), ({"name": "f"},), "calls", [CALL], ("look",)]


# Any: wrong on purpose.
@cases(
    ("reply", "facts"),
    ("text", ["'text'", "ModelReply"]),
    *((with_part(content=wrong), [f"content={wrong!r}", "pass a string"]) for wrong in (None, 3, b"a")),
    *((with_part(tool_calls=wrong), ["tool_calls=", "ToolCall(id, name, arguments)"]) for wrong in WRONG_CALLS),
    *((with_part(usage=wrong), ["usage=", "pass Usage"]) for wrong in (None, 3, (1, 2), {"prompt_tokens": 1})),
    *((usage(**{name: -1}), [f"{name}=-1", "0 or more"]) for name in ("prompt_tokens", "completion_tokens")),
    *((usage(cached_tokens=wrong), [f"cached_tokens={wrong!r}"]) for wrong in (-1, 1.5, True, "3")),
    *((gm.ModelReply("a", cost=wrong), [f"cost={wrong!r}", "or None"]) for wrong in (-0.1, float("nan"), True)),
)
def test_invalid_reply_is_refused(reply: Any, facts: list[str]) -> None:
    with pytest.raises(errors.InvalidReplyError) as caught:
        require_reply(reply, "mine")
    assert [fact for fact in ("the model mine", *facts) if fact not in str(caught.value)] == []


@cases("reply", gm.ModelReply("a"), gm.ModelReply("", (CALL,)), gm.ModelReply("a", cost=0.5), usage(cached_tokens=1))
def test_valid_reply_is_returned(reply: gm.ModelReply) -> None:
    assert check_reply(reply, "mine") is reply
    assert reply.message == gm.AssistantMessage(reply.content, reply.tool_calls)


@cases(
    ("message", "line"),
    (gm.SystemMessage("Be brief."), "System: Be brief."),
    (gm.UserMessage("Hi"), "Me: Hi"),
    (gm.UserMessage("", images=(IMAGE,)), f"Me: {IMAGE.label(1)}"),
    (gm.UserMessage(f"See {IMAGE.label(1)}", images=(IMAGE,)), f"Me: See {IMAGE.label(1)}"),
    (gm.AssistantMessage("Wait."), "It: Wait."),
    (gm.AssistantMessage("", (CALL,)), "It: look({})"),
    (gm.AssistantMessage("Wait.", (CALL,)), "It: Wait.\nlook({})"),
    (gm.ToolMessage("c1", "seen", images=(IMAGE,)), f"Tool: seen\n{IMAGE.label(1)}"),
)
def test_transcript_has_a_line_for_each_message(message: Any, line: str) -> None:
    assert transcript([message, gm.UserMessage("x")], human="Me", ai="It") == f"{line}\nMe: x"


def test_parameters_and_access_are_optional() -> None:
    called: list[str] = []
    model = SimpleNamespace(parameters={"temperature": 0}, check_access=lambda: called.append("asked"))
    assert (request_parameters(model), request_parameters(SimpleNamespace(parameters=3))) == ({"temperature": 0}, None)
    check_access(model)
    check_access(object())
    assert called == ["asked"]
