"""Connections to PostgreSQL that break, and secrets in its errors."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
from pytest import MonkeyPatch  # noqa: PT013

from graphexec.errors import InputError
from graphexec.runs import PostgresRuns, RunLostError, Runs, StoreError
from tests.runs.conftest import place_on
from tests.runs.stores import LONG, Desk, Place, Plan, Trip, wait_until

pytestmark = pytest.mark.medium

ALONE = Plan(stops=2, waits=())
BOTH = Trip(("stop 0", "stop 1"), ())


@pytest.fixture(name="server")
def _server(postgres: str) -> Place:
    return place_on(postgres)


def break_connection(store: Runs, other: Runs) -> None:
    [(process,)] = store.execute("SELECT pg_backend_pid()")
    assert other.execute("SELECT pg_terminate_backend(?, 20000)", process) == [(True,)]


def test_run_survives_a_broken_connection(server: Place) -> None:
    """Broken between two effects, such as while the server starts again."""
    with server.open() as store, server.open() as other:
        desk = Desk(store, lambda stop: break_connection(store, other))
        assert desk.run(ALONE) == BOTH
        assert desk.booked == [0, 1]
        break_connection(store, other)
        assert [one.run_id for one in store.list()] == ["trip"]


def is_broken_before(number: int, store: Runs, other: Runs) -> bool:
    """Run while the connection breaks before a statement; return False if there are fewer."""

    def execute(*arguments: Any) -> Any:
        statements.append(arguments)
        if len(statements) == number:
            with MonkeyPatch.context() as patch:
                patch.setattr(store, "execute", original)
                break_connection(store, other)
        return original(*arguments)

    original, statements, run_id = store.execute, list[Any](), f"trip {number}"
    desk = Desk(store)
    with MonkeyPatch.context() as patch:
        patch.setattr(store, "execute", execute)
        with suppress(StoreError):
            assert desk.run(ALONE, run_id) == BOTH
    if run_id in [one.run_id for one in other.list("running")]:
        wait_until(lambda: other.get(run_id).is_ready)
    assert desk.run(ALONE, run_id) == BOTH
    assert sorted(set(desk.booked)) == [0, 1]
    assert len(desk.booked) <= 3
    return len(statements) >= number


def test_connection_may_break_before_each_statement(server: Place) -> None:
    """The run ends, or raises an error and can be continued; a call whose reply was stored is not made again."""
    with server.open(lease=0.2) as store, server.open() as other:
        number = 1
        while is_broken_before(number, store, other):
            number += 1
        assert number > 10


def test_process_that_stops_in_a_transaction_blocks_nobody_for_ever(server: Place) -> None:
    def stop() -> None:
        with store.transaction():
            store.execute("SELECT 1 FROM graphexec_runs FOR UPDATE")
            other.cancel("trip")

    with server.open(lease=0.2) as store, server.open() as other:
        Desk(other).run(Plan())
        with pytest.raises(StoreError):
            stop()
        assert [one.status for one in store.list()] == ["cancelled"]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_run_sees_what_is_about_to_be_stored(server: Place, monkeypatch: MonkeyPatch, is_cancelled: bool) -> None:
    """Another process cancels it, or answers as it stops to wait, and commits when the run waits for that."""
    with server.open() as store, server.open() as other, server.open() as third, ThreadPoolExecutor(1) as pool:
        [(process,)] = store.execute("SELECT pg_backend_pid()")
        changed, ended = threading.Event(), threading.Event()
        executes = store.execute, other.execute
        locked = "SELECT 1 FROM pg_stat_activity WHERE pid=? AND wait_event_type='Lock'"

        def commit_late(statement: str, *parameters: object) -> Any:
            if statement == "COMMIT":
                changed.set()
                wait_until(lambda: ended.is_set() or third.execute(locked, process))
            return executes[1](statement, *parameters)

        def change() -> None:
            [question] = third.questions("trip")
            reply = partial(other.reply, "trip", question.key, "sea")
            futures.append(pool.submit(partial(other.cancel, "trip") if is_cancelled else reply))
            changed.wait(LONG)

        def stop_late(statement: str, *parameters: object) -> Any:
            if statement == "BEGIN" and desk.booked == [0, 1] and not futures:
                change()
            return executes[0](statement, *parameters)

        monkeypatch.setattr(store, "execute", stop_late)
        monkeypatch.setattr(other, "execute", commit_late)
        futures: list[Any] = []
        desk = Desk(store, lambda stop: change() if stop and is_cancelled else None)
        try:
            with pytest.raises(RunLostError) if is_cancelled else nullcontext():
                desk.run(Plan(along=True))
        finally:
            ended.set()
        futures[0].result(LONG)
        assert third.get("trip").status == ("cancelled" if is_cancelled else "ready")


def test_server_that_has_gone_is_named_without_its_password(server: Place) -> None:
    def stop_server(stop: int) -> None:
        vars(store)["_dsn"] = "postgresql://u:hunter2@127.0.0.1:1/db"
        break_connection(store, other)

    with server.open(lease=0.2) as store, server.open() as other:
        with pytest.raises(StoreError, match="resumed") as raised:
            Desk(store, stop_server).run(ALONE)
        assert "hunter2" not in str(raised.value)
        assert "\n" not in str(raised.value)
        wait_until(lambda: other.ready() == ["trip"])
        assert Desk(other).run() == BOTH


def test_messages_have_no_password() -> None:
    for address in (
        "hunter2",
        "password='hunter2",
        "postgresql://u:hunter2@[bad/db",
        "postgresql://u:hun%zzter2@h/db",
        "postgresql://u:p@hunter2@127.0.0.1:1/db",
        "postgresql://u:p/hunter2@127.0.0.1:1/db",
        "postgresql://u:hunter2@127.0.0.1:1/db",
        "postgresql://u:hunter2@/db?host=/nowhere",
    ):
        with pytest.raises(InputError, match="address") as raised:
            PostgresRuns(address)
        assert not re.search("hunter2|zzter2", f"{raised.value} {raised.value.__cause__}")


def test_tables_need_no_right_to_create_them(server: Place) -> None:
    role = f"role{os.urandom(4).hex()}"
    with server.open() as store:
        [(schema,)] = store.execute("SELECT current_schema()")
        store.execute(f"CREATE ROLE {role} LOGIN")
        store.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        store.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
        assert isinstance(server.address, str)
        with Place(server.address.replace("//postgres:@", f"//{role}@")).open() as worker:
            assert Desk(worker).run(ALONE) == BOTH
        store.execute(f"DROP OWNED BY {role}")
        store.execute(f"DROP ROLE {role}")
