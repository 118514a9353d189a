"""The folder that the commands which prove are run in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.machines_of_mine import FILES, lay_out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in FILES:
        # So that what a command imports is forgotten afterwards.
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
    return tmp_path
