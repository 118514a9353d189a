"""The corpus of shapes that servers send: one JSON file for each in `tests/models/wire`, and a server that sends it.

Members of a file:

- `source`: who documents or reports the shape.
- `api`: `chat`, `anthropic` or `responses`.
- `status`, `headers`: of the response; 200, and the content type that fits the body.
- `whole`: the body: a JSON value, or a string whose characters are bytes (Latin-1).
- `stream`: the events of a streamed response, each as it is sent, without the blank line behind it.
- `base_url`, `model`: the address of the server, and the name of the model, if they matter.
- `request`: `messages` (objects with `role`, `content`, `tool_calls`, `reasoning`, and `id` for the result of a call),
  `tools` (names), `schema` and `tool_choice`. The default is one user message.
- `reply`: members of the expected reply. `reasoning` is its text, arguments are an object, or a string to compare as
  it is.
- `error`: `class`, `text` (a part of the message), `retried` and `waits` (seconds before the second request).
- `sent`: members of the next body. It is the body that follows the reply, and the results of its calls; that of
  `request` if the file has no response; and the repeated one if the server refuses the first request and the file has
  no `error`: then the second response is the text "ok". `null` stands for a member that is not sent, and a string that
  begins with `re:` for a pattern of the whole string.
- `differs`: why we read these bytes better than the official client.
- `pieces`: why the pieces of the stream do not add up to the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

import httpx

from graphexec.errors import ModelError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelReply,
    Reasoning,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.messages.model import check_reply
from graphexec.models import Anthropic, OpenAICompatible, OpenAIResponses
from graphexec.models.http.remote import RemoteModel
from tests.models.actors import Content, FakeTime, clients_of
from tests.models.call_modes import Ask, stream_blocking

FILES = Path(__file__).parent / "wire"

JSON: TypeAlias = dict[str, Any]
# A reply, or the error instead of it.
Outcome: TypeAlias = ModelReply | ModelError

_MODELS: dict[str, type[RemoteModel]] = {"chat": OpenAICompatible, "anthropic": Anthropic, "responses": OpenAIResponses}
_OK: dict[str, JSON] = {
    "chat": {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
    "anthropic": {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"},
    "responses": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}],
        "status": "completed",
    },
}
# Members of a file that are attributes of its shape.
_FIELDS = {"api", "model", "base_url", "status"}
_PARAMETERS: JSON = {"type": "object", "properties": {}}


@dataclass(frozen=True, eq=False)
class Shape:
    """One file of the corpus."""

    name: str
    file: JSON
    api: str
    model: str = "tiny"
    base_url: str = "http://127.0.0.1:1/v1"
    status: int = 200
    # The events of the stream; empty if there is none.
    events: Sequence[str] = ()

    def __repr__(self) -> str:
        return self.name

    @property
    def expected(self) -> JSON | None:
        """The members of the reply, or `None` if an error is expected."""
        return self.file.get("reply")

    @property
    def bodies(self) -> list[tuple[bytes, str]]:
        """The whole response and the streamed one, as far as the file has them, with their content types."""
        found: list[tuple[bytes, str]] = []
        if "whole" in self.file:
            whole = self.file["whole"]
            content = whole.encode("latin-1") if isinstance(whole, str) else json.dumps(whole).encode()
            found.append((content, "application/json"))
        if self.events:
            found.append((to_stream(self.events), EVENTS))
        return found or ([(b"", "application/json")] if "status" in self.file else [])

    @cached_property
    def request(self) -> ChatRequest:
        """The request that the response answers."""
        return read_request(self.file.get("request", {}))

    def respond(self, content: bytes, kind: str, *, breaks: bool = False) -> httpx.Response:
        """Return the response with this content; if it `breaks`, the connection is lost behind it."""
        headers = {"content-type": kind, **self.file.get("headers", {})}
        # Unread, as from a network.
        return httpx.Response(self.status, headers=headers, stream=Content([content], _LOST if breaks else None))

    def check(self, outcome: Outcome) -> None:
        """Assert that the outcome of a call is the expected one."""
        error = self.file.get("error")
        if error is not None:
            assert isinstance(outcome, ModelError), outcome
            assert type(outcome).__name__ == error["class"], repr(outcome)
            # One line, which begins with the model and its server.
            assert str(outcome).startswith(f"{self.model} at {self.base_url} "), outcome
            assert error.get("text", "") in str(outcome), outcome
            assert str(outcome).isprintable(), outcome
        elif self.expected is not None:
            if isinstance(outcome, ModelError):
                raise outcome
            assert_has(outcome_members(outcome, self.expected), self.expected)


EVENTS = "text/event-stream"
_LOST = httpx.RemoteProtocolError("peer closed connection without sending complete message body")


class WireServer:
    """A server that answers each request with the next response, the last one again and again, and keeps the bodies."""

    def __init__(self, shape: Shape, *answers: Callable[[], httpx.Response]) -> None:
        self.bodies: list[JSON] = []
        self.time = FakeTime()
        self._shape = shape
        self._answers = answers

    def model(self) -> RemoteModel:
        """Return a model that calls this server."""
        clients = clients_of(httpx.MockTransport(self._answer))
        options: JSON = {"base_url": self._shape.base_url, "api_key": "k", "clock": self.time.clock, **clients}
        return _MODELS[self._shape.api](self._shape.model, **options)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return self._answers[min(len(self.bodies), len(self._answers)) - 1]()


def serve(shape: Shape, content: bytes, kind: str, *, breaks: bool = False) -> WireServer:
    """Return a server that sends this content, and then what the shape expects next."""
    first = [lambda: shape.respond(content, kind, breaks=breaks)]
    # An error is repeated for each attempt.
    return WireServer(shape, *first, *([] if "error" in shape.file else [lambda: ok(shape)]))


def ok(shape: Shape) -> httpx.Response:
    """Return a plain response of the shape's protocol."""
    return httpx.Response(200, json=_OK[shape.api])


def ask(model: RemoteModel, request: ChatRequest, call: Ask) -> Outcome:
    """Return the outcome of a call in one of the modes."""
    try:
        return check_reply(call(model, request), "tiny")
    except ModelError as error:
        return error


def check_deltas(pieces: Sequence[object]) -> ModelReply:
    """Return the reply at the end of a stream, to which the pieces add up."""
    *begun, reply = pieces
    assert isinstance(reply, ModelReply)
    deltas = [piece for piece in begun if isinstance(piece, ReplyDelta)]
    assert "".join(delta.content for delta in deltas) == reply.content
    assert "".join(delta.reasoning for delta in deltas) == "".join(part.text for part in reply.reasoning)
    for number, call in enumerate(reply.tool_calls):
        own = [(delta.call_id, delta.name, delta.arguments) for delta in deltas if delta.index == number]
        call_id, *rest = ("".join(parts) for parts in zip(*own, strict=True))
        assert rest == [call.name, call.arguments]
        # A call without an id, or with that of another one, gets its own at the end.
        assert call_id in {"", call.id}
    return reply


def read_events(shape: Shape, events: Sequence[str], *, breaks: bool = False) -> Outcome:
    """Return what a blocking client reads in these events; errors are not retried."""
    model = serve(shape, to_stream(events), EVENTS, breaks=breaks).model()
    model._max_retries = 0  # pyright: ignore[reportPrivateUsage]
    return ask(model, shape.request, stream_blocking)


def to_stream(events: Sequence[str]) -> bytes:
    return "".join(f"{event}\n\n" for event in events).encode()


def read_request(plain: JSON) -> ChatRequest:
    """Return the request that a file describes."""
    messages = [_read_message(one) for one in plain.get("messages", [{"role": "user", "content": "hello"}])]
    tools = tuple(ToolSpec(name, "A tool.", _PARAMETERS) for name in plain.get("tools", ()))
    return ChatRequest(messages, tools, schema=plain.get("schema"), tool_choice=plain.get("tool_choice", "auto"))


def _read_message(plain: JSON) -> Message:
    content = plain.get("content", "")
    match plain["role"]:
        case "system":
            return SystemMessage(content)
        case "user":
            return UserMessage(content)
        case "tool":
            return ToolMessage(plain["id"], content)
        case _:
            calls = (
                ToolCall(one["id"], one["name"], _to_text(one["arguments"])) for one in plain.get("tool_calls", ())
            )
            reasoning = (Reasoning(**one) for one in plain.get("reasoning", ()))
            return AssistantMessage(content, tuple(calls), tuple(reasoning))


def _to_text(arguments: JSON | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def next_request(request: ChatRequest, reply: ModelReply) -> ChatRequest:
    """Return the request that follows a reply: with the results of its calls, or with a question."""
    results: list[Message] = [ToolMessage(call.id, f"result of {call.name}") for call in reply.tool_calls]
    return ChatRequest([*request.messages, reply.message, *(results or [UserMessage("go on")])], request.tools)


def outcome_members(reply: ModelReply, expected: JSON) -> JSON:
    """Return a reply in the form of the files; arguments as a string where the expected ones are."""
    wanted = expected.get("tool_calls", [])
    raw = [isinstance(call.get("arguments"), str) for call in wanted] + [True] * len(reply.tool_calls)
    usage = reply.usage
    return {
        "content": reply.content,
        "reasoning": "".join(part.text for part in reply.reasoning),
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments if text else json.loads(call.arguments)}
            for call, text in zip(reply.tool_calls, raw, strict=False)
        ],
        "finish": reply.finish_reason,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        },
    }


# Any: values of JSON.
def assert_has(found: Any, expected: Any, place: str = "") -> None:
    """Assert that a JSON value has the expected members. Lists have the same length."""
    match expected:
        case dict():
            assert isinstance(found, dict), f"{place}: {found!r}"
            for name, value in cast("JSON", expected).items():
                assert_has(cast("JSON", found).get(name), value, f"{place}.{name}")
        case list():
            assert isinstance(found, list), f"{place}: {found!r}"
            items: list[Any] = [*found]
            wanted: list[Any] = [*expected]
            assert len(items) == len(wanted), f"{place}: {items!r}"
            for number, (item, value) in enumerate(zip(items, wanted, strict=True)):
                assert_has(item, value, f"{place}[{number}]")
        case str() if expected.startswith("re:"):
            assert isinstance(found, str), f"{place}: {found!r}"
            assert re.fullmatch(expected[3:], found), f"{place}: {found!r}"
        case _:
            assert found == expected, f"{place}: {found!r} instead of {expected!r}"


def load_corpus() -> list[Shape]:
    """Return the shapes of all files."""
    files = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(FILES.glob("*.json"))]
    return [
        Shape(name, file, **{one: file[one] for one in _FIELDS & file.keys()}, events=file.get("stream", ()))
        for name, file in files
    ]
