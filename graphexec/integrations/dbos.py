"""Stored runs that DBOS places in processes on many machines, with no server but a database (extra `dbos`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from dbos import DBOS, SetEnqueueOptions, WorkflowHandle

from graphexec.errors import InputError
from graphexec.integrations.placement import drive, is_lasting
from graphexec.runs import Runs

if TYPE_CHECKING:
    from graphexec.executor import AgentExecutor
    from graphexec.executor.inputs import Inputs


@final
@dataclass(frozen=True)
class RunWorkflow:
    """The workflow of an executor's runs, and the name of the queue that they go through."""

    workflow: Callable[[str, Any], dict[str, Any]]
    runs: Runs
    queue: str

    def place(
        self, run_id: str, inputs: Inputs | None = None, *, delay: float | None = None
    ) -> WorkflowHandle[dict[str, Any]]:
        """Put a run on the queue, in `delay` seconds: a new one with `inputs`, or one that the store has.

        The result of the workflow is that of `drive`. Place a run again once its questions are answered; when one
        expires, it is placed for you. Raises `InputError` for a run that there is not, without inputs.
        """
        try:
            changed = self.runs.get(run_id).updated
        except InputError:
            if inputs is None:
                raise
            changed = 0.0
        # Until the run changes, this is the same placement; but one that is for later does not stand for one now.
        same = f"{run_id} {changed!r} {delay is None}"
        with SetEnqueueOptions(deduplication_id=same, duplication_policy="return-existing", delay_seconds=delay):
            return DBOS.enqueue_workflow(self.queue, self.workflow, run_id, inputs)


def workflow_for(executor: AgentExecutor[Any], runs: Runs, *, queue: str, name: str = "graphexec") -> RunWorkflow:
    """Register the workflow of an executor's runs before `DBOS.launch()`; each executor has a `name` of its own."""

    @DBOS.step(name=f"{name}.drive", retries_allowed=True, should_retry=lambda error: not is_lasting(error))
    def carry_on(run_id: str, inputs: Inputs | None) -> dict[str, Any]:
        return drive(executor, runs, run_id, inputs)

    @DBOS.workflow(name=name)
    def workflow(run_id: str, inputs: Inputs | None) -> dict[str, Any]:
        outcome = carry_on(run_id, inputs)
        if outcome.get("expires_in") is not None:
            placed.place(run_id, delay=outcome["expires_in"])
        return outcome

    placed = RunWorkflow(workflow, runs, queue)
    return placed
