"""The committed pictures are those of the machines that run."""

import runpy
from pathlib import Path
from typing import Any

from graphexec import AGENT_EXECUTOR, Graph
from graphexec.draw import draw

DIAGRAMS = Path(__file__).parents[2] / "diagrams"


def drawn() -> dict[str, str]:
    pictures: dict[str, str] = runpy.run_path(str(DIAGRAMS / "generate.py"))["pictures"]()
    return pictures


def test_every_picture_is_up_to_date() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in DIAGRAMS.iterdir() if path.suffix != ".py"}
    assert committed == drawn(), "run: python diagrams/generate.py"


def test_a_changed_edge_changes_the_picture() -> None:
    changed: Graph[Any, Any] = Graph(AGENT_EXECUTOR, AGENT_EXECUTOR.edges[:-1], AGENT_EXECUTOR.start)
    for how, file in (("mermaid", "agent_executor.mmd"), ("dot", "agent_executor.dot")):
        assert draw(changed, how) != (DIAGRAMS / file).read_text(encoding="utf-8")
