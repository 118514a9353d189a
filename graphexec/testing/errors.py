"""Exceptions of the test helpers."""

from __future__ import annotations

from collections.abc import Sequence

from graphexec.errors import GraphexecError


class ScriptExhaustedError(BaseException):
    """A scripted tool was called more often than it has results.

    No `Exception`, because that would be an observation for the model, and the test would go on.
    """


class DeadlockError(GraphexecError, RuntimeError):
    """Nothing can go on under a virtual clock. `waiting` says who waits, and where."""

    def __init__(self, text: str, waiting: Sequence[str]) -> None:
        self.waiting = tuple(waiting)
        super().__init__(f"{text}; waiting: {', '.join(self.waiting) or 'nobody'}")
