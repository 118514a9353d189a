"""Records: a run as JSON, one object for each event, from which pictures and pages of the run are made.

`graphexec run --json` prints one record per line. Every record has `event`. The field names below are stable; records
may get further fields:

- `start`: `machine` (its picture: `start`, `boxes`, `arrows`), `limits`; and if known `input`, `model`, `agent`,
  `tools` (by name)
- `entered`: `node`, `spent`
- `asked`: `node`, `call`, `provider_id` (the id that a model's provider gave the call, if any), `effects` (exactly one;
  each effect of a request has its own record, when its call begins)
- `reported`: `node`, `call`, `provider_id`, `effects` (the pending one, if the report concerns one), `news` (its class:
  a retry, a wait, a cached reply, a `ReplyDelta`), `text`; of a piece of reasoning also `reasoning`
- `answered`: `node`, `call`, `provider_id`, `seconds`, `spent`, `replies` (exactly one), `within` (the usage of nested
  runs, by meter, if there were any)
- `moved`: `node`, `outcome` (its class), `target`, `value` (the outcome's own data)
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
- `effects`, each: `effect` (its class); of a tool also `tool`, `tool_input`; of a model also `prompt`; of a person
  also `question`; of an agent that is a function, nothing more; of one of your own, `value`
- `prompt`: what is new against the run's prompt before: `kept`, how many of its messages come first, then `messages`,
  each with `role`, `content` and, of which the first may be the continuation of the one that stood there, `kept`
  (characters of that one that come before `content`); an assistant's also `tool_calls`, a tool's `call_id`; with
  images also `images`, their labels (the images themselves are in `input` and in `observation`)
- `replies`, each: `effect`; of a model also `content`, `tool_calls`, `finish_reason`,
  `prompt_tokens`, `completion_tokens`, and if there are any `cached_tokens` and `reasoning` (what the model wrote
  before its answer, as far as the provider shows it); of a tool also `tool`, `status`, `error`
  (the class of the exception that it failed with, or `null`), `observation`; else `value`
- `tool_calls`, each: `id`, `name`, `arguments`
- `steps`, each: `tool`, `tool_input`, `observation`, `status`, `error` (as in `replies`), and if there is any `unread`
  (the rest of the reply, which the model invented; actions and answers in the value of an outcome have it, and the
  result, too)
- `limit`: `limit` (its name), `value`, `reached`, `wanted`, `outer` (true of a run around this one)
- `error`: `type`, `message`; also of a run that a signal such as SIGTERM interrupted

An image in a value is an object with the `kind` `graphexec.image` and its `url`. Any other object of that kind is the
`data` of an object of the kind `graphexec.data`. What the caller passed as `context` is in no record.

`graphexec audit` checks records against a certificate, `graphexec view` shows them as a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, final

from graphexec.actions import AgentFinish, AgentStep, Refusal, StoppedResponse, run_of, steps_of
from graphexec.draw.model.picture import Picture, picture_of
from graphexec.draw.runs.data import (
    PromptMessage,
    Record,
    call_data,
    effect_data,
    effect_name,
    limits_data,
    messages_of,
    outcome_data,
    prompt_changes,
    read_limits,
    reply_data,
    spent_data,
    step_data,
    to_json_data,
    unread_data,
)
from graphexec.draw.runs.record_schema import NAME_A_TRACE, validate_record
from graphexec.effects import ModelEffect
from graphexec.errors import InputError, LimitsError, described, format_value
from graphexec.executor.result import Ending, RunResult
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Journal, Moved, Reported, journal_of
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Exhausted, Limits, Spent
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, parse_json
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import replay
from graphexec.messages import ReplyDelta
from graphexec.verify.proof.findings import Verdict

# The default values of a result's fields.
_ABSENT: Mapping[str, Any] = {"output": None, "reason": None, "limit": None, "refusal": None, "error": None}


@final
class Recorder:
    """A recorder of one run: `recorder(event)` stores and returns the event's record.

    `records` are the records so far. `Done` and `Failed` make the result. Iterating over a run yields no `Failed`: call
    `failed` with the exception instead.
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
        """Record `start`. The run's limits are those of the verdict, `executor.verify()`, or `limits`.

        Raises `InputError` if both are passed, and for a subject that is not a machine.
        """
        if isinstance(subject, Verdict):
            if limits is not None:
                raise InputError(
                    "a verdict has limits of its own; write Recorder(verdict) or Recorder(graph, limits=...)"
                )
            limits = subject.limits
        else:
            require_graph(subject, "Recorder(executor.verify())")
        self._prompt: list[PromptMessage] = []
        self.records: list[Record] = []
        fields = {"input": to_json_data(inputs), "model": model, "agent": agent, "tools": to_json_data(tools)}
        known = {} if limits is None else {"limits": limits_data(limits)}
        machine = picture_of(subject).to_data()
        self._add("start", **{name: one for name, one in fields.items() if one is not None}, **known, machine=machine)

    def __call__(self, event: Event[Any]) -> Record:
        """Store and return the record of an event. Raises `InputError` if the run already has its result."""
        if self.records[-1]["event"] == "result":
            raise InputError("this recorder already has the result of a run; make a Recorder for each run")
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
                    **({"reasoning": news.reasoning} if isinstance(news, ReplyDelta) and news.reasoning else {}),
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
        """Store and return the result of a run that this exception ended; the exception carries the run's progress.

        Raises `InputError` if the run already has its result.
        """
        return self(Failed(error, snapshot_of(error) or Snapshot("", None)))

    # Each status has fields of its own; the others are null.
    def result(
        self, status: str, exit_code: int, steps: Sequence[AgentStep], spent: Spent, seconds: float, **fields: Any
    ) -> Record:
        """Store and return the result's record."""
        return self._add(
            "result",
            status=status,
            exit_code=exit_code,
            **{**_ABSENT, **fields},
            steps=[step_data(step) for step in steps],
            spent=spent_data(spent),
            seconds=seconds,
        )

    @property
    def recording(self) -> Recording:
        """The run so far."""
        return Recording(tuple(self.records))

    def _add(self, event: str, **fields: Any) -> Record:
        record = {"event": event, **fields}
        self.records.append(record)
        return record

    def _effect_record(self, effect: Effect[Any]) -> Record:
        data = effect_data(effect)
        if isinstance(effect, ModelEffect):
            before, self._prompt = self._prompt, messages_of(effect.request)
            data["prompt"] = prompt_changes(before, self._prompt)
        return data


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
        """Return the records as text, one per line, as `graphexec run --json` prints them."""
        return "".join(f"{format_json(record)}\n" for record in self.records)

    @staticmethod
    def from_json_lines(text: str) -> Recording:
        """Read the output of `graphexec run --json`. Raises `InputError` that names the first invalid line."""
        numbered = list(_read(text))
        records = tuple(record for _, record in numbered)
        if not records or records[0]["event"] != "start" or "machine" not in records[0]:
            raise InputError(f"these records do not begin with a start and its machine; {NAME_A_TRACE}")
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


def ending(outcome: Ending | None) -> Record:
    """Return the fields of a result's record that describe the answer or the limit."""
    match outcome:
        case AgentFinish():
            reason = "return_direct" if outcome.return_direct else "finished"
            return {"output": to_json_data(outcome.answer), "reason": reason, **unread_data(outcome)}
        case StoppedResponse(output, Exhausted() as limit):
            return {"output": output if outcome.generated else None, "reason": limit.limit, "limit": asdict(limit)}
        case StoppedResponse(refusal=Refusal() as refusal):
            return {"output": None, "reason": "refused", "refusal": asdict(refusal)}
        case None:
            return {}
        case _:
            # A user's machine ends with an outcome of its own.
            return {"output": to_json_data(outcome), "reason": "finished"}


def _record_run(journal: Journal, error: BaseException | None = None) -> Recording:
    """Replay a run and record it; a node that raised the exception that ended the run raises it again."""
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
        except INVALID_DATA_ERRORS:
            raise InputError(f"line {number} is not a record; {NAME_A_TRACE}") from None
