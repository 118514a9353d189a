"""Make records: of the events of a run while it goes on, and of a run that has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

from graphexec.actions import AgentStep, StoppedResponse, run_of, steps_of
from graphexec.draw.model.picture import picture_of
from graphexec.draw.runs.data import (
    Record,
    RunHistory,
    call_data,
    effect_data,
    effect_name,
    ending_data,
    error_data,
    limits_data,
    outcome_data,
    reply_data,
    spent_data,
    step_data,
    to_json_data,
)
from graphexec.draw.runs.prompts import PromptHistory, spec_data
from graphexec.draw.runs.record_schema import VERSION
from graphexec.draw.runs.records import Recording
from graphexec.effects import ModelEffect
from graphexec.errors import InputError, RunSuspended, format_value
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Journal, Moved, Reported, journal_of
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import replay
from graphexec.messages import ReplyDelta, ToolSpec
from graphexec.verify.proof.findings import Verdict
from graphexec.verify.proof.prove import verify

# The default values of a result's fields.
_ABSENT: Mapping[str, Any] = {"output": None, "reason": None, "cause": None, "error": None}


@final
class Recorder:
    """A recorder of one run: `recorder(event)` stores and returns the event's record.

    `records` are the records so far. `Done` and `Failed` make the result. Iterating over a run yields no `Failed`: call
    `failed` with the exception instead.
    """

    # Each parameter is a separate fact; an object for them would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        subject: Graph[Any, Any] | Verdict,
        *,
        inputs: object = None,
        model: str | None = None,
        agent: str | None = None,
        tools: Sequence[ToolSpec] | None = None,
        parameters: Mapping[str, Any] | None = None,
        heartbeat: float | None = None,
        began: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Record `start`. The run's limits are those of a verdict, such as `executor.verify()`.

        `parameters` are those of the requests to the model, without its key. `heartbeat` says that `alive` will be
        called when nothing else was recorded for so many seconds. `clock` (`time.time`) gives the times of a run that
        is recorded while it happens, and `began` is its start in seconds since the epoch, now by default. Raises
        `InputError` for a subject that is not a machine.
        """
        graph, limits = (subject.graph, subject.limits) if isinstance(subject, Verdict) else (subject, None)
        require_graph(graph, "Recorder(executor.verify())")
        self._own = graph.own
        changed: Mapping[str, float | None] = {} if limits is None else limits.meters
        budgets: Record = {name: changed.get(name, limit) for name, limit in graph.own.items()}
        self._prompts = PromptHistory()
        self._run = ""
        self._clock = clock
        self._began = began if began is not None or clock is None else clock()
        # The second of the run's clock, and the calls without a reply: where and when each was requested.
        self._now = 0.0
        self._open: dict[tuple[int, int], tuple[Asked, float]] = {}
        self._history = RunHistory()
        self.records: list[Record] = []
        fields = {
            "began": None if self._began is None else iso_date(self._began),
            "limits": None if limits is None else limits_data(limits, graph.own),
            "budgets": budgets or None,
            "input": to_json_data(inputs),
            "model": model,
            "agent": agent,
            "tools": None if tools is None else list(map(spec_data, tools)),
            "parameters": None if parameters is None else to_json_data(parameters),
            "heartbeat": heartbeat,
        }
        known = {name: one for name, one in fields.items() if one is not None}
        self._add({"event": "start", "version": VERSION, **known, "machine": picture_of(subject).to_data()})

    def __call__(self, event: Event[Any]) -> Record:
        """Store and return the record of an event. Raises `InputError` if the run already has its result."""
        if self.recording.result is not None:
            raise InputError("this recorder already has the result of a run; make a Recorder for each run")
        match event:
            case Entered(node, _, spent, call):
                self._now = spent.seconds
                run = "" if call is None else call.run_id
                changed, self._run = run not in ("", self._run), run or self._run
                named = {"run": run} if changed else {}
                return self._add({"event": "entered", "node": node, **named, "spent": spent_data(spent, self._own)})
            case Asked(node, effect, call):
                if call is not None:
                    if (call.sequence, call.member) in self._open:
                        # Of a stored run, which went on in another process with a call that was open.
                        known = call_data(call).items()
                        return next(one for one in reversed(self.records) if known <= one.items())
                    self._open[call.sequence, call.member] = event, self._now
                data = effect_data(effect)
                if isinstance(effect, ModelEffect):
                    data |= self._prompts.record(effect.request)
                asked = {"event": "asked", "node": node, **call_data(call), **self._time(), "effects": [data]}
                return self._add(asked)
            case Answered():
                return self._answered(event)
            case Reported(node, effect, news, call):
                record = {
                    "event": "reported",
                    "node": node,
                    **call_data(call),
                    **self._time(),
                    "effects": [] if effect is None else [effect_name(effect)],
                    "news": type(news).__name__,
                    "text": news.content if isinstance(news, ReplyDelta) else str(news),
                }
                if isinstance(news, ReplyDelta) and news.reasoning:
                    record["reasoning"] = news.reasoning
                return self._add(record)
            case Moved(node, outcome, target):
                record = {
                    "event": "moved",
                    "node": node,
                    "outcome": type(outcome).__name__,
                    "target": target,
                    "value": outcome_data(outcome),
                }
                record |= self._history.new_data(node, outcome)
                return self._add(record)
            case Done(outcome, snapshot):
                status, code = ("stopped", 3) if isinstance(outcome, StoppedResponse) else ("answered", 0)
                return self.result(
                    status,
                    code,
                    getattr(outcome, "steps", ()),
                    snapshot.spent,
                    snapshot.spent.seconds,
                    **ending_data(outcome),
                )
            case Failed():
                return self._failed(event)

    def _answered(self, event: Answered) -> Record:
        call, spent = event.call, event.spent
        # A clock that goes backwards, as it may after a resume, gives no negative time.
        self._now = max(self._now, spent.seconds)
        if call is not None:
            self._open.pop((call.sequence, call.member), None)
        reply = reply_data(event.effect, event.reply)
        # Microseconds, of which clocks are certain.
        reply["began"] = round(max(0.0, spent.seconds - event.seconds), 6)
        reply["seconds"] = round(event.seconds, 6)
        used = spent_data(spent, self._own)
        record = {"event": "answered", "node": event.node, **call_data(call), "spent": used, "replies": [reply]}
        if call is not None and call.charged:
            record["within"] = dict(call.charged)
        return self._add(record)

    def _failed(self, event: Failed) -> Record:
        """Store where the exception ended the run, unless it came from outside, and return the result's record."""
        error, snapshot = event.error, event.snapshot
        ended = max(self._now, snapshot.spent.seconds if event.seconds is None else event.seconds)
        steps, spent = steps_of(snapshot.value), replace(snapshot.spent, seconds=ended)
        if isinstance(error, RunSuspended):
            return self.result("waiting", 4, steps, spent, ended)
        if not isinstance(error, (Exception, SystemExit)):
            return self.result("interrupted", 130, steps, spent, ended)
        self.failure(error, snapshot.node, ended)
        return self.result("error", 1, steps, spent, ended, error=error_data(error))

    def failure(self, error: BaseException, node: str, ended: float) -> Record | None:
        """Store and return where an exception ended the run, `ended` seconds after its beginning: before its result.

        Returns `None` if the run had not entered a `node`.
        """
        # The exception of one of several calls does not say which of them it ended.
        asked, began = next(iter(self._open.values())) if len(self._open) == 1 else (None, self._now)
        where = node if asked is None else asked.node
        if not where:
            return None
        named = {} if asked is None else call_data(asked.call)
        times = {"began": began, "seconds": max(0.0, ended - began)}
        return self._add({"event": "failed", "node": where, **named, **times, "error": error_data(error)})

    def failed(self, error: BaseException) -> Record:
        """Store and return the result of a run that this exception ended; the exception carries the run's progress.

        Raises `InputError` if the run already has its result.
        """
        journal = journal_of(error)
        seconds = None if journal is None else journal.seconds
        return self(Failed(error, snapshot_of(error) or Snapshot("", None), seconds=seconds))

    def alive(self) -> Record:
        """Store and return a sign of life, for readers of records that nothing else has been added to for a while."""
        return self._add({"event": "alive", **self._time()})

    def _time(self) -> Record:
        """Return the seconds since the recording began, if it has a clock."""
        if self._clock is None or self._began is None:
            return {}
        return {"time": max(0.0, round(self._clock() - self._began, 3))}

    # Each status has fields of its own; the others are null.
    def result(
        self, status: str, exit_code: int, steps: Sequence[AgentStep], spent: Spent, seconds: float, **fields: Any
    ) -> Record:
        """Store and return the result's record."""
        return self._add(
            {
                "event": "result",
                "status": status,
                "exit_code": exit_code,
                **_ABSENT,
                **fields,
                "steps": [step_data(step) for step in steps],
                "spent": spent_data(spent, self._own),
                "seconds": seconds,
            }
        )

    @property
    def recording(self) -> Recording:
        """The run so far."""
        return Recording(tuple(self.records))

    def _add(self, record: Record) -> Record:
        self.records.append(record)
        return record


@runtime_checkable
class HasJournal(Protocol):
    """The result of a run, or its last event: it has the run's journal, from which the run is followed again."""

    @property
    def journal(self) -> Journal | None:
        """The replies of the run; `None` if they were not kept."""
        ...


# The sources of a run's records. An exception must have ended a run.
AnyRun: TypeAlias = HasJournal | Journal | Recording | Recorder | BaseException


def recording_of(run: AnyRun) -> Recording:
    """Return the records of a run, from its result, last event, journal, recorder, or the exception that ended it.

    Raises `InputError` for a result, an event or an exception without a journal, and for any other type.
    """
    match run:
        case Recording():
            return run
        case Recorder():
            return run.recording
        case Journal():
            return _record_run(run)
        case BaseException():
            kept = journal_of(run)
            if kept is None:
                raise InputError(f"{type(run).__name__} did not end a run; pass an exception that did")
            return _record_run(kept, run)
        case HasJournal(journal=Journal() as journal):
            return _record_run(journal)
        case HasJournal():
            raise InputError("this result has no journal, so its path is unknown; pass one that executor.run returned")
        case _:
            raise InputError(
                f"{format_value(run)} is not a run; pass the result of executor.run, a Recorder or a Recording"
            )


def _record_run(journal: Journal, error: BaseException | None = None) -> Recording:
    """Replay a run and record it, up to where the exception ended it; a node that raised this raises it again."""
    run = run_of(journal.start.value)
    inputs = journal.start.value if run is None else run.inputs
    recorder = Recorder(verify(journal.graph, journal.limits), inputs=inputs, began=journal.began)
    try:
        for event in replay(journal, until=None if error is None else snapshot_of(error)):
            recorder(event)
    except Exception:
        if error is None:
            raise
    if error is not None:
        recorder.failed(error)
    return recorder.recording


def iso_date(seconds: float) -> str:
    """Return a time since the epoch in ISO 8601, with milliseconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
