"""The runs of a live page: that of its source, and the forks of them, which run in a thread, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import count
from pathlib import Path
from typing import TypeAlias, final

from graphexec.actions import NO_STEPS, AgentStep, steps_of
from graphexec.draw.forks import Fork, fork
from graphexec.draw.runs.lines import record_line
from graphexec.draw.runs.recorder import Recorder
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError, described
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.events import Answered, Entered
from graphexec.kernel.meters import Spent
from graphexec.live.feeds import Feed, Source, feed_of
from graphexec.live.requests import ForkRequest, ForkRequestError
from graphexec.runtime.files import open_private, write_all

# The executor of the forks of a run, or a function that returns it for the records of the run, or raises.
ExecutorSource: TypeAlias = AgentExecutor | Callable[[Recording], AgentExecutor]


@final
@dataclass(frozen=True, slots=True)
class StartedFork:
    """A fork that runs: its number, the name of its trace, and the first step whose request has changed, if any."""

    number: int
    trace: str | None
    changed_request: int | None


@final
@dataclass(frozen=True, slots=True)
class _LiveRun:
    feed: Feed
    # The file of its records, if it has one.
    file: Path | None = None
    # The number of the run that this one is a fork of.
    parent: int | None = None


@final
class LiveRuns:
    """The runs that a live page shows, by number: 0 is that of the source, the others are forks."""

    def __init__(self, source: Source, executor: ExecutorSource | None = None) -> None:
        if executor is not None and not callable(executor) and not isinstance(executor, AgentExecutor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"executor is {executor!r}; pass the executor of the run, or a function that returns it")
        file = None if isinstance(source, Recorder) else Path(source)
        self._runs = [_LiveRun(feed_of(source), file)]
        self._executor = executor
        self._closing = threading.Event()
        self._busy = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def forking(self) -> bool:
        """True if there is an executor that can go on with the runs."""
        return self._executor is not None

    def find(self, number: int) -> Feed | None:
        """Return the records of a run, or `None` for an unknown number."""
        return self._runs[number].feed if number < len(self._runs) else None

    def parent_of(self, number: int) -> int | None:
        """Return the number of the run that a fork continues, or `None` for another run and for an unknown number."""
        return self._runs[number].parent if number < len(self._runs) else None

    def recordings(self, *numbers: int) -> list[Recording]:
        """Return the records of runs so far. Raises `InputError` for records that cannot be read."""
        for number in numbers:
            self._runs[number].feed.refresh()
        return [self._runs[number].feed.recording() for number in numbers]

    def can_fork(self, start: Recording) -> bool:
        """Return whether a run that begins so can be forked."""
        if self._executor is None:
            return False
        try:
            self._executor_for(start)
        except ForkRequestError:
            return False
        return True

    def close(self, seconds: float) -> None:
        """Disconnect the readers, and interrupt the fork that is running; wait for its end."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(seconds)
        for run in self._runs:
            run.feed.closed = True

    def fork(self, number: int, wanted: ForkRequest) -> StartedFork:
        """Begin to go on from a step of a run, in a thread, and return the new run.

        Raises `ForkRequestError` for a request that does not fit the run, and while another fork is running.
        """
        if number >= len(self._runs):
            raise ForkRequestError("there is no such run; open the page of one", 404)
        if self._closing.is_set() or not self._busy.acquire(blocking=False):
            raise ForkRequestError("a fork is running; wait for its end", 409)
        try:
            forked = self._make_fork(self._runs[number], wanted)
            recorder = forked.recorder()
            file, out = self._create_file()
        except BaseException:
            self._busy.release()
            raise
        self._runs.append(_LiveRun(feed_of(recorder), file, number))
        self._thread = threading.Thread(
            target=self._run, args=(forked, _Trace(recorder, out)), name="graphexec-fork", daemon=True
        )
        self._thread.start()
        return StartedFork(len(self._runs) - 1, None if file is None else file.name, forked.changed_request)

    def _make_fork(self, parent: _LiveRun, wanted: ForkRequest) -> Fork:
        parent.feed.refresh()
        if wanted.run not in (None, parent.feed.run):
            raise ForkRequestError("another run has replaced the one of this page; load it again", 409)
        trace = None if parent.file is None else parent.file.name
        try:
            recording = parent.feed.recording()
            executor = self._executor_for(recording)
            return fork(recording, executor, at=wanted.step, call=wanted.call, trace=trace, **wanted.changes)
        except (ForkRequestError, InputError, OSError) as error:
            raise ForkRequestError(str(error)) from error
        # A node of the user that is called again may raise anything.
        except Exception as error:
            raise ForkRequestError(
                f"the run cannot be replayed up to step {wanted.step}: {described(error)}"
            ) from error

    def _executor_for(self, recording: Recording) -> AgentExecutor:
        executor = self._executor
        assert executor is not None, "there are routes for forks"
        if isinstance(executor, AgentExecutor):
            # Of any output type, which does not matter here.
            return executor  # pyright: ignore[reportUnknownVariableType]
        try:
            return executor(recording)
        # The function of the user may raise anything.
        except Exception as error:
            raise ForkRequestError(str(error)) from error

    def _create_file(self) -> tuple[Path | None, FileIO | None]:
        """Create a new file for the records of a fork beside that of the first run, if there is one."""
        first = self._runs[0].file
        if first is None:
            return None, None
        for number in count(1):
            file = first.with_name(f"{first.stem}.fork-{number}{first.suffix}")
            try:
                return file, FileIO(file, "xb", opener=open_private)
            except FileExistsError:
                continue
            except OSError as error:
                fact = f"{file} cannot be written: {error.strerror}"
                raise ForkRequestError(f"{fact}; make its folder writable") from error
        raise AssertionError("there is always another number")

    def _run(self, forked: Fork, trace: _Trace) -> None:
        try:
            trace.follow(forked, self._closing)
        finally:
            self._busy.release()


@final
@dataclass(slots=True)
class _Trace:
    """The records of a fork, which are written to a file as they are made."""

    recorder: Recorder
    out: FileIO | None
    written: int = 0
    spent: Spent = field(default=Spent())
    steps: Sequence[AgentStep] = NO_STEPS

    def follow(self, forked: Fork, closing_down: threading.Event) -> None:
        """Run the fork to its end, or until the server closes."""
        try:
            with closing(forked.stream(tokens=True)) as events:
                for event in events:
                    self.recorder(event)
                    self._write()
                    if isinstance(event, (Entered, Answered)):
                        self.spent = event.spent
                    if isinstance(event, Entered):
                        self.steps = steps_of(event.value)
                    if closing_down.is_set() and self.recorder.recording.result is None:
                        self.recorder.result("interrupted", 130, self.steps, self.spent, self.spent.seconds)
                        break
        except BaseException as error:  # noqa: BLE001 - the end of the run is in its records
            if self.recorder.recording.result is None:
                self.recorder.failed(error)
        finally:
            self._write()
            if self.out is not None:
                self.out.close()

    def _write(self) -> None:
        new = self.recorder.records[self.written :]
        self.written += len(new)
        if self.out is None:
            return
        try:
            for record in new:
                write_all(self.out, record_line(record).encode())
        except OSError:
            # The page shows the run even if the disk is full; the file is the beginning of it.
            with suppress(OSError):
                self.out.close()
            self.out = None
