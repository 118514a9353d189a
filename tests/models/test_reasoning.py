"""Reasoning in replies: kept apart from the answer, streamed, stored, and sent back where its provider needs it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, create_tool_calling_agent, messages
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.models import MemoryCache, cached
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers import anthropic_reply, openai_reply, responses_reply
from tests.executor.actors import echo
from tests.models.actors import HELLO
from tests.models.picky_server import PickyServer, Protocol, openai_refusal
from tests.parameters import cases

PEER = Endpoint("thinker", "https://models.example/v1")
CALL = messages.ToolCall("c1", "echo", '{"text": "hi"}')
PROTOCOLS: list[Protocol] = ["chat", "responses", "anthropic"]
THOUGHTS = "First I say it.\nThen I am done."


def read_chat(**message: Any) -> messages.ModelReply:
    body = {"choices": [{"message": {"content": "4", **message}, "finish_reason": "stop"}]}
    return openai_reply.decode(json.dumps(body).encode(), PEER, chat=True)


def stream_chat(*deltas: dict[str, Any]) -> tuple[str, messages.ModelReply]:
    draft = openai_reply.ChatStream(PEER)
    choices = [{"delta": delta} for delta in deltas] + [{"delta": {}, "finish_reason": "stop"}]
    chunks = [json.dumps({"choices": [choice]}) for choice in choices]
    pieces = [piece for chunk in (*chunks, "[DONE]") for piece in draft.take(chunk)]
    return "".join(piece.reasoning for piece in pieces), draft.reply()


def data_of(reply: messages.ModelReply) -> Any:
    (part,) = reply.reasoning
    assert part.provider == "models.example"
    return json.loads(part.data)


@cases("protocol", PROTOCOLS)
def test_reasoning_is_read_whole_and_streamed(protocol: Protocol) -> None:
    for reply in ("done", CALL):
        server = PickyServer(protocol, [reply] * 2, thoughts=THOUGHTS)
        whole = server.model().complete(HELLO)
        *deltas, streamed = server.model().stream(HELLO)
        assert whole == streamed
        assert [part.text for part in whole.reasoning] == [THOUGHTS]
        assert "".join(piece.reasoning for piece in deltas if isinstance(piece, messages.ReplyDelta)) == THOUGHTS
        assert whole.content == ("done" if reply == "done" else "")


@cases("protocol", PROTOCOLS)
def test_reasoning_returns_before_the_results_of_its_calls(protocol: Protocol) -> None:
    server = PickyServer(protocol, [CALL, "done"], thoughts=THOUGHTS)
    agent = create_tool_calling_agent(server.model(), [echo])
    assert AgentExecutor(agent=agent, tools=[echo]).run("q").output == "done"
    assert sent_back(server.bodies[1]) == EXPECTED[protocol]


def sent_back(body: dict[str, Any]) -> Any:
    """Return what a request has of the assistant's first reply."""
    if "input" in body:
        return [item for item in body["input"] if item.get("type") in ("reasoning", "function_call")]
    (message,) = [message for message in body["messages"] if message["role"] == "assistant"]
    return message


EXPECTED: dict[Protocol, Any] = {
    "chat": {
        "role": "assistant",
        "content": None,
        "reasoning_content": THOUGHTS,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "echo", "arguments": '{"text": "hi"}'}}],
    },
    "responses": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": THOUGHTS}],
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "call_id": "c1", "name": "echo", "arguments": '{"text": "hi"}'},
    ],
    "anthropic": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": THOUGHTS, "signature": "EqQB"},
            {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "hi"}},
        ],
    },
}


def conversation(reply: messages.ModelReply) -> messages.ChatRequest:
    return messages.ChatRequest(
        [messages.UserMessage("q"), reply.message, *(messages.ToolMessage(call.id, "x") for call in reply.tool_calls)]
    )


@cases("source", PROTOCOLS)
@cases("protocol", PROTOCOLS)
def test_reasoning_of_another_protocol_is_not_sent(source: Protocol, protocol: Protocol) -> None:
    """Both servers have the same address, as those of a provider with several protocols."""
    reply = PickyServer(source, [CALL], thoughts=THOUGHTS).model().complete(HELLO)
    server = PickyServer(protocol, ["done"])
    server.model().complete(conversation(reply))
    assert (THOUGHTS[:15] in json.dumps(server.bodies[0])) == (source == protocol)


@cases("protocol", PROTOCOLS)
def test_reasoning_of_another_provider_is_not_sent(protocol: Protocol) -> None:
    reply = PickyServer(protocol, [CALL], thoughts=THOUGHTS).model().complete(HELLO)
    parts = tuple(dataclasses.replace(part, provider="elsewhere") for part in reply.reasoning)
    server = PickyServer(protocol, ["done"] * 2)
    for reasoning in (parts, (messages.Reasoning(THOUGHTS),)):
        server.model().complete(conversation(dataclasses.replace(reply, reasoning=reasoning)))
    assert THOUGHTS[:15] not in json.dumps(server.bodies)


@cases("protocol", PROTOCOLS)
def test_reasoning_is_not_sent_without_calls(protocol: Protocol) -> None:
    reply = PickyServer(protocol, ["It is 4."], thoughts=THOUGHTS).model().complete(HELLO)
    server = PickyServer(protocol, ["done"])
    server.model().complete(messages.ChatRequest([messages.UserMessage("q"), reply.message, messages.UserMessage("r")]))
    assert "It is 4." in json.dumps(server.bodies)
    assert THOUGHTS[:15] not in json.dumps(server.bodies)


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


def test_reasoning_survives_a_snapshot_in_json() -> None:
    server = PickyServer("anthropic", [CALL], thoughts=THOUGHTS)
    executor = AgentExecutor(agent=create_tool_calling_agent(server.model(), [echo]), tools=[echo])
    with pytest.raises(IndexError) as raised:
        executor.run("q")
    state = snapshot_of(raised.value)
    assert isinstance(state, Snapshot)
    stored = Snapshot.from_json(state.to_json(), executor.graph)
    server.replies = ["done"]
    assert executor.run(stored).output == "done"
    assert sent_back(server.bodies[-1]) == EXPECTED["anthropic"]


def test_reasoning_survives_a_history_in_json() -> None:
    reply = PickyServer("anthropic", [CALL], thoughts=THOUGHTS).model().complete(HELLO)
    history = json.loads(json.dumps([dataclasses.asdict(message) for message in conversation(reply).messages]))
    server = PickyServer("anthropic", ["done"])
    agent = create_tool_calling_agent(server.model(), [echo])
    AgentExecutor(agent=agent, tools=[echo]).invoke({"input": "q", "chat_history": history})
    assert sent_back(server.bodies[0]) == EXPECTED["anthropic"]


def test_cached_reply_keeps_its_reasoning() -> None:
    model = cached(PickyServer("chat", ["done"], thoughts=THOUGHTS).model(), MemoryCache(), name="a")
    first = model.complete(HELLO)
    assert model.complete(HELLO).reasoning == first.reasoning != ()


class TestChatServers:
    """The forms of DeepSeek, vLLM, llama.cpp, OpenRouter, Mistral and Gemini."""

    @cases("member", ["reasoning_content", "reasoning"])
    def test_member_is_read_under_each_name(self, member: str) -> None:
        reply = read_chat(**{member: "Hm."})
        assert ([part.text for part in reply.reasoning], data_of(reply)) == (["Hm."], {member: "Hm."})
        assert stream_chat({member: "H"}, {member: "m."}, {"content": "4"}) == ("Hm.", reply)

    def test_both_names_are_one_reasoning(self) -> None:
        reply = read_chat(reasoning_content="Hm.", reasoning="Hm.")
        assert [part.text for part in reply.reasoning] == ["Hm."]
        pieces = [{"reasoning_content": one, "reasoning": one} for one in ("H", "m.")]
        assert stream_chat(*pieces, {"content": "4"}) == ("Hm.", reply)

    def test_empty_reasoning_is_none_without_calls(self) -> None:
        for empty in ("", None):
            assert read_chat(reasoning_content=empty).reasoning == ()
            assert stream_chat({"reasoning_content": empty}, {"content": "4"})[1].reasoning == ()

    def test_empty_reasoning_beside_calls_is_sent_back(self) -> None:
        """DeepSeek refuses a history whose calls lack the member."""
        call = {"id": "c1", "function": {"name": "echo", "arguments": "{}"}}
        assert data_of(read_chat(reasoning_content="", tool_calls=[call])) == {"reasoning_content": ""}

    def test_signed_details_are_sent_back_unchanged(self) -> None:
        details = [
            {"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0, "id": None},
            {"type": "reasoning.encrypted", "data": "gAAA", "index": 1},
        ]
        reply = read_chat(reasoning="Hm.", reasoning_details=details)
        assert data_of(reply) == {"reasoning_details": details}
        assert [part.text for part in reply.reasoning] == ["Hm."]
        pieces: list[dict[str, Any]] = [
            {"reasoning": "H", "reasoning_details": [{"type": "reasoning.text", "text": "H", "index": 0, "id": None}]},
            {"reasoning": "m.", "reasoning_details": [{"type": "reasoning.text", "text": "m.", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA", "index": 1}]},
            {"content": "4"},
        ]
        streamed, whole = stream_chat(*pieces)
        assert (streamed, data_of(whole)) == ("Hm.", {"reasoning_details": details})

    def test_details_alone_have_a_text(self) -> None:
        reply = read_chat(reasoning_details=[{"type": "reasoning.summary", "summary": "I add."}])
        assert [part.text for part in reply.reasoning] == ["I add."]

    def test_thinking_parts_are_separate_from_the_text(self) -> None:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
        reply = read_chat(content=[thinking, {"type": "text", "text": "4"}])
        assert (reply.content, [part.text for part in reply.reasoning]) == ("4", ["Hm."])
        streamed, whole = stream_chat({"content": [thinking]}, {"content": "4"})
        assert (streamed, whole) == ("Hm.", reply)
        summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
        assert [part.text for part in read_chat(content=[summary]).reasoning] == ["Hm."]

    @cases("kind", ["text", "output_text", None])
    def test_text_parts_are_the_content(self, kind: str | None) -> None:
        named = {} if kind is None else {"type": kind}
        assert read_chat(content=[{"text": "a"} | named, {"type": "text", "text": "b"}]).content == "ab"

    @cases("kind", ["reasoning", "redacted_thinking", "tool_result", "citation", "Text"])
    def test_other_parts_are_no_content(self, kind: str) -> None:
        parts = [{"type": kind, "text": "Final Answer: 5"}, {"type": "text", "text": "4"}]
        assert read_chat(content=parts).content == "4"
        assert stream_chat({"content": parts})[1].content == "4"

    def test_signature_of_a_call_is_sent_back(self) -> None:
        signed = {"google": {"thought_signature": "s"}}
        call = {"id": "c1", "function": {"name": "echo", "arguments": "{}"}, "extra_content": signed}
        body = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
        reply = openai_reply.decode(json.dumps(body).encode(), Endpoint("thinker", "http://127.0.0.1:1"), chat=True)
        server = PickyServer("chat", ["done"])
        server.model().complete(conversation(reply))
        assert sent_back(server.bodies[0])["tool_calls"][0]["extra_content"] == signed
        _, streamed = stream_chat({"tool_calls": [{"index": 0, **call}]})
        assert data_of(streamed) == {"extra_content": {"c1": {"extra_content": signed}}}

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
    def test_invalid_reasoning_does_not_spoil_a_reply(self, value: Any) -> None:
        for member in openai_reply.REASONING_MEMBERS:
            assert read_chat(**{member: value}).content == "4"


class TestAnthropic:
    def test_redacted_thinking_is_sent_back_unchanged(self) -> None:
        blocks = [
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "thinking", "thinking": "", "signature": "EqQB"},
            {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "hi"}},
        ]
        body = {"content": blocks, "stop_reason": "tool_use"}
        reply = anthropic_reply.decode(json.dumps(body).encode(), Endpoint("thinker", "http://127.0.0.1:1"))
        assert [part.text for part in reply.reasoning] == ["", ""]
        server = PickyServer("anthropic", ["done"])
        server.model().complete(conversation(reply))
        assert sent_back(server.bodies[0])["content"] == blocks

    def test_piece_for_an_unknown_block_is_ignored(self) -> None:
        draft = anthropic_reply.AnthropicStream(PEER)
        delta = {"type": "thinking_delta", "thinking": "Hm."}
        assert list(draft.take(json.dumps({"type": "content_block_delta", "index": 7, "delta": delta}))) == []


class TestResponses:
    def read(self, *output: dict[str, Any]) -> messages.ModelReply:
        body = {"output": [*output], "status": "completed"}
        return responses_reply.decode(json.dumps(body).encode(), PEER)

    def test_parts_of_a_summary_are_paragraphs(self) -> None:
        parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
        reply = self.read({"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "gAAA"})
        assert [part.text for part in reply.reasoning] == ["One.\n\nTwo."]
        draft = responses_reply.ResponsesStream(PEER)
        kind = "response.reasoning_summary_text.delta"
        events = [
            {"type": kind, "output_index": 0, "summary_index": number, "delta": text}
            for number, text in ((0, "One"), (0, "."), (1, "Two."))
        ]
        pieces = [piece for event in events for piece in draft.take(json.dumps(event))]
        assert "".join(piece.reasoning for piece in pieces) == "One.\n\nTwo."

    def test_item_without_content_is_not_sent_back(self) -> None:
        """The server has not stored it, so its id alone is unknown there."""
        summary = [{"type": "summary_text", "text": "Hm."}]
        reply = self.read({"type": "reasoning", "id": "rs_1", "summary": summary})
        assert [(part.text, part.data) for part in reply.reasoning] == [("Hm.", "")]
        assert self.read({"type": "reasoning", "id": "rs_1", "summary": []}).reasoning == ()

    def test_open_model_writes_its_reasoning_as_content(self) -> None:
        content = [{"type": "reasoning_text", "text": "Hm."}]
        reply = self.read({"type": "reasoning", "id": "rs_1", "content": content})
        assert [part.text for part in reply.reasoning] == ["Hm."]
        assert data_of(reply) == {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}

    def test_item_that_was_not_streamed_is_read_at_the_end(self) -> None:
        item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
        draft = responses_reply.ResponsesStream(PEER)
        end = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
        pieces = list(draft.take(json.dumps(end)))
        assert [piece.reasoning for piece in pieces] == [part.text for part in draft.reply().reasoning] == ["Hm."]

    @cases("kind", ["reasoning_text", "summary_text", "thinking"])
    def test_message_may_have_parts_of_reasoning(self, kind: str) -> None:
        parts = [{"type": kind, "text": "<tool_call>"}, {"type": "output_text", "text": "Oslo"}, {"refusal": "."}]
        message = {"type": "message", "content": parts}
        end = {"type": "response.completed", "response": {"status": "completed", "output": [message]}}
        done = {"type": "response.output_item.done", "output_index": 0, "item": message}
        delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Oslo."}
        for reply in (self.read(message), read_events(end)[1], read_events(delta, done, end)[1]):
            assert (reply.content, [part.text for part in reply.reasoning]) == ("Oslo.", ["<tool_call>"])

    def test_commentary_is_no_part_of_the_answer(self) -> None:
        output: list[dict[str, Any]] = [
            {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "message", "phase": "final_answer", "content": [{"type": "output_text", "text": "Oslo"}]},
        ]
        end = {"type": "response.completed", "response": {"status": "completed", "output": output}}
        events: list[dict[str, Any]] = []
        for index, item in enumerate(output):
            place = {"output_index": index}
            events += [
                {"type": "response.output_item.added", "item": {**item, "content": []}, **place},
                {"type": "response.output_text.delta", "delta": item["content"][0]["text"], **place},
                {"type": "response.output_item.done", "item": item, **place},
            ]
        pieces, streamed = read_events(*events, end)
        for reply in (self.read(*output), streamed, read_events(end)[1]):
            assert (reply.content, [part.text for part in reply.reasoning]) == ("Oslo", ["I look."])
        assert [(piece.content, piece.reasoning) for piece in pieces] == [("", "I look."), ("Oslo", "")]


# Any: an event's JSON.
def read_events(*events: dict[str, Any]) -> tuple[list[messages.ReplyDelta], messages.ModelReply]:
    draft = responses_reply.ResponsesStream(PEER)
    return [piece for event in events for piece in draft.take(json.dumps(event))], draft.reply()


@given(st.text(max_size=20), st.text(max_size=20))
def test_foreign_data_is_ignored(text: str, data: str) -> None:
    message = messages.AssistantMessage("", (CALL,), (messages.Reasoning(text, data, "127.0.0.1:1"),))
    for protocol in PROTOCOLS:
        server = PickyServer(protocol, ["done"])
        server.model().complete(
            messages.ChatRequest([messages.UserMessage("q"), message, messages.ToolMessage("c1", "x")])
        )
        assert "reasoning" not in json.dumps(server.bodies)
