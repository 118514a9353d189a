"""Descriptions of a run for the requests that pieces make."""

from __future__ import annotations

from collections.abc import Iterable

from graphexec.actions import AgentStep, Run
from graphexec.agents.prompt import format_observation
from graphexec.effects import Attempted, ModelFailure
from graphexec.messages import separate_reasoning

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
