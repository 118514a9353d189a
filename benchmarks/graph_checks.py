"""The time to answer for graphs of LangGraph with 30 nodes: `python benchmarks/graph_checks.py [--check]`.

Each graph is new, so no proof is cached: a chain, a graph with loops whose routers are declared, one whose routers
count, and one whose routers declare nothing, with an edge from each node to every other. Imports and the first graph of
each kind are not counted; the CPU time is the median of several graphs. With `--check` the exit status is 1 if one of
the first two takes longer than the goal.
"""

from __future__ import annotations

import statistics
import sys
import time
from importlib import import_module
from typing import Any, TypedDict

from graphexec.integrations.declared import judge
from graphexec.integrations.langgraph import load

NODES, ROUNDS = 30, 21

# The goal, in milliseconds.
GOAL = 5.0

# Any: graphs of LangGraph are typed in part.
graphs: Any = import_module("langgraph.graph")


class Counted(TypedDict):
    """The state."""

    n: int


def step(state: Counted) -> dict[str, Any]:
    """Change nothing."""
    return {"n": state["n"] + 1}


def choose(state: Counted) -> str:
    """End the run."""
    del state
    return "__end__"


def count(state: Counted) -> str:
    """End the run after some steps."""
    return "__end__" if state["n"] > NODES else "n0"


def make_graph(kind: str, number: int) -> Any:
    """Return a new graph with the nodes `n0` to `n29`."""
    builder = graphs.StateGraph(Counted)
    for node in range(NODES):
        builder.add_node(f"n{node}", step)
        following = f"n{node + 1}" if node < NODES - 1 else "__end__"
        if kind == "chain":
            builder.add_edge(f"n{node}", following)
        else:
            targets = [following, f"n{(7 * node + number) % NODES}", "__end__"]
            router = count if kind == "counted" else choose
            builder.add_conditional_edges(f"n{node}", router, None if kind == "open" else sorted({*targets}))
    builder.add_edge("__start__", "n0")
    return builder.compile()


def measure(kind: str) -> float:
    """Return the median of the milliseconds for a graph of this kind."""
    times: list[float] = []
    for number in range(ROUNDS + 1):
        graph = make_graph(kind, number)
        began = time.process_time()
        judge(load(graph))
        times.append(1_000 * (time.process_time() - began))
    return statistics.median(times[1:])


def main() -> None:
    """Print the times, and compare them with the goal."""
    times = {kind: measure(kind) for kind in ("chain", "loops", "counted", "open")}
    for kind, milliseconds in times.items():
        print(f"{kind:8} {milliseconds:6.1f} ms")
    if "--check" in sys.argv and max(times["chain"], times["loops"]) > GOAL:
        raise SystemExit(f"a graph of {NODES} nodes takes more than {GOAL:g} ms")


if __name__ == "__main__":
    main()
