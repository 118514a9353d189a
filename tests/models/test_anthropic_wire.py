"""The bytes of Anthropic's protocol, requests and replies, without a server."""

import json
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors, messages
from graphexec.messages import AssistantMessage, ChatRequest, Message, ModelReply, ToolCall, ToolMessage, UserMessage
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.anthropic import ANTHROPIC, encode, headers, route
from graphexec.models.providers.anthropic_reply import AnthropicStream
from graphexec.models.providers.histories import HistoryForm, distinct_calls
from graphexec.models.providers.schemas import close_schema
from tests.models.actors import HELLO
from tests.models.test_wire import encode_body as encode_for_openai
from tests.parameters import cases

PEER = Endpoint("claude-9", "https://api.example", provider=ANTHROPIC)
ADD = messages.ToolSpec("add", "Add two numbers.", MappingProxyType({"type": "object", "required": ("a", "b")}))


def encode_body(request: messages.ModelRequest, *, stream: bool = False) -> Any:
    return json.loads(write(encode(request, Sampling("claude-9", max_tokens=4096), stream=stream)))


def turns(*listed: Message) -> Any:
    return encode_body(ChatRequest(listed))["messages"]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def decode_stream(*events: dict[str, Any]) -> ModelReply:
    fold = AnthropicStream(PEER)
    for event in events:
        list(fold.take(json.dumps(event)))
    return fold.reply()


def ending(reason: str, **delta: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {"output_tokens": 1}}


def call_start(index: int, **call: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "a", "name": "add", **call}
    return {"type": "content_block_start", "index": index, "content_block": block}


def input_delta(index: int, arguments: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def test_messages_are_encoded_for_anthropic() -> None:
    calls = (ToolCall("c1", "add", '{"a": 1, "b": 1}'), ToolCall("c2", "now", "{}"))
    results = (ToolMessage("c1", "2"), ToolMessage("c2", " \n"))
    systems = (messages.SystemMessage("be brief"), messages.SystemMessage("answer now"))
    request = ChatRequest([systems[0], UserMessage("1 + 1?"), AssistantMessage("Adding.", calls), *results, systems[1]])
    add = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 1}}
    now: dict[str, Any] = {"type": "tool_use", "id": "c2", "name": "now", "input": {}}
    parts = [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}, {"type": "tool_result", "tool_use_id": "c2"}]
    assert encode_body(request) == {
        "model": "claude-9",
        "max_tokens": 4096,
        "system": "be brief\n\nanswer now",
        "messages": [
            {"role": "user", "content": [text("1 + 1?")]},
            {"role": "assistant", "content": [text("Adding."), add, now]},
            {"role": "user", "content": parts},
        ],
    }
    # The results precede the user's text.
    *_, last = turns(AssistantMessage("", calls), results[0], UserMessage("go"), results[1])
    assert [block["type"] for block in last["content"]] == ["tool_result", "tool_result", "text"]


def test_only_set_options_are_sent() -> None:
    assert set(encode_body(HELLO)) == {"model", "max_tokens", "messages"}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    full = encode_body(ChatRequest(HELLO.messages, (ADD,), ("\nObservation",), schema), stream=True)
    parameters = {"type": "object", "required": ["a", "b"]}
    closed = {**schema, "additionalProperties": False}
    assert full["tools"] == [{"name": "add", "description": "Add two numbers.", "input_schema": parameters}]
    assert "tool_choice" not in full
    assert full["output_config"] == {"format": {"type": "json_schema", "schema": closed}}
    assert (full["stop_sequences"], full["stream"]) == (["\nObservation"], True)
    forbidden = encode_body(ChatRequest(HELLO.messages, (ADD,), tool_choice="none"))
    assert (forbidden["tool_choice"], forbidden["tools"]) == ({"type": "none"}, full["tools"])


def test_completion_is_a_user_message() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert [headers(""), headers("sk")] == [version, version | {"x-api-key": "sk"}]
    request = messages.CompletionRequest("One two", stop=("three",))
    assert route(request) == route(HELLO) == "v1/messages"
    assert encode_body(request)["messages"] == [{"role": "user", "content": [text("One two")]}]
    assert encode_body(request)["stop_sequences"] == ["three"]


@cases(
    ("listed", "contents"),
    ([AssistantMessage(" \n"), UserMessage("\t"), UserMessage("there")], [[text("hi"), text("there")]]),
    ([AssistantMessage("I say \n")], [[text("hi")], [text("I say")]]),
)
def test_blank_texts_are_removed(listed: list[Message], contents: list[object]) -> None:
    assert [turn["content"] for turn in turns(UserMessage("hi"), *listed)] == contents
    assert "system" not in encode_body(ChatRequest([messages.SystemMessage(" "), UserMessage("hi")]))


@cases(
    ("request", "facts"),
    *(
        (messages.CompletionRequest("a", stop=("ok", stop)), [f"cannot stop at {stop!r}", "use a stop string with"])
        for stop in ("\n", " ", "", "\t\n")
    ),
    (ChatRequest([messages.SystemMessage("be brief"), UserMessage(" ")]), ["add a user message with text"]),
    (ChatRequest(HELLO.messages, (messages.ToolSpec("a", "", {"enum": {1, 2}}),)), ["set is not JSON"]),
)
def test_invalid_request_is_rejected(request: messages.ModelRequest, facts: list[str]) -> None:
    with pytest.raises(errors.BadRequestError) as caught:
        encode_body(request)
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
    function = encode_for_openai(ChatRequest([message]))["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == turns(message)[0]["content"][0]["input"] == sent


WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.dictionaries(WORDS, st.integers() | WORDS | st.booleans(), max_size=2).map(json.dumps)
CALLS = st.builds(ToolCall, WORDS, WORDS, VALUES)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(messages.SystemMessage, WORDS),
    st.builds(UserMessage, WORDS),
    st.builds(AssistantMessage, WORDS, st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(ToolMessage, WORDS, WORDS),
)


def contents_of(listed: list[Message], role: str) -> list[object]:
    """Return the texts that are not blank, the calls and the results in the messages of a role."""
    found: list[object] = []
    for message in listed:
        match message:
            case UserMessage(content) if role == "user" and content.strip():
                found.append(content)
            case ToolMessage(call_id, content) if role == "user":
                found.append((call_id, content if content.strip() else ""))
            case AssistantMessage(content, calls) if role == "assistant":
                found += [content] if content.strip() else []
                found += [(call.id, call.name, json.loads(call.arguments)) for call in calls]
            case _:
                pass
    return found


def read_back(block: dict[str, Any]) -> object:
    match block:
        case {"type": "text", "text": content}:
            return content
        case {"type": "tool_use"}:
            return (block["id"], block["name"], block["input"])
        case _:
            return (block["tool_use_id"], block.get("content", ""))


@pytest.mark.medium
@given(st.lists(MESSAGES, max_size=8))
def test_messages_are_complete_and_roles_alternate(listed: list[Message]) -> None:
    # A user message at the end, so that no text of the assistant is trimmed.
    listed.append(UserMessage("go"))
    encoded_turns = turns(*listed)
    form = HistoryForm()
    listed = [form.fit(one) for one in distinct_calls(listed, form)]
    assert all(one["role"] != other["role"] for one, other in pairwise(encoded_turns))
    for role in ("user", "assistant"):
        blocks = [read_back(block) for turn in encoded_turns if turn["role"] == role for block in turn["content"]]
        assert sorted(map(repr, blocks)) == sorted(map(repr, contents_of(listed, role)))
    for turn in encoded_turns:
        kinds = [block["type"] for block in turn["content"]]
        assert "tool_result" not in kinds[kinds.index("text") :] if "text" in kinds else True


def test_last_token_counts_of_a_stream_are_used() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    last = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 6, "output_tokens": 9}}
    reply = decode_stream(start, ending("end_turn"), last, {"type": "message_stop"}, ending("max_tokens"))
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.finish_reason) == (6, 9, "stop")
    # The deltas of a call have its position.
    fold = AnthropicStream(PEER)
    begun, more = (list(fold.take(json.dumps(event))) for event in (call_start(7), input_delta(7, "{")))
    assert begun == [messages.ReplyDelta(index=0, call_id="a", name="add")]
    assert more == [messages.ReplyDelta(index=0, arguments="{")]


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
        return "output_config" in encode_body(ChatRequest(HELLO.messages, schema=schema), stream=False)

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
