"""The command `replay`: go on from a step of a recorded run."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from graphexec.cli.exit_codes import Debug, UsageError, exit_on_error, option
from graphexec.cli.files import read_input
from graphexec.cli.records import load_recording
from graphexec.cli.runs import parameters
from graphexec.cli.runs.building import AgentOptions, NamedExecutor, build_executor, keep_limits
from graphexec.cli.runs.loop import RunSetup
from graphexec.cli.runs.options import AgentName
from graphexec.cli.runs.running import show_run
from graphexec.cli.runs.shared_options import with_agent_options
from graphexec.cli.runs.termination import terminable
from graphexec.draw.runs.data import Record
from graphexec.errors import InputError
from graphexec.executor.executor import AgentExecutor
from graphexec.tools.everyday import EVERYDAY_TOOLS

if TYPE_CHECKING:
    from graphexec.draw.forks import Fork
    from graphexec.draw.runs.records import Recording

_CHANGE = "What changes"


@with_agent_options
def replay(  # noqa: PLR0913 - each is an option
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="The file of graphexec run --record, or the output of --json; - is the standard input.",
            show_default=False,
        ),
    ],
    target: parameters.OwnExecutor = None,
    *,
    options: AgentOptions,
    at: Annotated[
        int | None,
        option(
            _CHANGE,
            "STEP",
            "The last step that is kept, counted from 1 as on the page of graphexec view. Default: the last one of the "
            "run.",
            "--at",
        ),
    ] = None,
    call: Annotated[
        int | None,
        option(_CHANGE, "N", "The call of the step that gets another reply, from 0, if the step has several."),
    ] = None,
    reply: Annotated[
        str | None,
        option(_CHANGE, "TEXT", "The reply of the model, or of a person, at this step; - reads the standard input."),
    ] = None,
    tool_call: Annotated[
        list[str] | None,
        option(
            _CHANGE,
            "CALL",
            'A call of a tool in the reply of the model, as \'calculator {"expression": "2 + 3"}\'. May be repeated, '
            "and --reply is the text beside it.",
        ),
    ] = None,
    observation: Annotated[
        str | None,
        option(_CHANGE, "TEXT", "The observation of the tool at this step; - reads the standard input."),
    ] = None,
    json: parameters.PrintJSON = False,
    quiet: parameters.Quiet = False,
    record: parameters.RecordFile = None,
    debug: Debug = False,
) -> None:
    """Go on from a step of a recorded run, with another reply or observation.

    Up to that step nothing is asked again: replies, counts and limits are those of the trace. Without another reply, a
    run that failed or was interrupted goes on from where it was. The built-in agent has the model, the kind, the tools
    and the limits of the run. The records of --record name the trace and the step.
    """
    with exit_on_error(debug=debug, json_to=sys.stdout if json else None), terminable():
        if record is not None and trace != "-" and record.exists() and record.samefile(trace):
            raise UsageError(f"--record {record} is the trace that is replayed; name another file")
        if [trace, reply, observation].count("-") > 1:
            raise UsageError("the standard input can only be read once; name a file for TRACE, or write the text")
        changes = _read_changes(reply, tool_call or (), observation)
        recording = load_recording(trace)
        built = build_recorded(recording, trace, replace(options, target=target))
        forked = _fork(recording, built, trace, at, call, changes)
        if forked.changed_request is not None:
            fact = f"from step {forked.changed_request} on, the requests to the model differ from the recorded ones"
            what = "such as --system and --trim" if target is None else f"if {target} has changed since"
            print(f"graphexec: {fact}; check the options of the agent, {what}", file=sys.stderr)
        inputs = forked.inputs
        question = inputs if isinstance(inputs, str) else json_text.dumps(inputs, ensure_ascii=False, default=str)
        setup = RunSetup(
            question,
            built.executor,
            built.model,
            built.agent,
            tokens=record is not None,
            fork=forked,
        )
        show_run(setup, built, json=json, quiet=quiet, record=record, debug=debug)


def _read_changes(reply: str | None, tool_calls: Sequence[str], observation: str | None) -> Mapping[str, Any]:
    """Return the new reply or observation of the options, as `fork` takes it. Raises `UsageError`."""
    if observation is not None and (reply is not None or tool_calls):
        other = "--reply" if reply is not None else "--tool-call"
        raise UsageError(f"--observation is of a tool, and {other} of a model; leave one out")
    if observation is not None:
        return {"observation": _read_text("--observation", observation)}
    text = None if reply is None else _read_text("--reply", reply)
    if tool_calls:
        return {"reply": {"content": text or "", "tool_calls": [_read_call(one) for one in tool_calls]}}
    return {} if text is None else {"reply": text}


def _read_text(name: str, text: str) -> str:
    if text != "-":
        return parameters.decode_argument(text)
    try:
        return read_input().removesuffix("\n")
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} -: the standard input cannot be read: {error}; write the text in quotes") from error


def _read_call(text: str) -> Record:
    name, brace, rest = parameters.decode_argument(text).partition("{")
    try:
        # Any: JSON.
        arguments: Any = json_text.loads(brace + rest) if brace else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--tool-call {text!r}: the arguments are not JSON ({error}); write 'TOOL {{\"ARGUMENT\": VALUE}}'"
        ) from None
    if not name.strip():
        raise UsageError(f"--tool-call {text!r} names no tool; write 'TOOL {{\"ARGUMENT\": VALUE}}'")
    return {"name": name.strip(), "arguments": arguments}


def _fork(
    recording: Recording,
    built: NamedExecutor,
    trace: str,
    at: int | None,
    call: int | None,
    changes: Mapping[str, Any],
) -> Fork:
    from graphexec.draw.forks import fork, last_step

    name = "standard input" if trace == "-" else trace
    step = last_step(recording) if at is None else at
    try:
        return fork(recording, built.executor, at=step, call=call, trace=None if trace == "-" else trace, **changes)
    except InputError as error:
        raise UsageError(f"{name}: {error}") from error


def build_recorded(recording: Recording, trace: str, options: AgentOptions) -> NamedExecutor:
    """Return the executor for a fork of a recorded run: that of the options, and else as the records name it.

    Raises `UsageError` for what the records do not have, and as `build_executor` does.
    """
    options = options if options.target else _with_recorded(options, recording.records[0], trace)
    return build_executor(options, _recorded_limits(recording))


def make_executor_source(trace: str, target: str | None) -> Callable[[Recording], AgentExecutor]:
    """Return a function that makes the executor for a run in a trace: that of the target, or the built-in agent.

    Raises as `build_executor` does for the target, which is loaded at once; the function raises as `build_recorded`.
    """
    if target is None:
        return lambda recording: build_recorded(recording, trace, AgentOptions()).executor
    executor = build_executor(AgentOptions(target=target)).executor
    return lambda recording: keep_limits(executor, _recorded_limits(recording))


def _recorded_limits(recording: Recording) -> Mapping[str, float | None]:
    limits: dict[str, Any] = dict(recording.records[0].get("limits") or {})
    budgets: dict[str, Any] = limits.pop("budgets", {})
    return {**limits, **budgets}


def _with_recorded(options: AgentOptions, start: Record, trace: str) -> AgentOptions:
    """Return the options with what the start of a run says of its agent."""
    sent: Record = start.get("parameters") or {}
    kind: Any = options.agent or start.get("agent")
    own = f"name the executor of the run, as in graphexec replay {quote(trace)} my_agent.py:executor"
    if kind not in get_args(AgentName):
        ran = "does not say what agent ran" if kind is None else f"is of an agent of the kind {kind}"
        raise UsageError(f"{trace} {ran}, which is not a built-in one; {own}")
    if not options.tools:
        names = [tool["name"] for tool in start.get("tools") or ()]
        if names and {*names} != {tool.name for tool in EVERYDAY_TOOLS}:
            raise UsageError(f"the run in {trace} had the tools {', '.join(names)}; {own}, or the tools with --tools")
    return replace(
        options,
        model=_recorded_model(options, start, trace, own),
        agent=kind,
        temperature=_first(options.temperature, sent.get("temperature")),
        max_reply_tokens=_first(options.max_reply_tokens, sent.get("max_tokens")),
    )


# Any: numbers of either kind.
def _first(given: Any, recorded: Any) -> Any:
    return recorded if given is None else given


def _recorded_model(options: AgentOptions, start: Record, trace: str, own: str) -> str | None:
    if options.model is not None or options.base_url is not None or options.gguf is not None:
        return options.model
    name = start.get("model")
    if not isinstance(name, str):
        raise UsageError(f"{trace} does not name its model; pass --model, or {own}")
    # The address of a server and the path of a file are not taken from a trace, which anybody may have written.
    if " at " in name:
        model = name.partition(" at ")[0]
        raise UsageError(f"the model of {trace} was {name}; pass --model {quote(model)} and --base-url")
    if name.endswith(".gguf"):
        raise UsageError(f"the model of {trace} was the file {name}; pass its path, as --gguf {quote(name)}")
    return name
