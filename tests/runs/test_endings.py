"""The end of stored runs: however their process leaves them, the same id returns the result."""

from collections.abc import Generator
from pathlib import Path

import pytest

from graphexec.kernel.events import Done
from graphexec.runs import SQLiteRuns
from tests.executor.actors import act, answer, make_executor


@pytest.fixture
def store(tmp_path: Path) -> Generator[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        yield store


def test_stream_that_is_closed_at_its_last_event_has_ended(store: SQLiteRuns) -> None:
    executor = make_executor(act("echo", text="a"), answer("done"))
    for event in (events := executor.stream("q", runs=store, run_id="trip")):
        if isinstance(event, Done):
            break
    events.close()
    assert (store.get("trip").status, store.get("trip").note) == ("done", "done")
    *_, last = executor.stream(None, runs=store, run_id="trip")
    assert isinstance(last, Done)
    assert last.outcome.output == "done"


def test_run_whose_process_ends_after_its_end_has_ended(store: SQLiteRuns) -> None:
    executor = make_executor(act("echo", text="a"), answer("done"))
    executor.run("q", runs=store, run_id="trip")
    # As if the process had been killed before it gave the run up.
    store.execute("UPDATE graphexec_runs SET status='running', owner='x|y|1|2', leased_until=0")
    assert store.ready() == ["trip"]
    for _ in range(3):
        result = executor.resume("trip", runs=store)
        assert getattr(result, "output", None) == "done"
        assert store.get("trip").status == "done"
