"""The store of runs: who may continue a run, and what people and other programs do with it."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, final, get_args

from graphexec._arguments import SECONDS, Constraint, optional, validate, whole
from graphexec.errors import InputError, SnapshotError, described, format_value
from graphexec.kernel.exactness import find_difference
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.runs.database import LOST, OPEN, ROWS, Database
from graphexec.runs.errors import RunBusyError, RunChangedError, RunLostError, RunStoreError
from graphexec.runs.fingerprint import describe_machine, find_changes
from graphexec.runs.history import StoredHistory, cut_log, read_log
from graphexec.runs.log import StoredLog
from graphexec.runs.owner import format_owner, is_gone, this_process
from graphexec.runs.questions import Question
from graphexec.runtime.stored import Opening

RunStatus: TypeAlias = Literal["running", "waiting", "ready", "failed", "done", "cancelled"]

# Of the parts that an error names.
_MOST_CHANGES = 5

_STATUS = Constraint(f"one of {', '.join(get_args(RunStatus))}", lambda value: value in get_args(RunStatus))


@final
@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in a store. Times are in seconds since the epoch.

    A `running` run is carried on by a process, or its process has ended: then `is_ready` says that it can be continued,
    and so it does of one whose questions are answered (`ready`) or have expired. `note` is the answer, the error, or
    the question that it waited for. `parent` is the run that contains a nested one.
    """

    run_id: str
    status: RunStatus
    created: float
    updated: float
    note: str
    is_ready: bool
    parent: str = ""


class Runs(Database):
    """A store of runs; several processes may use it at a time, and a fork of one makes a connection of its own.

    A run belongs to one process at a time, for `lease` seconds after its last sign of life. A store can be closed, and
    be used as a context manager.
    """

    def open(self, opening: Opening) -> StoredLog:
        """Begin or continue a run; it belongs to this caller until the log is closed.

        Raises `RunBusyError` if it belongs to another, `RunChangedError` if its machine is another one, `InputError`
        for a run that there is not, or that began with other inputs, and `RunStoreError` for one that was cancelled.
        """
        run_id = opening.run_id
        machine, data = describe_machine(opening.graph)
        if opening.parent:
            around = self.find(opening.parent)
            if around is None or around[2] != this_process():
                raise RunLostError(opening.parent, LOST)
        row = self.find(run_id)
        if row is None:
            if opening.value is None:
                raise InputError(f"there is no run {run_id} in this store; begin it: run(inputs, runs=..., run_id=...)")
            start = self._make_start(opening)
            if serial := self._begin(opening, start, machine, data):
                start = replace(start, run_id=run_id)
                log = StoredLog(self, opening, read_log((), opening, start), serial, 1)
                log.begin([0.0, None, False, {}])
                self.beat(serial, 1)
                return log
            row = self.find(run_id)
            assert row is not None, "another process has begun it"
        serial, status, owner, token, until, stored, text, parent = row
        if parent != opening.parent:
            nested = f"is nested in the run {parent}; continue that one"
            raise RunStoreError(run_id, nested if parent else "has the id of a call; begin it again under another id")
        if status == "cancelled":
            raise RunStoreError(run_id, f"was cancelled; fork it: store.fork({run_id!r})")
        if stored != machine and not opening.migrate:
            self._raise_changes(run_id, stored, data)
        try:
            start = Snapshot.from_json(text, opening.graph)
        except SnapshotError as error:
            raise RunChangedError(run_id, f"cannot be read: {error}") from error
        given = None if opening.value is None else self._make_start(opening)
        # Sets have another order in each process.
        if given is not None and given.to_json() != text and find_difference(given, start):
            raise InputError(f"the run {run_id} began with other inputs; give another run_id, or the same inputs")
        start = replace(start, run_id=run_id)
        if status == "done":
            return StoredLog(self, opening, read_log(self.rows(run_id), opening, start), serial, 0)
        now = time.time()
        # A nested run belongs to the process of the run around it.
        stale = opening.parent and owner != this_process()
        if owner is not None and until > now and not stale and not is_gone(owner):
            raise RunBusyError(
                run_id,
                f"is carried on by {format_owner(owner)}; wait for its end, or {until - now:.0f} seconds if it is gone",
            )
        # Taken over first, then read: what another process writes after this is refused.
        with self.transaction():
            taken = self.execute(
                "UPDATE graphexec_runs SET status='running', owner=?, token=token+1, leased_until=?, machine=? "
                "WHERE serial=? AND token=? AND status<>'cancelled' RETURNING token",
                this_process(),
                now + self.lease,
                machine,
                serial,
                token,
            )
        if not taken:
            raise RunBusyError(run_id, "was just taken over by another process; wait for its end")
        (token,) = taken[0]
        try:
            if stored != machine:
                self._add_machine(machine, data)
            history = read_log(self.rows(run_id), opening, start)
            # Its process may have carried it on until its lease ended; that is its time, too.
            crashed = owner is not None
            lost = max(0.0, min(now, until) - history.written) if crashed and history.written else 0.0
            log = StoredLog(self, opening, history, serial, token)
            unpaid = history.choose_unpaid(self)
            # What is charged again counts as a restart, whatever has ended the process, so that the bounds hold.
            charged = self._charged_by_nested(history, opening.parent or run_id)
            log.begin([history.seconds + lost, unpaid, crashed or bool(unpaid), charged])
        except BaseException as error:
            self.release(serial, token, "failed", described(error)[:500], owner)
            raise
        self.beat(serial, token)
        return log

    def _charged_by_nested(self, history: StoredHistory, root: str) -> dict[str, dict[str, float]]:
        """Return what the nested runs of the open calls have charged that the log does not have, by id and by meter."""
        calls = {str(call.id) for call in history.calls}
        if not calls:
            return {}
        known = {run_id for (run_id,) in self.execute("SELECT run_id FROM graphexec_runs WHERE parent=?", root)}
        if not (begun := calls & known):
            return {}
        # Loads what reads a log without the code of its machine, which this process may not have yet.
        from graphexec.runs.pages import charges_of

        found = {run_id: charges_of(self, run_id, history.charged.get(run_id, {})) for run_id in sorted(begun)}
        return {run_id: amounts for run_id, amounts in found.items() if amounts}

    @staticmethod
    def _make_start(opening: Opening) -> Snapshot:
        """Return the start of a run as another process would read it, without its id: a copy has another one."""
        value = opening.value
        start = replace(value, run_id="") if isinstance(value, Snapshot) else begin(opening.graph, value)
        return Snapshot.from_json(start.to_json(), opening.graph)

    def _begin(self, opening: Opening, start: Snapshot, machine: str, data: str) -> int | None:
        now = time.time()
        with self.transaction():
            self._add_machine(machine, data)
            made = self.execute(
                "INSERT INTO graphexec_runs(run_id, parent, status, owner, token, leased_until, created, updated, "
                "machine, start, note) VALUES(?,?,'running',?,1,?,?,?,?,?,'') ON CONFLICT DO NOTHING RETURNING serial",
                opening.run_id,
                opening.parent,
                this_process(),
                now + self.lease,
                now,
                now,
                machine,
                start.to_json(),
            )
        return made[0][0] if made else None

    def _add_machine(self, machine: str, data: str) -> None:
        self.execute("INSERT INTO graphexec_machines VALUES(?,?) ON CONFLICT DO NOTHING", machine, data)

    def _raise_changes(self, run_id: str, stored: str, data: str) -> None:
        [(before,)] = self.execute("SELECT data FROM graphexec_machines WHERE machine=?", stored)
        changes = find_changes(json.loads(before)["fingerprint"], json.loads(data)["fingerprint"])
        more = len(changes) - _MOST_CHANGES
        raise RunChangedError(
            run_id,
            f"was begun by another version of this machine: {'; '.join(changes[:_MOST_CHANGES])}"
            f"{f' and {more} more changes' if more > 0 else ''}; continue it with that version, or with migrate=True, "
            "which compares each of its calls",
            changes,
        )

    def list(self, status: RunStatus | None = None, *, limit: int = 100) -> builtins.list[StoredRun]:
        """Return the runs, or those of a status, the last changed one first; at most `limit`. Nested runs are left out.

        Raises `InputError` for an invalid argument.
        """
        validate("list", ("status", status, optional(_STATUS)), ("limit", limit, whole(1)))
        only = "" if status is None else "AND status=? "
        return self._read_runs(
            f"parent='' {only}ORDER BY updated DESC LIMIT ?", *[status] * (status is not None), limit
        )

    def get(self, run_id: str) -> StoredRun:
        """Return a run. Raises `InputError` if there is none of this id."""
        found = self._read_runs("run_id=?", run_id)
        if not found:
            raise InputError(f"there is no run {format_value(run_id)} in this store")
        return found[0]

    def ready(self, *, limit: int = 100) -> builtins.list[str]:
        """Return the ids of runs that can go on now: all is answered or has expired, or their process is gone."""
        now = time.time()
        running = "parent='' AND status='running'"
        owners = [one for (one,) in self.execute(f"SELECT DISTINCT owner FROM graphexec_runs WHERE {running}")]  # noqa: S608
        gone = [one for one in owners if one and is_gone(one)]
        found = self.execute(
            "SELECT run_id, updated FROM graphexec_runs WHERE parent='' AND status='ready' "  # noqa: S608
            f"UNION ALL SELECT run_id, updated FROM graphexec_runs WHERE {running} "
            f"AND (leased_until<=? OR owner IN ({','.join('?' for _ in ['', *gone])})) "
            "UNION ALL SELECT run_id, updated FROM graphexec_runs WHERE parent='' AND status='waiting' "
            "AND run_id IN (SELECT run_id FROM graphexec_questions WHERE reply IS NULL AND expires<=?) "
            f"AND run_id NOT IN (SELECT run_id FROM graphexec_questions WHERE {OPEN}) ORDER BY updated LIMIT ?",
            now,
            "",
            *gone,
            now,
            now,
            limit,
        )
        return [run_id for run_id, _ in found]

    def nested(self, run_id: str) -> builtins.list[StoredRun]:
        """Return the runs that are nested in a run at any depth, in the order of their dates."""
        return self._read_runs("parent=? ORDER BY created", run_id)

    def _read_runs(self, where: str, *parameters: object) -> builtins.list[StoredRun]:
        now = time.time()
        rows = self.execute(
            "SELECT run_id, status, created, updated, note, owner, leased_until, parent, "  # noqa: S608
            "status='waiting' AND parent='' AND NOT EXISTS "
            f"(SELECT 1 FROM graphexec_questions WHERE graphexec_questions.run_id=graphexec_runs.run_id AND {OPEN}) "
            f"FROM graphexec_runs WHERE {where}",
            now,
            *parameters,
        )
        return [
            StoredRun(
                run_id,
                status,
                created,
                updated,
                note,
                status == "ready"
                or bool(expired)
                or (status == "running" and (owner is None or until <= now or is_gone(owner))),
                parent,
            )
            for run_id, status, created, updated, note, owner, until, parent, expired in rows
        ]

    def questions(self, run_id: str | None = None, *, limit: int | None = None) -> builtins.list[Question]:
        """Return the open questions of a run and of those nested in it, or of all runs, in the order of their dates.

        A `limit` is the most that are read.
        """
        where, parameters = ("", ()) if run_id is None else ("AND run_id=? ", (run_id,))
        most = "" if limit is None else f" LIMIT {limit:d}"
        rows = self.execute(
            f"SELECT run_id, key, data, asked, expires FROM graphexec_questions WHERE reply IS NULL {where}"  # noqa: S608
            f"ORDER BY asked, run_id, key{most}",
            *parameters,
        )
        now = time.time()
        return [
            Question(of, key, asked_at=asked, expires_at=expires, **json.loads(data))
            for of, key, data, asked, expires in rows
            if expires is None or expires > now
        ]

    def reply(self, run_id: str, key: str, value: object) -> bool:
        """Answer a question, from any process; return False if it was answered before, or has expired.

        `value` is JSON data, or an object that becomes such, as a pydantic model does. Raises `InputError` for a
        question that there is not, and for a value that does not fit its schema.
        """
        question = self.find_question(run_id, key)
        if question is None:
            known = ", ".join(one.key for one in self.questions(run_id)) or "none"
            raise InputError(
                f"the run {format_value(run_id)} has no question {format_value(key)}; its open ones are {known}"
            )
        text, now = question.read(value), time.time()
        with self.transaction():
            self._lock_run("run_id=?", run_id)
            answered = self.execute(
                f"UPDATE graphexec_questions SET reply=? WHERE run_id=? AND key=? AND {OPEN} RETURNING 1",  # noqa: S608
                text,
                run_id,
                key,
                now,
            )
            self.execute(
                "UPDATE graphexec_runs SET status='ready', updated=? WHERE run_id=? AND status='waiting' "  # noqa: S608
                f"AND NOT EXISTS (SELECT 1 FROM graphexec_questions WHERE run_id=? AND {OPEN})",
                now,
                run_id,
                run_id,
                now,
            )
        return bool(answered)

    def cancel(self, run_id: str) -> None:
        """Cancel a run: a process that carries it on stops before its next effect. A run that is done stays so."""
        self.get(run_id)
        with self.transaction():
            self.execute(
                "UPDATE graphexec_runs SET status='cancelled', owner=NULL, token=token+1, updated=? "
                "WHERE (run_id=? OR parent=?) AND status NOT IN ('done', 'cancelled')",
                time.time(),
                run_id,
                run_id,
            )
            self.execute("DELETE FROM graphexec_questions WHERE run_id=? AND reply IS NULL", run_id)

    def fork(self, run_id: str, *, at: int | None = None, new_id: str | None = None) -> str:
        """Copy a run with its first `at` replies, by default all; return the id of the copy, which waits to be run.

        Raises `InputError` for a run that there is not, for more replies than it has, and for an id that is taken.
        """
        validate("fork", ("at", at, optional(whole(0))))
        self.get(run_id)
        copy = new_id or f"{run_id}-{time.time_ns():x}"
        rows = cut_log(self.rows(run_id), at, run_id)
        now = time.time()
        with self.transaction():
            made = self.execute(
                "INSERT INTO graphexec_runs(run_id, parent, status, owner, token, leased_until, created, updated, "
                "machine, start, note) SELECT ?, '', 'ready', NULL, token, 0, ?, ?, machine, start, '' "
                "FROM graphexec_runs WHERE run_id=? ON CONFLICT DO NOTHING RETURNING serial",
                copy,
                now,
                now,
                run_id,
            )
            if not made:
                raise InputError(f"there is a run {copy} already; give another new_id")
            self._copy_rows(made[0][0], rows)
        return copy

    def _copy_rows(self, serial: int, rows: Iterable[str]) -> None:
        for number, data in enumerate(rows):
            self.execute("INSERT INTO graphexec_log VALUES(?,?)", serial * ROWS + number, data)

    def prune(self, *, older_than: float = 0.0, status: Sequence[RunStatus] = ("done", "cancelled")) -> int:
        """Delete the runs of these statuses that have not changed for `older_than` seconds; return their number."""
        validate("prune", ("older_than", older_than, SECONDS), *(("status", one, _STATUS) for one in status))
        before = time.time() - older_than
        deleted = 0
        for one in status:
            old = "SELECT run_id FROM graphexec_runs WHERE parent='' AND status=? AND updated<=?"
            for (run_id,) in self.execute(old, one, before):
                deleted += self._delete(run_id, one, before)
        return deleted

    def _delete(self, run_id: str, status: str, before: float) -> bool:
        with self.transaction():
            # Unless it goes on since it was found.
            roots = self.execute(
                "DELETE FROM graphexec_runs WHERE run_id=? AND status=? AND updated<=? RETURNING serial",
                run_id,
                status,
                before,
            )
            if roots:
                nested = self.execute("DELETE FROM graphexec_runs WHERE parent=? RETURNING serial", run_id)
                for (serial,) in [*roots, *nested]:
                    self.execute("DELETE FROM graphexec_log WHERE id>=? AND id<?", serial * ROWS, (serial + 1) * ROWS)
                self.execute("DELETE FROM graphexec_questions WHERE run_id=?", run_id)
        return bool(roots)

    def find_question(self, run_id: str, key: str) -> Question | None:
        """Return a question of a run, open or answered; `None` if there is none of that key."""
        rows = self.execute(
            "SELECT data, asked, expires FROM graphexec_questions WHERE run_id=? AND key=?", run_id, key
        )
        if not rows:
            return None
        [(data, asked, expires)] = rows
        return Question(run_id, key, asked_at=asked, expires_at=expires, **json.loads(data))

    def machine_of(self, run_id: str) -> Mapping[str, Any]:
        """Return what is kept of the machine of a run: its fingerprint and its picture."""
        [(data,)] = self.execute(
            "SELECT data FROM graphexec_machines NATURAL JOIN graphexec_runs WHERE run_id=?", run_id
        )
        known: Mapping[str, Any] = json.loads(data)
        return known
