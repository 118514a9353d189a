"""What is printed where, cleaned of what could steer a terminal."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import astuple, dataclass
from typing import Any, NoReturn, TextIO

from rich.console import Console

# Whole escape sequences: CSI in both forms, then strings such as a window's title, then any other.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters but newline and tab, and the marks that make text read in another order than it stands in.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# Columns, where the stream is no terminal, which wraps lines by itself.
_FILE_WIDTH = 160


def clean(text: str) -> str:
    """Text of a model, a tool or a server that a terminal shows as text, whatever is in it."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


@dataclass(frozen=True, slots=True)
class Symbols:
    """The signs of a trace, in what the stream can show."""

    arrow: str = "→"
    dot: str = "·"
    more: str = "…"
    spinner: str = "dots"


ASCII = Symbols("->", "|", "...", "line")


def symbols_for(stream: TextIO) -> Symbols:
    """The signs that `stream` can carry."""
    signs = Symbols()
    try:
        f"⠋{''.join(astuple(signs))}".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return signs


class Screen(Console):
    """A stream as rich writes it, without guesses about what the text means. A reader that went away is an error."""

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
        """Raise, where rich would exit with 1."""
        raise BrokenPipeError


class TraceScreen(Screen):
    """A screen for lines that a run can do without: on a full disk they are lost, and the run goes on."""

    # Any: as rich has it.
    def print(self, *objects: Any, **options: Any) -> None:
        """Print, if there is room."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            raise
        except OSError:
            pass


def in_one_place(one: TextIO, other: TextIO) -> bool:
    """Whether two streams are read together: on one terminal, or in one file."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:
        # A stream of Python's own, without a file.
        return False


def make_writable() -> None:
    """Let the process's streams show what they cannot encode as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def let_go() -> None:
    """Give up the streams that cannot be written any more, so that Python does not complain of them at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
