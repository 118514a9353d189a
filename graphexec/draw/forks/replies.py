"""The replies of a recorded run, read from its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from graphexec.actions import AgentAction, AgentFinish, run_of
from graphexec.draw.runs.data import Record, value_data
from graphexec.effects import (
    CallAgent,
    CallTool,
    Decided,
    LoadMemory,
    ModelEffect,
    ModelFailure,
    ToolResult,
    Unreadable,
)
from graphexec.errors import InputError, SnapshotError
from graphexec.kernel.effects import Effect, Perform
from graphexec.kernel.events import Cut
from graphexec.kernel.serialization import format_json, load_reply, parse_json, to_json_data
from graphexec.messages import ModelReply, Reasoning, ToolCall, Usage
from graphexec.messages.images import restore_images
from graphexec.messages.observations import Excerpt
from graphexec.messages.replies import FinishReason

# What a record that is not of the expected form raises here.
_INVALID = (LookupError, TypeError, AttributeError, ValueError, SnapshotError, InputError)


def read_reply(effect: Effect[Any], record: Record, outcomes: Mapping[str, type], moved: str | None) -> Any:
    """Return the reply to an effect from its record, or a `Cut`.

    `moved` is the class of the outcome with which the step ended, among the machine's `outcomes`: it is the reply to an
    opaque node. Raises `InputError` if the record does not hold the whole reply.
    """
    try:
        reply = _read(effect, record, outcomes, moved)
        if "value" in record and not isinstance(reply, Cut) and not _has_same_data(reply, record["value"]):
            raise ValueError("its data differ when they are read")
    except _INVALID as error:
        raise InputError(
            f"the record does not hold the whole reply to {type(effect).__name__} ({error}); fork the result of the "
            "run in the process that ran it, which has the reply"
        ) from error
    return reply


def _has_same_data(reply: object, recorded: object) -> bool:
    return bool(parse_json(format_json(value_data(reply))) == parse_json(format_json(recorded)))


# Any: the reply of an effect of any class.
def _read(effect: Effect[Any], record: Record, outcomes: Mapping[str, type], moved: str | None) -> Any:
    value: Any = record.get("value")
    match effect, record:
        case ModelEffect(), {"content": str()}:
            return _read_model_reply(record)
        case CallTool(), {"status": status}:
            rest = (
                record.get("return_direct", False),
                Excerpt(record.get("max_text"), record.get("note", "")),
                record["error"],
                record.get("traceback"),
            )
            return ToolResult(restore_images(record["observation"]), status, *rest)
        case _, {"value": {"limit": _, "value": _, "reached": _, "wanted": _, "outer": _}}:
            return Cut()
        case ModelEffect(), {"value": {"error": error, "text": text, "status": status}}:
            return ModelFailure(error, text, status)
        case CallAgent(), {"value": {"decision": decision}}:
            return Decided(_read_decision(decision))
        case LoadMemory(), _:
            return restore_images(dict(value))
        case Perform(), _:
            return _read_outcome(effect, value, moved, outcomes)
        case _:
            return load_reply(effect, {"data": value}, outcomes)


# Any: JSON, and an outcome of any class.
def _read_outcome(effect: Perform, data: Any, moved: str | None, outcomes: Mapping[str, type]) -> Any:
    """Return the outcome of an opaque node; a record leaves out its run, which is that of the node's value."""
    taken = effect.value
    if type(taken).__name__ == moved and _has_same_data(taken, data):
        return taken
    run = run_of(taken)
    match data:
        case {"run": {"steps": int() as count}, **others} if run is not None and count == len(run.steps):
            whole = {**others, "run": to_json_data(run)}
            return replace(load_reply(effect, {"class": moved, "data": whole}, outcomes), run=run)
        case _:
            return load_reply(effect, {"class": moved, "data": data}, outcomes)


def _read_model_reply(record: Record) -> ModelReply:
    parts = record.get("reasoning_parts") or [{"text": record[name]} for name in ("reasoning",) if name in record]
    reason = record.get("finish_reason", "stop")
    if reason not in get_args(FinishReason):
        raise ValueError(f"the finish_reason is {reason!r}")
    return ModelReply(
        record["content"],
        tuple(ToolCall(one["id"], one["name"], one["arguments"]) for one in record.get("tool_calls", ())),
        Usage(*(record.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "cached_tokens"))),
        reason,
        cost=record.get("cost"),
        reasoning=tuple(Reasoning(**one) for one in parts),
    )


# Any: JSON.
def _read_decision(decision: Any) -> AgentFinish | tuple[AgentAction, ...] | Unreadable:
    match decision:
        case {"return_values": values, "log": log, "run": _}:
            return AgentFinish(
                restore_images(values),
                log,
                return_direct=decision.get("return_direct", False),
                unread=decision.get("unread", ""),
            )
        case {"text": text, "observation": observation, "llm_output": written, "prose": prose}:
            return Unreadable(text, observation, written, prose)
        case [*actions]:
            # Only the first action has their common log.
            log = actions[0]["log"] if actions else ""
            return tuple(
                AgentAction(one["tool"], restore_images(one["tool_input"]), log, unread=one.get("unread", ""))
                for one in actions
            )
        case _:
            raise ValueError("it is not a decision")
