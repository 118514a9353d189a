"""Records are stored as bytes until they are used, and are then what they were."""

from __future__ import annotations

import copy
import enum
import gc
import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec.draw.runs.stored import StoredRecords
from tests.draw.debugged import sixty_steps

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.text(), VALUES))


class Colour(enum.StrEnum):
    RED = "red"


def deep(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


@given(RECORDS, RECORDS)
def test_records_are_read_as_they_were_added(first: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    records = StoredRecords()
    for record in first:
        records.append(record)
    assert records == first
    assert list(map(list, records)) == list(map(list, first))
    for record in more:
        records.append(record)
    assert (len(records), list(reversed(records)), records[1:]) == (
        len(first + more),
        (first + more)[::-1],
        (first + more)[1:],
    )


def test_record_stays_as_it_was_added() -> None:
    record: dict[str, Any] = {"event": "moved", "value": {"steps": 1}}
    records = StoredRecords()
    records.append(record)
    record["value"]["steps"] = 2
    assert records[0] == {"event": "moved", "value": {"steps": 1}}


def test_values_that_are_not_jsons_are_kept() -> None:
    records = StoredRecords()
    for value in (Colour.RED, deep(3000)):
        records.append({"value": value})
    assert records[0]["value"] is Colour.RED
    assert isinstance(records[1]["value"], list)


def test_copy_has_the_records_so_far() -> None:
    records = StoredRecords()
    records.append({"event": "start"})
    before = records.copy()
    records.append({"event": "result"})
    assert before == [{"event": "start"}]
    assert before != records
    assert before != "start"
    for again in (copy.copy(before), copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert again == before


def test_garbage_collector_does_not_visit_unread_records() -> None:
    known = [*sixty_steps().records]
    records = StoredRecords()
    gc.collect()
    before = len(gc.get_objects())
    for record in known:
        records.append(record)
    gc.collect()
    assert len(gc.get_objects()) - before < len(known) / 10
    assert records == known
