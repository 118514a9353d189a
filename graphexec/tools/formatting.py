"""Convert observations to text for a model, and shorten those that are too long."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic_core import to_json


def format_observation(observation: Any) -> str:
    """Return an observation as text for a model: a string unchanged, any other value as JSON or else as its `repr`."""
    if isinstance(observation, str):
        return observation
    with suppress(ValueError):
        return to_json(observation, fallback=str).decode()
    # JSON cannot represent bytes that are not UTF-8, or a list that contains itself.
    try:
        return repr(observation)
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise any exception
        return f"<{type(observation).__name__}>"


def shorten_observation(observation: Any, most: int | None) -> str | None:
    """Return the first `most` characters and the number of omitted ones; `None` if the observation fits."""
    if most is None:
        return None
    text = format_observation(observation)
    if len(text) <= most:
        return None
    return f"{text[:most]}\n[... {len(text) - most:,} more characters were cut; ask for less]"
