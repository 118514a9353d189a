"""A model that is not asked the same thing twice."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from graphexec._arguments import MODEL, PATH, STRING, has_methods, optional, validate, whole
from graphexec.errors import InputError
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, load_as, parse_json, to_json_data
from graphexec.messages import Model, ModelReply, Usage
from graphexec.models.progress_reports import Cached, CacheFailed
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, identity, model_name
from graphexec.runtime.io import BLOCKING
from graphexec.runtime.progress import report

if TYPE_CHECKING:
    import sqlite3


# Seconds that a writer waits for other processes' writers, which take milliseconds.
_PATIENCE = 10.0


class CacheStore(Protocol):
    """Where entries are kept: texts, by a key of 64 characters. Threads call it; a lost entry is only a miss.

    One that has `instant = True` does not block, so async calls need no thread for it.
    """

    def get(self, key: str) -> str | None:
        """Return the entry, or `None`."""

    def put(self, key: str, entry: str) -> None:
        """Keep an entry, in the place of an earlier one."""


STORE = has_methods("MemoryCache(), or SQLiteCache(path) for a file", "get", "put")


class MemoryCache:
    """A cache that lasts as long as the program, of the `max_entries` that were used last, or of all.

    Threads may share it. Raises `InputError` for `max_entries` that are no number, or below 1.
    """

    instant: ClassVar[bool] = True

    __slots__ = ("_entries", "_lock", "_max_entries")

    def __init__(self, max_entries: int | None = None) -> None:
        validate("MemoryCache", ("max_entries", max_entries, optional(whole(1), "no limit")))
        self._max_entries = max_entries
        self._entries: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        """Return the entry, which then counts as used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: str, entry: str) -> None:
        """Keep an entry, and drop the one that was not used for longest where there are too many."""
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            if self._max_entries is not None and len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"MemoryCache(max_entries={self._max_entries})"


class SQLiteCache:
    """A cache in the file `path`, which is made where there is none. Delete it to forget everything: it only grows.

    Threads and processes may share it, also after a fork: each use opens the file (0.4 ms to read, 1.5 ms to write). A
    failure to read is a miss, and is reported as `CacheFailed`, as a failure to write is. The file must be on a disk of
    this machine. Raises `InputError` where the file cannot be opened, or is no cache.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import sqlite3

        validate("SQLiteCache", ("path", path, PATH))
        if os.fspath(path) == ":memory:":
            raise InputError("SQLiteCache is kept in a file and was given ':memory:'; use MemoryCache() for memory")
        # Absolute: the program may change its directory.
        self._path = Path(path).absolute()
        try:
            with self._connection() as connection:
                # Readers go on while somebody writes. Two processes that both make the file cannot both set it, and
                # need not: the file remembers it.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID"
                )
                connection.execute("SELECT key, entry FROM replies LIMIT 1")
        except sqlite3.Error as error:
            raise InputError(
                f"the cache {self._path} cannot be used: {error}; name a file in a folder that can be written to"
            ) from error

    def get(self, key: str) -> str | None:
        """Return the entry, or `None` where there is none or it cannot be read."""
        row = self._execute("SELECT entry FROM replies WHERE key = ?", key)
        return None if row is None else row[0]

    def put(self, key: str, entry: str) -> None:
        """Keep an entry, if the file can be written."""
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", key, entry)

    def _execute(self, statement: str, *values: str) -> tuple[str] | None:
        import sqlite3

        try:
            with self._connection() as connection:
                row: tuple[str] | None = connection.execute(statement, values).fetchone()
                return row
        except sqlite3.Error as error:
            report(CacheFailed(error))
            return None

    def __repr__(self) -> str:
        return f"SQLiteCache({str(self._path)!r})"

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        import sqlite3

        # Without transactions of Python's: each statement is one.
        with closing(sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)) as connection:
            # After a power cut the last entries may be missing, which are misses.
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection


# Part of every key: entries of another form are misses.
_FORM = 1


def cached(model: Model, store: CacheStore | None = None, *, name: str = "") -> WrappedModel:
    """Make a model that answers what it was asked before out of `store`: a `MemoryCache` of its own, or yours.

    Such a reply has no usage and no cost, and `Cached` is reported. Requests are the same where their messages, tools,
    stop texts, schema and tool choice are equal. Only whole replies are stored. An unreadable entry is a miss. Calls at
    the same time do not wait for each other. What a store of yours raises ends the call.

    In a store of yours a model's replies are found by its `identity` and `name`; raises `InputError` where both are
    missing. Finding a key costs the length of the conversation.
    """
    validate(
        "cached", ("model", model, MODEL), ("store", store, optional(STORE, "one of its own")), ("name", name, STRING)
    )
    told_apart = [name, identity(model)]
    if store is not None and not any(told_apart):
        raise InputError(
            f"cached cannot tell {model_name(model)} from other models in the store; pass name= with its name and "
            f"settings, such as name='tiny, temperature 0'"
        )
    kept: CacheStore = MemoryCache() if store is None else store
    instant = bool(getattr(kept, "instant", False))

    async def flow(call: ModelCall) -> ModelReply:
        io = BLOCKING if instant else call.io
        key = _key([_FORM, *told_apart, call.request])
        found = _read(await io.call(partial(kept.get, key)))
        if found is not None:
            report(Cached(model_name(model)))
            return found
        reply = await call.ask(model)
        await io.call(partial(kept.put, key, format_json(to_json_data(reply))))
        return reply

    return WrappedModel("cached", [model], flow, instant=instant)


def _key(what: object) -> str:
    """Return the SHA-256 of a value's canonical JSON: with sorted keys, and ASCII, so that half a surrogate is fine."""
    text = json.dumps(what, default=_as_json, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# Any: JSON.
def _as_json(value: object) -> Any:
    """What JSON knows in the place of what it does not: of a message its class and fields, of a conversation a list."""
    match value:
        case Mapping():
            return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any mapping
        case Sequence() if not isinstance(value, bytes):
            return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any sequence
        case _ if is_dataclass(value):
            return [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}]
        case _:
            raise InputError(f"a request to a cached model holds {value!r}, which has no form in JSON; leave it out")


def _read(entry: str | None) -> ModelReply | None:
    if entry is None:
        return None
    try:
        reply: ModelReply = load_as(ModelReply, parse_json(entry))
    except INVALID_DATA_ERRORS:
        return None
    # This time nothing was spent.
    return replace(reply, usage=Usage(), cost=0.0)
