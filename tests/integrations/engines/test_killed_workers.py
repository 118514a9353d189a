"""Runs that DBOS and Temporal place, while one of their workers is killed and another one is stopped and wakes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.engines.workers import RUNS, Workers, check_calls, disturb

EXPECTED = [f"r{number} is done" for number in range(RUNS)]


@pytest.mark.medium
def test_dbos_finishes_runs_of_killed_workers(tmp_path: Path) -> None:
    pytest.importorskip("dbos")
    workers = Workers(tmp_path, "dbos_worker", "dbos.db", "runs.db")
    try:
        started = [(name, workers.start(name)) for name in ("first", "second")]
        placing = workers.start("placing", str(RUNS))
        stopped = disturb(workers, started)
        assert placing.stdout is not None
        assert [outcome["output"] for outcome in json.loads(placing.stdout.readline())] == EXPECTED
        check_calls(workers, stopped)
    finally:
        workers.close()


@pytest.mark.medium
def test_temporal_finishes_runs_of_killed_workers(tmp_path: Path) -> None:
    pytest.importorskip("temporalio")
    from graphexec.integrations.temporal import place
    from tests.integrations.engines.server import temporal_server

    async def main(workers: Workers) -> list[Any]:
        async with temporal_server() as (client, address):
            # The server keeps what it has sent to a stopped worker: a workflow's task for 10 seconds.
            started = [(address, workers.start(address)), (address, workers.start(address, "no workflows"))]
            placed = [
                await place(client, f"r{number}", f"r{number}", task_queue="agents", heartbeat=2.0)
                for number in range(RUNS)
            ]
            stopped = disturb(workers, started)
            outcomes = [await handle.result() for handle in placed]
            check_calls(workers, stopped)
            return [outcome["output"] for outcome in outcomes]

    workers = Workers(tmp_path, "temporal_worker", "runs.db")
    try:
        assert asyncio.run(main(workers)) == EXPECTED
    finally:
        workers.close()
