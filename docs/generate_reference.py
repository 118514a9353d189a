"""Write the pages that are made from the code: `python docs/generate_reference.py`. A test compares them.

They are the API pages, which name what mkdocstrings fills in from docstrings, and the help of the command line.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphexec

DOCS = Path(__file__).resolve().parent
TOP = DOCS.parent

# The packages and modules with public names, in the order of the navigation.
PUBLIC = (
    "graphexec",
    "graphexec.create",
    "graphexec.machine",
    "graphexec.kernel",
    "graphexec.runtime",
    "graphexec.actions",
    "graphexec.effects",
    "graphexec.messages",
    "graphexec.errors",
    "graphexec.tools",
    "graphexec.models",
    "graphexec.agents",
    "graphexec.memory",
    "graphexec.executor",
    "graphexec.nodes",
    "graphexec.runs",
    "graphexec.verify",
    "graphexec.verify.reports",
    "graphexec.draw",
    "graphexec.live",
    "graphexec.testing",
    "graphexec.integrations.dbos",
    "graphexec.integrations.declared",
    "graphexec.integrations.langchain",
    "graphexec.integrations.langgraph",
    "graphexec.integrations.mcp",
    "graphexec.integrations.otel",
    "graphexec.integrations.pydantic_graph",
    "graphexec.integrations.temporal",
)


def public_names(module: Any) -> list[str]:
    """Return the public names of a module: those of `__all__`, or the functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return [name for name in _defined_names(tree) if not name.startswith("_")]


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for one in tree.body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            yield one.targets[0].id


def documented_at() -> dict[str, str]:
    """Return, for each public name, the package or module whose page documents it: the first that has it."""
    owners: dict[str, str] = {}
    for name in PUBLIC[1:]:
        for public in public_names(importlib.import_module(name)):
            owners.setdefault(public, name)
    return owners


def identifier(owner: str, name: str) -> str:
    """Return how mkdocstrings knows a name: a function that is named like its module only by its full path."""
    if (TOP / owner.replace(".", "/") / f"{name}.py").exists():
        return f"{owner}.{name}.{name}"
    return f"{owner}.{name}"


def first_line(thing: object) -> str:
    """Return the first line of a docstring that stands at the thing itself; nothing for a constant."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        return ""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def top_page() -> str:
    """Return the page of `graphexec` itself, whose names are documented with the packages that define them."""
    owners = documented_at()
    lines = [
        "# graphexec",
        "",
        "Most programs need only these names. Each is documented with the package that it belongs to.",
        "",
        "| name | description |",
        "|---|---|",
    ]
    lines += [
        f"| [`{name}`][{identifier(owners[name], name)}] | {first_line(getattr(graphexec, name))} |"
        for name in public_names(graphexec)
    ]
    lines += ["", "`graphexec.__version__` is the version as a string.", ""]
    return "\n".join(lines)


def module_page(name: str) -> str:
    """Return the page of a package or module, which mkdocstrings fills in."""
    module = importlib.import_module(name)
    owners = documented_at()
    # Another thing of the same name has a page of its own.
    own = [
        one
        for one in public_names(module)
        if owners[one] == name or getattr(importlib.import_module(owners[one]), one) is not getattr(module, one)
    ]
    # The names that mkdocstrings finds and that have a docstring; the others need a block each.
    members = [one for one in own if identifier(name, one) == f"{name}.{one}" and first_line(getattr(module, one))]
    lines = [f"# {name}", "", f"::: {name}", "    options:", "      members:"]
    # In quotes: `on` is a truth value in YAML.
    lines += [f'        - "{one}"' for one in members]
    options = ("show_root_heading", "show_root_toc_entry", "show_if_no_docstring")
    for one in own:
        if one not in members:
            lines += [
                "",
                f"::: {identifier(name, one)}",
                "    options:",
                *(f"      {option}: true" for option in options),
            ]
    return "\n".join([*lines, ""])


def api_pages() -> dict[Path, str]:
    """Return the API pages."""
    api = DOCS / "reference" / "api"
    return {api / "graphexec.md": top_page(), **{api / f"{name}.md": module_page(name) for name in PUBLIC[1:]}}


# The plain format, without boxes and colours, which does not change with a version of rich.
PLAIN = {"TYPER_USE_RICH": "0", "TERM": "dumb", "COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1"}


def help_of(*command: str) -> str:
    """Return the help of a command of the command line."""
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(TOP)}
    arguments = (sys.executable, "-m", "graphexec", *command, "--help")
    # The arguments are ours.
    ended = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return "\n".join(line.rstrip() for line in ended.stdout.strip("\n").splitlines())


def commands_in(text: str) -> list[str]:
    """Return the commands that a help lists."""
    _, _, listed = text.partition("\nCommands:\n")
    # An empty line ends the list; examples follow.
    return re.findall(r"(?m)^  ([a-z][a-z-]*) ", listed.partition("\n\n")[0])


def command_line_page() -> str:
    """Return the page of the command line: the help of the program and of each of its commands."""
    lines = [
        "# Command line",
        "",
        "`graphexec` needs the extra `cli`. `python -m graphexec` is the same program.",
        "[Use the command line](../how-to/command-line.md) shows it at work.",
    ]
    pending: list[tuple[str, ...]] = [()]
    while pending:
        command = pending.pop(0)
        text = help_of(*command)
        pending += [(*command, name) for name in commands_in(text)]
        lines += ["", f"## {' '.join(('graphexec', *command))}", "", "```text", text, "```"]
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    return {**api_pages(), DOCS / "reference" / "command-line.md": command_line_page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
