"""The messages of a conversation, and a conversation as a string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal, TypeAlias

from graphexec.messages.images import Image


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Standing instructions."""

    content: str
    # Distinguishes the kinds of messages in JSON, here and below.
    role: Literal["system"] = field(default="system", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message from the person, or from the program in their place, and the images in it."""

    content: str
    images: tuple[Image, ...] = ()
    role: Literal["user"] = field(default="user", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requests. `arguments` is the string as received: JSON if it follows the protocol."""

    id: str
    name: str
    arguments: str


def with_own_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls of a message, each with an id of its own, since its result must refer to it.

    An empty id, and one that a call before has, becomes `call_` with the call's place, or with the next free number.
    """
    used = {call.id for call in calls}
    if len(used) == len(calls) and "" not in used:
        return tuple(calls)
    own: list[ToolCall] = []
    taken = {""}
    for place, call in enumerate(calls):
        one = call.id
        if one in taken:
            one = next(made for number in count(place) if (made := f"call_{number}") not in used)
            used.add(one)
        taken.add(one)
        own.append(replace(call, id=one))
    return tuple(own)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A part of the reasoning that a model writes before its answer.

    `text` is what the provider shows of it, perhaps nothing. `data` is the part as JSON of the `provider`, the only one
    that can read it; it is sent back where the provider needs it. Its place in the message is after so many characters
    of the text, `after_text`, and so many calls, `after_calls`.
    """

    text: str
    data: str = ""
    provider: str = ""
    after_text: int = 0
    after_calls: int = 0


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """The model's text, the tools that it requests to call, and its reasoning."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    role: Literal["assistant"] = field(default="assistant", init=False, repr=False)

    @property
    def parts(self) -> Iterator[str | Reasoning | ToolCall]:
        """The pieces of the text, the parts of the reasoning and the calls, in the order in which they were written."""
        text = calls = 0
        for thought in self.reasoning:
            text, begun = max(text, thought.after_text), text
            yield from filter(None, [self.content[begun:text]])
            calls, begun = max(calls, thought.after_calls), calls
            yield from self.tool_calls[begun:calls]
            yield thought
        yield from filter(None, [self.content[text:]])
        yield from self.tool_calls[calls:]

    def with_calls(self, calls: Sequence[ToolCall]) -> AssistantMessage:
        """Return the message with some of its calls, between the same parts."""
        thoughts: list[Reasoning] = []
        left = list(calls)
        for part in self.parts:
            if isinstance(part, Reasoning):
                thoughts.append(replace(part, after_calls=len(calls) - len(left)))
            elif left and part == left[0]:
                left.pop(0)
        return replace(self, tool_calls=tuple(calls), reasoning=tuple(thoughts))


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of the tool call `call_id`, as a string for the model, and the images in it."""

    call_id: str
    content: str
    images: tuple[Image, ...] = ()
    role: Literal["tool"] = field(default="tool", init=False, repr=False)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def transcript(messages: Iterable[Message], *, human: str = "Human", ai: str = "AI") -> str:
    """Return a conversation as a string, with a line `Human: ...`, `AI: ...`, `System: ...` or `Tool: ...` per message.

    A tool call follows as `name(arguments)`, an image as `[image 1: image/png, 12 kB]`. Contents are not escaped: they
    may contain lines that look like these.
    """
    return "\n".join([_line(message, human, ai) for message in messages])


def _line(message: Message, human: str, ai: str) -> str:
    match message:
        case SystemMessage(content):
            return f"System: {content}"
        case UserMessage(content, images):
            return f"{human}: {_with_labels(content, images)}"
        case AssistantMessage(content, calls):
            called = "\n".join([f"{call.name}({call.arguments})" for call in calls])
            return f"{ai}: {content}\n{called}" if content and called else f"{ai}: {content or called}"
        case ToolMessage(_, content, images):
            return f"Tool: {_with_labels(content, images)}"


def _with_labels(content: str, images: Sequence[Image]) -> str:
    """Return a content with the labels of its images, unless it has them already, as an observation does."""
    labels = [image.label(number) for number, image in enumerate(images, 1)]
    return "\n".join([part for part in (content, *labels) if part and (part is content or part not in content)])
