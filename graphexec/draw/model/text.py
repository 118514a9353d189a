"""Numbers, durations, lines of text and values of a run, for people to read."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from graphexec.errors import format_integer
from graphexec.kernel.serialization import format_json
from graphexec.messages.images import IMAGE_KIND
from graphexec.messages.observations import format_observation
from graphexec.messages.stored import restore_value


def format_quantity(count: int, thing: str) -> str:
    """Return a number with its noun: `1 tool call`, `1,200 tokens`."""
    return f"{format_integer(count, ',')} {thing}{'' if count == 1 else 's'}"


def format_sum(*counts: int) -> str:
    """Return the parts of a sum: `1,500 + 32`."""
    return " + ".join(format_integer(count, ",") for count in counts)


def format_cached(tokens: int) -> str:
    """Return the addition to a number of tokens for those from a provider's cache: `, 512 cached`; none for 0."""
    return f", {format_integer(tokens, ',')} cached" if tokens else ""


def format_duration(seconds: float) -> str:
    """Return a duration: `35 ms`, `4.28 s`, `120 s`."""
    if seconds < 0.001:  # noqa: PLR2004 - shorter times are not noticeable
        return "under 1 ms"
    if seconds < 0.1:  # noqa: PLR2004 - below that, hundredths of a second are too coarse
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"  # noqa: PLR2004 - three digits are enough


# Characters that join the parts of an emoji or separate letters: invisible and harmless.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def sanitize_line(text: str) -> str:
    """Return text as one line: white space as spaces, other invisible characters (controls, bidi marks) as `�`."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in _JOINERS else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}"
        for one in text
    )


def sanitize_lines(*texts: str) -> list[str]:
    """Return the sanitized lines of some strings; an empty string has none."""
    return [sanitize_line(line) for text in texts for line in text.splitlines()]


# It turns a character into an emoji, which takes two cells.
_EMOJI = "\N{VARIATION SELECTOR-16}"


def count_cells(text: str) -> int:
    """Return the width of a line in terminal cells; an emoji of several characters may take fewer."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def truncate(text: str, room: int) -> str:
    """Return the text, cut to `room` cells; a cut text ends with `…`."""
    if count_cells(text) <= room:
        return text
    left = room - 1
    kept: list[str] = []
    for character in text:
        left -= _cell(character)
        if left < 0:
            break
        kept.append(character)
    return f"{''.join(kept).rstrip()}…"[: max(room, 0)]


# A picture measures the few characters of its lines again and again.
@lru_cache(maxsize=1_000)
def _cell(character: str) -> int:
    if character == _EMOJI:
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def wrap_text(words: Iterable[str], room: float, measure: Callable[[str], float]) -> list[str]:
    """Join words into lines no wider than `room`; a word that is wider by itself is broken."""
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


def shorten(text: str, most: int) -> str:
    """Return the beginning of a text as one line of at most `most` characters."""
    # Reads only the beginning of a long text; consecutive white space counts as one space.
    words = " ".join(sanitize_line(text[: 8 * most]).split())
    if len(text) <= 8 * most and len(words) <= most:
        return words
    return f"{words[: most - 1].rstrip()}…"


# Any, here and below: JSON values.
def format_data(value: Any, most: int) -> str:
    """Return data as one line: a string without quotes, a label for each image, anything else as JSON."""
    if isinstance(value, str):
        return shorten(value, most)
    text = _format_json(value)
    if IMAGE_KIND in text:
        with suppress(RecursionError, TypeError, ValueError):
            text = format_observation(restore_value(value))
    return shorten(text, most)


def _format_json(value: Any) -> str:
    """Return data as JSON, or as `…` if they are nested too deeply, as those of a file or of a model may be."""
    try:
        return format_json(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def format_call(tool: str, given: Any, most: int) -> str:
    """Return a call in Python's notation; long arguments are cut."""
    short = shorten(tool, most // 2)
    return f"{short}({shorten(_arguments(given, most), max(most - len(short) - 2, 1))})"


def _arguments(given: Mapping[str, Any] | str, most: int) -> str:
    if not isinstance(given, Mapping):
        return _format_json(given)
    parts: list[str] = []
    for name, value in given.items():
        if sum(map(len, parts)) > most:
            break
        parts.append(f"{name}={_format_json(value)}")
    return ", ".join(parts)
