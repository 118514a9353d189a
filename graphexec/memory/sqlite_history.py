"""Conversations in an SQLite database."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from graphexec._arguments import PATH, STRING, validate
from graphexec.errors import InputError
from graphexec.memory.history import Turn, file_of
from graphexec.messages import Image

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

# Seconds to wait for other writers: far more than one statement takes on a busy disk.
_PATIENCE = 60.0

_TABLE = """
CREATE TABLE IF NOT EXISTS graphexec_turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    input TEXT NOT NULL,
    output TEXT NOT NULL
)"""
# A table of its own, so that databases without images need no change.
_IMAGES = """
CREATE TABLE IF NOT EXISTS graphexec_images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    turn INTEGER NOT NULL,
    url TEXT NOT NULL
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS graphexec_turns_of ON graphexec_turns (conversation)"


@final
@dataclass(frozen=True, slots=True, init=False)
class SQLiteHistory:
    """A history in an SQLite database, which can hold several. `conversation` distinguishes them.

    Threads and processes may share the database. Every call opens and closes it. The turns are in the table
    `graphexec_turns`, their images in `graphexec_images`; the database may contain other tables. Raises `InputError`
    for an unusable path or file.
    """

    path: Path
    conversation: str

    def __init__(self, path: str | os.PathLike[str], *, conversation: str) -> None:
        validate("SQLiteHistory", ("path", path, PATH), ("conversation", conversation, STRING))
        if os.fspath(path) == ":memory:":
            raise InputError(
                "SQLiteHistory's path is :memory:, but every call opens a new connection; use MemoryHistory()"
            )
        object.__setattr__(self, "path", file_of("SQLiteHistory", path))
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
            images: dict[int, list[Image]] = {}
            for turn, url in database.execute(of_turns, key):
                images.setdefault(turn, []).append(Image(_text(url)))
        return tuple(Turn(_text(given), _text(answer), tuple(images.get(turn, ()))) for turn, given, answer in rows)

    def add(self, turn: Turn, /) -> None:
        """Append a turn to this conversation."""
        row = (_to_stored(self.conversation), _to_stored(turn.input), _to_stored(turn.output))
        with self._open() as database, _transaction(database):
            added = database.execute("INSERT INTO graphexec_turns (conversation, input, output) VALUES (?, ?, ?)", row)
            images = [(added.lastrowid, _to_stored(image.url)) for image in turn.images]
            database.executemany("INSERT INTO graphexec_images (turn, url) VALUES (?, ?)", images)

    def clear(self) -> None:
        """Delete every turn of this conversation, and of no other."""
        key = (_to_stored(self.conversation),)
        images = "DELETE FROM graphexec_images WHERE turn IN (SELECT id FROM graphexec_turns WHERE conversation = ?)"
        with self._open() as database, _transaction(database):
            database.execute(images, key)
            database.execute("DELETE FROM graphexec_turns WHERE conversation = ?", key)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        """Open the database and create its tables. Each statement is a transaction, so others wait only for one."""
        import sqlite3

        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as database:
                database.execute(_TABLE)
                database.execute(_INDEX)
                database.execute(_IMAGES)
                yield database
        except sqlite3.DatabaseError as error:
            if type(error) is sqlite3.DatabaseError:
                text = f"{self.path} is not an SQLite database: {error}; repair it, or name another file"
                raise InputError(text) from error
            # The primary code of the error, without its extension.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                remedy = "name a file in a writable folder"
                raise InputError(f"the database {self.path} cannot be used: {error}; {remedy}") from error
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


def _to_stored(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")
