"""Streams with one mutation: an event dropped, doubled or exchanged with the next, or a member of another type.

Only mutations that a reader can notice, or that change nothing: where nothing else in a stream tells of a piece, no
client can know that it is missing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from graphexec.models.http.json_values import to_object
from tests.models.wire_corpus import JSON, Shape

# The members and indices that lead to a value.
Path: TypeAlias = tuple[str | int, ...]

# Members without which a part of the reply has no place, no name or no end.
_STRUCTURE = frozenset({"type", "index", "output_index", "content_index", "name", "finish_reason", "stop_reason"})
# Members that hold a part of the reply.
_CONTENTS = frozenset(
    {"content", "text", "delta", "arguments", "partial_json", "thinking", "reasoning", "refusal", "reasoning_content"}
    | {"signature", "input", "explanation", "encrypted_content", "summary"}
)
# Members with the reason for the end: one that cannot be read is "other", and does not cost the answer.
_REASONS = frozenset({"finish_reason", "stop_reason", "incomplete_details"})
# Values that no reader takes for an absent one, or for another text.
_LOUD: tuple[Any, ...] = (1.5, True, [7])
_OTHERS: tuple[Any, ...] = (None, "x", 1.5, -1, True, [], [7], {}, {"a": 1})


@dataclass(frozen=True)
class Mutation:
    """A mutated stream. `lost` are the parts of the reply that may then differ: `usage`, `id`, and `finish`.

    A lost finish reason is "other", so that a reply that was cut never seems to be whole.
    """

    description: str
    events: tuple[str, ...]
    lost: frozenset[str] = frozenset()


@cache
def mutations(shape: Shape) -> tuple[Mutation, ...]:
    """Return every mutation of a stream."""
    return (*_drops(shape), *_doubles(shape), *_exchanges(shape), *_retypes(shape))


def _drops(shape: Shape) -> Iterator[Mutation]:
    events = shape.events
    for number, event in enumerate(events):
        # The rest of a call without its beginning is an error.
        follows = _parse(events[number + 1]) if number + 1 < len(events) else {}
        if not _has_content(shape, _parse(event)) or (_begins_call(_parse(event)) and _extends_call(follows)):
            lost = frozenset({"usage"} if "usage" in event else ())
            yield Mutation(f"event {number} dropped", (*events[:number], *events[number + 1 :]), lost)


def _doubles(shape: Shape) -> Iterator[Mutation]:
    events = shape.events
    for number, event in enumerate(events):
        if not _has_content(shape, _parse(event)) or _is_repeatable(_parse(event)):
            yield Mutation(f"event {number} doubled", (*events[: number + 1], *events[number:]))


def _exchanges(shape: Shape) -> Iterator[Mutation]:
    events = shape.events
    for number in range(len(events) - 1):
        first, second = (_part(shape, _parse(event)) for event in events[number : number + 2])
        if first and second and first != second:
            exchanged = (*events[:number], events[number + 1], events[number], *events[number + 2 :])
            yield Mutation(f"events {number} and {number + 1} exchanged", exchanged)


def _retypes(shape: Shape) -> Iterator[Mutation]:
    events = shape.events
    for number, event in enumerate(events):
        before, marker, text = event.rpartition("data:")
        if not marker or "\n" in text:
            continue
        for path, value in _paths(_parse(event)):
            if {"input", "arguments"} & {*path[:-1]}:
                # Another argument is another call.
                continue
            names = frozenset(part for part in path if isinstance(part, str))
            lost = {"usage"} if "usage" in names or "usage" in json.dumps(value) else set[str]()
            if names & {"id", "call_id", "item_id"}:
                lost.add("id")
            if names & _REASONS:
                lost.add("finish")
            for other in _other_values(path, value):
                data = copy.deepcopy(_parse(event))
                _set(data, path, other)
                changed = f"{before}data: {json.dumps(data)}"
                description = f"event {number}, {'.'.join(map(str, path))} = {other!r}"
                yield Mutation(description, (*events[:number], changed, *events[number + 1 :]), frozenset(lost))


def _other_values(path: Path, value: Any) -> list[Any]:
    """Return values of other types. Those of a part of the reply are no values that mean another reply."""
    name = _name(path)
    holds = _holds_reply(path, value) or name in _CONTENTS | _STRUCTURE
    # A part of which nobody says what it is may be the answer.
    others = (*_LOUD, None) if name == "type" else _LOUD if holds else _OTHERS
    if name in _STRUCTURE & _REASONS and value:
        others += ({},)
    return [other for other in others if type(other) is not type(value)]


def _holds_reply(path: Path, value: Any) -> bool:
    """Return whether a value is, or has within it, a part of the reply."""
    if _name(path) in _CONTENTS | _STRUCTURE and value not in (None, "", [], {}):
        return True
    return any(_holds_reply((*path, *inner), one) for inner, one in _paths(value))


def _name(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _part(shape: Shape, data: JSON) -> str:
    """Return the name of the part that an event belongs to; events of different parts may come in any order.

    It is empty for an event that has its place.
    """
    kind: str = data.get("type", "")
    if kind == "ping":
        return kind
    if shape.api == "anthropic":
        return f"block {data['index']}" if kind in {"content_block_delta", "content_block_stop"} else ""
    if shape.api == "responses":
        return f"item {data['output_index']}" if "output_index" in data and not kind.endswith(".added") else ""
    if data.get("usage"):
        return "" if _choices(data) else "usage"
    if any(choice.get("finish_reason") for choice in _choices(data)):
        return "" if _has_content(shape, data) else "finish"
    calls = [call for delta in _deltas(data) for call in _objects(delta.get("tool_calls"))]
    if calls:
        # Calls begin in their order.
        begins = any(to_object(call.get("function")).get("name") for call in calls)
        return "" if begins or "index" not in calls[0] else f"call {calls[0]['index']}"
    found = [name for delta in _deltas(data) for name in _CONTENTS if delta.get(name)]
    return found[0] if len(found) == 1 else ""


def _has_content(shape: Shape, data: JSON) -> bool:
    """Return whether an event has a part of the reply that no other event repeats."""
    if shape.api == "responses":
        # The final response repeats all of them.
        return False
    if shape.api == "anthropic":
        block = to_object(data.get("content_block"))
        begun = block.get("text") or block.get("thinking") or block.get("type") == "tool_use"
        return data.get("type") == "content_block_delta" or bool(begun)
    parts = [*_choices(data), *_deltas(data)]
    return any(part.get(name) for part in parts for name in _CONTENTS | {"tool_calls", "reasoning_details"} - {"delta"})


def _calls(data: JSON) -> list[JSON]:
    """Return the calls in an event, each with `id`, `name` and `arguments`."""
    block = to_object(data.get("content_block"))
    if block.get("type") == "tool_use":
        return [{"id": block.get("id"), "name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}]
    calls = [call for delta in _deltas(data) for call in _objects(delta.get("tool_calls"))]
    return [{"id": call.get("id"), **to_object(call.get("function"))} for call in calls]


def _begins_call(data: JSON) -> bool:
    found = _calls(data)
    return bool(found) and all(one.get("name") and one.get("arguments") in (None, "", "{}") for one in found)


def _extends_call(data: JSON) -> bool:
    found = _calls(data)
    more = bool(found) and all(one.get("arguments") and not one.get("name") for one in found)
    return more or bool(to_object(data.get("delta")).get("partial_json"))


def _is_repeatable(data: JSON) -> bool:
    """Return whether an event has calls with ids, each without arguments or with all of them."""
    found = _calls(data)
    return bool(found) and all(one.get("id") and one.get("name") and _is_whole(one.get("arguments")) for one in found)


def _is_whole(arguments: Any) -> bool:
    try:
        return isinstance(json.loads(arguments or "{}") if isinstance(arguments, str) else arguments or {}, dict)
    except ValueError:
        return False


def _parse(event: str) -> JSON:
    """Return the data of an event; an empty object if they are not an object of JSON."""
    try:
        return to_object(json.loads(event.rpartition("data:")[2]))
    except ValueError:
        return {}


def _choices(data: JSON) -> list[JSON]:
    return _objects(data.get("choices"))


def _deltas(data: JSON) -> list[JSON]:
    return [to_object(choice.get(name)) for choice in _choices(data) for name in ("delta", "message")]


def _objects(value: Any) -> list[JSON]:
    return [to_object(one) for one in _list(value)]


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list) else []


def _paths(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the values within a value, and the paths to them."""
    items: list[tuple[str | int, Any]] = [*enumerate(_list(value)), *to_object(value).items()]
    for name, one in items:
        yield (*path, name), one
        yield from _paths(one, (*path, name))


def _set(value: Any, path: Path, other: Any) -> None:
    for name in path[:-1]:
        value = value[name]
    value[path[-1]] = other
