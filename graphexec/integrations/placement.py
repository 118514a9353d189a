"""What an engine places: `drive` carries a stored run on, in whichever process, and returns what has become of it.

Queues, timers, retries and recovery are the engine's; the log, and who may carry the run on, are the store's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from graphexec.errors import GraphexecError
from graphexec.runs import RunBusyError, RunLostError, Runs, RunStoreError, Waiting
from graphexec.runtime.io import ASYNC
from graphexec.runtime.threads import sleep_unless_cancelled

if TYPE_CHECKING:
    from graphexec.executor import AgentExecutor
    from graphexec.executor.inputs import Inputs


def is_lasting(error: BaseException) -> bool:
    """Return whether a run raises this however often it is placed: code or inputs are wrong, or a call is in doubt."""
    mistake = isinstance(error, GraphexecError) and isinstance(error, (TypeError, ValueError))
    return mistake or isinstance(error, RunStoreError)


def drive(executor: AgentExecutor[Any], runs: Runs, run_id: str, inputs: Inputs | None = None) -> dict[str, Any]:
    """Carry a stored run on, or begin it with `inputs`; return what has become of it, as JSON data.

    A run that has ended is `done`: it has the `output`, as a string, and the `reason` of its end. One that waits for
    answers is `waiting`: it has the `questions`, and `expires_in` seconds the first one expires, unless that is
    `None`. While another call of this carries the run on, wait for that: an engine may place a run twice. Raises what
    `executor.run` raises.
    """
    while True:
        try:
            if inputs is None:
                result = executor.resume(run_id, runs=runs)
            else:
                result = executor.run(inputs, runs=runs, run_id=run_id)
        except (RunBusyError, RunLostError):
            sleep_unless_cancelled(runs.lease / 10)
            continue
        if not isinstance(result, Waiting):
            return {"run_id": run_id, "status": "done", "output": str(result), "reason": result.reason}
        # Otherwise the last answer has just come.
        if result.questions:
            questions = [{"key": one.key, "text": one.text, "choices": [*one.choices]} for one in result.questions]
            dates = [one.expires_at for one in result.questions if one.expires_at is not None]
            expires_in = max(0.0, min(dates) - time.time()) if dates else None
            return {"run_id": run_id, "status": "waiting", "questions": questions, "expires_in": expires_in}


async def adrive(
    executor: AgentExecutor[Any], runs: Runs, run_id: str, inputs: Inputs | None = None, *, patience: float = 30.0
) -> dict[str, Any]:
    """Do as `drive` in a thread; if this is cancelled, the run stops before its next effect.

    The call that it makes then may take `patience` more seconds, so that its reply is stored.
    """
    ended = threading.Event()

    def carry_on() -> dict[str, Any]:
        try:
            return drive(executor, runs, run_id, inputs)
        finally:
            ended.set()

    try:
        return await ASYNC.call(carry_on)
    except asyncio.CancelledError:
        await asyncio.to_thread(ended.wait, patience)
        raise
