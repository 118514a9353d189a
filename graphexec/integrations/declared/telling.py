"""The text of an answer, in the terms of the library that the graph is written with."""

from __future__ import annotations

from collections.abc import Iterator

from graphexec.integrations.declared.declared import DeclaredGraph
from graphexec.integrations.declared.judging import Judgement

# What ends a run that has taken as many steps as the library allows.
_ERROR = {"LangGraph": "GraphRecursionError", "pydantic-graph": "nothing"}


def tell(judgement: Judgement) -> str:
    """Return the answer as text, with that of each subgraph indented below it."""
    return "\n".join(_lines(judgement))


def format_loop(loop: tuple[str, ...]) -> str:
    """Return a loop as its nodes with arrows, and its first node again."""
    return " -> ".join((*loop, loop[0]))


def format_limit(graph: DeclaredGraph) -> str:
    """Return the limit on steps as the library names it."""
    if graph.limit is None:
        return "no limit"
    return f"recursion_limit={graph.limit:,}" + ("" if graph.limit_is_own else " (the default)")


def _lines(judgement: Judgement) -> Iterator[str]:
    graph = judgement.graph
    yield f"{graph.name}: {answer_text(judgement)}"
    yield from (f"  remedy: {text}" for text in judgement.remedies)
    yield from (f"  not declared: {text}; any node may follow" for text in graph.open)
    yield from (f"  {node} has no edge out, so a run ends after it" for node in graph.silent)
    yield from (f"  not seen: the agent {text}" for text in graph.unseen)
    yield from (f"  note: {text}" for text in graph.notes)
    for inner in judgement.inner.values():
        yield from (f"  {line}" for line in _lines(inner))


def answer_text(judgement: Judgement) -> str:
    """Return the answer for the graph itself, without its subgraphs."""
    graph = judgement.graph
    loops = " and ".join(map(format_loop, judgement.loops))
    unit = "step" if judgement.longest == 1 else "steps"
    within = "" if judgement.longest is None else f" within {judgement.longest:,} {unit}"
    if judgement.status in ("counted", "limited", "never"):
        within += ", if the runs of its subgraphs do"
    if judgement.longest is not None and graph.limit is not None and judgement.longest >= graph.limit:
        within += f", but {format_limit(graph)} may stop it before"
    match judgement.own:
        case "ends":
            return f"every run ends{within}"
        case "bounded":
            guards = ", ".join(guard.text for guard in graph.guards.values())
            return f"every run ends: {guards} bounds the loop {loops}{within}"
        case "counted":
            counted = sorted({key for keys in graph.counters.values() for key in keys})
            return f"not proved: the loop {loops} seems to be counted in code, by {', '.join(counted)}"
        case "limited" if graph.limit is None:
            return f"nothing ends the loop {loops}"
        case "limited":
            most = (graph.limit or 0) // min(map(len, judgement.loops))
            rounds = f"after {most:,} rounds, with {_ERROR[graph.library]}"
            return f"only {format_limit(graph)} ends the loop {loops}, {rounds}"
        case "never":
            limit = "nothing" if graph.limit is None else f"{format_limit(graph)} alone"
            return f"no run ends that enters the loop {loops}: {limit} stops it"
