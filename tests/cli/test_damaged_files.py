"""Damaged snapshots, traces, certificates, caches and histories raise errors of graphexec, and no others."""

import contextlib
import copy
import gzip
import json
import os
import random
import sqlite3
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, Snapshot, errors, messages, models, snapshot_of, tool
from graphexec.actions import Steps
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.files import write
from graphexec.cli.records import load_recording
from graphexec.draw import draw, recording_of
from graphexec.draw.page import html
from graphexec.kernel.serialization import format_json
from graphexec.memory import FileHistory, SQLiteHistory, Turn
from graphexec.verify import Certificate, check
from tests.cli.terminals import command, refused
from tests.cli.traced import double
from tests.models.pictures import CAT
from tests.parameters import cases, examples

# What stands in the place of a value: every kind of JSON, and the values that stop a careless reader.
VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1.5, -0.0, 10**400, -(10**5000), 1e308, float("nan"), float("inf")),
    *("", "x", "plan", "END", "\ud800", "\x00\n\u202e", "9" * 5000, [], [[]], ["x", 1], {}, {"": {}}),
    *({"kind": "graphexec.image", "url": 3}, {"kind": "graphexec.data", "data": 3}),
    *({"class": "Ready", "data": None}, {"exhausted": {"limit": 3}}),
)

DEEP = 100_000
# Whole texts.
TEXTS: Sequence[bytes] = (
    *(b"", b"\n", b"\x00" * 100, b"\xff\xfe[\x00]\x00", b"\xef\xbb\xbf{}", gzip.compress(b"{}")),
    *(b'["' * DEEP, b"[" * 10 * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP),
    *(b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"9" * DEEP, b"-" + b"9" * DEEP, b"1e" + b"9" * DEEP),
    *(b"NaN", b"-Infinity", b'"\\ud800"', b'"' + b"x" * DEEP, b"null", b"{}", b"[]", b"[{}]"),
    *(b'{"event": "start"}', b'{"version": 2}', b"{} {}"),
)

PIECES = (b"\x00", b"\xff", b"[", b"{", b'"', b",", b"\n", b"\r", b"1e999", b"9" * 5000, b"[" * DEEP, b'{"a":' * DEEP)


def damage(document: bytes, chance: random.Random) -> bytes:
    """Return a document with some changes; each line of it is JSON."""
    if chance.random() < 0.02:
        return chance.choice(TEXTS)
    if chance.random() < 0.6:
        lines = document.splitlines()
        number = chance.randrange(len(lines))
        value = json.loads(lines[number])
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            value = _change_value(value, chance)
        # Half of a surrogate pair is an escape, or bytes that are not UTF-8.
        lines[number] = format_json(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
        return b"\n".join(lines) + b"\n"
    place, lines = chance.randrange(len(document)), document.splitlines(keepends=True)
    match chance.choice(("cut", "flip", "insert", "repeat", "swap")):
        case "cut":
            return document[:place]
        case "flip":
            changed = bytearray(document)
            for _ in range(chance.choice((1, 2, 8))):
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            return bytes(changed)
        case "insert":
            return document[:place] + chance.choice(PIECES) + document[place:]
        case "repeat":
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
        case _:
            first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def _change_value(document: Any, chance: random.Random) -> Any:
    """Return a document in which one value is replaced, removed, duplicated, or swapped with another."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places:
        return chance.choice(VALUES)
    parent, key = chance.choice(places)
    match chance.randrange(5):
        case 0 | 1:
            parent[key] = copy.deepcopy(chance.choice(VALUES))
        case 2:
            del parent[key]
        case 3:
            if isinstance(key, int):
                parent.append(copy.deepcopy(parent[key]))
            else:
                parent[chance.choice(["x", "", *parent])] = copy.deepcopy(parent[key])
        case _:
            other, name = chance.choice(places)
            parent[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(parent[key])
    return document


def _places(value: Any) -> Any:
    """Yield the places of the values within a value: what holds it, and its key or index."""
    kind: type[Any] = value.__class__
    if kind in (dict, list):
        for key in list(value) if kind is dict else range(len(value)):
            yield value, key
            yield from _places(value[key])


# ---- kinds of files


@tool(on_error="raise")
def fail(number: int) -> int:
    """Raise an exception."""
    raise LookupError(number)


def decide(steps: Steps, inputs: object) -> AgentAction | AgentFinish:
    actions = [AgentAction("double", {"number": 3}, "log"), AgentAction("fail", {"number": 4}, "log")]
    return actions[len(steps)] if len(steps) < len(actions) else AgentFinish({"output": "done"})


@cache
def executor() -> AgentExecutor:
    return AgentExecutor(agent=decide, tools=[double, fail], max_iterations=5, max_execution_time=20)


@cache
def failure() -> Exception:
    """Return the exception that ended a run with two calls."""
    with pytest.raises(LookupError) as raised:
        executor().run({"input": "go on", "images": [CAT]})
    return raised.value


@cache
def proof() -> Certificate:
    found = executor().verify().certificate
    assert found is not None
    return found


@cache
def trace() -> str:
    return recording_of(failure()).to_json_lines()


def read_snapshot(content: bytes, _: Path) -> None:
    snapshot = Snapshot.from_json(content.decode("utf-8", "surrogateescape"), executor().graph)
    with contextlib.suppress(LookupError):
        executor().run(snapshot)
    snapshot.to_json()


def read_trace(content: bytes, folder: Path) -> None:
    file = folder / "trace.jsonl"
    file.write_bytes(content)
    recording = load_recording(str(file))
    draw(recording.machine, "text", runs=recording)
    recording.to_json_lines()
    html(recording.machine, recording)


def read_certificate(content: bytes, _: Path) -> None:
    certificate = Certificate.from_json(content.decode("utf-8", "surrogateescape"))
    check(certificate, executor().graph)


def read_file_history(content: bytes, folder: Path) -> None:
    history = FileHistory(folder / "turns.jsonl")
    history.path.write_bytes(content)
    with contextlib.suppress(errors.GraphexecError):
        history.turns()
    history.add(Turn("a", "b"))
    assert history.turns()[-1] == Turn("a", "b")


def read_history_database(content: bytes, folder: Path) -> None:
    history = SQLiteHistory(folder / "turns.sqlite", conversation="me")
    history.path.write_bytes(content)
    history.turns()
    history.add(Turn("a", "b"))


def read_cache_file(content: bytes, folder: Path) -> None:
    path = folder / "replies.sqlite"
    path.write_bytes(content)
    assert ask(path) == "right"


def read_cache_entry(content: bytes, folder: Path) -> None:
    path = folder / "replies.sqlite"
    path.write_bytes(document_of_cache(folder))
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        # After the checksum, which is the beginning.
        database.execute("UPDATE replies SET entry = CAST(substr(entry, 1, 64) || ? AS TEXT)", (content,))
    assert ask(path) == "right"


def ask(path: Path) -> str:
    model = models.cached(models.FunctionModel(lambda _: "right"), models.SQLiteCache(path), name="a model")
    return model.complete(messages.CompletionRequest("What?")).content


def document_of_cache(folder: Path) -> bytes:
    path = folder / "valid.sqlite"
    if not path.exists():
        ask(path)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def document_of_entry(folder: Path) -> bytes:
    document_of_cache(folder)
    with contextlib.closing(sqlite3.connect(folder / "valid.sqlite")) as database:
        entry: str = database.execute("SELECT entry FROM replies").fetchone()[0]
    return entry[64:].encode()


def document_of_history(folder: Path) -> bytes:
    history = FileHistory(folder / "valid.jsonl")
    for number in range(3):
        history.add(Turn(f"in {number}", "out", (CAT,)))
    return history.path.read_bytes()


def document_of_database(folder: Path) -> bytes:
    history = SQLiteHistory(folder / "history.sqlite", conversation="me")
    history.add(Turn("in", "out", (CAT,)))
    return history.path.read_bytes()


def document_of_snapshot(_: Path) -> bytes:
    snapshot = snapshot_of(failure())
    assert snapshot is not None
    return snapshot.to_json().encode()


# For each kind of file, the valid one, what reads it, and its share of the mutations.
KINDS: Mapping[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None], int]] = {
    "snapshot": (document_of_snapshot, read_snapshot, 30),
    "trace": (lambda _: trace().encode(), read_trace, 25),
    # On one line, as the lines of the others are.
    "certificate": (lambda _: json.dumps(json.loads(proof().to_json())).encode(), read_certificate, 25),
    "file history": (document_of_history, read_file_history, 10),
    "history database": (document_of_database, read_history_database, 5),
    "cache file": (document_of_cache, read_cache_file, 5),
    "cache entry": (document_of_entry, read_cache_entry, 5),
}


def read_damaged(kind: str, content: bytes, folder: Path) -> bool:
    """Read a damaged file; return whether it was refused. Any error of other kinds is raised, with the content."""
    read = KINDS[kind][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.HistoryWarning)
        try:
            read(content, folder)
        except (errors.GraphexecError, UsageError) as error:
            str(error).encode("utf-8", "backslashreplace")
            return True
        except BaseException as error:
            (folder / "damaged").write_bytes(content)
            error.add_note(f"{kind}: {content[:300]!r}... in {folder / 'damaged'}")
            raise
    return False


def read_many(kind: str, count: int, seed: int, folder: Path) -> int:
    """Read mutations of a valid file; return how many were refused."""
    chance = random.Random(f"{kind} {seed}")
    document = KINDS[kind][0](folder)
    read_damaged(kind, document, folder)
    if kind.endswith(("database", "cache file")):
        # Binary: the structure of JSON is not there.
        return sum(read_damaged(kind, _flipped(document, chance), folder) for _ in range(count))
    return sum(read_damaged(kind, damage(document, chance), folder) for _ in range(count))


def _flipped(document: bytes, chance: random.Random) -> bytes:
    changed = bytearray(document)
    for _ in range(chance.choice((1, 3, 30))):
        start = chance.randrange(chance.choice((120, len(changed))))
        changed[start : start + 4] = chance.randbytes(4)
    return bytes(changed[: chance.choice((len(changed), chance.randrange(len(changed))))])


@pytest.mark.medium
@cases("kind", *KINDS)
def test_damaged_file_raises_our_errors(kind: str, tmp_path: Path) -> None:
    assert read_many(kind, 3 * KINDS[kind][2], 1, tmp_path) >= 0


@pytest.mark.slow
@cases("kind", *KINDS)
def test_many_damaged_files_raise_our_errors(kind: str, tmp_path: Path) -> None:
    shares = sum(share for _, _, share in KINDS.values())
    read_many(kind, -(-examples(10_000, 1_000) * KINDS[kind][2] // shares), 2, tmp_path)


@pytest.mark.medium
@cases("content", *TEXTS)
@cases("kind", *[kind for kind in KINDS if not kind.startswith("cache")])
def test_text_that_stops_a_reader_is_refused(kind: str, content: bytes, tmp_path: Path) -> None:
    KINDS[kind][0](tmp_path)
    read_damaged(kind, content, tmp_path)


# ---- pipes and devices

READERS = [["view", "{}", "--no-open"], ["draw", "--run", "{}"]]


@cases("name", "pipe", "/dev/zero")
@cases("arguments", *READERS)
def test_device_or_pipe_is_refused_at_once(arguments: list[str], name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    error = refused(*(one.format(path) for one in arguments))
    assert f"graphexec: {path} cannot be read: " in error
    assert "not a regular file" in error


@cases("arguments", *READERS)
def test_sparse_file_is_refused_without_reading_it(arguments: list[str], tmp_path: Path) -> None:
    """A trace of a gigabyte, almost all of it a hole that a crash left, takes no gigabyte of memory."""
    file = tmp_path / "trace.jsonl"
    file.write_text(trace(), encoding="utf-8")
    os.truncate(file, 1 << 30)
    tracemalloc.start()
    try:
        error = refused(*(one.format(file) for one in arguments))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "it is not text: it has a mebibyte of zeros; name a text file" in error
    assert peak < 100_000_000


def test_zeros_of_a_crash_are_the_end_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(trace().encode() + b"\0" * 4096)
    ended = command("draw", "--run", str(file))
    assert ended.code == 0
    assert "is incomplete; the run is shown up to there" in ended.err


def test_link_to_itself_cannot_be_written(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="cannot be written: "):
        write("text", loop)
