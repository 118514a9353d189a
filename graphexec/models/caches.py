"""Where the replies of cached models are kept: in memory, or in a file.

The file is SQLite's own doing. Packages that offer a cache on disk are no longer kept (diskcache), and unpickle what
they find there; an entry here is JSON, so a file that somebody else wrote can lie, but not run.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from graphexec.errors import InputError
from graphexec.given import PATH, check, having, maybe, whole
from graphexec.models.notices import CacheFailed
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
        ...

    def put(self, key: str, entry: str) -> None:
        """Keep an entry, in the place of an earlier one."""
        ...


STORE = having("MemoryCache(), or SQLiteCache(path) for a file", "get", "put")


class MemoryCache:
    """A cache that lasts as long as the program, of the `max_entries` that were used last, or of all.

    Threads may share it. Raises `InputError` for `max_entries` that are no number, or below 1.
    """

    instant: ClassVar[bool] = True

    __slots__ = ("_entries", "_lock", "_max_entries")

    def __init__(self, max_entries: int | None = None) -> None:
        check("MemoryCache", ("max_entries", max_entries, maybe(whole(1), "no limit")))
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

    Threads and processes may share it, also after a fork: each use opens the file, so nothing is left to close. That is
    some 0.4 ms for a reading and 1.5 ms for a writing. What cannot be read is a miss, and what cannot be written is not
    kept; either is reported as `CacheFailed`. The file must be on a disk of this machine: its log is in shared memory.

    Raises `InputError` where the file cannot be opened, or is no cache.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import sqlite3

        check("SQLiteCache", ("path", path, PATH))
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
        import sqlite3

        try:
            with self._connection() as connection:
                row = connection.execute("SELECT entry FROM replies WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            report(CacheFailed(error))
            return None
        return None if row is None else row[0]

    def put(self, key: str, entry: str) -> None:
        """Keep an entry, if the file can be written."""
        import sqlite3

        try:
            with self._connection() as connection:
                connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, entry))
        except sqlite3.Error as error:
            report(CacheFailed(error))

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
