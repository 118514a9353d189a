"""`graphexec nodes`: the pieces of the shelf, and those of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphexec.cli.nodes import Listed, find_pieces
from graphexec.cli.samples import make_sample, plug_sample
from graphexec.draw import draw
from tests.cli.terminals import command, refused
from tests.parameters import cases

MODULE = '''
from graphexec.executor import Acted
from graphexec.kernel import node
from graphexec.nodes import Piece


@node
def check_words(acted: Acted) -> Acted:
    return acted


def polite(times: int = 2) -> Piece:
    """Ask politely.

    More about it.
    """
    return Piece("polite", (check_words,))


def patient(waits: complex) -> Piece:
    """Wait for an answer."""
    return Piece("patient", (check_words,))
'''
ENTRY_POINTS = """[graphexec.nodes]
polite = manners:polite
patient = manners:patient
rude = manners:missing
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manners.py").write_text(MODULE)
    info = tmp_path / "manners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: manners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.mark.usefixtures("package")
def test_nodes_of_the_shelf_and_of_packages_are_listed() -> None:
    ended = command("nodes")
    rows = {row.split("\t")[0]: row.split("\t")[1:] for row in ended.out.splitlines()}
    assert (ended.code, ended.err) == (0, "")
    assert rows["limit_tool"][:3] == ["graphexec", "Acted", "tool, calls, name='limit_tool'"]
    assert "calls" in rows["limit_tool"][3]
    assert rows["no_dummies"][1] == "Replied, Acted"
    assert [name for name, row in rows.items() if not row[1]] == ["patient", "rude"]
    assert rows["polite"] == ["manners", "Acted", "times=2", "Ask politely."]
    broken = "cannot be loaded: AttributeError: module 'manners' has no attribute 'missing'"
    assert rows["rude"] == ["manners", "", "", broken]


POLITE = ("polite(times=2)", "from manners", "More about it.", "┌┈ polite", "Proved: every run ends, after at")


@pytest.mark.usefixtures("package")
@cases(
    ("name", "facts"),
    [("polite", POLITE), ("rude", ["cannot be loaded: AttributeError"]), ("patient", ["Its arguments are your own"])],
)
def test_one_piece_is_described_and_drawn(name: str, facts: Sequence[str]) -> None:
    ended = command("nodes", name)
    assert (ended.code, ended.err) == (0, "")
    for fact in facts:
        assert fact in ended.out
    assert "Traceback" not in ended.out


def test_unknown_piece_is_refused() -> None:
    assert "there is no piece limit_tol; did you mean limit_tool" in refused("nodes", "limit_tol")


@cases("one", [one for one in find_pieces() if one.package == "graphexec"])
def test_piece_of_the_shelf_is_drawn(one: Listed) -> None:
    """Its classes and its picture need a sample for the arguments that the function wants."""
    piece = make_sample(one.name, one.made_by)
    assert piece is not None
    assert piece.takes or piece.rule
    assert f"┌┈ {piece.name}" in draw(plug_sample(piece).verify(), "text", pieces="boxes")
