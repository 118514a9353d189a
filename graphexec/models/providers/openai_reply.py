"""Decode replies of OpenAI-compatible servers: whole replies, and the chunks of a stream.

One rule: what a server says last and most completely wins; what is odd beside the answer never costs the answer; what
is lost is an error, never an empty success. So members of other types are read where they can be, and else ignored,
unless they hold the answer.

Source: OpenAI's API reference; comments name servers that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphexec.errors import OverloadedError, ServerError
from graphexec.messages import ModelReply, ReplyDelta, ToolCall, Usage
from graphexec.models.http.draft import Block, Draft, read_finish
from graphexec.models.http.failures import invalid_call_error, refusal_error
from graphexec.models.http.json_values import (
    JSON,
    best_arguments,
    is_complete,
    to_count,
    to_object,
    to_objects,
    to_word,
)
from graphexec.models.http.meanings import BROKEN_CALL, FILTERED
from graphexec.models.providers.openai_calls import CallPiece, find_odd_call, read_calls

# The reply was cut, because the server failed: OpenRouter, Zhipu, DeepSeek.
_FAILED = {"error": ServerError, "network_error": ServerError, "insufficient_system_resource": OverloadedError}

# The members of a message in which servers write the reasoning, and read it again beside tool calls: DeepSeek, vLLM and
# llama.cpp; OpenRouter, Groq and newer versions of vLLM; OpenRouter for parts with signatures; LiteLLM for those of
# Anthropic.
_TEXTS, _LISTS = ("reasoning_content", "reasoning"), ("reasoning_details", "thinking_blocks")
REASONING_MEMBERS = (*_TEXTS, *_LISTS)
# The members of such a part that are shown, and those whose pieces are joined.
_SHOWN = ("text", "summary", "thinking")
_PIECES = {*_SHOWN, "data"}
# The types of the parts of a content that are the reply's text; some servers omit the type.
_TEXT_PARTS = ("text", "output_text", "refusal", "")
# In the data of a reasoning, the extra members of the calls by their ids.
CALL_EXTRAS = "extra_content"


@dataclass(slots=True)
class ChatStream(Draft):
    """The draft of a reply. `take` the data of each event, then call `reply`; or `decode` a whole body.

    Several choices are one reply: some gateways send the text in one, and each call in another.
    """

    # The text of a refusal, the server's own reasons, and those of Gemini, OpenRouter and others beside them.
    _refusals: list[str] = field(default_factory=list[str], init=False)
    _reasons: list[str] = field(default_factory=list[str], init=False)
    # Whether the last reason is of another type, so that it ends the reply only if no more follows.
    _is_odd: bool = field(default=False, init=False)
    # The last call at each index of a choice, and the first one with each id.
    _places: dict[tuple[int, int], Block] = field(default_factory=dict[tuple[int, int], Block], init=False)
    _ids: dict[str, Block] = field(default_factory=dict[str, Block], init=False)
    # The call whose name was repeated without arguments when it was complete: perhaps another one begins.
    _repeated: Block | None = field(default=None, init=False)
    # What may have been a call, and cannot be read.
    _odd_call: str = field(default="", init=False)
    # All of the reasoning, the member that has it, and its parts with signatures by member.
    _reasoning: Block = field(init=False)
    _member: str = field(default="", init=False)
    _details: dict[str, list[JSON]] = field(default_factory=dict[str, list[JSON]], init=False)

    def __post_init__(self) -> None:
        Draft.__post_init__(self)
        self._reasoning = self.begin_block("reasoning", {})

    def _take_event(self, event: JSON) -> Iterator[ReplyDelta]:
        # The chunk with the usage and Azure's first chunk have no choices.
        choices = self.objects(event.get("choices"), "choices")
        if self.finish is None:
            self._check(event, choices, answered=bool(choices or self.counts) or "choices" in event)
        yield from self._take(event, choices, whole=False)
        if self.finish is not None:
            yield from self.end_text()

    def _take_end(self) -> Iterator[ReplyDelta]:
        self.ended = True
        if self.finish is None and (self.written or self.calls):
            # Some servers send no reason.
            self.finish = "other" if self._is_odd else "tool_calls" if self.calls else "stop"
        yield from self.end_text()

    def _take_whole(self, body: JSON) -> Iterator[ReplyDelta]:
        choices = self.objects(body.get("choices"), "choices")
        self._check(body, choices, answered=bool(choices))
        if not choices:
            raise self.invalid("sent a reply without choices")
        if all({"message", "delta", "text"}.isdisjoint(choice) for choice in choices):
            raise self.invalid("sent a choice without a message or a text")
        yield from self._take(body, choices, whole=True)
        yield from self.end_text()
        self.finish = self.finish or "other"

    def _check(self, body: JSON, choices: list[JSON], *, answered: bool) -> None:
        """Raise the error that a body reports, at its top or in a choice."""
        self.check_error(body, answered=answered)
        for choice in choices:
            self.check_error(choice)
            self.check_error(to_object(choice.get("message")))

    def _take(self, body: JSON, choices: list[JSON], *, whole: bool) -> Iterator[ReplyDelta]:
        self.model = self.model or to_word(body.get("model"))
        # Groq and Moonshot count in members of their own.
        for usage in (body.get("usage"), body.get("x_groq"), *[choice.get("usage") for choice in choices]):
            if usage and isinstance(usage, dict):
                self._count(usage)  # pyright: ignore[reportUnknownArgumentType]
        for number, choice in enumerate(choices):
            written: Any = choice.get("delta") or choice.get("message")
            message = to_object(written)
            if written and not message:
                raise self.invalid("sent a message of another type")
            self._odd_call = self._odd_call or find_odd_call(message)
            is_whole = whole or (not choice.get("delta") and self._is_last(body, choice, message))  # pyright: ignore[reportUnknownArgumentType]
            yield from self._take_message(number, choice, message, whole=is_whole)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                self._finish(reason, choice.get("native_finish_reason"))
            else:
                self._is_odd = read_finish(reason) is not None or (self._is_odd and not message)

    def _is_last(self, body: JSON, choice: JSON, message: JSON) -> bool:
        """Return whether an event of a stream has the whole message, as the last one of MiniMax."""
        said, content = "".join(self.written), message.get("content")
        continues = said and isinstance(content, str) and content.startswith(said) and choice.get("finish_reason")
        return bool(message and (continues or body.get("object") == "chat.completion"))

    # Any: a value of JSON.
    def _finish(self, reason: str, native: Any) -> None:
        told = [one for one in (reason, to_word(native)) if one and one not in self._reasons]
        self._reasons += told
        if failed := _FAILED.get(reason.lower()):
            fact = f"failed within its reply (finish_reason {reason}); try again later"
            raise failed(f"{self.endpoint} {fact}", status=200)
        meant = read_finish(reason)
        # Of several choices, the one with the calls may not be the last.
        if meant != "stop" or self.finish in {None, "other"}:
            self.finish = meant

    def _take_message(self, number: int, choice: JSON, message: JSON, *, whole: bool) -> Iterator[ReplyDelta]:
        """Add a message, the text of a completion, or a piece of one. A whole one after a stream adds what is new."""
        said = self._read_text(message.get("content") if message else choice.get("text"))
        before, known = ("".join(self.written), len(self.calls)) if whole and number == 0 else ("", 0)
        if not (whole and number == 0 and self._reasoning.pieces):
            yield from self._take_reasoning(message, beside=whole or bool(said or message.get("tool_calls")))
        if before and (said.startswith(before) or before.startswith(said)):
            said = said[len(before) :]
        if said:
            last = self.blocks[-1]
            yield from self.add_piece(last if last.kind == "text" else self.begin_block("text", {}), said)
        # OpenAI writes a refusal here, and leaves the content null.
        self._refusals += filter(None, [to_word(message.get("refusal"))])
        index = choice.get("index")
        for place, piece in enumerate(read_calls(message, self, whole=whole)):
            if not whole:
                yield from self._take_call(index if type(index) is int else number, piece)
            elif place < known:
                # What was streamed may lack the end, or more.
                call, written = self.calls[place], self.calls[place].text
                best = best_arguments(written, piece.arguments)
                yield self._extend(call, replace(piece, arguments=best[len(written) :]))
                call.pieces[0] = [best]
            else:
                # The calls of a whole message are separate, even without an index or an id.
                yield from self._begin_call(piece)

    # Any: a value of JSON.
    def _read_text(self, content: Any) -> str:
        """Return a content as a string, of parts or of one. Raises `InvalidReplyError` if it may hold a lost answer."""
        if isinstance(content, str):
            return content
        parts: list[Any] = [*content] if isinstance(content, list) else [content]
        return "".join([self.string(_text_of(part), "content") for part in parts])

    def _take_reasoning(self, message: JSON, *, beside: bool) -> Iterator[ReplyDelta]:
        """Add the reasoning. A member of another type is ignored `beside` text or calls; else a piece may be lost."""

        # Any: values of JSON.
        def string(value: Any, place: str) -> str:
            return to_word(value) if beside else self.string(value, place)

        def objects(value: Any, place: str) -> list[JSON]:
            return to_objects(value) if beside else self.objects(value, place)

        content, written, member, parts = message.get("content"), "", "", ""
        for name in _TEXTS:
            text = string(message.get(name), name)
            if isinstance(message.get(name), str) and (not member or (text and not written)):
                member, written = name, text
        for part in () if isinstance(content, str) else to_objects(content):
            # Mistral writes `thinking` parts before `text` parts.
            inner = part.get("thinking") if part.get("thinking") is not None else part.get("summary")
            inner = [{"text": inner}] if isinstance(inner, str) else objects(inner, "content")
            parts += "".join([string(one.get("text"), "content") for one in inner])
        for name in _LISTS:
            for detail in objects(message.get(name), name):
                _add_detail(self._details.setdefault(name, []), detail)
                parts += "".join([string(detail.get(key), name) for key in _SHOWN])
        self._member = self._member or member
        if written or parts:
            yield from self.add_piece(self._reasoning, written or parts)

    def _known_call(self, place: tuple[int, int] | None, piece: CallPiece) -> Block | None:
        """Return the call that a piece continues: by index, by id, and by what is complete."""
        known = None if place is None else self._places.get(place)
        if piece.id and (known is None or known.members.get("id") != piece.id):
            with_id = self._ids.get(piece.id)
            # A name at an index of its own is another call, even with an id that was used before.
            if with_id is not None and (place is None or known is not None or not piece.name):
                known = with_id
        if known is None and place is None and self.calls and not (piece.id and piece.name):
            known = self.calls[-1]
        return known

    def _take_call(self, choice: int, piece: CallPiece) -> Iterator[ReplyDelta]:
        """Add a piece of a call.

        Some servers omit the index or always send 0, and some send ids that are empty, late, repeated, or another one
        in each piece.
        """
        place = None if piece.index is None else (choice, piece.index)
        known = self._known_call(place, piece)
        if known is not None:
            begins, name = piece.begins_after(known), known.members["name"]
            if self._repeated is known and not piece.name and piece.has_arguments and is_complete(known.text):
                piece, begins = replace(piece, name=name), True
            # A name that is repeated alone after a complete call may be that of the next one.
            is_alone = not begins and piece.name == name and not piece.has_arguments and is_complete(known.text)
            self._repeated = known if is_alone else None
            if not begins:
                yield self._extend(known, piece)
                return
        yield from self._begin_call(piece, place)

    def _begin_call(self, piece: CallPiece, place: tuple[int, int] | None = None) -> Iterator[ReplyDelta]:
        # A server that supports stop strings would not have sent a call after one.
        if not self.cut.done:
            block = self.begin_block("call", {})
            self.begin_call(block)
            if place is not None:
                self._places[place] = block
            yield self._extend(block, piece)

    def _extend(self, block: Block, piece: CallPiece) -> ReplyDelta:
        """Add a piece to a call."""
        name, arguments, given, shown = piece.name, piece.arguments, "", 0
        known, pieces = block.members.setdefault("name", ""), block.pieces.setdefault(0, [])
        if name.startswith(known):
            # A whole name that is repeated, or grows; other pieces are joined, as the official client does.
            name = name[len(known) :]
        elif pieces:
            name = ""
        if arguments[:1] == "{" and pieces:
            written = block.text
            if arguments == written and is_complete(written):
                # The same event twice.
                arguments = ""
            elif written.strip() == "{}" or (len(arguments) > len(written) > 1 and arguments.startswith(written)):
                # Some gateways begin with an empty object, or send all of the arguments each time.
                pieces.clear()
                shown = len(written)
        block.members["name"] = known + name
        if arguments:
            pieces.append(arguments)
        if piece.id and "id" not in block.members:
            block.members["id"] = piece.id
            # Results need ids of their own, so one that an earlier call has is not used.
            if self._ids.setdefault(piece.id, block) is block:
                given = piece.id
        if piece.extras:
            block.members["extras"] = piece.extras
        return ReplyDelta(index=block.position, call_id=given, name=name, arguments=arguments[shown:])

    def _text_of(self, block: Block) -> str:
        return block.text

    def _call_of(self, block: Block) -> ToolCall:
        return ToolCall(block.members.get("id", ""), block.members["name"], block.text)

    def _reasoning_of(self, block: Block) -> tuple[str, JSON | None]:
        if block is not self._reasoning:
            return "", None
        data: JSON = {
            name: [
                {key: "".join(one) if isinstance(one, _Pieces) else one for key, one in part.items()}
                for part in details
            ]
            for name, details in self._details.items()
        }
        if "reasoning_details" not in data and self._member and (block.pieces or self.calls):
            # DeepSeek requires the member beside calls even if it is empty.
            data[self._member] = block.text
        extras = {one.call.id: one.members["extras"] for one in self.calls if one.call and "extras" in one.members}
        if extras:
            data[CALL_EXTRAS] = extras
        return block.text, data or None

    def _count(self, usage: JSON) -> None:
        counts = self.add_counts(read_counts(to_object(usage.get("usage")) or usage))
        if any(counts.values()):
            self.usage = to_usage(counts)

    @property
    def complete(self) -> bool:
        """True after [DONE], and after the finish reason and the usage."""
        return self.ended or (self.finish is not None and self.usage is not None)

    @property
    def answered(self) -> bool:
        """True after the finish reason: some servers send nothing behind it."""
        said = bool(self.written or self.calls or self._refusals)
        return self.finish is not None or (said and (self.ended or self._is_odd))

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises as `Draft.reply` does, also for what a filter or a broken call left empty.

        What may have been a call is ignored beside a text at which the server says that it stopped.
        """
        is_answer = self._reasons and self.finish in {"stop", "length"} and "".join(self.written).strip()
        if self._odd_call and (self.calls or not is_answer):
            raise self.invalid(f"sent an invalid reply ({self._odd_call})")
        if self.answered and not self.calls and not "".join(self.written).strip():
            reason = f"finish_reason {self.endpoint.quote(', '.join(self._reasons)) or None}"
            said = self.endpoint.quote("".join(self._refusals))
            if any(map(BROKEN_CALL.search, self._reasons)):
                raise invalid_call_error(self.endpoint, reason)
            if said or any(map(FILTERED.search, self._reasons)):
                raise refusal_error(self.endpoint, f"{reason}: {said}" if said else reason)
        return Draft.reply(self)


# Any: a value of JSON.
def _text_of(part: Any) -> Any:
    match part:
        case {"type": str(kind)} if kind not in _TEXT_PARTS:
            return ""
        case {"text": text} | {"refusal": text}:
            return text  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return ""
        case _:
            return part


def _add_detail(details: list[JSON], piece: JSON) -> None:
    """Add a part of the reasoning, or a piece of the last part, as OpenRouter and LiteLLM stream them.

    Pieces of one part have the same type, index and id, as far as they have them; a signature ends a part of Anthropic.
    """
    last: JSON = details[-1] if details else {}
    differs = any(last.get(key) != piece.get(key, last.get(key)) for key in ("type", "index", "id"))
    ended = last.get("type") == "redacted_thinking" or (last.get("signature") and piece.get("thinking"))
    if not details or differs or ended:
        last = {}
        details.append(last)
    for key, value in piece.items():
        if key in _PIECES and isinstance(value, str):
            before = last.get(key)
            last[key] = before if isinstance(before, _Pieces) else _Pieces()
            last[key].append(value)
        elif value is not None or key not in last:
            last[key] = value


class _Pieces(list[str]):
    """The pieces of a string, which are joined once."""


def read_counts(usage: JSON) -> dict[str, int]:
    """Return the counts of a usage, under the names of both APIs; those of the cache also of DeepSeek and Moonshot."""
    prompt = to_object(usage.get("prompt_tokens_details")) or to_object(usage.get("input_tokens_details"))
    completion = to_object(usage.get("completion_tokens_details"))
    cached = (prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    return {
        "prompt": to_count(usage.get("prompt_tokens")) or to_count(usage.get("input_tokens")),
        "completion": to_count(usage.get("completion_tokens")) or to_count(usage.get("output_tokens")),
        "reasoning": to_count(completion.get("reasoning_tokens")) or to_count(usage.get("reasoning_tokens")),
        "total": to_count(usage.get("total_tokens")),
        "cached": max(map(to_count, cached)),
    }


def to_usage(counts: Mapping[str, int]) -> Usage:
    """Return the usage. Gemini and xAI count the reasoning in the total alone, which is believed then."""
    prompt, written = counts["prompt"], counts["completion"]
    if not prompt and written:
        prompt = max(0, counts["total"] - written)
    if counts["reasoning"] > written:
        written += counts["reasoning"]
    if counts["cached"] > prompt:
        # Counted apart, as Anthropic does.
        prompt += counts["cached"]
    return Usage(prompt, max(written, counts["total"] - prompt), counts["cached"])
