"""Read JSON as the calls of tools, in the forms in which models and servers write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import find_end, read_container
from graphexec.agents.reading.json_text import ARGUMENT_KEYS, NAME_KEYS, normalize_key
from graphexec.agents.reading.labels import match_end
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


def read_json_calls(text: str, tools: Mapping[str, AnyTool]) -> list[TextualCall]:
    """Return the calls that a text consists of, none if it is other JSON. Raises `ValueError` if it is not JSON."""
    calls: list[TextualCall] = []
    position = 0
    while position < len(text):
        value, position = read_json(text, position)
        new = to_calls(value, tools, tagged=False)
        if not new:
            return []
        calls += new
        position = match_end(BETWEEN(), text, position)
    return calls


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
    if keys == ["toolcalls"]:
        return to_calls(members[0][1], tools, tagged=tagged)
    names = [item for key, item in members if key in NAME_KEYS]
    arguments = [item for key, item in members if key in ARGUMENT_KEYS]
    # OpenAI's form.
    inner = [call for name in names if isinstance(name, dict) for call in to_calls(name, tools, tagged=tagged)]
    strings = dict.fromkeys(remove_namespace(name, tools) for name in names if isinstance(name, str))
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
    calls += [TextualCall(name, given, problem) for name in strings if all(call.name != name for call in inner)]
    data = not tagged and not arguments and "name" in keys
    return [call for call in calls if not data or (call.name in tools and not _requires_arguments(tools[call.name]))]


def read_members(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the members of a JSON object by their normalized names, also those that have the same name."""
    return [(normalize_key(key), item) for key, item in value.items()]


def remove_namespace(name: str, tools: Mapping[str, AnyTool]) -> str:
    """Return the name of a tool without the namespace that some models put before it."""
    bare = name.strip().removeprefix("functions.")
    return bare if bare in tools else name


def _requires_arguments(tool: AnyTool) -> bool:
    return bool(tool.parameters.get("required"))
