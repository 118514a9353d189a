"""The progress of runs as numbers, and the observer of one run that counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from graphexec.actions import StoppedResponse
from graphexec.effects import (
    CACHED_TOKENS,
    COMPLETION_TOKENS,
    COST,
    MODEL_CALLS,
    PROMPT_TOKENS,
    TOKENS,
    TOOL_CALLS,
    AskHuman,
    CallTool,
    ModelEffect,
)
from graphexec.errors import described
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Reported
from graphexec.kernel.meters import Limits, Spent, is_measure
from graphexec.messages import ReplyDelta
from graphexec.runtime.calls import Scope

# How a run has ended. `interrupted` stands for an interrupt, a cancellation, and a closed stream.
EndingKind: TypeAlias = Literal["finished", "stopped", "failed", "interrupted"]

# The order in which amounts are shown; others follow.
_FIRST = ("iterations", MODEL_CALLS.name, TOOL_CALLS.name, TOKENS.name, COST.name)

# The parts of `tokens`, and the calls that reported none.
_PARTS = {PROMPT_TOKENS.name, COMPLETION_TOKENS.name, CACHED_TOKENS.name, "silent_calls"}

# The most characters of a report or an error.
_LONGEST = 160


@final
@dataclass(frozen=True, slots=True)
class Amount:
    """The amount spent of a meter, and its limit; `None` for a meter without one, and for several runs together."""

    name: str
    spent: float
    limit: float | None = None


@final
@dataclass(frozen=True, slots=True)
class Status:
    """The progress of one or several runs at a moment: counts, amounts, and the `seconds` since the first run began.

    `total` is the number of runs of a batch, else `None`. `activity` is what the only run does, or how it ended, with
    its node before it, and `seconds_limit` the limit of its time. The last status `has_ended`.
    """

    seconds: float
    total: int | None
    running: int
    finished: int
    stopped: int
    failed: int
    interrupted: int
    amounts: tuple[Amount, ...]
    activity: str
    seconds_limit: float | None
    has_ended: bool

    @property
    def ended(self) -> int:
        """The number of runs that have ended."""
        return self.finished + self.stopped + self.failed + self.interrupted

    @property
    def is_single(self) -> bool:
        """True if this is the progress of one run that is not part of a batch."""
        return self.total is None and self.ended + self.running <= 1


@final
class RunWatch:
    """An observer of one run: it keeps what the run does and has spent, and calls `changed` after each event.

    Runs that are nested in another are ignored: what they spend is counted in that one.
    """

    def __init__(self, changed: Callable[[RunWatch], None], limits: Limits | None = None) -> None:
        self.ending: EndingKind | None = None
        self.spent = Spent()
        self._changed = changed
        self._limits = limits
        self._node = ""
        # The labels of the unanswered calls, and the last report or the ending.
        self._pending: list[str] = []
        self._news = ""

    def __call__(self, event: Event[Ending]) -> None:
        """Take an event of the run."""
        if self.ending is not None or (event.call is not None and _is_nested(event.call.scope)):
            return
        match event:
            case Entered(node, _, spent):
                self._node, self.spent, self._news = node, spent, ""
                self._pending.clear()
            case Asked(_, effect):
                self._pending.append(_label(effect))
                self._news = ""
            case Answered(_, effect, spent=spent):
                label = _label(effect)
                if label in self._pending:
                    self._pending.remove(label)
                self.spent, self._news = spent, ""
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self._news = _line(str(news))
            case Done(outcome):
                stopped = outcome.cause if isinstance(outcome, StoppedResponse) else None
                self._end("finished" if stopped is None else "stopped", "" if stopped is None else str(stopped))
                self.spent = event.spent
            case Failed(error):
                self._end(*_failure(error))
                self.spent = event.spent
            case _:
                return
        self._changed(self)

    def fail(self, error: BaseException) -> None:
        """Take the exception of a run that has ended without an event, such as one with invalid inputs."""
        if self.ending is None:
            self._end(*_failure(error))
            self._changed(self)

    @property
    def activity(self) -> str:
        """The current activity of the run, or its ending."""
        if self.ending is not None:
            return ": ".join(filter(None, (self.ending, self._news)))
        pending = self._pending[:1] + ([f"and {len(self._pending) - 1} more"] if len(self._pending) > 1 else [])
        return ": ".join(filter(None, (self._node, self._news or " ".join(pending))))

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """The amounts that the run has spent, with their limits."""
        spent, limits = amounts_of(self.spent), self._limits
        if limits is None:
            return tuple(Amount(name, amount) for name, amount in spent.items())
        known: dict[str, float | None] = {"iterations": limits.iterations, **limits.meters, **limits.budgets}
        rows = [Amount(name, spent.get(name, 0), known.get(name)) for name in sort_amounts({**known, **spent})]
        return tuple(row for row in rows if row.spent or row.limit is not None)

    @property
    def seconds_limit(self) -> float | None:
        """The limit of the run's time, in seconds."""
        return None if self._limits is None else self._limits.seconds

    def _end(self, ending: EndingKind, news: str) -> None:
        self.ending, self._news = ending, _line(news)
        self._pending.clear()


def amounts_of(spent: Spent) -> Mapping[str, float]:
    """Return what has been spent, by name, without the parts of `tokens`."""
    amounts = {"iterations": spent.iterations, **spent.meters, **spent.budgets}
    # A measure is not spent.
    shown = [name for name in sort_amounts(amounts) if name not in _PARTS and not is_measure(name)]
    return {name: amounts[name] for name in shown if amounts[name]}


def sort_amounts(names: Iterable[str]) -> list[str]:
    """Return the names of amounts in the order in which they are shown."""
    given = list(names)
    return [*(name for name in _FIRST if name in given), *(name for name in given if name not in _FIRST)]


def _failure(error: BaseException) -> tuple[EndingKind, str]:
    return ("failed", described(error)) if isinstance(error, Exception) else ("interrupted", "")


def _is_nested(scope: object) -> bool:
    return isinstance(scope, Scope) and scope.host is not None


def _label(effect: Effect[Any]) -> str:
    match effect:
        case ModelEffect():
            return "asks the model"
        case CallTool():
            return f"calls {_line(effect.name)}"
        case AskHuman():
            return "asks a person"
        case _:
            return type(effect).__name__


def _line(text: str) -> str:
    """Return the beginning of a text on one line; control characters become blanks."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text[: 2 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
