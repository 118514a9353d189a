"""`--json`: the records of a run, a line each as they are made; `graphexec.draw.records` has their fields."""

from __future__ import annotations

import json
from typing import Any, TextIO

from graphexec.actions import StoppedResponse
from graphexec.cli.exits import ANSWERED, INTERRUPTED, STOPPED, code_of, line_of
from graphexec.cli.following import Reached, Setup
from graphexec.draw.data import Record
from graphexec.draw.records import Recorder, ending
from graphexec.kernel.events import Done, Event
from graphexec.result import Ending


class Records:
    """A watcher that writes records to `out`. They are ASCII, so that every stream can carry them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._recorder: Recorder | None = None

    def begun(self, setup: Setup) -> None:
        """Write `start`."""
        executor = setup.executor
        self._recorder = Recorder(
            executor.verify(), inputs=setup.question, model=setup.model, agent=setup.agent, tools=list(executor.tools)
        )
        self._write(self._recorder.records[0])

    def happened(self, event: Event[Ending]) -> None:
        """Write the event."""
        assert self._recorder is not None, "a run begins"
        if not isinstance(event, Done):
            self._write(self._recorder(event))

    def ended(self, ending: Ending, reached: Reached) -> None:
        """Write the result of a run that ended."""
        status, code = ("stopped", STOPPED) if isinstance(ending, StoppedResponse) else ("answered", ANSWERED)
        self._result(status, code, reached)

    def interrupted(self, reached: Reached) -> None:
        """Write the result of a run that the person ended."""
        self._result("interrupted", INTERRUPTED, reached)

    def failed(self, error: Exception, reached: Reached) -> None:
        """Write the result of a run that an error ended."""
        described = {"type": type(error).__name__, "message": line_of(error)}
        self._result("error", code_of(error), reached, error=described)

    def _result(self, status: str, code: int, reached: Reached, **told: Any) -> None:
        assert self._recorder is not None, "a run begins"
        last = {**ending(reached.ending), **told}
        self._write(self._recorder.result(status, code, reached.steps, reached.spent, reached.seconds, **last))

    def _write(self, record: Record) -> None:
        print(json.dumps(record), file=self._out, flush=True)
