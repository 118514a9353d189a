"""The test file in the README is short, and it passes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(after: str, kind: str) -> str:
    return README.partition(after)[2].partition(f"```{kind}\n")[2].partition("```")[0]


def test_readme_approval_may_leave_out_the_question() -> None:
    written = block("## A machine of your own", "python")
    asking = "    reply = yield from ask("
    assert asking in written
    short = "    if len(draft.text) < 3:\n        return Approved(draft.text)\n"
    names: dict[str, Any] = {"__name__": "readme"}
    exec(written.replace(asking, short + asking), names)
    assert names["done"].outcome == names["Approved"]("hi")


@pytest.mark.slow
def test_readme_test_file_passes(tmp_path: Path) -> None:
    written = block("<!-- block: user test -->", "python")
    assert len(written.splitlines()) <= 15
    (tmp_path / "test_mine.py").write_text(written, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    shown = block("<!-- block: user test -->", "text").strip()
    assert shown in done.stdout.splitlines()
