"""A copy of the package, and what the promises say of it."""

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

# What the environment calls the directory of the copy; `tests/conftest.py` sees whether that is what is imported.
COPY = "GRAPHEXEC_COPY"

# Exit codes: pytest's own, and that of `tests/conftest.py` where it is not the copy that would be tested.
PASSED, FAILED, NOT_THE_COPY = 0, 1, 9

# Seconds for all promises on a busy machine, and for each. What takes longer is an error and no kill: a promise has its
# own bounds.
PATIENCE = 120
PATIENCE_FOR_EACH = 90


@dataclass(frozen=True)
class Judged:
    """What came of it: pytest's exit code, how each broken promise was broken, and all that was printed."""

    code: int
    broken: dict[str, str]
    text: str


def copied(source: Path, to: Path) -> Path:
    """Copy the package, the tests and the settings, so that nothing is imported from here; return the package."""
    # With their bytecode, which takes a second to make.
    for name in ("graphexec", "tests"):
        shutil.copytree(source / name, to / name)
    shutil.copy(source / "pyproject.toml", to)
    return to / "graphexec"


def judged(copy: Path, *promises: str, tests: Path | None = None) -> Judged:
    """Hold the package in a copy to promises, all of them unless told which, until one is broken.

    The tests are the copy's own, too: pytest puts their directory first on the path.
    """
    command = [sys.executable, "-m", "pytest", *(map(place, promises) if promises else FILES)]
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
    # Wide enough to say in a line how a promise was broken.
    environment |= {"PYTHONPATH": str(copy), COPY: str(copy), "COLUMNS": "400"}
    done = subprocess.run(
        command, cwd=tests or copy, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    broken = dict(re.findall(r"^FAILED \S+?::(test_\w+)(?:\[.*?\])? - (.*)$", done.stdout, flags=re.MULTILINE))
    return Judged(done.returncode, broken, done.stdout + done.stderr)


def place(promise: str) -> str:
    """Where a promise stands, as pytest names it; a test has its place in its name."""
    if "::" in promise:
        return promise
    (file,) = [file for file in FILES if f"def {promise}(" in (ROOT / file).read_text()]
    return f"{file}::{promise}"
