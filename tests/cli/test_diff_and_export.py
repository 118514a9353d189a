"""`graphexec diff`: the differences of two machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphexec.draw import format_of, render
from graphexec.verify import diff
from tests.cli.terminals import command, refused
from tests.parameters import cases
from tests.verify.writing import PERFECTIONIST, WRITER

pytestmark = pytest.mark.usefixtures("folder")


PATIENT = [
    "~ limit iterations: was 3, now 9",
    "~ bound transitions: was 4*iterations + 2 = 14 (exact), now 4*iterations + 2 = 38 (exact)",
    "~ bound model calls: was iterations = 3 (exact), now iterations = 9 (exact)",
]
LOST = ["~ verdict was proved, now refuted", "+ node polish"]


@cases(
    ("arguments", "code", "lines"),
    [
        (["writing:WRITER", "writing.py:WRITER"], 0, ["no difference in nodes, edges, limits and bounds"]),
        # Executors are compared under their own limits.
        (["agents:executor", "agents:patient"], 1, PATIENT),
        (["writing:WRITER", "writing:PERFECTIONIST", "--max-iterations", "4"], 1, LOST),
    ],
)
def test_differences_set_the_exit_code(arguments: list[str], code: int, lines: list[str]) -> None:
    ended = command("diff", *arguments)
    printed = ended.out.splitlines()
    assert (ended.code, ended.err.removeprefix("a module prints\n")) == (code, "")
    assert lines == printed if lines is not LOST else {*lines} <= {*printed}


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html", ".mmd", ".dot", ".md", ".txt"])
def test_differences_are_drawn_to_a_file(folder: Path, suffix: str) -> None:
    pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")
    file = folder / f"changes{suffix}"
    ended = command("diff", "writing:PERFECTIONIST", "writing:WRITER", "-o", str(file))
    assert (ended.code, ended.err) == (1, "")
    assert "+ node revise" in ended.out
    expected = render(diff(PERFECTIONIST, WRITER), format_of(file))
    assert file.read_bytes() == expected


def test_picture_of_equal_machines_exits_0(folder: Path) -> None:
    assert command("diff", "writing:WRITER", "writing:WRITER", "-o", "changes.txt").code == 0
    assert "No difference in nodes" in (folder / "changes.txt").read_text("utf-8")


def test_unknown_suffix_exits_2_before_the_proofs() -> None:
    error = refused("diff", "writing:WRITER", "nowhere:x", "-o", "changes.pdf")
    assert "the suffix .pdf of changes.pdf is unknown; use one of .mmd" in error
    assert "pass the format" not in error


@cases("arguments", [["writing:WRITER"], ["writing:WRITER", "writing"], ["lacking:machine", "nowhere:x"]])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    ended = command("diff", *arguments)
    assert (ended.code, ended.out, bool(ended.err)) == (2, "", True)
