"""`graphexec run --record`: the records of a run in a file."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphexec.cli import records
from tests.cli.conversations import Silence, serving
from tests.cli.terminals import ARGUMENTS, PATIENCE, Program, command, environment
from tests.cli.test_run import SOLVED, asking, run
from tests.cli.test_run import records as records_of
from tests.traces import read_trace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


# Any: JSON.
def read(file: Path) -> list[dict[str, Any]]:
    return [*read_trace(file.read_text(encoding="utf-8"))]


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("began", "time", "heartbeat")}


def test_record_is_the_json_output(file: Path) -> None:
    ended, printed = run(SOLVED, "--record", str(file)), run(SOLVED, "--json")
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    assert "plan" in ended.err
    assert [record["event"] for record in read(file)] == [record["event"] for record in records_of(printed)]
    assert read(file)[-1]["output"] == "37 * 48 is 1776."
    both = records_of(run(SOLVED, "--json", "--record", str(file)))
    # Each recording has its own clock, and only the file has signs of life.
    assert [timeless(record) for record in read(file)] == [timeless(record) for record in both]
    assert (read(file)[0]["heartbeat"], "heartbeat" in both[0]) == (2, False)


def test_unwritable_record_file_is_reported_before_the_run(tmp_path: Path) -> None:
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--record", str(tmp_path)))
        assert server.asked == []
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"graphexec: {tmp_path} cannot be written: " in ended.err


def test_records_are_written_during_the_run(file: Path) -> None:
    with serving([Silence()]) as server, Program(*asking(server, "--record", str(file))) as running:
        assert server.waiting.wait(60)
        assert [record["event"] for record in read(file)] == ["start", "entered", "asked"]
        ended = running.interrupt()
    assert (ended.code, read(file)[-1]["status"]) == (130, "interrupted")


# ---- a full disk


class FullDisk:
    """A file on a disk with space for some lines."""

    def __init__(self, lines: int) -> None:
        self.lines: list[str] = []
        self.room = lines
        self.closed = False

    def write(self, text: str) -> int:
        if text.strip():
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= 1
            self.lines.append(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are written immediately."""

    def close(self) -> None:
        self.closed = True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    """The file of --record."""
    full = FullDisk(0)
    monkeypatch.setattr(records, "open_for_writing", {Path("run.jsonl"): full}.__getitem__)
    return full


@pytest.mark.parametrize(("room", "lost"), [(0, "all"), (3, "the last 29")])
def test_full_disk_does_not_end_the_run(disk: FullDisk, room: int, lost: str) -> None:
    disk.room = room
    ended = run(SOLVED, "--quiet", "--record", "run.jsonl")
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    missing = f"No space left on device; {lost} of its 32 records are missing"
    assert ended.err == f"graphexec: run.jsonl is incomplete: {missing}\n"
    # The file has the beginning of the run.
    assert [record["event"] for record in read_trace("".join(disk.lines))] == ["start", "entered", "asked"][:room]
    assert disk.closed


def test_full_disk_keeps_the_exit_code(disk: FullDisk) -> None:
    ended = run(SOLVED, "--quiet", "--record", "run.jsonl", "--max-iterations", "1")
    assert (ended.code, disk.lines) == (3, [])
    assert "graphexec: run.jsonl is incomplete: No space left on device; all of its " in ended.err.splitlines()[-1]


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def run_into(full: str, *options: str) -> tuple[int, str, str]:
    """Run with one stream, or none, on a full disk; return the exit code, stdout and stderr."""
    with serving(SOLVED) as server, FULL.open("w", encoding="utf-8") as disk:
        ended = subprocess.run(
            [*ARGUMENTS, *asking(server, *options)],
            stdout=disk if full == "stdout" else subprocess.PIPE,
            stderr=disk if full == "stderr" else subprocess.PIPE,
            check=False,
            encoding="utf-8",
            env=environment(),
            timeout=PATIENCE,
        )
        assert len(server.asked) == 2
    return ended.returncode, ended.stdout or "", ended.stderr or ""


MISSING = "No space left on device; all of its 32 records are missing"


@pytest.mark.medium
@needs_full
def test_full_device_is_one_line() -> None:
    error = f"graphexec: /dev/full is incomplete: {MISSING}\n"
    assert run_into("", "--record", str(FULL), "--quiet") == (0, "37 * 48 is 1776.\n", error)


@pytest.mark.medium
@needs_full
def test_full_stderr_loses_the_trace_only() -> None:
    assert run_into("stderr") == (0, "37 * 48 is 1776.\n", "")


@pytest.mark.medium
@needs_full
def test_full_stdout_fails_after_the_run(file: Path) -> None:
    error = f"graphexec: the standard output is incomplete: {MISSING}\n"
    assert run_into("stdout", "--json", "--record", str(file)) == (1, "", error)
    assert read(file)[-1]["output"] == "37 * 48 is 1776."


@pytest.mark.medium
@needs_full
def test_answer_that_cannot_be_printed_is_an_error() -> None:
    assert run_into("stdout", "--quiet") == (1, "", "graphexec: OSError: [Errno 28] No space left on device\n")
