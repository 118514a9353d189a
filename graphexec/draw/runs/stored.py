"""The records of a run in memory."""

from __future__ import annotations

import marshal
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final, overload

from graphexec.draw.runs.data import Record

# Records that are stored together, so that what they share is stored once.
_TOGETHER = 64
# Held while records are added or read: a page may show a run that another thread records.
_changing = threading.Lock()


@final
class StoredRecords(Sequence[Record]):
    """Records that are read when one of them is first used; until then all but the last ones are strings of bytes.

    The records of one call of a tool have forty dicts and lists, and the garbage collector visits all that is kept
    again and again, so to record a call would take longer in a longer run.
    """

    __slots__ = ("_last", "_read", "_stored")

    # Records compare as lists do.
    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def __init__(self, records: Iterable[Record] = ()) -> None:
        # Each has as many records as are stored together.
        self._stored: list[bytes | list[Record]] = []
        self._last: list[Record] = []
        # The first records, as far as they have been read.
        self._read: list[Record] = []
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Add a record, which is not changed afterwards."""
        with _changing:
            self._last.append(record)
            if len(self._last) == _TOGETHER:
                self._stored.append(_write(self._last))
                self._last = []

    def copy(self) -> StoredRecords:
        """Return the records so far."""
        copied = StoredRecords()
        with _changing:
            copied._stored, copied._last, copied._read = [*self._stored], [*self._last], [*self._read]
        return copied

    def _all(self) -> list[Record]:
        with _changing:
            while len(self._read) < len(self):
                number, begun = divmod(len(self._read), _TOGETHER)
                together = self._last if number == len(self._stored) else _read(self._stored[number])
                self._read += together[begun:]
        return self._read

    def __len__(self) -> int:
        return len(self._stored) * _TOGETHER + len(self._last)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        # Any: the elements of another sequence are compared, whatever they are.
        others: Any = other
        return isinstance(other, Sequence) and self._all() == [*others]

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


def _write(records: list[Record]) -> bytes | list[Record]:
    try:
        return marshal.dumps(records)
    except ValueError:
        # One has values of other classes than JSON's, such as those of enumerations, or is very deep.
        return records


def _read(stored: bytes | list[Record]) -> list[Record]:
    # They were written in this process, or in one whose data is trusted, as all pickled data is.
    return stored if isinstance(stored, list) else marshal.loads(stored)  # noqa: S302
