"""What engines place: `drive`, and what DBOS and Temporal make of what becomes of it."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, tool
from graphexec.integrations.placement import adrive, drive
from graphexec.runs import RunChangedError, SQLiteRuns
from tests.integrations.engines.agents import CALLS, make_asking, make_executor
from tests.integrations.engines.workers import wait_until

if TYPE_CHECKING:
    from graphexec.integrations.dbos import RunWorkflow

DONE = {"run_id": "trip", "status": "done", "output": "trip is done", "reason": "finished"}


@pytest.fixture
def store(tmp_path: Path) -> Generator[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db", lease=2.0) as opened:
        yield opened


def begun(folder: Path) -> list[str]:
    notes = folder / "calls"
    return [] if not notes.exists() else [line for line in notes.read_text().splitlines() if line.startswith("begin")]


async def until(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_until, condition, "what the test waits for")


def test_import_loads_no_engine() -> None:
    program = "import sys, graphexec.integrations.placement; print({'dbos', 'temporalio'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"


def test_run_placed_twice_has_one_result(store: SQLiteRuns, tmp_path: Path) -> None:
    executor = make_executor(tmp_path, seconds=0.01)
    with ThreadPoolExecutor() as threads:
        placed = [threads.submit(drive, executor, store, "trip", "trip") for _ in range(3)]
        assert [one.result() for one in placed] == [DONE] * 3
    assert len(begun(tmp_path)) == CALLS


def test_run_waits_for_answers(store: SQLiteRuns, tmp_path: Path) -> None:
    executor = make_asking(tmp_path)
    outcome = drive(executor, store, "trip", "trip")
    [question] = store.questions("trip")
    assert 3500.0 < outcome.pop("expires_in") <= 3600.0
    asked = {"key": question.key, "text": "Work?", "choices": ["yes", "no"]}
    assert outcome == {"run_id": "trip", "status": "waiting", "questions": [asked]}
    store.reply("trip", question.key, "yes")
    assert drive(executor, store, "trip") == DONE


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_cancelled_run_begins_no_call_twice(
    seconds: float | None, store: SQLiteRuns, released: threading.Event
) -> None:
    """A call with a deadline goes on in its thread, so that it is in doubt; one without ends, and its reply counts."""
    calls: list[str] = []

    @tool
    def work(item: str) -> str:
        """Work."""
        calls.append(item)
        released.wait()
        return "worked"

    def agent(steps: Any, inputs: Any) -> AgentAction | AgentFinish:
        done = len(steps) == 2
        return AgentFinish({"output": steps[0].observation}) if done else AgentAction("work", str(len(steps)))

    executor = AgentExecutor(agent=agent, tools=[work], max_execution_time=seconds)

    async def main() -> None:
        task = asyncio.create_task(adrive(executor, store, "trip", "go"))
        await until(lambda: calls)
        task.cancel()
        await asyncio.wait([task], timeout=0.05 if seconds is None else None)
        assert task.done() is (seconds is not None)
        released.set()
        await asyncio.wait([task])

    asyncio.run(main())
    assert store.get("trip").status == "failed"
    assert ("worked" in drive(executor, store, "trip")["output"]) is (seconds is None)
    assert calls == ["0", "1"]


# ---- DBOS


@contextmanager
def launched(executor: AgentExecutor[Any], store: SQLiteRuns, folder: Path) -> Generator["RunWorkflow"]:
    """Run DBOS in this process until the end of the block."""
    dbos = pytest.importorskip("dbos")
    from graphexec.integrations.dbos import workflow_for
    from tests.integrations.engines.dbos_worker import configuration

    dbos.DBOS(config=configuration(folder, "local"))
    placed = workflow_for(executor, store, queue="agents")
    dbos.DBOS.launch()
    try:
        dbos.DBOS.register_queue("agents", polling_interval_sec=0.05)
        yield placed
    finally:
        dbos.DBOS.destroy(destroy_registry=True)


def result(placed: Any) -> Any:
    """Return the result of a workflow, for which DBOS looks once a second by default."""
    return placed.get_result(polling_interval_sec=0.05)


@pytest.mark.medium
def test_dbos_places_a_run_again_when_it_can_go_on(store: SQLiteRuns, tmp_path: Path) -> None:
    with launched(make_asking(tmp_path), store, tmp_path) as placed:
        answered = placed.place("trip", "trip")
        expired = placed.place("other", "other")
        assert result(answered)["status"] == result(expired)["status"] == "waiting"
        store.reply("trip", store.questions("trip")[0].key, "yes")
        # As a workflow does that a worker recovers only now.
        placed.place("trip", delay=3600.0)
        assert result(placed.place("trip")) == DONE
        # Nobody places it; the question expires.
        wait_until(lambda: store.get("other").status == "done", "the end of the other run")
        assert result(placed.place("other"))["output"] == "not approved"


@pytest.mark.medium
def test_dbos_places_one_workflow_at_a_time(store: SQLiteRuns, tmp_path: Path) -> None:
    from dbos import DBOS

    with launched(make_executor(tmp_path, seconds=0.1), store, tmp_path) as placed:
        one, two = placed.place("trip", "trip"), placed.place("trip", "trip")
        assert one.workflow_id == two.workflow_id
        # As recovery does to a worker that lives.
        again = DBOS.start_workflow(placed.workflow, "trip", "trip")
        assert result(one) == result(again) == DONE
    assert len(begun(tmp_path)) == CALLS


@pytest.mark.medium
def test_dbos_retries_no_run_of_other_code(store: SQLiteRuns, tmp_path: Path) -> None:
    drive(make_asking(tmp_path), store, "trip", "trip")
    with launched(make_executor(tmp_path), store, tmp_path) as placed, pytest.raises(RunChangedError):
        result(placed.place("trip"))


# ---- Temporal


@asynccontextmanager
async def working(executor: AgentExecutor[Any], store: SQLiteRuns) -> AsyncGenerator[Any]:
    """Run a server, and a worker in this process, until the end of the block; yield a client."""
    pytest.importorskip("temporalio")
    from temporalio.worker import Worker

    from graphexec.integrations.temporal import DriveRun, activity_for
    from tests.integrations.engines.server import temporal_server

    async with temporal_server() as (client, _):
        carry_on = activity_for(executor, store)
        async with Worker(client, task_queue="agents", workflows=[DriveRun], activities=[carry_on]):
            yield client


@pytest.mark.medium
def test_temporal_workflow_waits_for_answers(store: SQLiteRuns, tmp_path: Path) -> None:
    """It waits until it is woken, or until a question expires; a wake that changes nothing is harmless."""
    pytest.importorskip("temporalio")
    from temporalio.worker import Replayer

    from graphexec.integrations.temporal import DriveRun, place

    async def main() -> None:
        async with working(make_asking(tmp_path), store) as client:
            answered = await place(client, "trip", "trip", task_queue="agents")
            expired = await place(client, "other", "other", task_queue="agents")
            await until(lambda: store.questions("trip"))
            store.reply("trip", store.questions("trip")[0].key, "yes")
            assert (await place(client, "trip", task_queue="agents")).id == answered.id
            assert await answered.result() == DONE
            # As another worker does.
            await Replayer(workflows=[DriveRun]).replay_workflow(await answered.fetch_history())
            assert (await expired.result())["output"] == "not approved"
            # The workflow has ended; another one reads the result.
            assert await (await place(client, "trip", task_queue="agents")).result() == DONE

    asyncio.run(main())
    assert len(begun(tmp_path)) == CALLS


@pytest.mark.medium
def test_cancelled_temporal_workflow_stops_its_run(store: SQLiteRuns, tmp_path: Path) -> None:
    from temporalio.client import WorkflowFailureError

    from graphexec.integrations.temporal import place

    async def main() -> None:
        async with working(make_executor(tmp_path, seconds=0.2), store) as client:
            placed = await place(client, "trip", "trip", task_queue="agents", heartbeat=0.5)
            await until(lambda: begun(tmp_path))
            await placed.cancel()
            with pytest.raises(WorkflowFailureError):
                await placed.result()
            await until(lambda: store.get("trip").status == "failed")
            assert len(begun(tmp_path)) < CALLS
            assert await (await place(client, "trip", task_queue="agents")).result() == DONE

    asyncio.run(main())
    assert len(begun(tmp_path)) == CALLS


@pytest.mark.medium
def test_temporal_retries_no_run_of_other_code(store: SQLiteRuns, tmp_path: Path) -> None:
    from temporalio.client import WorkflowFailureError
    from temporalio.exceptions import ActivityError, ApplicationError, RetryState

    from graphexec.integrations.temporal import place

    drive(make_asking(tmp_path), store, "trip", "trip")

    async def main() -> ActivityError:
        async with working(make_executor(tmp_path), store) as client:
            with pytest.raises(WorkflowFailureError) as caught:
                await (await place(client, "trip", task_queue="agents")).result()
            assert isinstance(caught.value.cause, ActivityError)
            return caught.value.cause

    error = asyncio.run(main())
    assert isinstance(error.cause, ApplicationError)
    assert (error.cause.type, error.retry_state) == ("RunChangedError", RetryState.NON_RETRYABLE_FAILURE)
