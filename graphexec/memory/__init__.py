"""Memory: the turns of a conversation that later runs load, and the histories that store them."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.memory.conversation import (
    BufferMemory,
    Memory,
    MemoryNotSaved,
    TokenWindowMemory,
    WindowMemory,
    estimated_tokens,
)
from graphexec.memory.history import CallCounter, History, MemoryHistory, SQLiteHistory, Turn

__all__ = [
    "BufferMemory",
    "CallCounter",
    "History",
    "Memory",
    "MemoryHistory",
    "MemoryNotSaved",
    "SQLiteHistory",
    "TokenWindowMemory",
    "Turn",
    "WindowMemory",
    "estimated_tokens",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
