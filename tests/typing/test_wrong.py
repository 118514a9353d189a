"""Wrong programs are refused by both type checkers, on the lines that say so, and nowhere else.

A line that a checker has to refuse ends with `# error: mypy <code>, pyright <rule> <rule>`, with one code or rule for
each error; a checker that is not named lets the line pass. So an admitted weakness of a checker stands where it bites.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.parameters import cases

WRONG = Path(__file__).parent / "wrong"

# File, line and code of each error.
Errors: TypeAlias = Counter[tuple[str, int, str]]


def marked_errors(checker: str) -> Errors:
    errors: Errors = Counter()
    for path in sorted(WRONG.glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            _, _, marks = line.partition("  # error: ")
            for mark in filter(None, marks.split(", ")):
                name, *codes = mark.split()
                if name == checker:
                    errors.update((path.name, number, code) for code in codes)
    return errors


def output(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=WRONG, capture_output=True, text=True, timeout=300, check=False
    )
    # Both find errors, and neither fails otherwise.
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def found_by_mypy() -> Errors:
    lines = output("mypy", "--config-file", "mypy.ini", "--no-error-summary", "--hide-error-context", ".")
    errors = re.findall(r"^(\S+?):(\d+): error: .*\[([\w-]+)\]$", lines, re.MULTILINE)
    return Counter((path, int(line), code) for path, line, code in errors)


def found_by_pyright() -> Errors:
    result: dict[str, Any] = json.loads(output("pyright", "-p", ".", "--outputjson", "--pythonpath", sys.executable))
    return Counter(
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["rule"]) for one in result["generalDiagnostics"]
    )


@pytest.mark.slow
@cases(("checker", "find"), ("mypy", found_by_mypy), ("pyright", found_by_pyright))
def test_checkers_reject_exactly_the_marked_lines(checker: str, find: Any) -> None:
    found, expected = find(), marked_errors(checker)
    assert expected
    assert found == expected, f"not marked: {sorted(found - expected)}; not found: {sorted(expected - found)}"
