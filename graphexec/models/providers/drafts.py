"""A reply while it comes, whatever the protocol: what was said so far, and the calls, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphexec.messages import FinishReason, ModelReply, ReplyDelta, ToolCall, Usage
from graphexec.models.http.bodies import bad
from graphexec.models.http.endpoint import Endpoint


@dataclass(slots=True)
class Pieces:
    """A tool call while it comes."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def whole(self, endpoint: Endpoint) -> ToolCall:
        """Return the call. Raises `InvalidReplyError` where it has no name."""
        if not self.name:
            raise bad(endpoint, "sent a tool call without a name")
        return ToolCall(self.id, self.name, "".join(self.arguments))


def made_up(position: int) -> str:
    """Return an id for a call that came without: its result must name one."""
    return f"call_{position}"


@dataclass(slots=True)
class Draft:
    """A reply as far as it came. What takes in a piece gives what it adds, and has to be iterated.

    A protocol's stream is one that takes in events: `finish` and `usage` are set once the server gave them.
    """

    endpoint: Endpoint
    said: list[str] = field(default_factory=list[str], init=False)
    calls: list[Pieces] = field(default_factory=list[Pieces], init=False)
    finish: FinishReason | None = field(default=None, init=False)
    usage: Usage | None = field(default=None, init=False)
    model: str = field(default="", init=False)

    def say(self, text: str | None) -> Iterator[ReplyDelta]:
        """Take in a piece of the text."""
        if text:
            self.said.append(text)
            yield ReplyDelta(text)

    def call(self, call_id: str | None, name: str | None) -> Iterator[ReplyDelta]:
        """Begin a call, the last one so far."""
        position = len(self.calls)
        pieces = Pieces(call_id or made_up(position), name or "")
        self.calls.append(pieces)
        yield ReplyDelta(index=position, call_id=pieces.id, name=pieces.name)

    def extend(self, position: int | None, arguments: str | None) -> Iterator[ReplyDelta]:
        """Take in a piece of a call's arguments; one of no call is left out."""
        if arguments and position is not None:
            self.calls[position].arguments.append(arguments)
            yield ReplyDelta(index=position, arguments=arguments)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.finish is not None

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises `InvalidReplyError` if it is incomplete, or a call has no name."""
        if not self.complete:
            raise bad(self.endpoint, "ended its stream before the reply was complete")
        calls = tuple(pieces.whole(self.endpoint) for pieces in self.calls)
        return ModelReply("".join(self.said), calls, self.usage or Usage(), self.finish or "other", self.model)
