"""Draw every machine of the package and of the examples: `python diagrams/generate.py`.

The pictures are made of the tables that run; a test compares them with the files, which nobody edits.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphexec import AGENT_EXECUTOR, GENERATING_AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR, AgentExecutor, Graph
from graphexec.draw import FORMATS, draw

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"

# Mermaid's own ending, and DOT's.
SUFFIXES = {"mermaid": ".mmd", "dot": ".dot"}


def machines() -> Iterator[tuple[str, Graph[Any, Any]]]:
    """Yield the name and the machine of each picture: the package's own, and one per example.

    An example is read, not run: its `executor` (or `machine`, a graph) stands at the top of its module.
    """
    yield "agent_executor", AGENT_EXECUTOR
    yield "strict_agent_executor", STRICT_AGENT_EXECUTOR
    yield "generating_agent_executor", GENERATING_AGENT_EXECUTOR
    for path in sorted(EXAMPLES.glob("*.py")):
        module = runpy.run_path(str(path), run_name=path.stem)
        executor = module.get("executor")
        yield f"examples_{path.stem}", executor.graph if isinstance(executor, AgentExecutor) else module["machine"]


def pictures() -> dict[str, str]:
    """Return the text of each file in this folder by its name."""
    return {f"{name}{SUFFIXES[how]}": draw(machine, how) for name, machine in machines() for how in FORMATS}


if __name__ == "__main__":
    drawn = pictures()
    for old in HERE.iterdir():
        if old.suffix in SUFFIXES.values() and old.name not in drawn:
            old.unlink()
    for file, text in drawn.items():
        (HERE / file).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(drawn)} pictures")
