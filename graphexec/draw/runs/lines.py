"""Records as lines of JSON: a trace in the compact form is written, and traces of all versions are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from graphexec.draw.runs.compact import MARK, RecordDecoder, RecordEncoder
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import COMPACT_VERSION, NAME_A_TRACE, upgrade_record
from graphexec.errors import InputError
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, parse_json


@final
class TraceWriter:
    """Writes a trace with a function that takes its lines; from its `start`, each line holds what is new.

    If a record is not written, because the function raises or is interrupted, the next one begins anew.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._begun = False
        self._encoder: RecordEncoder | None = None

    def write(self, record: Record) -> None:
        """Write the line of a record. Raises what the function raises."""
        encoder, self._encoder = self._encoder, None
        begins = record.get("event") == "start"
        again = self._begun and encoder is None and not begins
        if begins:
            self._begun = True
            record = {**record, "version": COMPACT_VERSION}
        if begins or again:
            encoder = RecordEncoder()
        line = record if encoder is None else encoder.encode(record)
        written = {MARK: [line]} if again else line
        self._write(f"{format_json(written, separators=(',', ':'))}\n")
        self._encoder = encoder


@final
class TraceReader:
    """Reads the lines of a trace in their order; a `start` begins a run, and says which version its records have."""

    def __init__(self) -> None:
        self._decoder: RecordDecoder | None = None

    def read(self, line: str | bytes, place: str) -> Record:
        """Return the record of the next line. Raises `InputError`, with the `place`, for an invalid line."""
        try:
            record = self._record_of({**parse_json(line)})
        except InputError as error:
            raise InputError(f"{place} {error}; {NAME_A_TRACE}") from None
        except INVALID_DATA_ERRORS:
            raise InputError(f"{place} is not a record; {NAME_A_TRACE}") from None
        return upgrade_record(record, place)

    def _record_of(self, written: Record) -> Record:
        """Return the record that is written. Raises one of `INVALID_DATA_ERRORS`."""
        if written.get("event") == "start":
            self._decoder = RecordDecoder() if written.get("version") == COMPACT_VERSION else None
        elif self._decoder is not None and [*written] == [MARK] and isinstance(written[MARK], list):
            self._decoder = RecordDecoder()
            (written,) = written[MARK]
        record = written if self._decoder is None else self._decoder.decode(written)
        if not isinstance(record["event"], str):
            raise TypeError("an event is a string")
        return record
