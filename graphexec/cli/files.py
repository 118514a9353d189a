"""The files that commands read and write, and the standard streams in their place."""

from __future__ import annotations

import secrets
import shutil
import sys
from io import FileIO
from pathlib import Path
from typing import TextIO

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.terminal import write_utf8
from graphexec.runtime.files import lock, open_private, open_regular, read_lines, write_all

# How a database of SQLite begins.
_SQLITE = b"SQLite format 3\0"


def read_input() -> str:
    """Return the text of the standard input, which is UTF-8 in any locale. Raises `OSError` or `UnicodeDecodeError`."""
    if not sys.stdin:
        # It is closed.
        return ""
    buffer = getattr(sys.stdin, "buffer", None)
    # A stream in memory has no bytes.
    return sys.stdin.read() if buffer is None else read_lines(buffer).decode("utf-8-sig")


def read(file: str) -> str:
    """Return the text of a file; `-` is the standard input.

    Raises `UsageError`, also for a pipe or a device.
    """
    try:
        if file == "-":
            return read_input()
        with open_regular(file) as opened:
            return read_lines(opened).decode()
    except FileNotFoundError as error:
        raise UsageError(f"{file} cannot be read: there is no such file; check its name") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {_fact_of(error)}; name a text file") from error


def write(text: str, file: Path | None, *, private: bool = False) -> None:
    """Write text in UTF-8 to a file, or to the standard output. Raises `UsageError`."""
    if file is not None:
        write_bytes(text.encode(errors="backslashreplace"), file, private=private)
    else:
        write_utf8(text, sys.stdout)


def write_bytes(content: bytes, file: Path, *, private: bool = False) -> None:
    """Replace a file atomically: readers see the old content or all of the new. Raises `UsageError`.

    Only its owner may read a new file if it is `private`; a file that is replaced keeps its mode.
    """
    try:
        place = file.resolve()
        if place.exists() and not place.is_file():
            # A pipe or a device; this raises for a folder.
            place.write_bytes(content)
            return
        # Do not replace a file without permission to write it.
        FileIO(place, "ab", opener=open_private if private else None).close()
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with FileIO(beside, "xb", opener=open_private) as replacement:
                write_all(replacement, content)
            shutil.copymode(place, beside)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(file, error) from error
    except RuntimeError as error:
        # It is a symbolic link to itself.
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error


def open_for_writing(file: Path) -> TextIO:
    """Open a file for the records of a run, flushed after each line: locked until it is closed, with the mode 600.

    Raises `UsageError`, also if another run records to it, or it is a database; then the file is unchanged.
    """
    if is_database(file):
        raise UsageError(f"{file} is a database, which the records of a run would replace; name another file")
    out: TextIO | None = None
    try:
        # pathlib has no opener, and the caller closes the file.
        out = open(file, "a", buffering=1, encoding="utf-8", newline="\n", opener=open_private)  # noqa: SIM115
        if file.is_file():
            lock(out.fileno())
            out.truncate(0)
    except OSError as error:
        if out is not None:
            out.close()
        if isinstance(error, BlockingIOError):
            remedy = "wait for its end, or name another file"
            raise UsageError(f"{file} is being written by another run; {remedy}") from error
        raise unwritable(file, error) from error
    return out


def is_database(file: str | Path) -> bool:
    """Return whether a file is a database of SQLite."""
    try:
        with open_regular(str(file)) as opened:
            return opened.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def unwritable(file: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be written."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{file} cannot be written: there is no folder {file.parent}; make it, or name another file")
    return UsageError(f"{file} cannot be written: {_fact_of(error)}; name another file")


def _fact_of(error: OSError | ValueError) -> str:
    """Return why a file cannot be used, without its path and the number of the error."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
