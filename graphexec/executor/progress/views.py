"""The views of progress: a display of a notebook, a line of a terminal, and the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from typing import Any, Protocol, final

from graphexec.errors import format_number
from graphexec.executor.progress.counts import Amount, Status

# Seconds between two lines of a terminal without rich.
_LINE_SECONDS = 1.0
# The colours of the parts of a bar, distinct on white and on black.
_COLOURS = {"finished": "#00795a", "stopped": "#c98a00", "failed": "#c21d1b", "interrupted": "#808890"}
_RICH_COLOURS = {"finished": "green", "stopped": "yellow", "failed": "red", "interrupted": "bright_black"}


class View(Protocol):
    """Shows progress. With an attribute `ticks = True`, `show` is also called while nothing but the time changes."""

    def show(self, status: Status) -> None:
        """Show a status; the last one `has_ended`."""
        ...


def choose_view(*, is_batch: bool) -> View:
    """Return the view for the place that the program runs in.

    Outside of notebooks and terminals it is the log, or a last line on stderr for a batch, whose caller asked for it.
    """
    if _is_notebook():
        return NotebookView()
    if not sys.stderr.isatty():
        return LineView(every=None) if is_batch else LogView()
    try:
        import rich  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return LineView(every=_LINE_SECONDS)
    return TerminalView()


def _is_notebook() -> bool:
    # A notebook has loaded IPython, and its shell has a kernel.
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def describe_status(status: Status) -> Iterator[str]:
    """Yield the parts of a line about a status."""
    if status.is_single:
        yield status.activity or "not finished"
    else:
        yield f"{status.ended}/{status.total} runs" if status.total is not None else f"{status.ended} ended"
        for name in ("finished", "stopped", "failed", "interrupted", "running"):
            count = getattr(status, name)
            if count and (name != "finished" or count != status.ended):
                yield f"{count} {name}"
        if status.has_ended and status.total is not None and status.ended < status.total:
            yield f"{status.total - status.ended} not finished"
    yield from map(format_amount, status.amounts)
    of = "" if status.seconds_limit is None else f" of {format_duration(status.seconds_limit)}"
    yield f"{format_duration(status.seconds)}{of}"


def format_amount(amount: Amount) -> str:
    """Return an amount with its limit: `iterations 3/15`."""
    limit = "" if amount.limit is None else f"/{format_number(amount.limit)}"
    return f"{amount.name.replace('_', ' ')} {_number(amount.spent)}{limit}"


def format_duration(seconds: float) -> str:
    """Return a number of seconds: `3.2 s`, `1:05`, `2:00:09`."""
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _number(number: float) -> str:
    return format_number(round(number, 4))


@final
class LineView:
    """Prints lines to stderr: at most one in `every` seconds and the last one, or the last one only."""

    ticks = False

    def __init__(self, every: float | None) -> None:
        self._every = every
        self._next = 0.0

    def show(self, status: Status) -> None:
        """Print the line, if it is time."""
        is_time = self._every is not None and status.seconds >= self._next
        if is_time or (status.has_ended and status.total != 0):
            self._next = status.seconds + (self._every or 0.0)
            print(_encodable(" · ".join(describe_status(status))), file=sys.stderr, flush=True)


@final
class LogView:
    """Logs the last status."""

    ticks = False

    def show(self, status: Status) -> None:
        """Log the status if it is the last one."""
        if status.has_ended:
            import logging

            logging.getLogger("graphexec").info("%s", " · ".join(describe_status(status)))


@final
class TerminalView:
    """A line of a terminal that changes in place, with a bar for a batch."""

    ticks = True

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False)
        self._has_begun = False

    def show(self, status: Status) -> None:
        """Change the line; the last one stays."""
        from rich.text import Text

        if not self._has_begun:
            self._has_begun = True
            self._live.start()
        text = Text(" · ".join(describe_status(status)), no_wrap=not status.has_ended, overflow="ellipsis")
        self._live.update(Text.assemble(_rich_bar(status), text), refresh=True)
        if status.has_ended:
            self._live.stop()


def _rich_bar(status: Status) -> Any:
    from rich.text import Text

    bar = Text()
    if not status.total:
        return bar
    width, drawn = 30, 0
    for name, colour in _RICH_COLOURS.items():
        size = round(width * getattr(status, name) / status.total)
        bar.append("━" * size, colour)
        drawn += size
    return bar.append(f"{'━' * max(0, width - drawn)} ", "dim")


@final
class NotebookView:
    """A display of a notebook that changes in place."""

    ticks = True

    def __init__(self) -> None:
        from IPython import display

        # IPython has no annotations.
        make_handle: Any = display.DisplayHandle
        self._handle = make_handle()
        self._has_begun = False

    def show(self, status: Status) -> None:
        """Change the display; the last one stays."""
        bundle = {"text/html": progress_html(status), "text/plain": " · ".join(describe_status(status))}
        if self._has_begun:
            self._handle.update(bundle, raw=True)
        else:
            self._has_begun = True
            self._handle.display(bundle, raw=True)


def progress_html(status: Status) -> str:
    """Return a status as HTML, in the notebook's colours."""
    of_amounts = set(map(format_amount, status.amounts))
    word = escape(" · ".join(part for part in describe_status(status) if part not in of_amounts))
    whole = _bar([(getattr(status, name), colour) for name, colour in _COLOURS.items()], status.total, 220)
    bars = "".join(
        f'<span style="display:inline-block;margin-right:18px;white-space:nowrap">'
        f"{_bar([(one.spent, '#3b8fd4')], one.limit, 60)}{escape(format_amount(one))}</span>"
        for one in status.amounts
    )
    font = "font:13px/1.6 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
    numbers = "font-variant-numeric:tabular-nums"
    rows = f"<div>{whole}{word}</div>" + (f'<div style="opacity:.85;font-size:12px">{bars}</div>' if bars else "")
    return f'<div style="{font};{numbers};overflow-wrap:anywhere">{rows}</div>'


def _bar(filled: list[tuple[float, str]], whole: float | None, width: int) -> str:
    """Return a bar that is filled from the left, or nothing without a whole."""
    if not whole:
        return ""
    pieces = "".join(
        f'<span style="display:inline-block;height:100%;vertical-align:top;background:{colour};'
        f'width:{min(100.0, 100 * amount / whole):.4g}%"></span>'
        for amount, colour in filled
        if amount
    )
    style = (
        f"display:inline-block;width:{width}px;height:7px;border-radius:4px;overflow:hidden;margin-right:8px;"
        "vertical-align:middle;line-height:0;white-space:nowrap;"
        "background:color-mix(in srgb,currentColor 18%,transparent)"
    )
    return f'<span style="{style}">{pieces}</span>'


def _encodable(line: str) -> str:
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return line.encode(encoding, "replace").decode(encoding)
