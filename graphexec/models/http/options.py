"""The options of a model for its requests: constraints, further members of a body, and further headers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from graphexec._arguments import NAME, Constraint, number
from graphexec.errors import InputError, format_value
from graphexec.kernel.meters import is_number, is_whole
from graphexec.models.secret import Secret, is_secret_name, secrets_in, to_secret

TEMPERATURE = number("a number, 0 or more")
TOP_P = Constraint("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
SEED = Constraint("a whole number", is_whole)
# Providers add efforts ("none", "xhigh", "max"), so any name is accepted.
EFFORT = Constraint("the name of an effort, such as 'low'", NAME.fits)

# RFC 9110, 5.6.2: the characters of a header's name.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# The client writes these headers.
_FIXED = frozenset({"content-type", "content-length", "accept", "host", "transfer-encoding", "connection"})
# Headers with credentials: a server that gets one of them needs no API key.
_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


# Any: JSON.
def copy_extra_body(owner: str, extra: Mapping[str, Any] | None, remedies: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a copy of `extra_body`. Raises `InputError` unless it is JSON, and for a member that has a remedy."""
    if extra is None:
        return None
    # Callers without a type checker may pass another type.
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "give a dict of further members of the request, or None"
        raise InputError(f"{owner} has extra_body={format_value(extra)}; {remedy}")
    faults: list[str] = []
    for path, remedy in sorted(remedies.items()):
        outer, _, inner = path.partition(".")
        if inner and not isinstance(extra.get(outer, {}), Mapping):
            # What the request writes within an object would be lost in another value.
            faults.append(f"{owner} has {outer}={format_value(extra[outer])} in extra_body; give a dict")
        elif outer in extra and (not inner or inner in extra[outer]):
            faults.append(f"{owner} has {path} in extra_body; {remedy}")
    if faults:
        raise InputError("; ".join(dict.fromkeys(faults)))
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        fact = f"{owner} has an extra_body that is not JSON: {error}"
        raise InputError(f"{fact}; give dicts, lists, strings and numbers") from None
    return copied


def copy_headers(owner: str, headers: object) -> dict[str, Secret]:
    """Return `extra_headers` with values as secrets. Raises `InputError` for an invalid one, without its value."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InputError(f"{owner} has extra_headers of the class {type(headers).__name__}; give a dict, or None")
    copied: dict[str, Secret] = {}
    # Callers without a type checker may pass other names and values.
    for name, value in headers.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise InputError(f"{owner} has {format_value(name)} in extra_headers; give the name of a header")  # pyright: ignore[reportUnknownArgumentType]
        if name.lower() in _FIXED:
            raise InputError(f"{owner} has {name} in extra_headers; the client sets it itself, so leave it out")
        secret = to_secret(value)  # pyright: ignore[reportUnknownArgumentType]
        if secret is None or not is_header_value(secret):
            fact = f"{owner} has an invalid value of {name} in extra_headers"
            raise InputError(f"{fact}; give a string of printable ASCII")
        copied[name] = secret
    return copied


def is_header_value(value: Secret) -> bool:
    """Return whether a secret is printable ASCII, as the value of a header."""
    return value.get_secret_value().isascii() and value.get_secret_value().isprintable()


def replace_headers(headers: Mapping[str, Secret], extra: Mapping[str, Secret]) -> dict[str, Secret]:
    """Return the headers with the extra ones, which replace those of the same name."""
    replaced = {name.lower() for name in extra}
    return {name: value for name, value in headers.items() if name.lower() not in replaced} | dict(extra)


def has_credentials(headers: Mapping[str, object]) -> bool:
    """Return whether a header has the credentials that replace an API key."""
    return any(name.lower() in _CREDENTIALS for name in headers)


def digest(headers: Mapping[str, Secret]) -> str:
    """Return a string that distinguishes headers without showing them; empty without headers."""
    if not headers:
        return ""
    shown = json.dumps(sorted((name, value.get_secret_value()) for name, value in headers.items()))
    return hashlib.sha256(shown.encode()).hexdigest()[:16]


# Any: JSON.
def find_secrets(headers: Mapping[str, Secret], extra_body: Mapping[str, Any] | None) -> Iterator[Secret]:
    """Yield the credentials in further headers and members, with and without the scheme before them."""
    for name, value in headers.items():
        if is_secret_name(name):
            yield value
            yield Secret(value.get_secret_value().rpartition(" ")[2])
    yield from secrets_in(dict(extra_body or {}))
