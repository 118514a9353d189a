"""Every piece of the shelf has a page, a row and an example."""

import inspect
import re
from pathlib import Path

import graphexec.nodes
from tests.nodes.shelf import factories
from tests.parameters import cases

DOCS = Path(__file__).parents[2] / "docs"
PIECES = sorted(factories())


@cases("name", PIECES)
def test_piece_has_a_page_with_an_example(name: str) -> None:
    page = (DOCS / "nodes" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert "```python\n" in page
    assert ".verify().bounds." in page
    assert "\n## What is guaranteed\n" in page


@cases("name", PIECES)
def test_page_names_the_options_of_the_piece(name: str) -> None:
    page = (DOCS / "nodes" / f"{name}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    shown = {option.strip("*") for row in rows for option in re.findall(r"`([^`]+)`", row)}
    assert shown == set(inspect.signature(getattr(graphexec.nodes, name)).parameters)


@cases("name", PIECES)
def test_docstring_of_a_piece_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(graphexec.nodes, name)) or ""
    # An indented block that calls the piece, or what plugs it.
    assert re.search(rf"^    .*\b{name}\b", text, re.MULTILINE)


def test_index_and_navigation_name_every_piece() -> None:
    index = (DOCS / "nodes" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\((\w+)\.md\) \|", index, re.MULTILINE)
    assert sorted(rows) == [(name, name) for name in PIECES]
    navigation = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"^      - (\w+): nodes/\1\.md$", navigation, re.MULTILINE) == [name for name, _ in rows]
