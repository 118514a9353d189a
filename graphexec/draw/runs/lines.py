"""Records as lines of JSON, of which a trace consists."""

from __future__ import annotations

from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import NAME_A_TRACE, upgrade_record
from graphexec.errors import InputError
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, parse_json


def record_line(record: Record) -> str:
    """Return the line of a record, in ASCII."""
    return f"{format_json(record)}\n"


def read_record(line: str | bytes, place: str) -> Record:
    """Return the record of a line. Raises `InputError`, with the `place`, for an invalid line."""
    try:
        record: Record = {**parse_json(line)}
        if not isinstance(record["event"], str):
            raise TypeError("an event is a string")
    except INVALID_DATA_ERRORS:
        raise InputError(f"{place} is not a record; {NAME_A_TRACE}") from None
    return upgrade_record(record, place)
