"""Questions of stored runs, in both stores: who answers first, expiry, and when a run can go on."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphexec.errors import InputError
from graphexec.runs import Runs, RunStoreError, Waiting
from tests.runs.stores import LONG, TRAVEL, Desk, Place, Plan, Trip, apart, forked, wait_until

HOUR = 3600.0


def expire(store: Runs, key: str) -> None:
    """Let an hour pass for a question."""
    store.execute("UPDATE graphexec_questions SET asked=asked-?, expires=expires-? WHERE key=?", HOUR, HOUR, key)


def waiting(store: Runs, plan: Plan | None = None, run_id: str = "trip") -> list[str]:
    """Run until it waits; return the keys of its questions."""
    result = Desk(store).run(plan, run_id)
    assert isinstance(result, Waiting)
    assert result.run_id == run_id
    return [one.key for one in result.questions]


def test_run_waits_for_all_answers(store: Runs, place: Place) -> None:
    first, second = waiting(store, Plan(waits=(None, None)))
    assert [one.text for one in store.questions()] == ["Where to, 0?", "Where to, 1?"]
    assert (store.get("trip").note, store.ready()) == ("Where to, 0?", [])
    with place.open() as other:
        assert other.reply("trip", second, "hills")
        assert (other.get("trip").status, other.ready()) == ("waiting", [])
        assert [one.key for one in other.questions("trip")] == [first] == waiting(store)
        assert other.reply("trip", first, "sea")
        assert (other.get("trip").status, other.get("trip").is_ready, other.ready()) == ("ready", True, ["trip"])
    desk = Desk(store)
    assert desk.run() == Trip(("stop 0",), ("sea", "hills"))
    assert (desk.booked, store.questions(), store.ready()) == ([], [], [])


def test_invalid_replies_are_refused(store: Runs) -> None:
    [key] = waiting(store, Plan())
    for run_id, name, reply, fact in (
        ("trip", key, "moon", "sea, hills, home"),
        ("trip", key, 5, "sea, hills, home"),
        ("trip", "k", "sea", key),
        ("nowhere", key, "sea", "none"),
    ):
        with pytest.raises(InputError, match=fact):
            store.reply(run_id, name, reply)
    assert store.reply("trip", key, "sea")
    assert not store.reply("trip", key, "hills")
    assert Desk(store).run() == Trip(("stop 0",), ("sea",))
    assert not store.reply("trip", key, "hills")


def test_first_of_many_replies_wins(store: Runs, place: Place) -> None:
    def reply(value: str) -> bool:
        with place.open() as own:
            barrier.wait()
            return own.reply("trip", key, value)

    [key] = waiting(store, Plan())
    barrier = threading.Barrier(3)
    values = ["sea", "hills", "home"]
    with ThreadPoolExecutor(3) as pool:
        won = dict(zip(values, pool.map(reply, values), strict=True))
    assert sorted(won.values()) == [False, False, True]
    assert won[Desk(store).run().answers[0]]


@pytest.mark.medium
def test_first_of_two_processes_wins(store: Runs, place: Place) -> None:
    def reply(value: str) -> None:
        with place.open() as own:
            wait_until(lambda: own.get("start").status == "ready")
            if own.reply("trip", key, value):
                Desk(own).run(Plan(waits=()), f"won {value}")

    [key] = waiting(store, Plan())
    [start] = waiting(store, Plan(), "start")
    with forked(lambda: reply("sea")), forked(lambda: reply("hills")):
        store.reply("start", start, "sea")
    [winner] = store.list("done")
    assert winner.run_id == f"won {Desk(store).run().answers[0]}"


def test_answer_before_the_run_waits_is_seen(store: Runs, place: Place) -> None:
    """The run has asked already, and carries on with another call."""

    def answer(stop: int) -> None:
        if stop:
            wait_until(lambda: store.questions("trip"))
            with place.open() as other:
                assert other.reply("trip", other.questions("trip")[0].key, "sea")
                assert other.get("trip").status == "running"

    desk = Desk(store, answer)
    desk.run(Plan(along=True))
    assert store.ready() == ["trip"]
    assert desk.run() == Trip(("stop 0",), ("sea", "stop 1"))
    assert desk.booked == [0, 1]


@pytest.mark.medium
def test_no_answer_is_missed_as_the_run_stops(store: Runs, place: Place) -> None:
    def answer(run_id: str) -> None:
        found: list[Any] = []
        wait_until(lambda: bool(store.questions(run_id)))
        found += store.questions(run_id)
        assert store.reply(run_id, found[0].key, "sea")

    with place.open() as own, ThreadPoolExecutor(1) as pool:
        for number in range(30):
            replied = pool.submit(answer, str(number))
            Desk(own).run(Plan(stops=0), str(number))
            replied.result(LONG)
            assert own.get(str(number)).status == "ready"
        assert sorted(own.ready()) == sorted(map(str, range(30)))


def test_expired_question_has_its_default(store: Runs) -> None:
    [key] = waiting(store, Plan(waits=(HOUR,)))
    assert (store.ready(), len(store.questions())) == ([], 1)
    expire(store, key)
    run = store.get("trip")
    assert (run.status, run.is_ready, store.ready(), store.questions()) == ("waiting", True, ["trip"], [])
    # The reply is late, and does not fit in any case.
    assert not store.reply("trip", key, "sea")
    assert Desk(store).run() == Trip(("stop 0",), ("home",))
    assert (store.ready(), store.reply("trip", key, "sea")) == ([], False)


def test_run_with_expired_questions_waits_for_the_others(store: Runs) -> None:
    for run_id, replies_first in (("before", True), ("after", False)):
        first, second = waiting(store, Plan(waits=(HOUR, None)), run_id)
        if replies_first:
            assert store.reply(run_id, second, "hills")
            assert (store.get(run_id).status, store.ready()) == ("waiting", [])
            expire(store, first)
        else:
            expire(store, first)
            assert (store.ready(), [one.key for one in store.questions()]) == ([], [second])
            # It takes the default, and waits on.
            assert waiting(store, run_id=run_id) == [second]
            assert (store.ready(), store.reply(run_id, first, "sea")) == ([], False)
            assert store.reply(run_id, second, "hills")
            assert store.get(run_id).status == "ready"
        assert store.ready() == [run_id]
        assert Desk(store).run(run_id=run_id) == Trip(("stop 0",), ("home", "hills"))
        assert store.ready() == []


def test_running_runs_do_not_hide_ready_ones(store: Runs) -> None:
    def look(stop: int) -> None:
        [key] = apart(lambda: waiting(store, Plan(), "other"))
        store.reply("other", key, "sea")
        assert store.ready(limit=1) == ["other"]

    assert Desk(store, look).run(Plan(waits=())) == Trip(("stop 0",), ())


def test_questions_of_nested_runs_belong_to_the_root(store: Runs) -> None:
    def nested(stop: int) -> None:
        answers.append(TRAVEL.run(Plan(stops=0), run_id="nested", handlers={}))

    answers: list[Any] = []
    desk = Desk(store, nested)
    desk.run(Plan(waits=()))
    assert (store.get("trip").status, store.get("nested").status) == ("waiting", "waiting")
    with pytest.raises(RunStoreError, match="nested in the run trip"):
        Desk(store).run(run_id="nested")
    [question] = store.questions("trip")
    assert (question.run_id, store.get("trip").note, store.get("nested").is_ready) == ("trip", question.text, False)
    assert store.reply("trip", question.key, "sea")
    assert store.ready() == ["trip"]
    assert desk.run() == Trip(("stop 0",), ())
    assert [one.outcome for one in answers] == [Trip((), ("sea",))]
    assert [one.run_id for one in store.list()] == ["trip"]


COPIES = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<10000)
"""


@pytest.mark.medium
def test_ten_thousand_waiting_runs_are_no_burden(store: Runs) -> None:
    """List, reply and resume of one take 50 ms at most, and ten times as long on a busy machine."""
    [key] = waiting(store, Plan())
    columns = "parent, status, owner, token, leased_until, created, updated, machine"
    for statement in (
        f"INSERT INTO graphexec_runs(run_id, {columns}, start, note) {COPIES} SELECT 'trip' || i, {columns}, "
        "replace(start, '\"trip\"', '\"trip' || i || '\"'), note FROM graphexec_runs, n",
        "INSERT INTO graphexec_log SELECT (copy.serial - 1) * 4294967296 + graphexec_log.id, graphexec_log.data "
        "FROM graphexec_runs AS copy, graphexec_log WHERE copy.serial > 1",
        f"INSERT INTO graphexec_questions {COPIES} SELECT 'trip' || i, replace(key, 'trip', 'trip' || i), data, asked, "
        "expires, reply FROM graphexec_questions, n",
    ):
        store.execute(statement)
    seconds: dict[str, float] = {}

    def measure(name: str, work: Any) -> Any:
        began = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - began
        return result

    assert len(measure("list", store.list)) == 100
    assert measure("ready", store.ready) == []
    assert measure("reply", lambda: store.reply("trip5000", key.replace("trip", "trip5000"), "sea"))
    assert measure("ready again", store.ready) == ["trip5000"]
    assert measure("resume", lambda: Desk(store).run(run_id="trip5000")) == Trip(("stop 0",), ("sea",))
    assert max(seconds.values()) < 0.5, seconds
