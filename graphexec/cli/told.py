"""How `check` tells what it found: plainly, and in colour on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TextIO

from rich.text import Text

from graphexec.cli.terminal import Screen
from graphexec.verify.reports import Subject, document, github, sarif, text

_COLOURS: Mapping[str, str] = {
    r"(?<=  )PROVED(?=  )": "bold green",
    r"(?<=  )REFUTED(?=  )": "bold red",
    r"(?<=  )ERROR(?=  )": "bold red",
    r"(?<=  )UNPROVED(?=  )": "bold yellow",
    r"(?m)^  GX\d{3}": "bold",
    r"\(warning\)": "yellow",
}


def told(subjects: Sequence[Subject], how: Literal["text", "json", "sarif", "github"], out: TextIO) -> None:
    """Print the subjects to `out`; files in this folder are named from here."""
    here = str(Path.cwd())
    match how:
        case "json":
            out.write(document(subjects, root=here))
        case "sarif":
            out.write(sarif(subjects, root=here, version=version("graphexec-agents")))
        case "github":
            out.write(github(subjects, root=here))
        case "text":
            _text(text(subjects, root=here), out)


def _text(plain: str, out: TextIO) -> None:
    if not out.isatty():
        out.write(plain)
        return
    coloured = Text(plain.rstrip("\n"))
    for pattern, style in _COLOURS.items():
        coloured.highlight_regex(pattern, style)
    # A terminal wraps lines by itself, and people copy them whole.
    Screen(out).print(coloured, soft_wrap=True)
