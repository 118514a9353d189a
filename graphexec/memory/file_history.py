"""A conversation in a file: one JSON line per turn."""

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
from graphexec.messages import Image

if TYPE_CHECKING:
    from pathlib import Path

# JSON lines are UTF-8. Half a surrogate pair is not valid UTF-8; this writes it so that it reads back unchanged.
_ENCODING = ("utf-8", "surrogatepass")


@final
@dataclass(frozen=True, slots=True, init=False)
class FileHistory:
    """A history in a file of JSON lines, `{"input": ..., "output": ...}` each, and the URLs of `images`, if any.

    A turn is appended whole or, if that fails (on a full disk, for example), not at all. Threads and processes may
    share the file on a local disk of a system with `flock` (not Windows). Every load reads the whole file. Raises
    `InputError` for an unusable path; `turns` raises it for an invalid line.
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", file_of("FileHistory", path))

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first; none if the file does not exist yet."""
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
        images = {"images": [image.url for image in turn.images]} if turn.images else {}
        text = json.dumps({"input": turn.input, "output": turn.output, **images}, ensure_ascii=False)
        line = f"{text}\n".encode(*_ENCODING)
        with self.path.open("ab+", buffering=0) as file, _lock(file, alone=True):
            end = file.seek(0, os.SEEK_END)
            if end and _last_byte(file, end) != b"\n":
                # The last line has no line break, after a crash or an editor; it stays a separate line.
                line = b"\n" + line
            try:
                _write(file, line)
            except BaseException:
                file.truncate(end)
                raise

    def clear(self) -> None:
        """Delete every turn: the file becomes empty."""
        with self.path.open("ab", buffering=0) as file, _lock(file, alone=True):
            file.truncate(0)

    def _read(self, number: int, line: bytes) -> Turn:
        try:
            match parse_json(line.decode(*_ENCODING)):
                case {"input": str(given), "output": str(answer), "images": [*urls]}:
                    return Turn(given, answer, tuple(map(Image, urls)))
                case {"input": str(given), "output": str(answer)}:
                    return Turn(given, answer)
                case _:
                    why = "it does not have the strings input and output"
        except InputError as error:
            why = str(error)
        except ValueError as error:
            why = f"it is not JSON: {error}"
        raise InputError(
            f"{self.path}, line {number}, is not a turn: {why}; fix or remove the line; the file was not changed"
        )


def _last_byte(file: FileIO, end: int) -> bytes:
    file.seek(end - 1)
    return file.read(1)


def _write(file: FileIO, line: bytes) -> None:
    # One call may write only a part, for example on a disk that is nearly full.
    while line:
        line = line[file.write(line) :]


@contextmanager
def _lock(file: FileIO, *, alone: bool) -> Generator[None, None, None]:
    """Hold the file's lock, exclusively if `alone`, on systems with flock. Closing the file releases it."""
    with suppress(ImportError):
        import fcntl

        # The lock belongs to the open file, not to the process, so it also separates threads.
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    yield
