"""Executors that call tools, and their proofs."""

from collections.abc import Sequence
from typing import Any

from graphexec import AgentAction, AgentExecutor, AgentFinish, verify
from tests.verify.proofs import require


def proof_of(executor: AgentExecutor) -> verify.Certificate:
    return require(executor.graph.verify(executor.limits).certificate)


def acting(calls: Sequence[int], **limits: Any) -> AgentExecutor:
    """Return an executor that calls so many tools in each step, and then answers."""

    def decide(steps: Sequence[object], inputs: object) -> list[AgentAction] | AgentFinish:
        # The number of steps is the position in the script.
        done, left = len(steps), list(calls)
        while left and done >= left[0]:
            done -= left.pop(0)
        return [AgentAction("nothing", "", "")] * left[0] if left else AgentFinish({"output": "done"})

    return AgentExecutor(agent=decide, tools=[], **limits)
