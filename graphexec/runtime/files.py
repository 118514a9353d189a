"""Files of conversations and runs: private, locked while they are written, and on the disk."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path

# Only the owner may read and write.
_PRIVATE = 0o600


def open_private(path: str, flags: int) -> int:
    """Open a file as an `opener` of `open`: one that this creates has the mode 600 from the beginning."""
    return os.open(path, flags, _PRIVATE)


def create_private(path: Path) -> None:
    """Create an empty file with the mode 600, unless the file exists. Raises `OSError`."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))


def read_regular(path: Path, *, locked: bool = False) -> bytes:
    """Return the content of a file, read under a shared lock if `locked`.

    Raises `OSError`, also for a pipe or a device, which may have no end.
    """
    with FileIO(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if locked:
            lock(file.fileno(), alone=False)
        return file.readall()


def _open_at_once(path: str, flags: int) -> int:
    # Opening a pipe without a writer would wait; a regular file ignores the flag. Windows has none.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def lock(descriptor: int, *, alone: bool = True, wait: bool = True) -> None:
    """Lock an open file until it is closed, on systems with flock; others may lock it too unless `alone`.

    Without `wait`, raises `BlockingIOError` if another holds the lock. It belongs to the open file, not to the process,
    so it also separates threads. The system frees the lock of a process that dies.
    """
    with suppress(ImportError):
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))


def is_open_file(descriptor: int, path: Path) -> bool:
    """Return whether a path still names this open file, which may have been deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def store_entry(path: Path) -> None:
    """Wait until the name of a new file is on the disk, on systems that can."""
    # Windows cannot open a folder, and some file systems cannot store one.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_all(file: FileIO, content: bytes) -> None:
    """Write everything: one call of the system may write only a part, for example on a disk that is nearly full."""
    while content:
        content = content[file.write(content) :]
