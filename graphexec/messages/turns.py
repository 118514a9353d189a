"""The messages of a run, made once and shared by its requests, with what was derived of them, such as their JSON."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain
from threading import RLock
from typing import Any, Protocol, Self, TypeAlias, final, overload

from graphexec.messages.conversation import Message

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

    def continues(self, earlier: Self) -> bool:
        """Return whether these steps are the earlier ones and perhaps more."""
        ...


# Makes the turns of the steps from a position on, at which a turn begins. Any: the steps of a run are above this layer.
TurnMaker: TypeAlias = Callable[[Any, int], Iterator[MessageTurn]]
# Returns other messages for a turn, by the number of steps before it, or for the head, with -1. It returns the same if
# it is called again, and is called with the turns in their order.
RewriteMessages: TypeAlias = Callable[[Sequence[Message], int], Sequence[Message]]


@final
class _TurnLog:
    """The closed turns of a run, which are only added to. Threads may share it."""

    __slots__ = ("_derived", "_heads", "_lock", "_needed", "ends", "turns")

    def __init__(self) -> None:
        self.turns: list[Sequence[Message]] = []
        # The numbers of steps and of messages up to the end of each turn.
        self.ends: list[tuple[int, int]] = []
        # The least number of steps of which the messages have the turn as it is here.
        self._needed: list[int] = []
        # By key: the number of turns, and the text derived of them; and the same for the last head.
        self._derived: dict[Hashable, tuple[int, str | None]] = {}
        self._heads: dict[Hashable, tuple[Sequence[Message], str | None]] = {}
        self._lock = RLock()

    def count(self, steps: int) -> int:
        """Return the number of turns that are part of the messages of a run with so many steps."""
        count = len(self._needed)
        # The request is usually that of the longest run.
        while count and self._needed[count - 1] > steps:
            count -= 1
        return count

    def extend(self, begun: int, turns: Sequence[MessageTurn]) -> None:
        """Add the turns after the first `begun` ones; those that another thread has added meanwhile are equal."""
        # No loop stands in a block that holds a lock; see `runtime.calls`.
        with self._lock:
            self._extend(turns[len(self.turns) - begun :])

    def _extend(self, turns: Sequence[MessageTurn]) -> None:
        _, messages = self.ends[-1] if self.ends else (0, 0)
        for turn in turns:
            messages += len(turn.messages)
            self.turns.append(turn.messages)
            self.ends.append((turn.end, messages))
            self._needed.append(turn.end if turn.closed else turn.end + 1)

    def derive(self, key: Hashable, function: DeriveText, separator: str, count: int) -> str | None:
        """Return the texts of the first `count` turns, joined; `None` if one is."""
        known, text = self._derived.get(key, (0, ""))
        if known > count:
            # An earlier request is read again.
            return join_texts(map(function, self.turns[:count]), separator)
        if known < count and text is not None:
            text = join_texts((text, *map(function, self.turns[known:count])), separator)
        self._derived[key] = count, text
        return text

    def derive_head(self, key: Hashable, function: DeriveText, head: Sequence[Message]) -> str | None:
        """Return the text of the messages before the turns, which are usually those of the last request."""
        kept = self._heads.get(key)
        if kept is None or kept[0] != head:
            kept = self._heads[key] = head, function(head)
        return kept[1]


def join_texts(texts: Iterable[str | None], separator: str) -> str | None:
    """Return the texts that are not empty, joined; `None` if one is `None`."""
    several = list(texts)
    return None if None in several else separator.join(filter(None, several))


@final
class _RewrittenTurns:
    """Makes the turns of a run with other messages. It is compared by identity, since `rewrite` keeps what it made."""

    __slots__ = ("_head", "_make_turns", "_rewrite")

    def __init__(self, make_turns: TurnMaker, rewrite: RewriteMessages) -> None:
        self._make_turns = make_turns
        self._rewrite = rewrite
        # The last head, and what it became.
        self._head: tuple[tuple[Message, ...], tuple[Message, ...]] = (), ()

    def rewrite_head(self, head: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the other messages of a head, which is usually that of the last request."""
        kept = self._head
        if kept[0] != head:
            kept = self._head = head, tuple(self._rewrite(head, -1))
        return kept[1]

    # Any: as above.
    def __call__(self, steps: Any, first: int) -> Iterator[MessageTurn]:
        for turn in self._make_turns(steps, first):
            yield replace(turn, messages=self._rewrite(turn.messages, first))
            first = turn.end


_Parts: TypeAlias = tuple[_TurnLog, int, Sequence[Sequence[Message]]]


@final
class Conversation(Sequence[Message]):
    """The messages of a run: the `head`, then the turns that `make_turns` makes from the steps.

    They are made when they are first read, and then shared by all requests of the run: a step takes constant time.
    """

    __slots__ = ("_head", "_make_turns", "_parts", "_steps")

    # Any: as above.
    def __init__(self, head: tuple[Message, ...], steps: Any, make_turns: TurnMaker) -> None:
        self._head = head
        self._steps: StepsLike = steps
        self._make_turns = make_turns
        # What was read, since it is read again to compare the next conversation with this one.
        self._parts: _Parts | None = None

    def _read(self) -> _Parts:
        """Return the log of the run, the number of its turns that are messages here, and the turns after these."""
        parts = self._parts
        if parts is None:
            parts = self._parts = self._read_steps()
        return parts

    def _read_steps(self) -> _Parts:
        steps, memo = self._steps, self._steps.memo
        log: _TurnLog = memo.get(self._make_turns) or memo.setdefault(self._make_turns, _TurnLog())
        count = log.count(len(steps))
        made = list(self._make_turns(steps, log.ends[count - 1][0] if count else 0))
        # A turn that is not closed is closed by the next one.
        closed = len(made) if made and made[-1].closed else len(made) - 1
        if closed > 0:
            log.extend(count, made[:closed])
            made = made[closed:]
            count += closed
        return log, count, [turn.messages for turn in made]

    def derive(self, key: Hashable, function: DeriveText, separator: str) -> list[str | None]:
        """Return what `derive_texts` returns; `function` is called once in a run for each turn and `key`."""
        log, count, rest = self._read()
        return [
            log.derive_head(key, function, self._head),
            log.derive(key, function, separator, count),
            *map(function, rest),
        ]

    def changes_since(self, earlier: Conversation) -> tuple[int, Sequence[Message], Sequence[Message]] | None:
        """Return what differs from an earlier conversation, or `None` if this does not continue it.

        That is: the number of first messages that both have, the earlier messages after these, and the messages here.
        It takes time linear in what is new.
        """
        continues = self._make_turns is earlier._make_turns and self._steps.continues(earlier._steps)
        if self._head != earlier._head or not continues:
            return None
        _, kept, before = earlier._read()
        log, count, rest = self._read()
        length = len(self._head) + (log.ends[kept - 1][1] if kept else 0)
        return length, list(chain(*before)), list(chain(*log.turns[kept:count], *rest))

    def with_head(self, change: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> Conversation:
        """Return the conversation with another head, in constant time for the messages behind it."""
        return Conversation(change(self._head), self._steps, self._make_turns)

    def rewritten(self, key: Hashable, start: Callable[[], RewriteMessages]) -> Conversation:
        """Return the conversation with other messages, which the function that `start` returns makes of these.

        It is called once in a run for each turn and `key`, so what is derived of the other messages is shared, too.
        """
        memo, known = self._steps.memo, (self._make_turns, key)
        turns: _RewrittenTurns = memo.get(known) or memo.setdefault(known, _RewrittenTurns(self._make_turns, start()))
        return Conversation(turns.rewrite_head(self._head), self._steps, turns)

    def __reduce__(self) -> tuple[type[Conversation], tuple[tuple[Message, ...], StepsLike, TurnMaker]]:
        # What was read can be read again.
        return Conversation, (self._head, self._steps, self._make_turns)

    def __iter__(self) -> Iterator[Message]:
        yield from self._head
        log, count, rest = self._read()
        yield from chain(*log.turns[:count], *rest)

    def __len__(self) -> int:
        log, count, rest = self._read()
        return len(self._head) + (log.ends[count - 1][1] if count else 0) + sum(map(len, rest))

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
