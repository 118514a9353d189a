"""Stored runs that a Temporal server places on workers (extra `temporal`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from graphexec.integrations.placement import adrive, is_lasting
from graphexec.runs import Runs

if TYPE_CHECKING:
    from graphexec.executor import AgentExecutor
    from graphexec.executor.inputs import Inputs


async def _beat(seconds: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(seconds / 5)


def activity_for(executor: AgentExecutor[Any], runs: Runs) -> Callable[..., Any]:
    """Return the activity of an executor's runs; if it is cancelled, the run stops before its next effect."""

    @activity.defn(name="graphexec.drive")
    async def carry_on(run_id: str, inputs: Any, heartbeat: float) -> dict[str, Any]:
        beating = asyncio.create_task(_beat(heartbeat))
        try:
            return await adrive(executor, runs, run_id, inputs, patience=heartbeat)
        except Exception as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=is_lasting(error)) from error
        finally:
            beating.cancel()

    return carry_on


# Nothing in it needs the sandbox. Without exception types, the server would retry a mistake in it for ever.
@workflow.defn(name="graphexec.DriveRun", sandboxed=False, failure_exception_types=[Exception])
class DriveRun:
    """The workflow of a run from its first placement to its end; while the run waits for answers, nothing goes on."""

    @workflow.signal
    def wake(self) -> None:
        """Carry the run on, because its questions may be answered."""
        self._woken = True

    @workflow.run
    async def run(self, run_id: str, inputs: Any, heartbeat: float) -> dict[str, Any]:
        """Return what `drive` returns of a run that is done."""
        args, day, late = [run_id, inputs, heartbeat], timedelta(days=1), timedelta(seconds=heartbeat)
        while True:
            self._woken = False
            outcome: dict[str, Any] = await workflow.execute_activity(
                "graphexec.drive", args=args, start_to_close_timeout=day, heartbeat_timeout=late
            )
            if outcome["status"] == "done":
                return outcome
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._woken, timeout=outcome["expires_in"])


async def place(
    client: Client, run_id: str, inputs: Inputs | None = None, *, task_queue: str, heartbeat: float = 30.0
) -> WorkflowHandle[Any, dict[str, Any]]:
    """Start the workflow of a run, a new one with `inputs`, or wake it once its questions are answered.

    A worker that sends no heartbeat for so many seconds is taken for dead, and another one continues its runs.
    """
    args = [run_id, inputs, heartbeat]
    return await client.start_workflow(DriveRun.run, args=args, id=run_id, task_queue=task_queue, start_signal="wake")
