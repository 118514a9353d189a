"""The bytes of OpenAI's Chat Completions protocol, requests and replies, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import messages
from graphexec.errors import BadRequestError, ContextOverflowError, InvalidReplyError, ModelError
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.openai_compatible import encode, route
from graphexec.models.providers.openai_reply import ChatStream, decode
from tests.models.actors import HELLO, aread_stream, asse, read_stream, scripted_server, sse
from tests.models.recorded import (
    CALLS,
    CALLS_REPLY,
    CALLS_STREAM,
    CHAT,
    CHAT_REPLY,
    COMPLETION,
    COMPLETION_REPLY,
    OVERFLOW,
    STREAM,
)
from tests.parameters import cases

PEER = Endpoint("tiny", "http://127.0.0.1:1/v1")
ADD = messages.ToolSpec("add", "Add two numbers.", MappingProxyType({"type": "object", "required": ("a", "b")}))


# Any: a request's JSON.
def encode_body(request: messages.ChatRequest | messages.CompletionRequest, *, stream: bool = False) -> Any:
    return json.loads(write(encode(request, Sampling("tiny"), stream=stream)))


def decode_stream(*chunks: object) -> messages.ModelReply:
    fold = ChatStream(PEER)
    for chunk in chunks:
        list(fold.take(json.dumps(chunk)))
    list(fold.take("[DONE]"))
    return fold.reply()


def test_messages_are_encoded_for_openai() -> None:
    request = messages.ChatRequest(
        [
            messages.SystemMessage("be brief"),
            messages.UserMessage("1 + 1?"),
            messages.AssistantMessage("", (messages.ToolCall("c1", "add", '{"a": 1, "b": 1}'),)),
            messages.ToolMessage("c1", "2"),
            messages.AssistantMessage("2"),
        ]
    )
    function = {"name": "add", "arguments": '{"a": 1, "b": 1}'}
    assert encode_body(request) == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "1 + 1?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
            {"role": "assistant", "content": "2"},
        ],
    }


def test_only_set_options_are_sent() -> None:
    bare = encode_body(HELLO)
    assert set(bare) == {"model", "messages"}
    full = encode_body(messages.ChatRequest(HELLO.messages, (ADD,), ("\nObservation",), {"type": "object"}))
    parameters = {"type": "object", "required": ["a", "b"]}
    assert full["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": parameters}}
    ]
    assert full["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": {"type": "object"}},
    }
    assert full["stop"] == ["\nObservation"]


def test_completions_have_their_own_route() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert route(request) == "completions"
    assert encode_body(request) == {"model": "tiny", "prompt": "One two", "stop": ["three"]}


def test_stream_requests_the_usage() -> None:
    body = encode_body(HELLO, stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@cases("arguments", ["{", "", "17", "[1]", '{"a": NaN}', "{'a': 'it's'}"])
def test_invalid_arguments_are_not_sent_back(arguments: str) -> None:
    message = messages.AssistantMessage("", (messages.ToolCall("c1", "add", arguments),))
    assert encode_body(messages.ChatRequest([message]))["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"


@cases("arguments", ["{'a': 1}", '{"a": 1,}'])
def test_readable_arguments_are_sent_back_as_json(arguments: str) -> None:
    message = messages.AssistantMessage("", (messages.ToolCall("c1", "add", arguments),))
    function = encode_body(messages.ChatRequest([message]))["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"a": 1}


def test_schema_must_be_json() -> None:
    with pytest.raises(BadRequestError, match="set is not JSON"):
        encode_body(messages.ChatRequest([], schema={"enum": {1, 2}}))


def failure(call: Callable[[], object]) -> ModelError | None:
    """Return the model error that a call raises, or `None`. Any other exception fails the test."""
    try:
        call()
    except ModelError as error:
        return error
    return None


def is_readable(error: ModelError | None) -> bool:
    return error is None or (str(error).isprintable() and len(str(error)) < 1000)


@given(st.text(st.characters()))
def test_any_text_is_sent_unchanged(text: str) -> None:
    assert encode_body(messages.ChatRequest([messages.UserMessage(text)]))["messages"][0]["content"] == text


@cases(
    ("body", "chat", "reply"),
    [(CHAT, True, CHAT_REPLY), (CALLS, True, CALLS_REPLY), (COMPLETION, False, COMPLETION_REPLY)],
)
def test_complete_replies_are_read_and_truncated_are_not(body: bytes, chat: bool, reply: messages.ModelReply) -> None:
    assert decode(body, PEER, chat=chat) == reply
    for end in range(len(body)):
        with pytest.raises(InvalidReplyError):
            decode(body[:end], PEER, chat=chat)


@pytest.mark.medium
@cases(("body", "reply"), [(STREAM, CHAT_REPLY), (CALLS_STREAM, CALLS_REPLY)])
def test_stream_is_a_reply_only_when_complete(body: bytes, reply: messages.ModelReply) -> None:
    complete = False
    for end in range(len(body) + 1):
        try:
            got = read_stream(scripted_server(sse(body[:end])).stream(HELLO))
        except InvalidReplyError:
            assert not complete
        else:
            assert got == reply
            complete = True
    assert complete


@given(st.lists(st.integers(0, len(CALLS_STREAM))))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(CALLS_STREAM)]
    pieces = [CALLS_STREAM[begin:end] for begin, end in pairwise(ends)]
    assert read_stream(scripted_server(sse(pieces)).stream(HELLO)) == CALLS_REPLY
    streamed = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=asse(pieces))
    assert asyncio.run(aread_stream(scripted_server(streamed))) == CALLS_REPLY


@cases("newline", [b"\n", b"\r\n", b"\r"])
def test_any_chunking_and_line_ending_works(newline: bytes) -> None:
    body = STREAM.replace(b"\n", newline)
    assert read_stream(scripted_server(sse([body[i : i + 1] for i in range(len(body))])).stream(HELLO)) == CHAT_REPLY


@given(st.binary(max_size=200), st.sampled_from([200, 201, 204, 301, 400, 401, 404, 429, 500, 503]))
def test_any_response_is_reply_or_model_error(body: bytes, status: int) -> None:
    # Some errors are retried, so the response is repeated.
    model = scripted_server(*(httpx.Response(status, content=body) for _ in range(3)))
    assert is_readable(failure(lambda: model.complete(HELLO)))


@given(st.integers(0, len(CALLS_STREAM) - 1), st.binary(min_size=1, max_size=3))
def test_damaged_stream_is_reply_or_model_error(position: int, damage: bytes) -> None:
    body = CALLS_STREAM[:position] + damage + CALLS_STREAM[position + 1 :]
    assert is_readable(failure(lambda: read_stream(scripted_server(sse(body)).stream(HELLO))))


KEYS = ["error", "message", "code", "choices", "tool_calls", "function", "usage", "detail", "n_ctx", "n_prompt_tokens"]
SCALARS = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner)))
def test_any_json_is_reply_or_model_error(body: object) -> None:
    assert is_readable(failure(lambda: scripted_server(httpx.Response(200, json=body)).complete(HELLO)))
    assert is_readable(failure(lambda: scripted_server(httpx.Response(400, json=body)).complete(HELLO)))


@cases(
    ("body", "fault"),
    [
        (b"", "nothing"),
        (b"<html>\n<h1>Hello</h1>", "<html> <h1>Hello</h1>"),
        (b'{"choices": []}', "without choices"),
        (b'{"choices": null}', "without choices"),
        (b'{"choices": [{}]}', "without a message"),
        (b'{"choices": [{"message": {"content": 5}}]}', "choices.0.message.content"),
        (b'{"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]}', "without a name"),
        (b'{"choices": [{"message": {"content": "\\ud800"}}]}', "Invalid JSON"),
        (b'{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": -1}}', "usage.prompt_tokens"),
        (b'{"error": {"code": 500, "message": "it\\nbroke"}}', "it broke"),
        (b'{"error": "no"}', "no"),
    ],
)
def test_invalid_reply_error_has_the_reason(body: bytes, fault: str) -> None:
    with pytest.raises(InvalidReplyError) as caught:
        decode(body, PEER, chat=True)
    assert fault in str(caught.value)
    assert str(caught.value).startswith("tiny at http://127.0.0.1:1/v1 ")


def test_optional_members_have_defaults() -> None:
    assert decode(b'{"choices": [{"message": {"content": null}}]}', PEER, chat=True) == messages.ModelReply(
        "", (), messages.Usage(), "other"
    )
    refused = b'{"choices": [{"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"}]}'
    assert decode(refused, PEER, chat=True).content == "I cannot"
    nameless = b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]}}]}'
    assert decode(nameless, PEER, chat=True).tool_calls == (messages.ToolCall("call_0", "add", '{"a": 1}'),)


def test_truncated_arguments_are_unchanged() -> None:
    body = CALLS.replace(b'"{\\"a\\": 17, \\"b\\": 25}"', b'"{"').replace(b'"tool_calls","index"', b'"length","index"')
    reply = decode(body, PEER, chat=True)
    assert reply.tool_calls[0].arguments == "{"
    assert reply.finish_reason == "length"


# Any: a chunk's JSON.
def call_chunk(**call: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


END: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


@cases("indexes", [(0, 1), (0, 0), (None, None), (3, 7)])
def test_streamed_calls_are_distinguished(indexes: tuple[int | None, int | None]) -> None:
    first, second = indexes
    reply = decode_stream(
        call_chunk(index=first, id="a", function={"name": "add", "arguments": "{"}),
        call_chunk(index=first, function={"arguments": "}"}),
        call_chunk(index=second, id="b", function={"name": "sub", "arguments": ""}),
        call_chunk(index=second, id="b", function={"arguments": "{}"}),
        END,
    )
    assert reply.tool_calls == (messages.ToolCall("a", "add", "{}"), messages.ToolCall("b", "sub", "{}"))


def test_deltas_of_a_call_have_its_position() -> None:
    deltas = [
        piece for piece in scripted_server(sse(CALLS_STREAM)).stream(HELLO) if isinstance(piece, messages.ReplyDelta)
    ]
    assert deltas[0] == messages.ReplyDelta(index=0, call_id="yO5m", name="add", arguments="{")
    assert "".join(delta.arguments for delta in deltas) == CALLS_REPLY.tool_calls[0].arguments


def test_done_completes_a_stream_without_usage() -> None:
    body = b'data: {"choices":[{"text":"hi","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    assert read_stream(scripted_server(sse(body)).stream(messages.CompletionRequest("a"))) == messages.ModelReply("hi")


def test_error_in_a_stream_is_an_invalid_reply() -> None:
    body = b'data: {"choices":[{"text":"hi"}]}\n\ndata: {"error":{"code":500,"message":"out of memory"}}\n\n'
    pieces = scripted_server(sse(body)).stream(messages.CompletionRequest("a"))
    assert next(pieces) == messages.ReplyDelta("hi")
    with pytest.raises(InvalidReplyError, match="out of memory"):
        next(pieces)


def test_overflow_with_status_200_is_an_overflow() -> None:
    with pytest.raises(ContextOverflowError):
        decode(OVERFLOW, PEER, chat=True)


def test_server_without_streaming_sends_the_whole_reply() -> None:
    assert list(scripted_server(httpx.Response(200, content=CHAT)).stream(HELLO)) == [CHAT_REPLY]
    assert asyncio.run(aread_stream(scripted_server(httpx.Response(200, content=CHAT)))) == CHAT_REPLY
