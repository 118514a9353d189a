"""Change the strings and the numbers in what a run holds: values, messages, calls and results."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from graphexec.actions import AgentAction, Run
from graphexec.effects import ToolResult
from graphexec.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphexec.messages.observations import Excerpt, dump_observation

M = TypeVar("M", bound=SystemMessage | UserMessage | ToolMessage | AssistantMessage)

# Changes a string, or an integer; the reply may be of another class.
Change: TypeAlias = Callable[[Any], Any]


def map_values(value: Any, change: Change) -> Any:
    """Return a value with each string and number in it changed; the same object if nothing changes."""
    match value:
        case str() | int():
            return change(value)
        case Mapping():
            # Any: JSON data, or what a caller passes.
            by_key: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
            # A token that stands alone may be a number, which is no key of JSON.
            keys = [str(change(key)) if isinstance(key, str) else key for key in by_key]
            changed = dict(zip(keys, (map_values(one, change) for one in by_key.values()), strict=True))
            same = len(changed) == len(by_key) and all(by_key.get(key) is one for key, one in changed.items())
            return by_key if same else changed
        case list() | tuple():
            # Any: as above.
            items: list[Any] = [*value]
            several = [map_values(one, change) for one in items]
            if all(map(operator.is_, several, items)):
                return value  # pyright: ignore[reportUnknownVariableType]
            return several if isinstance(value, list) else tuple(several)
        case SystemMessage() | UserMessage() | ToolMessage() | AssistantMessage():
            return map_message(value, change)
        case _:
            return _map_foreign_message(value, change)


def map_message(message: M, change: Change, change_json: Change | None = None) -> M:
    """Return a message with its content and the arguments of its calls changed, which are JSON."""
    of_json: Change = change_json or partial(map_json, change=change)
    content = str(change(message.content))
    if not isinstance(message, AssistantMessage):
        return message if content == message.content else dataclasses.replace(message, content=content)
    named = [(str(change(call.name)), str(of_json(call.arguments))) for call in message.tool_calls]
    if content == message.content and named == [(call.name, call.arguments) for call in message.tool_calls]:
        return message
    calls = tuple(
        dataclasses.replace(call, name=name, arguments=arguments)
        for call, (name, arguments) in zip(message.tool_calls, named, strict=True)
    )
    return dataclasses.replace(message, content=content, tool_calls=calls)


def map_json(text: str, change: Change) -> str:
    """Return JSON with the strings and the numbers in it changed; what is not JSON is changed as one string."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return str(change(text))
    changed = map_values(data, change)
    return text if changed is data else json.dumps(changed, ensure_ascii=False)


def _map_foreign_message(value: Any, change: Change) -> Any:
    """Return a message of another library, which is a pydantic model, with its content changed."""
    content = getattr(value, "content", None)
    copy = getattr(value, "model_copy", None)
    if not isinstance(content, (str, list)) or copy is None:
        return value
    return copy(update={"content": map_values(content, change)})


def map_inputs(run: Run, change: Change) -> Run:
    """Return the run with the values of its inputs changed; their names stay."""
    inputs = {key: map_values(value, change) for key, value in run.inputs.items()}
    return dataclasses.replace(run, inputs=inputs)


def map_input(action: AgentAction, change: Change) -> AgentAction:
    """Return a call with its input changed."""
    changed = map_values(action.tool_input, change)
    if isinstance(action.tool_input, str):
        changed = str(changed)
    return action if changed is action.tool_input else dataclasses.replace(action, tool_input=changed)


def hide_result(result: ToolResult, hide: Change) -> ToolResult:
    """Return a tool's result with the values in it hidden."""
    data = dump_observation(result.observation)
    hidden = map_values(data, hide)
    # What holds no match stays an object of its class.
    observation = result.observation if hidden is data else hidden
    return dataclasses.replace(result, observation=observation, excerpt=map_excerpt(result.excerpt, hide))


def map_excerpt(excerpt: Excerpt, change: Change) -> Excerpt:
    """Return an excerpt with its note changed."""
    return dataclasses.replace(excerpt, note=str(change(excerpt.note))) if excerpt.note else excerpt
