"""Files of conversations and runs: private, and locked while they are written."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

# Only the owner may read and write.
_PRIVATE = 0o600
# Bytes that are read at once.
_PIECE = 1 << 20


def open_private(path: str, flags: int) -> int:
    """Open a file as an `opener` of `open`: one that this creates has the mode 600 from the beginning."""
    return os.open(path, flags, _PRIVATE)


def create_private(path: Path) -> None:
    """Create an empty file with the mode 600, unless the file exists. Raises `OSError`."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))


def open_regular(path: str | bytes | os.PathLike[str]) -> FileIO:
    """Open a file for reading. Raises `OSError`, also for a pipe or a device, which may have no end."""
    file = FileIO(os.fspath(path), "rb", opener=_open_at_once)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_regular(path: str | bytes | os.PathLike[str], *, most: int | None = None) -> bytes:
    """Return the content of a file.

    Raises `OSError` as `open_regular` does, and for a file of more than `most` bytes.
    """
    with open_regular(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
        return file.readall()


def read_lines(file: BinaryIO) -> bytes:
    """Return the rest of a file of text, which may end in the zeros of a crash.

    Raises `OSError` for a mebibyte of zeros: what has them is no text, and may be larger than the memory.
    """
    pieces: list[bytes] = []
    while piece := file.read(_PIECE):
        if not piece.strip(b"\0") and len(piece) == _PIECE:
            raise OSError(errno.EINVAL, "it is not text: it has a mebibyte of zeros")
        pieces.append(piece)
    return b"".join(pieces)


def _open_at_once(path: str, flags: int) -> int:
    # Opening a pipe without a writer would wait; a regular file ignores the flag. Windows has none.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def lock(descriptor: int) -> None:
    """Lock an open file until it is closed, on systems with flock. Raises `BlockingIOError` if another has locked it.

    The lock belongs to the open file, not to the process, so it also separates threads. The system frees the lock of a
    process that dies.
    """
    with suppress(ImportError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_all(file: FileIO, content: bytes) -> None:
    """Write everything: one call of the system may write only a part, for example on a disk that is nearly full."""
    while content:
        content = content[file.write(content) :]
