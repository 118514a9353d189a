"""JSON as models write it: an object, or text that is told what is wrong with it."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic_core import from_json


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` is. Nothing is guessed: truncated JSON is not completed.

    Raises `ValueError` that says what is wrong.
    """
    value = from_json(text, allow_inf_nan=False)
    if not _is_object(value):
        raise ValueError(f"it is {'a list' if isinstance(value, list) else 'a single value'}, not a JSON object")
    return value


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    # The keys of a JSON object are texts.
    return isinstance(value, dict)
