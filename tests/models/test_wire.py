"""The bytes of OpenAI's Chat Completions protocol, requests and replies, without a server."""

import json
import re
from functools import partial
from itertools import pairwise
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors, messages
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_reply import ChatStream
from tests.models import recorded
from tests.models.actors import encode, scripted_server, sse
from tests.models.call_modes import stream_blocking
from tests.models.recorded import CALLS, CALLS_REPLY, CHAT, CHAT_REPLY
from tests.parameters import cases

PEER = Endpoint("tiny", "http://127.0.0.1:1/v1")


encode_body = partial(encode, CHAT_COMPLETIONS)


def test_completions_have_their_own_route() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert CHAT_COMPLETIONS.route(request) == "completions"
    assert encode_body(request) == {"model": "tiny", "prompt": "One two", "stop": ["three"]}
    parameters = MappingProxyType({"type": "object", "required": ("a", "b")})
    (tool,) = encode_body(messages.ChatRequest([], (messages.ToolSpec("add", "", parameters),)))["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "required": ["a", "b"]}
    with pytest.raises(errors.BadRequestError, match="set is not JSON"):
        encode_body(messages.ChatRequest([], schema={"enum": {1, 2}}))


@cases(("body", "reply"), (CHAT, CHAT_REPLY), (CALLS, CALLS_REPLY), (recorded.COMPLETION, recorded.COMPLETION_REPLY))
def test_complete_replies_are_read_and_truncated_are_not(body: bytes, reply: messages.ModelReply) -> None:
    assert ChatStream(PEER).decode(body) == reply
    for end in range(len(body)):
        with pytest.raises(errors.InvalidReplyError):
            ChatStream(PEER).decode(body[:end])
    with pytest.raises(errors.ContextOverflowError):
        ChatStream(PEER).decode(recorded.OVERFLOW)


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_any_text_is_sent_without_lone_surrogates(text: str) -> None:
    sent = encode_body(messages.ChatRequest([messages.UserMessage(text)]))["messages"][0]["content"]
    # A pair of them is a character.
    assert sent == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


IDS = st.sampled_from(["call_0", "functions.add:0", "toolu_" + "x" * 60, "", "call_0-1", "a b", "\ud83d"]) | st.text()
NAMES = st.sampled_from(["add", "add<|channel|>commentary", "get weather!", "x" * 99, "<|start|>"])
CALLED = st.lists(st.tuples(IDS, NAMES), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["hi", "", "ok \ud83d"]), CALLED), max_size=4), st.booleans())
def test_any_history_is_accepted(turns: list[tuple[str, list[tuple[str, str]]]], mistral: bool) -> None:
    history: list[messages.Message] = [messages.SystemMessage("a"), messages.UserMessage("b")]
    for content, called in turns:
        calls = tuple(messages.ToolCall(one, name, "{}") for one, name in called)
        results = [messages.ToolMessage(call.id, f"{place}") for place, call in enumerate(calls)]
        history += [messages.AssistantMessage(content, calls), *results, messages.UserMessage("c")]
    history.append(messages.SystemMessage("d"))
    sent = encode_body(messages.ChatRequest(history), provider="mistral_ai" if mistral else "")["messages"]
    assert [one["content"] for one in sent if one["role"] == "system"] == [sent[0]["content"]] == ["a\n\nd"]
    asked = [call for one in sent for call in one.get("tool_calls", ())]
    assert len({call["id"] for call in asked}) == len(asked) == sum(len(called) for _, called in turns)
    pattern = "[a-zA-Z0-9]{9}" if mistral else "[a-zA-Z0-9_-]{1,40}"
    assert all(re.fullmatch(pattern, call["id"]) for call in asked)
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"]) for call in asked)
    # The results of a message's calls follow it in their order.
    assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == [call["id"] for call in asked]
    assert all(one["content"] or "tool_calls" in one for one in sent if one["role"] == "assistant")
    roles = [one["role"] for one in sent]
    assert not mistral or not {("tool", "user"), ("user", "user")} & {*pairwise(roles)}
    json.dumps(sent, ensure_ascii=False).encode()


def test_stream_without_usage_ends_by_done_or_an_error() -> None:
    body = b'data: {"choices":[{"text":"hi","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    asked = messages.CompletionRequest("a")
    assert stream_blocking(scripted_server(sse(body)), asked) == messages.ModelReply("hi")
    body = b'data: {"choices":[{"text":"hi"}]}\n\ndata: {"error":{"code":500,"message":"out of memory"}}\n\n'
    pieces = scripted_server(sse(body)).stream(asked)
    assert next(pieces) == messages.ReplyDelta("hi")
    with pytest.raises(errors.ServerError, match="out of memory"):
        next(pieces)
