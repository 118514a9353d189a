"""Certificates, traces and reports with integers of any size; JSON that is none of them is our own error."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from graphexec import AgentExecutor, Exhausted, Limits, Meter, Snapshot, Spent, actions, begin, create_react_agent
from graphexec.draw import Recording, draw, recording_of
from graphexec.draw.model.picture import picture_of
from graphexec.effects import agent_limits
from graphexec.errors import InputError, LimitsError
from graphexec.executor import AGENT_EXECUTOR, Ready
from graphexec.messages import ModelReply, Usage
from graphexec.models import ScriptedModel
from graphexec.testing.plugin import summary
from graphexec.verify.export.promela import promela
from graphexec.verify.proof.flow import flow_of
from graphexec.verify.reports import Subject, document, github, sarif, text
from tests.executor.actors import echo
from tests.parameters import cases, mark_except
from tests.verify.proofs import certificate_of
from tests.verify.tampering import Path, changed, paths

HUGE = 10**5000
DEEP = "[" * 100_000 + "]" * 100_000
LIMITS = [
    {"iterations": HUGE},
    {"model_calls": HUGE, "iterations": None},
    {"tool_calls": HUGE, "fan_out": HUGE},
    {"tokens": HUGE, "restarts": HUGE},
]


def executor_of(*replies: Any, **options: Any) -> AgentExecutor:
    model = ScriptedModel(list(replies) or ["Action: echo\nAction Input: a", "Final Answer: b"])
    return AgentExecutor(agent=create_react_agent(model, [echo]), tools=[echo], **options)


@cases("limits", *LIMITS)
def test_verdicts_within_large_limits_are_printed(limits: Any) -> None:
    verdict = AGENT_EXECUTOR.verify(agent_limits(**limits))
    subject = Subject("agent", verdict.findings, verdict)
    reports = [one([subject]) for one in (document, sarif, github, text)]
    reports += [str(verdict), summary("agent", verdict), repr(verdict.limits), *picture_of(verdict).caption]
    assert verdict.proved
    assert any("0e+500" in report for report in reports)
    assert certificate_of(AGENT_EXECUTOR, agent_limits(**limits))


def test_run_within_large_limits_is_recorded() -> None:
    executor = executor_of(max_iterations=HUGE, max_tokens=HUGE)
    recording = Recording.from_json_lines(recording_of(executor.run("go")).to_json_lines())
    assert recording.limits == executor.verify().limits


def draw_all(recording: Recording) -> str:
    """Draw a run in the ways that need no layout."""
    machine: Any = recording.machine
    return "\n".join(draw(machine, "text", runs=runs) for runs in ([recording], [recording, recording]))


def test_run_of_huge_counts_is_shown() -> None:
    huge_reply = ModelReply("Action: echo\nAction Input: a", usage=Usage(HUGE, HUGE), cost=1e308)
    last = ModelReply("Final Answer: b", usage=Usage(HUGE, HUGE))
    executor = executor_of(huge_reply, last, max_iterations=None, max_tokens=9 * HUGE)
    at = begin(executor.graph, Ready(actions.Run({"input": "go"})))
    at = replace(at, spent=Spent(iterations=HUGE, meters={"model_calls": HUGE, "tool_calls": HUGE}), sequence=HUGE)
    result = executor.run(at)
    shown = draw_all(recording_of(result))
    assert "4.0e+5000 tokens" in shown


@cases(
    "value",
    Usage(HUGE, 1),
    ModelReply("", usage=Usage(1, HUGE)),
    Spent(iterations=HUGE, meters={"coins": HUGE}),
    Limits(iterations=HUGE),
    Meter("rounds", HUGE),
    Exhausted("cost", 1.5, HUGE),
    Snapshot("plan", None, sequence=HUGE, spent=Spent(restarts=HUGE)),
)
def test_value_with_huge_counts_has_a_repr(value: object) -> None:
    assert "1.0e+5000" in repr(value)
    assert "1.0e+5000" in str(value) or isinstance(value, Meter)


def test_model_checkers_cannot_count_so_far() -> None:
    with pytest.raises(LimitsError, match=r"is 1.0e\+5000, which is too large for model checkers"):
        promela(flow_of(AGENT_EXECUTOR), Limits(iterations=HUGE))


VALUES = ["true", "-1", "0.5", "1e400", "NaN", "null", '"3"', "[]", "{}", f"1{'0' * 5000}", DEEP, "[" * 900 + "]" * 900]


def with_text(data: Any, path: Path, text: str) -> str:
    """Return JSON with a value replaced by any text."""
    return json.dumps(changed(data, path, "#here")).replace('"#here"', text)


@pytest.mark.medium
@pytest.mark.parametrize("value", mark_except(VALUES, "NaN", DEEP), ids=lambda value: value[:8])
def test_trace_with_exchanged_value_is_drawn_or_refused(value: str) -> None:
    executor = executor_of(max_iterations=1)
    lines = recording_of(executor.run("go")).to_json_lines().splitlines()
    for number, line in enumerate(lines):
        record = json.loads(line)
        for path in paths({name: part for name, part in record.items() if name != "machine"}):
            if len(path) > 3:
                continue
            altered = [*lines[:number], with_text(record, path, value), *lines[number + 1 :]]
            try:
                recording = Recording.from_json_lines("\n".join(altered))
            except InputError:
                continue
            # A node or an outcome may be one that the machine does not have.
            with suppress(InputError):
                draw_all(recording)
