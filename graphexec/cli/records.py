"""`--json`: one JSON object per line for each event, and last the result.

Every record has `event`; the names here do not change, records may get further ones:

- `start`: `input`, `model`, `agent`, `tools` (by name), `limits`
- `entered`: `node`, `spent`
- `asked`: `node`, `effects`
- `reported`: `node`, `effects` (those being answered; none of what a memory reports), `news` (its class: a retry, a
  wait, a cache's reply), `text`
- `answered`: `node`, `seconds`, `spent`, `replies`
- `moved`: `node`, `outcome` (its class), `target`
- `result`: `status` (`answered`, `stopped`, `interrupted`, `error`, `usage`), `exit_code`, `output` (`null` without an
  answer; a run that was stopped may have a last word, and one whose memory could not be written has its answer),
  `reason` (`finished`, `return_direct`, or the limit's name), `limit` (what stopped it), `steps`, `spent`, `seconds`,
  `error`. What is wrong before there is a run is told by the `status`, the `exit_code` and the `error` alone.

What stands in them:

- `limits`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `tokens`, `cost`, `fan_out`, `restarts`, `budgets`
  (the machine's own, by name; each is `null` where there is no limit)
- `spent`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `prompt_tokens`, `completion_tokens`, `tokens` (both),
  `silent_calls` (that reported no tokens), `restarts`, `cost`, `budgets`
- `effects`, each: `effect` (its class); of a tool also `tool`, `tool_input`
- `replies` (one only, where the deadline cut all), each: `effect`; of a model also `content`, `tool_calls`,
  `finish_reason`, `prompt_tokens`, `completion_tokens`; of a tool also `tool`, `status`, `observation`
- `tool_calls`, each: `id`, `name`, `arguments`
- `steps`, each: `tool`, `tool_input`, `observation`, `status`
- `limit`: `limit` (its name), `value`, `reached`, `wanted`
- `error`: `type`, `message`

`graphexec audit` checks these records against a certificate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any, TextIO

from pydantic_core import PydanticSerializationError, to_jsonable_python

from graphexec.actions import AgentFinish, AgentStep, StoppedResponse
from graphexec.cli.exits import ANSWERED, INTERRUPTED, STOPPED, code_of, line_of
from graphexec.cli.following import Reached, Setup
from graphexec.effects import All, CallTool, Effect, ToolResult
from graphexec.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.limits import Exhausted, Limits, Spent
from graphexec.messages import ModelReply
from graphexec.result import Ending


class Records:
    """A watcher that writes records to `out`. They are ASCII, so that every stream can carry them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begun(self, setup: Setup) -> None:
        """Write `start`."""
        executor = setup.executor
        self._write(
            "start",
            input=setup.question,
            model=setup.model,
            agent=setup.agent,
            tools=list(executor.tools),
            limits=_flat(executor.limits),
        )

    def happened(self, event: Event[Ending]) -> None:
        """Write the event."""
        match event:
            case Entered(node, _, spent):
                self._write("entered", node=node, spent=_spent(spent))
            case Asked(node, effect):
                self._write("asked", node=node, effects=[_effect(one) for one in _members(effect)])
            case Answered(node, effect, reply, seconds, spent):
                replies = reply if isinstance(effect, All) else (reply,)
                told = [_reply(one, answer) for one, answer in zip(_members(effect), _several(replies), strict=False)]
                self._write("answered", node=node, seconds=seconds, spent=_spent(spent), replies=told)
            case Reported(node, effect, news):
                effects = [] if effect is None else [_effect(one) for one in _members(effect)]
                self._write("reported", node=node, effects=effects, news=type(news).__name__, text=str(news))
            case Moved(node, outcome, target):
                self._write("moved", node=node, outcome=type(outcome).__name__, target=target)
            case Done():
                pass

    def ended(self, ending: Ending, reached: Reached) -> None:
        """Write the result of a run that ended."""
        status, code = ("stopped", STOPPED) if isinstance(ending, StoppedResponse) else ("answered", ANSWERED)
        self._result(status, code, reached, **_ending(ending))

    def interrupted(self, reached: Reached) -> None:
        """Write the result of a run that the person ended."""
        self._result("interrupted", INTERRUPTED, reached, **_ending(reached.ending))

    def failed(self, error: Exception, reached: Reached) -> None:
        """Write the result of a run that an error ended."""
        described = {"type": type(error).__name__, "message": line_of(error)}
        self._result("error", code_of(error), reached, **_ending(reached.ending), error=described)

    # Each status has fields of its own; the others are null.
    def _result(self, status: str, code: int, reached: Reached, **fields: Any) -> None:
        absent: dict[str, Any] = {"output": None, "reason": None, "limit": None, "error": None}
        told = [_step(step) for step in reached.steps]
        spent = _spent(reached.spent)
        record = {**absent, **fields, "steps": told, "spent": spent, "seconds": reached.seconds}
        self._write("result", status=status, exit_code=code, **record)

    def _write(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), file=self._out, flush=True)


def _ending(ending: Ending | None) -> dict[str, Any]:
    match ending:
        case None:
            return {}
        case AgentFinish():
            reason = "return_direct" if ending.return_direct else "finished"
            return {"output": _plain(ending.output), "reason": reason}
        case StoppedResponse(output, limit):
            return {"output": output if ending.generated else None, "reason": limit.limit, "limit": asdict(limit)}


def _members(effect: Effect[Any] | All[Effect[Any]]) -> tuple[Effect[Any], ...]:
    return effect.effects if isinstance(effect, All) else (effect,)


# Any: the replies to a batch are a tuple, unless the deadline cut all of it.
def _several(replies: Any) -> Iterable[Any]:
    return (replies,) if isinstance(replies, Exhausted) else replies


def _spent(spent: Spent) -> dict[str, Any]:
    return {**_flat(spent), "tokens": spent.tokens}


def _flat(counts: Limits | Spent) -> dict[str, Any]:
    """Counts by name; not by `asdict`, which cannot copy the mapping of a machine's own budgets."""
    told = {field.name: getattr(counts, field.name) for field in fields(counts)}
    return {**told, "budgets": dict(counts.budgets)}


def _step(step: AgentStep) -> dict[str, Any]:
    action = step.action
    observation = _plain(step.observation)
    return {
        "tool": action.tool,
        "tool_input": _plain(action.tool_input),
        "observation": observation,
        "status": step.status,
    }


def _effect(effect: Effect[Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"effect": type(effect).__name__}
    if isinstance(effect, CallTool):
        told |= {"tool": effect.name, "tool_input": _plain(effect.tool_input)}
    return told


def _reply(effect: Effect[Any], reply: object) -> dict[str, Any]:
    told: dict[str, Any] = {"effect": type(effect).__name__}
    match reply:
        case ModelReply(content, calls, usage, finish_reason):
            return told | {
                "content": content,
                "tool_calls": [asdict(call) for call in calls],
                "finish_reason": finish_reason,
                **asdict(usage),
            }
        case ToolResult(observation, status):
            tool = {"tool": effect.name} if isinstance(effect, CallTool) else {}
            return told | tool | {"status": status, "observation": _plain(observation)}
        case _:
            return told


def _plain(value: object) -> Any:
    """A value as JSON data; what JSON cannot express is its text."""
    try:
        data = to_jsonable_python(value, fallback=str)
        # NaN and the infinities are no JSON, though Python writes them.
        json.dumps(data, allow_nan=False)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return repr(value)
    return data
