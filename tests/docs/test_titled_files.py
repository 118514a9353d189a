"""The files that pages tell a reader to write do what the pages say, in processes of their own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parameters import cases

DOCS = Path(__file__).parents[2] / "docs"
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")


def write_files(page: str, folder: Path) -> None:
    """Write the blocks of a page that have the title of a file; blocks of one title follow each other."""
    text = (DOCS / page).read_text(encoding="utf-8")
    files: dict[str, str] = {}
    for name, code in re.findall(r'```python title="([^"]+)"\n(.*?)```', text, re.DOTALL):
        files[name] = files.get(name, "") + code
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")


def text_block(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.partition("```text\n")[2].partition("```")[0].splitlines()


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@cases("page", "tutorial/test.md", "how-to/testing.md")
def test_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    printed = run(tmp_path, *PYTEST)
    # A long line is broken.
    assert " ".join(text_block(page)) in printed.splitlines()


@pytest.mark.slow
@cases("page", "how-to/memory.md", "how-to/pausing.md")
def test_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    for session in "\n".join(text_block(page)).removeprefix("$ python ").split("\n$ python "):
        command, _, expected = session.partition("\n")
        assert run(tmp_path, *shlex.split(command)) == f"{expected}\n"


# ---- the test file in the README


def block(after: str, kind: str) -> str:
    return README.partition(after)[2].partition(f"```{kind}\n")[2].partition("```")[0]


@pytest.mark.slow
def test_readme_test_file_passes(tmp_path: Path) -> None:
    written = block("<!-- block: user test -->", "python")
    assert len(written.splitlines()) <= 15
    (tmp_path / "test_mine.py").write_text(written, encoding="utf-8")
    printed = run(tmp_path, *PYTEST)
    assert " ".join(block("<!-- block: user test -->", "text").split()) in printed.splitlines()
