"""Read the JSON that a server sends, with one rule for members of other types than the protocol has.

What may be a part of the answer is an `InvalidReplyError`, if it is of another type: it would be lost (`Draft.string`,
`objects`). What stands beside the answer never costs it. Nothing, and what is empty, is an empty value in both cases.
"""

from __future__ import annotations

import json
from typing import Any

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import read_object
from graphexec.errors import InvalidReplyError
from graphexec.models.http.endpoint import Endpoint, reply_limit_error
from graphexec.models.http.receiving import find_excess

# A JSON object; its values are arbitrary.
JSON = dict[str, Any]

# A larger number is no index and no count of tokens. A negative count would increase the budget of a run.
_MOST = 10**12
_SURROGATE = compile_lazily("[\ud800-\udfff]")


def parse(body: bytes | str, endpoint: Endpoint) -> JSON:
    """Return the object in a body. Raises `InvalidReplyError` if there is none, `ReplyLimitError` if it is too large.

    Bytes that are no text are read, as they may stand beside the answer.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    check_size(text, endpoint)
    try:
        value, problem = json.loads(text), "not a JSON object"
    except (ValueError, RecursionError) as error:
        value, problem = None, error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType]
    # Gemini sends errors as a list with one item.
    for item in to_objects(value):
        return item
    raise invalid_reply(endpoint, f"sent an invalid reply ({problem}): {endpoint.quote(text) or 'nothing'}")


# Any: a JSON value is arbitrary, here and below.
def to_object(value: Any) -> JSON:
    """Return an object beside the answer; an empty one for another value."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def to_objects(value: Any) -> list[JSON]:
    """Return the objects in a list beside the answer; a single one is a list of one."""
    several: list[Any] = [*value] if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, dict)]


def to_word(value: Any) -> str:
    """Return a string beside the answer, such as an id; an empty one for another value."""
    return value if isinstance(value, str) else ""


def to_number(value: Any) -> int | None:
    """Return an index or a count; `None` if it cannot be read. Some servers write `12.0` or `"12"`."""
    if type(value) is int:
        return value if 0 <= value <= _MOST else None
    try:
        number = float(value) if isinstance(value, str | float) else -1.0
    except ValueError:
        return None
    return int(number) if 0 <= number <= _MOST and number.is_integer() else None


def to_count(value: Any) -> int:
    """Return a number of tokens; one that cannot be read is 0."""
    return to_number(value) or 0


def _try_object(arguments: str) -> JSON | None:
    try:
        return read_object(arguments)
    except ValueError:
        return None


def is_complete(arguments: str) -> bool:
    """Return whether the arguments of a call, as far as they are known, are an object."""
    return _try_object(arguments) is not None


def best_arguments(*candidates: str) -> str:
    """Return the most complete arguments of a call, of equal ones the last."""

    def completeness(arguments: str) -> int:
        found = _try_object(arguments)
        # An empty object stands where arguments follow, too.
        return 3 if found else 1 if found is not None else 2 if arguments.strip() else 0

    return max(reversed(candidates), key=completeness)


def parse_arguments(arguments: str) -> JSON:
    """Return the arguments of a call as an object; an empty one if they are not a JSON object."""
    return _try_object(arguments) or {}


def mend_surrogates(text: str) -> str:
    """Return a text in which pairs of surrogates are characters, and lone ones U+FFFD: neither can be sent or shown."""
    if text.isascii() or not _SURROGATE().search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def check_size(text: str, endpoint: Endpoint) -> None:
    """Raise `ReplyLimitError` for JSON with too many values, or nested too deeply."""
    excess = find_excess(text)
    if excess is not None:
        raise reply_limit_error(endpoint, *excess)


def invalid_reply(endpoint: Endpoint, fact: str) -> InvalidReplyError:
    """Return the error for a reply that does not follow the protocol."""
    remedy = f"check that the base URL is {endpoint.provider.kind}, or try again"
    return InvalidReplyError(f"{endpoint} {fact}; {remedy}", status=200)
