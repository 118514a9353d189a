"""The cost of drawing a picture as text: `python benchmarks/drawing.py`.

CPU times, the best of several, in one process, from a graph to its text; `--check` exits with 1 if a goal is missed.
The machine of 1,000 nodes is 200 agents one behind another, side by side or each in a graph of its own.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from graphexec import END, Limits, Machine
from graphexec.draw import draw
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel.node import Edge
from graphexec.verify import verify

TEXTS = ("mermaid", "dot", "text")
AGENTS = 200

# Goals in milliseconds, of Mermaid alone.
STANDARD, THOUSAND = 1.0, 50.0


def chain(agents: int, join: str) -> Machine[Any, Any]:
    """A machine of so many agents, each of which begins where the one before it ends.

    A node's name is that of its agent and its own, joined by `_`, or by `.`, which makes nested graphs.
    """

    def name(number: int, node: str) -> str:
        if node != END.name:
            return f"agent{number}{join}{node}"
        return END.name if number + 1 == agents else name(number + 1, AGENT_EXECUTOR.start)

    numbers = range(agents)
    nodes = [dataclasses.replace(node, name=name(number, node.name)) for number in numbers for node in AGENT_EXECUTOR]
    rows = [
        Edge(name(number, edge.source), edge.outcome, name(number, edge.target), edge.resets)
        for number in numbers
        for edge in AGENT_EXECUTOR.edges
    ]
    return Machine(nodes, rows, name(0, AGENT_EXECUTOR.start))


def best(measured: Callable[[], object], times: int) -> float:
    """The milliseconds of the quickest of several runs."""
    found: list[float] = []
    for _ in range(times):
        began = time.process_time()
        measured()
        found.append(time.process_time() - began)
    return min(found) * 1000


def main() -> int:
    """Measure, print, and return the exit status."""
    proved = verify(AGENT_EXECUTOR, Limits(iterations=15))
    flat, nested = chain(AGENTS, "_"), chain(AGENTS, ".")
    assert len(flat) == len(nested) == AGENTS * len(AGENT_EXECUTOR), "each agent has all of its nodes"
    print(f"{'ms':<16}{'standard':>10}{'its proof':>11}{'1,000 nodes':>13}{'nested':>10}")
    kept = True
    for how in TEXTS:
        standard, proof = (best(partial(draw, subject, how), 50) for subject in (AGENT_EXECUTOR, proved))
        thousand, deep = (best(partial(draw, graph, how), 5) for graph in (flat, nested))
        missed = how == "mermaid" and (max(standard, proof) > STANDARD or max(thousand, deep) > THOUSAND)
        kept = kept and not missed
        line = f"{how:<16}{standard:>10.2f}{proof:>11.2f}{thousand:>13.1f}{deep:>10.1f}"
        print(line + (" - MISSED" if missed else ""))
    print(f"goals of mermaid: at most {STANDARD:g} ms, and {THOUSAND:g} ms for 1,000 nodes")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
