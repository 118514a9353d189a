"""The messages of a run, made once and shared by its requests, with what was derived of them, such as their JSON."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar, final, overload

from graphexec.messages.conversation import Message

T = TypeVar("T")
# Returns a text that is derived of some messages, or `None` if they cannot be handled without those around them.
DeriveText: TypeAlias = Callable[[Sequence[Message]], str | None]


@final
@dataclass(frozen=True, slots=True)
class MessageTurn:
    """A reply of the model with its results: the messages of the steps up to `end`.

    A turn that is `closed` does not depend on later steps; one that is not may have further results in them.
    """

    end: int
    messages: Sequence[Message]
    closed: bool = True


class StepsLike(Sized, Protocol):
    """The steps of a run. What was derived of them, in `memo`, is shared with their extensions."""

    @property
    def memo(self) -> dict[Any, Any]:
        """What was derived, by what derived it."""
        ...


# Makes the turns of the steps from a position on, at which a turn begins. Any: the steps of a run are above this layer.
TurnMaker: TypeAlias = Callable[[Any, int], Iterator[MessageTurn]]
# Returns other messages for a turn, by the number of steps before it, or for the head, with -1. It returns the same if
# it is called again, and is called with the turns in their order.
RewriteMessages: TypeAlias = Callable[[Sequence[Message], int], Sequence[Message]]


# Any: as above.
def _rewrite_turns(make_turns: TurnMaker, rewrite: RewriteMessages, steps: Any, first: int) -> Iterator[MessageTurn]:
    for turn in make_turns(steps, first):
        yield replace(turn, messages=rewrite(turn.messages, first))
        first = turn.end


@final
class Conversation(Sequence[Message]):
    """The messages of a run: the `head`, then the turns that `make_turns` makes from the steps.

    They are made when they are first read, and then shared by all requests of the run.
    """

    __slots__ = ("_head", "_make_turns", "_steps", "_turns")

    # Any: as above.
    def __init__(self, head: tuple[Message, ...], steps: Any, make_turns: TurnMaker) -> None:
        self._head = head
        self._steps: StepsLike = steps
        self._make_turns = make_turns
        # What was read: the turns, and the number of those that do not depend on later steps.
        self._turns: tuple[tuple[MessageTurn, ...], int] | None = None

    def _read(self) -> tuple[tuple[MessageTurn, ...], int]:
        if self._turns is None:
            steps, memo = self._steps, self._steps.memo
            known: tuple[MessageTurn, ...] = memo.get(self._make_turns, ())
            count = len(known)
            # The request is usually that of the longest run. A turn that is not closed is closed by the next one.
            while count and known[count - 1].end + (not known[count - 1].closed) > len(steps):
                count -= 1
            turns = (*known[:count], *self._make_turns(steps, known[count - 1].end if count else 0))
            closed = len(turns) if turns and turns[-1].closed else max(0, len(turns) - 1)
            if closed > len(known):
                # Threads that do so at once add equal turns.
                memo[self._make_turns] = turns[:closed]
            self._turns = turns, closed
        return self._turns

    def derive(self, key: Hashable, function: DeriveText, separator: str) -> list[str | None]:
        """Return what `derive_texts` returns; `function` is called once in a run for each turn and `key`."""
        turns, closed = self._read()
        memo, place = self._steps.memo, (self._make_turns, key)
        head, first, known, text = memo.get(place, (None, "", 0, ""))
        if head != self._head:
            first = function(self._head)
        if known > closed:
            # An earlier request is read again.
            known, text = 0, ""
        if known < closed:
            texts = [text, *[function(turn.messages) for turn in turns[known:closed]]]
            text = None if None in texts else separator.join(filter(None, texts))
        memo[place] = self._head, first, closed, text
        return [first, text, *[function(turn.messages) for turn in turns[closed:]]]

    def derive_items(self, key: Hashable, function: Callable[[Sequence[Message]], Sequence[T]]) -> list[T]:
        """Return the items that `function` makes of the head and of each turn.

        It is called once in a run for each turn and `key`, and again for another head.
        """
        turns, closed = self._read()
        memo, place = self._steps.memo, (self._make_turns, key)
        head, first, known = memo.get(place, (None, (), ()))
        if head != self._head:
            first = function(self._head)
        known = (*known[:closed], *[function(turn.messages) for turn in turns[len(known) : closed]])
        memo[place] = self._head, first, known
        return [*chain(first, *known, *[function(turn.messages) for turn in turns[closed:]])]

    def with_head(self, change: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> Conversation:
        """Return the conversation with another head, in constant time for the messages behind it."""
        return Conversation(change(self._head), self._steps, self._make_turns)

    def rewritten(self, key: Hashable, start: Callable[[], RewriteMessages]) -> Conversation:
        """Return the conversation with other messages, which the function that `start` returns makes of these.

        It is called once in a run for each turn and `key`, so what is derived of the other messages is shared, too.
        """
        memo, known = self._steps.memo, (self._make_turns, key)
        if known not in memo:
            rewrite = start()
            memo.setdefault(known, (rewrite, partial(_rewrite_turns, self._make_turns, rewrite)))
        # It is kept, as turns are known by the function that made them.
        rewrite, turns = memo[known]
        return Conversation(tuple(rewrite(self._head, -1)), self._steps, turns)

    def __reduce__(self) -> tuple[type[Conversation], tuple[tuple[Message, ...], StepsLike, TurnMaker]]:
        # What was read can be read again.
        return Conversation, (self._head, self._steps, self._make_turns)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._head, *self._parts())

    def __len__(self) -> int:
        return len(self._head) + sum(map(len, self._parts()))

    def _parts(self) -> list[Sequence[Message]]:
        return [turn.messages for turn in self._read()[0]]

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


def derive_texts(
    messages: Sequence[Message], key: Hashable, function: DeriveText, separator: str
) -> Sequence[str] | None:
    """Return texts that make the text of all messages if they are joined; `None` if `function` returns `None`.

    `function` is called with the head of a conversation, and with each of its turns, which begin with a message of the
    assistant. Other messages are one part. The `key` names the function.
    """
    # The class is final, and this is cheaper than `isinstance`.
    several = messages.derive(key, function, separator) if type(messages) is Conversation else [function(messages)]
    texts = [text for text in several if text is not None and text != ""]
    return None if None in several else texts
