"""The tool calls of OpenAI-compatible servers: whole ones, their pieces in a stream, and earlier ones in a request."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import read_object
from graphexec.messages import AssistantMessage, Message, ToolCall, ToolMessage
from graphexec.messages.turns import derive_texts
from graphexec.models.http.dialect import PartialCall
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_bodies import JSON, count, invalid_reply, objects, string

_NOT_IN_NAME = compile_lazily(r"[^a-zA-Z0-9_-]")
# Members of a call that its provider refuses a history without: the signatures of Gemini's reasoning, from Google and
# from LiteLLM.
EXTRA_MEMBERS = ("extra_content", "provider_specific_fields")


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A call, or a piece of one. An id, a name and arguments that are absent, or of another type, are empty."""

    id: str
    name: str
    arguments: str
    index: int | None
    extras: JSON
    # Whether it has what only the first piece of a call usually has.
    is_first: bool

    @classmethod
    def from_json(cls, call: JSON, endpoint: Endpoint) -> CallPiece:
        """Read a call. Some servers write the members of its function beside the id, or its arguments as an object.

        Raises `InvalidReplyError` for members of other types, in which a part of the call would be lost.
        """
        given, index = call.get("id"), call.get("index")
        (members,) = objects(call.get("function", call) or {}, endpoint, "a tool call with a function")
        arguments = members.get("arguments")
        position = count(index)
        if index is not None and (isinstance(index, bool) or str(index) not in {str(position), f"{position}.0"}):
            raise invalid_reply(endpoint, "sent a tool call with an index that is no number")
        return cls(
            str(given) if isinstance(given, str | int) and not isinstance(given, bool) else "",
            string(members.get("name"), endpoint, "a name of a tool"),
            json.dumps(arguments) if isinstance(arguments, dict) else string(arguments, endpoint, "arguments"),
            None if index is None else position,
            {member: call[member] for member in EXTRA_MEMBERS if call.get(member)},
            "id" in call or "type" in call,
        )

    @property
    def has_arguments(self) -> bool:
        """True if the piece has more than blanks of the arguments."""
        return bool(self.arguments and not self.arguments.isspace())

    def with_name(self, name: str) -> CallPiece:
        """Return the piece with the name of its call."""
        return replace(self, name=name)

    def begins_after(self, call: PartialCall, given: str) -> bool:
        """Return whether the piece begins another call than the known one at its place, which has the id `given`."""
        if self.id and given and self.id != given:
            # Some versions of vLLM send another id in each piece.
            return bool(self.name) or (self.has_arguments and is_complete(call))
        if not self.name or not call.name:
            # Only arguments, or a late name.
            return False
        # Whole names are repeated in some streams, or grow, or come in pieces before the arguments.
        is_other = not (call.name.endswith(self.name) or self.name.startswith(call.name))
        if not is_complete(call):
            return is_other and (self.is_first or bool(call.arguments))
        if not self.has_arguments:
            return self.name != call.name
        # With an id, an equal piece is the same event twice, and one after an empty object has the arguments.
        written = "".join(call.arguments)
        return is_other or not (self.id and (self.arguments == written or written.strip() == "{}"))


def read_calls(message: JSON, endpoint: Endpoint) -> list[CallPiece]:
    """Return the calls of a message, or their pieces; also that of the member which was before `tool_calls`."""
    calls = objects(message.get("tool_calls"), endpoint, "tool calls")
    calls = calls or [{"function": one} for one in objects(message.get("function_call"), endpoint, "a function call")]
    return [CallPiece.from_json(call, endpoint) for call in calls]


def is_complete(call: PartialCall) -> bool:
    """Return whether the arguments of a call, as far as they are known, are an object."""
    try:
        read_object("".join(call.arguments))
    except ValueError:
        return False
    return True


def distinct_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with an id for each call that no other call has, and for its result.

    Of servers that send no ids, each reply begins with the same one.
    """
    ids = "\n".join(derive_texts(messages, _call_ids, _call_ids, "\n") or ()).split("\n")
    return messages if len(set(ids)) == len(ids) else list(_renumber(messages))


def _call_ids(messages: Sequence[Message]) -> str:
    return "\n".join([call.id for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls])


def _renumber(messages: Sequence[Message]) -> Iterator[Message]:
    used: set[str] = set()
    ids: dict[str, deque[str]] = {}
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                ids = {}
                renamed: list[ToolCall] = []
                for call in calls:
                    own = call.id
                    while own in used:
                        own = f"{own}-{len(used)}"
                    used.add(own)
                    ids.setdefault(call.id, deque()).append(own)
                    renamed.append(replace(call, id=own))
                yield replace(message, tool_calls=tuple(renamed))
            case ToolMessage(call_id) if call_id in ids:
                own = ids[call_id].popleft() if len(ids[call_id]) > 1 else ids[call_id][0]
                yield replace(message, call_id=own)
            case _:
                yield message


def shorten_id(call_id: str, pattern: re.Pattern[str], form: str = "call_{:.32}") -> str:
    """Return an id as a protocol takes it: one that does not fit the pattern becomes a hash in this form."""
    return (
        call_id
        if pattern.fullmatch(call_id)
        else form.format(hashlib.sha256(call_id.encode(errors="replace")).hexdigest())
    )


def valid_name(name: str) -> str:
    """Return the name of an earlier call as every protocol takes it: the model may have written any."""
    return _NOT_IN_NAME().sub("_", name.partition("<|")[0])[:64] or "tool"
