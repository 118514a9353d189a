"""A conversation in a file: one JSON line per turn."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, final

from graphexec.errors import HistoryWarning, InputError
from graphexec.kernel.serialization import parse_json
from graphexec.memory.history import Turn, file_of
from graphexec.messages import Image
from graphexec.runtime.files import is_open_file, lock, open_private, read_regular, store_entry, write_all

if TYPE_CHECKING:
    from pathlib import Path

# JSON lines are UTF-8. Half a surrogate pair is not valid UTF-8; this writes it so that it reads back unchanged.
_ENCODING = ("utf-8", "surrogatepass")
# Some editors begin a file with it.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Bytes that are read at once from the end of a file.
_PIECE = 1 << 16


@final
@dataclass(frozen=True, slots=True, init=False)
class FileHistory:
    """A history in a file of JSON lines, `{"input": ..., "output": ...}` each, and the URLs of `images`, if any.

    A turn is appended whole or, if that fails (on a full disk, for example), not at all; when `add` returns, it is on
    the disk. A crash in the middle of a write leaves a part of a line at the end: `turns` warns of it with
    `HistoryWarning` and returns the turns before it, and the next `add` moves it to the file `<path>.cut`. Only the
    owner may read a file that this creates (mode 600).

    Threads and processes may share the file on a local disk of a system with `flock` (not Windows). Every load reads
    the whole file. Raises `InputError` for an unusable path; `turns` raises it for a line that is not a turn and that
    no crash explains.
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", file_of("FileHistory", path))

    def turns(self) -> tuple[Turn, ...]:
        """Return every turn, the oldest first; none if the file does not exist yet."""
        try:
            content = read_regular(self.path, locked=True)
        except FileNotFoundError:
            return ()
        except OSError as error:
            remedy = "give this user read permission, or name another file"
            raise InputError(f"the history {self.path} cannot be read: {error.strerror}; {remedy}") from error
        turns, cut = self._read_all(content)
        if cut:
            before = "1 turn" if len(turns) == 1 else f"{len(turns):,} turns"
            warnings.warn(
                f"{self.path}, line {len(turns) + 1}, was cut by a crash: the last {len(cut):,} bytes of the file are "
                f"not a turn, and {before} before them can be read; the next turn takes their place and moves them to "
                f"{_remains(self.path)}",
                HistoryWarning,
                # By this line and its text, Python shows a warning once, whoever loads the history.
                stacklevel=1,
            )
        return turns

    def add(self, turn: Turn, /) -> None:
        """Append a turn, and return when it is on the disk."""
        images = {"images": [image.url for image in turn.images]} if turn.images else {}
        text = json.dumps({"input": turn.input, "output": turn.output, **images}, ensure_ascii=False)
        line = f"{text}\n".encode(*_ENCODING)
        with self._locked() as file:
            end = file.seek(0, os.SEEK_END)
            if not _ends_whole(file, end):
                content = read_regular(self.path)
                if cut := self._read_all(content)[1]:
                    _set_aside(cut, _remains(self.path))
                    end -= len(cut)
                    file.truncate(end)
                elif not content.endswith(b"\n"):
                    # The last line is whole, but an editor left out its line break.
                    line = b"\n" + line
            try:
                _write(file, line)
                if not end:
                    store_entry(self.path)
            except BaseException:
                file.truncate(end)
                raise

    def clear(self) -> None:
        """Delete every turn: the file becomes empty."""
        with self._locked() as file:
            file.truncate(0)
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self) -> Generator[FileIO, None, None]:
        """Open the file for reading and appending, as its only user."""
        while True:
            with FileIO(self.path, "ab+", opener=open_private) as file:
                lock(file.fileno())
                # While it waited, the file may have been deleted or replaced: then the turn would be lost.
                if is_open_file(file.fileno(), self.path):
                    yield file
                    return

    def _read_all(self, content: bytes) -> tuple[tuple[Turn, ...], bytes]:
        """Return the turns, and the bytes at the end that a crash left. Raises `InputError` for any other line."""
        lines = content.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
        ended = not lines[-1]
        if ended:
            lines.pop()
        whole = len(lines)
        while whole and _is_cut(lines[whole - 1], ended=ended or whole < len(lines)):
            whole -= 1
        if lines and not whole and lines[0].strip(b"\0")[:1] not in {b"{", b""}:
            # No turn precedes it, and it does not begin as one does: this is a file of another kind.
            whole = 1
        turns = tuple(self._read(number, line) for number, line in enumerate(lines[:whole], 1))
        cut = sum(len(line) + 1 for line in lines[whole:]) - (not ended)
        return turns, content[len(content) - max(cut, 0) :]

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


def _is_cut(line: bytes, *, ended: bool) -> bool:
    """Return whether a crash explains the last line: without a line break, it is the beginning of one.

    With one, it has blocks that were never written: these are zeros, or what the disk held before.
    """
    if b"\0" in line:
        return True
    try:
        text = line.decode(*_ENCODING)
        if not ended:
            parse_json(text)
    except ValueError:
        return True
    return False


def _ends_whole(file: FileIO, end: int) -> bool:
    """Return whether the last line has its line break, and no crash explains it."""
    line, start = b"", end
    while start and b"\n" not in line[:-1]:
        start = max(start - max(_PIECE, len(line)), 0)
        file.seek(start)
        line = file.read(end - start)
    last = line[:-1].rpartition(b"\n")[2]
    return not line or (line.endswith(b"\n") and not _is_cut(last, ended=True))


def _remains(path: Path) -> Path:
    """Return the file for what a crash left of a line."""
    return path.with_name(f"{path.name}.cut")


def _set_aside(cut: bytes, path: Path) -> None:
    with FileIO(path, "ab", opener=open_private) as file:
        _write(file, cut)


def _write(file: FileIO, content: bytes) -> None:
    """Write everything, and return when it is on the disk."""
    write_all(file, content)
    os.fsync(file.fileno())
