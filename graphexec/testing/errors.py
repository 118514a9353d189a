"""What the tests' own machinery raises."""

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

    @classmethod
    def of_tasks(cls, seconds: float, waiting: Sequence[str]) -> DeadlockError:
        """No timer is left, and no thread."""
        text = f"nothing can wake the loop any more, at {seconds:g} virtual seconds; set what is waited for, or a limit"
        return cls(text, waiting)

    @classmethod
    def of_a_thread(cls, patience: float, called: Sequence[tuple[str, str]], waiting: Sequence[str]) -> DeadlockError:
        """A thread does not come back. `called` are the functions that block one, each with its place."""
        names = ", ".join(f"{name} at {place}" for name, place in called)
        verb = "are" if len(called) > 1 else "is"
        tool = called[0][0].rpartition(".")[2] if called else "tool"
        text = (
            f"{names or 'a call'} in a thread {verb} not back after {patience:g} real seconds, which no virtual clock "
            f"can shorten; make it async def, script it with scripted_tool({tool}, [After(100, ...)]), or give it "
            f"patience="
        )
        return cls(text, waiting)

    @classmethod
    def of_a_spin(cls, seconds: float, turns: int, waiting: Sequence[str]) -> DeadlockError:
        """Something runs on and on without waiting for anything, and no timer is left."""
        return cls(
            f"{turns} turns of the loop at {seconds:g} virtual seconds, and no timer is left to cut them", waiting
        )
