"""Test a copy of the package against the promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ("tests/defects/test_promises.py", "tests/defects/test_promises_of_time.py")

# The environment variable with the directory of the copy; `tests/conftest.py` checks that this copy is imported.
COPY = "GRAPHEXEC_COPY"

# Exit codes of pytest, and of `tests/conftest.py` if the copy is not the imported package.
PASSED, FAILED, NOT_THE_COPY = 0, 1, 9

# Timeouts in seconds for all promises on a busy machine, and for each. A timeout is an error and does not count as a
# broken promise, because promises have their own bounds.
PATIENCE = 120
PATIENCE_FOR_EACH = 90


@dataclass(frozen=True)
class CopyResult:
    """The result of a test run: pytest's exit code, the message of each broken promise, and the output."""

    code: int
    broken: dict[str, str]
    text: str


def copy_package(source: Path, to: Path) -> Path:
    """Copy the package, the tests and the settings, so that no original is imported; return the package."""
    # Includes the bytecode, which would take a second to compile, but not the packages of npm, 9,000 files.
    for name in ("graphexec", "tests"):
        shutil.copytree(source / name, to / name, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(source / "pyproject.toml", to)
    return to / "graphexec"


def run_promises(copy: Path, *promises: str, tests: Path | None = None) -> CopyResult:
    """Test the package in a copy against these promises (default: all), until one is broken.

    The tests are those of the copy, because pytest puts their directory first on the path.
    """
    command = [sys.executable, "-m", "pytest", *(map(pytest_id, promises) if promises else FILES)]
    command += [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--hypothesis-profile=seeded",
        f"--timeout={PATIENCE_FOR_EACH}",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Wide enough for a failure message on one line.
    environment |= {"PYTHONPATH": str(copy), COPY: str(copy), "COLUMNS": "400"}
    done = subprocess.run(
        command, cwd=tests or copy, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    broken = dict(re.findall(r"^FAILED \S+?::(test_\w+)(?:\[.*?\])? - (.*)$", done.stdout, flags=re.MULTILINE))
    return CopyResult(done.returncode, broken, done.stdout + done.stderr)


def pytest_id(promise: str) -> str:
    """Return the pytest id of a promise; an id of another test is returned unchanged."""
    if "::" in promise:
        return promise
    (file,) = [file for file in FILES if f"def {promise}(" in (ROOT / file).read_text()]
    return f"{file}::{promise}"
