"""Find the end of a model's decision: models go on with observations and questions that are not theirs to write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from graphexec.actions import AgentAction, AgentFinish, Decision, ToolInput
from graphexec.agents.reading.json_text import find_regions
from graphexec.agents.reading.labels import OBSERVATION, REPLIES, THOUGHT, TURN, USER, Label, LabelPattern, Spelling
from graphexec.messages import ModelReply, separate_reasoning


@dataclass(frozen=True, slots=True)
class ReplyText:
    """The text of a reply without its reasoning, up to the first turn that the model invented.

    The decision ends at `end`, where a `Thought:` may follow: another decision in it makes the reply unclear. `rest` is
    the reply from the invented turn on. The text `is_cut` if the reply was cut at the token limit before such a turn.
    """

    text: str
    end: int
    rest: str
    is_cut: bool

    @property
    def log(self) -> str:
        """The text up to the end of the decision."""
        return self.text[: self.end]

    @property
    def unread(self) -> str:
        """What follows the decision."""
        return "\n".join(filter(None, (self.text[self.end :].removeprefix("\n"), self.rest)))

    def act(self, tool: str, tool_input: ToolInput) -> Decision:
        """Return an action as the decision."""
        return (AgentAction(tool, tool_input, self.log, unread=self.unread),)

    def finish(self, output: str) -> AgentFinish:
        """Return an answer as the decision."""
        return AgentFinish({"output": output}, self.log, unread=self.unread)


class Value(NamedTuple):
    """The input or the answer of the first decision: where it starts, and how the labels around it are spelled."""

    start: int
    spelling: Spelling


def find_value_after(text: str, labels: Iterable[tuple[Label, re.Match[str] | None]]) -> Value | None:
    """Return the value after the first of the labels that were found."""
    found = min(((one.end(), label.find_spelling(one)) for label, one in labels if one), default=None)
    if found is None:
        return None
    return find_value_from(text, *found)


def find_value_from(text: str, start: int, spelling: Spelling) -> Value:
    """Return the value that begins behind a position. Its first line is its own, however it begins."""
    return Value(len(text) - len(text[start:].lstrip()) + 1, spelling)


def read_text(
    reply: ModelReply, find_value: Callable[[str], Value | None], invented: Label | None = OBSERVATION
) -> ReplyText:
    """Return the text of a reply for a reader, up to the first turn that the model invented.

    A line that begins with the label `invented`, which only the program may write, ends the text, and so does, behind
    the decision that `find_value` finds, a line that begins with `Question:`, `Human:` or the like in a spelling that
    is not looser than the decision's, and one with `User:` if a later line replies to it. A last line that is the
    beginning of a stop string ends it, too: a server, or a model, may stop within it. In JSON and in a fence, such
    lines are the model's own text.
    """
    text = separate_reasoning(reply).content
    end = len(text) if invented is None else _find_line(text, invented.at_line)
    value = find_value(text[:end])
    thought = len(text)
    if value is not None:
        end = min(end, _find_line(text[:end], TURN.lines[value.spelling], value.start))
        end = min(end, _find_dialogue(text[:end], value))
        thought = _find_line(text[:end], THOUGHT.lines[value.spelling], value.start)
    is_cut = reply.finish_reason == "length" and end == len(text)
    if end == len(text) and invented is not None:
        end = _find_begun(text, invented)
    read = _before_line(text, end)
    log = _before_line(read, thought)
    return ReplyText(read, len(log), text[end:], is_cut and log == read)


def _before_line(text: str, start: int) -> str:
    """Return the text before a line, without the newline that ends it; all of it if there is no such line."""
    return text[:start].removesuffix("\n") if start < len(text) else text


def _find_line(text: str, label: LabelPattern, start: int = 0) -> int:
    """Return where a label begins a line outside of JSON and closed fences, or the length of the text."""
    return next(_find_lines(text, label, start), len(text))


def _find_lines(text: str, label: LabelPattern, start: int) -> Iterator[int]:
    if label.search(text, start) is None:
        return
    data = ((one.start, one.end) for one in find_regions(text) if one.is_closed and one.start >= start - 1)
    begin, end = next(data, (len(text), 0))
    for found in label.finditer(text, start):
        while end <= found.start() and begin < len(text):
            begin, end = next(data, (len(text), 0))
        if found.start() < begin:
            yield found.start()


def _find_dialogue(text: str, value: Value) -> int:
    """Return where the last `User:` before a line that replies to it begins, or the length of the text."""
    users = [*_find_lines(text, USER.lines[value.spelling], value.start)]
    reply = _find_line(text, REPLIES.lines[value.spelling], users[0]) if users else len(text)
    return max((one for one in users if one < reply < len(text)), default=len(text))


def _find_begun(text: str, label: Label) -> int:
    """Return where a last line begins that is the beginning of a stop string, or the length of the text."""
    line = text.rstrip().rfind("\n") + 1
    begun = text[line:].strip(" \t\r\n*_")
    return line if line and begun and label.stop.startswith(begun) else len(text)
