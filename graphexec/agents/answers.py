"""Which part of a reply is the final answer, told while the reply comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

# Takes a reply's text piece by piece, and returns what each piece adds to the final answer.
AnswerReader: TypeAlias = Callable[[str], str]


def after(marker: str) -> AnswerReader:
    """Read what follows the marker, such as `Final Answer:` in whatever case, without the blanks before it."""
    marked = re.compile(re.escape(marker), re.IGNORECASE)
    waiting = ""
    answering = begun = False

    def read(piece: str) -> str:
        nonlocal waiting, answering, begun
        if not answering:
            waiting += piece
            found = marked.search(waiting)
            if found is None:
                # The marker may be cut in two.
                waiting = waiting[-(len(marker) - 1) :]
                return ""
            answering, piece, waiting = True, waiting[found.end() :], ""
        if not begun:
            piece = piece.lstrip()
            begun = bool(piece)
        return piece

    return read


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
