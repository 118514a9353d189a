"""The turns of a conversation, and the histories that store them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, final

from graphexec._arguments import has_methods
from graphexec.errors import InputError, format_value
from graphexec.messages import Image


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """The input of a run with its images, and the agent's answer. Raises `InputError` for values of other types."""

    input: str
    output: str
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("input", self.input), ("output", self.output)):
            # Without this check an invalid turn would fail only when it is read again.
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"Turn's {name} is of the class {type(value).__name__}; pass a string")
        if not isinstance(self.images, tuple) or not all(isinstance(image, Image) for image in self.images):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Turn's images are {format_value(self.images)}; pass a tuple of Image")


class History(Protocol):
    """Stores the turns of one conversation: any object with these three methods.

    Several threads may call them concurrently. An async run calls a history without `instant = True` in a thread.
    """

    def turns(self) -> Sequence[Turn]:
        """Return every turn, the oldest first."""
        ...

    def add(self, turn: Turn, /) -> None:
        """Append a turn: all of it or, if this raises, nothing."""

    def clear(self) -> None:
        """Delete every turn."""


HISTORY = has_methods("MemoryHistory() or SQLiteHistory(path, conversation=name)", "turns", "add", "clear")


@final
class MemoryHistory:
    """A history in memory, which is lost when the process ends."""

    instant: ClassVar[bool] = True
    """It never blocks, so an async run calls it without a thread."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        # Each method does one atomic operation on the list, so threads need no lock.
        self._turns: list[Turn] = []

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first."""
        return tuple(self._turns)

    def add(self, turn: Turn, /) -> None:
        """Append a turn."""
        self._turns.append(turn)

    def clear(self) -> None:
        """Delete every turn."""
        self._turns.clear()

    def __repr__(self) -> str:
        return f"<MemoryHistory: {len(self._turns)} turns>"
