"""The messages of a run, which are not copied at each step; and the messages of earlier conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final, overload

from graphexec._arguments import STRING, validate
from graphexec.actions import AgentStep, Steps
from graphexec.agents.images import IMAGES, observation_images
from graphexec.errors import InputError, format_value
from graphexec.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.messages.images import image_from_json

# Makes the messages of the steps from a position on, which is the start of a turn. Yields each turn: one reply of the
# model with its results, as the position of its first step and its messages.
TurnMaker: TypeAlias = Callable[[Steps, int], Iterator[tuple[int, Sequence[Message]]]]


@final
@dataclass(frozen=True, slots=True)
class ConversationExtent:
    """The length of a conversation that was read: all its messages, and where its last turn begins.

    `last` is the position of the turn's first step, and `messages` are its messages; later steps may add to it.
    """

    length: int
    last: int
    messages: Sequence[Message]


class Conversation(Sequence[Message]):
    """The messages of a run: the `head`, then the messages that `make_turns` makes from the steps.

    They are made on iteration, so a step takes constant time; sending the conversation takes time linear in its length.
    """

    __slots__ = ("_head", "_make_turns", "_steps")

    def __init__(self, head: tuple[Message, ...], steps: Steps, make_turns: TurnMaker) -> None:
        self._head = head
        self._steps = steps
        self._make_turns = make_turns

    def changes_since(
        self, earlier: Conversation, extent: ConversationExtent
    ) -> tuple[int, Sequence[Message], Sequence[Message], ConversationExtent] | None:
        """Return what differs from an earlier conversation of this `extent`, or `None` if this does not continue it.

        That is: the number of first messages that both have, the earlier messages after these, and the messages here.
        It takes time linear in what is new.
        """
        if self._head != earlier._head or not self._is_continued(earlier):
            return None
        kept = extent.length - len(extent.messages)
        new, now = self._read(extent.last, kept)
        return kept, extent.messages, new, now

    def read(self) -> tuple[Sequence[Message], ConversationExtent]:
        """Return all messages and their extent."""
        new, extent = self._read(0, len(self._head))
        return [*self._head, *new], extent

    def _read(self, first: int, before: int) -> tuple[list[Message], ConversationExtent]:
        made: list[Message] = []
        last: tuple[int, Sequence[Message]] = (first, ())
        for last in self._make_turns(self._steps, first):
            made += last[1]
        return made, ConversationExtent(before + len(made), *last)

    def _is_continued(self, earlier: Conversation) -> bool:
        return self._make_turns is earlier._make_turns and self._steps.continues(earlier._steps)

    def with_head(self, change: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> Conversation:
        """Return the conversation with another head, in constant time for the messages behind it."""
        return Conversation(change(self._head), self._steps, self._make_turns)

    def __iter__(self) -> Iterator[Message]:
        yield from self._head
        for _, messages in self._make_turns(self._steps, 0):
            yield from messages

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


def observation_turns(observe: Callable[[AgentStep], str]) -> TurnMaker:
    """Return a maker of turns of one step each: what the model wrote, then the user's message of the observation."""

    def make_turns(steps: Steps, first: int) -> Iterator[tuple[int, Sequence[Message]]]:
        for position in range(first, len(steps)):
            step = steps[position]
            yield position, (AssistantMessage(step.action.log), UserMessage(observe(step), observation_images(step)))

    return make_turns


def history_keys(history: str, variables: Sequence[str]) -> tuple[str, ...]:
    """Return the name of the input with the earlier messages, or none if a template uses it as a variable.

    Raises `InputError` for an invalid name.
    """
    validate("", ("history", history, STRING))
    if not history:
        raise InputError("history is empty; pass the name of the input with the earlier messages, such as chat_history")
    if history == IMAGES:
        raise InputError(f"history is {IMAGES}, the name of the input with images; give it another name")
    return () if history in variables else (history,)


def history_messages(inputs: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Message]:
    """Yield the messages in those of the named inputs that exist. Raises `InputError` for a value of another type."""
    for key in keys:
        if key in inputs:
            messages = parse_messages(inputs[key])
            if messages is None:
                raise InputError(
                    f"the input {key} is {format_value(inputs[key])}; give messages, such as {{'role': 'user', "
                    f"'content': '...'}} or those of a memory with as_messages=True, or write {{{key}}} into the "
                    "agent's template"
                )
            yield from messages


def read_history(inputs: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the inputs with messages in place of their JSON, which each request would parse again."""
    parsed = {key: parse_messages(inputs[key]) for key in keys if key in inputs}
    changed = {key: found for key, found in parsed.items() if found is not None and found != tuple(inputs[key])}
    return {**inputs, **changed} if changed else inputs


def parse_messages(given: Any) -> tuple[Message, ...] | None:
    """Return a sequence of messages as a tuple, or `None` for any other value.

    Messages that were stored as JSON are accepted, too: objects with a `role`.
    """
    # Most values are strings, so they are checked first.
    if isinstance(given, (str, bytes, bytearray)) or not isinstance(given, Sequence):
        return None
    try:
        return tuple(map(_parse_message, given))  # pyright: ignore[reportUnknownArgumentType]
    except ValueError:
        return None


def _parse_message(given: Any) -> Message:
    """Return a message, or build one from JSON data. Raises `ValueError` for any other value.

    This is faster than pydantic; a run that was resumed from JSON parses the messages at every step.
    """
    match given:
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolMessage():
            return given
        case {"role": "system", "content": str(content)}:
            return SystemMessage(content)
        case {"role": "user", "content": str(content), **others}:
            return UserMessage(content, _parse_images(others))
        case {"role": "assistant", "content": str(content), **others}:
            # Any: values of arbitrary JSON.
            calls: Any = others.get("tool_calls", ())
            reasoning: Any = others.get("reasoning", ())
            if isinstance(calls, (list, tuple)) and isinstance(reasoning, (list, tuple)):
                # isinstance does not narrow the types of the items for pyright.
                parsed = tuple(map(_parse_call, calls))  # pyright: ignore[reportUnknownArgumentType]
                return AssistantMessage(content, parsed, tuple(map(_parse_reasoning, reasoning)))  # pyright: ignore[reportUnknownArgumentType]
        case {"role": "tool", "call_id": str(call_id), "content": str(content), **others}:
            return ToolMessage(call_id, content, _parse_images(others))
        case _:
            pass
    raise ValueError("not a message")


def _parse_reasoning(given: Any) -> Reasoning:
    match given:
        case Reasoning():
            return given
        case {"text": str(text), **others}:
            data, provider = others.get("data", ""), others.get("provider", "")
            if isinstance(data, str) and isinstance(provider, str):
                return Reasoning(text, data, provider)
        case _:
            pass
    raise ValueError("not a part of reasoning")


def _parse_images(others: Mapping[Any, Any]) -> tuple[Image, ...]:
    # Any: values of arbitrary JSON.
    given: Any = others.get("images", ())
    several: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]  # pyright: ignore[reportUnknownArgumentType]
    images = [one if isinstance(one, Image) else image_from_json(one) for one in several]
    if None in images:
        raise ValueError("not the images of a message")
    return tuple(image for image in images if image is not None)


def _parse_call(given: Any) -> ToolCall:
    match given:
        case ToolCall():
            return given
        case {"id": str(call_id), "name": str(name), "arguments": str(arguments)}:
            return ToolCall(call_id, name, arguments)
        case _:
            raise ValueError("not a tool call")
