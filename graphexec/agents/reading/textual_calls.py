"""Read tool calls that a model writes as text, because its server does not know the format of its calls.

Sources: the chat templates of Hermes and Qwen (`<tool_call>`), Llama 3.1 (`<function=name>`, `<|python_tag|>`), Granite
(`<|tool_call|>`), Qwen-Coder (`<tools>`, `<parameter=name>`), Mistral (`[TOOL_CALLS]`, with `[CALL_ID]` and `[ARGS]` in
newer ones), DeepSeek V3 and Kimi K2 (`<|tool_call_begin|>`, DeepSeek with full-width bars), as vLLM's tool parsers read
them. Models without a format write the object of a call as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from graphexec._parsing import compile_lazily, match_end
from graphexec._parsing.json import read_beginning, read_object, read_value
from graphexec.agents.reading.json_calls import (
    BETWEEN,
    OTHER_KEYS,
    NotACallError,
    TextualCall,
    contains_call,
    make_token_pattern,
    read_json,
    read_json_values,
    read_members,
    to_calls,
)
from graphexec.agents.reading.json_text import ARGUMENT_KEYS, FENCE, NAME_KEYS, Region, find_regions, to_list
from graphexec.agents.reading.other_calls import begins_python_call, find_other_form, has_name_before
from graphexec.agents.reading.text_parsing import (
    find_named_tools,
    make_unreadable_error,
    unwrap,
)
from graphexec.messages import ModelReply, ToolCall
from graphexec.tools import AnyTool
from graphexec.tools.schemas import alternatives

_CALLS_BEGIN = make_token_pattern("calls(?:_section)?_begin")
_CALL_BEGIN = make_token_pattern("call_begin")
_MARK = compile_lazily(
    r"<(?P<tag>tool_calls?|tools|function_calls?|functioncall)>|<function=(?P<function>[^>\n]{1,99})>"
    r"|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>"
    rf"|(?P<token>{_CALLS_BEGIN}\s{{0,9}}(?:{_CALL_BEGIN})?|{_CALL_BEGIN})",
    re.IGNORECASE,
)
_NAMED_TOKEN = compile_lazily(
    rf"\s*+(?:function{make_token_pattern('sep')})?(?:functions\.)?([\w.-]{{1,99}}?)(?::\d{{1,9}})?\s*+"
    rf"(?:{make_token_pattern('(?:sep|call_argument_begin)')}|(?=```))\s*+(?:```(?:json)?\s)?"
)
_TOKEN_END = compile_lazily(rf"\s*+(?:```)?\s*+(?:{make_token_pattern('call_end')})?")
# Mistral's newer form, without a list.
_NAMED = compile_lazily(r"\s*+([\w.-]{1,99})(?:\[CALL_ID\]\w{1,99})?(?:\[ARGS\])?\s*+(?=\{)")
_PARAMETER = compile_lazily(r"\s*+<parameter=([^>\n]{1,99})>(?:\r?\n)?(.*?)(?:\r?\n)?</parameter>", re.DOTALL)
_FUNCTION = compile_lazily(r"\s*+<function=([^>\n]{1,99})>")
_FUNCTION_END = compile_lazily(r"\s*+</(?:function|tool_call)>", re.IGNORECASE)
# The name in JSON that cannot be read.
_NAME_MEMBER = compile_lazily(
    r"(?:[\"'“”‘]|\b)(?:name|function|tool|tool_?name|action)[\"'“”’]?\s{0,9}[:：]\s{0,9}[\"'“„‘]([^\"'“”’]{1,99})[\"'“”’]",
    re.IGNORECASE,
)
# The beginnings of the marks of calls, in lower case: for text that is still being received, or was cut.
CALL_MARK_PREFIXES = (
    *("<tool_call", "<tools>", "<function", "<|tool_call", "<\uff5ctool\u2581call", "<|python_tag|>", "[tool_calls]"),
    "<invoke",
)
# What a mark that is cut does not have.
_MARK_END = compile_lazily(r"[>\s]")
# The opening fence of a text.
_OPENING_FENCE = compile_lazily(rf"\A{FENCE}\w*\s*")
# To read a mark takes time linear in the rest of the text, so only some are read.
_MAX_MARKS = 20
# Characters of its line in which the backquote before JSON is looked for.
_REACH = 200
_FORM = "To use a tool, call it and write nothing else."


def read_textual_calls(reply: ModelReply, tools: Sequence[AnyTool]) -> ModelReply:
    """Convert the calls in a reply's text to tool calls; return an answer unchanged.

    The text consists of calls if all of it is JSON with the names of known tools and their arguments, or if it ends in
    calls with one of the models' marks. Raises `ParseError` for a call that cannot be read: one that is cut, that names
    no known tool or is surrounded by other text.
    """
    by_name = {tool.name: tool for tool in tools}
    text = unwrap(reply.content).strip()
    for mark in islice(_find_marks(text), _MAX_MARKS):
        if (read := _read_marked(reply, text, mark, by_name)) is not None:
            return read
    try:
        values = read_json_values(text)
    except ValueError:
        _reject_unread_call(text, by_name)
        _reject_call_in_prose(text, by_name)
        if other := find_other_form(text, by_name):
            _reject(text, other)
        if reply.finish_reason == "length":
            _reject_cut_call(text, by_name)
        return reply
    calls = to_calls(values, by_name, tagged=False)
    _reject_unclear([call for call in calls if call.name in by_name], text)
    if calls and all(call.name in by_name for call in calls):
        return _replace_text_by_calls(reply, "", calls, text)
    if contains_call(values, by_name):
        _reject(text, "it has other JSON around its tool call")
    return reply


def _find_marks(text: str) -> Iterator[re.Match[str]]:
    """Yield each mark that is neither quoted nor in code."""
    fences = (region for region in find_regions(text) if not region.is_json)
    fence = next(fences, None)
    for mark in _MARK().finditer(text):
        while fence is not None and fence.end <= mark.start():
            fence = next(fences, None)
        quoted = text[mark.start() - 1 : mark.start()] in {"`", '"', "'"}
        if not quoted and not (fence is not None and fence.start < mark.start()):
            yield mark


def _read_marked(reply: ModelReply, text: str, mark: re.Match[str], tools: Mapping[str, AnyTool]) -> ModelReply | None:
    """Return the reply with the calls that begin with a mark, `None` if the mark is a word of an answer."""
    calls: list[TextualCall] = []
    position = mark.start()
    try:
        while position < len(text):
            found = _MARK().match(text, position)
            if found is not None:
                new, position = _read_call(text, found, tools)
            elif text[position] in "{[":
                # One mark may precede several calls.
                value, position = read_json(text, position)
                new = to_calls(value, tools, tagged=True)
            else:
                new = []
            if not new:
                raise NotACallError("other text follows the call" if calls else "it is not the JSON of a call")
            calls += new
            position = match_end(BETWEEN(), text, position)
    except ValueError as error:
        begins_line = not text[: mark.start()].rpartition("\n")[2].strip()
        named = _find_begun_name(text, mark) in tools
        if (not begins_line and not named) or (calls and not any(call.name in tools for call in calls)):
            _reject_unread_call(text[mark.end() :].lstrip(), tools)
            return None
        cut = reply.finish_reason == "length"
        _reject(text, "its tool call was cut at the token limit" if cut else f"its tool call is not valid: {error}")
    _reject_unclear(calls, text)
    unknown = [call.name for call in calls if call.name not in tools]
    if unknown:
        _reject(text, f"there is no tool {', '.join(unknown)}, only {', '.join(tools) or 'none'}")
    return _replace_text_by_calls(reply, text[: mark.start()].strip(), calls, text)


def _find_begun_name(text: str, mark: re.Match[str]) -> str | None:
    """Return the name that a call has after its mark, or in it, even if the rest cannot be read."""
    patterns = (_NAMED_TOKEN(),) if mark["token"] else (_FUNCTION(),) if mark["tag"] else (_FUNCTION(), _NAMED())
    found = (pattern.match(text, mark.end()) for pattern in patterns)
    return mark["function"] or next((name[1].strip() for name in found if name), None)


def _read_call(text: str, mark: re.Match[str], tools: Mapping[str, AnyTool]) -> tuple[list[TextualCall], int]:
    """Return the calls after a mark, and the position after them. Raises `ValueError` if they cannot be read."""
    position = mark.end()
    if mark["token"]:
        named = _NAMED_TOKEN().match(text, position)
        if named is None:
            raise NotACallError("it has no name")
        value, position = read_json(text, named.end())
        return [TextualCall(named[1], value)], match_end(_TOKEN_END(), text, position)
    name: str | None = mark["function"]
    if mark["tag"] is not None and (inner := _FUNCTION().match(text, position)):
        position, name = inner.end(), inner[1]
    in_tags = name is not None and (_PARAMETER().match(text, position) or _FUNCTION_END().match(text, position))
    if name is None and mark["tag"] is None and (named := _NAMED().match(text, position)):
        position, name = named.end(), named[1]
    if in_tags and name is not None:
        arguments, position = _read_parameters(text, position, tools.get(name.strip()))
        call = [TextualCall(name.strip(), arguments)]
    else:
        value, position = read_json(text, position)
        call = to_calls(value, tools, tagged=True) if name is None else [TextualCall(name.strip(), value)]
    closing = re.compile(rf"\s*+(?:</function>)?\s*+(?:</{mark['tag'] or 'function'}>)?", re.IGNORECASE)
    end = match_end(closing, text, position)
    if in_tags and not text[position:end].strip():
        raise NotACallError("its parameters are not complete")
    return call, end


def _read_parameters(text: str, position: int, tool: AnyTool | None) -> tuple[dict[str, Any], int]:
    """Read arguments in tags, which may be none. They are strings where the schema accepts the string, or else JSON."""
    schema: Mapping[str, Any] = {"properties": {}} if tool is None else tool.parameters
    arguments: dict[str, Any] = {}
    while found := _PARAMETER().match(text, position):
        position = found.end()
        name, written = found[1].strip(), found[2]
        value: Any = written
        expected = schema["properties"].get(name, schema.get("additionalProperties"))
        if not _accepts(expected, written, schema.get("$defs", {})):
            with suppress(ValueError):
                value = read_value(written)
        if "<parameter=" in written:
            raise NotACallError("its parameters are not complete")
        if arguments.setdefault(name, value) != value:
            raise NotACallError(f"it has two values for {name}")
    return arguments, position


# Any: JSON.
def _accepts(schema: Any, value: str, definitions: Mapping[str, Any]) -> bool:
    """Return whether a JSON schema accepts a string, judging by the types and the values that it allows."""
    return any(
        "string" in one.get("type", "string")
        and value in one.get("enum", (value,))
        and one.get("const", value) == value
        and all(_accepts(part, value, definitions) for part in one.get("allOf", ()))
        for one in alternatives(schema, definitions)
    )


def _replace_text_by_calls(reply: ModelReply, content: str, calls: Sequence[TextualCall], text: str) -> ModelReply:
    tool_calls = tuple(
        ToolCall(_make_id(position, call), call.name, json.dumps(_read_arguments(call, text), ensure_ascii=False))
        for position, call in enumerate(calls)
    )
    return replace(reply, content=content, tool_calls=tool_calls, finish_reason="tool_calls")


def _read_arguments(call: TextualCall, text: str) -> dict[str, Any]:
    given = call.arguments
    if isinstance(given, str):
        try:
            given = read_object(given or "{}")
        except ValueError as error:
            _reject(text, f"the arguments of the call to {call.name} are not a JSON object: {error}")
    if isinstance(given, dict):
        return given  # pyright: ignore[reportUnknownVariableType]
    if given is not None:
        _reject(text, f"the arguments of the call to {call.name} are not a JSON object")
    return {}


def _reject_unclear(calls: Sequence[TextualCall], text: str) -> None:
    for call in calls:
        if call.problem:
            _reject(text, f"the call to {call.name} is unclear: {call.problem}")


def _make_id(position: int, call: TextualCall) -> str:
    """Return an id that depends on the call alone: nine letters and digits, as Mistral's servers require."""
    import zlib

    content = json.dumps([position, call.name, call.arguments])
    return f"{zlib.crc32(content.encode()):08x}{position % 10}"


def _reject_unread_call(text: str, tools: Mapping[str, AnyTool]) -> None:
    """Raise `ParseError` for the beginning of a call to a known tool, and for what would be one if it were JSON."""
    begun = _OPENING_FENCE().sub("", text)
    if not begun.startswith(("{", "[")):
        return
    try:
        value = read_beginning(begun)
    except ValueError as error:
        if any(name[1] in tools for name in _NAME_MEMBER().finditer(begun)):
            _reject(text, f"its tool call is not JSON: {error}")
        return
    if any(call.name in tools for item in to_list(value) for call in to_calls(item, tools, tagged=True)):
        _reject(text, "its tool call is not complete")


def _reject_call_in_prose(text: str, tools: Mapping[str, AnyTool]) -> None:
    """Raise `ParseError` if prose surrounds a call: it may be the call or a part of the answer."""
    end = len(text.rstrip())
    for region in find_regions(text):
        is_last = region.end >= end
        if not region.is_json:
            if _begins_marked_call(region.text, tools):
                _reject(text, "it has other text around its tool call")
            continue
        named = is_last and has_name_before(text, region, tools)
        values: list[Any] = []
        try:
            values = read_json_values(region.text)
        except ValueError:
            if is_last and not named:
                _reject_unread_call(region.text, tools)
        calls = to_calls(values, tools, tagged=False) if is_last else []
        named = named or any(call.name in tools for call in calls)
        if named or (not _is_inline_code(text, region) and contains_call(values, tools)):
            _reject(text, f"it has other text {'before' if is_last else 'around'} its tool call")


def _is_inline_code(text: str, region: Region) -> bool:
    """Return whether JSON is in code within a line, which is a part of the answer."""
    line = text[max(0, region.start - _REACH) : region.start].rpartition("\n")[2].replace(FENCE, "")
    return line.count("`") % 2 == 1


def _begins_marked_call(code: str, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether the code in a fence begins with a mark and the call of a known tool."""
    mark = _MARK().match(code)
    if mark is None:
        return False
    try:
        return any(call.name in tools for call in _read_call(code, mark, tools)[0])
    except ValueError:
        _reject_unread_call(code[mark.end() :].lstrip(), tools)
        return _find_begun_name(code, mark) in tools


def _reject_cut_call(text: str, tools: Mapping[str, AnyTool]) -> None:
    """Raise `ParseError` if a text that was cut at the token limit begins a call, or may begin one."""
    tail = text[max(text.rfind("<"), text.rfind("[TOOL")) :].lower()
    # A mark that is complete has been read, but that of Claude. Prose may have other tags.
    cut = len(tail) > 1 and any(mark.startswith(tail) for mark in CALL_MARK_PREFIXES)
    begun = tail.startswith("<invoke") or (tail.startswith(CALL_MARK_PREFIXES) and not _MARK_END().search(tail))
    begun = begun or begins_python_call(text, tools) or bool(find_named_tools(text, tools))
    if cut or begun or _may_begin_call(text, tools):
        _reject(text, "its tool call was cut at the token limit")


def _may_begin_call(text: str, tools: Mapping[str, AnyTool]) -> bool:
    try:
        items = to_list(read_beginning(_OPENING_FENCE().sub("", text)))
    except ValueError:
        return False
    value: Any = items[-1] if items else None
    if not isinstance(value, dict):
        return False
    # The keys of a JSON object are strings.
    members = read_members(value)  # pyright: ignore[reportUnknownArgumentType]
    names = [item for key, item in members if key in NAME_KEYS]
    known = any(isinstance(name, str) and any(tool.startswith(name) for tool in tools) for name in names)
    return known or (not names and all(key in {*ARGUMENT_KEYS, *OTHER_KEYS} for key, _ in members))


def _reject(text: str, why: str) -> NoReturn:
    raise make_unreadable_error(why, text, _FORM, prose=False)
