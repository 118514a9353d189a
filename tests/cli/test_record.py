"""`graphexec run --record`: the records of a run in a file."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphexec.cli import records
from tests.cli.conversations import Silence, serving
from tests.cli.terminals import ARGUMENTS, PATIENCE, Program, command, environment
from tests.cli.test_run import SOLVED, asking
from tests.traces import read_trace


def test_record_writes_the_json_output(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--record", str(file)))
    with serving(SOLVED) as server:
        printed = command(*asking(server, "--json"))
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    assert "plan" in ended.err
    written = read_trace(file.read_text(encoding="utf-8"))
    assert [record["event"] for record in written] == [json.loads(line)["event"] for line in printed.out.splitlines()]
    assert written[-1]["output"] == "37 * 48 is 1776."


# Any: JSON.
def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("began", "time", "heartbeat")}


def test_json_and_record_can_be_combined(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--json", "--record", str(file)))
    written, printed = read_trace(file.read_text("utf-8")), [*map(json.loads, ended.out.splitlines())]
    # Each recording has its own clock, and only the file has signs of life.
    assert [timeless(record) for record in written] == [timeless(record) for record in printed]
    assert (written[0]["heartbeat"], "heartbeat" in printed[0]) == (2, False)


def test_unwritable_record_file_is_reported_before_the_run(tmp_path: Path) -> None:
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--record", str(tmp_path)))
        assert server.asked == []
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"graphexec: {tmp_path} cannot be written: " in ended.err


def test_records_are_written_during_the_run(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving([Silence()]) as server, Program(*asking(server, "--record", str(file))) as running:
        assert server.waiting.wait(60)
        events = [record["event"] for record in read_trace(file.read_text(encoding="utf-8"))]
        assert events == ["start", "entered", "asked"]
        ended = running.interrupt()
    assert ended.code == 130
    assert read_trace(file.read_text(encoding="utf-8"))[-1]["status"] == "interrupted"


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

    def open_for_writing(file: Path) -> Any:
        assert file == Path("run.jsonl")
        return full

    monkeypatch.setattr(records, "open_for_writing", open_for_writing)
    return full


@pytest.mark.parametrize(("room", "lost"), [(0, "all"), (3, "the last 29")])
def test_full_disk_does_not_end_the_run(disk: FullDisk, room: int, lost: str) -> None:
    disk.room = room
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--quiet", "--record", "run.jsonl"))
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    missing = f"No space left on device; {lost} of its 32 records are missing"
    assert ended.err == f"graphexec: run.jsonl is incomplete: {missing}\n"
    # The file has the beginning of the run.
    assert [record["event"] for record in read_trace("".join(disk.lines))] == ["start", "entered", "asked"][:room]
    assert disk.closed


def test_full_disk_keeps_the_exit_code(disk: FullDisk) -> None:
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--quiet", "--record", "run.jsonl", "--max-iterations", "1"))
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


@pytest.mark.medium
@needs_full
def test_full_device_is_one_line() -> None:
    code, out, err = run_into("", "--record", str(FULL), "--quiet")
    assert (code, out) == (0, "37 * 48 is 1776.\n")
    assert err == "graphexec: /dev/full is incomplete: No space left on device; all of its 32 records are missing\n"


@pytest.mark.medium
@needs_full
def test_full_stderr_loses_the_trace_only() -> None:
    assert run_into("stderr") == (0, "37 * 48 is 1776.\n", "")


@pytest.mark.medium
@needs_full
def test_full_stdout_fails_after_the_run(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    code, _, err = run_into("stdout", "--json", "--record", str(file))
    assert code == 1
    missing = "No space left on device; all of its 32 records are missing"
    assert err == f"graphexec: the standard output is incomplete: {missing}\n"
    assert read_trace(file.read_text(encoding="utf-8"))[-1]["output"] == "37 * 48 is 1776."


@pytest.mark.medium
@needs_full
def test_answer_that_cannot_be_printed_is_an_error() -> None:
    code, _, err = run_into("stdout", "--quiet")
    assert (code, err) == (1, "graphexec: OSError: [Errno 28] No space left on device\n")
