"""A model with a cache, which answers repeated requests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from graphexec._arguments import MODEL, PATH, STRING, adapt, has_methods, optional, validate
from graphexec.errors import InputError
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, load_as, parse_json, to_json_data
from graphexec.messages import Model, ModelReply, Usage
from graphexec.models.progress_reports import Cached, CacheFailed
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, identity, model_name
from graphexec.runtime.calls import report
from graphexec.runtime.files import create_private
from graphexec.runtime.io import BLOCKING

# Seconds that a writer waits for writers in other processes, which take milliseconds.
_LOCK_TIMEOUT = 10.0


class CacheStore(Protocol):
    """A store of entries: strings, by keys of 64 characters. It must be thread-safe; a lost entry is only a miss.

    A `dict` is one. One of another class with `instant = True` does not block, so async calls need no thread for it.
    """

    def get(self, key: str, /) -> str | None:
        """Return the entry, or `None`."""

    def __setitem__(self, key: str, entry: str, /) -> None:
        """Store an entry, and replace an earlier one."""


STORE = has_methods("a dict, or SQLiteCache(path) for a file", "get", "__setitem__")


class SQLiteCache:
    """A cache in the file `path`, which is created if necessary. It never shrinks; delete the file to empty the cache.

    Threads and processes may share it, also after a fork: each use opens the file. A failure to read or write is
    reported as `CacheFailed`; a failed read is a miss. The file must be on a local disk. Raises `InputError` if the
    file cannot be opened or is not a cache.
    """

    __slots__ = ("_connect", "_failures", "_path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        validate("SQLiteCache", ("path", path, PATH))
        if os.fspath(path) == ":memory:":
            raise InputError("SQLiteCache needs a file, but path is ':memory:'; pass a dict to cached for memory")
        # Imported where it is used: most programs have no cache in a file.
        import sqlite3

        # Absolute, because the program may change its working directory.
        self._path = Path(path).absolute()
        # No transactions by Python: each statement is a transaction.
        self._connect = partial(sqlite3.connect, self._path, timeout=_LOCK_TIMEOUT, isolation_level=None)
        # The message of SQLite may quote a damaged file.
        self._failures = sqlite3.Error, UnicodeDecodeError
        try:
            # SQLite would create it with the mode of the process; the files of its journal have that of the database.
            # If this fails, SQLite will say so.
            with suppress(OSError):
                create_private(self._path)
            columns = "key TEXT PRIMARY KEY, entry TEXT NOT NULL"
            self._execute(f"CREATE TABLE IF NOT EXISTS replies ({columns}) WITHOUT ROWID")
            self._execute("SELECT key, entry FROM replies LIMIT 1")
        except self._failures as error:
            fact = f"the cache {self._path} cannot be used: {error}"
            raise InputError(f"{fact}; pass a file in a writable folder") from error

    def get(self, key: str) -> str | None:
        """Return the entry, or `None` if there is none or it cannot be read."""
        row = self._try("SELECT entry FROM replies WHERE key = ?", key)
        return None if row is None else row[0]

    def __setitem__(self, key: str, entry: str) -> None:
        """Store an entry, if the file can be written."""
        self._try("INSERT OR REPLACE INTO replies VALUES (?, ?)", key, entry)

    def __repr__(self) -> str:
        return f"SQLiteCache({str(self._path)!r})"

    def _try(self, statement: str, *values: str) -> tuple[str] | None:
        try:
            return self._execute(statement, *values)
        except self._failures as error:
            report(CacheFailed(error))
            return None

    def _execute(self, statement: str, *values: str) -> tuple[str] | None:
        with closing(self._connect()) as connection:
            row: tuple[str] | None = connection.execute(statement, values).fetchone()
            return row


# The version of the entries' format. It is a part of every key, so entries of other versions are misses.
_VERSION = 2


def cached(model: Model, store: CacheStore | None = None, *, name: str = "") -> WrappedModel:
    """Make a model that answers repeated requests from `store`, by default a new dict, whose entries stay.

    A cached reply has no usage and no cost, and is reported as `Cached`. Requests are the same if their messages,
    tools, stop strings, schema and tool choice are equal. Only complete replies are stored. An entry has a checksum; a
    damaged one is reported as `CacheFailed`, and is a miss. Concurrent calls do not wait for each other. An exception
    of the store ends the call. Without an API key, a run can use the cached replies; the first reply that is missing
    raises `MissingAPIKeyError`.

    If you pass a store, the `identity` of the model and the `name` distinguish its replies from those of other models;
    raises `InputError` if both are missing. A lookup takes time linear in the length of the conversation.
    """
    model = adapt(model, "model")
    validate("cached", ("model", model, MODEL), ("store", store, optional(STORE, "a new one")), ("name", name, STRING))
    model_key = [name, identity(model)]
    if store is not None and not any(model_key):
        raise InputError(
            f"cached(...) cannot distinguish {model_name(model)} from other models in the store; pass name= with the "
            f"model's name and settings, such as name='tiny, temperature 0'"
        )
    entries: CacheStore = dict[str, str]() if store is None else store
    instant = bool(getattr(entries, "instant", type(entries) is dict))

    async def flow(call: ModelCall) -> ModelReply:
        io = BLOCKING if instant else call.io
        # Canonical JSON: with sorted keys, and in ASCII, which allows lone surrogates.
        contents = [_VERSION, *model_key, call.request]
        key = _digest(json.dumps(contents, default=_as_json, sort_keys=True, separators=(",", ":")))
        found = _read(key, await io.call(partial(entries.get, key)))
        if found is not None:
            report(Cached(model_name(model)))
            return found
        reply = await call.ask(model)
        text = format_json(to_json_data(reply))
        await io.call(partial(entries.__setitem__, key, _digest(key + text) + text))
        return reply

    # Whether a call reaches the model is known only when it is made.
    return WrappedModel("cached", [model], flow, instant=instant, check=lambda: None)


# Any: JSON.
def _as_json(value: object) -> Any:
    """Return a JSON form of a value: a list of class and fields for a message, and a list for a conversation."""
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any mapping
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any sequence
    if is_dataclass(value):
        return [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}]
    raise InputError(f"a request to a cached model contains {value!r}, which is not JSON; remove it")


def _digest(text: str) -> str:
    """Return the SHA-256 of a text, in 64 characters."""
    return hashlib.sha256(text.encode()).hexdigest()


def _read(key: str, entry: object) -> ModelReply | None:
    """Return the reply of an entry, or `None` if there is none, or the entry is not as it was written."""
    if entry is None:
        return None
    try:
        # Another store, or a damaged file, may return any value.
        digest, text = str(entry)[:64], str(entry)[64:]
        if digest != _digest(key + text):
            raise ValueError("its checksum is wrong")
        reply: ModelReply = load_as(ModelReply, parse_json(text))
    except INVALID_DATA_ERRORS as error:
        report(CacheFailed(error))
        return None
    # A cached reply uses no tokens.
    return replace(reply, usage=Usage(), cost=0.0)
