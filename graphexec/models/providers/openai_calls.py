"""The tool calls of OpenAI-compatible servers: whole ones, and their pieces in a stream."""

from __future__ import annotations

from dataclasses import dataclass

from graphexec.models.http.draft import Block, Draft
from graphexec.models.http.json_values import JSON, is_complete, to_number

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
    def from_json(cls, call: JSON, draft: Draft) -> CallPiece:
        """Read a call. Some servers write the members of its function beside the id, or its arguments as an object.

        Raises `InvalidReplyError` for members of other types, in which a part of the call would be lost.
        """
        given, index = call.get("id"), to_number(call.get("index"))
        (members,) = draft.objects(call.get("function", call) or {}, "tool_calls.function")
        if index is None and call.get("index") is not None:
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


def read_calls(message: JSON, draft: Draft) -> list[CallPiece]:
    """Return the calls of a message, or their pieces; also that of the member which was before `tool_calls`."""
    calls = draft.objects(message.get("tool_calls"), "tool_calls")
    calls = calls or [{"function": one} for one in draft.objects(message.get("function_call"), "function_call")]
    return [CallPiece.from_json(call, draft) for call in calls]
