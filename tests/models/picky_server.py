"""A fake server that refuses parameters as reasoning models do, and writes its reasoning before each answer."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import httpx

from graphexec.messages import ToolCall
from graphexec.models import Anthropic, OpenAICompatible, OpenAIResponses
from graphexec.models.http.remote import RemoteModel
from tests.models.actors import clients_of

Protocol: TypeAlias = Literal["chat", "responses", "anthropic"]
JSON: TypeAlias = dict[str, Any]
# A function from a parameter to the status and the body of its refusal.
Shape: TypeAlias = Callable[[str], tuple[int, object]]


def openai_refusal(name: str) -> tuple[int, object]:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    error = {"message": message, "type": "invalid_request_error", "param": name, "code": "unsupported_parameter"}
    return 400, {"error": error}


_CLASSES = {"chat": OpenAICompatible, "responses": OpenAIResponses, "anthropic": Anthropic}


@dataclass
class PickyServer:
    """A server of one `protocol`, which answers with the `replies` in order: texts, or calls of tools.

    It refuses the parameters `refuses` in the `shape` of a provider, one at a time. `bodies` are the requests that it
    answered, `refused` the parameters that it refused. The text of each reply follows `thoughts`, which are a part of
    the text if there are `tags` around them.
    """

    protocol: Protocol
    replies: list[str | ToolCall]
    refuses: tuple[str, ...] = ()
    shape: Shape = openai_refusal
    thoughts: str = ""
    tags: tuple[str, str] | None = None
    bodies: list[JSON] = field(default_factory=list[JSON])
    refused: list[str] = field(default_factory=list[str])

    @property
    def transport(self) -> httpx.MockTransport:
        """The transport of a client that calls the server."""
        return httpx.MockTransport(self._answer)

    def model(self, **options: Any) -> RemoteModel:
        """Make a model that calls the server."""
        clients = clients_of(self.transport)
        return _CLASSES[self.protocol]("thinker", base_url="http://127.0.0.1:1", **clients, **options)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body: JSON = json.loads(request.content)
        for name in self.refuses:
            if _has(body, name):
                self.refused.append(name)
                status, error = self.shape(name)
                return httpx.Response(status, json=error)
        self.bodies.append(body)
        reply, thoughts = self.replies.pop(0), self.thoughts
        if self.tags is not None and isinstance(reply, str):
            reply, thoughts = thoughts.join(self.tags) + reply, ""
        if not body.get("stream"):
            return httpx.Response(200, json=_WHOLE[self.protocol](reply, thoughts))
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in _STREAMED[self.protocol](reply, thoughts))
        end = "data: [DONE]\n\n" if self.protocol == "chat" else ""
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=f"{events}{end}".encode())


def _has(body: JSON, path: str) -> bool:
    first, _, rest = path.partition(".")
    return first in body and (not rest or _has(body[first], rest))


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + 7] for start in range(0, len(text), 7))


_CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}


def _chat_call(call: ToolCall) -> JSON:
    return {"index": 0, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _chat(reply: str | ToolCall, thoughts: str) -> JSON:
    calls = [_chat_call(reply)] if isinstance(reply, ToolCall) else None
    text = None if isinstance(reply, ToolCall) else reply
    message = {"role": "assistant", "content": text, "reasoning_content": thoughts, "tool_calls": calls}
    reason = "tool_calls" if calls else "stop"
    return {"choices": [{"message": message, "finish_reason": reason}], "usage": _CHAT_USAGE}


def _stream_chat(reply: str | ToolCall, thoughts: str) -> Iterator[JSON]:
    deltas: list[JSON] = [{"role": "assistant", "content": None, "reasoning_content": one} for one in _pieces(thoughts)]
    deltas += [{"tool_calls": [_chat_call(reply)]}] if isinstance(reply, ToolCall) else []
    deltas += [{"content": one} for one in _pieces("" if isinstance(reply, ToolCall) else reply)]
    yield from ({"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas)
    reason = "tool_calls" if isinstance(reply, ToolCall) else "stop"
    yield {"choices": [{"delta": {}, "finish_reason": reason}]}
    yield {"choices": [], "usage": _CHAT_USAGE}


def _items(reply: str | ToolCall, thoughts: str) -> list[JSON]:
    summary = [{"type": "summary_text", "text": thoughts}]
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAAA", "status": None}
    if isinstance(reply, ToolCall):
        call = {"type": "function_call", "call_id": reply.id, "name": reply.name, "arguments": reply.arguments}
        return [reasoning, call]
    return [reasoning, {"type": "message", "content": [{"type": "output_text", "text": reply}]}]


def _responses(reply: str | ToolCall, thoughts: str) -> JSON:
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 5}}
    return {"output": _items(reply, thoughts), "status": "completed", "usage": usage}


def _stream_responses(reply: str | ToolCall, thoughts: str) -> Iterator[JSON]:
    reasoning, item = _items(reply, thoughts)
    for piece in _pieces(thoughts):
        yield {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": 0, "item": reasoning}
    for piece in _pieces("" if isinstance(reply, ToolCall) else reply):
        yield {"type": "response.output_text.delta", "output_index": 1, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": 1, "item": item}
    yield {"type": "response.completed", "response": _responses(reply, thoughts)}


_MESSAGE_USAGE = {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 4}


def _blocks(reply: str | ToolCall, thoughts: str) -> list[JSON]:
    block: JSON = {"type": "text", "text": reply}
    if isinstance(reply, ToolCall):
        block = {"type": "tool_use", "id": reply.id, "name": reply.name, "input": json.loads(reply.arguments)}
    return [{"type": "thinking", "thinking": thoughts, "signature": "EqQB"}, block]


def _anthropic(reply: str | ToolCall, thoughts: str) -> JSON:
    reason = "tool_use" if isinstance(reply, ToolCall) else "end_turn"
    return {"content": _blocks(reply, thoughts), "stop_reason": reason, "usage": _MESSAGE_USAGE}


def _stream_anthropic(reply: str | ToolCall, thoughts: str) -> Iterator[JSON]:
    yield {"type": "message_start", "message": {"content": [], "usage": _MESSAGE_USAGE | {"output_tokens": 0}}}
    empty: JSON = {"type": "thinking", "thinking": "", "signature": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    deltas = [{"type": "thinking_delta", "thinking": one} for one in _pieces(thoughts)]
    for delta in [*deltas, {"type": "signature_delta", "signature": "EqQB"}]:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    block = _blocks(reply, thoughts)[1]
    opened: JSON = {"input": {}} if isinstance(reply, ToolCall) else {"text": ""}
    begun = block | opened
    yield {"type": "content_block_start", "index": 1, "content_block": begun}
    kind, member = ("input_json_delta", "partial_json") if isinstance(reply, ToolCall) else ("text_delta", "text")
    for piece in _pieces(reply.arguments if isinstance(reply, ToolCall) else reply):
        yield {"type": "content_block_delta", "index": 1, "delta": {"type": kind, member: piece}}
    yield {"type": "content_block_stop", "index": 1}
    reason = _anthropic(reply, thoughts)["stop_reason"]
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 4}}
    yield {"type": "message_stop"}


_WHOLE: dict[Protocol, Callable[[str | ToolCall, str], JSON]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
}
_STREAMED: dict[Protocol, Callable[[str | ToolCall, str], Iterator[JSON]]] = {
    "chat": _stream_chat,
    "responses": _stream_responses,
    "anthropic": _stream_anthropic,
}
