"""Extract the final answer from a reply while it streams."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

# Takes the text of a reply piece by piece, and returns the text that each piece adds to the final answer.
AnswerReader: TypeAlias = Callable[[str], str]


# A line that only the program may write.
_INVENTED = re.compile(r"\n[ \t*_#>]{0,4}(?:intermediate answer|observation)", re.IGNORECASE)

# Characters. A longer line cannot become such a line, and is not held back.
_MAX_HELD = 40


def make_label_reader(marker: str) -> AnswerReader:
    """Make a reader of the text after the first line that begins with `marker`, such as `Final Answer:`, in any case.

    The reader strips surrounding whitespace, and cuts the text before an observation that the model invented.
    """
    marked = re.compile(rf"(?:\A|\n)[ \t]{{0,4}}{re.escape(marker)}", re.IGNORECASE)
    # Before the marker, the last line; after it, the text that is held back.
    waiting = ""
    answering = ended = False

    def read(piece: str) -> str:
        nonlocal waiting, answering, ended
        if ended:
            return ""
        waiting += piece
        if not answering:
            found = marked.search(waiting)
            if found is None:
                waiting = _last_line(waiting, len(marker) + 5)
                return ""
            answering, waiting = True, waiting[found.end() :]
        if invented := _INVENTED.search(waiting):
            ended = True
            return waiting[: invented.start()]
        # Hold back a last line that may become an observation.
        line = waiting.rfind("\n")
        held = line >= 0 and len(waiting) - line <= _MAX_HELD and _may_be_invented(waiting[line + 1 :])
        text, waiting = (waiting[:line], waiting[line:]) if held else (waiting, "")
        return text

    return strip_blanks(read)


def strip_blanks(read: AnswerReader) -> AnswerReader:
    """Make a reader that strips surrounding whitespace; inner whitespace is held back until more text follows."""
    blanks: list[str] = []
    begun = False

    def read_stripped(piece: str) -> str:
        nonlocal begun
        text = read(piece)
        visible = text.rstrip()
        if visible:
            before = "".join(blanks)
            blanks[:] = [text[len(visible) :]]
            visible = before + visible if begun else visible.lstrip()
            begun = True
        elif begun:
            blanks.append(text)
        return visible

    return read_stripped


def _last_line(text: str, most: int) -> str:
    """Return the last line of a text, or `"."` if the line is too long to begin with the marker."""
    line = text[text.rfind("\n") :] if "\n" in text else text
    return line if len(line) <= most else "."


def _may_be_invented(line: str) -> bool:
    beginning = line.lstrip(" \t*_#>").lower()
    return any(word.startswith(beginning) for word in ("intermediate answer", "observation"))


def decision_pattern(action: str, key: str) -> re.Pattern[str]:
    """Return the pattern of a JSON decision up to the beginning of the answer: the action, then the `key`."""
    gap = r"\s{0,9}"
    return re.compile(gap.join([r"\{", '"action"', ":", f'"{action}"', ",", f'"{key}"', ":", '"']))


# Characters. The pattern of a decision matches fewer.
_LONGEST = 200

# A JSON string up to its end or an incomplete escape; and the first half of a surrogate pair, which needs its second.
_TEXT = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


def make_json_reader(opened: re.Pattern[str], decides: Callable[[str], bool]) -> AnswerReader:
    """Make a reader of the answer in a JSON decision that begins with the pattern `opened`.

    `decides` returns whether the reply up to that point is the decision, and not other JSON in the reply.
    """
    rest = ""
    begun = ended = False

    def read(piece: str) -> str:
        nonlocal rest, begun, ended
        if ended:
            return ""
        if not begun:
            searched = max(0, len(rest) - _LONGEST)
            rest += piece
            found = opened.search(rest, searched)
            if found is None:
                return ""
            begun, rest, beginning = True, rest[found.end() :], rest[: found.end()]
            if not decides(beginning):
                ended = True
                return ""
        else:
            rest += piece
        whole = _TEXT.match(rest)
        assert whole is not None, "the pattern matches the empty string"
        text = whole.group()
        if half := _HALF.search(text):
            text = text[: half.start()]
        rest = rest[len(text) :]
        ended = rest.startswith('"')
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            # The string has an escape that is not JSON, so the decision cannot be parsed either.
            ended = True
            return ""

    return read


# The first character of a reply that may be a call written as text: in JSON, in a fence or in a tag.
_CALL_STARTS = ("{", "[", "`", "<")
# The tag of a call that follows other text.
_CALL_TAG = re.compile("<tool_call", re.IGNORECASE)


def make_text_reader() -> AnswerReader:
    """Make a reader of a reply that is the answer as a whole.

    Text that may be a call, because it begins like JSON, a fence or a tag, is held back until the reply is complete.
    """
    waiting = ""
    begun = ended = False

    def read(piece: str) -> str:
        nonlocal waiting, begun, ended
        if ended:
            return ""
        waiting += piece
        if not begun:
            visible = waiting.lstrip()
            begun, ended = bool(visible), visible.startswith(_CALL_STARTS)
            if ended or not begun:
                return ""
        if found := _CALL_TAG.search(waiting):
            ended = True
            return waiting[: found.start()]
        last = waiting.rfind("<")
        place = last if last >= 0 and "<tool_call".startswith(waiting[last:].lower()) else len(waiting)
        text, waiting = waiting[:place], waiting[place:]
        return text

    return read
