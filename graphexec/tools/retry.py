"""When a tool that failed is called again: how often, after what, after how long a wait; and the news of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphexec.errors import described

# Seconds. Waits double; beyond a minute, waiting longer has stopped helping.
LONGEST_WAIT = 60.0


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """Call a tool up to `times` more, when it raises an exception of the classes `on`.

    `wait` is the seconds before the first of these calls; it doubles for each further one, up to `LONGEST_WAIT`.
    """

    times: int
    on: tuple[type[Exception], ...] = (Exception,)
    wait: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class ToolRetried:
    """News: `tool` raised `error` at this `attempt` (the first is 1), and is called again after `wait` seconds."""

    tool: str
    error: Exception
    attempt: int
    wait: float = 0.0

    def __str__(self) -> str:
        text = f"attempt {self.attempt} of {self.tool} failed with {described(self.error)}"
        return f"{text}; the next one follows in {self.wait:.1f} s"
