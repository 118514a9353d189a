"""The bytes of OpenAI's Responses protocol, requests and replies, without a server."""

import json
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec import messages
from graphexec.messages import AssistantMessage, ChatRequest, Message, ModelReply, ReplyDelta, ToolCall, UserMessage
from graphexec.models.http.dialect import HistoryForm, distinct_calls
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.openai_responses import RESPONSES
from graphexec.models.providers.responses_reply import ResponsesStream
from tests.counting import count_calls
from tests.models.actors import HELLO, encode
from tests.models.test_anthropic_wire import ANY_MESSAGES
from tests.parameters import cases

PEER = Endpoint("gpt-9", "https://api.example/v1")


encode_body = partial(encode, RESPONSES, model="gpt-9")


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


def test_completion_is_a_user_message() -> None:
    request = messages.CompletionRequest("One two", stop=("three",))
    assert RESPONSES.route(request) == RESPONSES.route(HELLO) == "responses"
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


@given(st.lists(ANY_MESSAGES, max_size=8))
def test_messages_are_sent_in_order(listed: list[Message]) -> None:
    body = encode_body(ChatRequest(listed))
    sent = [part for item in body["input"] for part in read_back(item)]
    form = HistoryForm()
    assert sent == [part for one in distinct_calls(listed, form) for part in contents_of(form.fit(one))]
    system = [one.content for one in listed if isinstance(one, messages.SystemMessage) and one.content.strip()]
    assert body.get("instructions", "") == "\n\n".join(system)


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
