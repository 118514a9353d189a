"""The effects of an agent: asking a model, calling a tool, asking a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphexec.actions import AgentAction, AgentFinish, Run, StepStatus
from graphexec.kernel.effects import Effect
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.messages import ModelReply, ModelRequest
from graphexec.meters import COMPLETION_TOKENS, COST, MODEL_CALLS, PROMPT_TOKENS, TOKENS, TOOL_CALLS

# A call takes one token at least: a provider may report none.
_MODEL_CALL: Mapping[Meter, int] = {MODEL_CALLS: 1, TOKENS: 1}


@dataclass(frozen=True, slots=True)
class CallModel(Effect[ModelReply]):
    """Ask the model to continue a conversation or a text."""

    charges: ClassVar[Mapping[Meter, int]] = _MODEL_CALL
    measures: ClassVar[tuple[Meter, ...]] = (TOKENS, PROMPT_TOKENS, COMPLETION_TOKENS, COST)
    request: ModelRequest

    def measure(self, reply: ModelReply) -> tuple[float | None, ...]:
        """Return the tokens that the provider counted, and the money that `priced` models say that it cost."""
        usage = reply.usage
        # Fewer than none are none: nothing gives tokens back.
        prompt = usage.prompt_tokens if usage.prompt_tokens > 0 else 0
        completion = usage.completion_tokens if usage.completion_tokens > 0 else 0
        return prompt + completion, prompt, completion, reply.cost


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
    """What came of a tool call: the observation, and how it went (see `AgentStep.status`).

    `return_direct` says that the observation is to be the run's answer: a successful call of a tool that is so. `told`
    is what the model is told instead of the observation, where that is too long for it.
    """

    # Whatever the tool returned.
    observation: Any
    status: StepStatus = "ok"
    return_direct: bool = False
    told: str | None = None


@dataclass(frozen=True, slots=True)
class CallTool(Effect[ToolResult]):
    """Call the tool `name`. An unknown name is answered, and charged, like any other.

    `run` is the run so far, for a tool that asks for it; it does not say which call this is.
    """

    charges: ClassVar[Mapping[Meter, int]] = {TOOL_CALLS: 1}
    name: str
    # Text for a tool of one argument, or the arguments by name.
    tool_input: str | Mapping[str, Any]
    run: Run | None = field(default=None, compare=False, repr=False)

    def cut(self, exhausted: Exhausted) -> ToolResult:
        """Say in the observation that the deadline cut the call: its siblings keep their results."""
        return ToolResult(f"{self.name} was cut off: {exhausted}.", "cut")


@dataclass(frozen=True, slots=True)
class AskHuman(Effect[str]):
    """Ask a person, who answers with text."""

    question: str
