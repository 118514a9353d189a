"""Secrets: API keys and other credentials, which nothing shows, and texts without them."""

from __future__ import annotations

import hmac
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, Never, Protocol, TypeVar, final, runtime_checkable
from weakref import WeakKeyDictionary, WeakSet

from graphexec._parsing import compile_lazily
from graphexec.errors import InputError, SecretError

T = TypeVar("T")

HIDDEN = "***"
# Characters. Shorter strings are not removed from texts: they are no secret, and may be parts of ordinary words.
SHORTEST = 8
# The parts of a secret that are searched one after another: a pattern of a whole token of kilobytes would take seconds.
# None ends in the middle of what may be an escape.
_PART = compile_lazily(r"(?s).{1,32}(?:(?<=[%\\&]).)*+")

# The names of headers, parameters and members whose values are credentials.
_NAME = compile_lazily(r"(?i)key|token|secret|auth|passw|pwd|credential|signature|cookie|bearer|^sig$|^code$")
# Makes hashes of secrets useless outside this process.
_SALT = os.urandom(16)


@runtime_checkable
class HasSecretValue(Protocol):
    """A holder of a secret: a `Secret`, or a `SecretStr` of pydantic."""

    def get_secret_value(self) -> Any:  # a user's class may return anything
        """Return the secret."""


@final
class _Handle:
    """The key under which a value is kept."""

    __slots__ = ("__weakref__",)


# Kept apart from the secrets, so that nothing finds them that goes through the attributes of objects.
_values: WeakKeyDictionary[_Handle, str] = WeakKeyDictionary()


@final
class Secret:
    """A string that is never shown, such as an API key: its `repr`, `str` and format are `***`.

    Two secrets are equal if their strings are; the comparison takes the same time wherever they differ. A secret cannot
    be pickled (`SecretError`), and a copy of it is the same object. `get_secret_value()` returns the string.
    """

    __slots__ = ("_handle",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise InputError(f"Secret was given an object of the class {type(value).__name__}; give a string")
        self._handle = _Handle()
        _values[self._handle] = value

    def get_secret_value(self) -> str:
        """Return the string."""
        return _values[self._handle]

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self.get_secret_value())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_to_bytes(self.get_secret_value()), _to_bytes(other.get_secret_value()))

    def __hash__(self) -> int:
        return hash(hmac.digest(_SALT, _to_bytes(self.get_secret_value()), "sha256"))

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

# Any: objects of any type.
_objects: WeakKeyDictionary[_Handle, Any] = WeakKeyDictionary()


@final
class Hidden(Generic[T]):
    """An object with a secret in it, such as the response of an HTTP client, which has the request."""

    __slots__ = ("_handle",)

    def __init__(self, value: T) -> None:
        self._handle = _Handle()
        _objects[self._handle] = value

    def reveal(self) -> T:
        """Return the object."""
        value: T = _objects[self._handle]
        return value


def hide(value: object) -> Secret | type | None:
    """Return a string, or what a holder such as pydantic's `SecretStr` has, as a secret; any other object as its class.

    `None`, a secret and a class stay. The frame of an error shows its variables, so what may be a key is hidden first,
    and validated then.
    """
    if value is None or isinstance(value, Secret | type):
        return value
    if isinstance(value, HasSecretValue):
        return hide(value.get_secret_value())
    return Secret(value) if isinstance(value, str) else type(value)


def is_secret_name(name: str) -> bool:
    """Return whether a header, a parameter or a member of this name has a credential as its value."""
    return _NAME().search(name) is not None


def reveal_headers(headers: Mapping[str, Secret]) -> dict[str, str]:
    """Return headers as a client needs them."""
    return {name: value.get_secret_value() for name, value in headers.items()}


def hide_headers(headers: Mapping[str, str]) -> dict[str, Secret]:
    """Return headers whose values are not shown."""
    return {name: Secret(value) for name, value in headers.items()}


# Any: JSON.
def hide_members(value: Any, name: str = "") -> Any:
    """Return JSON in which the strings of members with the name of a credential are secrets."""
    if isinstance(value, dict):
        return {key: hide_members(item, str(key)) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [hide_members(item, name) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return Secret(value) if isinstance(value, str) and len(value) >= SHORTEST and is_secret_name(name) else value


# Any: JSON with secrets.
def secrets_in(value: Any) -> Iterator[Secret]:
    """Yield the secrets of JSON that `hide_members` returned."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType]
            yield from secrets_in(item)


# The secrets that are removed from the log of the HTTP clients, which has addresses and the headers of responses.
_logged: WeakSet[_Handle] = WeakSet()
_LOGGERS = ("connection", "http11", "http2", "proxy", "socks")


def hide_in_logs(secrets: Iterable[Secret]) -> None:
    """Write `***` for these secrets in the log of httpx, httpx2 and what they use, as long as the secrets live."""
    _logged.update(secret._handle for secret in secrets if secret)  # pyright: ignore[reportPrivateUsage]
    _filter_logs()


@cache
def _filter_logs() -> None:
    # It is loaded by the clients only.
    import logging

    def clean(record: logging.LogRecord) -> bool:
        values = [_values[handle] for handle in list(_logged)]
        message = record.getMessage()
        cleaned = _remove(message, values)
        if cleaned != message:
            record.msg, record.args = cleaned, None
        return True

    for package in ("httpx", "httpx2"):
        logging.getLogger(package).addFilter(clean)
        for name in _LOGGERS:
            logging.getLogger(f"{package.replace('httpx', 'httpcore')}.{name}").addFilter(clean)


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return a text with `***` for the secrets in it, in any case of letters, also where they are encoded.

    The encodings are those of JSON, URLs, HTML, base64 and hexadecimal digits, also of one another. Secrets of fewer
    than 8 characters are kept. Linear in the length of the text.
    """
    return _remove(text, [secret.get_secret_value() for secret in secrets])


def _remove(text: str, values: Iterable[str]) -> str:
    # A secret may be a part of another one.
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) >= SHORTEST and _may_have(text, value):
            for form in _forms(value):
                text = _replace(text, form)
    return text


def _replace(text: str, form: str) -> str:
    """Return a text without a form of a secret; of a long one, the beginning is enough."""
    first, *rest = _PART().findall(form)
    kept: list[str] = []
    end = 0
    while (found := _compile(first).search(text, end)) is not None:
        kept += (text[end : found.start()], HIDDEN)
        end = found.end()
        for part in rest:
            if text[end : end + len(part)].lower() == part.lower():
                end += len(part)
                continue
            further = _compile(part).match(text, end)
            if further is None:
                break
            end = further.end()
    return "".join((*kept, text[end:]))


def _compile(part: str) -> re.Pattern[str]:
    return re.compile("".join(map(_pattern_of, part)), re.IGNORECASE)


def _may_have(text: str, value: str) -> bool:
    """Return whether a text has a secret or an encoded character: most have neither, and a pattern takes a while."""
    if not _ENCODED.isdisjoint(text):
        return True
    folded = text.lower()
    return any(form.lower() in folded for form in _forms(value))


# The characters with which encoded characters begin.
_ENCODED = frozenset("\\%&")


def _forms(value: str) -> Iterator[str]:
    yield value
    yield _to_bytes(value).hex()
    # In base64 a string has three forms: with 0, 1 and 2 bytes before it in its first group.
    for before in range(3):
        data = bytes(before) + _to_bytes(value)
        form = b64encode(data).decode()[(0, 2, 3)[before] : len(data) * 8 // 6]
        yield from {form, form.translate(_URL_SAFE)}


_URL_SAFE = str.maketrans("+/", "-_")
_NAMES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}


@cache
def _pattern_of(character: str) -> str:
    """Return a pattern of a character as it may be written: plain, or as an escape of Python, JSON, a URL or HTML.

    A text within a text is encoded again, which doubles each backslash and makes `%25` of a percent sign.
    """
    code = ord(character)
    data = "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in _to_bytes(character))
    name = f"|&(?:amp;){{0,2}}{_NAMES[character]};" if character in _NAMES else ""
    blank = r"|\+" if character == " " else ""
    return (
        rf"(?:\\{{0,8}}{re.escape(character)}|{data}|\\{{1,8}}(?:u{code:04x}|x{code:02x})"
        rf"|&(?:amp;){{0,2}}#(?:x0{{0,4}}{code:x}|0{{0,4}}{code});{name}{blank})"
    )


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
