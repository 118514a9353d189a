"""The retries of tools: their policy, and the news of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphexec.errors import described
from graphexec.runtime.retry_policy import RetryPolicy

# Seconds. Waits double; beyond a minute, waiting longer has stopped helping.
LONGEST_WAIT = 60.0


@final
class Raised(Exception):
    """What a tool raised: `error`. So it cannot be mistaken for what is raised around the tool."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


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


def tool_policy(times: int, on: tuple[type[Exception], ...], wait: float) -> RetryPolicy:
    """Return the policy of a tool that is called up to `times` more, where it raises an exception of the classes `on`.

    `wait` is the seconds before the first of these calls; it doubles for each further one, up to `LONGEST_WAIT`.
    """
    return RetryPolicy(
        attempts=times + 1,
        may_pass=lambda raised: isinstance(raised, Raised) and isinstance(raised.error, on),
        first_wait=wait,
        longest_wait=max(wait, LONGEST_WAIT),
    )
