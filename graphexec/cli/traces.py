"""Runs that were recorded, read from files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from graphexec.cli.exits import UsageFault
from graphexec.cli.files import read
from graphexec.errors import InputError

if TYPE_CHECKING:
    from graphexec.draw.records import Recording


def recording_at(file: str) -> Recording:
    """Read the records of a run; `-` is the standard input. Raises `UsageFault`, with the line that is none.

    A run whose last line is cut off is read as far as it goes, and stderr told so.
    """
    from graphexec.draw.records import Recording

    name = "standard input" if file == "-" else file
    whole, last = _parted(read(file))
    if last:
        number = whole.count("\n") + 1
        print(f"graphexec: {name}: line {number} is cut off; the run is shown as far as it goes", file=sys.stderr)
    try:
        return Recording.from_json_lines(whole)
    except InputError as error:
        raise UsageFault(f"{name}: {error}") from error


def _parted(text: str) -> tuple[str, str]:
    """The lines that are whole, and the last one if it is cut off."""
    head, newline, last = text.rpartition("\n")
    if not last.strip():
        return text, ""
    try:
        json.loads(last)
    except RecursionError:
        # It is told as no record.
        return text, ""
    except ValueError:
        return head + newline, last
    return text, ""
