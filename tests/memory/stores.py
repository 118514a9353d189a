"""Histories and texts that the tests of memory need."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st

from graphexec.memory import History, MemoryHistory, SQLiteHistory, Turn
from graphexec.messages import Image
from tests.models.pictures import ADDRESS, CAT, DOG

# Opens one and the same history again and again.
Store: TypeAlias = Callable[[], History]

# What JSON, lines, SQLite and UTF-8 each stumble over: ends of lines, NUL, halves of surrogate pairs, their pair.
awkward = st.sampled_from(["\n", "\r\n", "\u2028", "\x85", "\x00", '"', "\\", "\ud83d", "\ude00", "\ud83d\ude00", "😀"])
texts = st.lists(st.text(max_size=5) | awkward, max_size=4).map("".join)
images = st.lists(st.sampled_from([CAT, DOG, ADDRESS, Image("https://a/\ud83d")]), max_size=2).map(tuple)
turns = st.builds(Turn, texts, texts)
turns_with_images = st.builds(Turn, texts, texts, images)


def turn(number: int) -> Turn:
    return Turn(f"in{number}", f"out{number}")


_numbers = itertools.count()


def stores(directory: Path) -> dict[str, Store]:
    """A new, empty history of each kind."""
    in_memory = MemoryHistory()
    number = next(_numbers)
    return {
        "memory": lambda: in_memory,
        "sqlite": lambda: SQLiteHistory(directory / "all.sqlite", conversation=f"{number}"),
    }


class SlowHistory:
    """A history that is not `instant`, and knows the threads that called it."""

    def __init__(self) -> None:
        self.kept = MemoryHistory()
        self.threads: set[int] = set()

    def turns(self) -> tuple[Turn, ...]:
        self.threads.add(threading.get_ident())
        return self.kept.turns()

    def add(self, turn: Turn, /) -> None:
        self.threads.add(threading.get_ident())
        self.kept.add(turn)

    def clear(self) -> None:
        self.kept.clear()
