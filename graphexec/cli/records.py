"""`--json` and `--record`: the records of a run, one per line; `graphexec.draw.runs.records` documents their fields."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

import typer

from graphexec.actions import StoppedResponse
from graphexec.cli.exit_codes import Terminated, UsageError, code_of, error_line, print_json_error
from graphexec.cli.files import open_for_writing, read
from graphexec.cli.runs.loop import RunDisplay, RunProgress, RunSetup
from graphexec.cli.runs.stores import waiting_data
from graphexec.cli.runs.termination import uninterrupted
from graphexec.draw.runs.data import Record, ending_data
from graphexec.draw.runs.record_schema import record_line
from graphexec.draw.runs.recorder import Recorder
from graphexec.errors import InputError
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done, Event
from graphexec.messages import request_parameters

if TYPE_CHECKING:
    from graphexec.draw.runs.records import Recording


# Seconds without another record after which a sign of life is written.
_HEARTBEAT = 2.0


class RunRecorder(RunDisplay):
    """A display that keeps the records of a run."""

    # Seconds between two signs of life, if the records have them.
    heartbeat: float | None = None

    def __init__(self) -> None:
        self._recorder: Recorder | None = None

    @property
    def recording(self) -> Recording | None:
        """The records of the run so far, or `None` before it begins."""
        return None if self._recorder is None else self._recorder.recording

    def on_start(self, setup: RunSetup) -> None:
        """Record `start`."""
        executor, inputs = setup.executor, setup.inputs
        if isinstance(inputs, Mapping) and len(inputs) == 1:
            # The only one has no name in the records.
            (inputs,) = inputs.values()
        self._recorder = Recorder(
            executor.verify(),
            inputs=inputs,
            model=setup.model,
            agent=setup.agent,
            tools=[tool.spec for tool in executor.tools.values()],
            parameters=request_parameters(getattr(executor.agent, "model", None)),
            heartbeat=self.heartbeat,
            clock=time.time,
        )
        self._store(self._recorder.records[0])

    def on_event(self, event: Event[Ending]) -> None:
        """Record the event."""
        assert self._recorder is not None, "a run begins"
        if not isinstance(event, Done):
            self._store(self._recorder(event))

    def on_end(self, progress: RunProgress) -> None:
        """Record the result, unless the run was interrupted before its beginning, or after its result."""
        if self._recorder is None or self._recorder.recording.result is not None:
            return
        fields: dict[str, Any] = {}
        match progress.error:
            case None if progress.waiting is not None:
                status, fields["waiting"] = "waiting", waiting_data(progress.waiting)
            case None:
                status = "stopped" if isinstance(progress.ending, StoppedResponse) else "answered"
            case KeyboardInterrupt() as error:
                status = "interrupted"
                if isinstance(error, Terminated):
                    fields["error"] = {"type": type(error).__name__, "message": str(error)}
            case error:
                status = "error"
                described = {"type": type(error).__name__, "message": error_line(error)}
                failed = self._recorder.failure(error, progress.node, progress.seconds)
                if failed is not None:
                    described = failed["error"] | described
                    self._store(failed)
                fields["error"] = described
        last = {**ending_data(progress.ending), **fields}
        self._store(
            self._recorder.result(status, progress.code, progress.steps, progress.spent, progress.seconds, **last)
        )

    def _store(self, record: Record) -> None:
        """Handle a new record."""


class Records(RunRecorder):
    """A display that writes records to `out`, in ASCII, which every stream can encode.

    A full disk does not end the run: after the first record that cannot be written, no other is, so that the output is
    the beginning of a run, and it `is_incomplete`. A closed pipe is an error if `out` is the standard output, not a
    `file`. While nothing else is written to a file, a thread writes signs of life, until the result.
    """

    def __init__(self, out: TextIO, file: Path | None = None) -> None:
        super().__init__()
        self._out = out
        self._file = file
        self.is_incomplete = False
        self.heartbeat = None if file is None else _HEARTBEAT
        self._lock = threading.Lock()
        self._last = time.monotonic()
        # Not an Event, which an interrupt may leave locked.
        self._over = SimpleQueue[None]()

    def on_start(self, setup: RunSetup) -> None:
        """Record `start`, and begin to give signs of life."""
        super().on_start(setup)
        if self.heartbeat is not None:
            threading.Thread(target=self._beat, args=(self.heartbeat,), name="graphexec-heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the signs of life."""
        self._over.put(None)

    def _beat(self, seconds: float) -> None:
        assert self._recorder is not None, "a run begins"
        wait = seconds
        while True:
            with suppress(Empty):
                return self._over.get(timeout=max(0.0, wait))
            with self._lock:
                wait = self._last + seconds - time.monotonic()
                if wait <= 0 and self._recorder.recording.result is None:
                    self._write(self._recorder.alive())
                    wait = seconds

    def _store(self, record: Record) -> None:
        with self._lock:
            self._write(record)

    def _write(self, record: Record) -> None:
        if self.is_incomplete:
            return
        self._last = time.monotonic()
        try:
            # A line is whole in a file; a write to a pipe may block, so a signal interrupts it.
            with nullcontext() if self._file is None else uninterrupted():
                print(record_line(record), end="", file=self._out, flush=True)
        except OSError as error:
            if self._file is None and isinstance(error, BrokenPipeError):
                raise
            self.is_incomplete = True
            name = "the standard output" if self._file is None else self._file
            # stderr may be on the same full disk.
            with suppress(OSError):
                print(f"graphexec: {name} is incomplete: {error.strerror or error_line(error)}", file=sys.stderr)


@contextmanager
def record_to(file: Path | None) -> Generator[Records | None]:
    """Write the records of a run to a file, if one is named.

    If an error prevents the run, it is the only record. Raises `UsageError` for a file that cannot be opened.
    """
    if file is None:
        yield None
        return
    out = open_for_writing(file)
    records = Records(out, file)
    try:
        yield records
    except BaseException as error:
        if records.recording is None and not isinstance(error, typer.Exit):
            with suppress(OSError):
                print_json_error(error, code_of(error), out)
        raise
    finally:
        records.close()
        # Closing writes the rest of the buffer, which may fail again.
        with suppress(OSError):
            out.close()


def load_recording(file: str) -> Recording:
    """Read the records of a run; `-` is the standard input. Raises `UsageError` that names an invalid line.

    If the last line is incomplete, it is ignored with a warning on stderr.
    """
    from graphexec.draw.runs.records import Recording

    name = "standard input" if file == "-" else file
    whole, last = _split_last_line(read(file))
    if last:
        number = whole.count("\n") + 1
        print(f"graphexec: {name}: line {number} is incomplete; the run is shown up to there", file=sys.stderr)
    try:
        return Recording.from_json_lines(whole)
    except InputError as error:
        raise UsageError(f"{name}: {error}") from error


def _split_last_line(text: str) -> tuple[str, str]:
    """Return the complete lines, and the last one if it is incomplete."""
    head, newline, last = text.rpartition("\n")
    if not last.strip():
        return text, ""
    try:
        json.loads(last, parse_int=str)
    except RecursionError:
        # Reading it will report an invalid record.
        return text, ""
    except ValueError:
        return head + newline, last
    return text, ""
