"""The bytes of Anthropic's protocol, requests and replies, without a server."""

import json
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors, messages
from graphexec.messages import AssistantMessage, ChatRequest, Message, ToolCall, ToolMessage, UserMessage
from graphexec.models.http.dialect import HistoryForm, distinct_calls
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.anthropic import ANTHROPIC, MESSAGES
from graphexec.models.providers.schemas import close_schema
from tests.models.actors import HELLO, encode
from tests.models.test_wire import encode_body as encode_for_openai
from tests.parameters import cases

PEER = Endpoint("claude-9", "https://api.example", provider=ANTHROPIC)


encode_body = partial(encode, MESSAGES, model="claude-9", max_tokens=4096)


def turns(*listed: Message) -> Any:
    return encode_body(ChatRequest(listed))["messages"]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def test_completion_is_a_user_message() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert [MESSAGES.headers(""), MESSAGES.headers("sk")] == [version, version | {"x-api-key": "sk"}]
    request = messages.CompletionRequest("One two", stop=("three",))
    assert MESSAGES.route(request) == MESSAGES.route(HELLO) == "v1/messages"
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
ANY_MESSAGES: st.SearchStrategy[Message] = st.one_of(
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
@given(st.lists(ANY_MESSAGES, max_size=8))
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
