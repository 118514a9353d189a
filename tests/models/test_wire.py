"""The bytes of the three protocols, requests and replies, without a server."""

import json
import re
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors, messages
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelReply,
    ReplyDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_reply import ChatStream
from graphexec.models.providers.openai_responses import RESPONSES
from graphexec.models.providers.responses_reply import ResponsesStream
from graphexec.models.providers.schemas import close_schema
from tests.counting import count_calls
from tests.models import recorded
from tests.models.actors import HELLO, encode, scripted_server, sse
from tests.models.call_modes import stream_blocking
from tests.models.recorded import CALLS, CALLS_REPLY, CHAT, CHAT_REPLY
from tests.parameters import cases

PEER = Endpoint("tiny", "http://127.0.0.1:1/v1")

encode_body = partial(encode, CHAT_COMPLETIONS)
claude_body = partial(encode, MESSAGES, model="claude-9", max_tokens=4096)
gpt_body = partial(encode, RESPONSES, model="gpt-9")


def test_completions_have_their_own_route() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert CHAT_COMPLETIONS.route(request, "tiny", False) == "completions"
    assert encode_body(request) == {"model": "tiny", "prompt": "One two", "stop": ["three"]}
    parameters = MappingProxyType({"type": "object", "required": ("a", "b")})
    (tool,) = encode_body(ChatRequest([], (messages.ToolSpec("add", "", parameters),)))["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "required": ["a", "b"]}
    with pytest.raises(errors.BadRequestError, match="set is not JSON"):
        encode_body(ChatRequest([], schema={"enum": {1, 2}}))


@cases(("body", "reply"), (CHAT, CHAT_REPLY), (CALLS, CALLS_REPLY), (recorded.COMPLETION, recorded.COMPLETION_REPLY))
def test_complete_replies_are_read_and_truncated_are_not(body: bytes, reply: ModelReply) -> None:
    assert ChatStream(PEER).decode(body) == reply
    for end in range(len(body)):
        with pytest.raises(errors.InvalidReplyError):
            ChatStream(PEER).decode(body[:end])
    with pytest.raises(errors.ContextOverflowError):
        ChatStream(PEER).decode(recorded.OVERFLOW)


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_any_text_is_sent_without_lone_surrogates(text: str) -> None:
    sent = encode_body(ChatRequest([UserMessage(text)]))["messages"][0]["content"]
    # A pair of them is a character.
    assert sent == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


IDS = st.sampled_from(["call_0", "functions.add:0", "toolu_" + "x" * 60, "", "call_0-1", "a b", "\ud83d"]) | st.text()
NAMES = st.sampled_from(["add", "add<|channel|>commentary", "get weather!", "x" * 99, "<|start|>"])
CALLED = st.lists(st.tuples(IDS, NAMES), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["hi", "", "ok \ud83d"]), CALLED), max_size=4), st.booleans())
def test_any_history_is_accepted(turns: list[tuple[str, list[tuple[str, str]]]], mistral: bool) -> None:
    history: list[Message] = [messages.SystemMessage("a"), UserMessage("b")]
    for content, called in turns:
        calls = tuple(ToolCall(one, name, "{}") for one, name in called)
        results = [ToolMessage(call.id, f"{place}") for place, call in enumerate(calls)]
        history += [AssistantMessage(content, calls), *results, UserMessage("c")]
    history.append(messages.SystemMessage("d"))
    sent = encode_body(ChatRequest(history), provider="mistral_ai" if mistral else "")["messages"]
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
    assert stream_blocking(scripted_server(sse(body)), asked) == ModelReply("hi")
    body = b'data: {"choices":[{"text":"hi"}]}\n\ndata: {"error":{"code":500,"message":"out of memory"}}\n\n'
    pieces = scripted_server(sse(body)).stream(asked)
    assert next(pieces) == ReplyDelta("hi")
    with pytest.raises(errors.ServerError, match="out of memory"):
        next(pieces)


def turns(*listed: Message) -> Any:
    return claude_body(ChatRequest(listed))["messages"]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def test_completion_is_a_user_message_elsewhere() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert claude_body(request)["messages"] == [{"role": "user", "content": [text("One two")]}]
    assert claude_body(request)["stop_sequences"] == ["three"]
    assert gpt_body(request) == {"model": "gpt-9", "store": False, "input": [{"role": "user", "content": "One two"}]}


@cases(
    ("listed", "contents"),
    ([AssistantMessage(" \n"), UserMessage("\t"), UserMessage("there")], [[text("hi"), text("there")]]),
    ([AssistantMessage("I say \n")], [[text("hi")], [text("I say")]]),
)
def test_blank_texts_are_removed(listed: list[Message], contents: list[object]) -> None:
    assert [turn["content"] for turn in turns(UserMessage("hi"), *listed)] == contents
    assert "system" not in claude_body(ChatRequest([messages.SystemMessage(" "), UserMessage("hi")]))


@cases(
    ("request", "facts"),
    *(
        (messages.CompletionRequest("a", stop=("ok", stop)), [f"cannot stop at {stop!r}", "use a stop string with"])
        for stop in ("\n", " ", "", "\t\n")
    ),
    (ChatRequest([messages.SystemMessage("be brief"), UserMessage(" ")]), ["add a user message with text"]),
    (ChatRequest(HELLO.messages, (messages.ToolSpec("a", "", {"enum": {1, 2}}),)), ["set is not JSON"]),
)
def test_invalid_request_is_rejected_for_anthropic(request: messages.ModelRequest, facts: list[str]) -> None:
    with pytest.raises(errors.BadRequestError) as caught:
        claude_body(request)
    for fact in facts:
        assert fact in str(caught.value)


# The arguments of a call, and what is sent back of them in each protocol.
ARGUMENTS: list[tuple[str, dict[str, int]]] = [
    *((invalid, {}) for invalid in ["{", "", "17", "[1]", '{"a": NaN}', "{'a': 'it's'}"]),
    *((readable, {"a": 1}) for readable in ["{'a': 1}", '{"a": 1,}']),
]


@cases(("arguments", "sent"), *ARGUMENTS)
def test_only_readable_arguments_are_sent_back(arguments: str, sent: dict[str, int]) -> None:
    message = AssistantMessage("", (ToolCall("c1", "add", arguments),))
    function = encode_body(ChatRequest([message]))["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == turns(message)[0]["content"][0]["input"] == sent


def test_events_behind_the_end_are_ignored() -> None:
    draft = MESSAGES.draft(PEER)
    ending = [{"type": "message_delta", "delta": {"stop_reason": reason}} for reason in ("end_turn", "max_tokens")]
    for event in (ending[0], {"type": "message_stop"}, ending[1]):
        list(draft.take(json.dumps(event)))
    assert draft.reply().finish_reason == "stop"


def test_schema_is_closed_and_unsupported_keywords_are_described() -> None:
    age = {"type": "integer", "minimum": 0, "description": "In years."}
    described = {"type": "integer", "description": "In years.\n\n{minimum: 0}"}
    closed = {"additionalProperties": False}
    schema = {
        "$defs": {"Person": {"type": "object", "properties": {"age": age}, "additionalProperties": True}},
        "oneOf": [{"$ref": "#/$defs/Person", "description": "the one"}, {"type": "array", "items": {"type": "object"}}],
    }
    items: dict[str, Any] = {"type": "object", "properties": {}, **closed}
    assert close_schema(schema) == {
        "$defs": {"Person": {"type": "object", "properties": {"age": described}} | closed},
        "anyOf": [{"$ref": "#/$defs/Person"}, {"type": "array", "items": items}],
    }


def test_schema_with_free_keys_is_not_sent() -> None:
    """Closed, an object of any keys would admit only `{}`."""

    def has_format(schema: dict[str, Any]) -> bool:
        return "output_config" in claude_body(ChatRequest(HELLO.messages, schema=schema), stream=False)

    numbers: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}
    matching: dict[str, Any] = {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False}
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}}
    free: list[dict[str, Any]] = [numbers, matching, {"type": "object"}, {**numbers, "additionalProperties": True}]
    free += [{**closed, name: {"a": one}} for one in free for name in ("properties", "$defs")]
    assert not any(map(has_format, free))
    assert not has_format({"anyOf": [closed, {**numbers, "properties": {}}]})
    assert all(has_format(one) for one in (closed, {**closed, "additionalProperties": True}, {"anyOf": [closed]}))
    assert has_format({"type": "object", "additionalProperties": False})


KEYWORDS = ["properties", "anyOf", "items", "format", "minItems", "type"]
INNER_KEYWORDS = st.sampled_from([*KEYWORDS, "$defs", "oneOf", "required", "$ref", "x"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(INNER_KEYWORDS, inner, max_size=4),
)


@given(st.dictionaries(st.sampled_from([*KEYWORDS, "allOf"]), ANY))
def test_closing_a_schema_is_idempotent(schema: dict[str, Any]) -> None:
    assert close_schema(close_schema(schema)) == close_schema(schema)


def decode_stream(*events: dict[str, Any], stop: tuple[str, ...] = ()) -> tuple[list[ReplyDelta], ModelReply]:
    fold = ResponsesStream(PEER, stop)
    deltas = [delta for event in events for delta in fold.take(json.dumps(event))]
    return deltas, fold.reply()


def say(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def call(index: int | None, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", **item}}


def end(status: str = "completed", kind: str | None = None, **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind or status}", "response": {"status": status, **response}}


def whole(*output: dict[str, Any], status: str = "completed", stop: tuple[str, ...] = (), **rest: Any) -> ModelReply:
    return ResponsesStream(PEER, stop).decode(json.dumps({"output": output, "status": status, **rest}).encode())


def message(*texts: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}


@cases("indexed", True, False)
def test_many_items_take_linear_work(indexed: bool) -> None:
    def read(number: int) -> int:
        places = [place if indexed else None for place in range(number)]
        begun = [call(place, id=f"i{at}", name="add") for at, place in enumerate(places)]
        done = [
            {**one, "type": "response.output_item.done", "item": {**one["item"], "arguments": "{}"}} for one in begun
        ]
        output = [{"type": "function_call", "call_id": f"c{at}", "name": "add"} for at in reversed(range(number))]
        events = [*(one for pair in zip(begun, done, strict=True) for one in pair), end(output=output)]
        return count_calls(lambda: decode_stream(*events))

    assert read(400) < 2.2 * read(200)


def test_text_is_cut_before_a_stop_string_or_emitted_once() -> None:
    held = decode_stream(say("\nObs"), end(output=[message("\nObs")]), stop=("\nObservation",))
    assert (held[1].content, held[0]) == ("\nObs", [ReplyDelta("\nObs")])
    item = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    output = [message("Thought: so\nObs", "ervation: 4"), item]
    usage = {"input_tokens": 5, "output_tokens": 9}
    reply = whole(*output, stop=("\nObservation",), usage=usage, status="incomplete")
    assert reply == ModelReply("Thought: so", (), messages.Usage(5, 9), "stop")
    events = [say("Thought:"), say(" so\nObs"), say("ervation: 4"), call(1, **item), end(output=output, usage=usage)]
    deltas, streamed = decode_stream(*events, stop=("\nObservation",))
    assert streamed == reply
    assert deltas == [ReplyDelta("Thought:"), ReplyDelta(" so")]


@given(st.text("ab\n", max_size=10), st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=2).map(tuple))
def test_streamed_and_whole_texts_are_cut_equally(text: str, stops: tuple[str, ...]) -> None:
    output = [message(text)]
    deltas, streamed = decode_stream(*(say(letter) for letter in text), end(output=output), stop=stops)
    assert streamed == whole(*output, stop=stops)
    assert "".join(delta.content for delta in deltas) == streamed.content
