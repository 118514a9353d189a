"""The new reply of a fork, as its user writes it: text, an observation, JSON, or the reply itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, final

from graphexec.actions import AgentAction, AgentFinish
from graphexec.effects import CallAgent, CallTool, Decided, ModelEffect, ToolResult
from graphexec.errors import AgentError, InputError, SnapshotError, an, format_value
from graphexec.executor.handlers.functions import check_decision
from graphexec.kernel.effects import Effect
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, load_reply, parse_json
from graphexec.kernel.signatures import reply_classes
from graphexec.messages import ModelReply, ToolCall, Usage, check_reply


@final
class Unchanged:
    """The class of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


# Stands for a reply that was not given, because a reply may be `None`.
UNCHANGED: Final = Unchanged()


def make_reply(effect: Effect[Any], reply: object, observation: object, recorded: object, tool: object) -> Any:
    """Return the new reply to an effect: `reply`, or for the call of a `tool` the result with this `observation`.

    The text of a model's reply stands for a whole reply, and so does an object with `content` and `tool_calls`. One
    without a usage has that of the `recorded` reply, which was paid for. For an agent that is a function, the text is
    its answer, and the calls are its actions. JSON, as data or as text, is read as a reply of the effect's class.
    Raises `InputError` for a reply to another effect.
    """
    name = type(effect).__name__
    if observation is not UNCHANGED:
        if not isinstance(effect, CallTool):
            raise InputError(f"{name} is not the call of a tool, so it has no observation; pass its reply")
        if isinstance(observation, ToolResult):
            return observation
        return ToolResult(observation, return_direct=getattr(tool, "return_direct", False) is True)
    if isinstance(effect, (ModelEffect, CallAgent)):
        given = ModelReply(reply) if isinstance(reply, str) else reply
        given = _read_written_reply(given) if isinstance(given, dict) else given
        if isinstance(effect, CallAgent):
            return _to_decided(given)
        if isinstance(given, ModelReply):
            return _with_usage(given, recorded)
    # mypy does not take a class for hashable.
    kind: Any = type(effect)
    classes = reply_classes(kind)
    if isinstance(reply, classes or object):
        return reply
    try:
        return load_reply(effect, {"data": parse_json(reply) if isinstance(reply, str) else reply}, {})
    except (SnapshotError, *INVALID_DATA_ERRORS) as error:
        wanted = " or ".join(an(one.__name__) for one in classes)
        remedy = "pass its observation" if isinstance(effect, CallTool) else f"pass {wanted}"
        raise InputError(f"{format_value(reply)} is not a reply to {name}; {remedy}") from error


def _with_usage(reply: ModelReply, recorded: object) -> ModelReply:
    if isinstance(recorded, ModelReply) and reply.usage == Usage() and reply.cost is None:
        reply = replace(reply, usage=recorded.usage, cost=recorded.cost)
    return check_reply(reply, "of the fork")


def _to_decided(reply: object) -> Decided:
    if isinstance(reply, Decided):
        return reply
    try:
        match reply:
            case ModelReply(content, ()):
                return Decided(AgentFinish({"output": content}, content))
            case ModelReply(content, calls):
                return Decided(tuple(AgentAction(one.name, parse_json(one.arguments), content) for one in calls))
            case _:
                return check_decision("of the fork", reply)
    except (AgentError, ValueError) as error:
        remedy = "pass an answer as text, an AgentFinish or AgentActions"
        raise InputError(f"{format_value(reply)} is not a decision of the agent ({error}); {remedy}") from error


# Any: JSON, as a program sends it.
def _read_written_reply(data: Any) -> ModelReply:
    """Return the reply of a model from `{"content": ..., "tool_calls": [{"name": ..., "arguments": ...}]}`.

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
