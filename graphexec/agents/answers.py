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


def after(marker: str) -> AnswerReader:
    """Read what follows the first marker that begins a line, such as `Final Answer:`, in whatever case.

    Without the blanks around it, and without an observation that the model makes up, and what follows that.
    """
    marked = re.compile(rf"(?:\A|\n)[ \t]{{0,4}}{re.escape(marker)}", re.IGNORECASE)
    # Of what comes before, the last line; behind the marker, what is held back.
    waiting = ""
    answering = begun = ended = False

    def read(piece: str) -> str:
        nonlocal waiting, answering, begun, ended
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
            ended, waiting = True, waiting[: invented.start()].rstrip()
            text, waiting = waiting, ""
        else:
            told = _told(waiting)
            text, waiting = waiting[:told], waiting[told:]
        if not begun:
            text = text.lstrip()
            begun = bool(text)
        return text

    return read


def _last_line(text: str, most: int) -> str:
    """The line that text ends in, with its beginning; or that there is no beginning that could still matter."""
    line = text[text.rfind("\n") :] if "\n" in text else text
    return line if len(line) <= most else "."


def _told(text: str) -> int:
    """How much of an answer can be told: not the blanks at its end, nor a line that may be made up."""
    line = text.rfind("\n")
    if line >= 0 and len(text) - line <= _HELD and _may_be_invented(text[line + 1 :]):
        text = text[:line]
    return len(text.rstrip())


def _may_be_invented(line: str) -> bool:
    said = line.lstrip(" \t*_#>").lower()
    return any(word.startswith(said) for word in ("intermediate answer", "observation"))


# Where the answer's text begins in a decision such as `{"action": "final_answer", "answer": "..."}`.
_BEGUN = re.compile(r'"action"\s{0,9}:\s{0,9}"final_answer"\s{0,9},\s{0,9}"(?:answer|action_input)"\s{0,9}:\s{0,9}"')

# How far in a reply it is looked for, in characters.
_FAR = 500

# A text of JSON up to its end, or up to an escape that is not whole; and half of a pair of escapes, which waits too.
_TEXT = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


def in_json() -> AnswerReader:
    """Read the text of the answer in a JSON decision, where it comes after the action."""
    rest = ""
    begun = ended = False

    def read(piece: str) -> str:
        nonlocal rest, begun, ended
        if ended:
            return ""
        rest += piece
        if not begun:
            found = _BEGUN.search(rest)
            if found is None:
                ended = len(rest) > _FAR
                return ""
            begun, rest = True, rest[found.end() :]
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
