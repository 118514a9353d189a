"""Find the calls of known tools in forms that are not read: in Python, with labels, and in the tags of some models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from graphexec._parsing import compile_lazily, match_end
from graphexec._parsing.json import find_end, is_broken_container
from graphexec.agents.reading.json_calls import are_arguments, find_tool_name, read_json_values
from graphexec.agents.reading.json_text import Region, find_regions
from graphexec.agents.reading.labels import ACTION
from graphexec.agents.reading.text_parsing import find_named_tools, has_known_action
from graphexec.tools import AnyTool

# The beginning of a call in Python, also in a list, in `print`, or assigned to a variable. Its arguments would have to
# be evaluated.
_CALL = (
    r"(?:(?:(?:const|let|var)\s)?\w{1,99}\s?=\s?)?(?:await\s)?(?:print\()?"
    r"([A-Za-z_][\w.-]{0,99}?)(?:\.(?:call|run|invoke))?(?:\*\*)?(?=\()"
)
# What stands before it if it is all of a reply.
_LABEL = compile_lazily(r"[^\w\n(\[]{0,9}(?:(?:tool|function)?[ _]?call:\s{0,9})?", re.IGNORECASE)
_PYTHON_CALL = compile_lazily(rf"(?:[\s\[(`]|\#[^\n]*\n)*+{_CALL}")
_PYTHON_LINE = compile_lazily(rf"^[ \t\[(`]{{0,9}}{_CALL}", re.MULTILINE)
# Each of them may be followed by calls up to the end, so only some are tried: the time is linear.
_MAX_LINES = 5
_PROGRAM = compile_lazily(r"^[ \t]{0,9}(?:def|class|import|return)\b", re.MULTILINE)
_BETWEEN_PYTHON = compile_lazily(r"(?:[\s\]),;`]|\#[^\n]*+)*+")
# A string ends at the quote that punctuation follows: models do not always escape quotes. An unterminated one takes the
# rest of the text, so that a search is linear.
_UNFINISHED = r"(?!\s{0,9}(?:[,)\]}:]|\Z))"
_STRING_OR_BRACKET = compile_lazily(
    rf"""
    "(?:[^"\\]|\\.|"{_UNFINISHED})*+"?
    | '(?:[^'\\]|\\.|'{_UNFINISHED})*+'?
    | [()\[\]{{}}]
    """,
    re.DOTALL | re.VERBOSE,
)
# A value, or the name of an argument: a signature has none.
_ARGUMENT = compile_lazily(r"\(\s*+(?:[\"'\[{]|-?\d|\w{1,99}\s?=|(?:True|False|None)\b)")
# The name of a tool with arguments in any brackets, after a label.
_NAME_IN_LABEL = compile_lazily(r"[\s*`\"']{0,9}([\w.-]{1,99})[`*]{0,3}\s?[(\[{]")

_BEGINS_WITH_LABEL = compile_lazily(r"\W{0,9}(?:thought|action)\b", re.IGNORECASE)

# A call in the tags of Claude; the header of gpt-oss; the id of Kimi; a tag that is the name of a tool.
_INVOKE = compile_lazily(
    r"(?<![`\"'])<(?:\w{1,20}:)?(?:invoke|tool|function|tool_call)\s{1,9}name=[\"'“‘]?([\w.-]{1,99})", re.IGNORECASE
)
_HEADER = compile_lazily(r"(?<![`\"'])(?:<\|channel\|>[^\n{]{0,99}?\sto=|\bto=functions\.)([\w.-]{1,99})")
_NUMBERED = compile_lazily(r"\bfunctions\.([\w-]{1,99}):\d")
_TOOL_TAG = compile_lazily(r"(?<![`\"'])<([\w.-]{1,99})>\s{0,9}(?:<([\w.-]{1,99})>|\{)")
# The end of a call whose beginning is missing.
_CLOSING = compile_lazily(r"</(tool_calls?|function_calls?|function|parameter|invoke)>\s*\Z", re.IGNORECASE)
# The name of a tool before its arguments. Characters: enough for both words.
_NAME_BEFORE = compile_lazily(
    r"^[^\w\n]{0,9}(?:\w{1,20}:\s)?([\w.-]{1,99}?)(?::\d{1,9})?[\s:=>*`\])-]{0,9}"
    r"(?:(?:json|arguments|args|parameters|input)[\s:=*`]{0,9})?\Z",
    re.IGNORECASE | re.MULTILINE,
)
_NAME_LENGTH = 160


def find_other_form(text: str, tools: Mapping[str, AnyTool]) -> str:
    """Return why the call of a known tool in a text cannot be read; empty if the text has none in another form."""
    if _has_python_calls(text, tools):
        return "its tool call is Python, not a call"
    if has_known_action(text, tools) or _has_labelled_call(text, tools):
        return "its tool call has labels, not the form of a call"
    named = [found[1] for pattern in (_INVOKE(), _HEADER(), _NUMBERED()) for found in pattern.finditer(text)]
    if any(find_tool_name(name, tools) in tools for name in named) or _has_tool_tag(text, tools):
        return "its tool call has tags that cannot be read"
    closing = _CLOSING().search(text)
    if closing and f"<{closing[1]}".lower() not in text.lower():
        return "its tool call is not complete"
    return ""


def begins_python_call(text: str, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether a text begins with the call of a known tool in Python."""
    found = _PYTHON_CALL().match(text)
    return found is not None and find_tool_name(found[1], tools) in tools


def _has_python_calls(text: str, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether a text is calls of known tools in Python, or ends in them on lines of their own or in a fence."""
    if _is_python(text, match_end(_LABEL(), text), tools):
        return True
    end = len(text.rstrip())
    for region in find_regions(text):
        if not region.is_json and region.end >= end:
            return _is_python(region.text, 0, tools)
    # A program may call a function of its own.
    if _PROGRAM().search(text):
        return False
    lines = (line for line in _PYTHON_LINE().finditer(text) if find_tool_name(line[1], tools) in tools)
    begun = (line.start() for line in lines if _ARGUMENT().match(text, line.end()))
    return any(_is_python(text, start, tools) for start in islice(begun, _MAX_LINES))


def _is_python(text: str, position: int, tools: Mapping[str, AnyTool]) -> bool:
    known = False
    while position < len(text):
        found = _PYTHON_CALL().match(text, position)
        end = find_end(text, found.end(), _STRING_OR_BRACKET) if found else None
        if found is None:
            return False
        known = known or find_tool_name(found[1], tools) in tools
        if end is None:
            return known and _ARGUMENT().match(text, found.end()) is not None
        position = match_end(_BETWEEN_PYTHON(), text, end)
    return known


def _has_labelled_call(text: str, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether `Action:` precedes a known tool with its arguments in brackets, or alone if it begins the text."""
    if _BEGINS_WITH_LABEL().match(text) and find_named_tools(text, tools):
        return True
    named = (_NAME_IN_LABEL().match(text, label.end()) for label in ACTION.at_line.finditer(text))
    return any(found is not None and find_tool_name(found[1], tools) in tools for found in named)


def _has_tool_tag(text: str, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether a tag is the name of a tool, and one of its arguments, or JSON, is within."""
    return any(
        found[1] in tools and (found[2] is None or found[2] in tools[found[1]].parameters["properties"])
        for found in _TOOL_TAG().finditer(text)
    )


def has_name_before(text: str, region: Region, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether JSON is the arguments of the known tool whose name precedes it on its line."""
    found = _NAME_BEFORE().search(text[max(0, region.start - _NAME_LENGTH) : region.start])
    name = find_tool_name(found[1], tools) if found else ""
    if name not in tools:
        return False
    try:
        values = read_json_values(region.text)
    except ValueError:
        return is_broken_container(region.text, tools[name].parameters["properties"])
    return len(values) == 1 and are_arguments(values[0], tools[name])
