"""`--json`: the records of a run, a line each as they are made; `graphexec.draw.runs.records` has their fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from graphexec.actions import StoppedResponse
from graphexec.cli.exit_codes import ANSWERED, INTERRUPTED, STOPPED, UsageError, code_of, line_of, opened, read
from graphexec.cli.run_loop import Reached, Setup
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recorder, ending
from graphexec.errors import InputError
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done, Event
from graphexec.kernel.serialization import format_json

if TYPE_CHECKING:
    from graphexec.draw.runs.records import Recording


class Records:
    """A display that writes records to `out`. They are ASCII, so that every stream can carry them.

    A full disk does not end the run: nothing is written after the first record that cannot be, so that what is there is
    the beginning of a run. Only where `out` is the standard output, not a `file`, a reader that went away is an error.
    """

    def __init__(self, out: TextIO, file: Path | None = None) -> None:
        self._out = out
        self._file = file
        self._recorder: Recorder | None = None
        self._written = 0
        self._failure: OSError | None = None

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

    def report_missing(self) -> bool:
        """Print on stderr which records could not be written, and return whether there are some."""
        if self._failure is None or self._recorder is None:
            return False
        name = "the standard output" if self._file is None else self._file
        reason = self._failure.strerror or line_of(self._failure)
        total = len(self._recorder.records)
        lost = f"the last {total - self._written}" if self._written else "all"
        missing = f"{lost} of its {total} records are missing"
        # The same disk may be full for stderr.
        with suppress(OSError):
            print(f"graphexec: {name} is incomplete: {reason}; {missing}", file=sys.stderr)
        return True

    def _write(self, record: Record) -> None:
        if self._failure is not None:
            return
        try:
            print(format_json(record), file=self._out, flush=True)
        except OSError as error:
            if self._file is None and isinstance(error, BrokenPipeError):
                raise
            self._failure = error
        else:
            self._written += 1


@contextmanager
def records_in(file: Path | None) -> Generator[Records | None]:
    """Write the records of a run to a file, if there is one, and print at the end what is missing in it.

    Raises `UsageError` for a file that cannot be opened.
    """
    if file is None:
        yield None
        return
    out = opened(file)
    records = Records(out, file)
    try:
        yield records
    finally:
        # What could not be written is still in the buffer.
        with suppress(OSError):
            out.close()
        records.report_missing()


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
        json.loads(last, parse_int=str)
    except RecursionError:
        # It is told as no record.
        return text, ""
    except ValueError:
        return head + newline, last
    return text, ""
