"""The turns of a conversation, and the histories that store them: in memory, or in an SQLite database."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, final

from graphexec._arguments import PATH, STRING, has_methods, validate
from graphexec.errors import InputError, format_value
from graphexec.messages import Image
from graphexec.runtime.calls import ForkSafeLock
from graphexec.runtime.files import create_private

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """The input of a run with its images, and the agent's answer. Raises `InputError` for values of other types.

    A turn with a `key` is that of a stored run, which may save it again after a crash: a history adds it once.
    """

    input: str
    output: str
    images: tuple[Image, ...] = ()
    key: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("input", self.input), ("output", self.output)):
            # Without this check an invalid turn would fail only when it is read again.
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"Turn's {name} is of the class {type(value).__name__}; pass a string")
        if not isinstance(self.images, tuple) or not all(isinstance(image, Image) for image in self.images):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Turn's images are {format_value(self.images)}; pass a tuple of Image")


class History(Protocol):
    """Stores the turns of one conversation: any object with these three methods.

    Several threads may call them concurrently. An async run calls a history without `instant = True` in a thread.
    """

    def turns(self) -> Sequence[Turn]:
        """Return every turn, the oldest first."""
        ...

    def add(self, turn: Turn, /) -> None:
        """Append a turn: all of it or, if this raises or has a turn that is equal and has the same `key`, nothing."""

    def clear(self) -> None:
        """Delete every turn."""


class CallCounter(Protocol):
    """Counts the calls of one conversation, as histories do: any object with this method. It must be thread-safe."""

    def count_calls(self, name: str, wanted: int, limit: int, key: str = "") -> int:
        """Count up to `wanted` more calls, at most `limit` in all under this name; return how many were counted.

        Counted again with a `key` that is not empty, it returns the same number and counts nothing.
        """
        ...


HISTORY = has_methods("MemoryHistory() or SQLiteHistory(path, conversation=name)", "turns", "add", "clear")


@final
class MemoryHistory:
    """A history in memory, which is lost when the process ends."""

    instant: ClassVar[bool] = True
    """It never blocks, so an async run calls it without a thread."""

    __slots__ = ("_counts", "_known", "_lock", "_turns")

    def __init__(self) -> None:
        # Each method does one atomic operation on the list, so threads need no lock; counting takes two.
        self._turns: list[Turn] = []
        self._counts: dict[str, int] = {}
        self._known: dict[tuple[str, str], int] = {}
        self._lock = ForkSafeLock()

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first."""
        return tuple(self._turns)

    def add(self, turn: Turn, /) -> None:
        """Append a turn, unless it was saved before."""
        if not turn.key or not any(one.key == turn.key and one == turn for one in self._turns):
            self._turns.append(turn)

    def clear(self) -> None:
        """Delete every turn, and the counts of calls."""
        self._turns.clear()
        self._counts.clear()
        self._known.clear()

    def count_calls(self, name: str, wanted: int, limit: int, key: str = "") -> int:
        """Count calls, as `CallCounter` has it."""
        with self._lock:
            if (name, key) in self._known:
                return self._known[name, key]
            counted = self._counts.get(name, 0)
            calls = max(0, min(wanted, limit - counted))
            self._counts[name] = counted + calls
            if key:
                self._known[name, key] = calls
            return calls

    def __repr__(self) -> str:
        return f"<MemoryHistory: {len(self._turns)} turns>"


# Seconds to wait for other writers: far more than one statement takes on a busy disk.
_PATIENCE = 60.0

_REPAIR = "repair it (sqlite3 FILE .recover), or name another file"

# When `add` returns, the turn and the end of the journal are on the disk. Images and keys have tables of their own, so
# that databases without them need no change.
_SCHEMA = """
PRAGMA synchronous = EXTRA;
CREATE TABLE IF NOT EXISTS graphexec_turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    input TEXT NOT NULL,
    output TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS graphexec_turns_of ON graphexec_turns (conversation);
CREATE TABLE IF NOT EXISTS graphexec_images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    turn INTEGER NOT NULL,
    url TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS graphexec_keys (
    key TEXT NOT NULL,
    turn INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS graphexec_keys_of ON graphexec_keys (key);
CREATE TABLE IF NOT EXISTS graphexec_calls (
    conversation TEXT NOT NULL,
    name TEXT NOT NULL,
    calls INTEGER NOT NULL,
    key TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS graphexec_calls_of ON graphexec_calls (conversation, name);
"""


@final
@dataclass(frozen=True, slots=True, init=False)
class SQLiteHistory:
    """A history in an SQLite database, which can hold several. `conversation` distinguishes them.

    Threads and processes may share the database. Every call opens and closes it. When `add` returns, the turn is on the
    disk; a crash in the middle leaves all of a turn or nothing. Only the owner may read a database that this creates
    (mode 600). The turns are in the table `graphexec_turns`, their images in `graphexec_images`, counts of calls in
    `graphexec_calls`; the database may contain other tables. Raises `InputError` for an unusable path or file, also if
    it is damaged.
    """

    path: Path
    conversation: str

    def __init__(self, path: str | os.PathLike[str], *, conversation: str) -> None:
        validate("SQLiteHistory", ("path", path, PATH), ("conversation", conversation, STRING))
        if os.fspath(path) == ":memory:":
            raise InputError(
                "SQLiteHistory's path is :memory:, but every call opens a new connection; use MemoryHistory()"
            )
        object.__setattr__(self, "path", _find_file(path))
        object.__setattr__(self, "conversation", conversation)

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn of this conversation, the oldest first."""
        query = "SELECT id, input, output FROM graphexec_turns WHERE conversation = ? ORDER BY id"
        of_turns = (
            "SELECT turn, url FROM graphexec_images "
            "WHERE turn IN (SELECT id FROM graphexec_turns WHERE conversation = ?) ORDER BY id"
        )
        key = (_to_stored(self.conversation),)
        with self._open() as database:
            rows = database.execute(query, key).fetchall()
            images = database.execute(of_turns, key).fetchall()
        try:
            urls: dict[int, list[Image]] = {}
            for turn, url in images:
                urls.setdefault(turn, []).append(Image(_text(url)))
            return tuple(Turn(_text(given), _text(answer), tuple(urls.get(turn, ()))) for turn, given, answer in rows)
        except (InputError, UnicodeDecodeError) as error:
            raise InputError(
                f"the database {self.path} has a row that is not a turn: {error}; correct or delete the row"
            ) from error

    def add(self, turn: Turn, /) -> None:
        """Append a turn to this conversation, unless it was saved before."""
        row = (_to_stored(self.conversation), _to_stored(turn.input), _to_stored(turn.output))
        same = (
            "SELECT 1 FROM graphexec_keys JOIN graphexec_turns ON id = turn "
            "WHERE key = ? AND conversation = ? AND input = ? AND output = ?"
        )
        with self._open() as database, _transaction(database):
            if turn.key and database.execute(same, (turn.key, *row)).fetchone():
                return
            added = database.execute("INSERT INTO graphexec_turns (conversation, input, output) VALUES (?, ?, ?)", row)
            images = [(added.lastrowid, _to_stored(image.url)) for image in turn.images]
            database.executemany("INSERT INTO graphexec_images (turn, url) VALUES (?, ?)", images)
            if turn.key:
                database.execute("INSERT INTO graphexec_keys (key, turn) VALUES (?, ?)", (turn.key, added.lastrowid))

    def clear(self) -> None:
        """Delete every turn of this conversation, and its counts of calls, and of no other."""
        key = (_to_stored(self.conversation),)
        with self._open() as database, _transaction(database):
            for table in ("graphexec_images", "graphexec_keys"):
                database.execute(
                    f"DELETE FROM {table} WHERE turn IN (SELECT id FROM graphexec_turns WHERE conversation = ?)",  # noqa: S608
                    key,
                )
            database.execute("DELETE FROM graphexec_turns WHERE conversation = ?", key)
            database.execute("DELETE FROM graphexec_calls WHERE conversation = ?", key)

    def count_calls(self, name: str, wanted: int, limit: int, key: str = "") -> int:
        """Count calls, as `CallCounter` has it; on return they are on the disk."""
        row = (_to_stored(self.conversation), _to_stored(name))
        where = "FROM graphexec_calls WHERE conversation = ? AND name = ?"
        with self._open() as database, _transaction(database):
            known = database.execute(f"SELECT calls {where} AND key = ? AND key <> ''", (*row, key)).fetchone()
            if known is not None:
                return int(known[0])
            (counted,) = database.execute(f"SELECT coalesce(sum(calls), 0) {where}", row).fetchone()
            calls: int = max(0, min(wanted, limit - counted))
            if calls or key:
                database.execute("INSERT INTO graphexec_calls VALUES (?, ?, ?, ?)", (*row, calls, key))
            return calls

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        """Open the database and create its tables. Each statement is a transaction, so others wait only for one."""
        import sqlite3

        try:
            # SQLite would create it with the mode of the process; the files of its journal have that of the database.
            create_private(self.path)
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as database:
                database.executescript(_SCHEMA)
                yield database
        except OSError as error:
            raise InputError(
                f"the database {self.path} cannot be used: {error.strerror}; name a file in a writable folder"
            ) from error
        except UnicodeDecodeError as error:
            # The message of SQLite quotes the damaged file.
            raise InputError(f"the database {self.path} is damaged: {error}; {_REPAIR}") from error
        except sqlite3.Error as error:
            # The primary code of the error, without its extension; the driver's own errors have none.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                remedy = "name a file in a writable folder"
                raise InputError(f"the database {self.path} cannot be used: {error}; {remedy}") from error
            if code == sqlite3.SQLITE_NOTADB:
                text = f"{self.path} is not an SQLite database: {error}; repair it, or name another file"
                raise InputError(text) from error
            if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT):
                raise InputError(f"the database {self.path} is damaged: {error}; {_REPAIR}") from error
            # A full disk, or a lock that is never released, has its own class and message.
            raise


@contextmanager
def _transaction(database: sqlite3.Connection) -> Generator[None, None, None]:
    """Make the statements inside one transaction: all of them are carried out, or none."""
    # IMMEDIATE: the transaction waits for other writers at its beginning, so it never fails in the middle.
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _find_file(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a database. Raises `InputError` if it cannot be written."""
    from pathlib import Path

    file, mode = Path(path).absolute(), None
    try:
        mode = file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        # The name is too long or contains a NUL, or this user may not read the folder.
        fact = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"SQLiteHistory's path {file} cannot be used: {fact}; name another file") from error
    if mode is None and not file.parent.is_dir():
        raise InputError(f"SQLiteHistory's path {file} is in no directory that exists; create {file.parent} first")
    if mode is not None and not stat.S_ISREG(mode):
        raise InputError(f"SQLiteHistory's path {file} is not a regular file; name a file on a disk")
    if not os.access(file.parent if mode is None else file, os.W_OK):
        fact = "cannot be written; give this user write permission, or name another file"
        raise InputError(f"SQLiteHistory's path {file} {fact}")
    return file


def _to_stored(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _text(stored: object) -> str:
    match stored:
        case str():
            return stored
        case bytes():
            return stored.decode("utf-8", "surrogatepass")
        case _:
            raise InputError(f"it has {format_value(stored)} in the place of a string")
