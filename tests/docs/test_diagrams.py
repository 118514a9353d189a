"""The committed pictures are those of the machines that run."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from graphexec import Graph
from graphexec.draw import draw
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel import Edge
from tests.parameters import cases

DIAGRAMS = Path(__file__).parents[2] / "diagrams"
NODES = DIAGRAMS.parent / "docs" / "nodes"


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    return runpy.run_path(str(DIAGRAMS / "generate.py"))


@pytest.mark.slow
def test_every_picture_is_up_to_date_to_the_byte(generated: dict[str, Any]) -> None:
    committed = {
        path.relative_to(DIAGRAMS).as_posix(): path.read_bytes()
        for path in DIAGRAMS.rglob("*.*")
        if path.suffix not in (".py", ".pyc")
    }
    drawn = {name: text.encode() for name, text in generated["pictures"]().items()}
    assert committed == drawn, "run: python diagrams/generate.py"


def test_the_index_shows_every_machine(generated: dict[str, Any]) -> None:
    index = (DIAGRAMS / "README.md").read_text(encoding="utf-8")
    for name, graph in generated["machines"]():
        assert f"![{name}]({name}.svg)" in index
        for edge in graph.edges:
            assert f"| {edge.outcome.__name__} |" in index.replace("`", "")


@cases("page", sorted({*NODES.glob("*.md")} - {NODES / "index.md"}))
def test_page_shows_its_piece(page: Path) -> None:
    assert f"](../../diagrams/nodes/{page.stem}.svg)" in page.read_text(encoding="utf-8")


def test_a_changed_edge_changes_every_picture(generated: dict[str, Any]) -> None:
    last = AGENT_EXECUTOR.edges[-1]
    others = (*AGENT_EXECUTOR.edges[:-1], Edge(last.source, last.outcome, "plan"))
    changed: Graph[Any, Any] = Graph(AGENT_EXECUTOR, others, AGENT_EXECUTOR.start)
    for how, suffix in generated["SUFFIXES"].items():
        assert draw(changed.verify(), how) != (DIAGRAMS / f"agent_executor{suffix}").read_text(encoding="utf-8")
