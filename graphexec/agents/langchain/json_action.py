"""Find and parse an action that is a JSON object in a text, with or without a fence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from graphexec._json import read_container
from graphexec.actions import AgentAction, AgentFinish, ToolInput
from graphexec.agents.agent import Decision
from graphexec.agents.answers import AnswerReader, decision_pattern, make_json_reader
from graphexec.agents.prompt import format_observation
from graphexec.agents.text_parsing import ACTION, strip_invention, unreadable_error
from graphexec.errors import ParseError, ToolDefinitionError
from graphexec.messages import ModelReply
from graphexec.tools import AnyTool


@dataclass(frozen=True, slots=True)
class JSONText:
    """A part of a reply that looks like JSON, and its position with the fence."""

    text: str
    start: int
    end: int


_FENCE = "```"
_OPENING = re.compile(r"```[\w+#.-]{0,20}\s*")
# Fences and brackets in a JSON string are text. An unterminated string takes the rest, so the search is linear.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_STRING_OR_FENCE = re.compile(rf"{_STRING}|{_FENCE}", re.DOTALL)
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_BRACKETS = {"{": 1, "[": 1, "}": -1, "]": -1}
# Prose may begin with a brace, too; in an object, a quote or the closing brace follows.
_OBJECT = re.compile(r"\s*(?:\[\s{0,99})?\{\s{0,99}(?:[\"'}]|\Z)")


def find_json(text: str) -> list[JSONText]:
    """Return the JSON at the beginning of a text or after `Action:`, and the JSON in fences.

    JSON or a fence without an end extends to the end of the text: the JSON in an unclosed fence may be complete.
    """
    fence = text.find(_FENCE)
    label = ACTION.search(text, 0, fence if fence >= 0 else len(text))
    bare = list(_find_bare(text, 0)) or list(_find_bare(text, label.end() if label else 0))
    return [*bare, *_find_fenced(text, bare[-1].end if bare else 0)]


def _find_bare(text: str, start: int) -> Iterator[JSONText]:
    while _OBJECT.match(text, start):
        end = _find_end(text, start)
        yield JSONText(text[start:end].strip(), start, end)
        start = end


def _find_end(text: str, start: int) -> int:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, start):
        if token[0] in _BRACKETS:
            depth += _BRACKETS[token[0]]
            if depth == 0:
                return token.end()
    return len(text)


def _find_fenced(text: str, position: int) -> Iterator[JSONText]:
    while opening := _OPENING.search(text, position):
        begin = opening.end()
        if text.startswith(("{", "["), begin):
            tokens = _STRING_OR_FENCE.finditer(text, begin)
            end = next((token.start() for token in tokens if token[0] == _FENCE), len(text))
            position = min(end + len(_FENCE), len(text))
            yield JSONText(text[begin:end].strip(), opening.start(), position)
            continue
        end = text.find(_FENCE, begin)
        if end < 0:
            return
        position = end + len(_FENCE)


def read_decision(part: JSONText, log: str, reply: ModelReply) -> Decision:
    """Parse the decision in a JSON text: an action, or the action `Final Answer`, whose input is the answer.

    A missing input is an empty object; a list with one item is that item. Raises `ParseError` for anything else.
    """
    try:
        value = read_container(part.text)
    except ValueError as error:
        cut = reply.finish_reason == "length"
        raise action_error("it was cut at the token limit" if cut else f"it is not JSON: {error}", log) from None
    match [value] if isinstance(value, dict) else value:
        case [{"action": str(action), **others}]:
            # Any: values of arbitrary JSON.
            given: Any = others.get("action_input")
        case [_]:
            raise action_error("it is not an object with an action", log)
        case several:
            raise action_error(f"it is a list of {len(several)}; decide on one action at a time", log)
    if _is_answer(action):
        return AgentFinish({"output": "" if given is None else format_observation(given)}, log)
    tool_input: ToolInput = {} if given is None else given if _is_input(given) else format_observation(given)
    return (AgentAction(action.strip(), tool_input, log),)


def _is_input(given: Any) -> TypeGuard[ToolInput]:
    # The keys of a JSON object are strings.
    return isinstance(given, (dict, str))


_ANSWER = decision_pattern(r"\s{0,9}(?i:final[ _]answer)\s{0,9}", "action_input")


def make_answer_reader() -> AnswerReader:
    """Make a reader that extracts the answer while the reply streams, if its only JSON begins with the action."""
    return make_json_reader(_ANSWER, _is_decision)


def _is_decision(beginning: str) -> bool:
    if strip_invention(beginning) != beginning:
        return False
    match find_json(beginning):
        case [part]:
            # The decision may be the only item of a list.
            return _ANSWER.fullmatch(part.text.removeprefix("[").lstrip()) is not None
        case _:
            return False


def is_action(part: JSONText) -> bool:
    """Return whether a JSON text is an action and not the answer."""
    try:
        return not isinstance(read_decision(part, "", ModelReply("")), AgentFinish)
    except ParseError:
        return False


def reject_answer_tool(tools: Sequence[AnyTool]) -> None:
    """Raise `ToolDefinitionError` if a tool has the name that stands for the answer."""
    for tool in tools:
        if _is_answer(tool.name):
            raise ToolDefinitionError(
                f"a tool is named {tool.name}, which stands for the answer; rename it with @tool(name=...)"
            )


def action_error(why: str, text: str) -> ParseError:
    """Return the error for a reply without exactly one valid action; its observation repeats the format."""
    form = 'To act, write one JSON object, {"action": "<tool>", "action_input": <its input>}.'
    return unreadable_error(why, text, form, prose="{" not in text)


def _is_answer(action: str) -> bool:
    return action.strip().lower().replace("_", " ") == "final answer"
