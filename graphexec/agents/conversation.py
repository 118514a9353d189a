"""A conversation that grows with a run's steps and is not copied at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from graphexec._arguments import STRING, validate
from graphexec.actions import Steps
from graphexec.errors import InputError, format_value
from graphexec.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage


class Conversation(Sequence[Message]):
    """The messages of a run: the first ones, and those that its steps are `told` as, made when they are looked at.

    So a step costs the same however long the conversation is; sending it costs its length.
    """

    __slots__ = ("_head", "_steps", "_told")

    def __init__(self, head: tuple[Message, ...], steps: Steps, told: Callable[[Steps], Iterator[Message]]) -> None:
        self._head = head
        self._steps = steps
        self._told = told

    def __iter__(self) -> Iterator[Message]:
        yield from self._head
        yield from self._told(self._steps)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._head)

    def __repr__(self) -> str:
        return repr(list(self))


def history_keys(history: str, variables: Sequence[str]) -> tuple[str, ...]:
    """The name of the input with an earlier conversation; no name where a template has it as a variable, as text.

    Raises `InputError` for what is no name.
    """
    validate("", ("history", history, STRING))
    if not history:
        raise InputError("history is empty; pass the name of the input with the earlier messages, such as chat_history")
    return () if history in variables else (history,)


def history_messages(inputs: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Message]:
    """Yield the messages in the inputs of these names, as far as they are there. Raises `InputError` for others."""
    for key in keys:
        if key in inputs:
            messages = parse_messages(inputs[key])
            if messages is None:
                raise InputError(
                    f"the input {key} is {format_value(inputs[key])}; give messages, as a memory with as_messages=True "
                    f"does, or write {{{key}}} into the agent's template"
                )
            yield from messages


def parse_messages(given: Any) -> tuple[Message, ...] | None:
    """The messages that a value is a sequence of, or `None`.

    Those of a run that was stored as JSON are objects with a `role`, which will do.
    """
    # Users pass texts, and pairs. A text, which most are, is told first: it costs less.
    if isinstance(given, (str, bytes, bytearray)) or not isinstance(given, Sequence):
        return None
    try:
        return tuple(map(_parse_message, given))  # pyright: ignore[reportUnknownArgumentType]
    except ValueError:
        return None


def _parse_message(given: Any) -> Message:
    """A message, or the one that JSON data are. Raises `ValueError` for what is none.

    By hand: a run that goes on from JSON reads the messages at every step.
    """
    match given:
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolMessage():
            return given
        case {"role": "system", "content": str(content)}:
            return SystemMessage(content)
        case {"role": "user", "content": str(content)}:
            return UserMessage(content)
        case {"role": "assistant", "content": str(content), **others}:
            # JSON: its values are anything.
            calls: Any = others.get("tool_calls", ())
            if isinstance(calls, (list, tuple)):
                return AssistantMessage(content, tuple(map(_parse_call, calls)))  # pyright: ignore[reportUnknownArgumentType]
        case {"role": "tool", "call_id": str(call_id), "content": str(content)}:
            return ToolMessage(call_id, content)
        case _:
            pass
    raise ValueError("it is no message")


def _parse_call(given: Any) -> ToolCall:
    match given:
        case ToolCall():
            return given
        case {"id": str(call_id), "name": str(name), "arguments": str(arguments)}:
            return ToolCall(call_id, name, arguments)
        case _:
            raise ValueError("it is no tool call")
