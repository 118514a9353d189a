"""Both stores of runs, by one set of tests: who may continue a run, and what becomes of it."""

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from graphexec import AgentExecutor, RunResult, tool
from graphexec.errors import InputError
from graphexec.kernel.effects import InDoubt
from graphexec.runs import CallInDoubtError, RunBusyError, RunLostError, Runs, RunStoreError, StoreError, Waiting
from graphexec.runs import owner as owners
from tests.executor.actors import act, answer, make_executor
from tests.runs.stores import TRAVEL, Book, Desk, Place, Plan, Trip, apart, forked, wait_until

ALONE = Plan(stops=2, waits=())
BOTH = Trip(("stop 0", "stop 1"), ())


def ids(runs: list[Any]) -> list[str]:
    return [run.run_id for run in runs]


# ---- one caller


def test_finished_run_returns_its_result(store: Runs, place: Place) -> None:
    desk = Desk(store)
    assert desk.run(ALONE) == desk.run(ALONE) == desk.run() == BOTH
    with place.open() as other:
        assert Desk(other).run() == BOTH
        run = other.get("trip")
    assert desk.booked == [0, 1]
    assert (run.status, run.is_ready, "stop 1" in run.note) == ("done", False, True)


def test_other_inputs_and_unknown_runs_are_refused(store: Runs) -> None:
    Desk(store).run(ALONE)
    for plan, run_id in ((Plan(stops=3), "trip"), (None, "nowhere")):
        with pytest.raises(InputError, match=run_id):
            Desk(store).run(plan, run_id)
    for find in (store.get, store.cancel, store.fork):
        with pytest.raises(InputError, match="nowhere"):
            find("nowhere")
    wrong: Any = "gone"
    calls: tuple[Callable[[], Any], ...] = (
        lambda: store.list(wrong),
        lambda: store.list(limit=0),
        lambda: store.prune(status=wrong),
        lambda: store.prune(older_than=-1),
    )
    for call in calls:
        with pytest.raises(InputError, match="give"):
            call()


def test_failed_run_continues_where_it_failed(store: Runs) -> None:
    def fail_once(stop: int) -> None:
        if stop and not failures:
            failures.append(stop)
            raise LookupError("full\0 \ud83d")

    failures: list[int] = []
    desk = Desk(store, fail_once)
    with pytest.raises(LookupError):
        desk.run(ALONE)
    run = store.get("trip")
    assert (run.status, run.is_ready, "full" in run.note) == ("failed", False, True)
    assert desk.run() == BOTH
    assert desk.booked == [0, 1]


def test_lists_are_by_status_and_date(store: Runs) -> None:
    for number in range(3):
        Desk(store).run(ALONE, f"done {number}")
    Desk(store).run(Plan(), "open")
    assert ids(store.list()) == ["open", "done 2", "done 1", "done 0"]
    assert ids(store.list("done", limit=2)) == ["done 2", "done 1"]
    assert ids(store.list("waiting")) == ["open"]
    assert store.list("failed") == []


# ---- several callers


def test_run_belongs_to_one_caller(store: Runs, place: Place) -> None:
    def look(stop: int) -> None:
        with place.open() as other:
            seen.append((other.get("trip").status, other.ready()))
            for one in (store, other):
                with pytest.raises(RunBusyError, match="trip"):
                    apart(Desk(one).run)

    seen: list[Any] = []
    assert Desk(store, look).run(ALONE) == BOTH
    assert seen == [("running", [])] * 2


def test_one_of_many_callers_begins_a_run(store: Runs, place: Place) -> None:
    def begin(number: int) -> object:
        with place.open() as own:
            barrier.wait()
            try:
                return Desk(own, lambda _: wait_until(lambda: len(busy) == 3)).run(ALONE)
            except RunBusyError as error:
                busy.append(error)
                return error

    barrier = threading.Barrier(4)
    busy: list[RunBusyError] = []
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(begin, range(4)))
    assert results.count(BOTH) == 1
    assert len(busy) == 3


@pytest.mark.medium
def test_many_threads_and_processes_open_a_new_store(place: Place) -> None:
    def use() -> None:
        with place.open() as own:
            Desk(own).run(ALONE, f"run {os.getpid()}")

    with forked(use), forked(use), forked(use):
        use()
    with place.open() as own, ThreadPoolExecutor(4) as pool:
        assert len(own.list("done")) == 4
        assert list(pool.map(partial(Desk(own).run, ALONE), map(str, range(12)))) == [BOTH] * 12


def test_lapsed_lease_is_taken_over_and_fenced(place: Place) -> None:
    """The first process did not renew its lease, as one that was stopped."""

    def take_over(stop: int) -> None:
        if stop == 1:
            vars(first)["_stop"].set()
            wait_until(lambda: second.get("trip").is_ready)
            assert second.ready() == ["trip"]
            later.append(apart(Desk(second).run))

    later: list[Trip] = []
    with place.open(lease=0.05) as first, place.open() as second:
        # Not the last effect: the first process notices at the next row that it writes.
        with pytest.raises(RunLostError, match="trip"):
            Desk(first, take_over).run(ALONE)
        assert later == [BOTH]
        assert second.get("trip").status == "done"


def test_lease_is_renewed(place: Place) -> None:
    def wait(stop: int) -> None:
        until = time.time() + 0.3
        wait_until(lambda: time.time() > until)
        ready.extend(store.ready())

    ready: list[str] = []
    with place.open(lease=0.2) as store:
        assert Desk(store, wait).run(Plan(waits=())) == Trip(("stop 0",), ())
    assert ready == []


def test_row_may_be_written_again(store: Runs) -> None:
    """The connection may break when it is stored, and before that is known."""
    Desk(store).run(ALONE)
    rows = store.rows("trip")
    [(serial, token)] = store.execute("SELECT serial, token FROM graphexec_runs")
    store.append("trip", serial, token, len(rows) - 1, rows[-1], durable=True)
    for used, number, row in ((token, len(rows) - 1, rows[0]), (token + 1, len(rows), rows[0])):
        with pytest.raises(RunLostError):
            store.append("trip", serial, used, number, row, durable=True)
    assert store.rows("trip") == rows


@pytest.mark.medium
def test_stopped_process_has_lost_its_nested_runs(store: Runs, place: Place) -> None:
    """Its lease on the run around them has lapsed, theirs has not yet."""

    def carry_on(own: Runs, book: Callable[[Book], str]) -> object:
        def nested(stop: int) -> None:
            TRAVEL.run(Plan(waits=()), run_id="nested", handlers={Book: book})

        return Desk(own, nested).run(Plan(waits=()))

    def stop(effect: Book) -> str:
        os.kill(os.getpid(), signal.SIGSTOP)
        return "late"

    def stopped() -> None:
        with place.open() as own, pytest.raises(RunLostError, match="nested"):
            carry_on(own, stop)

    with forked(stopped) as child:
        os.waitpid(child, os.WUNTRACED)
        with pytest.raises(RunBusyError):
            carry_on(store, lambda effect: "booked")
        store.execute("UPDATE graphexec_runs SET leased_until=0 WHERE run_id='trip'")
        assert carry_on(store, lambda effect: "booked") == Trip(("stop 0",), ())
        os.kill(child, signal.SIGCONT)
    assert '"booked"' in "".join(store.rows("nested"))
    assert '"late"' not in "".join(store.rows("nested"))


@pytest.mark.medium
def test_crash_is_counted_after_a_vain_resume(store: Runs, place: Place) -> None:
    def executor(policy: InDoubt, runs: Runs) -> AgentExecutor:
        @tool(in_doubt=policy)
        def pay(text: str) -> str:
            """Pay."""
            if policy == "fail":
                os.kill(os.getpid(), signal.SIGKILL)
            return text

        return make_executor(act("pay", text="much"), answer(), tools=(pay,), runs=runs)

    def crash() -> None:
        with place.open() as own:
            executor("fail", own).run("q", run_id="trip")

    with forked(crash):
        wait_until(lambda: store.ready() == ["trip"])
    for _ in range(2):
        with pytest.raises(CallInDoubtError, match="pay"):
            executor("fail", store).resume("trip")
        run = store.get("trip")
        assert (run.status, run.is_ready, "pay" in run.note) == ("failed", False, True)
    assert isinstance(executor("retry", store).resume("trip"), RunResult)
    entries = [entry for row in store.rows("trip") for entry in json.loads(row)[1:]]
    assert [entry[4] for entry in entries if entry[0] == "begin"] == [False, True]


@pytest.mark.medium
def test_killed_process_is_seen_at_once(store: Runs, place: Place) -> None:
    def carry_on() -> None:
        with place.open() as own:
            Desk(own, lambda stop: os.kill(os.getpid(), signal.SIGKILL) if stop else None).run(ALONE)

    with forked(carry_on) as child:
        # It has ended, and nobody has asked for its status yet.
        wait_until(lambda: store.ready() == ["trip"])
        desk = Desk(store)
        assert desk.run() == BOTH
        assert desk.booked == [1]
        assert child


def test_owner_of_another_machine_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = owners.this_process()
    host, boot, container, process, started = mine.split("|")
    rows = {
        mine: False,
        f"{host}|{boot}|{container}|{process}|{started}9": True,
        f"{host}|{boot}|{container}|999999999|1": True,
        f"{host}|{boot}|{container}9|999999999|1": False,
        f"{host}|{boot}9|{container}|999999999|1": False,
        f"other|{boot}|{container}|999999999|1": False,
        "damaged|x|y": False,
    }
    assert {owner: owners.is_gone(owner) for owner in rows} == rows


@pytest.mark.medium
def test_fork_has_a_connection_of_its_own(place: Place) -> None:
    """SQLite would lose what the child writes when the parent closes the file."""
    with place.open() as first:
        Desk(first).run(ALONE, "parent")
        read, write = os.pipe()

        def carry_on() -> None:
            Desk(first).run(ALONE, "early")
            os.read(read, 1)
            Desk(first).run(ALONE, "child")

        with forked(carry_on):
            wait_until(lambda: "early" in ids(first.list()))
            Desk(first).run(ALONE, "both")
            first.close()
            with place.open() as again:
                Desk(again).run(ALONE, "again")
            os.write(write, b"x")
    with place.open() as again:
        assert set(ids(again.list("done"))) == {"parent", "early", "both", "again", "child"}


# ---- what people do with runs


def test_cancelled_run_stops_before_its_next_effect(store: Runs, place: Place) -> None:
    def cancel(stop: int) -> None:
        with place.open() as other:
            other.cancel("trip")

    desk = Desk(store, cancel)
    with pytest.raises(RunLostError, match="cancelled"):
        desk.run(Plan(stops=3))
    assert desk.booked == [0]
    run = store.get("trip")
    assert (run.status, run.is_ready, store.questions()) == ("cancelled", False, [])
    with pytest.raises(RunStoreError, match=r"fork"):
        desk.run()


def test_cancelled_run_asks_nobody(store: Runs) -> None:
    with pytest.raises(RunLostError):
        Desk(store, lambda stop: store.cancel("trip")).run(Plan())
    Desk(store).run(Plan(), "waits")
    store.cancel("waits")
    assert (store.questions(), store.ready(), store.get("waits").status) == ([], [], "cancelled")
    Desk(store).run(ALONE, "done")
    store.cancel("done")
    assert store.get("done").status == "done"


def test_pruned_run_writes_nothing_into_another(store: Runs) -> None:
    """The first goes on after it was cancelled and pruned, while another of the same id runs."""

    def replace(stop: int) -> None:
        store.cancel("trip")
        assert store.prune() == 1
        again.append(apart(lambda: Desk(store).run(Plan())))
        rows.extend(store.rows("trip"))

    again: list[Any] = []
    rows: list[str] = []
    with pytest.raises(RunLostError):
        Desk(store, replace).run(ALONE)
    assert isinstance(again[0], Waiting)
    assert (store.get("trip").status, store.rows("trip")) == ("waiting", rows)


def test_forks_at_each_reply_end_alike(store: Runs) -> None:
    waiting = Desk(store).run(Plan(stops=2))
    assert store.reply("trip", waiting.questions[0].key, "sea")
    result = Desk(store).run()
    assert result == Trip(("stop 0", "stop 1"), ("sea",))
    for at in range(4):
        copy = store.fork("trip", at=at, new_id=f"copy {at}")
        assert (copy, store.get(copy).status, copy in store.ready()) == (f"copy {at}", "ready", True)
        desk = Desk(store)
        outcome = desk.run(run_id=copy)
        if isinstance(outcome, Waiting):
            assert store.reply(copy, outcome.questions[0].key, "sea")
            outcome = desk.run(run_id=copy)
        assert outcome == result
        assert desk.booked == [0, 1][at:]
    for at, new_id, fact in ((4, None, "3 replies"), (-1, None, "at=-1"), (1, "trip", "already")):
        with pytest.raises(InputError, match=fact):
            store.fork("trip", at=at, new_id=new_id)
    assert store.fork("trip") != store.fork("trip")


def test_prune_deletes_runs_with_all_that_is_theirs(store: Runs) -> None:
    for number in range(3):
        Desk(store).run(ALONE, f"done {number}")
    Desk(store).run(Plan(), "open")
    assert store.prune(older_than=60) == 0
    assert store.prune(status=()) == 0
    assert store.prune() == 3
    assert ids(store.list()) == ["open"]
    assert (store.rows("done 0"), len(store.rows("open")) > 0) == ([], True)
    assert store.prune(status=("done", "waiting")) == 1
    tables = ("runs", "log", "questions")
    assert [store.execute(f"SELECT count(*) FROM graphexec_{table}") for table in tables] == [[(0,)]] * 3


# ---- nested runs


def test_nested_runs_are_cancelled_and_pruned_with_theirs(store: Runs) -> None:
    @tool
    def stop(text: str) -> str:
        """Cancel the run around this one."""
        store.cancel("outer")
        return text

    calls: list[str] = []

    @tool
    def work(text: str) -> str:
        """Work."""
        calls.append(text)
        return text

    inner = make_executor(act("stop", text="a"), act("work", text="b"), answer(), tools=(stop, work))
    with pytest.raises(RunLostError):
        make_executor(
            act("inner", input="t"), answer("end"), tools=(inner.as_tool("inner", "Do it."),), runs=store
        ).run("q", run_id="outer")
    assert calls == []
    assert ids(store.list()) == ["outer"]
    [(count,)] = store.execute("SELECT count(*) FROM graphexec_runs WHERE status='cancelled'")
    assert count == 2
    assert store.prune() == 1
    assert store.execute("SELECT 1 FROM graphexec_runs UNION ALL SELECT 1 FROM graphexec_log") == []


def test_nested_run_does_not_begin_after_the_end(store: Runs) -> None:
    calls: list[str] = []

    @tool
    def work(text: str) -> str:
        """Work."""
        calls.append(text)
        return text

    @tool
    def outer(text: str) -> str:
        """Cancel the run, then begin another within it."""
        store.cancel("outer")
        return str(make_executor(act("work", text="b"), answer(), tools=(work,)).run("t", run_id="nested").output)

    with pytest.raises(RunLostError):
        make_executor(act("outer", text="t"), answer("end"), tools=(outer,), runs=store).run("q", run_id="outer")
    assert calls == []


# ---- stores that cannot be used


def test_closed_store_is_named(place: Place) -> None:
    store = place.open()
    Desk(store).run(ALONE)
    store.close()
    store.close()
    for call in (store.list, store.ready, Desk(store).run):
        with pytest.raises(StoreError, match=r"is closed; open it again"):
            call()


def test_run_of_a_closed_store_is_free_at_once(place: Place) -> None:
    first = place.open()
    with pytest.raises(StoreError, match="closed"):
        Desk(first, lambda stop: first.close()).run(ALONE)
    with place.open() as second:
        assert second.ready() == ["trip"]
        assert Desk(second).run() == BOTH


def test_tables_of_another_version_are_refused(place: Place) -> None:
    with place.open() as store:
        Desk(store).run(ALONE)
        store.execute("UPDATE graphexec_version SET version=7")
    with pytest.raises(InputError, match=r"version 7.* later"):
        place.open()


def test_invalid_leases_are_refused(place: Place) -> None:
    for lease in (0, -1, "soon"):
        with pytest.raises(InputError, match="lease"):
            place.open(lease=lease)


def test_mode_of_files_is_private(store: Runs, place: Place) -> None:
    if isinstance(place.address, str):
        pytest.skip("a server keeps it")
    Desk(store).run(ALONE)
    files = sorted(place.address.parent.glob("runs.db*"))
    assert [file.name for file in files] == ["runs.db", "runs.db-shm", "runs.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
