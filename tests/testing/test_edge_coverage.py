"""Coverage of edges beside observers: it sees every run, and takes nothing from those who observe it."""

from __future__ import annotations

from typing import Any

from graphexec import AgentExecutor
from graphexec.testing.edge_coverage import EdgeCoverage
from tests.executor.actors import act, answer, echo, scripted


def run_observed() -> list[type]:
    seen: list[Any] = []
    turns = [act("echo", text="a"), answer()]
    AgentExecutor(agent=scripted(*turns), tools=[echo], observers=[seen.append]).run("q")
    return [type(event) for event in seen]


def test_observers_hear_the_same_beside_coverage() -> None:
    coverage = EdgeCoverage()
    coverage.begin()
    try:
        covered = run_observed()
    finally:
        coverage.end()
    assert covered == run_observed()
    assert next(coverage.report("")).endswith("5 of 9 edges taken")
