"""What a tool returned or raised, as text: whole, or its beginning where that is too long for a model."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic_core import to_json


def format_observation(observation: Any) -> str:
    """An observation as text for a model: text as it is, everything else as JSON, or as Python shows it."""
    if isinstance(observation, str):
        return observation
    with suppress(ValueError):
        return to_json(observation, fallback=str).decode()
    # Bytes that are no text, a list that contains itself: JSON cannot represent them.
    try:
        return repr(observation)
    except Exception:  # noqa: BLE001 - an object of the user's may fail at that, too
        return f"<{type(observation).__name__}>"


def shorten_observation(observation: Any, most: int | None) -> str | None:
    """Return the first `most` characters with the number of missing ones; `None` for an observation that fits."""
    if most is None:
        return None
    text = format_observation(observation)
    if len(text) <= most:
        return None
    return f"{text[:most]}\n[... {len(text) - most:,} more characters were cut; ask for less]"
