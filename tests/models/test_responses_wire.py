"""The bytes of OpenAI's Responses protocol, requests and replies, without a server."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors, messages
from graphexec.messages import AssistantMessage, ChatRequest, Message, ModelReply, ReplyDelta, ToolCall, UserMessage
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.histories import HistoryForm, distinct_calls
from graphexec.models.providers.openai_responses import encode, route
from graphexec.models.providers.responses_reply import ResponsesStream
from tests.counting import count_calls
from tests.models.actors import HELLO
from tests.models.test_anthropic_wire import MESSAGES
from tests.parameters import cases

PEER = Endpoint("gpt-9", "https://api.example/v1")
PARAMETERS = {"type": "object", "required": ("a", "b")}
ADD = messages.ToolSpec("add", "Add two numbers.", MappingProxyType(PARAMETERS))


def encode_body(request: messages.ModelRequest, *, stream: bool = False, limit: int | None = None) -> Any:
    return json.loads(write(encode(request, Sampling("gpt-9", max_tokens=limit), stream=stream)))


def decode_stream(*events: dict[str, Any], stop: tuple[str, ...] = ()) -> tuple[list[ReplyDelta], ModelReply]:
    fold = ResponsesStream(PEER, stop)
    deltas = [delta for event in events for delta in fold.take(json.dumps(event))]
    return deltas, fold.reply()


def say(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def call(index: int | None, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", **item}}


def more(index: int | None, delta: str, **item: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta, **item}


def end(status: str = "completed", kind: str | None = None, **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind or status}", "response": {"status": status, **response}}


def whole(*output: dict[str, Any], status: str = "completed", stop: tuple[str, ...] = (), **rest: Any) -> ModelReply:
    return ResponsesStream(PEER, stop).decode(json.dumps({"output": output, "status": status, **rest}).encode())


def message(*texts: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}


def test_messages_are_encoded_as_items() -> None:
    called = AssistantMessage("", (ToolCall("c1", "add", '{"a": 1}'),))
    answered = AssistantMessage("2", (ToolCall("c2", "add", "{"),))
    asked: list[Message] = [
        messages.SystemMessage("be brief"),
        UserMessage("1 + 1?"),
        called,
        messages.ToolMessage("c1", "2"),
        answered,
    ]
    assert encode_body(ChatRequest([*asked, messages.SystemMessage("answer now")])) == {
        "model": "gpt-9",
        "store": False,
        "instructions": "be brief\n\nanswer now",
        "input": [
            {"role": "user", "content": "1 + 1?"},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
            {"role": "assistant", **message("2")},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        ],
    }


def test_only_set_options_are_sent_without_stop() -> None:
    assert set(encode_body(HELLO)) == {"model", "input", "store"}
    full = encode_body(ChatRequest(HELLO.messages, (ADD,), ("STOP",), {"type": "object"}), stream=True, limit=9)
    described = {"name": "add", "description": "Add two numbers.", "parameters": {**PARAMETERS, "required": ["a", "b"]}}
    assert full == {
        **encode_body(HELLO),
        "tools": [{"type": "function", "strict": False, **described}],
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "reply", "schema": {"type": "object"}}},
        "max_output_tokens": 9,
        "stream": True,
    }
    assert encode_body(ChatRequest(HELLO.messages, (ADD,), tool_choice="none"))["tool_choice"] == "none"


def test_completion_is_a_user_message() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert route(request) == route(HELLO) == "responses"
    assert encode_body(request) == {"model": "gpt-9", "store": False, "input": [{"role": "user", "content": "One two"}]}


def read_back(item: dict[str, Any]) -> list[object]:
    match item:
        case {"role": "user", "content": content}:
            return [("user", content)]
        case {"role": "assistant", "content": [{"type": "output_text", "text": content}]}:
            return [("assistant", content)]
        case {"type": "function_call"}:
            return [ToolCall(item["call_id"], item["name"], item["arguments"])]
        case _:
            return [(item["call_id"], item["output"])]


def contents_of(message: Message) -> list[object]:
    match message:
        case messages.SystemMessage():
            return []
        case UserMessage(content):
            return [("user", content)]
        case AssistantMessage(content, calls):
            return [*([("assistant", content)] if content.strip() else []), *calls]
        case messages.ToolMessage(call_id, content):
            return [(call_id, content)]


@given(st.lists(MESSAGES, max_size=8))
def test_messages_are_sent_in_order(listed: list[Message]) -> None:
    body = encode_body(ChatRequest(listed))
    sent = [part for item in body["input"] for part in read_back(item)]
    form = HistoryForm()
    assert sent == [part for one in distinct_calls(listed, form) for part in contents_of(form.fit(one))]
    system = [one.content for one in listed if isinstance(one, messages.SystemMessage) and one.content.strip()]
    assert body.get("instructions", "") == "\n\n".join(system)


@cases(
    ("status", "reason", "finish"),
    ("completed", None, "stop"),
    ("incomplete", "max_output_tokens", "length"),
    ("incomplete", "content_filter", "other"),
    ("incomplete", None, "other"),
    ("cancelled", None, "other"),
)
def test_each_status_has_its_finish_reason(status: str, reason: str | None, finish: messages.FinishReason) -> None:
    details = {"reason": reason}
    assert whole(message("a"), status=status, incomplete_details=details).finish_reason == finish
    _, reply = decode_stream(say("a"), end(status, "incomplete", incomplete_details=details))
    assert reply == ModelReply("a", finish_reason=finish)


@cases("indexes", (0, 1), (3, 7), (None, None))
def test_streamed_calls_are_distinguished(indexes: tuple[int | None, int | None]) -> None:
    first, second = indexes
    deltas, reply = decode_stream(
        call(first, id="i1", call_id="a", name="add"),
        call(second, id="i2", call_id="b", name="sub"),
        more(second, "{}", item_id="i2"),
        more(first, "{", item_id="i1"),
        more(first, "}", item_id="i1"),
        end(output=[{"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"}]),
    )
    assert reply.tool_calls == (ToolCall("a", "add", "{}"), ToolCall("b", "sub", "{}"))
    begun = [ReplyDelta(index=0, call_id="a", name="add"), ReplyDelta(index=1, call_id="b", name="sub")]
    assert deltas[:3] == [*begun, ReplyDelta(index=1, arguments="{}")]


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


def test_unstreamed_output_is_read_from_final_event() -> None:
    assert decode_stream(end(output=[message("hi")])) == ([ReplyDelta("hi")], ModelReply("hi"))


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


@cases(
    ("code", "error"),
    ("server_error", errors.ServerError),
    ("server_is_overloaded", errors.OverloadedError),
    ("rate_limit_exceeded", errors.RateLimitError),
    ("context_length_exceeded", errors.ContextOverflowError),
    ("invalid_prompt", errors.InvalidReplyError),
)
def test_reported_errors_have_their_class(code: str, error: type[errors.ModelError]) -> None:
    reported = {"code": code, "message": "Sorry"}
    ways = ({"type": "error", **reported}, {"type": "error", "error": reported}, {"error": reported})
    for event in (*ways, end("failed", error=reported)):
        with pytest.raises(errors.ModelError) as caught:
            decode_stream(event)
        assert type(caught.value) is error
    with pytest.raises(error):
        whole(status="failed", error=reported)
