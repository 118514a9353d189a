"""A chat: the turns of a conversation, and the last run."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TextIO

from graphexec.cli.chat.display import TurnDisplay
from graphexec.cli.chat.turns import EarlierTurns
from graphexec.cli.exit_codes import FAILED, code_of, print_error
from graphexec.cli.records import RunRecorder
from graphexec.cli.runs.building import NamedExecutor
from graphexec.cli.runs.loop import RunDisplay, RunSetup, follow
from graphexec.draw.runs.records import Recording
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.meters import Spent


class Chat:
    """A conversation with an executor: `ask` runs a turn, and a turn that fails leaves everything as it was.

    Answers go to `out`, and everything else to `err`; with `debug`, errors come with tracebacks. `recording` and
    `spent` are those of the last run. When it has `ended`, no more messages are read; a chat that is `terminated` was
    ended by a signal.
    """

    def __init__(
        self,
        named: NamedExecutor,
        conversation: EarlierTurns,
        out: TextIO,
        err: TextIO,
        *,
        quiet: bool = False,
        debug: bool = False,
    ) -> None:
        self.executor: AgentExecutor = named.executor
        self.earlier = conversation
        self.out = out
        self.ended = self.terminated = False
        self.recording: Recording | None = None
        self.spent: Spent | None = None
        self._named = named
        self._err = err
        self._quiet = quiet
        self.debug = debug

    def ask(self, message: str) -> int:
        """Run a turn, print its answer, and return the exit code that the run alone would have."""
        try:
            with redirect_stdout(sys.stderr):
                inputs = self.earlier.inputs(message)
        except Exception as error:  # noqa: BLE001 - a history may raise anything, and the chat goes on
            print_error(error, debug=self.debug)
            return code_of(error)
        recorder, shown = RunRecorder(), TurnDisplay(self.out, self._err, quiet=self._quiet)
        displays: list[RunDisplay] = [recorder, shown]
        setup = RunSetup(
            message,
            self.executor,
            self._named.model,
            self._named.agent,
            named_inputs=inputs,
            tokens=True,
            explain=self._named.explain,
        )
        try:
            code = follow(setup, displays, debug=self.debug)
        finally:
            self.recording = recorder.recording
            self.spent = shown.spent
            self.terminated = shown.terminated_by is not None
        if shown.ending is not None:
            try:
                self.earlier.save(message, shown.ending)
            except Exception as error:  # noqa: BLE001 - as above
                print("graphexec: this turn is not remembered:", file=sys.stderr)
                print_error(error, debug=self.debug)
                return FAILED
        return code
