"""Find the JSON in the text of a reply: at its beginning, after a label, in fences, and in prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import STRING, find_end, read_container
from graphexec.agents.reading.labels import ACTION, Spelling, find_last
from graphexec.errors import ParseError, ToolDefinitionError
from graphexec.messages import ModelReply
from graphexec.tools import AnyTool


@dataclass(frozen=True, slots=True)
class Region:
    """JSON or a fence in a reply, from `start` to `end`; the content of a fence begins at `content_start`.

    A region that is not closed extends to the end of the reply. JSON that is `in_decision_position` stands where a
    decision belongs: at the beginning, after `Action:`, or in a fence.
    """

    text: str
    start: int
    content_start: int
    end: int
    is_closed: bool
    is_json: bool
    in_decision_position: bool = False


FENCE = "```"
_OPENING = compile_lazily(r"```+[ \t]{0,3}([\w+#.-]{0,20})\s*+")
# The languages of fences in which a decision may stand; JSON in a program is a part of the program.
_PLAIN = frozenset(
    {"", "json", "jsonc", "json5", "jsonl", "text", "txt", "plaintext", "markdown", "md", "react", "tool"}
)
# The beginning of an object that is a decision and cannot be read: the key of its action is in no quotes of JSON, or
# follows a comment.
_MARK = r"[^\w\s{}]{0,2}"
_COLON = rf"{_MARK}\s{{0,9}}[:：]"
_OTHER_ACTION = (
    r"(?:/\*[^{}*]{0,200}+\*/\s{0,9}|//[^{}\n]{0,200}+\n\s{0,9})?+"
    rf"(?:{_MARK}\w{{1,30}}{_COLON}[^{{}}]{{0,300}}?[,，]\s{{0,99}})?{_MARK}(?i:action){_COLON}"
)
# In an object, a quote or the closing brace follows the opening one; prose may have braces, too.
_OBJECT = rf"\{{\s{{0,99}}(?:[\"'“”„‘}}]|\Z|(?={_OTHER_ACTION}))"
_BEGINNING = compile_lazily(rf"{FENCE}|(?:\[\s{{0,99}})?{_OBJECT}")
# Fences and brackets in a JSON string are text.
_STRING_OR_FENCE = compile_lazily(rf"{STRING}|{FENCE}", re.DOTALL | re.VERBOSE)
# Characters. Enough for `Action:` in any spelling, with a number, emphasis, and the whitespace after it.
_LABEL_LENGTH = 60


def find_regions(text: str) -> Iterator[Region]:
    """Yield the JSON and the fences of a text, in order. A fence may be followed by the JSON within it."""
    position = 0
    closing = -1
    while found := _BEGINNING().search(text, position):
        start = found.start()
        if start == closing:
            position = start + len(FENCE)
        elif found[0] != FENCE:
            region = _make_bare(text, start)
            yield region
            position = region.end
        else:
            opening = _OPENING().match(text, start)
            assert opening is not None, "a fence was found"
            content_start = opening.end()
            region = _make_fenced(text, start, content_start)
            yield region
            position = region.end
            if not region.is_json and opening[1].lower() in _PLAIN:
                position, closing = content_start, region.end - len(FENCE) if region.is_closed else -1


def _make_bare(text: str, start: int) -> Region:
    end = find_end(text, start)
    is_closed = end is not None
    end = len(text) if end is None else end
    expected = _is_in_decision_position(text, start)
    return Region(text[start:end].strip(), start, start, end, is_closed, is_json=True, in_decision_position=expected)


def _is_in_decision_position(text: str, start: int) -> bool:
    before = text[max(0, start - _LABEL_LENGTH) : start]
    if len(before) == start and not before.strip():
        return True
    label = find_last(ACTION.patterns[Spelling.TRANSLATED], before)
    return label is not None and not before[label.end() :].strip(" \t\r\n*_`")


def _make_fenced(text: str, start: int, content_start: int) -> Region:
    is_json = text.startswith(("{", "["), content_start)
    if is_json:
        tokens = _STRING_OR_FENCE().finditer(text, content_start)
        end = next((token.start() for token in tokens if token[0] == FENCE), -1)
    else:
        end = text.find(FENCE, content_start)
    is_closed = end >= 0
    inner = text[content_start : end if is_closed else len(text)].strip()
    end = end + len(FENCE) if is_closed else len(text)
    return Region(inner, start, content_start, end, is_closed, is_json, in_decision_position=is_json)


_ACTION_KEY = compile_lazily(rf"[\"'“”‘]action[\"'“”’]\s{{0,9}}[:：]|\{{\s{{0,99}}{_OTHER_ACTION}", re.IGNORECASE)


def find_decisions(text: str) -> list[Region]:
    """Return the JSON of a text that is a decision, or would be one if it could be read."""
    return [region for region in find_regions(text) if is_decision(region)]


def is_decision(region: Region) -> bool:
    """Return whether a region is JSON where a decision belongs, or JSON in prose that has an action or is cut."""
    return region.is_json and (region.in_decision_position or has_action_member(region))


def has_action_member(region: Region) -> bool:
    """Return whether JSON in prose has an action. JSON that cannot be read has one if it is cut or has the name."""
    try:
        value = read_container(region.text)
    except ValueError:
        return not region.is_closed or has_action_name(region)
    return any("action" in read_fields(item) for item in to_list(value))


def read_items(region: Region) -> list[Any]:
    """Return the items of a list in a region or another value, and nothing for what is not JSON."""
    try:
        return to_list(read_container(region.text)) if region.is_json else []
    except ValueError:
        return []


def has_action_name(region: Region) -> bool:
    """Return whether a region that cannot be read contains the key `action`."""
    return _ACTION_KEY().search(region.text) is not None


# Any: the values of JSON are arbitrary.
def to_list(value: Any) -> list[Any]:
    """Return the items of a JSON list, or a list with any other value."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]


def read_decision_fields(region: Region, reply: ModelReply, error: Callable[[str], ParseError]) -> dict[str, Any]:
    """Return the members of the decision in a region, by their names as `read_fields` returns them.

    A list with one decision is that decision. Raises the `error` with the reason for anything else, and for a member
    that is given twice (`action_input`, `Action Input`) with different values.
    """
    try:
        value = read_container(region.text)
    except ValueError as problem:
        cut = reply.finish_reason == "length"
        raise error("it was cut at the token limit" if cut else f"it is not JSON: {problem}") from None
    items = to_list(value)
    if len(items) != 1:
        raise error(f"it is a list of {len(items)}; decide on one action at a time")
    fields = read_fields(items[0])
    if not isinstance(fields.get("action"), str):
        raise error("it is not an object with an action")
    if twice := [name for name, value in items[0].items() if fields[normalize_key(name)] != value]:
        raise error(f"it has two values for {twice[0]}")
    return fields


# The members of a call with its name and with its arguments, as `read_fields` returns their names.
NAME_KEYS = ("name", "function", "tool", "toolname", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "toolinput", "actioninput")
_NOT_ALPHANUMERIC = compile_lazily(r"[\W_]+")


def is_answer(action: str) -> bool:
    """Return whether the action stands for the answer: `Final Answer`, in any case, with a space or an underscore."""
    return action.strip().lower().replace("_", " ") == "final answer"


def read_fields(value: Any) -> dict[str, Any]:
    """Return the members of a JSON object by their names as `normalize_key` returns them.

    Models write `Action Input` as well as `action_input`. Of a member that is given twice the first value counts;
    `read_decision_fields` refuses it. JSON other than an object has no members.
    """
    fields: dict[str, Any] = {}
    # The keys of a JSON object are strings.
    members: dict[str, Any] = value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    for name, item in members.items():
        fields.setdefault(normalize_key(name), item)
    return fields


def has_decision(value: Any, names: Collection[str]) -> bool:
    """Return whether a JSON value is a decision or contains one at any depth.

    A decision is an action with its input, an answer, a call of one of the tools in `names`, or a string that is one.
    """
    remaining = [value]
    while remaining:
        one: Any = remaining.pop()
        if isinstance(one, str):
            one = _read_string(one)
        if isinstance(one, list):
            remaining += one  # pyright: ignore[reportUnknownArgumentType]
        fields = read_fields(one)
        remaining += fields.values()
        named = [key for key in NAME_KEYS if isinstance(fields.get(key), str) and fields[key] in names]
        has_input = any(key in fields for key in ARGUMENT_KEYS)
        # Data may have a name, too.
        acts = "action" in fields and ("actioninput" in fields or is_answer(str(fields["action"])))
        if acts or (named and (has_input or named != ["name"])):
            return True
    return False


def _read_string(text: str) -> Any:
    """Return the items of the JSON that a string consists of, also in a fence, or another string itself."""
    text = text.strip()
    region = next(find_regions(text), None)
    is_whole = region is not None and region.start == 0 and region.end == len(text)
    return read_items(region) if region and is_whole else text


def normalize_key(name: str) -> str:
    """Return the name of a member in lower case, with letters and digits only."""
    return _NOT_ALPHANUMERIC().sub("", name).lower()


def reject_answer_tool(tools: Sequence[AnyTool]) -> None:
    """Raise `ToolDefinitionError` if a tool has a name that a reader takes for the answer."""
    for tool in tools:
        if is_answer(tool.name):
            raise ToolDefinitionError(
                f"a tool is named {tool.name}, which stands for the answer; rename it with @tool(name=...)"
            )
