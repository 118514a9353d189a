"""Parse the JSON that models write: an object or a list."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic_core import from_json


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises `ValueError`; truncated JSON is not completed."""
    value = read_container(text)
    if isinstance(value, list):
        raise ValueError("it is a list, not an object")  # noqa: TRY004 - the text is wrong, not a type
    return value


def read_container(text: str) -> dict[str, Any] | list[Any]:
    """Return the JSON object or list in `text`. Raises `ValueError` as `read_object` does."""
    # Bytes, because half a surrogate pair in a string would raise a TypeError.
    value = from_json(text.encode(errors="surrogatepass"), allow_inf_nan=False)
    if not _is_container(value):
        raise ValueError("it is a single value, not an object")
    return value


def _is_container(value: Any) -> TypeGuard[dict[str, Any] | list[Any]]:
    # The keys of a JSON object are strings.
    return isinstance(value, (dict, list))
