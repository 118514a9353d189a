"""The requests that pieces make: descriptions of a run, and the model that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphexec.actions import AgentStep, Run
from graphexec.agents.prompt import format_observation
from graphexec.effects import Attempted, AttemptModel, ModelFailure
from graphexec.executor.handlers import make_attempt_handler, make_model_handler
from graphexec.kernel.effects import Effect
from graphexec.messages import Model, separate_reasoning
from graphexec.runtime.handlers import HandlerLike

# Characters of a call or an observation in a request about many steps.
_LONGEST = 2_000


def describe_task(run: Run) -> str:
    """Return the text of the run's inputs: the input of this name alone, or all strings."""
    if isinstance(task := run.inputs.get("input"), str):
        return task
    return "\n".join(f"{name}: {value}" for name, value in run.inputs.items() if isinstance(value, str))


def describe_steps(steps: Iterable[AgentStep]) -> str:
    """Return a line for each call, with its observation; what is long is cut."""
    return "\n".join(_describe_step(step) for step in steps)


def _describe_step(step: AgentStep) -> str:
    given = _shorten(format_observation(step.action.tool_input))
    return f"{step.action.tool}({given}) -> {_shorten(step.text)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def read_text(reply: Attempted) -> str:
    """Return the text of a reply without reasoning and blanks around it; an empty string for a failed call."""
    return "" if isinstance(reply, ModelFailure) else separate_reasoning(reply).content.strip()


def choose_model(
    model: Model | None, kind: type[AttemptModel]
) -> tuple[type[AttemptModel], Mapping[type[Effect[Any]], HandlerLike]]:
    """Return the effect that asks a model and its handlers: of the class `kind`, or the agent's own without a model."""
    return (AttemptModel, {}) if model is None else (kind, {kind: make_attempt_handler(make_model_handler(model))})
