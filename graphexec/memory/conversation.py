"""What a run remembers of the runs before it: the conversation, whole or its last turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, final

from graphexec._arguments import FLAG, TEXT, Constraint, check, whole
from graphexec.agents.prompt import format_observation
from graphexec.errors import InputError
from graphexec.memory.history import HISTORY, History, MemoryHistory, Turn
from graphexec.messages import AssistantMessage, Message, UserMessage, transcript
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync

T = TypeVar("T")


class Memory(Protocol):
    """What gives a run inputs of its own, and is told what came of it: anything with these five.

    `inputs` are what the caller passed, `outputs` what the run returned. Several runs at once may share a memory.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the inputs that it provides."""
        ...

    def load(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return those inputs, before a run."""
        ...

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Remember a run that ended without an error. Where this raises, store nothing: it is called again."""

    async def aload(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return those inputs, as `load` does."""
        ...

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Remember a run, as `save` does."""


@final
@dataclass(frozen=True, slots=True)
class MemoryNotSaved:
    """News: the run's time was over before it was saved; the save had `seconds`, and the run ended without it.

    A save that was begun goes on, in its thread or task, until the process or the event loop ends.
    """

    seconds: float

    def __str__(self) -> str:
        return f"the memory had not saved this run after {self.seconds:.3g} seconds; the run ended without it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnMemory:
    """What the memories of a conversation's turns have in common.

    A run's turn is `inputs[input_key]` with `outputs[output_key]`: text as it is, anything else as JSON. What is loaded
    is the one input `key`: the turns as text, a line `Human: ...` and a line `AI: ...` each, with `human` and `ai` for
    these names; or, `as_messages`, a tuple of user and assistant messages, which cannot be mistaken for one another.

    Without a `history` it has one of its own in memory. Two memories with one history share the conversation. A turn is
    added when its run ends. Raises `InputError` for an invalid option; `save` does for inputs without `input_key`, and
    for outputs without `output_key`.
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
        check(
            owner,
            ("history", self.history, HISTORY),
            *((name, getattr(self, name), TEXT) for name in ("key", "input_key", "output_key", "human", "ai")),
            ("as_messages", self.as_messages, FLAG),
        )
        if self.key == self.input_key:
            raise InputError(
                f"{owner}'s key and input_key are both {self.key}, and what a caller passes hides what is remembered; "
                "give them two names"
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of the one input that it provides."""
        return (self.key,)

    # What is remembered does not depend on what is asked now; another memory's may.
    def load(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:  # noqa: ARG002
        """Return what is remembered as `{key: ...}`."""
        return run_sync(self._load(BLOCKING))

    async def aload(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:  # noqa: ARG002 - as `load`
        """Return what is remembered, as `load` does."""
        return await self._load(ASYNC)

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Put this turn behind the others."""
        run_sync(self._save(self._turn(inputs, outputs), BLOCKING))

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        """Put this turn behind the others, as `save` does."""
        await self._save(self._turn(inputs, outputs), ASYNC)

    def clear(self) -> None:
        """Forget everything."""
        for history in self._histories():
            history.clear()

    async def _load(self, io: IO) -> dict[str, Any]:
        return {self.key: await self._call(self._history_value, io)}

    async def _save(self, turn: Turn, io: IO) -> None:
        await self._call(lambda: self.history.add(turn), io)

    async def _call(self, function: Callable[[], T], io: IO) -> T:
        if all(getattr(history, "instant", False) for history in self._histories()):
            return function()
        return await io.call(function)

    def _histories(self) -> tuple[History, ...]:
        return (self.history,)

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        return turns

    def _history_value(self) -> str | tuple[Message, ...]:
        turns = self._select_turns(self.history.turns())
        return self._messages(turns) if self.as_messages else self._text(turns)

    def _turn(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Turn:
        return Turn(
            _text_at(self.input_key, inputs, f"{type(self).__name__}'s input_key", "inputs"),
            _text_at(self.output_key, outputs, f"{type(self).__name__}'s output_key", "outputs"),
        )

    def _text(self, turns: Sequence[Turn]) -> str:
        return transcript(self._messages(turns), human=self.human, ai=self.ai)

    def _messages(self, turns: Sequence[Turn]) -> tuple[Message, ...]:
        return tuple(said for turn in turns for said in (UserMessage(turn.input), AssistantMessage(turn.output)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BufferMemory(TurnMemory):
    """The whole conversation. It grows with every run; `TurnMemory` tells of the options."""

    # Said again because it may be passed by position here.
    history: History = field(default_factory=MemoryHistory)


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowMemory(TurnMemory):
    """The last `turns` of the conversation, none for zero; `TurnMemory` tells of the other options.

    The history keeps the older ones. Raises `InputError` for a number that is none, or negative.
    """

    turns: int

    def __post_init__(self) -> None:
        TurnMemory.__post_init__(self)
        check("WindowMemory", ("turns", self.turns, whole(0)))

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        return turns[max(0, len(turns) - self.turns) :]


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for four characters, rounded up, which is about right for English prose."""
    return (len(text) + 3) // 4


_COUNTING = Constraint("a function from a text to how many tokens it has", callable)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TokenWindowMemory(TurnMemory):
    """The last turns that fit into `max_tokens` together; `TurnMemory` tells of the other options.

    A turn costs what `count` says of its two lines with the line break behind them, messages too. A last turn that is
    too long for `max_tokens` leaves none. The history keeps the older ones. Raises `InputError` for an invalid number.
    """

    max_tokens: int
    count: Callable[[str], int] = field(default=estimated_tokens, kw_only=True)

    def __post_init__(self) -> None:
        TurnMemory.__post_init__(self)
        check("TokenWindowMemory", ("max_tokens", self.max_tokens, whole(0)), ("count", self.count, _COUNTING))

    def _select_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        first, left = len(turns), self.max_tokens
        while first > 0:
            left -= self.count(f"{self._text(turns[first - 1 : first])}\n")
            if left < 0:
                break
            first -= 1
        return turns[first:]


def _text_at(key: str, values: Mapping[str, Any], option: str, place: str) -> str:
    if key not in values:
        there = ", ".join(map(str, values)) or "none"
        raise InputError(
            f"{option} is {key}, which the {place} have not; the keys there are: {there}; name one of them",
            missing=[key],
        )
    # A text of a class of its own, an enumeration's say, becomes plain text, as it would by being stored.
    return str.__str__(format_observation(values[key]))
