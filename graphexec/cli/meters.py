"""What a run has spent of each limit, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from graphexec.cli.terminal import Symbols
from graphexec.draw.model.words import counted, duration
from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS, reported_tokens
from graphexec.kernel.meters import Limits, Spent

# Columns of a bar, and of what stands before it.
_BAR, _NAME = 20, 14
# From this share of a limit on, its bar is a warning.
_NEAR = 0.8


def bars(spent: Spent, limits: Limits, symbols: Symbols) -> Iterator[Text]:
    """A bar for each limit."""
    for name, used, limit in _counts(spent, limits):
        if limit is None:
            continue
        share = min(used / limit, 1.0) if limit else 1.0
        full = int(share * _BAR)
        line = Text(f" {_label(name)[:_NAME]:{_NAME}} ", "dim")
        line.append(symbols.full * full, "yellow" if share >= _NEAR else "cyan")
        line.append(symbols.empty * (_BAR - full), "dim")
        yield line.append(f" {_number(name, used)} of {limit:,g}")


def unlimited(spent: Spent, limits: Limits, symbols: Symbols) -> Text:
    """What is spent of that which has no limit, in one line."""
    parts = [_told(name, used) for name, used, limit in _counts(spent, limits) if limit is None and used]
    return Text(f" {f' {symbols.dot} '.join(parts)}", "dim")


def _counts(spent: Spent, limits: Limits) -> Iterator[tuple[str, float, float | None]]:
    """What is spent, by its name, and its limit."""
    yield "iteration", spent.iterations, limits.iterations
    yield "model call", spent[MODEL_CALLS], limits[MODEL_CALLS]
    yield "tool call", spent[TOOL_CALLS], limits[TOOL_CALLS]
    yield "token", reported_tokens(spent), limits[TOKENS]
    yield "cost", spent[COST], limits[COST]
    yield "seconds", spent.seconds, limits.seconds


def _label(name: str) -> str:
    return name if name in ("cost", "seconds") else f"{name}s"


def _told(name: str, used: float) -> str:
    match name:
        case "seconds":
            return duration(used)
        case "cost":
            return f"cost {used:,.4g}"
        case _:
            return counted(int(used), name)


def _number(name: str, used: float) -> str:
    return duration(used) if name == "seconds" else f"{used:,.4g}" if name == "cost" else f"{used:,.0f}"
