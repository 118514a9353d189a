"""`graphexec models`: what local models there are."""

from __future__ import annotations

from typing import TextIO

from rich.table import Table

from graphexec.cli.terminal import Screen


def print_models(out: TextIO) -> None:
    """Print the named weights to `out`, one on a line: columns on a terminal, and separated by tabs elsewhere."""
    from graphexec.models import weights

    there = {one.name for one in weights.installed()}
    rows = [
        (
            one.name,
            f"{one.size / 1e6:.0f} MB",
            one.licence,
            "installed" if one.name in there else "not installed",
            str(weights.weights_path(one.name)),
        )
        for one in weights.CATALOGUE.values()
    ]
    if not out.isatty():
        for row in rows:
            print(*row, sep="\t", file=out)
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for header in ("name", "on disk", "licence", "", "path"):
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Screen(out).print(table)
