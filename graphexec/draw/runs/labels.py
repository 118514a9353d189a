"""What is asked and answered, in words that fit beside an arrow or into a row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphexec.draw.model.text import counted, format_sum, plain
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.visits import limit_text
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.kernel.serialization import format_json

# The names of further calls are left out of what a model asks for.
_CALLS = 2
# The meters that are shown of what runs within a call were charged.
_COUNTED = (MODEL_CALLS.name, TOOL_CALLS.name)
# So long a piece of a word is left out.
_PIECE = 12


def shorten(text: str, most: int) -> str:
    """The beginning of a text as one line of at most `most` characters."""
    # Of a megabyte only the beginning is looked at; runs of white space count once.
    words = " ".join(plain(text[: 8 * most]).split())
    if len(text) <= 8 * most and len(words) <= most:
        return words
    return f"{words[: most - 1].rstrip()}…"


def end_of(text: str, most: int) -> str:
    """The end of a text, as `shorten` is its beginning: what a model is to go on with."""
    words = " ".join(plain(text[-8 * most :]).split())
    if len(text) <= 8 * most and len(words) <= most:
        return words
    begun, space, rest = words[1 - most :].partition(" ")
    # A piece of a word says little, unless it is most of what there is.
    return f"…{rest}" if space and len(begun) <= _PIECE else f"…{begun}{space}{rest}"


# Any, here and below: values are whatever JSON holds.
def format_data(value: Any, most: int) -> str:
    """Any data as one line: a text without quotes, all else as JSON."""
    if isinstance(value, str):
        return shorten(value, most)
    return shorten(format_json(value, ensure_ascii=False), most)


def format_effect(effect: Record, most: int) -> str:
    """What an effect asks for: `calculator(expression="37 * 48")`; of a prompt its end, of a function nothing."""
    match effect:
        case {"effect": "CallModel", "prompt": {"messages": [*messages]}} if messages:
            return _new(messages, most) or "go on"
        case {"effect": "CallModel", "prompt": _}:
            return "the same prompt again"
        case {"effect": "CallTool", "tool": str() as tool, "tool_input": given}:
            return called(tool, given, most)
        case {"effect": "AskHuman", "question": str() as question}:
            return shorten(question, most)
        case {"effect": "CallAgent"}:
            return "decide"
        case {"effect": "Perform"}:
            return "do it"
        case {"effect": str() as name, "value": value}:
            return called(name, value, most)
        case _:
            return shorten(str(effect["effect"]), most)


def format_reply(reply: Record, most: int) -> str:
    """What was replied; `failed` tells whether it is bad news."""
    match reply:
        case {"value": value}:
            limit = limit_text(value)
            return shorten(limit, most) if limit else _describe_decision(value, most) or format_data(value, most)
        case {"observation": observation}:
            return format_data(observation, most)
        case {"tool_calls": [*calls]} if calls:
            return _several([(call["name"], _parse_arguments(call["arguments"])) for call in calls], most)
        case {"content": str() as content}:
            return shorten(content, most) or "nothing"
        case _:
            return "answered"


def failed(reply: Record) -> str | None:
    """How a reply went wrong, in a word, if it did."""
    if limit_text(reply.get("value")):
        return "cut"
    status = reply.get("status", "ok")
    return None if status == "ok" else str(status).replace("_", " ")


def tokens(reply: Record) -> str | None:
    """The tokens that a model's reply took, `735 + 25 tokens`, where they were reported."""
    prompt, completion = reply.get("prompt_tokens", 0), reply.get("completion_tokens", 0)
    return f"{format_sum(prompt, completion)} tokens" if prompt or completion else None


def within(charged: Record) -> str | None:
    """Return what runs within a call were charged, `within it: 3 model calls`, or `None` for nothing."""
    facts = [
        counted(count, name.replace("_", " ").removesuffix("s")) for name, count in charged.items() if name in _COUNTED
    ]
    return f"within it: {', '.join(facts)}" if facts else None


def _new(messages: Sequence[Record], most: int) -> str:
    """What a prompt ends with: its last message, or the observations that are its last."""
    last = len(messages)
    while last and messages[last - 1]["role"] == "tool":
        last -= 1
    observations = [shorten(message["content"], most) for message in messages[last:]]
    return shorten("; ".join(observations), most) if observations else end_of(messages[-1]["content"], most)


def called(tool: str, given: Any, most: int) -> str:
    """Return a call as Python would write it, cut within its brackets."""
    short = shorten(tool, most // 2)
    return f"{short}({shorten(_arguments(given, most), max(most - len(short) - 2, 1))})"


def _arguments(given: Mapping[str, Any] | str, most: int) -> str:
    if not isinstance(given, Mapping):
        return format_json(given, ensure_ascii=False)
    parts: list[str] = []
    for name, value in given.items():
        if sum(map(len, parts)) > most:
            break
        parts.append(f"{name}={format_json(value, ensure_ascii=False)}")
    return ", ".join(parts)


def _parse_arguments(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _several(calls: Sequence[tuple[str, Any]], most: int) -> str:
    """The first calls, each in its share of the room, and how many more there are."""
    first = calls[:_CALLS]
    more = f", and {len(calls) - _CALLS} more" if len(calls) > _CALLS else ""
    room = (most - len(more) - 2 * (len(first) - 1)) // len(first)
    return ", ".join(called(name, given, room) for name, given in first) + more


def _describe_decision(value: Any, most: int) -> str | None:
    match value:
        case {"decision": [*actions]} if actions:
            return _several([(action["tool"], action["tool_input"]) for action in actions], most)
        case {"decision": {"return_values": {"output": output}}}:
            return f"answer: {format_data(output, most - 8)}"
        case {"decision": {"return_values": values}}:
            return f"answer: {format_data(values, most - 8)}"
        case {"decision": {"text": str() as text}}:
            return shorten(text, most)
        case _:
            return None
