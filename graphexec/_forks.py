"""Locks and connections in a forked process, which inherits those of threads that it does not have."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Protocol, final
from weakref import ReferenceType


def hold_over_fork(lock: threading.Lock) -> None:
    """Acquire the lock while the process forks: the new process could not release a lock held by another thread."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class Forked(Protocol):
    """An object with state that a forked process must not share."""

    def reset_after_fork(self) -> None:
        """Discard the state, in the new process, in which only one thread runs. Must not wait for a lock."""


# By identity: the objects need not be hashable.
_owners: dict[int, ReferenceType[Forked]] = {}


def reset_after_fork(owner: Forked) -> None:
    """Call the object's `reset_after_fork` in every process that is forked from this one, while the object lives.

    It is for locks, which a thread of the old process may hold, and for connections, whose replies the old process
    would read.
    """
    key = id(owner)
    _owners[key] = ReferenceType(owner, lambda _: _owners.pop(key, None))


@final
class ForkSafeLock:
    """A lock that is free in a forked process, although a thread of the old process may hold it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        reset_after_fork(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Acquire the lock; return False if it is held and this is not to wait."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Release the lock."""
        # The thread that forked may have held it.
        with suppress(RuntimeError):
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def reset_after_fork(self) -> None:
        """Free the lock."""
        self._lock = threading.Lock()


def _reset_all() -> None:
    for reference in list(_owners.values()):
        owner = reference()
        if owner is not None:
            owner.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
