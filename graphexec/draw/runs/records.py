"""Records: a run as JSON, one object for each thing that happens, from which it is drawn and looked at again.

`graphexec run --json` prints them, a line each. Every record has `event`; the names here do not change, records may get
further ones:

- `start`: `machine` (its picture: `start`, `boxes`, `arrows`), `limits`; and as far as they are known `input`, `model`,
  `agent`, `tools` (by name)
- `entered`: `node`, `spent`
- `asked`: `node`, `call`, `provider_id` (the id that a model's provider gave the call, if it has one), `effects` (one:
  each of several that are asked for together has its own record, when it begins)
- `reported`: `node`, `call`, `provider_id`, `effects` (the one being answered, if it is about one), `news` (its class:
  a retry, a wait, a cache's reply, a `ReplyDelta`), `text`
- `answered`: `node`, `call`, `provider_id`, `seconds`, `spent`, `replies` (one), `within` (what runs within the call
  were charged, by meter, if there were any)
- `moved`: `node`, `outcome` (its class), `target`, `value` (the outcome's own data)
- `result`: `status` (`answered`, `stopped`, `interrupted`, `error`, `usage`), `exit_code`, `output` (`null` without an
  answer; a run that was stopped may have a last word, and one whose memory could not be written has its answer),
  `reason` (`finished`, `return_direct`, or the limit's name), `limit` (what stopped it), `steps`, `spent`, `seconds`,
  `error`. What is wrong before there is a run is told by the `status`, the `exit_code` and the `error` alone.

What stands in them:

- `limits`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `tokens`, `cost`, `fan_out`, `restarts`, `depth`,
  `nested_runs`, `budgets` (the machine's own, by name; each is `null` where there is no limit)
- `spent`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `prompt_tokens`, `completion_tokens`, `tokens` (both),
  `silent_calls` (that reported no tokens), `restarts`, `cost`, `budgets`
- `call`: `run` (its id), `sequence` (the number of the request in the run, from 1 on), `member` (the place in the
  request, from 0 on)
- `effects`, each: `effect` (its class); of a tool also `tool`, `tool_input`; of a model also `prompt`; of a person
  also `question`; of an agent that is a function, nothing more; of one of your own, `value`
- `prompt`: what is new against the run's prompt before: `kept`, how many of its messages come first, then `messages`,
  each with `role`, `content` and, of which the first may be the continuation of the one that stood there, `kept`
  (characters of that one that come before `content`); an assistant's also `tool_calls`, a tool's `call_id`
- `replies`, each: `effect`; of a model also `content`, `tool_calls`, `finish_reason`,
  `prompt_tokens`, `completion_tokens`; of a tool also `tool`, `status`, `error`
  (the class of the exception that it failed with, or `null`), `observation`; else `value`
- `tool_calls`, each: `id`, `name`, `arguments`
- `steps`, each: `tool`, `tool_input`, `observation`, `status`, `error` (as in `replies`)
- `limit`: `limit` (its name), `value`, `reached`, `wanted`, `outer` (true of a run around this one)
- `error`: `type`, `message`

What the caller passed as `context` is in no record.

`graphexec audit` checks these records against a certificate, `graphexec view` shows them as a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, final

from graphexec.actions import AgentFinish, AgentStep, StoppedResponse, run_of, steps_of
from graphexec.draw.model.picture import Picture, picture_of
from graphexec.draw.runs.data import (
    Record,
    Said,
    as_data,
    call_data,
    effect_data,
    effect_name,
    limits_data,
    messages_of,
    new_in,
    outcome_data,
    read_limits,
    reply_data,
    spent_data,
    step_data,
)
from graphexec.draw.runs.record_schema import whole
from graphexec.effects import CallModel
from graphexec.errors import InputError, LimitsError, described, format_value
from graphexec.executor.result import Ending, RunResult
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Journal, Moved, Reported, journal_of
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, parse_json
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import replay
from graphexec.messages import ReplyDelta
from graphexec.verify.proof.findings import Verdict

# What a result says of its fields where it does not say otherwise.
_ABSENT: Mapping[str, Any] = {"output": None, "reason": None, "limit": None, "error": None}


@final
class Recorder:
    """Makes the records of one run from its events: `recorder(event)` returns the event's record, and keeps it.

    `records` are those so far. `Done` and `Failed` make the result's; who iterates over a run hears of no `Failed`, and
    calls `failed`.
    """

    def __init__(
        self,
        subject: Graph[Any, Any] | Verdict,
        *,
        limits: Limits | None = None,
        inputs: object = None,
        model: str | None = None,
        agent: str | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        """Begin with `start`. The run's limits are those of a verdict, `executor.verify()`, or are given.

        Raises `InputError` for both, and for what is no machine.
        """
        if isinstance(subject, Verdict):
            if limits is not None:
                raise InputError("limits are given, and the verdict has its own; write Recorder(verdict), or a graph")
            limits = subject.limits
        else:
            require_graph(subject, "Recorder(executor.verify())")
        self._prompt: list[Said] = []
        self.records: list[Record] = []
        told = {"input": as_data(inputs), "model": model, "agent": agent, "tools": as_data(tools)}
        known = {} if limits is None else {"limits": limits_data(limits)}
        machine = picture_of(subject).to_data()
        self._add("start", **{name: one for name, one in told.items() if one is not None}, **known, machine=machine)

    def __call__(self, event: Event[Any]) -> Record:
        """Return the record of an event. Raises `InputError` for one of another run, when the first is over."""
        if self.records[-1]["event"] == "result":
            raise InputError("the recorder has the whole of a run; make a Recorder for each run")
        match event:
            case Entered(node, _, spent):
                return self._add("entered", node=node, spent=spent_data(spent))
            case Asked(node, effect, call):
                return self._add("asked", node=node, **call_data(call), effects=[self._effect_record(effect)])
            case Answered(node, effect, reply, seconds, spent, call):
                within = {} if call is None or not call.charged else {"within": dict(call.charged)}
                return self._add(
                    "answered",
                    node=node,
                    **call_data(call),
                    seconds=seconds,
                    spent=spent_data(spent),
                    replies=[reply_data(effect, reply)],
                    **within,
                )
            case Reported(node, effect, news, call):
                return self._add(
                    "reported",
                    node=node,
                    **call_data(call),
                    effects=[] if effect is None else [effect_name(effect)],
                    news=type(news).__name__,
                    text=news.content if isinstance(news, ReplyDelta) else str(news),
                )
            case Moved(node, outcome, target):
                return self._add(
                    "moved", node=node, outcome=type(outcome).__name__, target=target, value=outcome_data(outcome)
                )
            case Done(outcome, snapshot):
                status, code = ("stopped", 3) if isinstance(outcome, StoppedResponse) else ("answered", 0)
                return self.result(
                    status,
                    code,
                    getattr(outcome, "steps", ()),
                    snapshot.spent,
                    snapshot.spent.seconds,
                    **ending(outcome),
                )
            case Failed(error, snapshot):
                steps, spent = steps_of(snapshot.value), snapshot.spent
                if not isinstance(error, (Exception, SystemExit)):
                    return self.result("interrupted", 130, steps, spent, spent.seconds)
                failure = {"type": type(error).__name__, "message": described(error)}
                return self.result("error", 1, steps, spent, spent.seconds, error=failure)

    def failed(self, error: BaseException) -> Record:
        """Return the result's record of a run that this exception ended: it knows how far the run came.

        Raises `InputError` if the result's record is there already.
        """
        return self(Failed(error, snapshot_of(error) or Snapshot("", None)))

    # Each status has fields of its own; the others are null.
    def result(
        self, status: str, exit_code: int, steps: Sequence[AgentStep], spent: Spent, seconds: float, **told: Any
    ) -> Record:
        """Return the result's record."""
        return self._add(
            "result",
            status=status,
            exit_code=exit_code,
            **{**_ABSENT, **told},
            steps=[step_data(step) for step in steps],
            spent=spent_data(spent),
            seconds=seconds,
        )

    @property
    def recording(self) -> Recording:
        """The run so far."""
        return Recording(tuple(self.records))

    def _add(self, event: str, **told: Any) -> Record:
        record = {"event": event, **told}
        self.records.append(record)
        return record

    def _effect_record(self, effect: Effect[Any]) -> Record:
        told = effect_data(effect)
        if isinstance(effect, CallModel):
            before, self._prompt = self._prompt, messages_of(effect.request)
            told["prompt"] = new_in(before, self._prompt)
        return told


@final
@dataclass(frozen=True, slots=True)
class Recording:
    """The records of one run, whole or as far as it came; the first is its `start`."""

    records: Sequence[Record]

    @property
    def machine(self) -> Picture:
        """The machine that ran."""
        return Picture.from_data(self.records[0]["machine"])

    @property
    def limits(self) -> Limits | None:
        """What the run may spend, if it is known."""
        limits = self.records[0].get("limits")
        return None if limits is None else read_limits(limits)

    @property
    def result(self) -> Record | None:
        """The result's record, if the run is over."""
        last = self.records[-1]
        return last if last["event"] == "result" else None

    def to_json_lines(self) -> str:
        """Return the records as text, a line each: what `graphexec run --json` prints."""
        return "".join(f"{format_json(record)}\n" for record in self.records)

    @staticmethod
    def from_json_lines(text: str) -> Recording:
        """Read what `graphexec run --json` printed. Raises `InputError` for what is no such text, and says where."""
        numbered = list(_read(text))
        records = tuple(record for _, record in numbered)
        if not records or records[0]["event"] != "start" or "machine" not in records[0]:
            raise InputError(
                "these records do not begin with a start and its machine; give what graphexec run --json printed"
            )
        if len([one for one in records if one["event"] == "start"]) > 1:
            raise InputError("these are records of several runs; give those of one, from a start to the next")
        for number, record in numbered:
            whole(record, f"line {number}")
        recording = Recording(records)
        try:
            _ = recording.machine, recording.limits
        except (InputError, LimitsError, TypeError) as error:
            raise InputError(f"line {numbered[0][0]}: {error}; give what graphexec run --json printed") from None
        return recording


# What the records of a run are made of. An exception is one that ended a run.
AnyRun: TypeAlias = RunResult | Done[Any] | Journal | Recording | Recorder | BaseException


def recording_of(run: AnyRun) -> Recording:
    """Return a run's records: of a result, its last event, a journal, a recorder, or an exception that ended a run.

    Raises `InputError` for a result, an event and an exception without a journal, and for what is no run.
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
            raise InputError("the result has no journal, so its way is not known; give one that executor.run returned")
        case BaseException():
            kept = journal_of(run)
            if kept is None:
                raise InputError(f"{type(run).__name__} did not end a run, so it has no way; give one that did")
            return _record_run(kept, run)
        case _:
            raise InputError(
                f"{format_value(run)} is not a run; give what executor.run returned, a Recorder or a Recording"
            )


def ending(outcome: Ending | None) -> Record:
    """What a result's record says of the answer, or of the stop."""
    match outcome:
        case AgentFinish():
            reason = "return_direct" if outcome.return_direct else "finished"
            return {"output": as_data(outcome.answer), "reason": reason}
        case StoppedResponse(output, limit):
            return {"output": output if outcome.generated else None, "reason": limit.limit, "limit": asdict(limit)}
        case None:
            return {}
        case _:
            # A machine of the user's own ends with an outcome of their own.
            return {"output": as_data(outcome), "reason": "finished"}


def _record_run(journal: Journal, error: BaseException | None = None) -> Recording:
    """The records of a run, which an exception may have ended: a node that raised it raises it again."""
    run = run_of(journal.start.value)
    recorder = Recorder(journal.graph.verify(journal.limits), inputs=journal.start.value if run is None else run.inputs)
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
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record: Record = {**parse_json(line)}
            yield number, {**record, "event": str(record["event"])}
        except INVALID_DATA_ERRORS as error:
            raise InputError(
                f"line {number} is not a record: {error!r}; give what graphexec run --json printed"
            ) from None
