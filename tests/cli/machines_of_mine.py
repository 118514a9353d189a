"""A folder with a user's machines: proved and unproved ones, and modules that cannot be imported."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.parameters import read_tables

PROGRAMS = read_tables(__file__)
MACHINES: str = PROGRAMS["machines"]
WRITING = Path(__file__).parents[1] / "verify" / "writing.py"
FILES: Mapping[str, str] = {"writing": WRITING.read_text(encoding="utf-8"), **PROGRAMS["files"]}


def lay_out(folder: Path, monkeypatch: pytest.MonkeyPatch, modules: Mapping[str, str]) -> Path:
    """Go into a folder with these modules; forget afterwards that a command has imported them."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder
