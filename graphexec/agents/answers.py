"""Which part of a reply is the final answer, told while the reply comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

# Takes a reply's text piece by piece, and returns what each piece adds to the final answer.
AnswerReader: TypeAlias = Callable[[str], str]


# What only the program may say, where it begins a line: as far as it has come.
_INVENTED = re.compile(r"\n[ \t*_#>]{0,4}(?:intermediate answer|observation)", re.IGNORECASE)

# How much of a line that may become it is held back, in characters.
_HELD = 40


def make_label_reader(marker: str) -> AnswerReader:
    """Read what follows the first marker that begins a line, such as `Final Answer:`, in whatever case.

    Without the blanks around it, and without an observation that the model makes up, and what follows that.
    """
    marked = re.compile(rf"(?:\A|\n)[ \t]{{0,4}}{re.escape(marker)}", re.IGNORECASE)
    # Of what comes before, the last line; behind the marker, what is held back.
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
        # Not a last line that may become an observation.
        line = waiting.rfind("\n")
        held = line >= 0 and len(waiting) - line <= _HELD and _may_be_invented(waiting[line + 1 :])
        text, waiting = (waiting[:line], waiting[line:]) if held else (waiting, "")
        return text

    return strip_blanks(read)


def strip_blanks(read: AnswerReader) -> AnswerReader:
    """Return the reader without the blanks around what it tells: those within wait for what follows them."""
    blanks: list[str] = []
    begun = False

    def read_stripped(piece: str) -> str:
        nonlocal begun
        text = read(piece)
        told = text.rstrip()
        if told:
            before = "".join(blanks)
            blanks[:] = [text[len(told) :]]
            told = before + told if begun else told.lstrip()
            begun = True
        elif begun:
            blanks.append(text)
        return told

    return read_stripped


def _last_line(text: str, most: int) -> str:
    """The line that text ends in, with its beginning; or that there is no beginning that could still matter."""
    line = text[text.rfind("\n") :] if "\n" in text else text
    return line if len(line) <= most else "."


def _may_be_invented(line: str) -> bool:
    said = line.lstrip(" \t*_#>").lower()
    return any(word.startswith(said) for word in ("intermediate answer", "observation"))


def decision_pattern(action: str, key: str) -> re.Pattern[str]:
    """Return the pattern of a JSON decision up to where the answer's text begins: the action, and then the `key`."""
    gap = r"\s{0,9}"
    return re.compile(gap.join([r"\{", '"action"', ":", f'"{action}"', ",", f'"{key}"', ":", '"']))


# More characters than an opening has.
_LONGEST = 200

# A text of JSON up to its end, or up to an escape that is not whole; and half of a pair of escapes, which waits too.
_TEXT = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


def make_json_reader(opened: re.Pattern[str], decides: Callable[[str], bool]) -> AnswerReader:
    """Read the text of the answer in a JSON decision, where the decision is `opened` so that nothing else can come.

    `decides` says of a reply up to there whether it is the decision, and not some other JSON in the reply.
    """
    rest = ""
    begun = ended = False

    def read(piece: str) -> str:
        nonlocal rest, begun, ended
        if ended:
            return ""
        if not begun:
            looked = max(0, len(rest) - _LONGEST)
            rest += piece
            found = opened.search(rest, looked)
            if found is None:
                return ""
            begun, rest, said = True, rest[found.end() :], rest[: found.end()]
            if not decides(said):
                ended = True
                return ""
        else:
            rest += piece
        whole = _TEXT.match(rest)
        assert whole is not None, "it matches nothing at least"
        text = whole.group()
        if half := _HALF.search(text):
            text = text[: half.start()]
        rest = rest[len(text) :]
        ended = rest.startswith('"')
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            # An escape that JSON does not have: the decision cannot be read either.
            ended = True
            return ""

    return read
