"""Draw the packages and their imports: `python docs/package_diagram.py`. A test compares the picture.

An arrow leads from a package to one that it imports from, unless other arrows lead there
too. Packages of one layer in pyproject.toml stand side by side. Imports within functions are left out.
"""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import networkx as nx

DOCS = Path(__file__).resolve().parent
TOP = DOCS.parent
PACKAGE = TOP / "graphexec"
PICTURE = DOCS / "explanation" / "packages.svg"

# What each package has, in a few words.
CONTENTS = {
    "cli": "the program graphexec",
    "integrations": "for other libraries",
    "live": "pages of runs, served",
    "testing": "scripted models, properties",
    "create": "create_agent",
    "machine": "run, verify, draw a graph",
    "runs": "stores of runs, questions",
    "draw": "pictures and pages",
    "verify": "proofs, bounds, findings",
    "nodes": "pieces to plug in",
    "executor": "AgentExecutor, its table",
    "memory": "conversations",
    "agents": "prompts and parsers",
    "tools": "@tool, arguments, calls",
    "models": "providers, wrappers",
    "runtime": "the loop, threads, tasks",
    "effects": "CallModel, CallTool, ...",
    "actions": "actions, steps, answers",
    "messages": "requests and replies",
    "kernel": "nodes, tables, engine",
    "errors": "exceptions",
}

# Pixels. Graphviz counts 72 to an inch.
WIDTH, HEIGHT, MARGIN = 180, 46, 16
INCH = 72

STYLE = """\
.box { fill: #eef2ff; stroke: #4f5bd5; } .kernel { fill: #dfe5ff; stroke-width: 2; }
.name { font: 600 14px system-ui, Roboto, sans-serif; fill: #1c2033; }
.about { font: 11.5px system-ui, Roboto, sans-serif; fill: #4a5068; }
.import { fill: none; stroke: #7a80a0; } .head { fill: #7a80a0; }
@media (prefers-color-scheme: dark) {
.box { fill: #262b45; stroke: #8f9bff; } .kernel { fill: #323963; }
.name { fill: #f2f3fa; } .about { fill: #b9bfd8; } .import { stroke: #9aa1c0; } .head { fill: #9aa1c0; }
}"""


def layers() -> list[list[str]]:
    """Return the packages from the highest layer down."""
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(one["layers"] for one in contracts if one["containers"] == ["graphexec"])
    return [[name.strip() for name in row.split("|")] for row in rows]


def imports() -> Iterator[tuple[str, str]]:
    """Yield each package with one that it imports from."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.relative_to(PACKAGE).with_suffix("").parts[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # `graphexec/__init__.py` only exports names.
        if source != "__init__":
            yield from ((source, target) for target in _imported(tree.body) if target != source)


def _imported(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for one in statements:
        if isinstance(one, ast.Try):
            yield from _imported(one.body)
        elif isinstance(one, ast.ImportFrom) and (one.module or "").startswith("graphexec."):
            yield (one.module or "").split(".")[1]


def arrows() -> list[tuple[str, str]]:
    """Return the arrows of the picture."""
    found: nx.DiGraph[str] = nx.DiGraph(sorted(set(imports())))
    closure: nx.DiGraph[str] = nx.transitive_closure(found)
    shown = closure.subgraph([name for name in closure if not name.startswith("_")])
    return sorted(nx.transitive_reduction(shown).edges)


def lay_out() -> Any:
    """Return the packages as a graph of pygraphviz, with positions that depend on no font."""
    # It has no types.
    pygraphviz: Any = importlib.import_module("pygraphviz")
    drawn = pygraphviz.AGraph(directed=True, ranksep="0.45", nodesep="0.25", splines="spline")
    drawn.node_attr.update(shape="box", fixedsize="true", width=str(WIDTH / INCH), height=str(HEIGHT / INCH), label="")
    rows = [[name for name in row if not name.startswith("_")] for row in layers()]
    for row in filter(None, rows):
        for name in row:
            drawn.add_node(name)
        drawn.add_subgraph(row, rank="same")
    drawn.add_edges_from(arrows())
    drawn.layout("dot")
    return drawn


def picture() -> str:
    """Return the picture as SVG."""
    drawn = lay_out()
    _, _, right, top = map(float, drawn.graph_attr["bb"].split(","))

    def at(point: str) -> str:
        x, y = map(float, point.split(","))
        return f"{x + MARGIN:.0f},{top - y + MARGIN:.0f}"

    width, height = f"{right + 2 * MARGIN:.0f}", f"{top + 2 * MARGIN:.0f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-labelledby="title">',
        '<title id="title">The packages of graphexec; an arrow leads to a package that is imported</title>',
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker>',
    ]
    for source, target in arrows():
        # The first point is the tip of the arrow: "e,x,y x,y x,y ...".
        _, begin, *curve = drawn.get_edge(source, target).attr["pos"].split()
        points = " ".join(at(point) for point in curve)
        lines.append(f'<path class="import" marker-end="url(#head)" d="M{at(begin)} C{points}"/>')
    for name in sorted(drawn.nodes()):
        x, y = map(int, map(float, at(drawn.get_node(name).attr["pos"]).split(",")))
        kind = "box kernel" if name == "kernel" else "box"
        lines += [
            f'<rect class="{kind}" x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" '
            f'width="{WIDTH}" height="{HEIGHT}" rx="7"/>',
            f'<text class="name" x="{x}" y="{y - 3}" text-anchor="middle">{name}</text>',
            f'<text class="about" x="{x}" y="{y + 14}" text-anchor="middle">{escape(CONTENTS[name])}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8", newline="\n")
