"""What a tool returned or raised, as text: whole, or its beginning where that is too long for a model."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json


def shown(observation: Any) -> str:
    """An observation as text for a model: text as it is, everything else as JSON, or as Python shows it."""
    if isinstance(observation, str):
        return observation
    try:
        return to_json(observation, fallback=str).decode()
    except ValueError:
        # Bytes that are no text, a list that contains itself: what JSON cannot say.
        return _represented(observation)


def told_instead(observation: Any, most: int | None) -> str | None:
    """What to tell a model instead of an observation, or `None` where it is told as it is.

    That is one with more than `most` characters: it is told its first ones, and how many are missing.
    """
    if most is None:
        return None
    text = shown(observation)
    if len(text) <= most:
        return None
    return f"{text[:most]}\n[... {len(text) - most:,} more characters were cut; ask for less]"


def _represented(observation: object) -> str:
    try:
        return repr(observation)
    except Exception:  # noqa: BLE001 - an object of the user's may fail at that, too
        return f"<{type(observation).__name__}>"
