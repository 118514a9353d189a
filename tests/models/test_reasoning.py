"""Reasoning in replies: kept apart from the answer, streamed, stored, and sent back where its provider needs it."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, create_tool_calling_agent, messages, models
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers import openai_reply
from tests.executor.actors import echo
from tests.models.actors import HELLO
from tests.models.picky_server import PickyServer, Protocol, openai_refusal
from tests.models.test_wire import decode_stream, end, whole
from tests.parameters import cases

PEER = Endpoint("thinker", "https://models.example/v1")
CALL = messages.ToolCall("c1", "echo", '{"text": "hi"}')
PROTOCOLS: list[Protocol] = ["chat", "responses", "anthropic"]
all_protocols = cases("protocol", *PROTOCOLS)
THOUGHTS = "First I say it.\nThen I am done."


def read_chat(**message: Any) -> messages.ModelReply:
    body = {"choices": [{"message": {"content": "4", **message}, "finish_reason": "stop"}]}
    return openai_reply.ChatStream(PEER).decode(json.dumps(body).encode())


def stream_chat(*deltas: dict[str, Any]) -> tuple[str, messages.ModelReply]:
    draft = openai_reply.ChatStream(PEER)
    choices = [{"delta": delta} for delta in deltas] + [{"delta": {}, "finish_reason": "stop"}]
    chunks = [json.dumps({"choices": [choice]}) for choice in choices]
    pieces = [piece for chunk in (*chunks, "[DONE]") for piece in draft.take(chunk)]
    return "".join(piece.reasoning for piece in pieces), draft.reply()


def texts_of(reply: messages.ModelReply) -> list[str]:
    return [part.text for part in reply.reasoning]


def executor_of(server: PickyServer) -> AgentExecutor:
    return AgentExecutor(agent=create_tool_calling_agent(server.model(), [echo]), tools=[echo])


def sent_back(body: dict[str, Any]) -> Any:
    """Return what a request has of the assistant's first reply."""
    (message,) = [message for message in body["messages"] if message["role"] == "assistant"]
    return message


SUMMARY = [{"type": "summary_text", "text": THOUGHTS}]
SENT_BACK: Any = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": THOUGHTS, "signature": "EqQB"},
        {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "hi"}},
    ],
}


def conversation(reply: messages.ModelReply) -> messages.ChatRequest:
    results = (messages.ToolMessage(call.id, "x") for call in reply.tool_calls)
    return messages.ChatRequest([messages.UserMessage("q"), reply.message, *results])


def send_again(protocol: Protocol, reply: messages.ModelReply) -> dict[str, Any]:
    """Return the request that has a reply in its conversation."""
    server = PickyServer(protocol, ["done"])
    server.model().complete(conversation(reply))
    return server.bodies[0]


@all_protocols
@cases("provider", "elsewhere", None)
def test_reasoning_of_others_or_without_calls_is_not_sent(protocol: Protocol, provider: str | None) -> None:
    reply = PickyServer(protocol, [CALL], thoughts=THOUGHTS).model().complete(HELLO)
    # Both servers have the same address, as those of a provider with several protocols.
    assert [other for other in PROTOCOLS if THOUGHTS[:15] in json.dumps(send_again(other, reply))] == [protocol]
    parts = tuple(dataclasses.replace(part, provider=provider) for part in reply.reasoning if provider)
    reply = dataclasses.replace(reply, reasoning=parts or (messages.Reasoning(THOUGHTS),))
    assert THOUGHTS[:15] not in json.dumps(send_again(protocol, reply))
    reply = PickyServer(protocol, ["It is 4."], thoughts=THOUGHTS).model().complete(HELLO)
    sent = json.dumps(send_again(protocol, reply))
    assert ("It is 4." in sent, THOUGHTS[:15] in sent) == (True, False)


def test_refused_reasoning_is_not_sent_again() -> None:
    reply = PickyServer("chat", [CALL], thoughts=THOUGHTS).model().complete(HELLO)

    class Strict(PickyServer):
        """A server like Groq's, which refuses the reasoning of messages."""

        def _answer(self, request: Any) -> Any:
            self.refuses = ("messages",) if b"reasoning_content" in request.content else ()
            return super()._answer(request)

    server = Strict("chat", ["done"] * 2, shape=lambda _: openai_refusal("messages[1].reasoning_content"))
    model = server.model()
    for _ in range(2):
        assert model.complete(conversation(reply)).content == "done"
    assert server.refused == ["messages"]


def test_reasoning_survives_snapshots_histories_and_caches() -> None:
    server = PickyServer("anthropic", [CALL], thoughts=THOUGHTS)
    executor = executor_of(server)
    with pytest.raises(IndexError) as raised:
        executor.run("q")
    state = snapshot_of(raised.value)
    assert isinstance(state, Snapshot)
    stored = Snapshot.from_json(state.to_json(), executor.graph)
    server.replies = ["done"]
    assert executor.run(stored).output == "done"
    assert sent_back(server.bodies[-1]) == SENT_BACK
    reply = PickyServer("anthropic", [CALL], thoughts=THOUGHTS).model().complete(HELLO)
    history = json.loads(json.dumps([dataclasses.asdict(message) for message in conversation(reply).messages]))
    server = PickyServer("anthropic", ["done"])
    executor_of(server).invoke({"input": "q", "chat_history": history})
    assert sent_back(server.bodies[0]) == SENT_BACK
    model = models.cached(PickyServer("chat", ["done"], thoughts=THOUGHTS).model(), {}, name="a")
    first = model.complete(HELLO)
    assert model.complete(HELLO).reasoning == first.reasoning != ()


class TestChatServers:
    """The forms of DeepSeek, vLLM, llama.cpp, OpenRouter, Mistral and Gemini."""

    @cases("empty", "", None)
    def test_empty_reasoning_without_calls_is_none(self, empty: str | None) -> None:
        assert read_chat(reasoning_content=empty).reasoning == ()
        assert stream_chat({"reasoning_content": empty}, {"content": "4"})[1].reasoning == ()

    def test_summaries_are_read_in_both_places(self) -> None:
        parts = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]
        details = [{"type": "reasoning.summary", "summary": "Hm."}]
        assert texts_of(read_chat(reasoning_details=details)) == texts_of(read_chat(content=parts)) == ["Hm."]

    @cases(
        ("kind", "content"),
        *((kind, "a4") for kind in ({"type": "text"}, {"type": "output_text"}, {})),
        *(({"type": kind}, "4") for kind in ("reasoning", "redacted_thinking", "tool_result", "citation", "Text")),
    )
    def test_only_text_parts_are_the_content(self, kind: dict[str, str], content: str) -> None:
        parts = [{"text": "a"} | kind, {"type": "text", "text": "4"}]
        assert read_chat(content=parts).content == stream_chat({"content": parts})[1].content == content


REASONING = {"type": "reasoning", "id": "rs_1"}
SAID = {"summary": SUMMARY}
CONTENT = {"content": [{"type": "reasoning_text", "text": "Hm."}]}
TWO = {"summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")], "encrypted_content": "gAAA"}


class TestResponses:
    @cases(
        ("members", "texts", "sent"),
        # The parts of a summary are paragraphs.
        (TWO, ["One.\n\nTwo."], [{**REASONING, **TWO}]),
        # The server has not stored an item without content, so its id alone is unknown there.
        (SAID, [THOUGHTS], [None]),
        ({"summary": []}, [], []),
        # An open model writes its reasoning as content.
        (CONTENT, ["Hm."], [{**REASONING, "summary": [], **CONTENT}]),
    )
    def test_reasoning_item_is_read(self, members: dict[str, Any], texts: list[str], sent: list[object]) -> None:
        reply = whole({**REASONING, **members})
        assert texts_of(reply) == texts
        assert [json.loads(part.data) if part.data else None for part in reply.reasoning] == sent

    def test_streamed_and_unstreamed_items_are_read(self) -> None:
        delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
        parts = [(0, "One"), (0, "."), (1, "Two.")]
        pieces, _ = decode_stream(*({**delta, "summary_index": part, "delta": text} for part, text in parts), end())
        assert "".join(piece.reasoning for piece in pieces) == "One.\n\nTwo."
        pieces, reply = decode_stream(end(output=[{**REASONING, **SAID}]))
        assert [piece.reasoning for piece in pieces] == texts_of(reply) == [THOUGHTS]

    def test_streamed_message_may_have_parts_of_reasoning(self) -> None:
        parts = [{"type": "thinking", "text": "<tool_call>"}, {"type": "output_text", "text": "Oslo"}, {"refusal": "."}]
        message = {"type": "message", "content": parts}
        delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Oslo."}
        done = {"type": "response.output_item.done", "output_index": 0, "item": message}
        for events in ([], [delta, done]):
            _, reply = decode_stream(*events, end(output=[message]))
            assert (reply.content, texts_of(reply)) == ("Oslo.", ["<tool_call>"])


@given(st.text(max_size=20), st.text(max_size=20))
def test_foreign_data_is_ignored(text: str, data: str) -> None:
    reasoning = (messages.Reasoning(text, data, "127.0.0.1:1"),)
    for protocol in PROTOCOLS:
        body = send_again(protocol, messages.ModelReply("", (CALL,), reasoning=reasoning))
        assert "reasoning" not in json.dumps(body)
