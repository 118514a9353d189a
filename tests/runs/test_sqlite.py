"""Files that are no stores, or cannot be used: nothing in them is changed, and the message names them."""

import sqlite3
from pathlib import Path

import pytest

from graphexec.errors import InputError
from graphexec.runs import SQLiteRuns, StoreError
from tests.runs.stores import Desk, Plan, Trip

ALONE = Plan(stops=2, waits=())


def test_foreign_and_damaged_files_are_refused(tmp_path: Path) -> None:
    text, foreign, damaged = (tmp_path / name for name in ("notes.txt", "app.db", "damaged.db"))
    text.write_text("These are notes, and no database.\n" * 100)
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE customers(name)")
    connection.close()
    with SQLiteRuns(damaged) as store:
        Desk(store).run(ALONE)
    pages = damaged.read_bytes()
    damaged.write_bytes(pages[:100] + b"\xff" * (len(pages) - 100))
    for path in (text, foreign, damaged):
        before = path.read_bytes()
        with pytest.raises(InputError, match=rf"{path.name}.*name another file"):
            SQLiteRuns(path)
        assert path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.db", "damaged.db", "notes.txt"]


def test_unwritable_places_are_refused(tmp_path: Path) -> None:
    # A link to a file that cannot be written, even by root.
    (tmp_path / "link.db").symlink_to("/proc/version")
    for path in (tmp_path, tmp_path / "missing" / "runs.db", tmp_path / "link.db"):
        with pytest.raises(InputError, match=rf"{path.name}.*name another file"):
            SQLiteRuns(path)


def test_run_continues_after_the_disk_was_full(tmp_path: Path) -> None:
    def fill(stop: int) -> None:
        if stop == 1:
            [(pages,)] = store.execute("PRAGMA page_count")
            store.execute(f"PRAGMA max_page_count={pages}")

    with SQLiteRuns(tmp_path / "runs.db") as store:
        plan = Plan(stops=200, waits=())
        desk = Desk(store, fill)
        with pytest.raises(StoreError, match=r"runs\.db.*full"):
            desk.run(plan)
        store.execute("PRAGMA max_page_count=10000")
        assert store.ready() == []
        assert desk.run() == Trip(tuple(f"stop {stop}" for stop in range(200)), ())
        # The reply that could not be stored.
        assert len(desk.booked) == 201


def test_file_that_is_damaged_later_is_named(tmp_path: Path) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        Desk(store).run(ALONE)
    with SQLiteRuns(tmp_path / "runs.db") as store:
        pages = (tmp_path / "runs.db").read_bytes()
        (tmp_path / "runs.db").write_bytes(pages[: 8192 * 2] + b"\xff" * (len(pages) - 8192 * 2))
        with pytest.raises(StoreError, match=r"runs\.db cannot be used"):
            Desk(store).run(ALONE)
