"""`--json`: the records of a run, a line each as they are made; `graphexec.draw.runs.records` has their fields."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from graphexec.actions import StoppedResponse
from graphexec.cli.exit_codes import ANSWERED, INTERRUPTED, STOPPED, UsageError, code_of, line_of, read
from graphexec.cli.run_loop import Reached, Setup
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recorder, ending
from graphexec.errors import InputError
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done, Event

if TYPE_CHECKING:
    from graphexec.draw.runs.records import Recording


class Records:
    """A display that writes records to `out`. They are ASCII, so that every stream can carry them."""

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


def recording_at(file: str) -> Recording:
    """Read the records of a run; `-` is the standard input. Raises `UsageError` that names an invalid line.

    A run whose last line is cut off is read as far as it goes, with a warning on stderr.
    """
    from graphexec.draw.runs.records import Recording

    name = "standard input" if file == "-" else file
    whole, last = _split_last_line(read(file))
    if last:
        number = whole.count("\n") + 1
        print(f"graphexec: {name}: line {number} is cut off; the run is shown as far as it goes", file=sys.stderr)
    try:
        return Recording.from_json_lines(whole)
    except InputError as error:
        raise UsageError(f"{name}: {error}") from error


def _split_last_line(text: str) -> tuple[str, str]:
    """The lines that are whole, and the last one if it is cut off."""
    head, newline, last = text.rpartition("\n")
    if not last.strip():
        return text, ""
    try:
        json.loads(last)
    except RecursionError:
        # It is told as no record.
        return text, ""
    except ValueError:
        return head + newline, last
    return text, ""
