"""Secrets: API keys and other credentials, which nothing shows, and texts and errors without them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Never, Protocol, TypeVar, final, runtime_checkable
from urllib.parse import quote
from weakref import WeakValueDictionary

from graphexec._parsing import compile_lazily
from graphexec.errors import GraphexecError, InputError, SecretError

E = TypeVar("E", bound=BaseException)

HIDDEN = "***"
# Characters. Shorter strings are not removed from texts: they are no secret, and may be parts of ordinary words.
SHORTEST = 8
# Characters of a secret that show which one it is: where a text has more of it, or is cut, all of it is removed.
_BEGINNING = 32

# The names of headers, parameters and members whose values are credentials.
_NAME = compile_lazily(r"(?i)key|token|secret|auth|passw|pwd|credential|signature|cookie|bearer|^sig$|^code$")


@runtime_checkable
class HasSecretValue(Protocol):
    """A holder of a secret: a `Secret`, or a `SecretStr` of pydantic."""

    def get_secret_value(self) -> Any:  # a user's class may return anything
        """Return the secret."""


@final
class Secret:
    """A string that is never shown, such as an API key: its `repr`, `str` and format are `***`.

    Two secrets are equal if their strings are. A secret cannot be pickled (`SecretError`), and a copy of it is the same
    object. `get_secret_value()` returns the string.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise InputError(f"Secret was given an object of the class {type(value).__name__}; give a string")
        self._value = value

    def get_secret_value(self) -> str:
        """Return the string."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, _: object) -> Never:
        raise SecretError(
            "a Secret cannot be pickled: the file would show it; read the key where it is used, such as from the "
            "environment of the other process"
        )


NO_SECRET = Secret("")


def to_secret(value: object) -> Secret | None:
    """Return a string, or what a holder such as pydantic's `SecretStr` has, as a secret; for others, `None`."""
    if isinstance(value, HasSecretValue) and not isinstance(value, type):
        value = value.get_secret_value()
    return Secret(value) if isinstance(value, str) else None


def is_secret_name(name: str) -> bool:
    """Return whether a header, a parameter or a member of this name has a credential as its value."""
    return _NAME().search(name) is not None


# Any: JSON.
def secrets_in(value: Any, name: str = "") -> Iterator[Secret]:
    """Yield the strings in JSON whose members have the name of a credential."""
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from secrets_in(item, str(key))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from secrets_in(item, name)
    elif isinstance(value, str) and is_secret_name(name):
        yield Secret(value)


# The secrets that are removed from the log of the HTTP clients, which has addresses and the headers of responses.
_logged: WeakValueDictionary[int, Secret] = WeakValueDictionary()
_LOGGERS = ("connection", "http11", "http2", "proxy", "socks")


def hide_in_logs(secrets: Iterable[Secret]) -> None:
    """Write `***` for these secrets in the log of httpx, httpx2 and what they use, as long as the secrets live."""
    _logged.update({id(secret): secret for secret in secrets if secret})
    _filter_logs()


@cache
def _filter_logs() -> None:
    # It is loaded by the clients only.
    import logging

    def clean(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        # A copy: other threads add to it meanwhile.
        secrets = [secret for reference in _logged.valuerefs() if (secret := reference()) is not None]
        cleaned = redact(message, secrets)
        if cleaned != message:
            record.msg, record.args = cleaned, None
        return True

    for package in ("httpx", "httpx2"):
        logging.getLogger(package).addFilter(clean)
        for name in _LOGGERS:
            logging.getLogger(f"{package.replace('httpx', 'httpcore')}.{name}").addFilter(clean)


# As servers and proxies write a text.
_ENCODINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: text.replace("/", "\\/"),
    lambda text: quote(text, safe="", errors="replace"),
    html.escape,
)


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return a text with `***` for the secrets in it, in any case of letters, also as JSON, URLs and HTML write them.

    A text may be within another one of these. Secrets of fewer than 8 characters are kept.
    """
    forms = {secret.get_secret_value() for secret in secrets if len(secret.get_secret_value()) >= SHORTEST}
    for _ in range(2):
        forms |= {encode(form) for form in forms for encode in _ENCODINGS}
    # A secret may be a part of another one.
    for form in sorted(forms, key=len, reverse=True):
        cut = rf"|{re.escape(form[:_BEGINNING])}[^\s\"'<>]*" if len(form) > _BEGINNING else ""
        text = re.sub(f"{re.escape(form)}{cut}", HIDDEN, text, flags=re.IGNORECASE)
    return text


_CLIENTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
# The attributes in which the errors of a client hold the request and the response.
_HELD = ("_request", "request", "response")


def remove_secrets(error: E, secrets: Iterable[Secret]) -> E:
    """Write `***` for secrets in the messages of an error and of its causes; return the error.

    It is called where the call of a model ends. Our own errors and their causes lose the frames of the call, and errors
    of the client the request. An error that quotes the reply must be no cause: it may have a part of a secret.
    """
    known = tuple(secrets)
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if isinstance(error, GraphexecError):
            one.__traceback__ = None
        if type(one).__module__.partition(".")[0] in _CLIENTS:
            vars(one).update(dict.fromkeys(vars(one).keys() & _HELD))
        one.args = tuple(redact(part, known) if isinstance(part, str) else part for part in one.args)
        one = one.__cause__ if one.__suppress_context__ else one.__context__
    return error
