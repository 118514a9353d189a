"""HTML: one self-contained page that shows a machine and a run, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from graphexec.draw.model.picture import Arrow, Picture
from graphexec.draw.model.text import shorten
from graphexec.draw.page.assembly import assemble
from graphexec.draw.page.encoding import pack_records, readable, record_json
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.overlay import steps_of
from graphexec.draw.runs.records import Recording

__all__ = ["html", "record_json"]

# The maximum length of the question in the page's title.
_TITLE = 80


def html(picture: Picture, recording: Recording | None = None, *, live: str | None = None) -> str:
    """Draw the picture as an HTML page; with a `recording`, the page shows the run step by step.

    `live` is the address of an event stream on the page's own server: each message is a record in the format of
    `record_json`, and its `id` is the index in the run; the event `end` ends the stream. The page makes no other
    request, and works from disk. Raises `InputError` if pygraphviz is not installed.
    """
    records = () if recording is None else recording.records
    shown = replace(picture, arrows=tuple(_with_counts(picture, records, live=live is not None)))
    data = {"picture": readable(picture.to_data()), "records": pack_records(records), "live": live}
    return assemble(shown, data, title=_title(picture, records), live=live is not None)


def _with_counts(picture: Picture, records: Iterable[Record], *, live: bool) -> Iterable[Arrow]:
    """Yield the arrows with their counts, so that the layout reserves space for the counts that the script shows."""
    moves = Counter(steps_of(picture, records))
    for index, arrow in enumerate(picture.arrows):
        count = moves[index]
        yield replace(arrow, notes=(f"×{count:,}",)) if count or live else arrow


def _title(picture: Picture, records: Iterable[Record]) -> str:
    # Any: a run's input is arbitrary.
    asked: Any = next((readable(record.get("input")) for record in records if record["event"] == "start"), None)
    with suppress(TypeError, KeyError):
        asked = asked["input"]
    if asked is None:
        return f"State machine starting at {picture.start}"
    return shorten(str(asked), _TITLE)
