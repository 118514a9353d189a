"""Records are stored as bytes until they are used, and are then what they were."""

from __future__ import annotations

import copy
import enum
import gc
import pickle
import threading
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


@given(RECORDS, RECORDS, st.integers(1, 40))
def test_records_are_read_as_they_were_added(
    first: list[dict[str, Any]], more: list[dict[str, Any]], times: int
) -> None:
    # Some are stored in several parts.
    first = first * times
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


def test_records_are_added_while_others_are_read() -> None:
    records = StoredRecords()
    for number in range(300):
        records.append({"number": number})
        assert records[-1] == {"number": number}
        assert len(records) == number + 1
    assert list(records) == [{"number": number} for number in range(300)]


def test_threads_read_what_another_one_adds() -> None:
    records = StoredRecords()
    wrong: list[list[int]] = []

    def read() -> None:
        while len(records) < 5000:
            numbers = [record["number"] for record in records.copy()]
            if numbers != list(range(len(numbers))):
                wrong.append(numbers)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5000):
        records.append({"number": number})
    for thread in threads:
        thread.join()
    assert wrong == []


def test_values_that_are_not_jsons_are_kept() -> None:
    records = StoredRecords()
    for value in (Colour.RED, deep(3000)):
        for _ in range(100):
            records.append({"value": value})
    assert records[0]["value"] is Colour.RED
    assert isinstance(records[100]["value"], list)
    assert len(records) == 200


def test_copy_has_the_records_so_far() -> None:
    records = StoredRecords()
    for number in range(100):
        records.append({"number": number})
    before = records.copy()
    records.append({"event": "result"})
    assert before == [{"number": number} for number in range(100)]
    assert before != records
    assert before != "start"
    for again in (copy.copy(before), copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert again == before


def test_garbage_collector_does_not_visit_unread_records() -> None:
    known = [*sixty_steps().records] * 20
    records = StoredRecords()
    gc.collect()
    before = len(gc.get_objects())
    for record in known:
        records.append(record)
    gc.collect()
    assert len(gc.get_objects()) - before < len(known) / 10
    assert records == known
