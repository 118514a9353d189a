"""What a run has spent of each limit, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from graphexec.cli.terminal import Symbols
from graphexec.draw.words import counted, duration
from graphexec.limits import Limits, Spent

# Columns of a bar, and of what stands before it.
_BAR, _NAME = 20, 14
# From this share of a limit on, its bar is a warning.
_NEAR = 0.8


def meters(spent: Spent, seconds: float, limits: Limits, *, symbols: Symbols, width: int) -> Iterator[Text]:
    """A bar for each limit, and last what has none, in one line."""
    free: list[str] = []
    own = {"cost", "seconds", *limits.budgets}
    for name, used, limit in _counts(spent, seconds, limits):
        text = duration(used) if name == "seconds" else f"{used:,.4g}" if name == "cost" else f"{used:,.0f}"
        if limit is None:
            if used:
                free.append(
                    text if name == "seconds" else f"{name} {text}" if name in own else counted(int(used), name)
                )
            continue
        share = min(used / limit, 1.0) if limit else 1.0
        full = min(int(share * _BAR), _BAR)
        style = "yellow" if share >= _NEAR else "cyan"
        line = Text(f" {(name if name in own else f'{name}s')[:_NAME]:{_NAME}} ", "dim")
        line.append(symbols.full * full, style).append(symbols.empty * (_BAR - full), "dim")
        yield line.append(f" {text} of {limit:,g}")
    if free:
        told = f" {symbols.dot} ".join(free)
        yield Text(f" {told}"[:width], "dim")


def _counts(spent: Spent, seconds: float, limits: Limits) -> Iterator[tuple[str, float, float | None]]:
    yield "iteration", spent.iterations, limits.iterations
    yield "model call", spent.model_calls, limits.model_calls
    yield "tool call", spent.tool_calls, limits.tool_calls
    yield "token", spent.tokens, limits.tokens
    yield "cost", spent.cost, limits.cost
    for name, limit in limits.budgets.items():
        yield name, spent.budgets.get(name, 0), limit
    yield "seconds", seconds, limits.seconds
