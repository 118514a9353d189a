"""The records of a run in memory."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self, final, overload

from graphexec.draw.runs.data import Record
from graphexec.runtime.calls import hold_over_fork

# Records that are stored together, so that what they share is stored once.
_TOGETHER = 64
# Held for a moment while records are added. The garbage collector may close a stream meanwhile, whose end is recorded.
_adding = threading.RLock()
hold_over_fork(_adding)


@final
class _Chunk:
    """Records that are stored together: as bytes, until one of them is read."""

    __slots__ = ("_bytes", "_records")

    def __init__(self, records: list[Record]) -> None:
        self._bytes: bytes | None = None
        self._records: list[Record] = []
        try:
            self._bytes = pickle.dumps(records, pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - a value of a user's class may raise anything
            self._records = records

    def read(self) -> list[Record]:
        # Two threads may read it at once; what they read is equal.
        stored = self._bytes
        if stored is not None:
            # Written above, in this process.
            self._records = pickle.loads(stored)  # noqa: S301
            self._bytes = None
        return self._records


@final
class StoredRecords(Sequence[Record]):
    """The records of a run, each 64 of them as bytes until one of these is read.

    The records of one call of a tool have forty dicts and lists, and the garbage collector visits all that is kept
    again and again, so to record a call would take longer in a longer run.
    """

    __slots__ = ("_chunks", "_last")

    # Records compare as lists do.
    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._chunks: list[_Chunk] = []
        self._last: list[Record] = []
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Add a record, which is not changed afterwards."""
        with _adding:
            self._last.append(record)
            if len(self._last) == _TOGETHER:
                # One list replaces the other at once: the end of a stream may be added while these are stored.
                full, self._last = self._last, []
                self._chunks.append(_Chunk(full))

    def copy(self) -> StoredRecords:
        """Return the records so far."""
        copied = StoredRecords()
        copied._chunks, copied._last = self._parts()
        return copied

    __copy__ = copy

    def _parts(self) -> tuple[list[_Chunk], list[Record]]:
        with _adding:
            return [*self._chunks], [*self._last]

    def _from(self, begin: int) -> Iterator[Record]:
        chunks, last = self._parts()
        for chunk in chunks[begin // _TOGETHER :]:
            yield from islice(chunk.read(), begin % _TOGETHER, None)
            begin = 0
        yield from islice(last, max(0, begin - len(chunks) * _TOGETHER), None)

    def __len__(self) -> int:
        with _adding:
            return len(self._chunks) * _TOGETHER + len(self._last)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step < 0:
                return [*self][index]
            return [*islice(self._from(begin), 0, max(0, end - begin), step)]
        with _adding:
            place = range(len(self))[index]
            number, within = divmod(place, _TOGETHER)
            part = self._chunks[number] if number < len(self._chunks) else self._last
        return (part.read() if isinstance(part, _Chunk) else part)[within]

    def __iter__(self) -> Iterator[Record]:
        return self._from(0)

    def __eq__(self, other: object) -> bool:
        # Any: the elements are compared, whatever they are.
        others: Any = other
        return [*self] == [*others] if isinstance(other, (list, tuple, StoredRecords)) else NotImplemented

    def __reduce__(self) -> tuple[type[Self], tuple[list[Record]]]:
        return type(self), ([*self],)

    def __repr__(self) -> str:
        return f"<{len(self)} records>"
