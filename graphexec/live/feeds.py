"""The sources of a live page's records: a recorder in this process, or a file that another process writes."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeAlias

from graphexec.draw.page import record_json
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import read_record, validate_record
from graphexec.draw.runs.recorder import Recorder
from graphexec.errors import InputError
from graphexec.runtime.files import open_regular, read_lines

# The source of a run's records.
Source: TypeAlias = Recorder | str | os.PathLike[str]


# Bytes before the reading position that are compared, to notice that the file was replaced.
_TAIL = 256


class Feed(ABC):
    """The records of the newest run at a source, one line of text each.

    `run` is a unique id: a reader of another run must begin again. `over` is true when the run has its result, or when
    the source is invalid: then `error` is the message. `closed` disconnects the readers.
    """

    # Seconds between two reads of the source, too short to notice; and whether a read takes so long that it needs a
    # thread.
    pause = 0.05
    blocks = False

    def __init__(self) -> None:
        self.run = secrets.token_hex(4)
        self.lines: list[str] = []
        self.over = self._closed = False
        self.error = ""

    @property
    def closed(self) -> bool:
        """Whether the readers are disconnected."""
        return self._closed

    def close(self) -> None:
        """Disconnect the readers."""
        self._closed = True

    @abstractmethod
    def refresh(self) -> None:
        """Read new records from the source."""

    def _add(self, record: Record) -> None:
        self.lines.append(record_json(record))
        self.over = record["event"] == "result"


def feed_of(source: Source) -> Feed:
    """Return the feed of a source."""
    return _RecorderFeed(source) if isinstance(source, Recorder) else _FileFeed(Path(source))


class _RecorderFeed(Feed):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._records = recorder.records

    def refresh(self) -> None:
        for record in self._records[len(self.lines) :]:
            self._add(record)


class _FileFeed(Feed):
    """The records in a file that grows, may not exist yet, and may be overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        # Device, inode, size and time of the file; bytes and lines read; the last bytes read; and the incomplete line.
        self._status: tuple[int, ...] = ()
        self._position = self._number = 0
        self._tail = self._rest = b""

    def refresh(self) -> None:
        try:
            found = self._path.stat()
            status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if status == self._status:
                return
            new = self._read_on(status)
        except FileNotFoundError:
            return
        except OSError as error:
            self._stop(f"{self._path} cannot be read: {error}")
            return
        self._status = status
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._number += 1
            if line.strip() and not self.error:
                self._read(line)

    def _read_on(self, status: tuple[int, ...]) -> bytes:
        """Return what was written since the last read; everything, if the file was replaced."""
        with open_regular(self._path) as file:
            file.seek(self._position - len(self._tail))
            if self._status and (status[:2] != self._status[:2] or file.read(len(self._tail)) != self._tail):
                self._position = self._number = 0
                self._tail = self._rest = b""
                self._begin_run()
            file.seek(self._position)
            new = read_lines(file)
        self._position += len(new)
        self._tail = (self._tail + new)[-_TAIL:]
        return new

    def _begin_run(self) -> None:
        if self.lines:
            self.run, self.lines = secrets.token_hex(4), []
        self.over = False
        self.error = ""

    def _read(self, line: bytes) -> None:
        place = f"line {self._number} of {self._path}"
        try:
            record = read_record(line, place)
            begins = record["event"] == "start" and "machine" in record
            if begins or self.lines:
                validate_record(record, place)
        except InputError as error:
            self._stop(str(error))
        else:
            if begins:
                self._begin_run()
            if begins or self.lines:
                self._add(record)
            else:
                remedy = "pass the file that graphexec run --record wrote"
                self._stop(f"{self._path} does not begin with a start and its machine; {remedy}")

    def _stop(self, error: str) -> None:
        self.error, self.over = error, True
