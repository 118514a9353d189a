"""The trace: a run on a terminal while it happens, one line for each edge that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich.table import Table
from rich.text import Text

from graphexec.actions import AgentAction, AgentFinish, AgentStep, StoppedResponse
from graphexec.cli.exit_codes import Terminated
from graphexec.cli.runs.building import suggest_limit
from graphexec.cli.runs.loop import RunDisplay, RunProgress, RunSetup
from graphexec.cli.runs.stores import StoredAs, waiting_lines
from graphexec.cli.screen import Screen, TraceScreen
from graphexec.cli.targets import failure_line
from graphexec.cli.terminal import clean, is_same_file
from graphexec.draw.model.text import format_cached, format_call, format_duration, format_quantity, format_sum
from graphexec.effects import (
    CACHED_TOKENS,
    COMPLETION_TOKENS,
    MODEL_CALLS,
    PROMPT_TOKENS,
    TOOL_CALLS,
    AskHuman,
    CallAgent,
    CallTool,
    LoadMemory,
    ModelEffect,
    SaveMemory,
    reported_tokens,
)
from graphexec.executor.console import name_in_batch
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied, Stopped
from graphexec.executor.plugging.memory import NotSaved, is_save_node
from graphexec.executor.result import Ending
from graphexec.kernel.effects import CallContext, CallId, Effect, Perform
from graphexec.kernel.events import Answered, Asked, Entered, Event, Moved, Reported
from graphexec.kernel.meters import Exhausted
from graphexec.messages import ModelReply, ReplyDelta
from graphexec.messages.observations import format_observation
from graphexec.nodes import ReviewCall

# The maximum length of one observation; `--json` has all of it.
_LINES = 8
_CHARACTERS = 600
# That of a reply's reasoning, which is not the answer.
_REASONING = 200

# Columns, wide enough for the agent's nodes and outcomes; on a narrower terminal details get lines of their own.
_NODE = 19
_OUTCOME = 17
_NARROW = 80


class AnswerPrinter(RunDisplay):
    """A display of the answer on `out` and of errors on `err`, for `--quiet`."""

    # What allows a run more than the limit that stopped it.
    limit_option = "--limit"

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self.screen = TraceScreen(err)
        self._status = self.screen.status("", spinner_style="cyan")
        self._stored: StoredAs | None = None

    def on_start(self, setup: RunSetup) -> None:
        """Note where the run is stored."""
        self._stored = setup.stored

    def on_end(self, progress: RunProgress) -> None:
        """Print the answer if there is one, then the error or interruption that ended the run."""
        if progress.ending is not None:
            self.answer(progress.ending)
        stored = self._stored
        match progress.error:
            case None:
                for line in () if progress.waiting is None else waiting_lines(progress.waiting, stored):
                    self.say(Text(clean(line), "yellow"))
            case KeyboardInterrupt() as error:
                at = f" at {progress.node}" if progress.node else ""
                how = f"Terminated by {error.name}" if isinstance(error, Terminated) else "Interrupted"
                self.say(Text(f"{how}{at}, after {format_quantity(len(progress.steps), 'step')}", "yellow"))
            case error:
                prefix = "graphexec" if progress.ending is None else "graphexec: the memory was not saved"
                self.say(Text(f"{prefix}: {failure_line(error)}", "red"))
        # What could not begin, or is done, does not go on.
        if stored is not None and progress.error is not None and progress.node and progress.ending is None:
            self.say(Text(clean(f"go on with it: {stored.way_on}"), "yellow"))

    def answer(self, ending: Ending) -> None:
        """Print the answer, if there is one, and to `err` the reason why a run was stopped."""
        if isinstance(ending, StoppedResponse):
            limit = ending.cause if isinstance(ending.cause, Exhausted) else None
            more = f"; allow more with {self.limit_option} {suggest_limit(limit)}" if limit else ""
            self.say(Text(f"{ending.reason.rstrip('.')}{more}", "yellow"))
            if not ending.generated:
                return
        self.print_answer(format_observation(ending.output))

    def print_answer(self, answer: str) -> None:
        """Print the answer of a run that has one."""
        if self._out.isatty():
            Screen(self._out).print(Text(clean(answer), "bold"))
        else:
            print(clean(answer), file=self._out)
        self._out.flush()

    def show_pending(self, effects: Iterable[Effect[Any]]) -> None:
        """Show on a terminal what the run is waiting for; nothing for no effects."""
        # A person writes in this line.
        waiting = [one for one in effects if self.screen.is_terminal and not isinstance(one, _OF_PEOPLE)]
        if not waiting:
            self._status.stop()
            return
        more = f", and {format_quantity(len(waiting) - 1, 'more call')}" if len(waiting) > 1 else ""
        line = f"{describe_effect(waiting[0])}{more} …"
        # A second line would not be removed.
        self._status.update(Text(line, "dim", no_wrap=True, overflow="ellipsis"))
        self._status.start()

    def say(self, text: Text) -> None:
        """Print a line about the run."""
        self.screen.print(text, soft_wrap=not self.screen.is_terminal)


class TracePrinter(AnswerPrinter):
    """A display of every edge with its requests and replies, of the answer, and of the cost."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._together = is_same_file(out, err)
        # The replies to the current node.
        self._answers: list[Answered] = []
        self._actions: tuple[AgentAction, ...] = ()
        self._iteration = 0
        self._gap_printed = False
        self._pending: dict[CallId | None, Effect[Any]] = {}

    def on_start(self, setup: RunSetup) -> None:
        """Print the model, the agent and its tools, and where the run is stored."""
        super().on_start(setup)
        tools = ", ".join(setup.executor.tools) or "no tools"
        parts = (clean(setup.model), f"{setup.agent} agent", clean(tools))
        self.say(Text(" · ".join(parts), "dim"))
        if setup.stored is not None:
            self.say(Text(clean(f"stored in {setup.stored.name} as {setup.stored.run_id}"), "dim"))
        self._print_gap()

    def on_event(self, event: Event[Ending]) -> None:
        """Print an edge when it is taken, and show pending calls until then."""
        match event:
            case Entered():
                self._answers = []
                if isinstance(event.value, (Ready, Replied)):
                    self._actions = ()
            case Asked(_, effect, call):
                self._pending[_id_of(call)] = effect
                self.show_pending(self._pending.values())
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self._gap_printed = False
                self.say(Text(f"   {clean(name_in_batch(event.call))}{clean(str(news))}", "dim"))
            case Answered():
                self._pending.pop(_id_of(event.call), None)
                self.show_pending(self._pending.values())
                self._answers.append(event)
            case Moved():
                # Calls that were cut do not return.
                self._pending.clear()
                self.show_pending(())
                self._row(event)
            case _:
                pass

    def on_end(self, progress: RunProgress) -> None:
        """Print the end of the run between the trace and the cost so far."""
        self.show_pending(())
        self._print_gap()
        super().on_end(progress)
        # Of a stored run that did not get on, the cost so far is in the store.
        if progress.node or self._stored is None:
            self._cost(progress)

    def answer(self, ending: Ending) -> None:
        """Print the answer between two empty lines."""
        self._print_gap()
        super().answer(ending)
        # An answer on another stream does not separate lines here.
        if self._together or isinstance(ending, StoppedResponse):
            self._gap_printed = False
        self._print_gap()

    def _cost(self, progress: RunProgress) -> None:
        spent = progress.spent
        total, parts = reported_tokens(spent), ""
        if total:
            counts = format_sum(int(spent[PROMPT_TOKENS]), int(spent[COMPLETION_TOKENS]))
            parts = f" ({counts}{format_cached(int(spent[CACHED_TOKENS]))})"
        costs = (
            format_quantity(spent.iterations, "iteration"),
            format_quantity(int(spent[MODEL_CALLS]), "model call"),
            format_quantity(int(spent[TOOL_CALLS]), "tool call"),
            # A function as a model, some servers, and a cache report none.
            f"{format_quantity(total, 'token')}{parts}" if total or not spent[MODEL_CALLS] else "tokens not reported",
            format_duration(progress.seconds),
        )
        self.say(Text(" · ".join(costs), "dim"))

    def _print_gap(self) -> None:
        if not self._gap_printed:
            self.screen.print()
        self._gap_printed = True

    def _row(self, moved: Moved) -> None:
        self._gap_printed = False
        number = ""
        if moved.node == "plan" and not isinstance(moved.outcome, Stopped):
            self._iteration += 1
            number = str(self._iteration)
        outcome = Text(f"→ {type(moved.outcome).__name__}", _colour(moved.outcome))
        details = self._details(moved)
        row = Table.grid(padding=(0, 1, 0, 0))
        if self.screen.width < _NARROW:
            self.screen.print(Text(f"{number:>2} {moved.node} ", "bold").append_text(outcome))
            row.add_column(width=4)
            row.add_column(overflow="fold")
            if details.plain:
                row.add_row("", details)
                self.screen.print(row)
            return
        row.add_column(width=2, justify="right", style="dim")
        row.add_column(width=_NODE, no_wrap=True, style="bold")
        row.add_column(width=_OUTCOME, no_wrap=True)
        row.add_column(overflow="fold")
        row.add_row(number, moved.node, outcome, details)
        self.screen.print(row)

    def _details(self, moved: Moved) -> Text:
        lines: list[Text] = []
        match moved.outcome:
            # A node that checks a reply passes it on, and has called no model.
            case Replied(reply=ModelReply() as reply) if self._answers:
                lines.append(self._reply(reply, self._answers[-1].seconds))
                thoughts = self._shorten("\n\n".join([part.text for part in reply.reasoning]), _REASONING)
                lines.extend([Text(f"reasoning: {thoughts}", "dim italic")] if thoughts else [])
            # A node that checks the calls passes them on.
            case Acted(actions=actions) if actions != self._actions:
                self._actions = actions
                # The actions of one reply share its text.
                thought = self._shorten(_thought(actions[0]))
                lines.extend([Text(thought, "dim italic")] if thought else [])
                calls = (format_call(action.tool, action.tool_input, _CHARACTERS) for action in actions)
                lines.extend(Text(call, "cyan") for call in calls)
                lines.extend(self._unread(action.unread) for action in actions if action.unread)
            case Observed(actions=actions, results=results):
                times = self._times_of(len(results))
                for action, result, seconds in zip(actions, results, times, strict=True):
                    step = AgentStep(action, result.observation, result.status)
                    lines.append(self._observation(step, seconds, named=len(results) > 1))
            case Ready(run=run) if moved.node == "parse" and run.steps:
                text = self._shorten(run.steps[-1].action.log)
                lines.append(Text(f"the reply could not be parsed: {text}", "red"))
                lines.append(
                    Text(f"sent to the model: {self._shorten(format_observation(run.steps[-1].observation))}", "dim")
                )
            case Stopped(cause=cause) | NotSaved(limit=cause):
                lines.append(Text(str(cause), "yellow"))
            case AgentFinish(return_direct=direct, unread=text) if not is_save_node(moved.node):
                lines.extend([Text("the tool's result is the answer", "dim")] if direct else [])
                lines.extend([self._unread(text)] if text else [])
            case _:
                pass
        return Text("\n").join(lines)

    def _reply(self, reply: ModelReply, seconds: float) -> Text:
        text, usage = Text(format_duration(seconds), "dim"), reply.usage
        if usage.prompt_tokens or usage.completion_tokens:
            counts = format_sum(usage.prompt_tokens, usage.completion_tokens)
            text.append(f" · {counts} tokens{format_cached(usage.cached_tokens)}")
        if reply.finish_reason == "length":
            text.append(", cut at the token limit", "yellow")
        return text

    def _unread(self, text: str) -> Text:
        return Text(f"not read, since the model invented it: {self._shorten(text)}", "yellow")

    def _times_of(self, tools: int) -> list[str]:
        """Return the duration of each tool call, or empty strings if the replies do not match the tools."""
        calls = [answer for answer in self._answers if isinstance(answer.effect, CallTool) and answer.call is not None]
        calls.sort(key=lambda answer: _id_of(answer.call) or ())
        return [format_duration(answer.seconds) for answer in calls] if len(calls) == tools else [""] * tools

    def _observation(self, step: AgentStep, seconds: str, *, named: bool) -> Text:
        text = Text(clean(step.action.tool) if named else "", "cyan")
        if named:
            text.append(f" {seconds}: " if seconds else ": ", "dim")
        return text.append(
            self._shorten(format_observation(step.observation)), "green" if step.status == "ok" else "red"
        )

    def _shorten(self, text: str, most: int = _CHARACTERS) -> str:
        whole = clean(text).strip()
        shown = "\n".join(whole[:most].splitlines()[:_LINES])
        left = len(whole) - len(shown)
        return f"{shown} … {left:,} more characters; --json has them" if left > 0 else shown


# A person may be asked at this terminal.
_OF_PEOPLE = (AskHuman, ReviewCall)

# What a run is waiting for, by the effect's class.
_WAITING: Mapping[type[Effect[Any]], str] = {
    ModelEffect: "asking the model",
    CallAgent: "asking the agent",
    AskHuman: "asking a person",
    LoadMemory: "loading the memory",
    SaveMemory: "saving the memory",
}


# Any: an effect's reply is arbitrary.
def describe_effect(effect: Effect[Any]) -> str:
    """Return what a run is waiting for, as one line."""
    match effect:
        case CallTool():
            return clean(f"calling {effect.name}")
        case Perform(node):
            return clean(f"running {node}")
        case _:
            known = (text for kind, text in _WAITING.items() if isinstance(effect, kind))
            return next(known, f"requesting {type(effect).__name__}")


def _id_of(call: CallContext[Any] | None) -> CallId | None:
    return None if call is None else call.id


def _colour(outcome: object) -> str:
    match outcome:
        case AgentFinish():
            return "bold green"
        case Stopped() | StoppedResponse() | NotSaved() | Exhausted():
            return "yellow"
        case _:
            return "dim"


def _thought(action: AgentAction) -> str:
    """Return the text of a reply beside its action, if there is any."""
    if action.message is not None:
        return action.message.content
    return "" if action.log.lstrip().startswith("{") else action.log.partition("Action")[0]
