"""What happens in a run as JSON data: effects, prompts, replies, outcomes and counts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.effects import (
    COMPLETION_TOKENS,
    COST,
    MODEL_CALLS,
    PROMPT_TOKENS,
    TOKENS,
    TOOL_CALLS,
    AskHuman,
    CallAgent,
    CallModel,
    CallTool,
    ToolResult,
    reported_tokens,
    silent_calls,
)
from graphexec.executor.table import Acted, Observed, Replied
from graphexec.kernel.effects import CallContext, Effect, Perform
from graphexec.kernel.meters import Limits, Meter, Spent
from graphexec.messages import AssistantMessage, ChatRequest, Message, ModelReply, ModelRequest, ToolCall, ToolMessage

# JSON: its values are arbitrary.
Record: TypeAlias = dict[str, Any]

# A message of a prompt, or all of one that is a plain text.
Said: TypeAlias = Message | str


def spent_data(spent: Spent) -> Record:
    """Return what is spent, by name; `tokens` are those that were reported."""
    meters = {name: count for name, count in spent.meters.items() if name != TOKENS.name}
    return {
        "iterations": spent.iterations,
        "seconds": spent.seconds,
        **dict.fromkeys(_REPORTED, 0),
        "silent_calls": silent_calls(spent),
        "restarts": spent.restarts,
        "cost": 0.0,
        **meters,
        "budgets": dict(spent.budgets),
        "tokens": reported_tokens(spent),
    }


# What a record has of every run, also of one that never took any of it.
_REPORTED = tuple(meter.name for meter in (MODEL_CALLS, TOOL_CALLS, PROMPT_TOKENS, COMPLETION_TOKENS))


def as_data(value: object) -> Any:
    """A value as JSON data; what JSON cannot express is its text. Never raises, whatever the value is."""
    if value is None or type(value) in (str, bool):
        return value
    try:
        data = to_jsonable_python(value, fallback=str)
        # NaN and the infinities are no JSON, though Python writes them.
        json.dumps(data, allow_nan=False)
    except Exception:  # noqa: BLE001 - the methods of a value of the user's may raise anything
        return _text_of(value)
    return data


def _text_of(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above; of a number with too many digits, too
        return f"<{type(value).__name__} that cannot be shown>"


def limits_data(limits: Limits) -> Record:
    """Return the limits by name; `None` is no limit."""
    return {
        "iterations": limits.iterations,
        "seconds": limits.seconds,
        **dict.fromkeys(_LIMITED),
        **limits.meters,
        "fan_out": limits.fan_out,
        "restarts": limits.restarts,
        "depth": limits.depth,
        "nested_runs": limits.nested_runs,
        "budgets": dict(limits.budgets),
    }


def read_limits(data: Record) -> Limits:
    """Return the limits that `limits_data` wrote. Raises `LimitsError` and `TypeError` for what cannot be limits."""
    names = ("iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs", "budgets")
    own = {name: data[name] for name in names if name in data}
    agent = {meter.name: meter for meter in (MODEL_CALLS, TOOL_CALLS, TOKENS, COST)}
    meters = {
        agent.get(name, Meter(name, whole=not isinstance(value, float))): value
        for name, value in data.items()
        if name not in own
    }
    return Limits(meters, **own)


# The limits of an agent, which a record has whether they are set or not.
_LIMITED = tuple(meter.name for meter in (MODEL_CALLS, TOOL_CALLS, TOKENS, COST))


def step_data(step: AgentStep) -> Record:
    """An action with its observation."""
    action = step.action
    return {
        "tool": action.tool,
        "tool_input": as_data(action.tool_input),
        "observation": as_data(step.observation),
        "status": step.status,
        "error": step.error,
    }


def call_data(call: CallContext[Any] | None) -> Record:
    """The fields that say which call a record is about, without the run's context."""
    if call is None:
        return {}
    named: Record = {"call": call.id._asdict()}
    provider_id = call.provider_id
    return named if provider_id is None else named | {"provider_id": provider_id}


def effect_data(effect: Effect[Any]) -> Record:
    """What is asked for, without a model's prompt."""
    told = effect_name(effect)
    match effect:
        case CallTool(_, tool_input):
            return told | {"tool_input": as_data(tool_input)}
        case AskHuman(question):
            return told | {"question": question}
        case CallModel() | CallAgent() | Perform():
            return told
        case _:
            return told | {"value": own_data(effect)}


def reply_data(effect: Effect[Any], reply: object) -> Record:
    """What it was answered with."""
    told: Record = {"effect": type(effect).__name__}
    match reply:
        case ModelReply(content, calls, usage, finish_reason):
            return told | {
                "content": content,
                "tool_calls": [_call(call) for call in calls],
                "finish_reason": finish_reason,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
            }
        case ToolResult(observation, status, error=error):
            return effect_name(effect) | {"status": status, "error": error, "observation": as_data(observation)}
        case _:
            return told | {"value": own_data(reply)}


def effect_name(effect: Effect[Any]) -> Record:
    """Which effect it is, of those that were asked for."""
    return {"effect": type(effect).__name__, **({"tool": effect.name} if isinstance(effect, CallTool) else {})}


def outcome_data(outcome: object) -> Any:
    """The data of an outcome: what the records before it have, such as a reply, is not said again."""
    match outcome:
        case Replied():
            return {}
        case Acted(_, actions):
            return {"actions": _actions(actions)}
        case Observed(_, _, results):
            return {"results": [{"status": result.status, "error": result.error} for result in results]}
        case _:
            return own_data(outcome)


def own_data(value: object) -> Any:
    """The data of a value without the run that it carries, whose steps stand in the records before it."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return as_data(value)
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: _part(one) for name, one in held.items() if not isinstance(one, Steps)}


# Any: whatever an outcome of the user's holds.
def _part(held: Any) -> Any:
    match held:
        case Run():
            return {"steps": len(held.steps)}
        case [AgentAction(), *others] if all(isinstance(one, AgentAction) for one in others):
            return _actions(held)
        case _:
            return as_data(held)


def _actions(actions: Sequence[AgentAction]) -> list[Record]:
    """Actions without the message that each of one reply has whole; what was said with them is told at the first."""
    told = [{"tool": action.tool, "tool_input": as_data(action.tool_input)} for action in actions]
    return [{**told[0], "log": actions[0].log}, *told[1:]] if told else []


def _call(call: ToolCall) -> Record:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def messages_of(request: ModelRequest) -> list[Said]:
    """What a model is told."""
    return list(request.messages) if isinstance(request, ChatRequest) else [request.prompt]


def _message(message: Said) -> Record:
    if isinstance(message, str):
        return {"role": "text", "content": message}
    told: Record = {"role": message.role, "content": message.content}
    match message:
        case AssistantMessage(_, calls) if calls:
            return told | {"tool_calls": [_call(call) for call in calls]}
        case ToolMessage(call_id):
            return told | {"call_id": call_id}
        case _:
            return told


def new_in(before: Sequence[Said], now: Sequence[Said]) -> Record:
    """What is new in a prompt: a run's records grow with what is said, and not with how often it is said again."""
    kept = _common(before, now)
    new = [_message(message) for message in now[kept:]]
    if new and kept < len(before):
        old = _message(before[kept])
        if old["role"] == new[0]["role"]:
            one, other = old["content"], new[0]["content"]
            shared = len(one) if other.startswith(one) else _common(one, other)
            new[0] |= {"content": other[shared:], "kept": shared}
    return {"kept": kept, "messages": new}


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
