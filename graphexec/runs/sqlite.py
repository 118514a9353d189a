"""Runs in a file of SQLite."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from graphexec.errors import InputError
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

    def __init__(self, path: str | os.PathLike[str], *, lease: float = 30.0) -> None:
        self.path = Path(path)
        self._database: sqlite3.Connection | None = None
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            super().__init__(lease=lease)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{self.path} cannot be used as a store of runs: {error}; name another file") from error

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
            # One thread at a time uses it.
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY)
            for setting in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL"):
                self._set(self._database, setting)
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
            return self._connect().execute(statement, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Return a context of one transaction."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def _forget_connection(self) -> None:
        self._database = None

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
