"""The sources of a live page: a recorder, and a file that grows, is truncated or is overwritten."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.draw.runs.stored import StoredRecords
from graphexec.live.feeds import Feed, feed_of
from tests.cli.traced import record_run
from tests.live.readers import recorder_of
from tests.traces import read_trace

RECORDED = record_run()
RECORDS = read_trace(RECORDED)


def records(feed: Feed) -> list[Any]:
    feed.refresh()
    return [json.loads(line) for line in feed.lines]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_recorder_is_read_incrementally() -> None:
    recorder = recorder_of()
    kept = list(recorder.records)
    recorder.records = StoredRecords(kept[:4])
    feed = feed_of(recorder)
    assert (records(feed), feed.over) == (kept[:4], False)
    for record in kept[4:]:
        recorder.records.append(record)
    assert (records(feed), feed.over) == (kept, True)


@given(places=st.lists(st.integers(0, len(RECORDED)), max_size=8))
def test_growing_file_is_read_once(places: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("growing") / "trace.jsonl"
    feed = feed_of(file)
    run, content = feed.run, RECORDED.encode()
    with file.open("wb", buffering=0) as out:
        for begin, end in zip([0, *sorted(places)], [*sorted(places), len(content)], strict=True):
            out.write(content[begin:end])
            whole = content[:end].count(b"\n")
            assert (records(feed), feed.error) == (RECORDS[:whole], "")
            assert feed.over == (whole == len(RECORDS))
    assert feed.run == run


def test_truncated_file_is_another_run(file: Path) -> None:
    file.write_text(RECORDED, encoding="utf-8")
    feed = feed_of(file)
    assert records(feed) == RECORDS
    run = feed.run
    os.truncate(file, 0)
    assert (records(feed), feed.over) == ([], False)
    assert feed.run != run
    file.write_text(RECORDED, encoding="utf-8")
    assert (records(feed), feed.over) == (RECORDS, True)


@pytest.mark.parametrize("longer", [False, True])
def test_overwritten_file_is_another_run(file: Path, longer: bool) -> None:
    lines = RECORDED.splitlines(keepends=True)
    file.write_text("".join(lines[:5]), encoding="utf-8")
    feed = feed_of(file)
    assert records(feed) == RECORDS[:5]
    run = feed.run
    again = record_run("no JSON at all")
    file.write_text(again if longer else "".join(again.splitlines(keepends=True)[:2]), encoding="utf-8")
    assert records(feed) == read_trace(file.read_text(encoding="utf-8"))
    assert feed.run != run


def test_replaced_file_is_another_run(file: Path, tmp_path: Path) -> None:
    file.write_text(RECORDED, encoding="utf-8")
    feed = feed_of(file)
    assert records(feed) == RECORDS
    run = feed.run
    (tmp_path / "other").write_text(RECORDED, encoding="utf-8")
    (tmp_path / "other").replace(file)
    assert records(feed) == RECORDS
    assert feed.run != run


def test_deleted_file_keeps_its_records(file: Path) -> None:
    file.write_text(RECORDED, encoding="utf-8")
    feed = feed_of(file)
    assert records(feed) == RECORDS
    file.unlink()
    assert records(feed) == RECORDS


def test_last_run_of_a_file_is_read(file: Path) -> None:
    file.write_text(RECORDED, encoding="utf-8")
    feed = feed_of(file)
    assert (records(feed), feed.over) == (RECORDS, True)
    run, again = feed.run, record_run("no JSON at all")
    with file.open("a", encoding="utf-8") as out:
        out.write(again)
    assert records(feed) == read_trace(again)
    assert feed.run != run


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (b"{]\n", "line {next} of {file} is not a record; "),
        (b"\n[1]\n", "line {after} of {file} is not a record; "),
        (b"\xff\xfe\n", "line {next} of {file} is not a record; "),
        (b"3\n", "line {next} of {file} is not a record; "),
        (b'{"event": {}}\n', "line {next} of {file} is not a record; "),
        (b"[" * 100_000 + b"]" * 100_000 + b"\n", "line {next} of {file} is not a record; "),
        (b'{"event": "asked", "node": "plan"}\n', "line {next} of {file} is not a valid record: asked.effects: "),
    ],
)
def test_invalid_line_ends_the_feed(file: Path, wrong: bytes, expected: str) -> None:
    file.write_bytes(RECORDED.encode() + wrong + RECORDED.encode())
    feed = feed_of(file)
    assert (records(feed), feed.over) == (RECORDS, True)
    assert feed.error.startswith(expected.format(file=file, next=len(RECORDS) + 1, after=len(RECORDS) + 2))


def test_records_without_a_start_are_invalid(file: Path) -> None:
    for beginning in ("", '{"event": "start"}\n'):
        file.write_text(beginning + RECORDED.partition("\n")[2], encoding="utf-8")
        feed = feed_of(file)
        assert (records(feed), feed.over) == ([], True)
        assert (
            feed.error
            == f"{file} does not begin with a start and its machine; pass the file that graphexec run --record wrote"
        )


def test_folder_is_invalid(tmp_path: Path) -> None:
    feed = feed_of(tmp_path)
    assert (records(feed), feed.over) == ([], True)
    assert feed.error.startswith(f"{tmp_path} cannot be read: ")


def test_pipe_and_device_are_invalid(tmp_path: Path) -> None:
    """Opening a pipe would wait for its writer, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        feed = feed_of(path)
        assert (records(feed), feed.over) == ([], True)
        assert feed.error == f"{path} cannot be read: [Errno 22] it is not a regular file"


def test_hole_in_a_file_is_not_read(file: Path) -> None:
    file.write_text(RECORDED, encoding="utf-8")
    os.truncate(file, 1 << 30)
    feed = feed_of(file)
    tracemalloc.start()
    try:
        assert (records(feed), feed.over) == ([], True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "it is not text: it has a mebibyte of zeros" in feed.error
    assert peak < 100_000_000
