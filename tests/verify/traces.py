"""Traces of real runs, as `graphexec run --json` prints them."""

import io
import json
from collections.abc import Sequence
from typing import Any

from graphexec import AgentAction, AgentExecutor, AgentFinish, Graph, Limits, draw, kernel, runtime, verify
from graphexec.cli.records import Records
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.verify.audit.audit import audit
from tests.traces import read_trace
from tests.verify.writing import WRITER, Chapter

Trace = list[dict[str, Any]]


def proof_of(executor: AgentExecutor) -> verify.Certificate:
    proof = executor.graph.verify(executor.limits).certificate
    assert proof is not None
    return proof


def facts_of(trace: Trace, proof: verify.Certificate) -> list[str]:
    """Return the facts of the violations that an audit finds."""
    return [violation.fact for violation in audit(trace, proof).violations]


def line_of(trace: Trace, event: str, node: str, member: int | None = None) -> int:
    """Return the index of the first such record, of one member of a batch."""
    return next(
        line
        for line, record in enumerate(trace)
        if (record["event"], record.get("node")) == (event, node)
        and (member is None or record["call"]["member"] == member)
    )


def acting(calls: Sequence[int], **limits: Any) -> AgentExecutor:
    """Return an executor that calls so many tools in each step, and then answers."""

    def decide(steps: Sequence[object], inputs: object) -> list[AgentAction] | AgentFinish:
        # The number of steps is the position in the script.
        done, left = len(steps), list(calls)
        while left and done >= left[0]:
            done -= left.pop(0)
        return [AgentAction("nothing", "", "")] * left[0] if left else AgentFinish({"output": "done"})

    return AgentExecutor(agent=decide, tools=[], **limits)


def trace_of(executor: AgentExecutor) -> Trace:
    """Return the printed records of a run of the executor."""
    out = io.StringIO()
    follow(RunSetup("go on", executor, "none", "a function"), [Records(out)])
    return [json.loads(line) for line in out.getvalue().splitlines()]


def written(wishes: str, limits: Limits) -> Trace:
    """Return records as printed for a run of the writer, which has no agent."""
    return recorded(WRITER, Chapter(wishes), limits)


def recorded(machine: Graph[Any, Any], start: object, limits: Limits) -> Trace:
    """Return records as printed for a run of a machine without effects."""
    recorder = draw.Recorder(machine, limits=limits)
    result: dict[str, Any] = {}
    for event in runtime.stream(machine, start, runtime.make_run_context({}, limits=limits)):
        if not isinstance(event, kernel.Done):
            recorder(event)
        else:
            spent = {"budgets": dict(event.spent.budgets), "tokens": 0, "model_calls": 0, "tool_calls": 0}
            spent |= {"iterations": event.spent.iterations, "seconds": 0.0, "restarts": 0}
            result = {"event": "result", "status": "answered", "seconds": 0.0, "spent": spent}
    return [*read_trace(recorder.recording.to_json_lines()), result]
