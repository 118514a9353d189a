"""The records in the text of a trace, and in a page."""

import gzip
import json
import re
from base64 import b64decode

from graphexec.draw.runs.data import Record
from graphexec.draw.runs.record_schema import read_record


def read_trace(text: str) -> list[Record]:
    """Return the records of a trace, which may be incomplete or invalid as a run."""
    return [read_record(line, f"line {number}") for number, line in enumerate(text.splitlines(), 1)]


def unpack_records(packed: str) -> list[Record]:
    """Return the records of a run as a page holds them."""
    records: list[Record] = json.loads(gzip.decompress(b64decode(packed)))
    return records


def unpack_page(page: str) -> str:
    """Return the text of a page with its records as JSON."""
    return re.sub(r'"(H4sI[\w+/=]+)"', lambda found: gzip.decompress(b64decode(found[1])).decode(), page)
