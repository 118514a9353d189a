"""The turns of a conversation, and what keeps them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, final

from graphexec._arguments import PATH, check, having
from graphexec.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """What was said to the agent, and what it answered. Raises `InputError` for what is not text."""

    input: str
    output: str

    def __post_init__(self) -> None:
        for name, value in (("input", self.input), ("output", self.output)):
            # The annotation says so; a turn that is not text would be found out only when it is read again.
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"Turn's {name} is of the class {type(value).__name__}; pass text")


class History(Protocol):
    """What keeps the turns of one conversation: anything with these three methods.

    Several threads may call them at once. An async run calls a history without `instant = True` in a thread.
    """

    def turns(self) -> Sequence[Turn]:
        """Return every turn, the oldest first."""
        ...

    def add(self, turn: Turn, /) -> None:
        """Put a turn behind the others: the whole of it or, where this raises, nothing."""

    def clear(self) -> None:
        """Forget every turn."""


HISTORY = having(
    "MemoryHistory(), FileHistory(path) or SQLiteHistory(path, conversation=name)", "turns", "add", "clear"
)


@final
class MemoryHistory:
    """A history in memory: it ends with the process."""

    instant: ClassVar[bool] = True
    """It answers without waiting; an async run needs no thread for it."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        # Each method does one atomic thing with the list, so threads need no lock.
        self._turns: list[Turn] = []

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first."""
        return tuple(self._turns)

    def add(self, turn: Turn, /) -> None:
        """Put a turn behind the others."""
        self._turns.append(turn)

    def clear(self) -> None:
        """Forget every turn."""
        self._turns.clear()

    def __repr__(self) -> str:
        return f"<MemoryHistory: {len(self._turns)} turns>"


def file_of(owner: str, path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of `owner`'s file. Raises `InputError` where it cannot be written."""
    from pathlib import Path

    check(owner, ("path", path, PATH))
    file = Path(path).absolute()
    try:
        mode = file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except (OSError, ValueError) as error:
        # A name that is too long, or with a NUL in it; a folder that this user may not look into.
        fact = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{owner}'s path {file} cannot be used: {fact}; name another file") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(f"{owner}'s path {file} is a directory; name a file in it")
    if not file.parent.is_dir():
        raise InputError(f"{owner}'s path {file} is in no directory that there is; make {file.parent} first")
    if not os.access(file.parent if mode is None else file, os.W_OK):
        raise InputError(f"{owner}'s path {file} cannot be written to; give this user the right to, or name another")
    return file
