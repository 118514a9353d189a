"""The effects of an agent: ask a model, call a tool, ask a person, load and save a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphexec.actions import AgentAction, AgentFinish, Observation, Run, StepStatus
from graphexec.errors import InputError, LimitsError, format_value
from graphexec.kernel.effects import Effect
from graphexec.kernel.meters import DEPTH, FAN_OUT, NESTED_RUNS, Exhausted, Limits, Meter, Spent
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, ModelRequest, check_reply

MODEL_CALLS = Meter("model_calls")
TOOL_CALLS = Meter("tool_calls")
# As the limit counts them: each call takes at least one token, even if its provider reports none.
TOKENS = Meter("tokens")
PROMPT_TOKENS = Meter("prompt_tokens")
COMPLETION_TOKENS = Meter("completion_tokens")
# Those of the prompts that providers had stored; they are prompt tokens, too.
CACHED_TOKENS = Meter("cached_tokens")
COST = Meter("cost", whole=False, unit="an amount of money", remedy="wrap the model: priced(model, Price(...))")

_LIMITED = frozenset(meter.name for meter in (MODEL_CALLS, TOOL_CALLS, TOKENS, COST))


# Each parameter is a limit.
def agent_limits(  # noqa: PLR0913
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
    budgets: Mapping[str, int | None] | None = None,
) -> Limits:
    """Return the limits of an agent's run: those of every machine, and those on its effects.

    `iterations` counts plans; `model_calls` and `tool_calls` count attempts, charged before the call. `tokens` counts
    prompt and completion tokens, at least one per call; they are known after a call, so the last one can exceed the
    limit. `cost` is the money spent on `priced` models, compared before each call. The cost of a callable agent or a
    tool is known only if it runs a machine or an executor, which is then a nested run of this one. A call may cost
    nothing, so `cost` cannot prove termination. The others are as in `Limits`.

    Raises `LimitsError` as `Limits` does, and for a cost of 0.
    """
    for name in budgets or ():
        if name in _LIMITED:
            raise LimitsError(f"{name} is a limit of its own; write agent_limits({name}=...)")
    if cost == 0 and not isinstance(cost, bool):
        raise LimitsError(
            "the limit cost is 0, but a cost is known only after a call; give an amount above 0, or model_calls=0"
        )
    return Limits(
        {MODEL_CALLS: model_calls, TOOL_CALLS: tool_calls, TOKENS: tokens, COST: cost},
        iterations=iterations,
        seconds=seconds,
        fan_out=fan_out,
        restarts=restarts,
        depth=depth,
        nested_runs=nested_runs,
        budgets=budgets,
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
class CallModel(Effect[ModelReply]):
    """Ask the model to continue a conversation or a text."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    measures: ClassVar[tuple[Meter, ...]] = (TOKENS, PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS, COST)
    request: ModelRequest

    def __post_init__(self) -> None:
        # Users without a type checker pass the prompt, or messages.
        if not isinstance(self.request, (ChatRequest, CompletionRequest)):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = format_value(self.request)
            raise InputError(f"CallModel has request={given}; write CallModel(ChatRequest([UserMessage('...')]))")

    def measure(self, reply: ModelReply) -> tuple[float | None, ...]:
        """Return the tokens that the provider counted, and the cost that a `priced` model reports.

        Raises `InvalidReplyError` for token counts that are not whole numbers, a cost that is not finite, and negative
        values.
        """
        # A user's handler may answer without naming a model.
        usage = check_reply(reply, "behind CallModel").usage
        # Most providers store no prompts, so the meter exists only where tokens were cached.
        cached = usage.cached_tokens or None
        return usage.total_tokens, usage.prompt_tokens, usage.completion_tokens, cached, reply.cost


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The `ParseError` that a callable agent raised, as data."""

    text: str
    observation: str | None = None
    llm_output: str = ""
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision of a callable agent, or the error if it could not parse a reply."""

    decision: AgentFinish | tuple[AgentAction, ...] | Unreadable


@dataclass(frozen=True, slots=True)
class CallAgent(Effect[Decided]):
    """Ask a callable agent for its next decision; it counts as a model call."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    run: Run


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a tool call: the observation, and its status (see `AgentStep.status`).

    With `return_direct` the observation is the run's answer. `model_text` is a shorter observation for the model, if
    one is needed. `error` is the qualified name of the exception's class if the call failed or timed out.
    """

    observation: Observation
    status: StepStatus = "ok"
    return_direct: bool = False
    model_text: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CallTool(Effect[ToolResult]):
    """Call the tool `name`, which may be unknown; `run` is the run so far, for tools that take it.

    `call_id` is the id that the model's provider gave the call, if it is a native tool call.
    """

    charges: ClassVar[Mapping[Meter, int]] = {TOOL_CALLS: 1}
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


@dataclass(frozen=True, slots=True)
class AskHuman(Effect[str]):
    """Ask a person, who answers with text."""

    question: str


@dataclass(frozen=True, slots=True)
class LoadMemory(Effect[Mapping[str, Any]]):
    """Load the inputs, by name, that a memory adds to the `inputs` that the caller passed."""

    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SaveMemory(Effect[None]):
    """Save a finished run: its `inputs`, including those that were loaded, and its `outputs` by name."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
