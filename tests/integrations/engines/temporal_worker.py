"""A process that carries on runs that Temporal places: `FOLDER ADDRESS [no workflows]`."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker

from graphexec.integrations.temporal import DriveRun, activity_for
from graphexec.runs import SQLiteRuns
from tests.integrations.engines.agents import make_executor


async def main(folder: Path, address: str, *without: str) -> None:
    """Work until the process is killed."""
    client = await Client.connect(address)
    carry_on = activity_for(make_executor(folder), SQLiteRuns(folder / "runs.db", lease=2.0))
    async with Worker(
        client,
        task_queue="agents",
        workflows=[] if without else [DriveRun],
        activities=[carry_on],
        max_concurrent_activities=10,
        # Those that are stopped are sent tasks, too, which are lost for the time of a heartbeat.
        max_concurrent_activity_task_polls=1,
        # A worker that is gone keeps its workflows for this time.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        print("up", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
