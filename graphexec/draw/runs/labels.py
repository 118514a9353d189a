"""Values of a run as short labels that fit into a line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from graphexec.draw.model.text import sanitize_line
from graphexec.kernel.serialization import format_json
from graphexec.messages.images import IMAGE_KIND
from graphexec.messages.observations import format_observation
from graphexec.messages.stored import restore_value


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
