"""The sources of a live page: a recorder, and a file that grows, is truncated or is overwritten."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.live.feeds import Feed, feed_of
from tests.cli.traced import record_run
from tests.parameters import cases
from tests.traces import read_trace

RECORDED = record_run()
RECORDS = read_trace(RECORDED)


def records(feed: Feed) -> list[Any]:
    feed.refresh()
    return [json.loads(line) for line in feed.lines]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


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


def written(file: Path, text: str = RECORDED) -> Feed:
    file.write_text(text, encoding="utf-8")
    feed = feed_of(file)
    assert records(feed) == read_trace(text)
    return feed


AGAIN = record_run("no JSON at all")


def replace_file(file: Path) -> None:
    (file.parent / "other").write_text(RECORDED, encoding="utf-8")
    (file.parent / "other").replace(file)


CHANGES: list[tuple[int | None, Callable[[Path], object], str | None]] = [
    (5, lambda file: file.write_text(AGAIN, encoding="utf-8"), AGAIN),
    (5, lambda file: file.write_text("".join(AGAIN.splitlines(keepends=True)[:2]), encoding="utf-8"), None),
    (None, replace_file, RECORDED),
    (None, lambda file: os.truncate(file, 0), ""),
    # The last run of a file is read.
    (None, lambda file: file.write_text(RECORDED + AGAIN, encoding="utf-8"), AGAIN),
    (None, Path.unlink, RECORDED),
]


@cases("begun, change, after", *CHANGES)
def test_changed_file_is_another_run(begun: int | None, change: Any, after: str | None, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    feed = written(file, "".join(RECORDED.splitlines(keepends=True)[:begun]))
    run = feed.run
    assert feed.over == (begun is None)
    change(file)
    assert records(feed) == read_trace(file.read_text(encoding="utf-8") if after is None else after)
    # A deleted file keeps its records.
    assert (feed.run != run) == file.exists()
    if after == "":
        assert not feed.over
        file.write_text(RECORDED, encoding="utf-8")
        assert (records(feed), feed.over) == (RECORDS, True)


NO_RECORDS = [b"{]", b"\xff\xfe", b"3", b'{"event": {}}', b"[" * 100_000 + b"]" * 100_000]


@cases(
    "wrong, line, fault",
    *((wrong, 1, "not a record; ") for wrong in NO_RECORDS),
    (b"\n[1]", 2, "not a record; "),
    (b'{"event": "asked", "node": "plan"}', 1, "not a valid record: asked.effects: "),
)
def test_invalid_line_ends_the_feed(file: Path, wrong: bytes, line: int, fault: str) -> None:
    file.write_bytes(RECORDED.encode() + wrong + b"\n" + RECORDED.encode())
    feed = feed_of(file)
    assert (records(feed), feed.over) == (RECORDS, True)
    assert feed.error.startswith(f"line {len(RECORDS) + line} of {file} is {fault}")


@cases("beginning", "", '{"event": "start", "version": 2}\n')
def test_records_without_a_start_are_invalid(file: Path, beginning: str) -> None:
    file.write_text(beginning + RECORDED.partition("\n")[2], encoding="utf-8")
    feed = feed_of(file)
    assert (records(feed), feed.over) == ([], True)
    remedy = "pass the file that graphexec run --record wrote"
    assert feed.error == f"{file} does not begin with a start and its machine; {remedy}"


def make_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def make_hole(folder: Path) -> Path:
    """Make a trace of a gigabyte, almost all of it a hole; `test_damaged_files.py` measures the memory."""
    (folder / "hole").write_text(RECORDED, encoding="utf-8")
    os.truncate(folder / "hole", 1 << 30)
    return folder / "hole"


IRREGULAR = "[Errno 22] it is not a regular file"
INVALID: list[tuple[Callable[[Path], Path], str]] = [
    *((lambda folder: folder, ""), (make_pipe, IRREGULAR), (lambda _: Path("/dev/zero"), IRREGULAR)),
    (make_hole, "it is not text: it has a mebibyte of zeros"),
]


@cases("make, error", *INVALID)
def test_folder_pipe_device_and_hole_are_invalid(make: Callable[[Path], Path], error: str, tmp_path: Path) -> None:
    """Opening a pipe would wait for its writer, and a device has no end."""
    path = make(tmp_path)
    feed = feed_of(path)
    assert (records(feed), feed.over) == ([], True)
    assert feed.error.startswith(f"{path} cannot be read: ")
    assert feed.error.endswith(error)
