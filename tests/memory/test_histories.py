"""Histories keep every turn under concurrent writes and after a crash, and name what is invalid or damaged."""

import contextlib
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphexec.errors import InputError
from graphexec.memory import History, MemoryHistory, SQLiteHistory, Turn
from tests.memory.stores import stores, texts, turn, turns_with_images
from tests.models.pictures import CAT
from tests.parameters import cases, examples, read_tables

WRITE: str = read_tables(__file__)["writer"]

KINDS = ["memory", "sqlite"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20))
@given(steps=st.lists(turns_with_images | st.just("clear"), max_size=6))
@example(steps=[Turn("\ud83d", "\ude00"), Turn("\ud83d\ude00", "😀"), Turn("a\nb", "c\u2028d")])
def test_reopened_history_has_turns_since_clear(kind: str, steps: list[Turn | str], directory: Path) -> None:
    store = stores(directory)[kind]
    expected: list[Turn] = []
    for step in steps:
        if isinstance(step, Turn):
            store().add(step)
            expected.append(step)
        else:
            store().clear()
            expected.clear()
        assert list(store().turns()) == expected


# Few: every example makes a database, which waits for the disk.
@pytest.mark.medium
@settings(max_examples=examples(8))
@given(names=st.lists(texts, min_size=2, max_size=4, unique=True))
@example(names=["", " ", "a", "A"])
@example(names=["\ud800", "?", "\ufffd"])
def test_a_database_keeps_its_conversations_apart(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("apart") / "all.sqlite"
    for name in (*names, *names):
        SQLiteHistory(file, conversation=name).add(Turn(name, "x"))
    SQLiteHistory(file, conversation=names[0]).clear()
    assert SQLiteHistory(file, conversation=names[0]).turns() == ()
    for name in names[1:]:
        assert SQLiteHistory(file, conversation=name).turns() == (Turn(name, "x"),) * 2


@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_threads_lose_no_turn(kind: str, directory: Path) -> None:
    def write(name: int, history: History) -> None:
        for number in range(8):
            history.add(Turn(f"{name}", f"{number}" * 5000))

    store = stores(directory)[kind]
    shared = store()
    with ThreadPoolExecutor(4) as pool:
        # Two share one object, two have one of their own.
        list(pool.map(write, range(4), (shared, shared, store(), store())))
    kept = store().turns()
    assert len(kept) == 32
    for name in range(4):
        assert [each.output for each in kept if each.input == f"{name}"] == [f"{n}" * 5000 for n in range(8)]


@pytest.mark.medium
def test_concurrent_processes_lose_no_turn(tmp_path: Path) -> None:
    database = tmp_path / "turns.sqlite"
    history = SQLiteHistory(database, conversation="shared")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    names = ("a", "b", "c")
    with contextlib.ExitStack() as running:
        # Any: their pipes are there.
        processes: list[Any] = [
            running.enter_context(subprocess.Popen([sys.executable, "-c", WRITE, database, name], **pipes))
            for name in names
        ]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        seen: Sequence[Turn] = ()
        while any(process.poll() is None for process in processes):
            now = history.turns()
            assert now[: len(seen)] == seen
            seen = now
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(history.turns()) == 30
    for name in names:
        outputs = [each.output for each in history.turns() if each.input == name]
        assert outputs == [f"{n} " * 3000 for n in range(10)]


def test_failed_write_leaves_no_partial_turn(tmp_path: Path) -> None:
    history = SQLiteHistory(tmp_path / "turns.sqlite", conversation="me")
    history.add(turn(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (history.path.stat().st_size + 4000, hard))
    try:
        with pytest.raises(sqlite3.OperationalError):
            history.add(Turn("x" * 80_000, "y"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert history.turns() == (turn(1),)


def test_database_errors_are_raised_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "turns.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE graphexec_turns (id INTEGER, conversation, input, output CHECK (output <> ''))")
    history = SQLiteHistory(file, conversation="me")
    with pytest.raises(sqlite3.IntegrityError):
        history.add(Turn("a", ""))
    history.add(Turn("a", "b"))
    assert history.turns() == (Turn("a", "b"),)


@cases(
    ("path", "why"),
    ("", "is not a regular file; name a file on a disk"),
    ("missing/turns", r"is in no directory that exists; create .*missing first"),
    ("file/turns", r"is in no directory that exists; create .*file first"),
    ("x" * 300, r"path .*xxx cannot be used: File name too long; name another file"),
    ("a\0b", r"cannot be used: .*embedded null"),
)
def test_invalid_path_is_refused(path: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=why):
        SQLiteHistory(tmp_path / path, conversation="me")


def test_unwritable_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who runs the tests may write everywhere.
    asked: list[Any] = []
    access: Callable[..., None] = lambda *arguments: asked.append(arguments)  # noqa: E731
    monkeypatch.setattr(os, "access", access)
    (tmp_path / "there").touch()
    for name in ("there", "new"):
        with pytest.raises(InputError, match=rf"{name} cannot be written; give this user write permission"):
            SQLiteHistory(tmp_path / name, conversation="me")
    # The file itself, or where it is to be made.
    assert asked == [(tmp_path / "there", os.W_OK), (tmp_path, os.W_OK)]


def test_invalid_database_is_named_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    history = SQLiteHistory(tmp_path / "folder" / "turns", conversation="me")
    (tmp_path / "folder").rmdir()
    with pytest.raises(InputError, match=r"the database .*turns cannot be used: .*; name a file in a writable folder"):
        history.add(turn(1))
    file = tmp_path / "turns.sqlite"
    file.write_text("some notes of mine, which are long enough to be a header\n" * 4, encoding="utf-8")
    before = file.read_bytes()
    history = SQLiteHistory(file, conversation="me")
    calls: list[Callable[[], Any]] = [history.turns, lambda: history.add(turn(1)), history.clear]
    for call in calls:
        with pytest.raises(InputError, match=f"{file} is not an SQLite database: file is not a database; repair it"):
            call()
    assert file.read_bytes() == before


def test_history_survives_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    history = SQLiteHistory("turns.sqlite", conversation="me")
    assert not (tmp_path / "turns.sqlite").exists()
    history.add(turn(1))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert history.turns() == (turn(1),)


def test_values_of_histories_are_checked_and_hidden() -> None:
    with pytest.raises(InputError, match="Turn's output is of the class int; pass a string"):
        # Wrong on purpose: what a caller without a type checker passes.
        Turn("a", 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    history = MemoryHistory()
    history.add(Turn("secret", "secret"))
    assert repr(history) == "<MemoryHistory: 1 turns>"
    with pytest.raises(InputError, match="use MemoryHistory"):
        SQLiteHistory(":memory:", conversation="me")


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
    monkeypatch.setattr("graphexec.memory.history.closing", contextlib.nullcontext)
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
    writer = read_tables(__file__)["killed_writer"]
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
