"""Memories of a conversation: all of it, or its last turns; and the handlers that load and save them in runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, final

from graphexec._arguments import FLAG, STRING, Constraint, validate, whole
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MEMORY_OPTIONS
from graphexec.agents.images import input_images
from graphexec.agents.prompt import format_observation
from graphexec.effects import LoadMemory, SaveMemory
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Cut
from graphexec.memory.history import HISTORY, History, MemoryHistory, Turn
from graphexec.messages import AssistantMessage, Image, Message, UserMessage, transcript
from graphexec.runtime.calls import current_call, report, scope_of
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync
from graphexec.runtime.threads import NOT_DONE, NotDone, wait_for

T = TypeVar("T")


class Memory(Protocol):
    """An object that provides inputs to a run and saves its result: any object with these five members.

    `inputs` are those that the caller passed, `outputs` those that the run returned. Concurrent runs may share a
    memory.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the inputs that it provides."""
        ...

    def load(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return those inputs, before a run."""
        ...

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Save a run that ended without an error. If it raises, it must have stored nothing: it is called again."""

    async def aload(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return those inputs, as `load` does."""
        ...

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Save a run, as `save` does."""


@final
@dataclass(frozen=True, slots=True)
class MemoryNotSaved:
    """A report that the run was not saved within the `seconds` that were left; the run ended without waiting.

    A save that has begun continues in its thread or task until the process or the event loop ends.
    """

    seconds: float

    def __str__(self) -> str:
        return f"the memory did not save this run within {self.seconds:.3g} seconds; the run ended without it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnMemory:
    """The base of the memories of a conversation.

    A run's turn is `inputs[input_key]` with `outputs[output_key]`: a string as it is, any other value as JSON. The
    images in the input `images` are stored with it. `load` provides the one input `key`. It is a string with a line
    `Human: ...` and a line `AI: ...` for each turn (`human` and `ai` change these names), in which labels stand for
    images. With `as_messages` it is a tuple of user and assistant messages instead, which are unambiguous. In a stored
    run, the turn has the id of its call as the `key`, so that a history adds it once.

    The default `history` is a new one in memory. Two memories with the same history share the conversation. A turn is
    added when its run ends. Raises `InputError` for an invalid option; `save` raises it for inputs without `input_key`
    and for outputs without `output_key`.
    """

    history: History = field(default_factory=MemoryHistory)
    key: str = "chat_history"
    input_key: str = "input"
    output_key: str = "output"
    as_messages: bool = False
    human: str = "Human"
    ai: str = "AI"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        validate(
            owner,
            ("history", self.history, HISTORY),
            *((name, getattr(self, name), STRING) for name in ("key", "input_key", "output_key", "human", "ai")),
            ("as_messages", self.as_messages, FLAG),
        )
        if self.key == self.input_key:
            raise InputError(
                f"{owner}'s key and input_key are both {self.key}, so the caller's input would hide the conversation; "
                "give them different names"
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of the input that it provides."""
        return (self.key,)

    # The result does not depend on the inputs here; that of another memory may.
    def load(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:  # noqa: ARG002
        """Return the conversation as `{key: ...}`."""
        return run_sync(self._load(BLOCKING))

    async def aload(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:  # noqa: ARG002 - as `load`
        """Return the conversation, as `load` does."""
        return await self._load(ASYNC)

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Append this turn to the history."""
        run_sync(self._save(self._turn(inputs, outputs), BLOCKING))

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Append this turn to the history, as `save` does."""
        await self._save(self._turn(inputs, outputs), ASYNC)

    def clear(self) -> None:
        """Delete every turn."""
        self.history.clear()

    async def _load(self, io: IO) -> dict[str, Any]:
        return {self.key: await self._call(self._history_value, io)}

    async def _save(self, turn: Turn, io: IO) -> None:
        await self._call(lambda: self.history.add(turn), io)

    async def _call(self, function: Callable[[], T], io: IO) -> T:
        return function() if getattr(self.history, "instant", False) else await io.call(function)

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        return turns

    def _history_value(self) -> str | tuple[Message, ...]:
        turns = self._select_turns(self.history.turns())
        return self._messages(turns) if self.as_messages else self._text(turns)

    def _turn(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Turn:
        return Turn(
            _text_at(self.input_key, inputs, f"{type(self).__name__}'s input_key", "inputs"),
            _text_at(self.output_key, outputs, f"{type(self).__name__}'s output_key", "outputs"),
            _images_in(inputs),
            "" if (call := current_call()) is None or scope_of(call).log is None else str(call.id),
        )

    def _text(self, turns: Sequence[Turn]) -> str:
        return transcript(self._messages(turns), human=self.human, ai=self.ai)

    def _messages(self, turns: Sequence[Turn]) -> tuple[Message, ...]:
        return tuple(
            one for turn in turns for one in (UserMessage(turn.input, turn.images), AssistantMessage(turn.output))
        )


@final
@explain_class("BufferMemory()", options=MEMORY_OPTIONS)
@dataclass(frozen=True, slots=True, eq=False)
class BufferMemory(TurnMemory):
    """The whole conversation, which grows with every run. `TurnMemory` describes the options."""

    # Repeated because it may be positional here.
    history: History = field(default_factory=MemoryHistory)


@final
@explain_class("WindowMemory(turns=3)", options=MEMORY_OPTIONS)
@dataclass(frozen=True, slots=True, eq=False)
class WindowMemory(TurnMemory):
    """The last `turns` of the conversation (0 for none). `TurnMemory` describes the other options.

    The history keeps the older turns. Raises `InputError` if `turns` is not a whole number, 0 or more.
    """

    turns: int

    def __post_init__(self) -> None:
        TurnMemory.__post_init__(self)
        validate("WindowMemory", ("turns", self.turns, whole(0)))

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        return turns[max(0, len(turns) - self.turns) :]


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens in a string: one for four characters, rounded up, which suits English prose."""
    return (len(text) + 3) // 4


_COUNTING = Constraint("a function from a string to its number of tokens", callable)


@final
@explain_class("TokenWindowMemory(max_tokens=1000)", options=MEMORY_OPTIONS)
@dataclass(frozen=True, slots=True, eq=False)
class TokenWindowMemory(TurnMemory):
    """The last turns that fit into `max_tokens` together. `TurnMemory` describes the other options.

    `count` returns the tokens of a turn: of its two lines with a final line break, for messages as well. Each image in
    messages counts as `image_tokens`. If the last turn alone exceeds `max_tokens`, there are no turns. The history
    keeps the older turns. Raises `InputError` for an invalid number.
    """

    max_tokens: int
    count: Callable[[str], int] = field(default=estimated_tokens, kw_only=True)
    # For a photo, providers count up to about 1,500 tokens, depending on its size.
    image_tokens: int = field(default=1_000, kw_only=True)

    def __post_init__(self) -> None:
        TurnMemory.__post_init__(self)
        validate(
            "TokenWindowMemory",
            ("max_tokens", self.max_tokens, whole(0)),
            ("count", self.count, _COUNTING),
            ("image_tokens", self.image_tokens, whole(0)),
        )

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        first, left = len(turns), self.max_tokens
        while first > 0:
            images = len(turns[first - 1].images) if self.as_messages else 0
            left -= self.count(f"{self._text(turns[first - 1 : first])}\n") + images * self.image_tokens
            if left < 0:
                break
            first -= 1
        return turns[first:]


def _images_in(inputs: Mapping[str, Any]) -> tuple[Image, ...]:
    """Return the images in the inputs of a run; none if `images` is a text of the user's own template."""
    try:
        return input_images(inputs, ())
    except InputError:
        return ()


def _text_at(key: str, values: Mapping[str, Any], option: str, place: str) -> str:
    if key not in values:
        keys = ", ".join(map(str, values)) or "none"
        raise InputError(
            f"{option} is {key}, which is missing from the {place}; the keys are: {keys}; name one of them",
            missing=[key],
        )
    # A subclass of str, such as an enumeration's, becomes a plain string, as it would when stored and loaded.
    return str.__str__(format_observation(values[key]))


def make_load_handler(memory: Memory) -> Handler:
    """Return a handler that answers `LoadMemory` with `memory.load` in sync runs, with `memory.aload` in async runs."""

    async def answer(effect: LoadMemory, call: CallContext[Any], io: IO) -> Mapping[str, Any]:
        del call
        inputs = dict(effect.inputs)
        loaded = await io.either(lambda: memory.load(inputs), lambda: memory.aload(inputs))
        # A user's memory may return another type.
        if not isinstance(loaded, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the memory loaded {format_value(loaded)}; return a dict of inputs by name")
        return loaded

    return Handler(answer)


def make_save_handler(memory: Memory) -> Handler:
    """Return a handler that answers `SaveMemory` with `memory.save` in sync runs, with `memory.asave` in async runs.

    A save that is not done at the deadline is not cancelled: it continues in the background, and the run reports
    `MemoryNotSaved`.
    """

    async def answer(effect: SaveMemory, call: CallContext[Any], io: IO) -> Cut | None:
        values = dict(effect.inputs), dict(effect.outputs)
        left = call.seconds_left
        if left is None:
            return await io.either(lambda: memory.save(*values), lambda: memory.asave(*values))
        seconds = max(0.0, left)

        async def save_or_leave() -> NotDone | None:
            # Imported here: this imports asyncio, which is slow to load and which a sync run never needs.
            from graphexec.runtime.tasks import await_for

            return await await_for(lambda: memory.asave(*values), seconds, detach=True)

        done = await io.either(lambda: wait_for(lambda: memory.save(*values), seconds), save_or_leave)
        if done is not NOT_DONE:
            return None
        report(MemoryNotSaved(seconds))
        return Cut()

    return Handler(answer, timed=True)
