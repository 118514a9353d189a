"""The calls that a run is waiting for: on a terminal, with clocks that tick until they return."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from graphexec.cli.screen import Screen
from graphexec.cli.terminal import Symbols, clean
from graphexec.draw.model.text import format_quantity
from graphexec.draw.runs.labels import format_call
from graphexec.effects import AskHuman, CallAgent, CallTool, LoadMemory, ModelEffect, SaveMemory, ToolResult
from graphexec.kernel.effects import CallId, Effect, Perform

# The most calls with a line of their own, and the characters of a call's name and arguments.
_LINES, _CALL = 6, 60
# In a second, for clocks that show tenths.
_REFRESHES = 10


def format_effects(effects: Iterable[Effect[Any]]) -> str:
    """Return a description of the pending effects, each kind once."""
    effects = tuple(effects)
    tools = [effect.name for effect in effects if isinstance(effect, CallTool)]
    parts = [f"calling {', '.join(tools)}"] if tools else []
    parts += [_format_effect(effect) for effect in effects if not isinstance(effect, CallTool)]
    return clean(", ".join(dict.fromkeys(parts)))


# Any: an effect's reply is arbitrary.
def _format_effect(effect: Effect[Any]) -> str:
    match effect:
        case ModelEffect():
            return "asking the model"
        case CallAgent():
            return "asking the agent"
        case CallTool():
            return f"calling {format_call(effect.name, effect.tool_input, _CALL)}"
        case AskHuman():
            return "asking a person"
        case LoadMemory():
            return "loading the memory"
        case SaveMemory():
            return "saving the memory"
        case Perform(node):
            return f"running {node}"
        case _:
            return f"requesting {type(effect).__name__}"


class PendingCalls:
    """A display of the pending calls below the trace: each with its time, then the time and the failures of the run.

    It changes in place, and is gone when no call is pending. Nothing is shown unless `screen` is a terminal.
    """

    def __init__(self, screen: Screen, symbols: Symbols, now: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._symbols = symbols
        self._now = now
        self._began = now()
        # The pending calls, with the times at which they began, the oldest first.
        self._calls: dict[CallId | None, tuple[Effect[Any], float]] = {}
        self._returned = 0
        self._failed = 0
        self._spinner = Spinner(symbols.spinner)
        self._live: Live | None = None

    def start(self) -> None:
        """Begin the time of the run."""
        self._began = self._now()

    def add(self, effect: Effect[Any], call: CallId | None) -> None:
        """Show a call."""
        if not self._calls:
            self._returned = 0
        self._calls[call] = (effect, self._now())
        if self._screen.is_terminal and self._live is None:
            self._live = Live(
                console=self._screen,
                get_renderable=self.render,
                refresh_per_second=_REFRESHES,
                transient=True,
            )
            self._live.start(refresh=True)

    def remove(self, reply: object, call: CallId | None) -> None:
        """Remove a call that returned `reply`."""
        self._calls.pop(call, None)
        self._returned += 1
        self._failed += isinstance(reply, ToolResult) and reply.status != "ok"
        if not self._calls:
            self.stop()

    def stop(self) -> None:
        """Remove the display, with calls that do not return any more."""
        self._calls.clear()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> Table:
        """Return a line for each of the oldest calls, and one for the run."""
        now = self._now()
        lines = Table.grid(padding=(0, 1, 0, 0))
        for width in (2, 1):
            lines.add_column(width=width)
        lines.add_column(no_wrap=True, overflow="ellipsis", style="dim")
        lines.add_column(no_wrap=True, justify="right", style="cyan")
        # Another thread adds and removes calls while this one draws.
        calls = list(self._calls.values())
        for effect, began in calls[:_LINES]:
            what = Text(clean(_format_effect(effect)))
            lines.add_row("", self._spin(now), what, _format_clock(now - began))
        if calls:
            lines.add_row("", "", Text(self._summary(len(calls))), _format_clock(now - self._began))
        return lines

    def _spin(self, now: float) -> Text:
        frames = self._spinner.frames
        return Text(frames[int((now - self._began) * 1000 / self._spinner.interval) % len(frames)], "cyan")

    def _summary(self, pending: int) -> str:
        hidden = pending - _LINES
        parts = [f"and {format_quantity(hidden, 'more call')}"] if hidden > 0 else []
        if self._returned:
            # Of calls at once.
            parts.append(f"{self._returned} of {self._returned + pending} returned")
        if self._failed:
            parts.append(f"{self._failed} failed")
        return f" {self._symbols.dot} ".join([*parts, "the run"])


def _format_clock(seconds: float) -> str:
    """Return a number of seconds: `3.2 s`, `1:05`, `2:00:09`."""
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
