"""Requests and replies as short labels that fit beside an arrow or into a row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from graphexec.draw.model.text import format_cached, format_quantity, format_sum, sanitize_line
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.visits import limit_text
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.kernel.serialization import format_json
from graphexec.messages.images import IMAGE_KIND, restore_images
from graphexec.messages.observations import format_observation

# Calls of a reply that a label names; further ones are only counted.
_CALLS = 2
# The meters of nested runs that a label shows.
_COUNTED = (MODEL_CALLS.name, TOOL_CALLS.name)
# A cut word of at most so many characters is omitted.
_PIECE = 12


def shorten(text: str, most: int) -> str:
    """Return the beginning of a text as one line of at most `most` characters."""
    # Reads only the beginning of a long text; consecutive white space counts as one space.
    words = " ".join(sanitize_line(text[: 8 * most]).split())
    if len(text) <= 8 * most and len(words) <= most:
        return words
    return f"{words[: most - 1].rstrip()}…"


def shorten_start(text: str, most: int) -> str:
    """Return the end of a text, as `shorten` returns its beginning: the part of a prompt that a model continues."""
    words = " ".join(sanitize_line(text[-8 * most :]).split())
    if len(text) <= 8 * most and len(words) <= most:
        return words
    begun, space, rest = words[1 - most :].partition(" ")
    # Omit the cut word at the beginning, unless it is long.
    return f"…{rest}" if space and len(begun) <= _PIECE else f"…{begun}{space}{rest}"


# Any, here and below: JSON values.
def format_data(value: Any, most: int) -> str:
    """Return data as one line: a string without quotes, a label for each image, anything else as JSON."""
    if isinstance(value, str):
        return shorten(value, most)
    text = _format_json(value)
    if IMAGE_KIND in text:
        with suppress(RecursionError):
            text = format_observation(restore_images(value))
    return shorten(text, most)


def _format_json(value: Any) -> str:
    """Return data as JSON, or as `…` if they are nested too deeply, as those of a file or of a model may be."""
    try:
        return format_json(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def format_effect(effect: Record, most: int) -> str:
    """Return the label of a request: `calculator(expression="37 * 48")`, or the end of a prompt."""
    match effect:
        case {"prompt": {"messages": [*messages]}} if messages:
            return _prompt_text(messages, most) or "continue"
        case {"prompt": _}:
            return "the same prompt again"
        case {"effect": "CallTool", "tool": str() as tool, "tool_input": given}:
            return format_call(tool, given, most)
        case {"effect": "AskHuman", "question": str() as question}:
            return shorten(question, most)
        case {"effect": "CallAgent"}:
            return "decide"
        case {"effect": "Perform"}:
            return "run"
        case {"effect": str() as name, "value": value}:
            return format_call(name, value, most)
        case _:
            return shorten(str(effect["effect"]), most)


def format_reply(reply: Record, most: int) -> str:
    """Return the label of a reply; `failure_label` says how it failed."""
    match reply:
        case {"value": value}:
            limit = limit_text(value)
            return shorten(limit, most) if limit else _describe_decision(value, most) or format_data(value, most)
        case {"observation": observation}:
            return format_data(observation, most)
        case {"tool_calls": [*calls]} if calls:
            return _format_calls([(call["name"], _parse_arguments(call["arguments"])) for call in calls], most)
        case {"content": str() as content}:
            return shorten(content, most) or "empty reply"
        case _:
            return "answered"


def failure_label(reply: Record) -> str | None:
    """Return one word for how a reply failed, or `None` if it did not."""
    if limit_text(reply.get("value")):
        return "cut"
    status = reply.get("status", "ok")
    return None if status == "ok" else str(status).replace("_", " ")


def format_tokens(reply: Record) -> str | None:
    """Return the tokens of a model's reply, `735 + 25 tokens, 512 cached`, or `None` if it reported none."""
    prompt, completion = reply.get("prompt_tokens", 0), reply.get("completion_tokens", 0)
    if not (prompt or completion):
        return None
    return f"{format_sum(prompt, completion)} tokens{format_cached(reply.get('cached_tokens', 0))}"


def format_reasoning(reply: Record, most: int) -> str | None:
    """Return the beginning of a reply's reasoning, `reasoning: First I ...`, or `None` if it has none."""
    reasoning = reply.get("reasoning")
    return shorten(f"reasoning: {reasoning}", most) if reasoning else None


def format_nested_usage(charged: Record) -> str | None:
    """Return the usage of nested runs, `nested runs: 3 model calls`, or `None` if there was none."""
    facts = [
        format_quantity(count, name.replace("_", " ").removesuffix("s"))
        for name, count in charged.items()
        if name in _COUNTED
    ]
    return f"nested runs: {', '.join(facts)}" if facts else None


def _prompt_text(messages: Sequence[Record], most: int) -> str:
    """Return the end of a prompt: its last message, or its last observations."""
    last = len(messages)
    while last and messages[last - 1]["role"] == "tool":
        last -= 1
    observations = [shorten(message["content"], most) for message in messages[last:]]
    return shorten("; ".join(observations), most) if observations else shorten_start(messages[-1]["content"], most)


def format_call(tool: str, given: Any, most: int) -> str:
    """Return a call in Python's notation; long arguments are cut."""
    short = shorten(tool, most // 2)
    return f"{short}({shorten(_arguments(given, most), max(most - len(short) - 2, 1))})"


def _arguments(given: Mapping[str, Any] | str, most: int) -> str:
    if not isinstance(given, Mapping):
        return _format_json(given)
    parts: list[str] = []
    for name, value in given.items():
        if sum(map(len, parts)) > most:
            break
        parts.append(f"{name}={_format_json(value)}")
    return ", ".join(parts)


def _parse_arguments(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _format_calls(calls: Sequence[tuple[str, Any]], most: int) -> str:
    """Return the labels of the first calls, of equal length, and the number of further calls."""
    first = calls[:_CALLS]
    more = f", and {len(calls) - _CALLS} more" if len(calls) > _CALLS else ""
    room = (most - len(more) - 2 * (len(first) - 1)) // len(first)
    return ", ".join(format_call(name, given, room) for name, given in first) + more


def _describe_decision(value: Any, most: int) -> str | None:
    match value:
        case {"decision": [{"tool": str(), "tool_input": _}, *_] as actions}:
            return _format_calls([(str(action["tool"]), action["tool_input"]) for action in actions], most)
        case {"decision": {"return_values": {"output": output}}}:
            return f"answer: {format_data(output, most - 8)}"
        case {"decision": {"return_values": values}}:
            return f"answer: {format_data(values, most - 8)}"
        case {"decision": {"text": str() as text}}:
            return shorten(text, most)
        case _:
            return None
