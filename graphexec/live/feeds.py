"""Where a live page has its records from: a recorder of this process, or a file that another one writes."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Protocol, TypeAlias

from graphexec.draw.page import record_json
from graphexec.draw.runs.record_schema import whole
from graphexec.draw.runs.records import Recorder
from graphexec.errors import InputError

# Where a run is read from.
Source: TypeAlias = Recorder | str | os.PathLike[str]

# Bytes before the place where a file is read on: other ones there show that it was written anew.
_TAIL = 256


class Feed(Protocol):
    """The records of the newest run at a source, as text, each a line."""

    # A name of the run that no other has: a reader who was told of another one is told everything.
    run: str
    lines: list[str]
    # Whether the run has its result; or what is wrong with the source.
    over: bool
    fault: str
    # Whether the readers are to go.
    closed: bool

    def refresh(self) -> None:
        """Look at the source, and add what is new."""
        ...


def feed_of(source: Source) -> Feed:
    """Return the records at a source. Raises `InputError` for what is none."""
    # Users without a type checker pass an executor, say.
    if isinstance(source, Recorder):
        return _Kept(source)
    if isinstance(source, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return _Followed(Path(source))
    raise InputError(f"a live page is of a Recorder or of a file; {source!r} is neither")


class _Kept:
    """The records of a recorder."""

    fault = ""

    def __init__(self, recorder: Recorder) -> None:
        self._records = recorder.records
        self.run = _name()
        self.lines: list[str] = []
        self.over = self.closed = False

    def refresh(self) -> None:
        for record in self._records[len(self.lines) :]:
            self.lines.append(record_json(record))
            self.over = record["event"] == "result"


class _Followed:
    """The records in a file that grows, that may not be there yet, and that may be written anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: os.stat_result | None = None
        self.run = _name()
        self.lines: list[str] = []
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        """Begin with a file that was not read yet."""
        self._position = self._number = 0
        self._tail = self._rest = b""
        self._begin_run()

    def _begin_run(self) -> None:
        if self.lines:
            self.run, self.lines = _name(), []
        self.over = False
        self.fault = ""

    def refresh(self) -> None:
        try:
            status = self._path.stat()
            if _same(status, self._seen):
                return
            new = self._new(status)
        except FileNotFoundError:
            return
        except OSError as error:
            self._stop(f"{self._path} cannot be read: {error}")
            return
        self._seen = status
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._number += 1
            if line.strip() and not self.fault:
                self._add(line)

    def _new(self, status: os.stat_result) -> bytes:
        """What was written since; all, of a file that is another one now."""
        with self._path.open("rb") as file:
            if self._seen is not None and (status.st_dev, status.st_ino) != (self._seen.st_dev, self._seen.st_ino):
                self._begin()
            file.seek(self._position - len(self._tail))
            if file.read(len(self._tail)) != self._tail:
                self._begin()
                file.seek(0)
            new = file.read()
        self._position += len(new)
        self._tail = (self._tail + new)[-_TAIL:]
        return new

    def _add(self, line: bytes) -> None:
        place = f"line {self._number} of {self._path}"
        try:
            record = json.loads(line)
            begins = record["event"] == "start" and "machine" in record
            if begins or self.lines:
                whole(record, place)
        except InputError as error:
            self._stop(str(error))
            return
        except (ValueError, KeyError, TypeError, RecursionError):
            self._stop(f"{place} is not a record; give what graphexec run --record wrote")
            return
        if begins:
            self._begin_run()
        elif not self.lines:
            self._stop(
                f"{self._path} does not begin with a start and its machine; give what graphexec run --record wrote"
            )
            return
        self.lines.append(record_json(record))
        self.over = record["event"] == "result"

    def _stop(self, fault: str) -> None:
        self.fault, self.over = fault, True


def _name() -> str:
    return secrets.token_hex(4)


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    return other is not None and (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_dev,
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
    )
