"""`graphexec diff`: the differences of two machines."""

from __future__ import annotations

import pytest

from tests.cli.terminals import command

pytestmark = pytest.mark.usefixtures("folder")


def test_equal_machines_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, "diff", "writing:WRITER", "writing.py:WRITER")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "no difference in nodes, edges, limits and bounds\n"


def test_executors_are_compared_under_their_own_limits(capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, "diff", "agents:executor", "agents:patient")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "~ limit iterations: was 3, now 9",
        "~ bound transitions: was 4*iterations + 2 = 14 (exact), now 4*iterations + 2 = 38 (exact)",
        "~ bound model calls: was iterations = 3 (exact), now iterations = 9 (exact)",
    ]


def test_lost_proof_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, "diff", "writing:WRITER", "writing:PERFECTIONIST", "--max-iterations", "4")
    assert ended.code == 1
    assert "~ verdict was proved, now refuted" in ended.out
    assert "+ node polish" in ended.out


@pytest.mark.parametrize(
    "arguments", [["writing:WRITER"], ["writing:WRITER", "writing"], ["lacking:machine", "nowhere:x"]]
)
def test_wrong_usage_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    ended = command(capsys, "diff", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err
