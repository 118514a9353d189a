"""The environment of commands, a folder with machines, and weights that cannot be downloaded."""

from pathlib import Path

import pytest

from graphexec.errors import WeightsError
from graphexec.models.local import weights
from tests.cli.machines_of_mine import FILES, lay_out
from tests.cli.terminals import OURS


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in OURS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch, FILES)


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the requested weights; each download fails."""
    names: list[str] = []

    def pull(name: str) -> Path:
        names.append(name)
        raise WeightsError("there is no net")

    monkeypatch.setattr(weights, "pull", pull)
    return names
