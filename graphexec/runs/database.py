"""The tables of a store of runs, and what a run that goes on writes to them. SQLite and PostgreSQL share it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self
from weakref import WeakSet

from graphexec._arguments import TIMEOUT, validate
from graphexec.errors import InputError
from graphexec.runs.errors import RunLostError, StoreError
from graphexec.runs.questions import Question
from graphexec.runtime.calls import ForkSafeLock, reset_after_fork

# The id of a row of the log is the serial number of its run, times this, and its number in the run: one tree of the
# database holds all, in their order.
ROWS: Final = 1 << 32

# The version of the tables. A store with tables of another version is refused.
_VERSION: Final = 1

# A question that has no answer yet, at this time.
OPEN: Final = "reply IS NULL AND (expires IS NULL OR expires>?)"

LOST: Final = "was taken over by another process, or cancelled; this one stops here"


class Database(ABC):
    """The tables of a store of runs, and what a run that goes on writes to them.

    A run belongs to one process for `lease` seconds after its last sign of life.
    """

    # The types of a serial number, which is never used twice, and of an integer; what begins a transaction that writes,
    # locks a row that is read, and finds a table.
    serial = "INTEGER PRIMARY KEY AUTOINCREMENT"
    integer = "INTEGER"
    begin = "BEGIN IMMEDIATE"
    for_update = ""
    find_table = "SELECT 1 FROM sqlite_master WHERE name=?"

    def __init__(self, label: str, *, lease: float = 30.0) -> None:
        validate(type(self).__name__, ("lease", lease, TIMEOUT))
        self.label = label
        self.lease = lease
        # Any: the connection, of a library that is the subclass's own, and those of the parent process: to close one of
        # these would write to its file, or close it for its owner.
        self._database: Any = None
        self._inherited: list[Any] = []
        self.closed = False
        self._lock = ForkSafeLock()
        self._live: dict[tuple[int, int], None] = {}
        self._beating: threading.Thread | None = None
        self._stop = threading.Event()
        reset_after_fork(self)
        _stores.add(self)
        try:
            with self.transaction():
                self._create_tables()
        except BaseException:
            self._close()
            raise

    def reset_after_fork(self) -> None:
        """Leave the connection and the runs to the parent process."""
        self._live, self._beating, self._stop = {}, None, threading.Event()
        self._forget_connection()

    def close_before_fork(self) -> bool:
        """Close the connection, and keep the lock while the process forks; return False if it is in use.

        SQLite's locks are lost in a fork, also those of a new connection to a file that is open already: what the
        child writes is lost when the parent closes the file.
        """
        if not self._lock.acquire(timeout=1.0):
            return False
        if not self._in_transaction():
            self._close()
        return True

    def open_after_fork(self) -> None:
        """Release the lock."""
        self._lock.release()

    def _create_tables(self) -> None:
        if self.execute(self.find_table, "graphexec_version"):
            [(version,)] = self.execute("SELECT max(version) FROM graphexec_version")
            if version != _VERSION:
                raise InputError(
                    f"{self.label} has tables of version {version}, and this graphexec has version {_VERSION}; use it "
                    "with the graphexec that wrote it, or a later one"
                )
            return
        self._lock_tables()
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
            f"CREATE TABLE IF NOT EXISTS graphexec_version(version {self.integer} PRIMARY KEY)",
            f"INSERT INTO graphexec_version VALUES({_VERSION}) ON CONFLICT DO NOTHING",
        ):
            self.execute(statement)

    @abstractmethod
    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Carry out a statement of SQL, in a transaction of its own unless it is in one; return its rows.

        Raises `StoreError` if the database cannot do so. Outside of a transaction, it may be carried out twice.
        """

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Return a context of one transaction, in which no other thread uses the store."""
        with self._lock:
            self.execute(self.begin)
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(StoreError):
                    if self._in_transaction():
                        self.execute("ROLLBACK")
                raise

    def change(self, statement: str, parameters: Sequence[object], *, durable: bool) -> int:
        """Carry out a statement that changes rows, whose strings are `storable`; return their number."""
        del durable
        return len(self.execute(f"{statement} RETURNING 1", *parameters))

    @abstractmethod
    def _in_transaction(self) -> bool: ...

    @abstractmethod
    def _lock_tables(self) -> None: ...

    def _forget_connection(self) -> None:
        self._inherited.append(self._database)
        self._database = None

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def close(self) -> None:
        """Close the connection; the runs in it can be continued by others."""
        self._stop.set()
        with self._lock:
            with contextlib.suppress(StoreError):
                self._lease(tuple(self._live), 0.0)
            self._live = {}
            self.closed = True
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, run_id: str) -> tuple[Any, ...] | None:
        """Return the columns of a run that say who may continue it; `None` if there is no such run."""
        rows = self.execute(
            "SELECT serial, status, owner, token, leased_until, machine, start, parent FROM graphexec_runs "
            "WHERE run_id=?",
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

    def append(self, run_id: str, serial: int, token: int, number: int, data: str, *, durable: bool) -> None:
        """Append a row to the log of a run. Raises `RunLostError` unless it belongs to this attempt.

        A row that is not `durable` outlives the process, and the machine once a later one is durable.
        """
        # The same row may be written again, after the connection broke.
        written = self.change(
            "INSERT INTO graphexec_log SELECT ?,? FROM graphexec_runs WHERE serial=? AND token=? "  # noqa: S608
            f"{self.for_update} ON CONFLICT(id) DO UPDATE SET data=excluded.data "
            "WHERE graphexec_log.data=excluded.data",
            (serial * ROWS + number, data, serial, token),
            durable=durable,
        )
        if not written:
            raise RunLostError(run_id, LOST)

    def release(self, serial: int, token: int, status: str, note: str | None, owner: str | None = None) -> None:
        """Give a run up with this status, unless another process has taken it over.

        An `owner` is the process that crashed while it carried the run on. If the database cannot be used, the run is
        given up when its lease ends.
        """
        self._live.pop((serial, token), None)
        now = time.time()
        with contextlib.suppress(StoreError), self.transaction():
            # `reply` locks the row, too, and answers either before this, or when the run waits already.
            self._lock_run("serial=?", serial)
            if status == "waiting":
                found = self.execute(
                    "SELECT parent, (SELECT data FROM graphexec_questions WHERE run_id=graphexec_runs.run_id "  # noqa: S608
                    f"AND {OPEN} ORDER BY asked, key LIMIT 1) FROM graphexec_runs WHERE serial=?",
                    now,
                    serial,
                )
                for parent, question in found:
                    note = question and json.loads(question)["text"][:500]
                    # The questions of a nested run are those of the run around it.
                    status = status if parent or question else "ready"
            self.execute(
                "UPDATE graphexec_runs SET status=?, owner=?, leased_until=0, updated=?, note=COALESCE(?, note) "
                "WHERE serial=? AND token=?",
                status,
                owner,
                now,
                note,
                serial,
                token,
            )

    def _lock_run(self, where: str, *parameters: object) -> bool:
        """Return whether there is such a run, whose row no other process changes until the transaction ends."""
        return bool(self.execute(f"SELECT 1 FROM graphexec_runs WHERE {where} {self.for_update}", *parameters))  # noqa: S608

    def ask(self, question: Question) -> str | None:
        """Store a question unless it is there; return its answer as JSON, which is the default once it has expired.

        Raises `RunLostError` for a run that was cancelled.
        """
        data = question.to_json()
        with self.transaction():
            if not self._lock_run("run_id=? AND status<>'cancelled'", question.run_id):
                raise RunLostError(question.run_id, LOST)
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

    def beat(self, serial: int, token: int) -> None:
        """Renew the lease of a run until it is released."""
        with self._lock:
            self._live[serial, token] = None
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
                self._lease(live, time.time() + self.lease)

    def _lease(self, runs: Sequence[tuple[int, int]], until: float) -> None:
        for serial, token in runs:
            self.execute("UPDATE graphexec_runs SET leased_until=? WHERE serial=? AND token=?", until, serial, token)


def storable(parameters: Sequence[object]) -> list[object]:
    """Return parameters whose strings every database stores; in JSON, they mean the same."""
    return [
        one.encode("utf-8", "backslashreplace").decode().replace("\0", r"\u0000") if isinstance(one, str) else one
        for one in parameters
    ]


_stores: WeakSet[Database] = WeakSet()
# By thread, while it forks.
_locked: dict[int, list[Database]] = {}


def _before_fork() -> None:
    _locked[threading.get_ident()] = [one for one in list(_stores) if one.close_before_fork()]


def _after_fork() -> None:
    for one in _locked.pop(threading.get_ident(), ()):
        one.open_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_locked.clear)
