"""Consoles and tables for a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TextIO

from rich.console import Console
from rich.table import Table

# Columns of a stream that is not a terminal.
_FILE_WIDTH = 160


class Screen(Console):
    """A rich console without markup, emoji and highlighting. A closed pipe is an error."""

    def __init__(self, stream: TextIO) -> None:
        terminal = stream.isatty()
        super().__init__(
            file=stream,
            width=None if terminal or os.environ.get("COLUMNS") else _FILE_WIDTH,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def on_broken_pipe(self) -> NoReturn:
        """Raise an exception; rich would exit with 1."""
        raise BrokenPipeError


class TraceScreen(Screen):
    """A screen for the trace: if it cannot be written (the disk is full), the run continues without it."""

    # Any: as in rich.
    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and ignore a full disk."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            raise
        except OSError:
            pass


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], out: TextIO) -> None:
    """Print rows in columns under their headers, whose long cells are folded."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Screen(out).print(table)
