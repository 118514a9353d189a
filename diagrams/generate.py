"""Draw every machine of the package and of the examples: `python diagrams/generate.py`.

The pictures are made of the tables that run, with their proofs; a test compares them byte for byte with the files.
Nobody edits them.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphexec import (
    AGENT_EXECUTOR,
    GENERATING_AGENT_EXECUTOR,
    STRICT_AGENT_EXECUTOR,
    STRICT_GENERATING_AGENT_EXECUTOR,
    AgentExecutor,
    Graph,
)
from graphexec.draw import draw
from graphexec.verify import Verdict

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"

# What each machine is drawn as.
SUFFIXES = {"mermaid": ".mmd", "dot": ".dot", "svg": ".svg"}
INDEX = "README.md"


def verdicts() -> Iterator[tuple[str, str, Verdict]]:
    """Yield the name, a line about it, and the proof of each machine: the package's own, and one per example.

    An example is read, not run: its `executor` (or `machine`, a graph) stands at the top of its module.
    """
    own = (
        ("agent_executor", "The agent's machine: replies that cannot be read go back to the model.", AGENT_EXECUTOR),
        ("strict_agent_executor", "The same, where such a reply raises.", STRICT_AGENT_EXECUTOR),
        ("generating_agent_executor", "A stopped run asks for a last word.", GENERATING_AGENT_EXECUTOR),
        ("strict_generating_agent_executor", "Both.", STRICT_GENERATING_AGENT_EXECUTOR),
    )
    for name, about, machine in own:
        yield name, about, machine.verify()
    for path in sorted(EXAMPLES.glob("*.py")):
        module = runpy.run_path(str(path), run_name=path.stem)
        executor = module.get("executor")
        verdict = executor.verify() if isinstance(executor, AgentExecutor) else module["machine"].verify()
        yield f"examples_{path.stem}", module["__doc__"].partition("\n")[0], verdict


def machines() -> Iterator[tuple[str, Graph[Any, Any]]]:
    """Yield the name and the graph of each machine that is drawn."""
    for name, _, verdict in verdicts():
        yield name, verdict.graph


def pictures() -> dict[str, str]:
    """Return the text of each file in this folder by its name."""
    drawn: dict[str, str] = {}
    index = [
        "# Diagrams",
        "",
        "Every machine of the package and of the examples, as it runs. Drawn by `python diagrams/generate.py`; a test "
        "compares the files with the tables.",
    ]
    for name, about, verdict in verdicts():
        drawn |= {f"{name}{suffix}": draw(verdict, how) for how, suffix in SUFFIXES.items()}
        links = ", ".join(f"[{how}]({name}{suffix})" for how, suffix in SUFFIXES.items())
        index += [
            "",
            f"## {name}",
            "",
            about,
            "",
            f"![{name}]({name}.svg)",
            "",
            links,
            "",
            draw(verdict, "markdown").rstrip(),
        ]
    return {**drawn, INDEX: "\n".join([*index, ""])}


if __name__ == "__main__":
    files = pictures()
    for old in HERE.iterdir():
        if old.suffix in SUFFIXES.values() and old.name not in files:
            old.unlink()
    for file, text in files.items():
        (HERE / file).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(files)} files")
