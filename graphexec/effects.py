"""The effects of an agent: ask a model, call a tool, ask a person, load and save a memory."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, final

from graphexec._arguments import SECONDS, optional, validate
from graphexec.actions import AgentAction, AgentFinish, Run, StepStatus
from graphexec.errors import InputError, LimitsError, ModelError, format_value, qualified_name
from graphexec.kernel.effects import AS_TEXT, Effect, InDoubt, R_co, ask, fill_slots
from graphexec.kernel.events import CompactReply
from graphexec.kernel.meters import DEPTH, FAN_OUT, NESTED_RUNS, Exhausted, Limits, Meter, Spent
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, ModelRequest, require_reply
from graphexec.messages.observations import WHOLE, Excerpt, Observation, format_observation
from graphexec.messages.stored import Value

MODEL_CALLS = Meter("model_calls", option="max_model_calls", generated=True)
TOOL_CALLS = Meter("tool_calls", option="max_tool_calls")
# As the limit counts them: each call takes at least one token, even if its provider reports none.
TOKENS = Meter("tokens", option="max_tokens")
PROMPT_TOKENS = Meter("prompt_tokens")
COMPLETION_TOKENS = Meter("completion_tokens")
# Those of the prompts that providers had stored; they are prompt tokens, too.
CACHED_TOKENS = Meter("cached_tokens")
COST = Meter(
    "cost",
    whole=False,
    unit="an amount of money",
    remedy="wrap the model: priced(model, Price(...))",
    option="max_cost",
)
# The tasks that `map_agents` gives to runs of another executor.
AGENT_TASKS = Meter("agent_tasks")
# Those that executors have options for.
AGENT_METERS = (MODEL_CALLS, TOOL_CALLS, TOKENS, COST)


# Each parameter is a limit.
def agent_limits(  # noqa: PLR0913
    meters: Mapping[Meter, float | None] | None = None,
    *,
    iterations: int | None = 15,
    seconds: float | None = None,
    model_calls: int | None = None,
    tool_calls: int | None = None,
    tokens: int | None = None,
    cost: float | None = None,
    fan_out: int | None = FAN_OUT,
    restarts: int | None = None,
    depth: int | None = DEPTH,
    nested_runs: int | None = NESTED_RUNS,
) -> Limits:
    """Return the limits of an agent's run: those of every machine, and those on its effects.

    `iterations` counts plans; `model_calls` and `tool_calls` count attempts, charged before the call. `tokens` counts
    prompt and completion tokens, at least one per call; they are known after a call, so the last one can exceed the
    limit. `cost` is the money spent on `priced` models, compared before each call. The cost of a callable agent or a
    tool is known only if it runs a machine or an executor, which is then a nested run of this one. A call may cost
    nothing, so `cost` cannot prove termination. `meters` and the others are as in `Limits`.

    Raises `LimitsError` as `Limits` does, and for a cost of 0.
    """
    for meter in meters or ():
        if meter in AGENT_METERS:
            raise LimitsError(f"{meter} is a limit of its own; write agent_limits({meter}=...)")
    if cost == 0 and not isinstance(cost, bool):
        raise LimitsError(
            "the limit cost is 0, but a cost is known only after a call; give an amount above 0, or model_calls=0"
        )
    agent = {MODEL_CALLS: model_calls, TOOL_CALLS: tool_calls, TOKENS: tokens, COST: cost}
    return Limits(
        {**{meter: limit for meter, limit in agent.items() if limit is not None}, **(meters or {})},
        iterations=iterations,
        seconds=seconds,
        fan_out=fan_out,
        restarts=restarts,
        depth=depth,
        nested_runs=nested_runs,
    )


def reported_tokens(spent: Spent) -> int:
    """Return the prompt and completion tokens that providers have reported."""
    return int(spent[PROMPT_TOKENS] + spent[COMPLETION_TOKENS])


def silent_calls(spent: Spent) -> int:
    """Return the model calls that have not reported any tokens (yet): the limit counts one for each."""
    return int(spent[TOKENS]) - reported_tokens(spent)


# Each call takes at least one token, because a provider may report none.
_MODEL_CALL: Mapping[Meter, int] = {MODEL_CALLS: 1, TOKENS: 1}


@dataclass(frozen=True, slots=True)
class ModelEffect(Effect[R_co]):
    """An effect that asks a model to continue a conversation or a text: `CallModel`, `AttemptModel`, or one of yours.

    Subclass it for an effect that asks another model than the agent's; your handler answers it.
    """

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    measures: ClassVar[tuple[Meter, ...]] = (TOKENS, PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS, COST)
    request: ModelRequest

    def __post_init__(self) -> None:
        # Users without a type checker pass the prompt, or messages.
        if type(self.request) is not ChatRequest and not isinstance(self.request, (ChatRequest, CompletionRequest)):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = format_value(self.request)
            name = type(self).__name__
            raise InputError(f"{name} has request={given}; write {name}(ChatRequest([UserMessage('...')]))")

    # Any: a covariant class cannot annotate the reply, a `ModelReply` or a `ModelFailure`.
    def measure(self, reply: Any) -> tuple[float | None, ...]:
        """Return the tokens that the provider counted, and the cost that a `priced` model reports.

        A failure reports no tokens and no cost: the limit on tokens counts one token for it, as for a call without a
        reply. Raises `InvalidReplyError` for token counts that are not whole numbers, a cost that is not finite, and
        negative values.
        """
        if type(reply) is not ModelReply and isinstance(reply, ModelFailure):
            return 0, 0, 0, None, 0
        # A user's handler may answer without naming a model.
        usage = require_reply(reply, f"behind {type(self).__name__}").usage
        # Most providers store no prompts, so the meter exists only where tokens were cached.
        cached = usage.cached_tokens or None
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        return prompt + completion, prompt, completion, cached, reply.cost


@fill_slots
@dataclass(frozen=True, slots=True)
class CallModel(ModelEffect[ModelReply]):
    """Ask the model to continue a conversation or a text. If it fails, its `ModelError` ends the run; see `attempt`."""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """The `ModelError` with which an attempted model call failed, as data.

    `error` is the qualified name of the exception's class, `text` its message, and `status` the HTTP status, if there
    was one.
    """

    error: str
    text: str
    status: int | None = None

    @classmethod
    def of(cls, error: ModelError) -> ModelFailure:
        """Return the error as data."""
        return cls(qualified_name(type(error)), str(error), error.status)


# The reply to a model call that is attempted.
Attempted: TypeAlias = ModelReply | ModelFailure


@dataclass(frozen=True, slots=True)
class AttemptModel(ModelEffect[Attempted]):
    """Ask the model as `CallModel` does; if it fails, the reply is a `ModelFailure`. `attempt` asks for it."""


def attempt(effect: CallModel) -> Generator[AttemptModel, Any, Attempted]:
    """Ask for a model call that may fail: `reply = yield from attempt(CallModel(request))`.

    The reply is a `ModelReply`, or a `ModelFailure` where `ask` would end the run with a `ModelError`. The node is
    annotated `Asks[AttemptModel, ...]`. A failed call is charged like any other. A missing API key and an exception
    that is not a `ModelError` still end the run. Raises `InputError` for another effect than a `CallModel`.
    """
    # Users without a type checker pass the effect of a callable agent.
    if not isinstance(effect, CallModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"attempt takes a CallModel, not {format_value(effect)}; write attempt(CallModel(request))")
    return ask(AttemptModel(effect.request))


@final
@dataclass(frozen=True, slots=True)
class Unreadable:
    """The `ParseError` that a callable agent raised, as data."""

    text: str
    observation: str | None = None
    llm_output: str = ""
    prose: bool = False


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class Decided(CompactReply):
    """The decision of a callable agent, or the error if it could not parse a reply."""

    decision: AgentFinish | tuple[AgentAction, ...] | Unreadable

    def compact(self) -> object:
        """Return a single action, which the run's steps keep, too."""
        match self.decision:
            case (action,):
                return action
            case _:
                return self

    @classmethod
    def restore(cls, part: AgentAction) -> Decided:
        """Return the decision for this action."""
        return cls((part,))


@fill_slots
@dataclass(frozen=True, slots=True)
class CallAgent(Effect[Decided]):
    """Ask a callable agent for its next decision; it counts as a model call."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    run: Run


@fill_slots
@dataclass(frozen=True, slots=True)
class ToolResult(CompactReply):
    """The outcome of a tool call: the observation, and its status (see `AgentStep.status`).

    With `return_direct` the observation is the run's answer. The model sees an `excerpt` of the
    observation as its `text`. `error` is the qualified name of the exception's class if the
    call failed or timed out, and `traceback` says where the tool raised it.
    """

    observation: Observation = field(metadata=AS_TEXT)
    status: StepStatus = "ok"
    return_direct: bool = False
    excerpt: Excerpt = WHOLE
    error: str | None = None
    traceback: str | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The observation as the model sees it."""
        observation, excerpt = self.observation, self.excerpt
        return format_observation(observation) if excerpt is WHOLE else excerpt.of(observation)

    def compact(self) -> object:
        """Return the observation, if it is all that there is: a subclass may have more."""
        alone = (
            self.status == "ok"
            and self.traceback is self.error is None
            and self.excerpt is WHOLE
            and not self.return_direct
            and type(self) is ToolResult
            # A tool may return a result as its observation, which would be restored as the result itself.
            and type(self.observation) is not ToolResult
        )
        return self.observation if alone else self

    @classmethod
    def restore(cls, part: Observation) -> ToolResult:
        """Return the result with this observation."""
        return cls(part)


@fill_slots
@dataclass(frozen=True, slots=True)
class CallTool(Effect[ToolResult]):
    """Call the tool `name`, which may be unknown; `run` is the run so far, for tools that take it.

    `call_id` is the id that the model's provider gave the call, if it is a native tool call.
    """

    charges: ClassVar[Mapping[Meter, int]] = {TOOL_CALLS: 1}
    in_doubt: ClassVar[InDoubt] = "tell"
    name: str
    # A string for a tool of one argument, or the arguments by name.
    tool_input: str | Mapping[str, Any]
    run: Run | None = field(default=None, compare=False, repr=False)
    call_id: str | None = field(default=None, compare=False, repr=False)

    @property
    def provider_id(self) -> str | None:
        """The `call_id`."""
        return self.call_id

    def cut(self, exhausted: Exhausted) -> ToolResult:
        """Return an observation that reports the cut; the other calls of a batch keep their results."""
        return ToolResult(f"{self.name} was cut off: {exhausted}.", "cut")

    def __str__(self) -> str:
        """Return the call as a person reads it: `send(text="hi")`."""
        given = self.tool_input
        if not isinstance(given, str):
            given = ", ".join(
                f"{name}={json.dumps(one, ensure_ascii=False, default=str)}" for name, one in given.items()
            )
        return f"{self.name}({given})"

    def interrupted(self) -> ToolResult:
        """Return an observation that says so; the model decides what to do about it."""
        fact = f"{self.name} was interrupted, and it is not known whether it was carried out."
        return ToolResult(f"{fact} Find out before you call it again.", "error")


@dataclass(frozen=True, slots=True)
class GraphResult:
    """The result of the run of another executor: its answer, or the text of a stopped response or of an exception.

    `reason` is that of `RunResult`, or `failed`; then `error` is the qualified name of the exception's class.
    """

    output: Observation = field(metadata=AS_TEXT)
    reason: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunGraph(Effect[GraphResult]):
    """Run another executor on these inputs, as a run nested in the call; several in one batch run at once.

    `map_agents` makes a subclass for an executor. If its run raises, the reply says so, and the other runs of the batch
    go on.
    """

    charges: ClassVar[Mapping[Meter, int]] = {AGENT_TASKS: 1}
    inputs: Mapping[str, Any]

    def cut(self, exhausted: Exhausted) -> GraphResult:
        """Return a result that reports the cut; the other runs of a batch keep their results."""
        return GraphResult(f"The run was cut off: {exhausted}.", exhausted.limit)

    def __reduce__(self) -> tuple[type[RunGraph], tuple[Mapping[str, Any]]]:
        # The class of an executor is made in this process.
        return RunGraph, (self.inputs,)


@dataclass(frozen=True, slots=True)
class AskHuman(Effect[str]):
    """Ask a person, who answers with text, of which the `choices` are all, if there are any.

    In a stored run that waits for the answer, it is the `default` after `expires_in` seconds. Raises `InputError` for
    one of these without the other, and for a default that is no choice.
    """

    question: str
    choices: tuple[str, ...] = field(default=(), repr=False)
    expires_in: float | None = field(default=None, repr=False)
    default: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        validate("AskHuman", ("expires_in", self.expires_in, optional(SECONDS)))
        if (self.expires_in is None) is not (self.default is None):
            raise InputError("AskHuman takes expires_in and default together: the answer after so many seconds")
        if self.choices and self.default not in (None, *self.choices):
            raise InputError(f"AskHuman has default={self.default!r}; give one of its choices, {self.choices!r}")

    @property
    def expiry(self) -> tuple[float, str] | None:
        """The seconds and the default."""
        return None if self.expires_in is None or self.default is None else (self.expires_in, self.default)

    @property
    def reply_choices(self) -> tuple[str, ...]:
        """The `choices`."""
        return self.choices

    def __str__(self) -> str:
        return self.question


@dataclass(frozen=True, slots=True)
class WaitForEvent(Effect[Value]):
    """Wait until something happens outside: `store.reply(run_id, key, value)` says so, with any JSON value.

    After `expires_in` seconds, the reply is the `default`. It is for stored runs, where nobody answers it at once.
    """

    name: str
    expires_in: float | None = None
    default: Value = None

    def __post_init__(self) -> None:
        validate("WaitForEvent", ("expires_in", self.expires_in, optional(SECONDS)))

    def __str__(self) -> str:
        return f"Wait for {self.name}"

    @property
    def expiry(self) -> tuple[float, Value] | None:
        """The seconds and the default."""
        return None if self.expires_in is None else (self.expires_in, self.default)


@dataclass(frozen=True, slots=True)
class Sleep(Effect[None]):
    """Wait for so many seconds, without a process: it is for stored runs, which go on after that when they are run."""

    seconds: float

    def __post_init__(self) -> None:
        validate("Sleep", ("seconds", self.seconds, SECONDS))

    def __str__(self) -> str:
        return f"Wait {self.seconds:g} seconds"

    @property
    def expiry(self) -> tuple[float, None]:
        """The seconds."""
        return self.seconds, None


@dataclass(frozen=True, slots=True)
class LoadMemory(Effect[Mapping[str, Value]]):
    """Load the inputs, by name, that a memory adds to the `inputs` that the caller passed."""

    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SaveMemory(Effect[None]):
    """Save a finished run: its `inputs`, including those that were loaded, and its `outputs` by name."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
