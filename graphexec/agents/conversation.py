"""The messages that agents make of steps, and the messages of earlier conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from graphexec._arguments import STRING, validate
from graphexec.actions import AgentStep, Steps
from graphexec.agents.images import IMAGES, observation_images
from graphexec.errors import InputError, format_value
from graphexec.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    with_own_ids,
)
from graphexec.messages.turns import MessageTurn, TurnMaker


def observation_turns(observe: Callable[[AgentStep], str]) -> TurnMaker:
    """Return a maker of turns of one step each: what the model wrote, then the user's message of the observation."""

    def make_turns(steps: Steps, first: int) -> Iterator[MessageTurn]:
        for position in range(first, len(steps)):
            step = steps[position]
            answer = UserMessage(observe(step), observation_images(step))
            yield MessageTurn(position + 1, (make_message(step), answer))

    return make_turns


# In place of a text that most providers refuse, where the roles must take turns.
NO_TEXT = "(no text)"


def make_message(step: AgentStep) -> AssistantMessage:
    """Return what the model wrote in a step as a message, which is never blank."""
    return AssistantMessage(step.action.log if step.action.log.strip() else NO_TEXT)


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
            yield from pair_calls(messages)


def join_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with all instructions in the system message that they begin with: many models take one."""
    first, *others = messages
    texts = [one.content for one in (first, *others) if isinstance(one, SystemMessage)]
    rest = [one for one in others if not isinstance(one, SystemMessage)]
    return (first if len(texts) == 1 else SystemMessage("\n\n".join(filter(None, texts))), *rest)


def pair_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with each result directly behind its call, as providers want them, also of a cut history.

    A result that comes later moves there. A call without a result is left out, and its message if nothing is left of
    it. A result without a call becomes the user's message. An id is that of the last message that has it; if several of
    its calls do, and they have fewer results, nobody knows whose those are, and all of them are without the other.
    """
    results = _find_results(messages)
    moved = {index for index, _ in results.values()}
    paired: list[Message] = []
    for index, message in enumerate(messages):
        match message:
            case AssistantMessage(content, calls) if calls:
                kept = {place: call for place, call in enumerate(calls) if (index, place) in results}
                own = with_own_ids([*kept.values()])
                if content.strip() or kept:
                    said = message if len(kept) == len(calls) else message.with_calls([*kept.values()])
                    paired.append(said if own == said.tool_calls else replace(said, tool_calls=own))
                for place, call in zip(kept, own, strict=True):
                    paired.append(replace(results[index, place][1], call_id=call.id))
            case ToolMessage(_, content, images):
                paired += [] if index in moved else [UserMessage(content or NO_TEXT, images)]
            case _:
                paired.append(message)
    return tuple(paired)


def _find_results(messages: Sequence[Message]) -> dict[tuple[int, int], tuple[int, ToolMessage]]:
    """Return the results with their places among the messages, by the message and the place of their calls."""
    # The calls of a message with one id, and their results.
    groups: list[tuple[list[tuple[int, int]], list[tuple[int, ToolMessage]]]] = []
    last: dict[str, list[tuple[int, ToolMessage]]] = {}
    for index, message in enumerate(messages):
        match message:
            case AssistantMessage(_, calls):
                for one in dict.fromkeys([call.id for call in calls]):
                    last[one] = []
                    groups.append(([(index, place) for place, call in enumerate(calls) if call.id == one], last[one]))
            case ToolMessage(call_id) if call_id in last:
                last[call_id].append((index, message))
            case _:
                pass
    return {
        call: result
        for calls, results in groups
        if len(calls) <= len(results)
        for call, result in zip(calls, results, strict=False)
    }


def parse_messages(given: Any) -> tuple[Message, ...] | None:
    """Return a sequence of messages as a tuple, or `None` for any other value.

    Messages that were stored as JSON are accepted, too: objects with a `role`. Raises `InputError` for those of
    LangChain.
    """
    # Most values are strings, so they are checked first.
    if isinstance(given, (str, bytes, bytearray)) or not isinstance(given, Sequence):
        return None
    # Any: objects of another library.
    several: list[Any] = [*given]  # pyright: ignore[reportUnknownArgumentType]
    try:
        messages: tuple[Message, ...] = _adapter().validate_python(several)
    except ValueError:
        for one in several:
            if hasattr(one, "content") and hasattr(one, "type"):
                raise InputError(
                    f"{format_value(one)} is a message of another library; write convert_messages(messages), of "
                    "graphexec.integrations.langchain"
                ) from None
        return None
    return messages


# Any: a type adapter; the module is imported where it is used.
@cache
def _adapter() -> Any:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(tuple[Annotated[Message, Field(discriminator="role")], ...])
