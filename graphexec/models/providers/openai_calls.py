"""The tool calls of OpenAI-compatible servers: whole ones, and their pieces in a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphexec.models.http.draft import Block, Draft
from graphexec.models.http.json_values import JSON, is_complete, to_number, to_object, to_objects

# The members of a call, or of its function.
_MEMBERS = frozenset({"id", "index", "type", "function", "name", "arguments"})
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
    def from_json(cls, call: JSON, draft: Draft, *, whole: bool) -> CallPiece:
        """Read a call. Some servers write the members of its function beside the id, or its arguments as an object.

        Raises `InvalidReplyError` for members of other types, in which a part of the call would be lost. The index of a
        whole call says nothing.
        """
        given, index = call.get("id"), to_number(call.get("index"))
        functions = draft.objects(call.get("function", call), "tool_calls.function")
        if len(functions) > 1:
            raise draft.invalid("sent a tool call with several functions")
        members = functions[0] if functions else JSON()
        if index is None and call.get("index") is not None and not whole:
            raise draft.invalid("sent a tool call with an index that is no number")
        return cls(
            str(given) if isinstance(given, str | int) and not isinstance(given, bool) else "",
            draft.string(members.get("name"), "tool_calls.function.name"),
            draft.arguments(members.get("arguments"), "tool_calls.function.arguments"),
            index,
            {member: call[member] for member in EXTRA_MEMBERS if call.get(member)},
            "id" in call or "type" in call,
        )

    @property
    def has_arguments(self) -> bool:
        """True if the piece has more than blanks of the arguments."""
        return bool(self.arguments and not self.arguments.isspace())

    def begins_after(self, call: Block) -> bool:
        """Return whether the piece begins another call than the known one at its place."""
        given: str = call.members.get("id", "")
        name: str = call.members["name"]
        if self.id and given and self.id != given:
            # Some versions of vLLM send another id in each piece.
            return bool(self.name) or (self.has_arguments and is_complete(call.text))
        if not self.name or not name:
            # Only arguments, or a late name.
            return False
        # Whole names are repeated in some streams, or grow, or come in pieces before the arguments.
        is_other, written = not (name.endswith(self.name) or self.name.startswith(name)), call.text
        if not is_complete(written):
            return is_other and (self.is_first or bool(written))
        if not self.has_arguments:
            return self.name != name
        # With an id, an equal piece is the same event twice, and one after an empty object has the arguments.
        return is_other or not (self.id and (self.arguments == written or written.strip() == "{}"))


def read_calls(message: JSON, draft: Draft, *, whole: bool) -> list[CallPiece]:
    """Return the calls of a message, or their pieces; also that of the member which was before `tool_calls`.

    What has no member of a call is none.
    """
    calls = [call for call in to_objects(message.get("tool_calls")) if not _MEMBERS.isdisjoint(call)]
    called = [one for one in to_objects(message.get("function_call")) if not _MEMBERS.isdisjoint(one)]
    return [CallPiece.from_json(call, draft, whole=whole) for call in calls or [{"function": one} for one in called]]


def find_odd_call(message: JSON) -> str:
    """Return the name and the type of what may have been a call, and cannot be read; empty if there is none."""
    for name in ("tool_calls", "function_call"):
        # Any: values of JSON, here and below.
        value: Any = message.get(name)
        items: list[Any] = [*value] if isinstance(value, list) else [value] if value else []
        for one in items:
            if one is not None and _MEMBERS.isdisjoint(to_object(one)):
                return f"{name}: {type(one).__name__} is not a call"
    return ""
