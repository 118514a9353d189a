"""Requests to a model and its replies, independent of any provider's format."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from graphexec._mistakes.remedies import find_wrong_message
from graphexec._parsing.reasoning import split_reasoning
from graphexec.errors import InputError, InvalidReplyError, format_value, repr_fields
from graphexec.kernel.meters import is_number, is_whole


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Standing instructions."""

    content: str
    # Distinguishes the kinds of messages in JSON, here and below.
    role: Literal["system"] = field(default="system", init=False, repr=False)


# The first bytes of the image formats that models read. A WebP file has its length after the first four.
_FORMATS = (
    (re.compile(rb"\x89PNG"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)
# Bytes that are enough to recognize a format.
_HEAD = 16
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"image/[a-z0-9][a-z0-9!#$&^_.+-]*", re.IGNORECASE)
# Characters of an address that a label shows.
_SHOWN = 100
_KILO = 1_000

# Distinguishes an image from other JSON, such as the stored result of a tool.
ImageKind: TypeAlias = Literal["graphexec.image"]
IMAGE_KIND: ImageKind = "graphexec.image"


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image for a model. `url` is an address that the provider can fetch, or a `data:` URL with the image itself.

    A `data:` URL is sent whole in each request, and stored whole in each snapshot, so shrink large images first.
    Raises `InputError` for any other string, for a `data:` URL that is not base64, and for one that is not an image.
    """

    url: str
    kind: ImageKind = field(default=IMAGE_KIND, init=False)

    def __post_init__(self) -> None:
        # Users may pass a path, bytes or any other value.
        if not isinstance(self.url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"the image URL is {format_value(self.url)}; give a string, or use Image.from_bytes(data) for bytes"
            )
        if self.is_data:
            _check_data(self.url)
        elif _ADDRESS.fullmatch(self.url) is None:
            raise InputError(
                f"the image URL {format_value(self.url)} does not begin with https:// or data:; for a file, pass a "
                "pathlib.Path as an input, or use Image.from_bytes(path.read_bytes())"
            )

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, media_type: str | None = None) -> Image:
        """Return an image as a `data:` URL. `media_type` is needed only for a format that models seldom read.

        Raises `InputError` if neither you nor the data names the media type, or if they differ.
        """
        # Users may pass a path, a string or an image of another library.
        if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Image.from_bytes was given {format_value(data)}; give bytes, such as path.read_bytes()")
        found = _find_format(bytes(data[:_HEAD])) if media_type is None else media_type
        if found is None:
            raise InputError(
                "the bytes are not a PNG, JPEG, GIF or WebP image; pass their media_type, such as image/png"
            )
        return cls(f"data:{found};base64,{base64.b64encode(data).decode()}")

    @property
    def is_data(self) -> bool:
        """True for a `data:` URL, which has the image itself, and false for an address."""
        return self.url[:5].lower() == "data:"

    @property
    def media_type(self) -> str:
        """The media type of a `data:` URL, such as `image/png`; empty for an address."""
        if not self.is_data:
            return ""
        name = self.url[5 : self.url.index(",")].partition(";")[0].lower()
        # A common misspelling, which some providers reject.
        return "image/jpeg" if name == "image/jpg" else name

    @property
    def data(self) -> str:
        """The base64 of a `data:` URL; empty for an address."""
        return self.url.partition(",")[2] if self.is_data else ""

    def label(self, number: int) -> str:
        """Return the text that stands for the image in prompts and traces: `[image 1: image/png, 12 kB]`."""
        return f"[image {number}: {self}]"

    def __str__(self) -> str:
        if not self.is_data:
            return self.url if len(self.url) <= _SHOWN else f"{self.url[: _SHOWN - 1]}…"
        length = len(self.url) - self.url.index(",") - 1
        return f"{self.media_type}, {_format_size(length * 3 // 4 - self.url[-2:].count('='))}"

    def __repr__(self) -> str:
        return f"<Image {self}>"


def _find_format(head: bytes) -> str | None:
    return next((kind for start, kind in _FORMATS if start.match(head)), None)


def _check_data(url: str) -> None:
    """Raise `InputError` for a `data:` URL that is not an image in base64."""
    header, _, data = url.partition(",")
    media_type, _, options = header[5:].lower().partition(";")
    if _MEDIA_TYPE.fullmatch(media_type) is None:
        raise InputError(
            f"the image has the media type {format_value(media_type)}; give that of an image, such as image/png"
        )
    try:
        head = base64.b64decode(data, validate=True)[:_HEAD] if options.endswith("base64") else b""
    except ValueError:
        head = b""
    if not head:
        raise InputError("the image's data: URL is empty or not in base64; use Image.from_bytes(data)")
    found = _find_format(head)
    if found is not None and found != media_type and (found, media_type) != ("image/jpeg", "image/jpg"):
        raise InputError(f"the image has the media type {media_type}, but its bytes are {found}; give {found}")


def _format_size(size: int) -> str:
    if size < _KILO:
        return f"{size} bytes"
    return f"{size / _KILO:.0f} kB" if size < _KILO**2 else f"{size / _KILO**2:.1f} MB"


def to_image(value: object) -> Image | None:
    """Return an image, or the image that its JSON data describe; `None` for any other value."""
    match value:
        case Image():
            return value
        case {"kind": "graphexec.image", "url": str(url)}:
            with suppress(InputError):
                return Image(url)
        case _:
            pass
    return None


# Any: JSON values.
def replace_images(data: Any, change: Callable[[Image], Any]) -> Any:
    """Return JSON data with `change(image)` in place of each image, in their order."""
    if (image := to_image(data)) is not None:
        return change(image)
    if isinstance(data, dict):
        return {name: replace_images(one, change) for name, one in data.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(data, list):
        return [replace_images(one, change) for one in data]  # pyright: ignore[reportUnknownVariableType]
    return data


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


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A part of the reasoning that a model writes before its answer.

    `text` is what the provider shows of it, perhaps nothing. `data` is the part as JSON of the `provider`, the only one
    that can read it; it is sent back where the provider needs it.
    """

    text: str
    data: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """The model's text, the tools that it requests to call, and its reasoning before both."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    role: Literal["assistant"] = field(default="assistant", init=False, repr=False)


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


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` is the JSON schema of an object."""

    name: str
    description: str
    # A JSON schema: its values are arbitrary JSON.
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue.

    `tools` are offered for native calls. `tool_choice` is `auto` (the model decides), `none` (no calls), `required` (at
    least one call), or the name of a tool that the model must call. The reply ends before the first of the `stop`
    strings. `schema` is the JSON schema that the reply's text must follow.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    stop: tuple[str, ...] = ()
    # A JSON schema: its values are arbitrary JSON.
    schema: Mapping[str, Any] | None = None
    tool_choice: str = "auto"

    def __post_init__(self) -> None:
        # Users without a type checker pass a string, a single message, or messages of another library. Classes are
        # compared first, which is faster than `isinstance` for each message of a long history.
        messages = self.messages
        if type(messages) not in _LISTS or not _MESSAGES.issuperset(map(type, messages)):
            fault = find_wrong_message(messages, tuple(_MESSAGES))
            if fault is not None:
                raise InputError(fault)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A string to continue, up to the first of the `stop` strings."""

    prompt: str
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"CompletionRequest has prompt={format_value(self.prompt)}; give a string, or messages in a ChatRequest"
            )


_LISTS = frozenset[type]({list, tuple})
_MESSAGES = frozenset[type]({SystemMessage, UserMessage, AssistantMessage, ToolMessage})


ModelRequest: TypeAlias = ChatRequest | CompletionRequest


def images_of(request: ModelRequest) -> Iterator[Image]:
    """Yield the images in the messages of a request."""
    for message in request.messages if isinstance(request, ChatRequest) else ():
        if isinstance(message, (UserMessage, ToolMessage)):
            yield from message.images


@dataclass(frozen=True, slots=True, repr=False)
class Usage:
    """The tokens of one or more model calls. `cached_tokens` are those of the prompt that the provider had stored."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of both, which a limit on tokens counts."""
        return self.prompt_tokens + self.completion_tokens

    def __repr__(self) -> str:
        return repr_fields(self)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "other"]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's whole answer. `finish_reason` is `length` if it was cut at the model's token limit.

    `content` is the answer alone; `reasoning` is what the model wrote before it, which is never parsed. `model` is the
    name that the server reports, or empty. `cost` is an amount of money, known only for `priced` models.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default=Usage())
    finish_reason: FinishReason = "stop"
    model: str = ""
    cost: float | None = None
    reasoning: tuple[Reasoning, ...] = ()

    @property
    def message(self) -> AssistantMessage:
        """The answer as a message of the conversation."""
        return AssistantMessage(self.content, self.tool_calls, self.reasoning)


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """A piece of a streamed answer: text, reasoning, or a part of the tool call `index`.

    A `ModelReply` ends the stream.
    """

    content: str = ""
    index: int | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    reasoning: str = ""


def check_reply(reply: object, model: str) -> ModelReply:
    """Return the reply of the model named `model`, with the reasoning in its content as `reasoning`.

    Every code path that asks a model calls this, because limits count the usage and the cost. Raises
    `InvalidReplyError` if it is not a valid `ModelReply`.
    """
    if not isinstance(reply, ModelReply):
        raise InvalidReplyError(
            f"the model {model} returned {format_value(reply)}; return a ModelReply, and end a stream with one"
        )
    usage = reply.usage
    # A user's model may return any value.
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid_reply(model, "usage", usage, "pass Usage(prompt_tokens, completion_tokens), or leave it out")
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        count: object = getattr(usage, name)
        if not is_whole(count) or count < 0:
            raise _invalid_reply(model, name, count, "pass a whole number, 0 or more")
    cost: object = reply.cost
    if cost is not None and (not is_number(cost) or cost < 0):
        raise _invalid_reply(model, "cost", cost, "pass a finite number, 0 or more, or None")
    return separate_reasoning(reply)


def separate_reasoning(reply: ModelReply) -> ModelReply:
    """Return the reply with the reasoning that its content begins with, such as `<think>...</think>`, as `reasoning`.

    The content may also begin within the reasoning and have only the closing tag, because many prompts end with the
    opening one; without a closing tag all of it is reasoning. In quotes and in code, tags are text.
    """
    reasoning, content = split_reasoning(reply.content)
    if reasoning is None:
        return reply
    return replace(reply, content=content, reasoning=(*reply.reasoning, *([Reasoning(reasoning)] if reasoning else ())))


def _invalid_reply(model: str, field: str, value: object, remedy: str) -> InvalidReplyError:
    return InvalidReplyError(f"the model {model} returned a reply with {field}={format_value(value)}; {remedy}")


class Model(Protocol):
    """A language model: anything with these two methods.

    It may have more: `stream` and `astream`, `name` and `provider` (strings), and `check_access`, which raises an error
    before a run if calls cannot be made, as for a missing API key.
    """

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds if given. Raises `ModelError`."""
        ...

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does."""
        ...


def check_access(called: object) -> None:
    """Call the method `check_access` of a model or a tool, if it has one: it raises an error if calls must fail."""
    # Any: a method that the protocol does not require.
    check: Any = getattr(called, "check_access", None)
    if check is not None:
        check()
