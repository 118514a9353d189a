"""Histories after a crash: every turn whose `add` returned is there, and what is damaged is named."""

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec.errors import InputError
from graphexec.memory import SQLiteHistory, Turn
from tests.memory.stores import turn
from tests.models.pictures import CAT
from tests.parameters import cases, examples, read_tables


def test_history_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        SQLiteHistory(tmp_path / "a.sqlite", conversation="me").add(turn(1))
    finally:
        os.umask(before)
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()] == [("a.sqlite", 0o600)]


@cases("name", "pipe", "/dev/zero")
def test_device_or_pipe_is_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    with pytest.raises(InputError, match=f"path {path} is not a regular file; name a file on a disk"):
        SQLiteHistory(path, conversation="me")


def test_database_survives_power_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remember(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    monkeypatch.setattr("graphexec.memory.sqlite_history.closing", contextlib.nullcontext)
    SQLiteHistory(tmp_path / "turns.sqlite", conversation="me").add(turn(1))
    (database,) = opened
    with contextlib.closing(database):
        # EXTRA: the journal's end is stored, too.
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)


@cases(
    ("statement", "why"),
    ("UPDATE graphexec_turns SET output = 7.5", "a row that is not a turn: it has 7.5 in the place of a string"),
    ("UPDATE graphexec_turns SET output = x'ff'", "a row that is not a turn: 'utf-8' codec can't decode"),
    ("UPDATE graphexec_turns SET output = CAST(x'ff' AS TEXT)", "is damaged: Could not decode to UTF-8"),
    ("UPDATE graphexec_images SET url = 'nowhere'", "a row that is not a turn: "),
    ("ALTER TABLE graphexec_turns RENAME COLUMN output TO answer", "is damaged: no such column: output"),
)
def test_damaged_rows_are_named(statement: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "turns.sqlite"
    history = SQLiteHistory(file, conversation="me")
    history.add(Turn("a", "b", (CAT,)))
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        # Otherwise 7.5 would become text in a column of texts.
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'BLOB')")
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute(statement)
    with pytest.raises(InputError, match=f"the database {file} (has|is) ") as raised:
        history.turns()
    assert why in str(raised.value)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_damaged_database_raises_our_errors(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("damaged") / "turns.sqlite"
    history = SQLiteHistory(file, conversation="me")
    history.add(turn(1))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, 120) | st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(1, 40))] = data.draw(st.binary(max_size=40))
    file.write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    calls: list[Callable[[], object]] = [history.turns, lambda: history.add(turn(2)), history.clear]
    for call in calls:
        with contextlib.suppress(InputError):
            call()


# ---- kills


def turns_after_kills(folder: Path, rounds: int, seed: int) -> tuple[int, set[str]]:
    """Kill a writer in each round; return how many turns it acknowledged, and which are lost."""
    writer = read_tables(__file__)["writer"]
    arguments = [sys.executable, "-W", "ignore", "-c", writer, str(folder), str(rounds), str(seed)]
    acknowledged = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found: list[Turn] = []
    for path in folder.iterdir():
        if path.name.isdecimal():
            found += SQLiteHistory(path, conversation="me").turns()
    assert all(set(one.output) == {"x"} for one in found)
    kept = [one.input for one in found]
    assert len(kept) == len(set(kept))
    return len(acknowledged), set(acknowledged) - set(kept)


@pytest.mark.slow
def test_many_kills_lose_no_acknowledged_turn(tmp_path: Path) -> None:
    kills = examples(300, 50)
    acknowledged, lost = turns_after_kills(tmp_path, kills, 17)
    assert (acknowledged > kills // 3, lost) == (True, set())


@pytest.mark.medium
def test_a_few_kills_lose_no_acknowledged_turn(tmp_path: Path) -> None:
    assert turns_after_kills(tmp_path, 10, 5)[1] == set()
