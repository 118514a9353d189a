"""A conversation that grows with a run's steps and is not copied at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from graphexec.actions import Steps
from graphexec.errors import InputError
from graphexec.messages import Message


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


def earlier(inputs: Mapping[str, Any], key: str) -> tuple[Message, ...]:
    """The messages of an earlier conversation in the inputs, if any. Raises `InputError` for anything else."""
    if key not in inputs:
        return ()
    given: Sequence[Message] = inputs[key]
    # Users pass texts and pairs.
    if not isinstance(given, (tuple, list)) or not all(isinstance(one, Message) for one in given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"the input {key} is {given!r}; give messages, as a memory with as_messages=True does")
    return tuple(given)
