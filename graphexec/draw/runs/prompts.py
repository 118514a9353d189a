"""What is new in each request to a model, so that records grow with the conversation, not with its repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, final

from graphexec.draw.runs.data import Record, call_record
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Image,
    Message,
    ModelRequest,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

# A message of a prompt, or the whole of a text prompt.
PromptMessage: TypeAlias = Message | str

# The settings of a request that has none.
_NONE: Record = {"tools": [], "stop": [], "schema": None, "tool_choice": "auto"}


@final
class PromptHistory:
    """The last request of a run, with which the next one is compared."""

    def __init__(self) -> None:
        self._messages: tuple[PromptMessage, ...] = ()
        self._settings = _NONE

    def record(self, request: ModelRequest) -> Record:
        """Return the fields `prompt` and `request` of a request, which becomes the last one."""
        settings = _settings(request)
        changed = {name: value for name, value in settings.items() if value != self._settings[name]}
        self._settings = settings
        before = self._messages
        self._messages = tuple(request.messages) if isinstance(request, ChatRequest) else (request.prompt,)
        return {"prompt": _difference(before, self._messages), **({"request": changed} if changed else {})}


def _difference(before: Sequence[PromptMessage], now: Sequence[PromptMessage]) -> Record:
    """Return the number of equal messages at the beginning, and what is new behind them."""
    kept = _common(before, now)
    new = [_message(message) for message in now[kept:]]
    if new and kept < len(before):
        old = _message(before[kept])
        if old["role"] == new[0]["role"]:
            one, other = old["content"], new[0]["content"]
            shared = _common(one, other)
            new[0] |= {"content": other[shared:], "kept": shared}
    return {"kept": kept, "messages": new}


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common beginning, found by halving, since comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _settings(request: ModelRequest) -> Record:
    if not isinstance(request, ChatRequest):
        return {**_NONE, "stop": list(request.stop)}
    return {
        "tools": [spec_data(spec) for spec in request.tools],
        "stop": list(request.stop),
        "schema": None if request.schema is None else dict(request.schema),
        "tool_choice": request.tool_choice,
    }


def spec_data(spec: ToolSpec) -> Record:
    """Return the definition of a tool that a model may call."""
    return {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}


def _message(message: PromptMessage) -> Record:
    if isinstance(message, str):
        return {"role": "text", "content": message}
    data: Record = {"role": message.role, "content": message.content}
    match message:
        case AssistantMessage(_, calls) if calls:
            return data | {"tool_calls": [call_record(call) for call in calls]}
        case UserMessage(_, images):
            return data | _image_labels(images)
        case ToolMessage(call_id, _, images):
            return data | {"call_id": call_id} | _image_labels(images)
        case _:
            return data


def _image_labels(images: Sequence[Image]) -> Record:
    """Return the labels of a message's images; the images themselves are in the input and in the observations."""
    return {"images": [image.label(number) for number, image in enumerate(images, 1)]} if images else {}
