"""Extract the final answer from a reply while it streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import ReferenceType

from graphexec._parsing import INVISIBLE, compile_lazily, match_end
from graphexec._parsing.json import StringDecoder, open_string, read_beginning
from graphexec._parsing.reasoning import ReasoningSplitter
from graphexec.actions import Decision
from graphexec.agents.reading.json_text import find_regions, is_answer, is_decision, read_fields, to_list
from graphexec.agents.reading.labels import (
    FINAL_ANSWER,
    INPUT,
    OBSERVATION,
    THOUGHT,
    TURN,
    USER,
    Spelling,
    find_open_emphasis,
)
from graphexec.agents.reading.text_parsing import find_removable_end
from graphexec.agents.reading.textual_calls import CALL_MARK_PREFIXES
from graphexec.errors import ParseError
from graphexec.messages import ModelReply
from graphexec.messages.model import VERY_LONG

# Takes the text of a reply piece by piece, and returns the text that each piece adds to the final answer.
AnswerReader: TypeAlias = Callable[[str], str]


def skip_reasoning(make_reader: Callable[[], AnswerReader]) -> AnswerReader:
    """Make a reader that passes on a reply without the reasoning that it begins with.

    If a closing tag shows that what was read so far is reasoning, the reader starts again, unless it has already
    returned something; then the answer follows when the reply is complete.
    """
    splitter = ReasoningSplitter()
    reader = make_reader()
    answered = ended = False

    def read(piece: str) -> str:
        nonlocal reader, answered, ended
        in_content, restarts = splitter.in_content, splitter.restarts
        _, content = splitter.take(piece)
        restarted = splitter.restarts > restarts
        if restarted:
            ended, reader = answered, make_reader()
        # The splitter holds back the beginning of what may be a tag. The reader receives it at once: if it is a tag
        # that ends reasoning, the reader starts again.
        content = piece if in_content and not restarted else content + splitter.waiting_text
        if not content or ended:
            return ""
        text = reader(content)
        answered = answered or bool(text)
        return text

    return read


# Characters. A longer line cannot become a label, even one with numbers and emphasis, and is not held back.
_MAX_HELD = 80


def make_label_reader() -> AnswerReader:
    """Make a reader of the text after the first `Final Answer:` that begins a line.

    The reader strips whitespace and what `unwrap` removes, and cuts the text before what is not the model's to write.
    """
    # Before the label, the last line; after it, the beginning of the text.
    waiting = ""
    mark = ""
    cut: AnswerReader | None = None
    ended = False

    def read(piece: str) -> str:
        nonlocal waiting, mark, cut, ended
        if ended:
            return ""
        waiting += piece
        if cut is None:
            found = FINAL_ANSWER.at_line.search(waiting)
            # Behind an action, and behind what the model invented, there is no answer.
            before = waiting if found is None else waiting[: found.start()]
            ended = any(one.at_line.search(before) for one in (INPUT, OBSERVATION))
            if ended or found is None:
                # The last line, unless it is too long to begin with a label.
                line = waiting[max(waiting.rfind("\n"), 0) :]
                waiting = line if len(line) <= _MAX_HELD else "."
                return ""
            waiting, mark = waiting[found.end() :], find_open_emphasis(found)
            cut = _cut_turns(FINAL_ANSWER.find_spelling(found))
        if mark:
            begun = waiting.lstrip()
            if len(begun) < len(mark) and mark.startswith(begun):
                waiting = begun
                return ""
            # Emphasis that ends after the answer can be stripped only from the whole answer.
            ended = not begun.startswith(mark)
            if ended:
                return ""
            waiting, mark = begun.removeprefix(mark), ""
        text, waiting = waiting, ""
        return cut(text)

    return _hold_back_ending(read)


def _cut_turns(spelling: Spelling) -> AnswerReader:
    """Make a reader of an answer up to a line with a label that ends it, as `turns.read_text` finds it."""
    # Only the rest of the reply says whether `User:` begins a turn.
    labels = [*(label.lines[spelling] for label in (TURN, THOUGHT, USER)), OBSERVATION.at_line]
    waiting = ""
    ended = False

    def read(piece: str) -> str:
        nonlocal waiting, ended
        if ended:
            return ""
        waiting += piece
        line = waiting.find("\n") + 1
        starts = [found.start() for one in labels if line and (found := one.search(waiting, line))]
        if starts:
            ended = True
            return waiting[: min(starts)]
        # Hold back a last line, which may become a label.
        line = waiting.rfind("\n")
        held = line >= 0 and len(waiting) - line <= _MAX_HELD
        text, waiting = (waiting[:line], waiting[line:]) if held else (waiting, "")
        return text

    return read


def _hold_back_ending(read: AnswerReader) -> AnswerReader:
    """Make a reader without the whitespace at the beginning, which holds back what `unwrap` removes at the end.

    That is whitespace, and tokens such as `</s>`; it is released when more text follows.
    """
    held: list[str] = []
    # The beginning of what may be a token.
    waiting = ""
    begun = False

    def read_unwrapped(piece: str) -> str:
        nonlocal begun, waiting
        more = read(piece)
        if not more:
            return ""
        text = waiting + more
        start, token = find_removable_end(text)
        ending, waiting = text[start:token], text[token:]
        if not start:
            held.append(ending)
            return ""
        released = "".join((*held, text[:start]))
        held[:] = [ending]
        if not begun:
            begun, released = True, released.lstrip()
        return released

    return read_unwrapped


# Characters. The beginning of a decision is usually shorter, and is looked at after every piece; a longer one is looked
# at whenever it has grown by an eighth, and then doubled, which keeps the time linear.
_SHORT, _MEDIUM = 200, 20_000


def make_json_reader(names: Sequence[str]) -> AnswerReader:
    """Make a reader of the answer in the first JSON decision, if its action precedes the answer.

    `names` are the members with the answer, as `read_fields` returns them.
    """
    pieces: list[str] = []
    received = next_look = 0
    string: StringDecoder | None = None
    ended = False

    def read(piece: str) -> str:
        nonlocal received, next_look, string, ended
        if ended:
            return ""
        if string is not None:
            return string.take(piece)
        pieces.append(piece)
        received += len(piece)
        # The answer in a text that takes long to read comes in one piece.
        ended = received > VERY_LONG
        if ended or received < next_look:
            return ""
        beginning = "".join(pieces)
        pieces[:] = [beginning]
        length = len(beginning)
        next_look = 0 if length < _SHORT else length * 9 // 8 if length < _MEDIUM else length * 2
        first = next((one for one in find_regions(beginning) if is_decision(one)), None)
        if first is None:
            return ""
        ended = OBSERVATION.at_line.search(beginning, 0, first.start) is not None
        if ended:
            return ""
        text = beginning[first.content_start :]
        answer, is_open = _read_answer(text, names)
        start = open_string(text) if is_open else None
        if start is not None:
            string = StringDecoder()
            return string.take(text[start:])
        # The decision is another one, or its answer comes in one piece.
        ended = answer is not None or first.is_closed
        return "" if answer is None or is_open else answer

    return read


def _read_answer(text: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """Return the answer in the beginning of a decision, if it is a string, and whether the string is incomplete."""
    try:
        fields, complete = _read_only_item(read_beginning(text)), _read_only_item(read_beginning(text, strings=False))
    except ValueError:
        return None, False
    if is_answer(str(complete.get("action"))):
        for name, value in fields.items():
            if name in names and isinstance(value, str):
                return value, name not in complete
    return None, False


def _read_only_item(value: Any) -> dict[str, Any]:
    # The decision may be the only item of a list.
    items = to_list(value)
    return read_fields(items[0]) if len(items) == 1 else {}


# The first character of a reply that may be a call written as text: in JSON, in a fence or in a tag.
_CALL_STARTS = ("{", "[", "`", "<")
_CALL_MARK = compile_lazily("|".join(map(re.escape, CALL_MARK_PREFIXES)), re.IGNORECASE)
_BLANK = compile_lazily(rf"(?:\s|{INVISIBLE})*+")
_LONGEST_PREFIX = max(map(len, CALL_MARK_PREFIXES))


def make_text_reader() -> AnswerReader:
    """Make a reader of a reply that is the answer as a whole.

    Text that may be a call, because it begins like JSON, a fence or a tag, is held back until the reply is complete.
    """
    # What precedes the first visible character.
    leading: list[str] = []
    waiting = ""
    begun = ended = False

    def read(piece: str) -> str:
        nonlocal waiting, begun, ended
        if ended:
            return ""
        waiting += piece
        if not begun:
            visible = waiting[match_end(_BLANK(), waiting) :]
            begun, ended = bool(visible), visible.startswith(_CALL_STARTS)
            leading.append(waiting)
            waiting = "".join(leading) if begun else ""
            if ended or not begun:
                return ""
        if found := _CALL_MARK().search(waiting):
            ended = True
            return waiting[: found.start()]
        end = waiting[-_LONGEST_PREFIX:].lower()
        last = max(end.rfind("<"), end.rfind("["))
        held = last >= 0 and any(mark.startswith(end[last:]) for mark in CALL_MARK_PREFIXES)
        place = len(waiting) - len(end) + last if held else len(waiting)
        text, waiting = waiting[:place], waiting[place:]
        return text

    return read


# What reads a reply, or another thing that decides.
Read: TypeAlias = Callable[[Any], Decision]

# The most replies whose decisions are kept: enough for the runs of a batch. Each is dropped with its reply, too.
_MOST = 256

# What was read ahead, by the reply's id: the reply, its reader, and the decision or the error. It is usually empty.
READ_AHEAD: dict[int, tuple[ReferenceType[ModelReply], Read, Decision | ParseError]] = {}


def read_ahead(read: Read, reply: ModelReply) -> ModelReply:
    """Read a reply, for `read_reply`, and return it. Any other error than a `ParseError` is left to `read_reply`."""
    try:
        found: Decision | ParseError = read(reply)
    except Exception as error:  # noqa: BLE001 - raised where the reply is read
        if type(error) is not ParseError:
            return reply
        found = _copy(error)
    # When Python ends, replies outlive the names of this module.
    key, drop = id(reply), READ_AHEAD.pop
    READ_AHEAD[key] = ReferenceType(reply, lambda _: drop(key, None)), read, found
    while len(READ_AHEAD) > _MOST:
        drop(next(iter(READ_AHEAD), key), None)
    return reply


def read_reply(read: Read, reply: Any) -> Decision:
    """Return what `read(reply)` returns, or what was read ahead. Raises `ParseError`."""
    known = READ_AHEAD.get(id(reply))
    if known is None or known[0]() is not reply or known[1] is not read:
        return read(reply)
    if isinstance(known[2], ParseError):
        raise _copy(known[2])
    return known[2]


def _copy(error: ParseError) -> ParseError:
    """Return the error without its traceback, whose frames refer to the reply."""
    return ParseError(str(error), observation=error.observation, llm_output=error.llm_output, prose=error.prose)
