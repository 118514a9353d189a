"""Records are stored as bytes until they are used, and are then what they were."""

import copy
import enum
import gc
import os
import pickle
import signal
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.draw.runs.stored import StoredRecords
from tests import garbage
from tests.draw.debugged import sixty_steps
from tests.draw.recorded import nested
from tests.parameters import cases

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.text(), VALUES))


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.medium
@given(RECORDS, RECORDS, st.integers(1, 40))
def test_records_are_read_as_added(first: list[dict[str, Any]], more: list[dict[str, Any]], times: int) -> None:
    # Some are stored in several parts.
    first = first * times
    records = StoredRecords()
    for record in first:
        records.append(record)
    assert records == first
    assert list(map(list, records)) == list(map(list, first))
    for record in more:
        records.append(record)
    whole = first + more
    assert (len(records), list(reversed(records)), records[1:]) == (len(whole), whole[::-1], whole[1:])


def test_records_are_added_while_others_are_read_and_copied() -> None:
    records = StoredRecords()
    for number in range(300):
        records.append({"number": number})
        assert records[-1] == {"number": number}
        assert len(records) == number + 1
    # A copy has the records so far.
    before, copied = records.copy(), copy.copy(records)
    for _ in range(100):
        records.append({"event": "result"})
    assert before == copied == list(before) == [{"number": number} for number in range(300)]
    assert len(records) == 400
    assert before != records
    assert before != "start"
    for again in (copy.copy(before), copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert again == before


@pytest.mark.medium
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


@cases("within", slice(None), slice(70, 130), slice(-5, None), slice(None, None, -1), slice(3, 200, 7))
def test_slices_are_those_of_a_list(within: slice) -> None:
    numbers = [{"number": number} for number in range(150)]
    records = StoredRecords(numbers)
    assert records[within] == numbers[within]
    assert [records[place] for place in (0, 63, 64, 127, 128, 149, -1, -150)] == [
        numbers[place] for place in (0, 63, 64, 127, 128, 149, -1, -150)
    ]
    with pytest.raises(IndexError):
        _ = records[150]


def test_stream_that_ends_while_records_are_read_is_recorded() -> None:
    class Ends:
        """Adds a record when the garbage collector finds it."""

        def __init__(self, records: StoredRecords) -> None:
            self.records, self.itself = records, self

        def __del__(self) -> None:
            self.records.append({"event": "failed"})

    records = StoredRecords()
    for number in range(1000):
        Ends(records)
        records.append({"number": number})
        if not number % 50:
            garbage.collect()
            assert len(list(records)) == len(records)
    garbage.collect()
    assert sum("number" in record for record in records) == 1000
    assert len(records) == 2000


def test_values_that_are_not_jsons_are_kept() -> None:
    records = StoredRecords()
    for value in (Colour.RED, nested(3000)):
        for _ in range(100):
            records.append({"value": value})
    assert records[0]["value"] is Colour.RED
    assert isinstance(records[100]["value"], list)
    assert len(records) == 200

    # Nor are these numbers bytes.
    class Money(float):
        """A float of a user's own."""

    records = StoredRecords([{"cost": Money(0.5), "data": bytearray(b"x")}] * 130)
    assert records[0] == {"cost": 0.5, "data": bytearray(b"x")}
    assert type(records[0]["data"]) is bytearray


@pytest.mark.medium
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_add_records() -> None:
    records, ended = StoredRecords(), threading.Event()

    def add() -> None:
        while not ended.is_set():
            records.append({"event": "entered"})

    # They hold the lock most of the time.
    adding = [threading.Thread(target=add) for _ in range(3)]
    for thread in adding:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                # A process that waits for a lock forever is killed.
                signal.alarm(20)
                records.append({"event": "result"})
                os._exit(0 if records[len(records) - 1] == {"event": "result"} else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        ended.set()
        for thread in adding:
            thread.join()


def test_garbage_collector_does_not_visit_unread_records() -> None:
    known = [*sixty_steps().records] * 20
    records = StoredRecords()
    garbage.collect()
    before = len(gc.get_objects())
    for record in known:
        records.append(record)
    garbage.collect()
    assert len(gc.get_objects()) - before < len(known) / 10
    assert records == known
