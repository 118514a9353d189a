"""`graphexec run --record`: the records of a run in a file, beside whatever is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conversations import Silence, serving
from tests.cli.terminals import Program, command
from tests.cli.test_run import SOLVED, asking


def test_what_json_prints_is_written_beside_the_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--record", str(file)))
    with serving(SOLVED) as server:
        printed = command(capsys, *asking(server, "--json"))
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    assert "plan" in ended.err
    written = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [record["event"] for record in written] == [json.loads(line)["event"] for line in printed.out.splitlines()]
    assert written[-1]["output"] == "37 * 48 is 1776."


def test_both_can_be_had(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--json", "--record", str(file)))
    assert file.read_text(encoding="utf-8") == ended.out


def test_a_file_that_cannot_be_written_is_one_line_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--record", str(tmp_path)))
        assert server.asked == []
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"graphexec: {tmp_path} cannot be written: " in ended.err


def test_the_records_are_there_as_they_happen_and_the_last_is_of_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with serving([Silence()]) as server, Program(*asking(server, "--record", str(file))) as running:
        assert server.waiting.wait(60)
        events = [json.loads(line)["event"] for line in file.read_text(encoding="utf-8").splitlines()]
        assert events == ["start", "entered", "asked"]
        ended = running.interrupt()
    assert ended.code == 130
    assert json.loads(file.read_text(encoding="utf-8").splitlines()[-1])["status"] == "interrupted"
