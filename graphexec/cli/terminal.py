"""Output streams, and text without terminal control sequences."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TextIO

# Escape sequences: CSI in both forms, then strings such as a window's title, then any other.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters except newline and tab, and the marks that change the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Remove everything from untrusted text that could control a terminal."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


# The end of a text that the next piece may complete to a sequence or a line break.
_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?"
    r"|\x1b[ -/]*"
    r"|\r)\Z"
)
# Characters: a longer sequence is removed, and what comes after it is printed.
_LONGEST = 1_000


class TextCleaner:
    """Cleans text that comes in pieces, as `clean` cleans the whole: a sequence may be divided among them."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def clean(self, piece: str) -> str:
        """Return what can be printed now."""
        text = self._held + piece
        found = _UNFINISHED.search(text, max(len(text) - _LONGEST, 0))
        end = len(text) if found is None else found.start()
        self._held = text[end:]
        return clean(text[:end])


def is_same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams go to one terminal or one file."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:
        # An in-memory stream has no file.
        return False


def write_utf8(text: str, stream: TextIO) -> None:
    """Write text in UTF-8, also to a stream of another encoding; lone surrogates are escaped."""
    _write(text.encode(errors="backslashreplace"), stream)


def print_path(path: Path, stream: TextIO) -> None:
    """Print the path of a file, in the bytes that it has in the file system."""
    _write(os.fsencode(path) + b"\n", stream)


def _write(content: bytes, stream: TextIO) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        # A stream in memory has no bytes.
        stream.write(os.fsdecode(content))
        return
    stream.flush()
    buffer.write(content)
    buffer.flush()


def make_writable() -> None:
    """Make the process's streams escape characters that they cannot encode, instead of failing.

    A stream that the caller has closed, as with `>&-`, becomes the null device.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # It lasts as long as the process.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def discard_streams() -> None:
    """Redirect streams that cannot be written to the null device, so that Python does not report them at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
