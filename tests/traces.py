"""The records in the text of a trace."""

from collections.abc import Iterable

from graphexec.draw.runs.compact import RecordDecoder
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.lines import TraceReader


def read_trace(text: str) -> list[Record]:
    """Return the records of a trace, which may be incomplete or invalid as a run."""
    reader = TraceReader()
    return [reader.read(line, f"line {number}") for number, line in enumerate(text.splitlines(), 1)]


def read_compact(records: Iterable[Record]) -> list[Record]:
    """Return the records of a run from their compact form, as pages have it."""
    decoder = RecordDecoder()
    return [decoder.decode(record) for record in records]
