"""Find the JSON in the text of a reply: at its beginning, behind a label, in fences, and in prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphexec._parsing.json import STRING, find_end, read_container
from graphexec.agents.reading.labels import ACTION, OBSERVATION, Label, find_last
from graphexec.errors import ParseError, ToolDefinitionError
from graphexec.messages import ModelReply, separate_reasoning
from graphexec.tools import AnyTool


@dataclass(frozen=True, slots=True)
class Region:
    """JSON or a fence in a reply, from `start` to `end`; `begin` is where its content begins.

    `closed` is false if the region is not closed, and so extends to the end of the reply. JSON that is `claimed` stands
    where a decision belongs: at the beginning, behind `Action:`, or in a fence.
    """

    text: str
    start: int
    begin: int
    end: int
    closed: bool
    is_json: bool
    claimed: bool = False


_FENCE = "```"
_OPENING = re.compile(r"```+[ \t]{0,3}([\w+#.-]{0,20})\s*+")
# The languages of fences in which a decision may stand; JSON in a program is a part of the program.
_PLAIN = frozenset(
    {"", "json", "jsonc", "json5", "jsonl", "text", "txt", "plaintext", "markdown", "md", "react", "tool"}
)
# In an object, a quote or the closing brace follows the opening one; prose may have braces, too.
_OBJECT = r"\{\s{0,99}(?:[\"'“”„‘}]|\Z)"
_BEGINNING = re.compile(rf"{_FENCE}|(?:\[\s{{0,99}})?{_OBJECT}")
# Fences and brackets in a JSON string are text.
_STRING_OR_FENCE = re.compile(rf"{STRING}|{_FENCE}", re.DOTALL | re.VERBOSE)
# Characters: a label and the blanks behind it.
_LABEL_LENGTH = 60


def find_regions(text: str) -> Iterator[Region]:
    """Yield the JSON and the fences of a text, in order. A fence may be followed by the JSON within it."""
    position = 0
    closing = -1
    while found := _BEGINNING.search(text, position):
        start = found.start()
        if start == closing:
            position = start + len(_FENCE)
        elif found[0] != _FENCE:
            region = _make_bare(text, start)
            yield region
            position = region.end
        else:
            opening = _OPENING.match(text, start)
            assert opening is not None, "a fence was found"
            begin = opening.end()
            region = _make_fenced(text, start, begin)
            yield region
            position = region.end
            if not region.is_json and opening[1].lower() in _PLAIN:
                position, closing = begin, region.end - len(_FENCE) if region.closed else -1


def _make_bare(text: str, start: int) -> Region:
    end = find_end(text, start)
    closed = end is not None
    end = len(text) if end is None else end
    return Region(text[start:end].strip(), start, start, end, closed, is_json=True, claimed=_is_claimed(text, start))


def _is_claimed(text: str, start: int) -> bool:
    before = text[max(0, start - _LABEL_LENGTH) : start]
    if len(before) == start and not before.strip():
        return True
    label = find_last(ACTION.ways[-1], before)
    return label is not None and not before[label.end() :].strip(" \t\r\n*_`")


def _make_fenced(text: str, start: int, begin: int) -> Region:
    is_json = text.startswith(("{", "["), begin)
    if is_json:
        tokens = _STRING_OR_FENCE.finditer(text, begin)
        end = next((token.start() for token in tokens if token[0] == _FENCE), -1)
    else:
        end = text.find(_FENCE, begin)
    closed = end >= 0
    inner = text[begin : end if closed else len(text)].strip()
    return Region(inner, start, begin, end + len(_FENCE) if closed else len(text), closed, is_json, claimed=is_json)


@dataclass(frozen=True, slots=True)
class ReplyText:
    """The text of a reply without its reasoning, up to the first observation that the model invented.

    `unread` is the rest of the reply, from that observation on.
    """

    text: str
    unread: str


def read_text(reply: ModelReply, invented: Label = OBSERVATION) -> ReplyText:
    """Return the text of a reply for a parser.

    A line that begins with a label that only the program may write, such as `Observation:`, ends the text. In JSON and
    in a fence, such a line is a part of the model's own text.
    """
    text = separate_reasoning(reply).content
    found = invented.at_line.search(text)
    if found is None:
        return ReplyText(text, "")
    data = ((region.start, region.end) for region in find_regions(text) if region.closed)
    start, end = next(data, (len(text), 0))
    for found in invented.at_line.finditer(text):
        while end <= found.start() and start < len(text):
            start, end = next(data, (len(text), 0))
        if found.start() < start:
            return ReplyText(text[: found.start()].removesuffix("\n"), text[found.start() :])
    return ReplyText(text, "")


_ACTION_KEY = re.compile(r"[\"'“”‘]action[\"'“”’]\s{0,9}[:：]", re.IGNORECASE)


def find_decisions(text: str) -> list[Region]:
    """Return the JSON of a text that is a decision, or would be one if it could be read.

    JSON in prose is a decision if it has an action, or if it is cut. JSON where a decision belongs always is.
    """
    return [region for region in find_regions(text) if region.is_json and (region.claimed or decides(region))]


def decides(region: Region) -> bool:
    """Return whether JSON in prose has an action; if it cannot be read, whether it looks as if it had one."""
    try:
        value = read_container(region.text)
    except ValueError:
        return not region.closed or mentions_action(region)
    return any("action" in read_fields(item) for item in items_of(value))


def mentions_action(region: Region) -> bool:
    """Return whether a region that cannot be read has the name of the action."""
    return _ACTION_KEY.search(region.text) is not None


# Any: the values of JSON are arbitrary.
def items_of(value: Any) -> list[Any]:
    """Return the items of a JSON list, or a list with any other value."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]


def read_decision_fields(region: Region, reply: ModelReply, error: Callable[[str], ParseError]) -> dict[str, Any]:
    """Return the members of the decision in a region, by their names as `read_fields` returns them.

    A list with one decision is that decision. Raises the `error` with the reason for anything else, and for two names
    of one member with different values.
    """
    try:
        value = read_container(region.text)
    except ValueError as problem:
        cut = reply.finish_reason == "length"
        raise error("it was cut at the token limit" if cut else f"it is not JSON: {problem}") from None
    items = items_of(value)
    if len(items) != 1:
        raise error(f"it is a list of {len(items)}; decide on one action at a time")
    fields = read_fields(items[0])
    if not isinstance(fields.get("action"), str):
        raise error("it is not an object with an action")
    if twice := [name for name, value in items[0].items() if fields[member_name(name)] != value]:
        raise error(f"it has two values for {twice[0]}")
    return fields


# The members of a call with its name and with its arguments, as `read_fields` returns their names.
NAME_KEYS = ("name", "function", "tool", "toolname", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "toolinput", "actioninput")
_NO_LETTER = re.compile(r"[\W_]+")


def is_answer(action: str) -> bool:
    """Return whether the action stands for the answer: `Final Answer`, in any case, with a blank or an underscore."""
    return action.strip().lower().replace("_", " ") == "final answer"


def read_fields(decision: Any) -> dict[str, Any]:
    """Return the members of a decision by their names in lower case, without blanks and underscores.

    Models write `Action Input` as well as `action_input`. Of two names for one member the first one counts;
    `read_decision_fields` refuses them. Other JSON than an object has no members.
    """
    fields: dict[str, Any] = {}
    # The keys of a JSON object are strings.
    members: dict[str, Any] = decision if isinstance(decision, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    for name, value in members.items():
        fields.setdefault(member_name(name), value)
    return fields


def has_decision(value: Any, names: Collection[str]) -> bool:
    """Return whether JSON is a decision or contains one: an action with its input, or a call of one of the tools."""
    remaining = [value]
    while remaining:
        one: Any = remaining.pop()
        if isinstance(one, list):
            remaining += one  # pyright: ignore[reportUnknownArgumentType]
        fields = read_fields(one)
        remaining += fields.values()
        named = [key for key in NAME_KEYS if isinstance(fields.get(key), str) and fields[key] in names]
        has_input = any(key in fields for key in ARGUMENT_KEYS)
        # Data may have a name, too.
        if ("action" in fields and "actioninput" in fields) or (named and (has_input or named != ["name"])):
            return True
    return False


def member_name(name: str) -> str:
    """Return the name of a member in lower case, without blanks and underscores."""
    return _NO_LETTER.sub("", name).lower()


def reject_answer_tool(tools: Sequence[AnyTool]) -> None:
    """Raise `ToolDefinitionError` if a tool has a name that a reader takes for the answer."""
    for tool in tools:
        if is_answer(tool.name):
            raise ToolDefinitionError(
                f"a tool is named {tool.name}, which stands for the answer; rename it with @tool(name=...)"
            )
