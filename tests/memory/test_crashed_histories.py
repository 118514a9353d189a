"""Histories after a crash: every turn whose `add` returned is there, and the lost end is named."""

import contextlib
import errno
import functools
import os
import sqlite3
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec.errors import HistoryWarning, InputError
from graphexec.memory import FileHistory, History, SQLiteHistory, Turn
from graphexec.runtime import files
from tests.memory.stores import turn, turns
from tests.models.pictures import CAT
from tests.parameters import cases, examples, read_tables

LINE = b'{"input": "in1", "output": "out1"}\n'
# What stands at the end of a file after a crash: a part of a line, zeros, and blocks of other files.
ENDS = [
    b"{",
    b'{"input": "in2", "out',
    b'{"input": "in2", "output": "out2"',
    b'{"input": "\xe2\x82',
    b"\0" * 4096,
    b"\0" * 4096 + b'wer"}\n',
    b'{"input": "in2' + b"\0" * 700 + b'"}\n',
    b"\xff\xfe\x00\n\xff",
    b"%PDF of another file",
    b'{"a":' * 100_000,
    b'["' * 100_000,
    b"[" * 1_000_000,
]


@cases("end", *ENDS)
@cases("whole", 1, 3)
def test_cut_end_is_named_and_set_aside(end: bytes, whole: int, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_bytes(LINE * whole + end)
    history = FileHistory(file)
    with pytest.warns(HistoryWarning) as noted:
        assert history.turns() == (turn(1),) * whole
    (message,) = [str(one.message) for one in noted]
    assert message.startswith(f"{file}, line {whole + 1}, was cut by a crash: the last {len(end):,} bytes of the file ")
    assert f", and {whole} turn{'' if whole == 1 else 's'} before them can be read; " in message
    assert message.endswith(f"moves them to {file}.cut")
    assert file.read_bytes() == LINE * whole + end
    history.add(turn(2))
    assert history.turns() == (*(turn(1),) * whole, turn(2))
    assert (tmp_path / "turns.jsonl.cut").read_bytes() == end


@given(before=st.lists(turns, max_size=3), lost=turns, data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_line_may_be_cut_anywhere(
    before: list[Turn], lost: Turn, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = FileHistory(tmp_path_factory.mktemp("cut") / "turns.jsonl")
    for one in before:
        history.add(one)
    start = history.path.stat().st_size if before else 0
    history.add(lost)
    os.truncate(history.path, data.draw(st.integers(start, history.path.stat().st_size)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HistoryWarning)
        kept = history.turns()
    assert kept in (tuple(before), (*before, lost))
    history.add(turn(2))
    assert history.turns() == (*kept, turn(2))


@cases("content", b"buy milk", b"buy milk\nbuy bread", b"\x89PNG\r\n\0\0\0IHDR", b"7")
def test_file_of_another_kind_is_left_alone(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    history = FileHistory(file)
    calls: list[Callable[[], object]] = [history.turns, functools.partial(history.add, turn(1))]
    for call in calls:
        with pytest.raises(InputError, match=r"notes.txt, line 1, is not a turn"):
            call()
    assert file.read_bytes() == content


def test_edited_and_replaced_files_get_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = FileHistory(tmp_path / "turns.jsonl")
    history.path.write_bytes(b"\xef\xbb\xbf" + LINE.replace(b"\n", b"\r\n") * 2)
    history.add(turn(2))
    assert history.turns() == (turn(1), turn(1), turn(2))
    waits = iter([True, False])

    def wait_while_it_is_deleted(descriptor: int) -> None:
        files.lock(descriptor)
        if next(waits):
            history.path.unlink()

    monkeypatch.setattr("graphexec.memory.file_history.lock", wait_while_it_is_deleted)
    history.add(turn(1))
    assert history.turns() == (turn(1),)


def test_acknowledged_turn_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = FileHistory(tmp_path / "turns.jsonl")
    stored: list[bytes] = []
    fsync = os.fsync

    def remember(descriptor: int) -> None:
        fsync(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            stored.append(history.path.read_bytes())

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", remember)
    history.add(turn(1))
    assert stored == [LINE]
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        history.add(turn(2))
    assert history.path.read_bytes() == LINE


def test_histories_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        lines, database = FileHistory(tmp_path / "a.jsonl"), SQLiteHistory(tmp_path / "a.sqlite", conversation="me")
        (tmp_path / "b.jsonl").write_bytes(LINE + b"{")
        histories: list[History] = [lines, database, FileHistory(tmp_path / "b.jsonl")]
        (tmp_path / "b.jsonl").chmod(0o640)
        for history in histories:
            history.add(turn(1))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"a.jsonl": 0o600, "a.sqlite": 0o600, "b.jsonl": 0o640, "b.jsonl.cut": 0o600}


@cases("make", FileHistory, functools.partial(SQLiteHistory, conversation="me"))
@cases("name", "pipe", "/dev/zero")
def test_device_or_pipe_is_refused(make: Callable[[Path], History], name: str, tmp_path: Path) -> None:
    later = FileHistory(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    with pytest.raises(InputError, match=f"path {path} is not a regular file; name a file on a disk"):
        make(path)
    # A file that became a pipe.
    with pytest.raises(InputError, match=r"the history .*pipe cannot be read: it is not a regular file; "):
        later.turns()


# ---- SQLite


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


def turns_after_kills(kind: str, folder: Path, rounds: int, seed: int) -> tuple[int, set[str]]:
    """Kill a writer in each round; return how many turns it acknowledged, and which are lost."""
    arguments = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        read_tables(__file__)["writer"],
        kind,
        str(folder),
        str(rounds),
        str(seed),
    ]
    acknowledged = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found: list[Turn] = []
    for path in folder.iterdir():
        if not path.name.isdecimal():
            continue
        history = FileHistory(path) if kind == "file" else SQLiteHistory(path, conversation="me")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HistoryWarning)
            found += history.turns()
    assert all(set(one.output) == {"x"} for one in found)
    kept = [one.input for one in found]
    assert len(kept) == len(set(kept))
    return len(acknowledged), set(acknowledged) - set(kept)


@pytest.mark.slow
@cases("kind", "file", "sqlite")
def test_many_kills_lose_no_acknowledged_turn(kind: str, tmp_path: Path) -> None:
    kills = examples(300, 50)
    acknowledged, lost = turns_after_kills(kind, tmp_path, kills, 17)
    assert (acknowledged > kills // 3, lost) == (True, set())


@pytest.mark.medium
@cases("kind", "file", "sqlite")
def test_a_few_kills_lose_no_acknowledged_turn(kind: str, tmp_path: Path) -> None:
    assert turns_after_kills(kind, tmp_path, 10, 5)[1] == set()
