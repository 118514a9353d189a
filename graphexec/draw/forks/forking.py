"""Go on from a step of a recorded run, with another reply or observation, as a new run."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, final

from graphexec.actions import run_of
from graphexec.draw.forks.changes import UNCHANGED, make_reply
from graphexec.draw.forks.replaying import Replayed, ReplySource, replay_records
from graphexec.draw.forks.replies import read_reply
from graphexec.draw.forks.script import CallKey, ForkPoint, call_key, cut_script
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.recorder import AnyRun, Recorder, recording_of
from graphexec.draw.runs.records import Recording
from graphexec.effects import CallTool
from graphexec.errors import InputError, format_value
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import Inputs
from graphexec.executor.result import Ending, RunResult, T_co
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.kernel.events import (
    Answered,
    CompactReply,
    Cut,
    Done,
    Event,
    Journal,
    JournalEntry,
    attach_journal,
    journal_of,
)
from graphexec.kernel.execution import Execution
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import replay
from graphexec.messages import request_parameters
from graphexec.messages.images import restore_images

# The number of bytes of a run's id, as in the runner.
_ID_BYTES = 8


@final
@dataclass(frozen=True, slots=True)
class Fork(Generic[T_co]):
    """A run that goes on from a step of another one. Nothing is asked until it runs.

    `events` are those of the part that it has in common with its `parent`, and `snapshot` is the run after it, with the
    new reply. `changed_request` is the first step whose request to the model differs from the recorded one, because
    `executor` has another prompt or other tools, for example; `None` if none does.
    """

    executor: AgentExecutor[T_co]
    parent: Mapping[str, Any]
    events: tuple[Event[Any], ...]
    snapshot: Snapshot
    inputs: object = field(repr=False)
    changed_request: int | None = None
    context: object = field(default=None, repr=False)
    _start: Snapshot = field(default=Snapshot("", None), repr=False)
    _entries: tuple[JournalEntry, ...] = field(default=(), repr=False)

    def run(self) -> RunResult[T_co]:
        """Go on to the end and return the result, which has the whole run. Raises as `AgentExecutor.run` does."""
        try:
            result = self.executor.run(self.snapshot, context=self.context)
        except BaseException as error:
            self._complete_journal_of(error)
            raise
        return replace(result, journal=self._whole(result.journal))

    async def arun(self) -> RunResult[T_co]:
        """Go on like `run`, on the running event loop."""
        try:
            result = await self.executor.arun(self.snapshot, context=self.context)
        except BaseException as error:
            self._complete_journal_of(error)
            raise
        return replace(result, journal=self._whole(result.journal))

    def stream(self, *, tokens: bool = False) -> Generator[Event[Ending], None, None]:
        """Yield `events` at once, then go on and yield each event when it happens; `tokens` is as in `stream`."""
        yield from self.events
        with closing(self.executor.stream(self.snapshot, tokens=tokens, context=self.context)) as events:
            try:
                for event in events:
                    yield self._complete(event)
            except BaseException as error:
                self._complete_journal_of(error)
                raise

    async def astream(self, *, tokens: bool = False) -> AsyncGenerator[Event[Ending], None]:
        """Yield like `stream`, on the running event loop."""
        for event in self.events:
            yield event
        async with aclosing(self.executor.astream(self.snapshot, tokens=tokens, context=self.context)) as events:
            try:
                async for event in events:
                    yield self._complete(event)
            except BaseException as error:
                self._complete_journal_of(error)
                raise

    def recorder(
        self,
        *,
        model: str | None = None,
        agent: str | None = None,
        heartbeat: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Recorder:
        """Return the recorder of this run: its trace names the parent, and begins before the fork.

        `model` and `agent` are the names for people, by default those of the executor.
        """
        executor = self.executor
        name = model or getattr(executor.agent.model, "name", None)
        return Recorder(
            executor.verify(),
            inputs=self.inputs,
            model=name if isinstance(name, str) else None,
            agent=agent or executor.agent.kind,
            tools=[tool.spec for tool in executor.tools.values()],
            parameters=request_parameters(executor.agent.model),
            heartbeat=heartbeat,
            parent=self.parent,
            # The run's clock goes on from the last reply that it has in common with the parent.
            began=clock() - self.snapshot.spent.seconds,
            clock=clock,
        )

    def _complete(self, event: Event[Any]) -> Event[Any]:
        return replace(event, journal=self._whole(event.journal)) if isinstance(event, Done) else event

    def _complete_journal_of(self, error: BaseException) -> None:
        journal = self._whole(journal_of(error))
        if journal is not None:
            attach_journal(error, journal)

    def _whole(self, journal: Journal | None) -> Journal | None:
        """Return the journal of the run from its beginning."""
        if journal is None:
            return None
        entries = [*self._entries, *journal]
        answers = [kept for answer, *_ in entries for kept in CompactReply.part_of(answer)]
        times = [time for _, *times in entries for time in times]
        began = None if journal.began is None else journal.began - self.snapshot.spent.seconds
        return Journal(
            journal.graph,
            journal.limits,
            self._start,
            answers,
            times,
            journal.scope,
            began=began,
            seconds=journal.seconds,
        )


# Each parameter is a part of the question "what if".
def fork(  # noqa: PLR0913
    run: AnyRun,
    executor: AgentExecutor[T_co],
    *,
    at: int,
    call: int | None = None,
    reply: object = UNCHANGED,
    observation: object = UNCHANGED,
    inputs: Inputs | None = None,
    context: object = None,
    trace: str | None = None,
) -> Fork[T_co]:
    """Return a run that goes on from the step `at` of another one, counted from 1 as on the run page.

    The replies of the run up to this step, and of the other calls that were made at the same time, are kept: pure nodes
    are called again, but no model and no tool. `reply` replaces that to the call with the index `call` in the step: the
    text of a model, an object with `content` and `tool_calls` (each `name` and `arguments`) or a `ModelReply`, a
    `ToolResult`, or what else answers the effect. `observation` is that of a tool
    that has succeeded. Without either, the run goes on as it was. Calls without a reply, because the run has failed or
    was interrupted there, are made again.

    `run` is a `Recording` or another run. Its counts are kept, and `executor` should be the one that ran, or an equal
    one. Records do not have what JSON cannot express; the result of a run in this process has. `inputs` are needed if
    the records do not have them, and `context` is that of `AgentExecutor.run`. `trace` is the name of the run's file,
    for the `parent` in the new one.

    Raises `InputError` where this executor's run would differ from the recorded one, for replies that the records do
    not hold, and for a step, a call or a reply that does not fit.
    """
    if not isinstance(executor, AgentExecutor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{format_value(executor)} cannot go on; pass the executor of the run")
    if reply is not UNCHANGED and observation is not UNCHANGED:
        raise InputError("both a reply and an observation are given; pass the one that the call has")
    recording, journal = recording_of(run), _journal_in(run)
    changes = reply is not UNCHANGED or observation is not UNCHANGED
    records, point = cut_script(recording.records, at, call, changes=changes)
    start = _start_of(recording, journal, executor, inputs)
    start = replace(start, run_id=os.urandom(_ID_BYTES).hex())
    recorded = _recorded_replies(recording, executor) if journal is None else _journaled_replies(journal)

    def reply_to(asked: CallContext[Any], record: Record) -> object:
        if call_key(record) != point.changed:
            return recorded(asked, record)
        known = recorded(asked, record) if "began" in record["replies"][0] else None
        assert asked.effect is not None, "a call has an effect"
        tool = executor.tools.get(asked.effect.name) if isinstance(asked.effect, CallTool) else None
        return make_reply(asked.effect, reply, observation, known, tool)

    scope = DetachedScope(start.run_id, context)
    execution = Execution(executor.graph, start, executor.limits, scope=scope)
    replayed = replay_records(execution, records, reply_to)
    return _make_fork(executor, replayed, start, recording, point, context, trace)


def _make_fork(
    executor: AgentExecutor[T_co],
    replayed: Replayed,
    start: Snapshot,
    recording: Recording,
    point: ForkPoint,
    context: object,
    trace: str | None,
) -> Fork[T_co]:
    run = run_of(start.value)
    parent = {"trace": trace, "run": _run_id(recording), "step": point.step}
    first = recording.records[0]
    return Fork(
        executor,
        {name: one for name, one in parent.items() if one is not None},
        replayed.events,
        replayed.snapshot,
        restore_images(first["input"]) if "input" in first else None if run is None else run.inputs,
        replayed.changed_request,
        context,
        start,
        replayed.entries,
    )


def _journal_in(run: AnyRun) -> Journal | None:
    """Return the journal of a run of this process, which has the objects that it was answered with."""
    match run:
        case Journal():
            return run
        case RunResult() | Done():
            return run.journal
        case BaseException():
            return journal_of(run)
        case _:
            return None


def _start_of(
    recording: Recording, journal: Journal | None, executor: AgentExecutor[Any], inputs: Inputs | None
) -> Snapshot:
    if journal is not None:
        return journal.start
    first = recording.records[0]
    if inputs is None and "input" not in first:
        raise InputError("the records do not have the inputs of the run; pass them, as inputs=")
    begun = next((record for record in recording.records if record["event"] in ("entered", "answered")), None)
    if begun is not None and (begun["event"] != "entered" or begun["spent"]["model_calls"]):
        raise InputError("the records begin within a run that was resumed; fork a run that was recorded as a whole")
    return executor.begin(restore_images(first["input"]) if inputs is None else inputs)


def _run_id(recording: Recording) -> str | None:
    return next(
        (record["run"] for record in recording.records if record["event"] == "entered" and "run" in record), None
    )


def _recorded_replies(recording: Recording, executor: AgentExecutor[Any]) -> ReplySource:
    """Return a source of the replies in records."""
    outcomes = executor.graph.outcomes
    moved: dict[CallKey, str] = {}
    asked: list[CallKey] = []
    for record in recording.records:
        if record["event"] == "answered" and "call" in record:
            asked.append(call_key(record))
        elif record["event"] == "moved":
            moved.update(dict.fromkeys(asked, str(record["outcome"])))
            asked = []

    def read(call: CallContext[Any], record: Record) -> object:
        assert call.effect is not None, "a call has an effect"
        return read_reply(call.effect, record["replies"][0], outcomes, moved.get(call_key(record)))

    return read


def _journaled_replies(journal: Journal) -> ReplySource:
    """Return a source of the replies in a journal, which are the objects that handlers returned."""
    known: dict[CallKey, object] = {}
    for event in replay(journal):
        if isinstance(event, Answered) and event.call is not None:
            known[event.call.sequence, event.call.member] = event.reply

    def find(call: CallContext[Any], record: Record) -> object:
        del call
        reply = known[call_key(record)]
        # The engine makes this of the cut by a deadline.
        return Cut() if isinstance(reply, Exhausted) else reply

    return find
