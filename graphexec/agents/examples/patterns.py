"""A string that matches a regular expression: short, and the same each time.

It reads the syntax that JSON schemas use: characters, classes, groups, alternatives, repetitions and anchors. What
looks ahead or back, or refers to a group, has no string here.
"""

from __future__ import annotations

import re
from typing import final

# Characters that a class or a dot is tried with, in this order.
_LIKELY = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:;/@#+*!?'\"()[]{}<>=%&$~^|\\`"
_CLASSES = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "s": r"\s", "D": r"\D", "W": r"\W", "S": r"\S"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}

# Sets of sets, which `re` warns of.
_NESTED = re.compile(r"\[[^\]]*(?:\[|--|&&|~~|\|\|)")

# Characters. A longer string would fill the prompt.
_LONGEST = 200


class _UnsupportedError(Exception):
    """The expression has syntax that is not read here."""


def match_pattern(pattern: str, turn: int = 0) -> str | None:
    """Return a string in which the pattern is found; another `turn` gives another string if the pattern allows it.

    `None` if the pattern is not understood, or if its string would be long.
    """
    if _NESTED.search(pattern):
        return None
    try:
        parser = _Parser(pattern, turn)
        text = parser.alternatives()
        found = parser.position == len(pattern) and re.search(pattern, text) is not None
    except (_UnsupportedError, re.error, RecursionError, OverflowError):
        return None
    return text if found and len(text) <= _LONGEST else None


@final
class _Parser:
    """A recursive-descent parser that returns the string of each part instead of a tree."""

    def __init__(self, pattern: str, turn: int) -> None:
        self.pattern = pattern
        self.turn = turn
        self.position = 0

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
            if sum(map(len, parts)) > _LONGEST:
                raise _UnsupportedError
        return "".join(parts)

    def repeated(self) -> str:
        start = self.position
        part = self.part()
        least = self.count()
        if least is None:
            return part
        # Each repetition has its own characters: AB, not AA.
        several: list[str] = []
        end = self.position
        for number in range(min(least, _LONGEST + 1)):
            again = _Parser(self.pattern, self.turn + number)
            again.position = start
            several.append(again.part())
        self.position = end
        return "".join(several)

    def count(self) -> int | None:
        """Return how often the last part is repeated, at least once if it may be; `None` for a part without a count."""
        found = re.compile(r"([*+?])|\{(\d+)(?:,(\d*))?\}").match(self.pattern, self.position)
        if found is None:
            return None
        self.position = found.end()
        if self.peek() in ("?", "+"):
            self.take()
        sign, least, most = found.groups()
        if sign is not None:
            return 0 if sign == "?" else 1
        return max(int(least), 0 if most == "0" else 1) if least == "0" and most is not None else int(least)

    def part(self) -> str:
        match character := self.take():
            case "^" | "$":
                return ""
            case ".":
                return self.choose(r"[^\n]")
            case "(":
                return self.group()
            case "[":
                return self.choose(self.character_class())
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise _UnsupportedError
            case _:
                return character

    def group(self) -> str:
        opened = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)").match(self.pattern, self.position)
        if opened is not None:
            self.position = opened.end()
        elif self.peek() == "?":
            raise _UnsupportedError
        inner = self.alternatives()
        if self.take() != ")":
            raise _UnsupportedError
        return inner

    def character_class(self) -> str:
        found = re.compile(r"\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL).match(self.pattern, self.position)
        if found is None:
            raise _UnsupportedError
        self.position = found.end()
        return f"[{found.group()}"

    def escape(self) -> str:
        character = self.take()
        if character in _CLASSES:
            return self.choose(_CLASSES[character])
        if character in "bAzZ":
            return ""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum():
            raise _UnsupportedError
        return character

    def choose(self, characters: str) -> str:
        allowed = re.compile(characters)
        fitting = [one for one in _LIKELY if allowed.fullmatch(one)]
        if not fitting:
            raise _UnsupportedError
        # Letters and digits come first; the steps keep neighbouring characters apart.
        plain = [one for one in fitting if one.isalnum()] or fitting
        return plain[(self.turn * 7 + 2) % len(plain)]
