"""The records of `graphexec run --json` have exactly the documented fields."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import graphexec as gx
from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.cli import records
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.draw import Recorder
from graphexec.draw.runs.records import __doc__ as description
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.executor import Ready
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.messages import ChatRequest, Image, ModelReply, Reasoning, ReplyDelta, ToolCall, Usage, UserMessage
from graphexec.models import ScriptedModel, cached
from graphexec.models.scripted import ScriptedReply
from graphexec.verify.audit.audit import audit
from tests.draw.debugged import two_agents
from tests.verify.traces import Trace, proof_of

SUM = ModelReply(
    "",
    (ToolCall("1", "double", '{"number": 2}'),),
    Usage(10, 1, 5),
    "tool_calls",
    reasoning=(Reasoning("Twice."), Reasoning("", "{}"), Reasoning("So 4.")),
)
ANSWER = ModelReply("It is 4.", usage=Usage(20, 2))


@gx.tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def executing(*replies: ScriptedReply, max_iterations: int = 15) -> gx.AgentExecutor:
    """Return an executor with a scripted, cached model."""
    model = cached(ScriptedModel(replies))
    agent = gx.create_tool_calling_agent(model, [double])
    return gx.AgentExecutor(
        agent=agent, tools=[double], max_iterations=max_iterations, early_stopping_method="generate", max_fan_out=2
    )


def inventing() -> gx.AgentExecutor:
    """Return an executor whose model invents an observation, which stays unread."""
    model = ScriptedModel(["Action: double\nAction Input: 2\nObservation: 5", "Final Answer: It is 4."])
    return gx.AgentExecutor(agent=gx.create_react_agent(model, [double]), tools=[double])


def write_records(executor: gx.AgentExecutor) -> Trace:
    out = io.StringIO()
    follow(RunSetup("What is 2 * 2?", executor, "scripted", "tool_calling"), [records.Records(out)])
    return [json.loads(line) for line in out.getvalue().splitlines()]


@dataclass(frozen=True)
class Measure(gx.Effect[float]):
    """An effect of a user's own."""

    where: str

    @property
    def provider_id(self) -> str:
        return "call_7"


def asked_otherwise() -> list[dict[str, Any]]:
    """Return records of effects that the standard machine does not request."""
    recorder = Recorder(
        executing(ANSWER).verify(),
        parameters={"seed": 1},
        heartbeat=2,
        parent={"trace": "a", "run": "b", "step": 1},
        clock=lambda: 5.0,
    )
    recorder.alive()
    asked = [UserMessage("What is this?", (Image("https://images.example/1.png"),))]
    shown = CallModel(ChatRequest(asked, schema={"type": "string"}))
    failed = ToolResult("failed", "error", True, "fail", "KeyError", "Traceback (most recent call last):")
    replies: list[tuple[gx.Effect[Any], object]] = [(gx.AskHuman("Go on?"), 1.0), (Measure("here"), 1.0), (shown, 1.0)]
    for sequence, (effect, reply) in enumerate([*replies, (CallTool("double", "2"), failed)], 1):
        call: CallContext[Any] = CallContext(DetachedScope("a-run"), "plan", effect, effect, sequence, 0)
        call.charged = {"model_calls": 1}
        recorder(gx.Asked("plan", effect, call))
        recorder(gx.Reported("plan", effect, "at it", call))
        recorder(gx.Answered("plan", effect, reply, 2.0, gx.Spent(), call))
        recorder(gx.Reported("plan", effect, ReplyDelta(reasoning="Hm."), call))
    unread = AgentStep(AgentAction("_Exception", "no JSON"), "no JSON", "parse_error")
    recorder(gx.Moved("parse", Ready(Run({}, Steps([unread]))), "plan"))
    recorder.failure(KeyError("x"), "plan", 2.0)
    return [*recorder.records]


def documented_fields() -> dict[str, set[str]]:
    """Return the documented fields of each record and of the objects in it."""
    items = re.findall(r"^- `(\w+)`(?: \([^)]*\))?(?:, each)?: (.*(?:\n  .*)*)", description or "", re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))) for name, text in items}


# Any: JSON.
def parts(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a record with the name of its event, and the objects in it with the names of their fields."""
    name = record.pop("event")
    yield name, record
    for field in ("limits", "spent", "limit", "error", "call", "parent"):
        if record.get(field) is not None:
            yield field, record[field]
    for field in ("effects", "replies", "steps"):
        for one in record.get(field, ()):
            yield field, one
            for call in one.get("tool_calls", ()):
                yield "tool_calls", call
            if "request" in one:
                yield "request", one["request"]
            if "prompt" in one:
                yield (
                    "prompt",
                    {
                        name: value
                        for part in (one["prompt"], *one["prompt"]["messages"])
                        for name, value in part.items()
                    },
                )


def test_documentation_lists_exactly_the_written_fields() -> None:
    again = executing(SUM, ANSWER)
    runs = [again, again, executing(SUM, "About 4.", max_iterations=1), executing(SUM, ValueError("no"))]
    runs.append(inventing())
    found: dict[str, set[str]] = defaultdict(set)
    embedding = [dict(record) for record in two_agents().records]
    for record in [record for executor in runs for record in write_records(executor)] + asked_otherwise() + embedding:
        for name, fields in parts(record):
            found[name] |= {*fields}
            # Only these objects differ between effects, and only some calls have these fields.
            some = {
                *("provider_id", "within", "cached_tokens", "reasoning", "unread", "call", "run", "steps", "traceback"),
                *("heartbeat", "parent", "parameters", "input", "model", "agent", "tools", "limits", "began", "time"),
                *("budgets", "task"),
            }
            assert name in ("effects", "replies", "prompt", "request") or found[name] - some == {*fields} - some
    assert found == documented_fields()


def test_record_of_a_reply_has_its_reasoning_and_cached_tokens() -> None:
    records = write_records(executing(SUM, ANSWER))
    thought, answer = [record["replies"][0] for record in records if "replies" in record and "content" in str(record)]
    assert (thought["reasoning"], thought["cached_tokens"]) == ("Twice.\n\nSo 4.", 5)
    assert not {"reasoning", "cached_tokens"} & {*answer}
    assert [record["spent"].get("cached_tokens") for record in records if "spent" in record][-1] == 5


def test_audit_ignores_reports() -> None:
    executor = executing(SUM, ANSWER)
    first, second = write_records(executor), write_records(executor)
    assert "reported" not in {record["event"] for record in first}
    reported = [record for record in second if record["event"] == "reported"]
    assert reported[0] == {
        "event": "reported",
        "node": "plan",
        "call": {"run": reported[0]["call"]["run"], "sequence": 1, "member": 0},
        "effects": [{"effect": "CallModel"}],
        "news": "Cached",
        "text": reported[0]["text"],
        "time": reported[0]["time"],
    }
    assert "was not called: its reply was in the cache" in reported[0]["text"]
    assert len(reported) == 2
    proof = proof_of(executor)
    assert [audit(records, proof).conforms for records in (first, second)] == [True, True]


def test_stopped_run_records_its_generated_answer() -> None:
    executor = executing(SUM, "About 4.", max_iterations=1)
    trace = write_records(executor)
    assert audit(trace, proof_of(executor)).conforms
    result = trace[-1]
    assert (result["status"], result["exit_code"], result["output"]) == ("stopped", 3, "About 4.")
    assert result["limit"] == {"limit": "iterations", "value": 1, "reached": 1, "wanted": 1, "outer": False}
