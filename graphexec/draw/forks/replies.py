"""The replies of a fork: those of the recorded run, read from its records, and the new one, as its user writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, final, get_args

from graphexec.actions import AgentAction, AgentFinish
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
from graphexec.errors import InputError, SnapshotError, an, format_value
from graphexec.kernel.effects import Effect, Perform
from graphexec.kernel.events import Cut
from graphexec.kernel.serialization import format_json, load_reply, parse_json
from graphexec.kernel.signatures import reply_classes
from graphexec.messages import ModelReply, Reasoning, ToolCall, Usage, check_reply
from graphexec.messages.images import restore_images
from graphexec.messages.replies import FinishReason

# What a record that is not of the expected form raises here.
_INVALID = (LookupError, TypeError, AttributeError, ValueError, SnapshotError, InputError)


@final
class Unchanged:
    """The class of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


# Stands for a reply that was not given, because a reply may be `None`.
UNCHANGED: Final = Unchanged()


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
            rest = (record.get("return_direct", False), record.get("model_text"), record["error"])
            return ToolResult(restore_images(record["observation"]), status, *rest, record.get("traceback"))
        case _, {"value": {"limit": _, "value": _, "reached": _, "wanted": _, "outer": _}}:
            return Cut()
        case ModelEffect(), {"value": {"error": error, "text": text, "status": status}}:
            return ModelFailure(error, text, status)
        case CallAgent(), {"value": {"decision": decision}}:
            return Decided(_read_decision(decision))
        case LoadMemory(), _:
            return restore_images(dict(value))
        case Perform(), _:
            return load_reply(effect, {"class": moved, "data": value}, outcomes)
        case _:
            return load_reply(effect, {"data": value}, outcomes)


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


def make_reply(effect: Effect[Any], reply: object, observation: object, recorded: object, tool: object) -> Any:
    """Return the new reply to an effect: `reply`, or for the call of a `tool` the result with this `observation`.

    The text of a model's reply stands for a whole reply; one without a usage has that of the `recorded` reply, which
    was paid for. JSON data are read as a reply of the effect's class. Raises `InputError` for a reply to another
    effect.
    """
    name = type(effect).__name__
    if observation is not UNCHANGED:
        if not isinstance(effect, CallTool):
            raise InputError(f"{name} is not the call of a tool, so it has no observation; pass its reply")
        if isinstance(observation, ToolResult):
            return observation
        return ToolResult(observation, return_direct=getattr(tool, "return_direct", False) is True)
    if isinstance(effect, ModelEffect):
        given = ModelReply(reply) if isinstance(reply, str) else reply
        if isinstance(given, ModelReply):
            before = recorded if isinstance(recorded, ModelReply) else None
            paid = before is not None and given.usage == Usage() and given.cost is None
            given = replace(given, usage=before.usage, cost=before.cost) if paid and before is not None else given
            return check_reply(given, "of the fork")
    # mypy does not take a class for hashable.
    kind: Any = type(effect)
    classes = reply_classes(kind)
    if isinstance(reply, classes or object):
        return reply
    try:
        return load_reply(effect, {"data": reply}, {})
    except _INVALID as error:
        wanted = " or ".join(an(one.__name__) for one in classes)
        remedy = "pass its observation" if isinstance(effect, CallTool) else f"pass {wanted}"
        raise InputError(f"{format_value(reply)} is not a reply to {name}; {remedy}") from error


# Any: JSON, as a program sends it.
def read_model_reply(data: Any) -> ModelReply:
    """Return the reply of a model that is written as `{"content": ..., "tool_calls": [{"name", "arguments"}]}`.

    The arguments are an object, or the text of one. Raises `InputError` for other data.
    """
    match data:
        case {"content": str() as content, "tool_calls": [*calls], **others} if not others:
            made = tuple(_read_call(number, one) for number, one in enumerate(calls, 1))
        case {"content": str() as content, **others} if not others:
            made = ()
        case _:
            raise InputError(
                f'the reply is {format_value(data)}; write text, or {{"content": "...", "tool_calls": [{{"name": '
                '"...", "arguments": {}}]}'
            )
    return ModelReply(content, made, finish_reason="tool_calls" if made else "stop")


def _read_call(number: int, data: Any) -> ToolCall:
    match data:
        case {"name": str() as name, "arguments": str() | {} as arguments, **others} if not {*others} - {"id"}:
            # Any: the members are JSON.
            given: Any = arguments
            written = given if isinstance(given, str) else format_json(given)
            return ToolCall(str(data.get("id", f"fork_{number}")), name, written)
        case _:
            raise InputError(
                f'the call {format_value(data)} of the reply is invalid; write {{"name": "...", "arguments": {{}}}}'
            )
