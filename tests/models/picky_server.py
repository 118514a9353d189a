"""A fake server that refuses parameters as reasoning models do, and writes its reasoning before each answer."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

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
        said = Part("text", reply) if isinstance(reply, str) else Part("call", reply.id, reply.name, reply.arguments)
        parts = [Part("reasoning", thoughts), said]
        if not body.get("stream"):
            return httpx.Response(200, json=write_whole(self.protocol, parts))
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in write_events(self.protocol, parts))
        end = "data: [DONE]\n\n" if self.protocol == "chat" else ""
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=f"{events}{end}".encode())


def _has(body: JSON, path: str) -> bool:
    first, _, rest = path.partition(".")
    return first in body and (not rest or _has(body[first], rest))


class Part(NamedTuple):
    """A part of a reply, or of a request: its kind, and its text. The text of a call or of a result is the id."""

    kind: Literal["text", "reasoning", "call", "result", "user"]
    text: str = ""
    name: str = ""
    arguments: str = "{}"


# Counts of tokens: 9 of the prompt, of which 5 were cached, and 4 of the reply.
_USAGE: dict[Protocol, JSON] = {
    "chat": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
    "responses": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 5}},
    "anthropic": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 4},
}


def write_whole(protocol: Protocol, parts: Sequence[Part]) -> JSON:
    """Return the body of a reply of these parts."""
    called, usage = any(part.kind == "call" for part in parts), {"usage": _USAGE[protocol]}
    if protocol == "responses":
        return usage | {"output": [_item(*one) for one in enumerate(parts, 1)], "status": "completed"}
    if protocol == "anthropic":
        return usage | {"content": [*map(_block, parts)], "stop_reason": "tool_use" if called else "end_turn"}
    texts, thoughts = ([part.text for part in parts if part.kind == kind] for kind in ("text", "reasoning"))
    calls = [
        {
            "index": place,
            "id": part.text,
            "type": "function",
            "function": {"name": part.name, "arguments": part.arguments},
        }
        for place, part in enumerate(part for part in parts if part.kind == "call")
    ]
    content = "".join(texts) if texts else None
    message = {"role": "assistant", "content": content, "reasoning_content": "".join(thoughts)}
    reason = "tool_calls" if called else "stop"
    return usage | {"choices": [{"message": message | {"tool_calls": calls or None}, "finish_reason": reason}]}


def _item(number: int, part: Part) -> JSON:
    match part.kind:
        case "call":
            return {"type": "function_call", "call_id": part.text, "name": part.name, "arguments": part.arguments}
        case "reasoning":
            summary = [{"type": "summary_text", "text": part.text}]
            kept = {"encrypted_content": "gAAA", "status": None}
            return {"id": f"rs_{number}", "type": "reasoning", "summary": summary} | kept
        case _:
            return {"type": "message", "content": [{"type": "output_text", "text": part.text}]}


def _block(part: Part) -> JSON:
    match part.kind:
        case "call":
            return {"type": "tool_use", "id": part.text, "name": part.name, "input": json.loads(part.arguments)}
        case "reasoning":
            return {"type": "thinking", "thinking": part.text, "signature": "EqQB"}
        case _:
            return {"type": "text", "text": part.text}


def write_events(protocol: Protocol, parts: Sequence[Part]) -> Iterator[JSON]:
    """Yield the events of a streamed reply of these parts, with a few characters in each."""
    whole = write_whole(protocol, parts)
    match protocol:
        case "chat":
            (choice,) = whole["choices"]
            message = choice["message"]
            deltas: list[JSON] = [{"reasoning_content": one} for one in _pieces(message["reasoning_content"])]
            deltas += [{"tool_calls": message["tool_calls"]}] if message["tool_calls"] else []
            deltas += [{"content": one} for one in _pieces(message["content"] or "")]
            yield from ({"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas)
            yield {"choices": [{"delta": {}, "finish_reason": choice["finish_reason"]}]}
            yield {"choices": [], "usage": whole["usage"]}
        case "responses":
            kinds = {"reasoning": "reasoning_summary_text", "text": "output_text"}
            for place, (part, item) in enumerate(zip(parts, whole["output"], strict=True)):
                event = {"type": f"response.{kinds.get(part.kind)}.delta", "output_index": place}
                yield from (event | {"delta": one} for one in _pieces(part.text if part.kind in kinds else ""))
                yield {"type": "response.output_item.done", "output_index": place, "item": item}
            yield {"type": "response.completed", "response": whole}
        case _:
            yield {"type": "message_start", "message": {"usage": whole["usage"] | {"output_tokens": 0}}}
            for place, (part, block) in enumerate(zip(parts, whole["content"], strict=True)):
                empty: dict[str, JSON] = {"call": {"input": {}}, "reasoning": {"thinking": "", "signature": ""}}
                begun = {"type": "content_block_start", "index": place}
                yield begun | {"content_block": block | empty.get(part.kind, {"text": ""})}
                member = {"call": "partial_json", "reasoning": "thinking"}.get(part.kind, "text")
                deltas = [{member: one} for one in _pieces(part.arguments if part.kind == "call" else part.text)]
                deltas += [{"signature": block["signature"]}] if "signature" in block else []
                yield from ({"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas)
                yield {"type": "content_block_stop", "index": place}
            ending = {"delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": 4}}
            yield {"type": "message_delta"} | ending
            yield {"type": "message_stop"}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + 7] for start in range(0, len(text), 7))
