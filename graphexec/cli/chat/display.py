"""A turn on the terminal: the answer while it comes, and a short line for each tool call."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from graphexec.cli.runs.loop import RunProgress
from graphexec.cli.runs.trace import AnswerPrinter
from graphexec.cli.terminal import TextCleaner, clean
from graphexec.draw.model.text import format_call, truncate
from graphexec.effects import CallTool, ToolResult
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.result import Ending
from graphexec.executor.streams import AnswerDiscarded, AnswerExtractor
from graphexec.kernel.events import Answered, Asked, Event, Reported
from graphexec.messages import ReplyDelta
from graphexec.messages.observations import format_observation

# Columns of a tool call's line: its arguments and its result have the rest of the terminal's width.
_LEAST, _ARGUMENTS = 40, 60


class TurnDisplay(AnswerPrinter):
    """A display of one turn: the answer on `out`, piece by piece on a terminal, and everything else on `err`.

    Afterwards, `ending` is that of a run that is to be saved.
    """

    limit_option = "/limits"

    def __init__(self, executor: AgentExecutor, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self.ending: Ending | None = None
        self._extractor = AnswerExtractor(executor.agent, executor.graph)
        # The pieces of the answer that have been printed, and whether the line is complete.
        self._printed = ""
        self._cleaner = TextCleaner()
        self._line_ended = True

    def on_event(self, event: Event[Ending]) -> None:
        """Print a piece of the answer, or a call that has returned."""
        match event:
            case Asked(_, effect) if self._line_ended:
                self.show_pending([effect])
            case Answered(_, CallTool() as call, ToolResult() as result):
                called = format_call(clean(call.name), call.tool_input, _ARGUMENTS)
                observed = " ".join(clean(format_observation(result.observation)).split())
                width = max(self.screen.width, _LEAST) - 1
                line = truncate(f"  {called} → {observed}", width)
                self.say(Text(line, "dim" if result.status == "ok" else "red"))
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self.say(Text(clean(str(news)), "dim"))
            case _:
                pass
        if self._out.isatty():
            for piece in self._extractor.extract(event):
                self._print_piece(piece)

    def on_end(self, progress: RunProgress) -> None:
        """Print the rest of the answer, or why the run ended without one."""
        if progress.error is None:
            self.ending = progress.ending
        super().on_end(progress)

    def print_answer(self, answer: str) -> None:
        """Print what has not been printed of the answer."""
        if not answer.startswith(self._printed):
            self._print_piece(AnswerDiscarded("\n"))
        self._print_piece(answer[len(self._printed) :])
        self._end_line()

    def say(self, text: Text) -> None:
        """Print a line about the run."""
        self._end_line()
        super().say(text)

    def _print_piece(self, piece: str) -> None:
        if isinstance(piece, AnswerDiscarded):
            # What was held back belongs to the discarded text.
            self._cleaner, self._printed = TextCleaner(), ""
        else:
            self._printed += piece
        self._write(self._cleaner.clean(piece))

    def _end_line(self) -> None:
        self._write("" if self._line_ended else "\n")

    def _write(self, text: str) -> None:
        self.show_pending(())
        self._out.write(text)
        self._out.flush()
        self._line_ended = text.endswith("\n") or (not text and self._line_ended)
