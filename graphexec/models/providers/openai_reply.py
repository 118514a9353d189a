"""Decode replies of OpenAI-compatible servers: whole replies, and the chunks of a stream.

One rule: what a server says last and most completely wins; what is odd beside the answer never costs the answer; what
is lost is an error, never an empty success. So members of other types are read where they can be, and else ignored,
unless they hold the answer.

Source: OpenAI's API reference; comments name servers that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from graphexec.errors import ModelError, OverloadedError, ServerError
from graphexec.messages import FinishReason, ModelReply, Reasoning, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ERROR_MEMBERS, ErrorReport, error_in_body, invalid_call_error, refusal_error
from graphexec.models.http.json_bodies import JSON, count, invalid_reply, objects, parse, string, to_object
from graphexec.models.http.meanings import BROKEN_CALL, FILTERED
from graphexec.models.providers.openai_calls import CallPiece, is_complete, read_calls

_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}
# The reply was cut, because the server failed: OpenRouter, Zhipu, DeepSeek.
_FAILED = {"error": ServerError, "network_error": ServerError, "insufficient_system_resource": OverloadedError}

# The members of a message in which servers write the reasoning, and read it again beside tool calls: DeepSeek, vLLM and
# llama.cpp; OpenRouter, Groq and newer versions of vLLM; OpenRouter for parts with signatures; LiteLLM for those of
# Anthropic.
_TEXTS, _LISTS = ("reasoning_content", "reasoning"), ("reasoning_details", "thinking_blocks")
REASONING_MEMBERS = (*_TEXTS, *_LISTS)
_REASONING = frozenset(REASONING_MEMBERS)
# The members of such a part that are shown, and those whose pieces are joined.
_SHOWN = ("text", "summary", "thinking")
_PIECES = {*_SHOWN, "data"}
# The types of the parts of a content that are the reply's text; some servers omit the type.
_TEXT_PARTS = ("text", "output_text", "refusal", "")
# In the data of a reasoning, the extra members of the calls by their ids.
CALL_EXTRAS = "extra_content"


def decode(body: bytes, endpoint: Endpoint, *, chat: bool, stops: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first of the `stops`.

    Raises `InvalidReplyError` if the body does not follow the protocol, and another `ModelError` if it reports one.
    """
    draft = ChatStream(endpoint, stops)
    for _ in draft.take_whole(parse(body, endpoint), chat=chat):
        # The deltas are not needed.
        pass
    return draft.whole_reply()


@dataclass(slots=True)
class ChatStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`.

    Several choices are one reply: some gateways send the text in one, and each call in another.
    """

    # After [DONE], everything is ignored, even a broken connection.
    _done: bool = field(default=False, init=False)
    # The counts so far, by their names here.
    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)
    # The text as it came, with which a final message begins.
    _said: list[str] = field(default_factory=list[str], init=False)
    # The text of a refusal, the server's own reasons, and those of Gemini, OpenRouter and others beside them.
    _refusals: list[str] = field(default_factory=list[str], init=False)
    _reasons: list[str] = field(default_factory=list[str], init=False)
    # The last call at each index of a choice, and the ids that the server gave, by position.
    _positions: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int], init=False)
    _given: dict[int, str] = field(default_factory=dict[int, str], init=False)
    # The call whose name was repeated without arguments when it was complete: perhaps another one begins.
    _repeated: int | None = field(default=None, init=False)
    # The pieces of the reasoning, the member that has it, and its parts with signatures by member.
    _thoughts: list[str] = field(default_factory=list[str], init=False)
    _member: str = field(default="", init=False)
    _details: dict[str, list[JSON]] = field(default_factory=dict[str, list[JSON]], init=False)
    # What a provider added to a call, by the call's position.
    _extras: dict[int, JSON] = field(default_factory=dict[int, JSON], init=False)

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self._done or not data:
            return
        if data[0] != "{":
            if data.strip() == "[DONE]":
                self._done = True
                if self.finish is None and (self.texts or self.calls):
                    # Some servers send no reason.
                    self.finish = "tool_calls" if self.calls else "stop"
                yield from self.end_text()
                return
            if self.finish is not None:
                # What is no object cannot belong to the answer.
                return
        chunk = parse(data, self.endpoint)
        # The chunk with the usage and Azure's first chunk have no choices.
        choices = objects(chunk.get("choices"), self.endpoint, "choices")
        if self.finish is None:
            self._check(chunk, choices, answered=bool(choices or self._counts) or "choices" in chunk)
        yield from self._take(chunk, choices, whole=False)
        if self.finish is not None:
            yield from self.end_text()

    def take_whole(self, body: JSON, *, chat: bool) -> Iterator[ReplyDelta]:
        """Add a whole reply and yield its deltas."""
        choices = objects(body.get("choices"), self.endpoint, "choices")
        self._check(body, choices, answered=bool(choices))
        if not choices:
            raise invalid_reply(self.endpoint, "sent a reply without choices")
        if all({"message", "delta", "text"}.isdisjoint(choice) for choice in choices):
            raise invalid_reply(self.endpoint, f"sent a choice without a {'message' if chat else 'text'}")
        yield from self._take(body, choices, whole=True)
        yield from self.end_text()

    def _check(self, body: JSON, choices: list[JSON], *, answered: bool) -> None:
        """Raise the error that a body reports, at its top or in a choice."""
        for one in (body, *choices, *[to_object(choice.get("message")) for choice in choices]):
            is_answered = answered or one is not body
            if is_answered and ERROR_MEMBERS.isdisjoint(one):
                continue
            report = ErrorReport.in_reply(one, answered=is_answered)
            if report is not None:
                raise error_in_body(self.endpoint, report)

    def _take(self, body: JSON, choices: list[JSON], *, whole: bool) -> Iterator[ReplyDelta]:
        if not self.model and isinstance(model := body.get("model"), str):
            self.model = model
        # Groq and Moonshot count in members of their own.
        for usage in (body.get("usage"), body.get("x_groq"), *[choice.get("usage") for choice in choices]):
            if usage and isinstance(usage, dict):
                self._count(usage)  # pyright: ignore[reportUnknownArgumentType]
        for number, choice in enumerate(choices):
            written: Any = choice.get("delta") or choice.get("message")
            message = to_object(written)
            if written and not message:
                raise invalid_reply(self.endpoint, "sent a message of another type")
            if whole or (not choice.get("delta") and self._is_last(body, choice, message)):  # pyright: ignore[reportUnknownArgumentType]
                yield from self._take_message(number, choice, message)
            else:
                yield from self._take_piece(number, choice, message)
            if reason := choice.get("finish_reason"):
                self._finish(string(reason, self.endpoint, "a finish_reason"), choice.get("native_finish_reason"))

    def _is_last(self, body: JSON, choice: JSON, message: JSON) -> bool:
        """Return whether an event of a stream has the whole message, as the last one of MiniMax."""
        said, content = "".join(self._said), message.get("content")
        continues = said and isinstance(content, str) and content.startswith(said) and choice.get("finish_reason")
        return bool(message and (continues or body.get("object") == "chat.completion"))

    # Any: a value of JSON.
    def _finish(self, reason: str, native: Any) -> None:
        told = [one for one in (reason, native) if isinstance(one, str) and one not in self._reasons]
        self.keep(*told)
        self._reasons += told
        if failed := _FAILED.get(reason.lower()):
            fact = f"failed within its reply (finish_reason {reason}); try again later"
            raise failed(f"{self.endpoint} {fact}", status=200)
        meant = _FINISH_REASONS.get(reason.lower(), "other")
        # Of several choices, the one with the calls may not be the last.
        if meant != "stop" or self.finish in {None, "other"}:
            self.finish = meant

    def _take_message(self, number: int, choice: JSON, message: JSON) -> Iterator[ReplyDelta]:
        """Add a whole message, or the text of a completion. After a stream, only what that has not said is new."""
        before = "".join(self._said)
        begun = bool(before or self.calls or self._thoughts)
        if not self._thoughts or number:
            yield from self._take_reasoning(message, whole=True)
        said = _text(message.get("content") if message else choice.get("text"), self.endpoint)
        if number == 0 and before and (said.startswith(before) or before.startswith(said)):
            said = said[len(before) :]
        yield from self._say(said)
        self._refuse(message)
        known = len(self.calls) if begun and number == 0 else 0
        for place, piece in enumerate(read_calls(message, self.endpoint)):
            if place < known:
                yield from self._complete(place, piece)
            # A server that supports stop strings would not have sent a call after one.
            elif not self.cut.done:
                # The calls of a whole message are separate, even without an index or an id.
                yield self._extend(self.begin_call(None), piece)

    def _take_piece(self, number: int, choice: JSON, message: JSON) -> Iterator[ReplyDelta]:
        content = message.get("content") if message else choice.get("text")
        if not (isinstance(content, str) and _REASONING.isdisjoint(message)):
            yield from self._take_reasoning(message, whole=False)
        if content:
            yield from self._say(_text(content, self.endpoint))
        self._refuse(message)
        if "tool_calls" in message or "function_call" in message:
            index = choice.get("index")
            index = index if type(index) is int else number
            for piece in read_calls(message, self.endpoint):
                yield from self._take_call(index, piece)

    def _say(self, text: str) -> Iterator[ReplyDelta]:
        if text:
            self._said.append(text)
            yield from self.add_text(text)

    def _refuse(self, message: JSON) -> None:
        """Keep a refusal: OpenAI writes it here, and leaves the content null."""
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.keep(refusal)
            self._refusals.append(refusal)

    def _take_reasoning(self, message: JSON, *, whole: bool) -> Iterator[ReplyDelta]:
        """Add the reasoning. A member of another type is ignored; in a stream it may be a lost piece, and an error."""
        endpoint, content = None if whole else self.endpoint, message.get("content")
        written, member = "", ""
        for name in _TEXTS:
            text = string(message.get(name), endpoint, name)
            if isinstance(message.get(name), str) and (not member or (text and not written)):
                member, written = name, text
        parts = "" if isinstance(content, str) else "".join([_thought(one, endpoint) for one in objects(content)])
        for name in _LISTS:
            for detail in objects(message.get(name), endpoint, name):
                self.keep(*[one for one in detail.values() if isinstance(one, str)])
                _add_detail(self._details.setdefault(name, []), detail)
                parts += "".join([string(detail.get(key), endpoint, name) for key in _SHOWN])
        self._member = self._member or member
        self.keep(written)
        if written or parts:
            self._thoughts.append(written or parts)
            yield ReplyDelta(reasoning=written or parts)

    def reasoning(self) -> tuple[Reasoning, ...]:
        """Return the reasoning, with the data that is sent back beside the reply's calls."""
        text = "".join(self._thoughts)
        data: JSON = {name: list(map(_join, details)) for name, details in self._details.items()}
        if "reasoning_details" not in data and self._member and (text or self.calls):
            # DeepSeek requires the member beside calls even if it is empty.
            data[self._member] = text
        if self._extras:
            data[CALL_EXTRAS] = {self.calls[place].id: extras for place, extras in self._extras.items()}
        if not text and not data:
            return ()
        return (Reasoning(text, json.dumps(data) if data else "", self.endpoint.provider_name),)

    def _position(self, choice: int, piece: CallPiece) -> int | None:
        """Return the position of the call that a piece continues: by index, by id, and by what is complete."""
        place = None if piece.index is None else (choice, piece.index)
        known = None if place is None else self._positions.get(place)
        if piece.id and (known is None or self._given.get(known) != piece.id):
            with_id = next((at for at, given in self._given.items() if given == piece.id), None)
            # A name at an index of its own is another call, even with an id that was used before.
            if with_id is not None and (place is None or known is not None or not piece.name):
                known = with_id
        if known is None and place is None and self.calls and not (piece.id and piece.name):
            known = len(self.calls) - 1
        return known

    def _take_call(self, choice: int, piece: CallPiece) -> Iterator[ReplyDelta]:
        """Add a piece of a call.

        Some servers omit the index or always send 0, and some send ids that are empty, late, repeated, or another one
        in each piece. After the cut at a stop string there are no new calls.
        """
        position = self._position(choice, piece)
        begins = position is None
        if position is not None:
            call = self.calls[position]
            begins = piece.begins_after(call, self._given.get(position, ""))
            if self._repeated == position and not piece.name and piece.has_arguments and is_complete(call):
                piece, begins = piece.with_name(call.name), True
            # A name that is repeated alone after a complete call may be that of the next one.
            is_alone = not begins and piece.name == call.name and not piece.has_arguments and is_complete(call)
            self._repeated = position if is_alone else None
        if begins:
            if self.cut.done:
                return
            position = self.begin_call(None)
            if piece.index is not None:
                self._positions[choice, piece.index] = position
        assert position is not None, "it is known, or begun"
        yield self._extend(position, piece)

    def _complete(self, position: int, piece: CallPiece) -> Iterator[ReplyDelta]:
        """Add what a final message says of a call that has been streamed, where that is more."""
        call = self.calls[position]
        shown = len("".join(call.arguments))
        if len(piece.arguments) > shown or (piece.has_arguments and not is_complete(call)):
            call.arguments.clear()
        else:
            piece = replace(piece, arguments="")
        yield self._extend(position, piece, shown)

    def _extend(self, position: int, piece: CallPiece, shown: int = 0) -> ReplyDelta:
        """Add a piece to a call. Of its arguments, the first characters have been `shown`."""
        call, name, arguments, given = self.calls[position], piece.name, piece.arguments, ""
        if name.startswith(call.name):
            # A whole name that is repeated, or grows; other pieces are joined, as the official client does.
            name = name[len(call.name) :]
        elif call.arguments:
            name = ""
        if arguments[:1] == "{" and call.arguments:
            written = "".join(call.arguments)
            if arguments == written and is_complete(call):
                # The same event twice.
                arguments = ""
            elif written.strip() == "{}" or (len(arguments) > len(written) > 1 and arguments.startswith(written)):
                # Some gateways begin with an empty object, or send all of the arguments each time.
                call.arguments.clear()
                shown = len(written)
        self.keep(piece.id, name, arguments)
        call.name += name
        if arguments:
            call.arguments.append(arguments)
        if piece.id and position not in self._given:
            self._given[position] = piece.id
            # Results need ids of their own, so one that an earlier call has is not used.
            if self.free_id(piece.id) == piece.id:
                call.id = given = piece.id
        if piece.extras:
            self.keep(str(piece.extras))
            self._extras[position] = piece.extras
        return ReplyDelta(index=position, call_id=given, name=name, arguments=arguments[shown:])

    def _count(self, usage: JSON) -> None:
        """Count the tokens. Of several counts, the highest one is the last: a stream may end with zeros."""
        found = _counts(to_object(usage.get("usage")) or usage)
        self._counts = {name: max(number, self._counts.get(name, 0)) for name, number in found.items()}
        if any(self._counts.values()):
            self.usage = _usage(self._counts)

    @property
    def complete(self) -> bool:
        """True after [DONE], and after the finish reason and the usage."""
        return self._done or (self.finish is not None and self.usage is not None)

    @property
    def answered(self) -> bool:
        """True after the finish reason: some servers send nothing behind it."""
        return self.finish is not None or (self._done and bool(self._said or self.calls or self._refusals))

    def whole_reply(self) -> ModelReply:
        """Return the reply so far. Raises `RefusalError` for a refusal, or what a filter has removed."""
        if not self.calls and not "".join(self.texts).strip():
            error = self._empty_error()
            if error is not None:
                raise error
        return Draft.whole_reply(self)

    def _empty_error(self) -> ModelError | None:
        """Return the error that an empty reply means: a refusal, a filter, or a call that could not be read."""
        reason = f"finish_reason {self.endpoint.quote(', '.join(self._reasons)) or None}"
        said = self.endpoint.quote("".join(self._refusals))
        if any(map(BROKEN_CALL.search, self._reasons)):
            return invalid_call_error(self.endpoint, reason)
        if said or any(map(FILTERED.search, self._reasons)):
            return refusal_error(self.endpoint, f"{reason}: {said}" if said else reason)
        return None


# Any: a value of JSON.
def _text(content: Any, endpoint: Endpoint) -> str:
    """Return a content as a string, of parts or of one. Raises `InvalidReplyError` if it may hold a lost answer."""
    if isinstance(content, str):
        return content
    parts: list[Any] = [*content] if isinstance(content, list) else [content]
    return "".join(
        [string(_text_of(part) if isinstance(part, dict) else part, endpoint, "a content") for part in parts]
    )


# Any: a value of JSON.
def _text_of(part: Any) -> Any:
    match part:
        case {"type": str(kind)} if kind not in _TEXT_PARTS:
            return ""
        case {"text": text} | {"refusal": text}:
            return text  # pyright: ignore[reportUnknownVariableType]
        case _:
            return part


def _thought(part: JSON, endpoint: Endpoint | None) -> str:
    """Return the reasoning in a part of a content: Mistral writes `thinking` parts before `text` parts."""
    inner = part.get("thinking") if part.get("thinking") is not None else part.get("summary")
    if isinstance(inner, str):
        return inner
    return "".join([string(one.get("text"), endpoint, "a thought") for one in objects(inner, endpoint, "a thought")])


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


def _join(detail: JSON) -> JSON:
    return {key: "".join(value) if isinstance(value, _Pieces) else value for key, value in detail.items()}


def _counts(usage: JSON) -> dict[str, int]:
    """Return the counts of a usage; those of the cache under the names of OpenAI, DeepSeek and Moonshot."""
    prompt, completion = (to_object(usage.get(f"{name}_tokens_details")) for name in ("prompt", "completion"))
    cached = (prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    return {
        "prompt": count(usage.get("prompt_tokens")) or count(usage.get("input_tokens")),
        "completion": count(usage.get("completion_tokens")) or count(usage.get("output_tokens")),
        "reasoning": count(completion.get("reasoning_tokens")) or count(usage.get("reasoning_tokens")),
        "total": count(usage.get("total_tokens")),
        "cached": max(map(count, cached)),
    }


def _usage(counts: dict[str, int]) -> Usage:
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
