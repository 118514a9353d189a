"""Conversations in an SQLite database."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from graphexec._arguments import PATH, TEXT, check
from graphexec.errors import InputError
from graphexec.memory.history import Turn, file_of

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

# Seconds to wait for others who write: far more than their one statement takes on a busy disk.
_PATIENCE = 60.0

_TABLE = """
CREATE TABLE IF NOT EXISTS graphexec_turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    input TEXT NOT NULL,
    output TEXT NOT NULL
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS graphexec_turns_of ON graphexec_turns (conversation)"


@final
@dataclass(frozen=True, slots=True, init=False)
class SQLiteHistory:
    """A history in an SQLite database, which holds many, told apart by `conversation`: a user's name, say.

    Threads and processes may share the database. Every call opens it anew. The turns are in the table
    `graphexec_turns`, which may stand among others. Raises `InputError` for an unusable path or file.
    """

    path: Path
    conversation: str

    def __init__(self, path: str | os.PathLike[str], *, conversation: str) -> None:
        check("SQLiteHistory", ("path", path, PATH), ("conversation", conversation, TEXT))
        if os.fspath(path) == ":memory:":
            raise InputError("SQLiteHistory's path is :memory:, but every call opens it anew; use MemoryHistory()")
        object.__setattr__(self, "path", file_of("SQLiteHistory", path))
        object.__setattr__(self, "conversation", conversation)

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn of this conversation, the oldest first."""
        query = "SELECT input, output FROM graphexec_turns WHERE conversation = ? ORDER BY id"
        with self._open() as database:
            rows = database.execute(query, (_to_stored(self.conversation),)).fetchall()
        return tuple(Turn(_text(said), _text(answered)) for said, answered in rows)

    def add(self, turn: Turn, /) -> None:
        """Put a turn behind the others of this conversation."""
        row = (_to_stored(self.conversation), _to_stored(turn.input), _to_stored(turn.output))
        with self._open() as database:
            database.execute("INSERT INTO graphexec_turns (conversation, input, output) VALUES (?, ?, ?)", row)

    def clear(self) -> None:
        """Forget every turn of this conversation, and of no other."""
        with self._open() as database:
            database.execute("DELETE FROM graphexec_turns WHERE conversation = ?", (_to_stored(self.conversation),))

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        """The database with its table. Each statement is a transaction of its own, so that others wait for no more."""
        import sqlite3

        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as database:
                database.execute(_TABLE)
                database.execute(_INDEX)
                yield database
        except sqlite3.DatabaseError as error:
            if type(error) is sqlite3.DatabaseError:
                told = f"{self.path} is no SQLite database: {error}; mend it, or name another file"
                raise InputError(told) from error
            # The code of the error's kind, without what it says beyond that.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                told = "name a file in a folder that can be written to"
                raise InputError(f"the database {self.path} cannot be used: {error}; {told}") from error
            # A full disk, or somebody who never gives the lock back, has a class of its own, and says so.
            raise


def _to_stored(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")
