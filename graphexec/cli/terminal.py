"""Output streams, and text without terminal control sequences."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass
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


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of a trace that a stream can encode."""

    arrow: str = "→"
    dot: str = "·"
    more: str = "…"
    spinner: str = "dots"


ASCII = Symbols("->", "|", "...", "line")


def symbols_for(stream: TextIO) -> Symbols:
    """Return the symbols that `stream` can encode."""
    symbols = Symbols()
    try:
        f"⠋{''.join(astuple(symbols))}".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return symbols


def is_same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams go to one terminal or one file."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:
        # An in-memory stream has no file.
        return False


# ASCII for the signs of our reports and drawings; every other character is escaped. One sign stands for one, so that a
# drawing keeps its columns.
_BOXES = {
    **dict.fromkeys("─━═╌╍┄┅┈┉╴╶╸╺", "-"),
    **dict.fromkeys("│┃║╎╏┆┇┊┋╵╷╹╻", "|"),
    **{chr(code): "+" for code in (*range(0x250C, 0x254C), *range(0x2552, 0x2571))},
    **dict.fromkeys("→▶►▸▷", ">"),
    **dict.fromkeys("←◀◄◂◁", "<"),
    **dict.fromkeys("↑▲△", "^"),
    **dict.fromkeys("↓▼▽", "v"),
    **dict.fromkeys("·•●○◆◇", "*"),
    "◎": "@",
    "↻": "~",
    **dict.fromkeys("█▉▊▋▌▍▎▏", "#"),
    **dict.fromkeys("\u2013\u2014\u2212", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "×": "x",
}
# Those of more columns, for text that is not drawn.
_WORDS = {"→": "->", "←": "<-", "↔": "<->", "⇒": "=>", "…": "...", "≤": "<=", "≥": ">=", "≠": "!="}


def encodable(text: str, stream: TextIO, *, drawn: bool = False) -> str:
    """Return a report as `stream` can encode it: with ASCII for its signs, and with escapes for the rest.

    In a text that is `drawn`, a sign takes one column, as before.
    """
    encoding = stream.encoding or "ascii"
    signs = _BOXES if drawn else {**_BOXES, **_WORDS}
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        replaced = "".join(one if one.isascii() else _encodable_sign(one, encoding, signs) for one in text)
        return replaced.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _encodable_sign(sign: str, encoding: str, signs: Mapping[str, str]) -> str:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return signs.get(sign, sign)
    return sign


def write_utf8(text: str, stream: TextIO) -> None:
    """Write data for a program in UTF-8, also to a stream of another encoding; lone surrogates are escaped."""
    buffer = getattr(stream, "buffer", None)
    content = text.encode(errors="backslashreplace")
    if buffer is None:
        # A stream in memory has no bytes.
        stream.write(content.decode())
        return
    stream.flush()
    buffer.write(content)
    buffer.flush()


def print_path(path: Path, stream: TextIO) -> None:
    """Print the path of a file, in the bytes that it has in the file system if the stream cannot encode it."""
    buffer = getattr(stream, "buffer", None)
    try:
        str(path).encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        if buffer is not None:
            stream.flush()
            buffer.write(os.fsencode(path) + b"\n")
            buffer.flush()
            return
    print(path, file=stream, flush=True)


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
