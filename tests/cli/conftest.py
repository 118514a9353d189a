"""The environment of commands, and a folder with machines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.machines_of_mine import FILES, lay_out
from tests.cli.terminals import OURS


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in OURS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in FILES:
        # Forget the imports of a command afterwards.
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
    return tmp_path
