"""Text in the cells of a terminal, of which some characters take two and some none."""

from __future__ import annotations

import unicodedata

# It makes a sign an emoji, which takes two.
_EMOJI = "\N{VARIATION SELECTOR-16}"


def cells(text: str) -> int:
    """How many cells a line of text takes; one that a terminal draws as one emoji may take fewer."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def fitted(text: str, room: int, *, more: str = "…") -> str:
    """The text, cut where it takes more than the room, with `more` to say so."""
    if cells(text) <= room:
        return text
    left = room - len(more)
    kept: list[str] = []
    for character in text:
        left -= _cell(character)
        if left < 0:
            break
        kept.append(character)
    return ("".join(kept).rstrip() + more)[: max(room, 0)]


def padded(text: str, room: int) -> str:
    """The text with spaces behind it, as wide as the room."""
    return text + " " * (room - cells(text))


def _cell(character: str) -> int:
    if character == _EMOJI:
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
