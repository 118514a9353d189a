"""Numbers as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from graphexec.errors import format_integer


def counted(count: int, thing: str) -> str:
    """A number of things: `1 tool call`, `1,200 tokens`."""
    return f"{format_integer(count, ',')} {thing}{'' if count == 1 else 's'}"


def format_sum(*counts: int) -> str:
    """The parts of a sum: `1,500 + 32`."""
    return " + ".join(format_integer(count, ",") for count in counts)


def duration(seconds: float) -> str:
    """A time: `35 ms`, `4.28 s`, `120 s`."""
    if seconds < 0.001:  # noqa: PLR2004 - nobody waits for less
        return "under 1 ms"
    if seconds < 0.1:  # noqa: PLR2004 - below, hundredths of a second say nothing
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"  # noqa: PLR2004 - three digits are enough


# What joins the parts of an emoji, or keeps letters apart: invisible, and harmless.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def plain(text: str) -> str:
    """One line: white space as a space, and what cannot be seen (control characters, changes of direction) as `�`."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in _JOINERS else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}"
        for one in text
    )


def plain_lines(*texts: str) -> list[str]:
    """The lines of some texts, which may have several each; an empty text has none."""
    return [plain(line) for text in texts for line in text.splitlines()]


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


def wrap_text(words: Iterable[str], room: float, measure: Callable[[str], float]) -> list[str]:
    """Join words to lines that fit into the room; a word that does not fit by itself is broken."""
    lines: list[str] = []
    line = ""
    for word in words:
        joined = f"{line} {word}" if line else word
        if measure(joined) <= room:
            line = joined
            continue
        if line:
            lines.append(line)
        line = ""
        for character in word:
            if line and measure(line + character) > room:
                lines.append(line)
                line = ""
            line += character
    return [*lines, line] if line else lines
