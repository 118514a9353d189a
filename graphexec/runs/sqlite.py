"""Runs in a file of SQLite."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from graphexec.errors import InputError
from graphexec.runs.database import storable
from graphexec.runs.errors import StoreError
from graphexec.runs.store import Runs

# Seconds to wait for another process that writes.
_BUSY = 30.0


@final
class SQLiteRuns(Runs):
    """A store of runs in a file, which several processes of this machine may use at a time.

    What is stored survives the end of the process and of the machine (WAL, `synchronous=FULL`). Only this user can read
    the file: it has the arguments and the results of all calls. `lease` is in seconds; see `Runs`. Raises `InputError`
    for a file that is not such a store, or cannot be written.
    """

    _database: sqlite3.Connection | None

    def __init__(self, path: str | os.PathLike[str], *, lease: float = 30.0) -> None:
        self.path = Path(path)
        self._durable = True
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            super().__init__(f"the store {self.path}", lease=lease)
        except (OSError, StoreError) as error:
            remedy = "wait for the program that writes to it" if "locked" in str(error) else "name another file"
            fact = error.strerror if isinstance(error, OSError) else error.__cause__ or error
            raise InputError(f"{self.path} cannot be used as a store of runs: {fact}; {remedy}") from error

    @staticmethod
    def is_store(path: str | os.PathLike[str]) -> bool:
        """Return whether a file is a store of runs; it is not changed."""
        try:
            database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY)
            try:
                return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name='graphexec_runs'").fetchall())
            finally:
                database.close()
        except sqlite3.Error:
            return False

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            if self.closed:
                raise StoreError(f"{self.label} is closed; open it again: SQLiteRuns({str(self.path)!r})")
            # One thread at a time uses it.
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY)
            known = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            if known and "graphexec_runs" not in known:
                raise StoreError("it is a database of another program")
            for setting in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL"):
                self._set(self._database, setting)
            self._durable = True
        return self._database

    @staticmethod
    def _set(database: sqlite3.Connection, setting: str) -> None:
        """Set what SQLite does not wait for while another process makes the file."""
        ends = time.monotonic() + _BUSY
        while True:
            try:
                database.execute(f"PRAGMA {setting}")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > ends:
                    raise
                time.sleep(0.01)
            else:
                return

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Carry out a statement; return its rows."""
        with self._lock:
            try:
                self._sync(durable=True)
                return self._connect().execute(statement, storable(parameters)).fetchall()
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def change(self, statement: str, parameters: Sequence[object], *, durable: bool) -> int:
        """Carry out a statement that changes rows, whose strings are `storable`; return their number."""
        with self._lock:
            try:
                if durable is not self._durable:
                    self._sync(durable=durable)
                return self._connect().execute(statement, parameters).rowcount
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{self.label} cannot be used: {error}; its runs can be resumed")

    def _sync(self, *, durable: bool) -> None:
        """Let the next commits wait for the disk, or leave that to a later one: in WAL it writes what was left, too."""
        database = self._connect()
        if durable is not self._durable and not database.in_transaction:
            database.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _in_transaction(self) -> bool:
        return self._database is not None and self._database.in_transaction

    def _lock_tables(self) -> None:
        """The transaction has locked them."""
