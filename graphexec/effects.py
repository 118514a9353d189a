"""The effects of an agent: asking a model, calling a tool, asking a person, loading and saving a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphexec.actions import AgentAction, AgentFinish, Run, StepStatus
from graphexec.errors import LimitsError
from graphexec.kernel.effects import Effect
from graphexec.kernel.meters import DEPTH, FAN_OUT, NESTED_RUNS, Exhausted, Limits, Meter, Spent
from graphexec.messages import ModelReply, ModelRequest, check_reply

MODEL_CALLS = Meter("model_calls")
TOOL_CALLS = Meter("tool_calls")
# As the limit counts them: a call takes one at least, whatever its provider reports.
TOKENS = Meter("tokens")
PROMPT_TOKENS = Meter("prompt_tokens")
COMPLETION_TOKENS = Meter("completion_tokens")
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
    """Return the limits of an agent's run: those of every machine, and those on what its effects take.

    `iterations` counts plans; `model_calls` and `tool_calls` count attempts, charged before the call. `tokens` counts
    prompt and completion tokens, at least one a call; they are known after a call, so the last one can exceed the
    limit. `cost` is money, compared before each call, of models that are `priced`; what a callable agent or a tool
    spends is seen only where it runs a machine or an executor, whose run is within this one. A call may cost nothing,
    so `cost` cannot prove termination. The others are as in `Limits`.

    Raises `LimitsError` as `Limits` does, and for a cost of 0.
    """
    for name in budgets or ():
        if name in _LIMITED:
            raise LimitsError(f"{name} is a limit of its own; write agent_limits({name}=...)")
    if cost == 0 and not isinstance(cost, bool):
        text = "the limit cost is 0, and what a call costs is known after it; give money above 0, or model_calls=0"
        raise LimitsError(text)
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


# A call takes one token at least: a provider may report none.
_MODEL_CALL: Mapping[Meter, int] = {MODEL_CALLS: 1, TOKENS: 1}


@dataclass(frozen=True, slots=True)
class CallModel(Effect[ModelReply]):
    """Ask the model to continue a conversation or a text."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    measures: ClassVar[tuple[Meter, ...]] = (TOKENS, PROMPT_TOKENS, COMPLETION_TOKENS, COST)
    request: ModelRequest

    def measure(self, reply: ModelReply) -> tuple[float | None, ...]:
        """Return the tokens that the provider counted, and the money that `priced` models say that it cost.

        Raises `InvalidReplyError` for counts that are not whole, a cost that is not finite, and negative ones.
        """
        # A handler of the user's own may answer without a model that is named.
        usage = check_reply(reply, "behind CallModel").usage
        return usage.total_tokens, usage.prompt_tokens, usage.completion_tokens, reply.cost


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The `ParseError` that a callable agent raised, as data."""

    text: str
    observation: str | None = None
    llm_output: str = ""
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """What a callable agent decided, or that it could not read what it was told."""

    decision: AgentFinish | tuple[AgentAction, ...] | Unreadable


@dataclass(frozen=True, slots=True)
class CallAgent(Effect[Decided]):
    """Ask a callable agent for its next decision; it counts as a model call."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    run: Run


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a tool call: the observation, and its status (see `AgentStep.status`).

    `return_direct`: the observation is the run's answer. `told` is a shorter observation for the model, where it needs
    one. `error` is the qualified name of the exception's class, of a call that failed or timed out.
    """

    # Whatever the tool returned.
    observation: Any
    status: StepStatus = "ok"
    return_direct: bool = False
    told: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CallTool(Effect[ToolResult]):
    """Call the tool `name`, which may be unknown; `run` is the run so far, for tools that ask for it.

    `call_id` is the id that a model's provider gave the call, if it is a native one.
    """

    charges: ClassVar[Mapping[Meter, int]] = {TOOL_CALLS: 1}
    name: str
    # Text for a tool of one argument, or the arguments by name.
    tool_input: str | Mapping[str, Any]
    run: Run | None = field(default=None, compare=False, repr=False)
    call_id: str | None = field(default=None, compare=False, repr=False)

    @property
    def provider_id(self) -> str | None:
        """The `call_id`."""
        return self.call_id

    def cut(self, exhausted: Exhausted) -> ToolResult:
        """Say in the observation that the deadline cut the call: its siblings keep their results."""
        return ToolResult(f"{self.name} was cut off: {exhausted}.", "cut")


@dataclass(frozen=True, slots=True)
class AskHuman(Effect[str]):
    """Ask a person, who answers with text."""

    question: str


@dataclass(frozen=True, slots=True)
class LoadMemory(Effect[Mapping[str, Any]]):
    """Load what a memory adds to the `inputs` that the caller passed: further inputs by name."""

    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SaveMemory(Effect[None]):
    """Save a run that ended: its `inputs`, with those that were loaded, and its `outputs` by name."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
