"""The events of a run as JSON data: effects, prompts, replies, outcomes and counts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias, final

from graphexec._mistakes.user_errors import format_traceback
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse, reason_of, run_of
from graphexec.effects import (
    AGENT_METERS,
    CACHED_TOKENS,
    TOKENS,
    AskHuman,
    CallAgent,
    CallTool,
    ModelEffect,
    ToolResult,
    reported_tokens,
    silent_calls,
)
from graphexec.errors import described, qualified_name
from graphexec.kernel.effects import CallContext, Effect, Perform
from graphexec.kernel.meters import Limits, Meter, Spent, is_measure
from graphexec.messages import ModelReply, ToolCall
from graphexec.messages.images import dump_with_images
from graphexec.messages.observations import label_of

# Any: JSON values are arbitrary.
Record: TypeAlias = dict[str, Any]


def spent_data(spent: Spent, own: Collection[str]) -> Record:
    """Return the usage by name; `tokens` are those that models reported, `cached_tokens` are there if not 0.

    `own` names the meters that the machine's nodes cost: these are the record's `budgets`.
    """
    counts = dict(spent.meters.items())
    budgets = {name: counts.pop(name) for name in spent.meters if name in own or is_measure(name)}
    # The limited tokens are those of silent calls, too.
    counts.pop(TOKENS.name, None)
    if not counts.get(CACHED_TOKENS.name):
        counts.pop(CACHED_TOKENS.name, None)
    return {
        "iterations": spent.iterations,
        "seconds": spent.seconds,
        # Zero included.
        "model_calls": 0,
        "tool_calls": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "silent_calls": silent_calls(spent),
        "restarts": spent.restarts,
        "cost": 0.0,
        **counts,
        "budgets": budgets,
        "tokens": reported_tokens(spent),
    }


# The limits of an agent, which every record has, set or not.
_AGENT = {meter.name: meter for meter in AGENT_METERS}

# NaN and the infinities are not valid JSON, though Python writes them.
_strict = json.JSONEncoder(allow_nan=False)


def to_json_data(value: object) -> Any:
    """Return a value as JSON data; a value that JSON cannot express becomes its `repr`. Never raises."""
    try:
        data = dump_with_images(value, fallback=str)
        _strict.encode(data)
    except Exception:  # noqa: BLE001 - the methods of a user's value may raise anything
        return _text_of(value)
    return data


def _text_of(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above; an integer with too many digits raises, too
        return f"<{type(value).__name__} that cannot be shown>"


def limits_data(limits: Limits, own: Collection[str]) -> Record:
    """Return the limits by name; `None` means no limit. `own` is as in `spent_data`."""
    meters = dict(limits.meters.items())
    budgets = {name: meters.pop(name) for name in limits.meters if name in own}
    return {
        "iterations": limits.iterations,
        "seconds": limits.seconds,
        **dict.fromkeys(_AGENT),
        **meters,
        "fan_out": limits.fan_out,
        "restarts": limits.restarts,
        "depth": limits.depth,
        "nested_runs": limits.nested_runs,
        "budgets": budgets,
    }


def read_limits(data: Record) -> Limits:
    """Read limits that `limits_data` wrote. Raises `LimitsError` or `TypeError` for invalid ones."""
    names = ("iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs")
    own = {name: data[name] for name in names if name in data}
    others = {name: value for name, value in data.items() if name not in own and name != "budgets"}
    meters = {
        _AGENT.get(name, Meter(name, whole=not isinstance(value, float))): value
        for name, value in (others | data.get("budgets", {})).items()
        if value is not None or name not in _AGENT
    }
    return Limits(meters, **own)


def step_data(step: AgentStep) -> Record:
    """Return the record of an action and its observation."""
    action = step.action
    return {
        "tool": action.tool,
        "tool_input": to_json_data(action.tool_input),
        "observation": to_json_data(step.observation),
        "status": step.status,
        "error": step.error,
        **unread_data(action),
    }


def unread_data(decision: AgentAction | AgentFinish) -> Record:
    """Return what a reader left of a reply as `unread`, or nothing if it read all."""
    return {"unread": decision.unread} if decision.unread else {}


def call_data(call: CallContext[Any] | None) -> Record:
    """Return the fields that identify a record's call, without the run's context."""
    if call is None:
        return {}
    named: Record = {"call": {"run": call.run_id, "sequence": call.sequence, "member": call.member}}
    provider_id = call.provider_id
    return named if provider_id is None else {**named, "provider_id": provider_id}


def effect_data(effect: Effect[Any]) -> Record:
    """Return the data of an effect, without a model's prompt."""
    data = effect_name(effect)
    match effect:
        case CallTool():
            return data | {"tool_input": to_json_data(effect.tool_input)}
        case AskHuman(question):
            return data | {"question": question}
        case ModelEffect() | CallAgent() | Perform():
            return data
        case _:
            return data | {"value": value_data(effect)}


def reply_data(effect: Effect[Any], reply: object) -> Record:
    """Return the data of the reply to an effect."""
    match reply:
        case ModelReply():
            return _model_reply_data(effect, reply)
        case ToolResult():
            return _result_data(effect, reply)
        case _:
            return {"effect": type(effect).__name__, "value": value_data(reply)}


def _model_reply_data(effect: Effect[Any], reply: ModelReply) -> Record:
    usage = reply.usage
    data: Record = {
        "effect": type(effect).__name__,
        "content": reply.content,
        "tool_calls": [call_record(call) for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    if usage.cached_tokens:
        data["cached_tokens"] = usage.cached_tokens
    if reply.cost is not None:
        data["cost"] = reply.cost
    texts = [part.text for part in reply.reasoning if part.text]
    return {**data, "reasoning": "\n\n".join(texts)} if texts else data


def _result_data(effect: Effect[Any], result: ToolResult) -> Record:
    data = effect_name(effect)
    data["status"] = result.status
    data["error"] = result.error
    label = label_of(result.observation)
    data["observation"] = to_json_data(result.observation) if label is None else label
    if result.traceback is not None:
        data["traceback"] = result.traceback
    return data


def error_data(error: BaseException) -> Record:
    """Return the class, the message and the traceback of an exception."""
    data = {"type": qualified_name(type(error)), "message": described(error)}
    frames = format_traceback(error)
    return data if frames is None else data | {"traceback": frames}


def effect_name(effect: Effect[Any]) -> Record:
    """Return an effect's class, and the tool of a tool call."""
    data: Record = {"effect": type(effect).__name__}
    if isinstance(effect, CallTool):
        data["tool"] = effect.name
    return data


# Any: an outcome of any class.
def outcome_data(outcome: Any) -> Any:
    """Return the data of an outcome, without data of the records before it, such as a reply."""
    # An agent's nodes pass on values of these fields; their classes belong to the executor, a layer above.
    fields: Any = getattr(outcome, "__match_args__", ())
    match fields:
        case ("run", "reply"):
            return {}
        case ("run", "actions", "answers"):
            return {"actions": _actions(outcome.actions)}
        case ("run", "actions", "results"):
            return {"results": [{"status": result.status, "error": result.error} for result in outcome.results]}
        case _:
            return value_data(outcome)


@final
class RunHistory:
    """The runs in the outcomes so far: that of the machine, and those of its embedded graphs."""

    def __init__(self) -> None:
        # By graph: what its run was given.
        self._tasks: dict[str, object] = {}
        # The run of the last outcome, and its graph.
        self._last: tuple[Run | None, str] = (None, "")
        # The steps of the last outcome's run, and the recorded ones, which stay alive, by their ids.
        self._steps = 0
        self._recorded: dict[int, AgentStep] = {}

    def new_data(self, node: str, outcome: object) -> Record:
        """Return what is new: the `task` of a graph whose run begins, and the `steps` added without a call."""
        run = run_of(outcome)
        if run is None:
            return {}
        graph = node.rpartition(".")[0]
        last, self._last = self._last, (run, graph)
        if run is last[0] and graph == last[1]:
            return {}
        begins = bool(graph) and not run.steps and all(run.inputs is not one for one in self._tasks.values())
        self._tasks[graph] = run.inputs
        task: Record = {"task": to_json_data(run.inputs)} if begins else {}
        # After an embedded graph, the steps of the run around it come again.
        new = [step for step in run.steps[min(self._steps, len(run.steps)) :] if id(step) not in self._recorded]
        self._steps = len(run.steps)
        unasked = [step for step in new if step.status == "parse_error"]
        if unasked:
            self._recorded |= {id(step): step for step in unasked}
            task["steps"] = [step_data(step) for step in unasked]
        return task


def value_data(value: object) -> Any:
    """Return the data of a value without the run in it, whose steps are in the records before it."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return to_json_data(value)
    # A field without a value is left out.
    names = (field.name for field in dataclasses.fields(value) if hasattr(value, field.name))
    held = {name: getattr(value, name) for name in names}
    return {name: _part(one) for name, one in held.items() if not isinstance(one, Steps)}


# Any: a field of a user's outcome.
def _part(held: Any) -> Any:
    match held:
        case Run():
            return {"steps": len(held.steps)}
        case _ if run_of(held) is not None:
            return outcome_data(held)
        case [AgentAction(), *others] if all(isinstance(one, AgentAction) for one in others):
            return _actions(held)
        case _:
            return to_json_data(held)


def _actions(actions: Sequence[AgentAction]) -> list[Record]:
    """Return the data of the actions of one reply, without its message; only the first has their common `log`."""
    data = [
        {"tool": action.tool, "tool_input": to_json_data(action.tool_input), **unread_data(action)}
        for action in actions
    ]
    return [{**data[0], "log": actions[0].log}, *data[1:]] if data else []


def call_record(call: ToolCall) -> Record:
    """Return a call of a tool that a model wrote."""
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def ending_data(outcome: AgentFinish | StoppedResponse | None) -> Record:
    """Return the fields of a result's record that describe the answer or the cause."""
    match outcome:
        case AgentFinish():
            return {"output": to_json_data(outcome.answer), "reason": reason_of(outcome), **unread_data(outcome)}
        case StoppedResponse(output, cause):
            answer = output if outcome.generated else None
            return {"output": answer, "reason": reason_of(outcome), "cause": dataclasses.asdict(cause)}
        case None:
            return {}
        case _:
            # A user's machine ends with an outcome of its own.
            return {"output": to_json_data(outcome), "reason": "finished"}
