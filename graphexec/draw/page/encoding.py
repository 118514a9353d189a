"""JSON for the page: what JavaScript can read, and what a script element can hold."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, cast

from graphexec.draw.runs.data import Record
from graphexec.messages.images import Image, restore_object

# The largest integer that JavaScript represents exactly.
_MOST = 2**53
# The maximum depth of nested data; and bits of an integer, below Python's limit on decimal conversion.
_DEEP = 60
_LONG = 2000
# Characters that could end the script element that holds the data, or begin a comment in it.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def record_json(record: Record) -> str:
    """Return a record as JSON for the page: numbers that JavaScript cannot represent are strings.

    Images become their labels, and data nested too deeply becomes `…`.
    """
    return json.dumps(readable(record), allow_nan=False)


def pack_records(records: Iterable[Record]) -> str:
    """Return the records of a run, each as `record_json` has it, as gzipped JSON in Base64; no records are ""."""
    shown = list(map(readable, records))
    text = json.dumps(shown, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode() if shown else ""


def script_json(data: Record) -> str:
    """Return `readable` data as JSON in ASCII that cannot end an HTML script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _ESCAPES[found[0]], text)


# Any: JSON values are arbitrary.
def readable(value: Any, depth: int = 0) -> Any:
    """Return JSON data as the page shows them, see `record_json`; `depth` is how many values they are in."""
    match value:
        case None | bool() | str():
            return value
        case _ if depth > _DEEP:
            return "…"
        case int() if -_MOST <= value <= _MOST:
            return value
        case int():
            return hex(value) if value.bit_length() > _LONG else str(value)
        case dict():
            # Type checkers do not know the members of an arbitrary value.
            members = cast("Record", value)
            restored = restore_object(members) if "kind" in members else members
            if isinstance(restored, Image):
                return f"[image: {restored}]"
            return {name: readable(one, depth + 1) for name, one in restored.items()}
        case list() | tuple():
            return [readable(one, depth + 1) for one in cast("Sequence[Any]", value)]
        case _:
            return value if isfinite(value) else str(value)
