"""A dialect: the routes of one protocol, and functions that encode requests and decode replies."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias

from graphexec._parsing import compile_lazily
from graphexec.messages import FinishReason, ModelReply, ModelRequest, Reasoning, ReplyDelta, ToolCall, Usage
from graphexec.models.http.endpoint import Endpoint, Provider
from graphexec.models.http.json_bodies import JSON, check_size, invalid_reply, mend_surrogates
from graphexec.models.http.receiving import reply_limit_error
from graphexec.models.http.refusals import Parameter, Repair
from graphexec.models.http.stop_cutter import StopCutter

# An item of a stream: deltas, and finally the whole reply.
Piece: TypeAlias = ReplyDelta | ModelReply


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of a model for all requests; `None` is the server's default. `max_tokens` bounds a reply.

    `extra_body` has further members of the body. `provider` is the name of the provider, whose reasoning is sent back.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] | None = None
    provider: str = ""


# The markers of a model's template, which some servers leave in a name, with what follows: `now<|channel|>commentary`.
_MARKERS = compile_lazily(r"^(?:<\|[^|]*\|>)+|<\|.*", re.DOTALL)


@dataclass(slots=True)
class PartialCall:
    """A tool call that is still being received."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def to_call(self, endpoint: Endpoint) -> ToolCall:
        """Return the complete call.

        Raises `InvalidReplyError` if it has no name, and `ReplyLimitError` if its arguments have too many values or are
        nested too deeply.
        """
        name = _MARKERS().sub("", self.name).strip()
        if not name:
            raise invalid_reply(endpoint, "sent a tool call without a name")
        arguments = mend_surrogates("".join(self.arguments))
        check_size(arguments.encode(errors="replace"), endpoint)
        return ToolCall(self.id, name, arguments)


@dataclass(slots=True)
class Draft(ABC):
    """A reply that is still being received. The methods that add a piece are generators of deltas; iterate over them.

    They raise `ReplyLimitError` for a reply with too many calls, or too much content.

    Each protocol has a subclass that reads its events. `finish` and `usage` are set when the server has sent them. The
    text is cut before the first of the `stops` behind its reasoning, and calls after that position are ignored, because
    a server may refuse or ignore stop strings.
    """

    endpoint: Endpoint
    stops: tuple[str, ...] = ()
    cut: StopCutter = field(init=False)
    texts: list[str] = field(default_factory=list[str], init=False)
    calls: list[PartialCall] = field(default_factory=list[PartialCall], init=False)
    finish: FinishReason | None = field(default=None, init=False)
    usage: Usage | None = field(default=None, init=False)
    model: str = field(default="", init=False)
    # The characters of the content so far.
    _kept: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.cut = StopCutter(self.stops)

    def add_text(self, text: str | None) -> Iterator[ReplyDelta]:
        """Add a piece of the text; its end is held back while it may be the beginning of a stop string."""
        self.keep(text)
        yield from self._show(self.cut.take(text or ""))

    def end_text(self) -> Iterator[ReplyDelta]:
        """Add the text that was held back, after the last piece."""
        yield from self._show(self.cut.rest())

    def _show(self, text: str) -> Iterator[ReplyDelta]:
        if text:
            self.texts.append(text)
            yield ReplyDelta(text)

    def add_call(self, call_id: str | None, name: str | None) -> Iterator[ReplyDelta]:
        """Begin the next call."""
        position = self.begin_call(call_id, name)
        call = self.calls[position]
        yield ReplyDelta(index=position, call_id=call.id, name=call.name)

    def begin_call(self, call_id: str | None, name: str | None = None) -> int:
        """Begin the next call, and return its position."""
        position = len(self.calls)
        if position == self.endpoint.limits.calls:
            raise reply_limit_error(self.endpoint, self.endpoint.limits, "calls", position + 1)
        self.keep(call_id, name)
        self.calls.append(PartialCall(self.free_id(call_id), name or ""))
        return position

    def free_id(self, call_id: str | None) -> str:
        """Return the id of the server for its last call, or another one if it is empty or that of an earlier call.

        The result of the call must refer to it.
        """
        used = {call.id for call in self.calls}
        if call_id and call_id not in used:
            return call_id
        return next(made for number in count(len(self.calls)) if (made := f"call_{number}") not in used)

    def keep(self, *texts: str | None) -> None:
        """Count texts that the reply keeps."""
        self._kept += sum(len(text) for text in texts if text)
        if self._kept > self.endpoint.limits.bytes:
            raise reply_limit_error(self.endpoint, self.endpoint.limits, "bytes", self._kept)

    def add_arguments(self, position: int | None, arguments: str | None) -> Iterator[ReplyDelta]:
        """Add a piece of the arguments of a call; a piece without a position is ignored."""
        if arguments and position is not None:
            self.keep(arguments)
            self.calls[position].arguments.append(arguments)
            yield ReplyDelta(index=position, arguments=arguments)

    @abstractmethod
    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas. Raises `ModelError` if the event is invalid or reports an error."""

    @property
    def complete(self) -> bool:
        """True if no part of the reply is missing, so nothing more is awaited."""
        return self.finish is not None

    @property
    def answered(self) -> bool:
        """True if the answer is complete, so that the end of the stream, or of the connection, does no harm."""
        return self.complete

    def reasoning(self) -> tuple[Reasoning, ...]:
        """Return the parts of the reasoning that have been received."""
        return ()

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises `InvalidReplyError` if it is incomplete, or a call has no name."""
        if not self.answered:
            raise invalid_reply(self.endpoint, "ended its stream before the reply was complete")
        return self.whole_reply()

    def whole_reply(self) -> ModelReply:
        """Return the reply so far. Raises `InvalidReplyError` if a call has no name."""
        finish = self.finish or "other"
        if self.cut.done:
            finish = "tool_calls" if self.calls else "stop"
        return ModelReply(
            mend_surrogates("".join(self.texts)),
            tuple(call.to_call(self.endpoint) for call in self.calls),
            self.usage or Usage(),
            finish,
            self.model,
            reasoning=self.reasoning(),
        )


# The remedy for a member of `extra_body` that belongs to the request, not to the model.
REQUEST_WRITES_IT = "each request writes it; leave it out"


class Encode(Protocol):
    """A function that encodes a request as the body of a POST; members that are `None` are not sent."""

    def __call__(self, request: ModelRequest, sampling: Sampling, *, stream: bool) -> JSON:
        """Return the body. Raises `BadRequestError` if the protocol cannot express the request."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions and settings of one protocol.

    `route` returns a path below the base URL; `headers` returns the headers with the API key, if there is one.
    `make_draft` makes the draft of a streamed reply. `parameters` are those that a server may refuse. `reserved` are
    the members of a body that `extra_body` may not set, and `absent` the options that the protocol does not have, both
    with the remedy. `max_tokens` bounds a reply if the user does not; `None` is the server's default. `repairs` are the
    other forms of a request that a server may demand.
    """

    provider: Provider
    route: Callable[[ModelRequest], str]
    headers: Callable[[str], dict[str, str]]
    encode: Encode
    decode: Callable[[bytes, ModelRequest, Endpoint], ModelReply]
    make_draft: Callable[[ModelRequest, Endpoint], Draft]
    parameters: tuple[Parameter, ...]
    reserved: Mapping[str, str]
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    max_tokens: int | None = None
    repairs: tuple[Repair, ...] = ()


def bearer(key: str) -> dict[str, str]:
    """Return the header with the API key that OpenAI and most other servers use."""
    return {"Authorization": f"Bearer {key}"} if key else {}
