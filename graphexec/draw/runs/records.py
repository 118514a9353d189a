"""Records: a run as JSON, one object for each event, from which pictures and pages of the run are made.

A trace has one record per line, as `graphexec run --json` and `--record`, and `Recording.to_json_lines`, write it.
Every record has `event`. The field names below are stable; records may get further fields.

- `start`: `version` (2), `machine` (its picture: `start`, `boxes`, `arrows`); and if known `began` (the date, in
  ISO 8601), `limits`, `budgets` (the limits of the machine's own, by name), `input`, `model`, `agent`, `tools` (each
  `name`, `description`, `parameters`), `parameters` (of requests to the model, without its key), `heartbeat` (seconds
  between signs of life)
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
- `result`: `status` (`answered`, `stopped`, `interrupted`, `error`, `usage`; of a stored run also `waiting` for
  answers, `ready` to go on, `cancelled`), `exit_code`, `output` (`null` without an answer; a stopped run may have a
  generated answer, and a run whose memory could not be saved has its answer), `reason` (`finished`, `return_direct`,
  `refused`, or the limit's name), `cause` (of a stopped run; of one that waits, `graphexec run` writes as `waiting` its
  `run_id` and its open `questions`), `steps`, `spent`, `seconds`, `error`. If the run could not begin, only `status`,
  `exit_code` and `error`.

Their fields:

- `limits`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `tokens`, `cost`, `fan_out`, `restarts`, `depth`,
  `nested_runs`, `budgets` (the machine's own, by name); null means no limit
- `spent`: `iterations`, `seconds`, `model_calls`, `tool_calls`, `prompt_tokens`, `completion_tokens`, `tokens` (both),
  `silent_calls` (calls that reported no tokens), `restarts`, `cost`, `budgets`; and if not 0 `cached_tokens` (those of
  the prompts that providers had stored)
- `call`: `run` (its id), `sequence` (the number of the request in the run, from 1), `member` (the index in the request,
  from 0)
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
  the model wrote before its answer, as far as the provider shows it); of a tool also `tool`, `status`, `error`
  (the class of the exception that it failed with, or `null`), `observation`, and if there is one `traceback`; else
  `value`
- `tool_calls`, each: `id`, `name`, `arguments`
- `steps`, each: `tool`, `tool_input`, `observation`, `status`, `error` (as in `replies`), and if there is any `unread`
  (the rest of the reply, which the model invented; actions and answers in the value of an outcome have it, and the
  result, too)
- `cause`: of a limit `limit` (its name), `value`, `reached`, `wanted`, `outer` (true of a run around this one); of a
  refusal `by` (the node or piece that refused) and `why`
- `error`: `type`, `message`, and if known `traceback`; also of a run that a signal such as SIGTERM interrupted

An image in a value is an object with the `kind` `graphexec.image` and its `url`. Any other object of that kind is the
`data` of an object of the kind `graphexec.data`. What the caller passed as `context` is in no record.
The records of a stored run that `graphexec.runs.recording_of_stored` makes without its code have no prompts, and no
`value` of outcomes; a `reported` with the news `Restarted` is where another process went on with it.

`graphexec view` shows records as a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from graphexec.draw.model.picture import Picture
from graphexec.draw.runs.data import Record, read_limits
from graphexec.draw.runs.record_schema import NAME_A_TRACE, read_record, record_line, validate_record
from graphexec.errors import InputError, LimitsError
from graphexec.kernel.meters import Limits


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
        return "".join(map(record_line, self.records))

    @staticmethod
    def from_json_lines(text: str) -> Recording:
        """Read a trace. Raises `InputError` that names the first invalid line."""
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        numbered = {number: read_record(line, f"line {number}") for number, line in lines}
        records = tuple(numbered.values())
        if not records or records[0]["event"] != "start" or "machine" not in records[0]:
            raise InputError(f"these records do not begin with a start and its machine; {NAME_A_TRACE}")
        if len([one for one in records if one["event"] == "start"]) > 1:
            raise InputError(
                "these are records of several runs; pass the records of one run, from its start to its end"
            )
        for number, record in numbered.items():
            validate_record(record, f"line {number}")
        recording = Recording(records)
        try:
            _ = recording.machine, recording.limits
        except (InputError, LimitsError, TypeError) as error:
            raise InputError(f"line {lines[0][0]}: {error}; {NAME_A_TRACE}") from None
        return recording
