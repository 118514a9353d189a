"""A string that matches a regular expression: short, and the same each time.

It reads the syntax that JSON schemas use: characters, classes, groups, alternatives, repetitions and anchors. A string
is made without regard to what looks ahead or back; what refers to a group has no string here.

A schema may come from another program, so nothing here takes long: the parser works within a limit, and no string is
returned that a matcher which goes back, such as that of `re`, could need long for.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import final

from graphexec.tools.patterns import is_costly

# Characters that a class or a dot is tried with, in this order.
_LIKELY = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:;/@#+*!?'\"()[]{}<>=%&$~^|\\`"
_CLASSES = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"\s", "D": r"\D", "W": r"\W", "S": r"\S"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}

# Characters of private use stand for anchors in a string until their places are checked.
_START, _END, _BOUNDARY = "\ue000", "\ue001", "\ue002"
_ANCHORS = {"A": _START, "z": _END, "Z": _END, "b": _BOUNDARY}

_COUNT = re.compile(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{0,4}))?\})\??")
_GROUP = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>|(<?[=!]))")
_CLASS = re.compile(r"\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
# Sets of sets, which `re` warns of.
_NESTED = re.compile(r"\[|--|&&|~~|\|\|")

# Characters of a pattern and of its string, and groups within groups. A longer string would fill the prompt.
_LONGEST_PATTERN, _LONGEST, _DEEPEST = 1000, 200, 20

# Steps of about a microsecond for the values of one tool.
_MOST_STEPS = 3000


class WorkLimitError(Exception):
    """The values of a schema take too much work."""


@final
class WorkLimit:
    """A number of steps. `spend` raises `WorkLimitError` if there are not enough left."""

    def __init__(self, steps: int = _MOST_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Use steps up."""
        self._left -= steps
        if self._left < 0:
            raise WorkLimitError


class _UnsupportedError(Exception):
    """The expression has syntax that is not read here."""


def match_pattern(pattern: str, turn: int = 0, work: WorkLimit | None = None, *, more: int = 1) -> str | None:
    """Return a string in which the pattern is found; another `turn` gives another string if the pattern allows it.

    What may be repeated is there `more` times, if it may.

    `None` if the pattern is not understood, if its string would be long, or if a matcher may take long. Raises
    `WorkLimitError` if it takes long to make.
    """
    if len(pattern) > _LONGEST_PATTERN or not {_START, _END, _BOUNDARY}.isdisjoint(pattern):
        return None
    parser = _Parser(pattern, turn, work or WorkLimit(), more)
    try:
        text = _without_anchors(parser.alternatives())
        if text is None or parser.position < len(pattern) or len(text) > _LONGEST:
            return None
        # The validator of a tool may use `re`.
        if is_costly(pattern, len(text)):
            return None
        return text if not parser.looks or re.search(pattern, text) else None
    except (_UnsupportedError, re.error):
        return None


def _without_anchors(text: str) -> str | None:
    """Return the string without its anchors; `None` if one of them does not match in its place."""
    every = _START + _END + _BOUNDARY
    if _START in text.lstrip(every) or _END in text.rstrip(every):
        return None
    parts = re.sub(f"[{_START}{_END}]", "", text).split(_BOUNDARY)
    whole, place = "".join(parts), 0
    for part in parts[:-1]:
        place += len(part)
        if _is_word(whole[:place][-1:]) == _is_word(whole[place : place + 1]):
            return None
    return whole


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@lru_cache(maxsize=128)
def _characters(of: str) -> tuple[str, ...]:
    """Return the likely characters of a class: its letters and digits, or others if it has none."""
    allowed = re.compile(of)
    fitting = tuple(one for one in _LIKELY if allowed.fullmatch(one))
    return tuple(one for one in fitting if one.isalnum()) or fitting


@final
class _Parser:
    """A recursive-descent parser that returns the string of each part instead of a tree.

    It notes whether something looks ahead or back.
    """

    def __init__(self, pattern: str, turn: int, work: WorkLimit, more: int) -> None:
        self.pattern = pattern
        self.turn = turn
        self.work = work
        self.more = more
        self.position = 0
        self.depth = 0
        self.looks = False

    def peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def take(self) -> str:
        character = self.peek()
        if not character:
            raise _UnsupportedError
        self.position += 1
        return character

    def alternatives(self) -> str:
        first = self.sequence()
        while self.peek() == "|":
            self.take()
            self.sequence()
        return first

    def sequence(self) -> str:
        parts: list[str] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return "".join(parts)

    def repeated(self) -> str:
        start, turn = self.position, self.turn
        several = [self.part()]
        after = self.position
        least = self.count()
        end = self.position
        if end > after and self.pattern[start] != "(" and several[0] in (_START, _END, _BOUNDARY):
            raise _UnsupportedError
        if least == 0:
            return ""
        # Each repetition has its own characters: AB, not AA.
        for number in range(1, least):
            self.position, self.turn = start, turn + number
            several.append(self.part())
        self.position, self.turn = end, turn
        return "".join(several)

    def count(self) -> int:
        """Return how often the last part is repeated."""
        found = _COUNT.match(self.pattern, self.position)
        if found is None:
            return 1
        self.position = found.end()
        sign, least, comma, most = found.groups()
        if sign is not None:
            return 0 if sign == "?" else self.more
        if not comma:
            return int(least)
        greatest = int(most) if most else math.inf
        if greatest < int(least):
            raise _UnsupportedError
        return int(min(max(int(least), self.more), greatest))

    def part(self) -> str:
        self.work.spend()
        match character := self.take():
            case "^":
                return _START
            case "$":
                return _END
            case ".":
                return self.choose(r"[^\n]")
            case "(":
                return self.group()
            case "[":
                return self.choose(self.character_class())
            case "\\":
                return self.escape()
            case "*" | "+" | "?" | "{":
                raise _UnsupportedError
            case _:
                return character

    def group(self) -> str:
        opened = _GROUP.match(self.pattern, self.position)
        if opened is not None:
            self.position = opened.end()
        if self.peek() == "?" or self.depth == _DEEPEST:
            raise _UnsupportedError
        self.depth += 1
        inner = self.alternatives()
        self.depth -= 1
        # Alternatives end before it, or with the pattern.
        self.take()
        if opened is None or opened[1] is None:
            return inner
        self.looks = True
        return ""

    def character_class(self) -> str:
        found = _CLASS.match(self.pattern, self.position)
        if found is None or _NESTED.search(re.sub(r"\\.", "", found.group())):
            raise _UnsupportedError
        self.position = found.end()
        return f"[{found.group()}"

    def escape(self) -> str:
        character = self.take()
        if character in _CLASSES:
            return self.choose(_CLASSES[character])
        if character in _ANCHORS:
            return _ANCHORS[character]
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum():
            raise _UnsupportedError
        return character

    def choose(self, characters: str) -> str:
        self.work.spend(len(characters))
        plain = _characters(characters)
        if not plain:
            raise _UnsupportedError
        # The steps keep neighbouring characters apart.
        return plain[(self.turn * 7 + 2) % len(plain)]
