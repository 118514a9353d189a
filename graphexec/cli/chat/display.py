"""A turn on the terminal: the answer while it comes, and a short line for each tool call."""

from __future__ import annotations

from typing import TextIO

from rich.status import Status
from rich.text import Text

from graphexec.actions import StoppedResponse
from graphexec.cli.exit_codes import Terminated
from graphexec.cli.runs.advice import advise_on_cut_replies, suggest_amount
from graphexec.cli.runs.loop import RunProgress, RunSetup
from graphexec.cli.runs.pending import format_effects
from graphexec.cli.screen import TraceScreen
from graphexec.cli.targets import failure_line
from graphexec.cli.terminal import TextCleaner, clean, symbols_for
from graphexec.draw.model.text import format_quantity, truncate
from graphexec.draw.runs.labels import format_call
from graphexec.effects import CallTool, LoadMemory, SaveMemory, ToolResult
from graphexec.executor.result import Ending
from graphexec.executor.streams import AnswerDiscarded, AnswerExtractor
from graphexec.kernel.effects import CallId, Effect
from graphexec.kernel.events import Answered, Asked, Event, Reported
from graphexec.kernel.meters import Spent
from graphexec.messages import ReplyDelta
from graphexec.messages.observations import format_observation

# Columns of a tool call's line: its arguments and its result have the rest of the terminal's width.
_LEAST, _ARGUMENTS = 40, 60


class TurnDisplay:
    """A display of one turn: the answer on `out`, piece by piece on a terminal, and everything else on `err`.

    `quiet` leaves out the tool calls and the notices. Afterwards, `ending` is that of a run that has one and is saved,
    `spent` is what the run has spent, and `terminated_by` the signal that ended it.
    """

    def __init__(self, out: TextIO, err: TextIO, *, quiet: bool = False) -> None:
        self.ending: Ending | None = None
        self.spent: Spent | None = None
        self.terminated_by: Terminated | None = None
        self._out = out
        self._screen = TraceScreen(err)
        self._symbols = symbols_for(err)
        self._quiet = quiet
        self._extractor: AnswerExtractor | None = None
        # The pieces of the answer that have been printed, and whether the line is complete.
        self._printed = ""
        self._cleaner = TextCleaner()
        self._line_ended = True
        # The pending calls, and the line that names them.
        self._waiting: dict[CallId | None, Effect[object]] = {}
        self._status: Status | None = None

    def on_start(self, setup: RunSetup) -> None:
        """Prepare to find the answer among the replies."""
        self._extractor = AnswerExtractor(setup.executor.agent, setup.executor.graph)

    def on_event(self, event: Event[Ending]) -> None:
        """Print a piece of the answer, or a call that has returned."""
        assert self._extractor is not None, "a run begins"
        match event:
            case Asked(_, effect, call) if not isinstance(effect, (LoadMemory, SaveMemory)):
                self._waiting[None if call is None else call.id] = effect
            case Answered(_, effect, reply, _, _, call):
                self._waiting.pop(None if call is None else call.id, None)
                if isinstance(effect, CallTool) and isinstance(reply, ToolResult):
                    self._print_call(effect, reply)
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self._note(str(news))
            case _:
                pass
        if self._out.isatty():
            for piece in self._extractor.extract(event):
                self._print_piece(piece)
        self._show_waiting()

    def on_end(self, ending: Ending, progress: RunProgress) -> None:
        """Print the rest of the answer, or the limit that stopped the run."""
        self.ending, self.spent = ending, progress.spent
        self._stop_waiting()
        if isinstance(ending, StoppedResponse):
            self._end_line()
            reason, limit = ending.reason.rstrip("."), ending.limit
            more = "" if limit is None else f"allow more with /limits {limit.limit}={suggest_amount(limit)}"
            advice = advise_on_cut_replies(ending) or more
            self._say(f"{reason}; {advice}" if advice else reason, "yellow")
            if not ending.generated:
                return
        answer = format_observation(ending.output if isinstance(ending, StoppedResponse) else ending.answer)
        if not answer.startswith(self._printed):
            self._print_piece(AnswerDiscarded("\n"))
        self._print_piece(answer[len(self._printed) :])
        if not answer:
            self._say("The answer is empty.", "dim")
        self._end_line()

    def on_interrupt(self, progress: RunProgress) -> None:
        """Print that the turn was interrupted."""
        self.spent, self.terminated_by = progress.spent, progress.terminated_by
        self._stop_waiting()
        self._end_line()
        after = format_quantity(len(progress.steps), "step")
        kept = "" if progress.ending is not None else "; this turn is not remembered"
        by = progress.terminated_by
        how = "Interrupted" if by is None else f"Terminated by {by.name}"
        self._say(f"{how} after {after}{kept}", "yellow")

    def on_error(self, error: Exception, progress: RunProgress) -> None:
        """Print the error on one line."""
        self.spent = progress.spent
        self._stop_waiting()
        self._end_line()
        prefix = "graphexec" if progress.ending is None else "graphexec: the memory was not saved"
        self._say(f"{prefix}: {failure_line(error)}", "red")

    def _print_piece(self, piece: str) -> None:
        if not piece:
            return
        self._stop_status()
        if isinstance(piece, AnswerDiscarded):
            # What was held back belongs to the discarded text.
            self._cleaner = TextCleaner()
        shown = self._cleaner.clean(piece)
        self._out.write(shown)
        self._out.flush()
        self._printed = "" if isinstance(piece, AnswerDiscarded) else self._printed + piece
        self._line_ended = shown.endswith("\n") or (not shown and self._line_ended)

    def _end_line(self) -> None:
        if not self._line_ended:
            self._out.write("\n")
            self._out.flush()
        self._line_ended = True

    def _print_call(self, call: CallTool, result: ToolResult) -> None:
        whole = " ".join(clean(format_observation(result.observation)).split())
        called = format_call(clean(call.name), call.tool_input, _ARGUMENTS)
        line = f"  {called} {self._symbols.arrow} {whole}"
        width = max(self._screen.width, _LEAST) - 1
        self._note(truncate(line, width, more=self._symbols.more), "dim" if result.status == "ok" else "red")

    def _note(self, text: str, style: str = "dim") -> None:
        if not self._quiet:
            self._stop_status()
            self._end_line()
            self._say(text, style)

    def _say(self, text: str, style: str) -> None:
        self._screen.print(Text(clean(text), style), soft_wrap=not self._screen.is_terminal)

    def _show_waiting(self) -> None:
        """Show the pending calls, on a terminal only, and until the answer begins."""
        if not self._waiting or not self._line_ended:
            self._stop_status()
        elif self._screen.is_terminal:
            what = Text(f"{format_effects(self._waiting.values())} {self._symbols.more}", "dim")
            if self._status is None:
                self._status = self._screen.status(what, spinner=self._symbols.spinner, spinner_style="cyan")
                self._status.start()
            else:
                self._status.update(what)

    def _stop_waiting(self) -> None:
        self._waiting.clear()
        self._stop_status()

    def _stop_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
