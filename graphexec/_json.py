"""JSON as models write it: an object or a list, or text that is told what is wrong with it."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic_core import from_json


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` is. Raises `ValueError`; truncated JSON is not completed."""
    value = read_container(text)
    if isinstance(value, list):
        raise ValueError("it is a list, not an object")  # noqa: TRY004 - what is wrong is the text
    return value


def read_container(text: str) -> dict[str, Any] | list[Any]:
    """Return the JSON object or list that `text` is. Raises `ValueError` as `read_object` does."""
    # Bytes, because of half a surrogate pair: as text it would be a TypeError.
    value = from_json(text.encode(errors="surrogatepass"), allow_inf_nan=False)
    if not _is_container(value):
        raise ValueError("it is a single value, not an object")
    return value


def _is_container(value: Any) -> TypeGuard[dict[str, Any] | list[Any]]:
    # The keys of a JSON object are texts.
    return isinstance(value, (dict, list))
