"""The files that commands read and write, and the standard streams in their place."""

from __future__ import annotations

import errno
import secrets
import shutil
import sys
import zlib
from contextlib import closing
from gzip import GzipFile
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TextIO, final

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.terminal import write_utf8
from graphexec.runtime.files import lock, open_private, open_regular, read_lines, write_all

# What a gzipped file begins with; and the most bytes of what is in it, since a small one may hold more than the memory.
_GZIP = b"\x1f\x8b"
_MOST = 1 << 28


def read_input() -> str:
    """Return the text of the standard input, which is UTF-8 in any locale. Raises `OSError` or `UnicodeDecodeError`."""
    buffer = getattr(sys.stdin, "buffer", None)
    # A stream in memory has no bytes.
    return sys.stdin.read() if buffer is None else unzip(read_lines(buffer)).decode("utf-8-sig")


def read(file: str) -> str:
    """Return the text of a file, which may be gzipped; `-` is the standard input.

    Raises `UsageError`, also for a pipe or a device.
    """
    try:
        if file == "-":
            return read_input()
        with open_regular(file) as opened:
            return unzip(read_lines(opened)).decode()
    except FileNotFoundError as error:
        raise UsageError(f"{file} cannot be read: there is no such file; check its name") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {_fact_of(error)}; name a text file") from error


def unzip(content: bytes) -> bytes:
    """Return the content of a file that may be gzipped; if its writer was interrupted, up to there.

    Raises `OSError` for a damaged or very large one.
    """
    if not content.startswith(_GZIP):
        return content
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = reader.decompress(content, _MOST)
    except zlib.error as error:
        raise OSError(errno.EINVAL, f"it is damaged: {error}") from error
    if reader.unconsumed_tail or reader.unused_data:
        raise OSError(errno.EFBIG, f"it is not one gzipped text of less than {_MOST:,} bytes")
    return text


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


@final
class _Gzip(GzipFile):
    """Writes gzipped bytes to a file, and closes it, too."""

    def __init__(self, file: BufferedWriter) -> None:
        super().__init__(filename="", mode="wb", fileobj=file, mtime=0)
        self._file = file

    def close(self) -> None:
        with closing(self._file):
            super().close()


def open_for_writing(file: Path) -> TextIO:
    """Open a file for the records of a run, flushed after each line: locked until it is closed, with the mode 600.

    It is gzipped if its name ends in `.gz`: what is flushed can be read, though the file has no end yet.

    Raises `UsageError`, also if another run records to it; then the file is unchanged.
    """
    try:
        out = open(file, "ab", opener=open_private)  # noqa: SIM115 - pathlib has no opener, and the caller closes it
    except OSError as error:
        raise unwritable(file, error) from error
    try:
        if file.is_file():
            lock(out.fileno())
            out.truncate(0)
    except BlockingIOError as error:
        out.close()
        raise UsageError(f"{file} is being written by another run; wait for its end, or name another file") from error
    except OSError as error:
        out.close()
        raise unwritable(file, error) from error
    lines = _Gzip(out) if file.suffix == ".gz" else out
    return TextIOWrapper(lines, encoding="utf-8", newline="\n", line_buffering=True)


def unwritable(file: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be written."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{file} cannot be written: there is no folder {file.parent}; make it, or name another file")
    return UsageError(f"{file} cannot be written: {_fact_of(error)}; name another file")


def _fact_of(error: OSError | ValueError) -> str:
    """Return why a file cannot be used, without its path and the number of the error."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
