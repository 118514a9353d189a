"""The committed pictures are those of the machines, which are proved; every piece has a page, a row and an example."""

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import graphexec.nodes
from graphexec import Limits, Machine, executor, verify
from graphexec.draw import draw
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.stub_nodes import explore_table
from tests.nodes.shelf import factories
from tests.parameters import cases

DIAGRAMS = Path(__file__).parents[2] / "diagrams"
DOCS = DIAGRAMS.parent / "docs"
PIECES = sorted(factories())
GENERATED: dict[str, Any] = runpy.run_path(str(DIAGRAMS / "generate.py"), run_name="generate")
MACHINES: dict[str, Machine[Any, Any]] = dict(GENERATED["machines"]())


@pytest.mark.slow
def test_every_picture_is_up_to_date_to_the_byte() -> None:
    committed = {
        path.relative_to(DIAGRAMS).as_posix(): path.read_bytes()
        for path in DIAGRAMS.rglob("*.*")
        if path.suffix not in (".py", ".pyc")
    }
    drawn = {name: text.encode() for name, text in GENERATED["pictures"]().items()}
    assert committed == drawn, "run: python diagrams/generate.py"


def test_the_index_shows_every_machine() -> None:
    index = (DIAGRAMS / "README.md").read_text(encoding="utf-8")
    for name, graph in MACHINES.items():
        assert f"![{name}]({name}.svg)" in index
        for edge in graph.edges:
            assert f"─ {edge.outcome.__name__} ─" in index or f"┄ {edge.outcome.__name__} " in index


@pytest.mark.medium
def test_a_changed_edge_changes_every_picture() -> None:
    last = executor.AGENT_EXECUTOR.edges[-1]
    others = (*executor.AGENT_EXECUTOR.edges[:-1], Edge(last.source, last.outcome, "plan"))
    changed: Machine[Any, Any] = Machine(executor.AGENT_EXECUTOR, others, executor.AGENT_EXECUTOR.start)
    for how, suffix in GENERATED["SUFFIXES"].items():
        assert draw(changed.verify(), how) != (DIAGRAMS / f"agent_executor{suffix}").read_text(encoding="utf-8")


# ---- pages of pieces


@cases("name", *PIECES)
def test_page_of_a_piece_has_its_picture_options_and_example(name: str) -> None:
    page = (DOCS / "nodes" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    facts = ("```python\n", ".verify().bounds.", "\n## What is guaranteed\n", f"](../../diagrams/nodes/{name}.svg)")
    assert [fact for fact in facts if fact not in page] == []
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    shown = {option.strip("*") for row in rows for option in re.findall(r"`([^`]+)`", row)}
    piece = getattr(graphexec.nodes, name)
    assert shown == set(inspect.signature(piece).parameters)
    # The docstring has an indented block that calls the piece, or what plugs it.
    assert re.search(rf"^    .*\b{name}\b", inspect.getdoc(piece) or "", re.MULTILINE)


def test_index_and_navigation_name_every_piece() -> None:
    assert sorted(page.stem for page in (DOCS / "nodes").glob("*.md")) == sorted([*PIECES, "index"])
    index = (DOCS / "nodes" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\((\w+)\.md\) \|", index, re.MULTILINE)
    assert sorted(rows) == [(name, name) for name in PIECES]
    navigation = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"^      - (\w+): nodes/\1\.md$", navigation, re.MULTILINE) == [name for name, _ in rows]


# ---- proofs


@cases("iterations", 0, 1, 3, 15)
@cases("name", *MACHINES)
def test_each_machine_is_proved_and_reaches_its_bound(name: str, iterations: int) -> None:
    machine = MACHINES[name]
    limits = Limits(iterations=iterations)
    verdict = machine.verify(limits)
    assert verdict.proved, verdict
    assert verdict.certificate is not None
    verify.check(verdict.certificate, machine)
    found = explore_table(machine, limits, proof=verdict.proof)
    bounds = verdict.certificate.bounds
    assert bounds.transitions.exact
    assert found.longest == bounds.transitions.number == bounds.transitions.value
    assert found.model_calls is not None
    assert bounds.model_calls.number is None or found.model_calls <= bounds.model_calls.number
    assert not [edge for edge in found.never_taken if machine[edge.source].meters and iterations]
