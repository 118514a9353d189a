"""A conversation in a file: one turn a line, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, final

from graphexec.errors import InputError
from graphexec.kernel.serialization import parse_json
from graphexec.memory.history import Turn, file_of

if TYPE_CHECKING:
    from pathlib import Path

# JSON lines are UTF-8. Text with half a surrogate pair is none; it is written so that it is read again as it was.
_ENCODING = ("utf-8", "surrogatepass")


@final
@dataclass(frozen=True, slots=True, init=False)
class FileHistory:
    """A history in a file of JSON lines, `{"input": ..., "output": ...}` each.

    A turn is appended whole or, where that fails (a full disk, say), not at all. Threads and processes may share the
    file, on a system with `flock` (which Windows is not) and on a disk of its own. Every load reads the whole file.
    Raises `InputError` for an unusable path; `turns` raises it for a line that is no turn.
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", file_of("FileHistory", path))

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first; a file that is not there yet has none."""
        try:
            with self.path.open("rb", buffering=0) as file, _lock(file, alone=False):
                read = file.readall()
        except FileNotFoundError:
            return ()
        lines = read.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return tuple(self._read(number, line) for number, line in enumerate(lines, 1))

    def add(self, turn: Turn, /) -> None:
        """Append a turn."""
        text = json.dumps({"input": turn.input, "output": turn.output}, ensure_ascii=False)
        line = f"{text}\n".encode(*_ENCODING)
        with self.path.open("ab+", buffering=0) as file, _lock(file, alone=True):
            end = file.seek(0, os.SEEK_END)
            if end and _last_byte(file, end) != b"\n":
                # A line that a crash cut short, or an editor's last one: it stays a line of its own.
                line = b"\n" + line
            try:
                _write(file, line)
            except BaseException:
                file.truncate(end)
                raise

    def clear(self) -> None:
        """Forget every turn: the file is empty then."""
        with self.path.open("ab", buffering=0) as file, _lock(file, alone=True):
            file.truncate(0)

    def _read(self, number: int, line: bytes) -> Turn:
        try:
            match parse_json(line.decode(*_ENCODING)):
                case {"input": str(said), "output": str(answered)}:
                    return Turn(said, answered)
                case _:
                    why = "it has not the texts input and output"
        except ValueError as error:
            why = f"it is not JSON: {error}"
        raise InputError(
            f"{self.path}, line {number}, is no turn: {why}; mend or remove the line; nothing in the file was changed"
        )


def _last_byte(file: FileIO, end: int) -> bytes:
    file.seek(end - 1)
    return file.read(1)


def _write(file: FileIO, line: bytes) -> None:
    # One write is not bound to write all, of a long line on a disk that is nearly full, say.
    while line:
        line = line[file.write(line) :]


@contextmanager
def _lock(file: FileIO, *, alone: bool) -> Generator[None, None, None]:
    """Hold the file's lock, `alone` or with other readers, where there is flock. Closing the file releases it."""
    with suppress(ImportError):
        import fcntl

        # Of the open file, not of the process: it keeps threads apart as well.
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    yield
