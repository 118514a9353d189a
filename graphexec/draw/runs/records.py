"""Records: a run as JSON, one object for each event, from which pictures and pages of the run are made.

`graphexec run --json` prints one record per line. Every record has `event`. The field names below are stable; records
may get further fields. `graphexec run --record` and `Recording.to_json_lines` write a trace, version 3, which holds the
same records in the form that `graphexec.draw.runs.compact` describes: `Recording.from_json_lines` reads both.

- `start`: `version` (2), `machine` (its picture: `start`, `boxes`, `arrows`); and if known `began` (the date, in
  ISO 8601), `limits`, `budgets` (the limits of the machine's own, by name), `input`, `model`, `agent`, `tools` (each
  `name`, `description`, `parameters`), `parameters` (of requests to the model, without its key), `heartbeat` (seconds
  between signs of life), `parent` (of a fork)
- `entered`: `node`, `spent`; in the first one also `run` (the run's id)
- `asked`: `node`, `call`, `provider_id` (the id that a model's provider gave the call, if any), `time` (seconds
  since the start's `began`, if it was recorded while it happened), `effects` (exactly one; each effect of a request has
  its own record, when its call begins)
- `reported`: `node`, `call`, `provider_id`, `time`, `effects` (the pending one, if the report concerns one), `news`
  (its class: a retry, a wait, a cached reply, a `ReplyDelta`), `text`; of a piece of reasoning also `reasoning`
- `answered`: `node`, `call`, `provider_id`, `spent`, `replies` (exactly one), `within` (the usage of nested runs, by
  meter, if there were any)
- `moved`: `node`, `outcome` (its class), `target`, `value` (the outcome's own data), and if there are any `steps`
  (those of a reply that could not be parsed), `task` (what the run of an embedded graph is given, when it begins)
- `alive`: `time` (a sign of life, while nothing else is written)
- `failed`: `node`, `call` (if one failed), `began`, `seconds`, `error` (before the `result` of a run that it ended)
- `result`: `status` (`answered`, `stopped`, `interrupted`, `error`, `usage`), `exit_code`, `output` (`null` without an
  answer; a stopped run may have a generated answer, and a run whose memory could not be saved has its answer),
  `reason` (`finished`, `return_direct`, `refused`, or the limit's name), `limit` (the one that stopped the run),
  `refusal` (`by` which node or piece it was stopped, and `why`), `steps`, `spent`, `seconds`, `error`. If the run
  could not begin, only `status`, `exit_code` and `error`.

Their fields:

- `limits`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `tokens`, `cost`, `fan_out`, `restarts`, `depth`,
  `nested_runs`, `budgets` (the machine's own, by name); null means no limit
- `spent`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `prompt_tokens`, `completion_tokens`, `tokens` (both),
  `silent_calls` (calls that reported no tokens), `restarts`, `cost`, `budgets`; and if not 0 `cached_tokens` (those of
  the prompts that providers had stored)
- `call`: `run` (its id), `sequence` (the number of the request in the run, from 1), `member` (the index in the request,
  from 0)
- `parent`: `trace` (its file), `run`, `step` (the one that was changed)
- `effects`, each: `effect` (its class); of a tool also `tool`, `tool_input`; of a model also `prompt` and `request`; of
  a person also `question`; of an agent that is a function, nothing more; of one of your own, `value`
- `request`: `tools` (as in `start`), `stop`, `schema`, `tool_choice`, of which those that differ from the run's request
  before
- `prompt`: what is new against the run's prompt before: `kept`, how many of its messages come first, then `messages`,
  each with `role`, `content` and, of which the first may be the continuation of the one that stood there, `kept`
  (characters of that one that come before `content`); an assistant's also `tool_calls`, a tool's `call_id`; with
  images also `images`, their labels (the images themselves are in `input` and in `observation`)
- `replies`, each: `effect`, `began`, `seconds` (on the run's clock); of a model also `content`, `tool_calls`,
  `finish_reason`, `prompt_tokens`, `completion_tokens`, and if there are any `cached_tokens`, `cost`, `reasoning` (what
  the model wrote before its answer, as far as the provider shows it) and `reasoning_parts` (each `text`, `data`,
  `provider`: the form that the provider wants back); of a tool also `tool`, `status`, `error`
  (the class of the exception that it failed with, or `null`), `observation`, and if there are any `traceback`,
  `model_text`, `return_direct`; else `value`
- `tool_calls`, each: `id`, `name`, `arguments`
- `steps`, each: `tool`, `tool_input`, `observation`, `status`, `error` (as in `replies`), and if there is any `unread`
  (the rest of the reply, which the model invented; actions and answers in the value of an outcome have it, and the
  result, too)
- `limit`: `limit` (its name), `value`, `reached`, `wanted`, `outer` (true of a run around this one)
- `error`: `type`, `message`, and if known `traceback`; also of a run that a signal such as SIGTERM interrupted

Records without a `version` are of version 1, which is read, too: `answered` had the `seconds`, `tools` were names.

An image in a value is an object with the `kind` `graphexec.image` and its `url`. Any other object of that kind is the
`data` of an object of the kind `graphexec.data`. What the caller passed as `context` is in no record.

`graphexec audit` checks records against a certificate, `graphexec view` shows them as a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias, final

from graphexec.actions import AgentStep, StoppedResponse, run_of, steps_of
from graphexec.draw.model.picture import Picture, picture_of
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
    read_limits,
    reply_data,
    spent_data,
    step_data,
    to_json_data,
)
from graphexec.draw.runs.lines import TraceReader, TraceWriter
from graphexec.draw.runs.prompts import PromptHistory, spec_data
from graphexec.draw.runs.record_schema import NAME_A_TRACE, VERSION, validate_record
from graphexec.draw.runs.stored import StoredRecords
from graphexec.effects import ModelEffect
from graphexec.errors import InputError, LimitsError, format_value
from graphexec.executor.result import RunResult
from graphexec.kernel.effects import DetachedScope, Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Journal, Moved, Reported, journal_of
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import replay
from graphexec.messages import ReplyDelta, ToolSpec
from graphexec.verify.proof.findings import Verdict

# The default values of a result's fields.
_ABSENT: Mapping[str, Any] = {"output": None, "reason": None, "limit": None, "refusal": None, "error": None}


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
        limits: Limits | None = None,
        inputs: object = None,
        model: str | None = None,
        agent: str | None = None,
        tools: Sequence[str | ToolSpec] | None = None,
        parameters: Mapping[str, Any] | None = None,
        heartbeat: float | None = None,
        parent: Mapping[str, Any] | None = None,
        began: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Record `start`. The run's limits are those of the verdict, `executor.verify()`, or `limits`.

        `parameters` are those of the requests to the model, without its key. `heartbeat` says that `alive` will be
        called when nothing else was recorded for so many seconds. `parent` says of which run this one is a fork.
        `clock` (`time.time`) gives the times of a run that is recorded while it happens, and `began` is its start in
        seconds since the epoch, now by default. Raises `InputError` if a verdict and `limits` are passed, and for a
        subject that is not a machine.
        """
        if isinstance(subject, Verdict):
            if limits is not None:
                raise InputError(
                    "a verdict has limits of its own; write Recorder(verdict) or Recorder(graph, limits=...)"
                )
            limits = subject.limits
        else:
            require_graph(subject, "Recorder(executor.verify())")
        graph: Graph[Any, Any] = subject.graph if isinstance(subject, Verdict) else subject
        own: Mapping[str, int | None] = {} if limits is None else limits.budgets
        budgets: Record = {name: own.get(name, limit) for name, limit in graph.budgets.items()}
        self._prompts = PromptHistory()
        self._run = ""
        self._clock = clock
        self._began = began if began is not None or clock is None else clock()
        # The second of the run's clock, and the calls without a reply: where and when each was requested.
        self._now = 0.0
        self._open: dict[tuple[int, int], tuple[Asked, float]] = {}
        self._history = RunHistory()
        # The last usage and its data, which consecutive records share.
        self._spent: tuple[Spent | None, Record] = (None, {})
        self.records = StoredRecords()
        self._is_over = False
        fields = {
            "began": None if self._began is None else _date(self._began),
            "limits": None if limits is None else limits_data(limits),
            "budgets": budgets or None,
            "input": to_json_data(inputs),
            "model": model,
            "agent": agent,
            "tools": None
            if tools is None
            else [{"name": one} if isinstance(one, str) else spec_data(one) for one in tools],
            "parameters": None if parameters is None else to_json_data(parameters),
            "heartbeat": heartbeat,
            "parent": parent,
        }
        known = {name: one for name, one in fields.items() if one is not None}
        self._add({"event": "start", "version": VERSION, **known, "machine": picture_of(subject).to_data()})

    def __call__(self, event: Event[Any]) -> Record:
        """Store and return the record of an event. Raises `InputError` if the run already has its result."""
        if self._is_over:
            raise InputError("this recorder already has the result of a run; make a Recorder for each run")
        match event:
            case Entered(node, _, spent, call):
                self._now = spent.seconds
                run = "" if call is None else call.run_id
                changed, self._run = run not in ("", self._run), run or self._run
                named = {"run": run} if changed else {}
                return self._add({"event": "entered", "node": node, **named, "spent": self._usage(spent)})
            case Asked(node, effect, call):
                if call is not None:
                    self._open[call.sequence, call.member] = event, self._now
                # A call that is replayed did not happen now.
                time = {} if call is not None and isinstance(call.scope, DetachedScope) else self._time()
                effects = [self._effect_record(effect)]
                return self._add({"event": "asked", "node": node, **call_data(call), **time, "effects": effects})
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
        used = self._usage(spent)
        record = {"event": "answered", "node": event.node, **call_data(call), "spent": used, "replies": [reply]}
        if call is not None and call.charged:
            record["within"] = dict(call.charged)
        return self._add(record)

    def _usage(self, spent: Spent) -> Record:
        if spent is not self._spent[0] and spent != self._spent[0]:
            self._spent = spent, spent_data(spent)
        return self._spent[1]

    def _failed(self, event: Failed) -> Record:
        """Store where the exception ended the run, unless it came from outside, and return the result's record."""
        error, snapshot = event.error, event.snapshot
        ended = max(self._now, snapshot.spent.seconds if event.seconds is None else event.seconds)
        steps, spent = steps_of(snapshot.value), replace(snapshot.spent, seconds=ended)
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
                "spent": spent_data(spent),
                "seconds": seconds,
            }
        )

    @property
    def recording(self) -> Recording:
        """The run so far."""
        return Recording(self.records.copy())

    def _add(self, record: Record) -> Record:
        self.records.append(record)
        self._is_over = record["event"] == "result"
        return record

    def _effect_record(self, effect: Effect[Any]) -> Record:
        data = effect_data(effect)
        return data | self._prompts.record(effect.request) if isinstance(effect, ModelEffect) else data


@final
@dataclass(frozen=True, slots=True)
class Recording:
    """The records of one run, complete or so far; the first is its `start`."""

    records: Sequence[Record]

    @property
    def machine(self) -> Picture:
        """The machine that ran."""
        return Picture.from_data(self.records[0]["machine"])

    @property
    def limits(self) -> Limits | None:
        """The run's limits, if they are known."""
        limits = self.records[0].get("limits")
        return None if limits is None else read_limits(limits)

    @property
    def result(self) -> Record | None:
        """The result's record, if the run is over."""
        last = self.records[-1]
        return last if last["event"] == "result" else None

    def to_json_lines(self) -> str:
        """Return the records as the text of a trace, one per line, as `graphexec run --record` writes them."""
        lines: list[str] = []
        writer = TraceWriter(lines.append)
        for record in self.records:
            writer.write(record)
        return "".join(lines)

    @staticmethod
    def from_json_lines(text: str) -> Recording:
        """Read a trace of any version. Raises `InputError` that names the first invalid line."""
        reading = _read(text)
        numbered = list(islice(reading, 1))
        if not numbered or numbered[0][1]["event"] != "start" or "machine" not in numbered[0][1]:
            raise InputError(f"these records do not begin with a start and its machine; {NAME_A_TRACE}")
        numbered += reading
        records = tuple(record for _, record in numbered)
        if len([one for one in records if one["event"] == "start"]) > 1:
            raise InputError(
                "these are records of several runs; pass the records of one run, from its start to its end"
            )
        for number, record in numbered:
            validate_record(record, f"line {number}")
        recording = Recording(records)
        try:
            _ = recording.machine, recording.limits
        except (InputError, LimitsError, TypeError) as error:
            raise InputError(f"line {numbered[0][0]}: {error}; {NAME_A_TRACE}") from None
        return recording


# The sources of a run's records. An exception must have ended a run.
AnyRun: TypeAlias = RunResult | Done[Any] | Journal | Recording | Recorder | BaseException


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
        case RunResult(journal=Journal() as journal) | Done(journal=Journal() as journal):
            return _record_run(journal)
        case RunResult() | Done():
            raise InputError("this result has no journal, so its path is unknown; pass one that executor.run returned")
        case BaseException():
            kept = journal_of(run)
            if kept is None:
                raise InputError(f"{type(run).__name__} did not end a run; pass an exception that did")
            return _record_run(kept, run)
        case _:
            raise InputError(
                f"{format_value(run)} is not a run; pass the result of executor.run, a Recorder or a Recording"
            )


def _record_run(journal: Journal, error: BaseException | None = None) -> Recording:
    """Replay a run and record it; a node that raised the exception that ended the run raises it again."""
    run = run_of(journal.start.value)
    inputs = journal.start.value if run is None else run.inputs
    recorder = Recorder(journal.graph.verify(journal.limits), inputs=inputs, began=journal.began)
    try:
        for event in replay(journal):
            recorder(event)
    except Exception:
        if error is None:
            raise
    if error is not None:
        recorder.failed(error)
    return recorder.recording


def _read(text: str) -> Iterator[tuple[int, Record]]:
    reader = TraceReader()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, reader.read(line, f"line {number}")


def _date(seconds: float) -> str:
    """Return a time since the epoch in ISO 8601, with milliseconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
