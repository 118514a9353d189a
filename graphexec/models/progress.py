"""How far a download is, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

# Called with the bytes that are there and the bytes in all.
Progress: TypeAlias = Callable[[int, int], None]


@contextmanager
def shown(what: str) -> Generator[Progress, None, None]:
    """Show the progress of `what` on standard error: a bar on a terminal, elsewhere a line at the start and the end."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None under pythonw
        with _lines(what) as progress:
            yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(f"fetching {what}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _lines(what: str) -> Generator[Progress, None, None]:
    begun = False

    def progress(_done: int, total: int) -> None:
        nonlocal begun
        if not begun:
            begun = True
            print(f"fetching {what}, {total / 1e6:.0f} MB ...", file=sys.stderr, flush=True)

    yield progress
    if begun:
        print(f"fetched {what}", file=sys.stderr, flush=True)
