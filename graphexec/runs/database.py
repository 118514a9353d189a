"""The tables of a store of runs, and what a run that goes on writes to them. SQLite and PostgreSQL share it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Self

from graphexec._arguments import SECONDS, validate
from graphexec.runs.errors import RunLostError
from graphexec.runs.questions import Question
from graphexec.runtime.calls import ForkSafeLock, reset_after_fork

# The id of a row of the log is the serial number of its run, times this, and its number in the run: one tree of the
# database holds all, in their order.
ROWS: Final = 1 << 32


class Database(ABC):
    """The tables of a store of runs, and what a run that goes on writes to them.

    A run belongs to one process for `lease` seconds after its last sign of life.
    """

    # The types of a serial number and of an integer, and what locks a row that is read.
    serial = "INTEGER PRIMARY KEY"
    integer = "INTEGER"
    for_update = ""

    def __init__(self, *, lease: float = 30.0) -> None:
        validate(type(self).__name__, ("lease", lease, SECONDS))
        self.lease = lease
        self._lock = ForkSafeLock()
        self._live: dict[tuple[str, int], None] = {}
        self._beating: threading.Thread | None = None
        self._stop = threading.Event()
        reset_after_fork(self)
        with self._lock, self.transaction():
            self._create_tables()

    def reset_after_fork(self) -> None:
        """Leave the connection and the runs to the parent process."""
        self._live, self._beating, self._stop = {}, None, threading.Event()
        self._forget_connection()

    def _create_tables(self) -> None:
        for statement in (
            f"""CREATE TABLE IF NOT EXISTS graphexec_runs(
                serial {self.serial}, run_id TEXT NOT NULL UNIQUE, parent TEXT NOT NULL, status TEXT NOT NULL,
                owner TEXT, token {self.integer} NOT NULL, leased_until DOUBLE PRECISION NOT NULL,
                created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL,
                machine TEXT NOT NULL, start TEXT NOT NULL, note TEXT NOT NULL)""",
            "CREATE INDEX IF NOT EXISTS graphexec_runs_by_status ON graphexec_runs(parent, status, updated)",
            "CREATE INDEX IF NOT EXISTS graphexec_runs_by_date ON graphexec_runs(parent, updated)",
            "CREATE TABLE IF NOT EXISTS graphexec_machines(machine TEXT PRIMARY KEY, data TEXT NOT NULL)",
            f"CREATE TABLE IF NOT EXISTS graphexec_log(id {self.integer} PRIMARY KEY, data TEXT NOT NULL)",
            """CREATE TABLE IF NOT EXISTS graphexec_questions(
                run_id TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, asked DOUBLE PRECISION NOT NULL,
                expires DOUBLE PRECISION, reply TEXT, PRIMARY KEY(run_id, key))""",
            "CREATE INDEX IF NOT EXISTS graphexec_questions_open ON graphexec_questions(expires) WHERE reply IS NULL",
        ):
            self.execute(statement)

    @abstractmethod
    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Carry out a statement of SQL, in a transaction of its own unless it is in one; return its rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[object]:
        """Return a context of one transaction."""

    @abstractmethod
    def _forget_connection(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    def close(self) -> None:
        """Close the connection; the runs in it can be continued by others."""
        self._stop.set()
        with self._lock:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, run_id: str) -> tuple[Any, ...] | None:
        """Return the columns of a run that say who may continue it; `None` if there is no such run."""
        rows = self.execute(
            "SELECT serial, status, owner, token, leased_until, machine, start FROM graphexec_runs WHERE run_id=?",
            run_id,
        )
        return rows[0] if rows else None

    def rows(self, run_id: str, begin: int = 0) -> Sequence[str]:
        """Return the rows of a run's log, in their order, from that number on; see `graphexec.runs.entries`."""
        found = self.execute("SELECT serial FROM graphexec_runs WHERE run_id=?", run_id)
        first = found[0][0] * ROWS if found else 0
        rows = self.execute(
            "SELECT data FROM graphexec_log WHERE id>=? AND id<? ORDER BY id", first + begin, first + ROWS
        )
        return [data for (data,) in rows]

    def append(self, run_id: str, serial: int, token: int, number: int, data: str) -> None:
        """Append a row to the log of a run. Raises `RunLostError` unless it belongs to this attempt."""
        written = self.execute(
            "INSERT INTO graphexec_log SELECT ?,? FROM (SELECT 1 FROM graphexec_runs WHERE serial=? AND token=? "  # noqa: S608
            f"{self.for_update}) AS owned RETURNING 1",
            serial * ROWS + number,
            data,
            serial,
            token,
        )
        if not written:
            raise RunLostError(run_id, "was taken over by another process, or cancelled; this one stops here")

    def release(self, run_id: str, token: int, status: str, note: str | None) -> None:
        """Give a run up with this status, unless another process has taken it over."""
        self._live.pop((run_id, token), None)
        self.execute(
            "UPDATE graphexec_runs SET status=?, owner=NULL, updated=?, note=COALESCE(?, note) "
            "WHERE run_id=? AND token=?",
            status,
            time.time(),
            note,
            run_id,
            token,
        )

    def ask(self, question: Question) -> str | None:
        """Store a question unless it is there; return its answer as JSON, which is the default if it has expired."""
        data = question.to_json()
        with self._lock, self.transaction():
            self.execute(
                "INSERT INTO graphexec_questions VALUES(?,?,?,?,?,NULL) ON CONFLICT DO NOTHING",
                question.run_id,
                question.key,
                data,
                question.asked_at,
                question.expires_at,
            )
            [(stored, expires, reply)] = self.execute(
                "SELECT data, expires, reply FROM graphexec_questions WHERE run_id=? AND key=?",
                question.run_id,
                question.key,
            )
        if reply is None and expires is not None and expires <= time.time():
            return json.dumps(json.loads(stored)["default"])
        return None if reply is None else str(reply)

    def reopen(self, question: Question) -> None:
        """Ask a question again, whose answer or default the run cannot use; its text says why."""
        self.execute(
            "UPDATE graphexec_questions SET reply=NULL, expires=NULL, data=? WHERE run_id=? AND key=?",
            question.to_json(),
            question.run_id,
            question.key,
        )

    def beat(self, run_id: str, token: int) -> None:
        """Renew the lease of a run until it is released."""
        with self._lock:
            self._live[run_id, token] = None
            if self._beating is None:
                self._beating = threading.Thread(target=self._renew, name="graphexec-leases", daemon=True)
                self._beating.start()

    def _renew(self) -> None:
        stop = self._stop
        while not stop.wait(self.lease / 5):
            with self._lock:
                if not self._live:
                    self._beating = None
                    return
                live = tuple(self._live)
            # A database that is busy for a moment is tried again; the lease is five times as long.
            with contextlib.suppress(Exception):
                for run_id, token in live:
                    self.execute(
                        "UPDATE graphexec_runs SET leased_until=? WHERE run_id=? AND token=?",
                        time.time() + self.lease,
                        run_id,
                        token,
                    )
