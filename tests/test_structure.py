"""The structure of the package: its packages, their layers, and its public names."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest

import graphexec
from tests.parameters import cases

TOP = Path(__file__).parents[1]
PACKAGE = TOP / "graphexec"


class Import(NamedTuple):
    """An import of a module of the package, and the function that contains it, if any."""

    source: str
    function: str
    target: str


def module_name(path: Path) -> str:
    parts = path.relative_to(TOP).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module: str) -> Iterator[Import]:
    yield from imports_in(ast.parse(FILES[module].read_text(encoding="utf-8")), module, ())


def imports_in(parent: ast.AST, module: str, within: tuple[str, ...]) -> Iterator[Import]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        inside = within
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inside = (*within, node.name)
        yield from imports_in(node, module, inside)
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = inner if inner in FILES else node.module
                if target in FILES:
                    yield Import(module, ".".join(within), target)
        elif isinstance(node, ast.Import):
            yield from (Import(module, ".".join(within), one.name) for one in node.names if one.name in FILES)


# Their base classes are in a package of the extra dev.
UNAVAILABLE = set[str]() if find_spec("langchain_classic") else {"AgentExecutor", "AgentExecutorIterator"}


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(one for module in FILES for one in imports_of(module))


@cache
def layers() -> dict[str, int]:
    """Return the height of each package in the import contract."""
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(one["layers"] for one in contracts if one["containers"] == ["graphexec"])
    return {room.strip(): height for height, row in enumerate(reversed(rows)) for room in row.split("|")}


def points_up(one: Import) -> bool:
    heights = layers()
    source, target = (module.split(".")[1:2] for module in (one.source, one.target))
    return bool(source and target) and heights[target[0]] > heights[source[0]]


@pytest.mark.medium
def test_no_import_points_up_in_whatever_function() -> None:
    assert [f"{one.source} {one.function} -> {one.target}" for one in all_imports() if points_up(one)] == []


def test_imports_have_no_cycle() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph([(one.source, one.target) for one in all_imports()])
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_package_has_few_entries() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 27, sorted(entries)


def test_folders_have_few_modules() -> None:
    counts = Counter(path.parent for path in FILES.values() if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > 15} == {}


def test_files_are_short() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in FILES.items()}
    assert {module: length for module, length in lengths.items() if length > 450} == {}


def test_few_names_are_public_at_the_top() -> None:
    assert len(graphexec.__all__) <= 70


def test_every_public_name_exists() -> None:
    for module, path in FILES.items():
        if path.name == "__init__.py":
            imported = import_module(module)
            assert all(hasattr(imported, name) for name in getattr(imported, "__all__", ()) if name not in UNAVAILABLE)


@cases(
    "package",
    "graphexec",
    "graphexec.models",
    *(f"graphexec.integrations.{one}" for one in ("langchain", "langgraph", "mcp")),
)
def test_names_imported_on_use_are_those_of_their_modules(package: str) -> None:
    found = import_module(package)
    body = ast.parse(FILES[package].read_text(encoding="utf-8")).body
    block = next(one for one in body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
    # What type checkers see, and what a program gets.
    imports = [(one.module, alias.name) for one in block.body if isinstance(one, ast.ImportFrom) for alias in one.names]
    assert sorted(name for _, name in imports) == sorted(found.__all__)
    for module, name in imports:
        assert module is not None
        assert name in UNAVAILABLE or getattr(found, name) is getattr(import_module(module), name), name
    assert {*found.__all__} < {*dir(found)}


@pytest.mark.medium
def test_no_two_classes_share_a_public_name() -> None:
    defined = Counter(
        node.name
        for path in FILES.values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    # The drop-in is imported in the place of LangChain's class, whose name is that of ours, too.
    assert {name for name, count in defined.items() if count > 1} == {"AgentExecutor"}


def test_browser_tests_are_in_three_folders() -> None:
    """CI collects no other tests for the browser."""
    mark = "mark." + "browser"
    found = [path for path in (TOP / "tests").rglob("test_*.py") if mark in path.read_text(encoding="utf-8")]
    assert {path.relative_to(TOP / "tests").parts[0] for path in found} == {"browser", "draw", "live"}
