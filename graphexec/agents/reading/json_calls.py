"""Read JSON as the calls of tools, in the forms in which models and servers write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from graphexec._parsing import compile_lazily, match_end
from graphexec._parsing.json import find_end, read_container
from graphexec.agents.reading.json_text import ARGUMENT_KEYS, NAME_KEYS, normalize_key
from graphexec.agents.reading.text_parsing import END_TOKENS
from graphexec.tools import AnyTool


def make_token_pattern(words: str) -> str:
    """Return the pattern of a token that DeepSeek writes with full-width bars and other underscores than Kimi."""
    return rf"<[|\uff5c]tool_{words}[|\uff5c]>".replace("_", r"[_\u2581]")


_WHITESPACE = compile_lazily(r"\s*+")
# What may stand between two calls, and after the last one.
BETWEEN = compile_lazily(
    rf"(?:[\s;,]|{'|'.join(map(re.escape, END_TOKENS))}"
    rf"|</(?:tool_calls?|tools|function_calls?)>|{make_token_pattern('calls(?:_section)?_end')})*+"
)

# The names of members as `read_fields` returns them. Models explain their calls.
OTHER_KEYS = frozenset({"id", "type", "index", "callid", "thought", "thoughts", "reasoning", "reason", "explanation"})

# The members of a message that hold its calls.
_CALLS_KEYS = frozenset({"toolcalls", "toolcall", "functioncalls", "functioncall"})


@dataclass(frozen=True, slots=True)
class TextualCall:
    """A call in the text of a reply."""

    name: str
    # Any JSON: what the model gave as the arguments.
    arguments: Any
    # What makes the call unclear.
    problem: str = ""


class NotACallError(ValueError):
    """The text is not a call."""


def read_json(text: str, position: int) -> tuple[Any, int]:
    """Return the JSON object or list at a position, and the position after it. Raises `ValueError` if there is none."""
    start = match_end(_WHITESPACE(), text, position)
    end = find_end(text, start) if text.startswith(("{", "["), start) else None
    if end is None:
        raise NotACallError("it has no complete JSON object")
    return read_container(text[start:end]), end


def read_json_values(text: str) -> list[Any]:
    """Return the objects and lists that a text consists of. Raises `ValueError` if it does not."""
    values: list[Any] = []
    position = 0
    while position < len(text):
        value, position = read_json(text, position)
        values.append(value)
        position = match_end(BETWEEN(), text, position)
    return values


def to_calls(value: Any, tools: Mapping[str, AnyTool], *, tagged: bool) -> list[TextualCall]:
    """Return the calls in JSON, none if it is not made of calls.

    Arguments may be missing if the call is `tagged`, if its tool requires none, or if more than a `name` names a tool.
    """
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        several = [to_calls(item, tools, tagged=tagged) for item in items]
        return [call for calls in several for call in calls] if all(several) else []
    if not isinstance(value, dict):
        return []
    # The keys of a JSON object are strings.
    members = read_members(value)  # pyright: ignore[reportUnknownArgumentType]
    keys = [key for key, _ in members]
    if (held := _find_held_calls(members)) is not None:
        return to_calls(held, tools, tagged=tagged)
    names = [item for key, item in members if key in NAME_KEYS]
    arguments = [item for key, item in members if key in ARGUMENT_KEYS]
    # OpenAI's form.
    inner = [call for name in names if isinstance(name, dict) for call in to_calls(name, tools, tagged=tagged)]
    resolve = find_tool_name if arguments or tagged else _remove_namespace
    strings = dict.fromkeys(resolve(name, tools) for name in names if isinstance(name, str))
    if inner:
        names = [*strings, *(call.name for call in inner)]
        arguments += [call.arguments for call in inner]
    differing = [words for words, items in (("names", names), ("arguments", arguments)) if items[1:] != items[:-1]]
    unknown = [key for key in keys if key not in {*NAME_KEYS, *ARGUMENT_KEYS, *OTHER_KEYS}]
    problem = f"it has different {' and '.join(differing)}" if differing else ""
    if unknown and not problem:
        problem = f"it has a member {unknown[0]}"
    # Calls with different names are refused if one of them is a tool.
    given: Any = arguments[0] if arguments else {}
    calls = [replace(call, problem=problem or call.problem) for call in inner]
    known = {call.name for call in inner}
    calls += [TextualCall(name, given, problem) for name in strings if name not in known]
    data = not tagged and not arguments and "name" in keys
    return [
        call for call in calls if not data or (call.name in tools and not tools[call.name].parameters.get("required"))
    ]


def read_members(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the members of a JSON object by their normalized names, also those that have the same name."""
    return [(normalize_key(key), item) for key, item in value.items()]


def _find_held_calls(members: Sequence[tuple[str, Any]]) -> Any:
    """Return the calls in a message as servers write it, without other content; `None` if it is no such message."""
    held = [item for key, item in members if key in _CALLS_KEYS and item]
    others = (item for key, item in members if key not in {*_CALLS_KEYS, *OTHER_KEYS, "role"})
    return held[0] if len(held) == 1 and not any(others) else None


def contains_call(value: Any, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether JSON has a call of a known tool with arguments at any depth, or is `{"tool": {arguments}}`."""
    remaining = [value]
    while remaining:
        one: Any = remaining.pop()
        if isinstance(one, dict):
            # The keys of a JSON object are strings.
            fields: dict[str, Any] = one  # pyright: ignore[reportUnknownVariableType]
            if len(fields) == 1 and any(name in tools and are_arguments(fields[name], tools[name]) for name in fields):
                return True
            members = read_members(fields)
            has_arguments = any(key in ARGUMENT_KEYS for key, _ in members)
            calls = [call for call in to_calls(fields, tools, tagged=False) if call.name in tools and not call.problem]
            if any(has_arguments or call.arguments for call in calls):
                return True
            remaining += [item for _, item in members]
        elif isinstance(one, list):
            remaining += one  # pyright: ignore[reportUnknownArgumentType]
    return False


def are_arguments(value: Any, tool: AnyTool) -> bool:
    """Return whether JSON has arguments of a tool, with all that it requires, and nothing else."""
    if not isinstance(value, dict) or not value:
        return False
    names: set[str] = set(value)  # pyright: ignore[reportUnknownArgumentType]
    return names >= set(tool.parameters.get("required", ())) and names <= set(tool.parameters["properties"])


# What some models put before the name of a tool.
_NAMESPACE = compile_lazily(r"(?:functions|default_api|tools)[.:/]")


def find_tool_name(written: str, tools: Collection[str]) -> str:
    """Return the one tool that a name means, in any case and with any separators; else the name as it is."""
    bare = _remove_namespace(written, tools)
    if bare in tools:
        return bare
    bare = normalize_key(_NAMESPACE().sub("", written.strip(), count=1))
    found = _group_by_spelling(tuple(tools)).get(bare, ())
    return found[0] if len(found) == 1 else written


@lru_cache
def _group_by_spelling(names: tuple[str, ...]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(normalize_key(name), []).append(name)
    return groups


def _remove_namespace(name: str, tools: Collection[str]) -> str:
    """Return the name of a tool without the namespace that some models put before it."""
    bare = _NAMESPACE().sub("", name.strip(), count=1)
    return next((one for one in (name.strip(), bare) if one in tools), name)
