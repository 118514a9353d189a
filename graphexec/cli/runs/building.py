"""The executor that a command runs: one of the user's own, or one that the options of the command line select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphexec.cli.runs.options import (
    AgentName,
    ChosenModel,
    fetch_weights,
    load_tools,
    make_agent,
    make_memory,
    make_model,
)
from graphexec.executor.creation import choose_kind
from graphexec.executor.executor import AgentExecutor


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of the command line that select an executor and its limits; one that was left out is `None`."""

    model: str | None = None
    base_url: str | None = None
    gguf: Path | None = None
    retries: int | None = None
    agent: AgentName | None = None
    trim: int | None = None
    tools: Sequence[str] | None = None
    cache: Path | None = None
    memory: Path | None = None
    max_iterations: int | None = None
    max_seconds: float | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    early_stopping: Literal["force", "generate"] | None = None


@dataclass(frozen=True, slots=True)
class NamedExecutor:
    """An executor, with the names of its model and of its kind of agent for people."""

    executor: AgentExecutor
    model: str
    agent: str
    chosen: ChosenModel | None = None

    def fetch_weights(self) -> None:
        """Download the weights that the model needs, with a progress bar. Raises `WeightsError`."""
        if self.chosen is not None:
            fetch_weights(self.chosen)


def build_executor(options: AgentOptions) -> NamedExecutor:
    """Return the executor of these options; nothing is downloaded, and no server is called.

    Raises `UsageError` for options that do not fit together, and `InputError`, `LimitsError` or `ToolDefinitionError`
    for invalid values.
    """
    tools = load_tools(options.tools or ())
    chosen = make_model(options.model, options.base_url, options.gguf, retries=options.retries, cache=options.cache)
    name: AgentName = options.agent or choose_kind(chosen.model, tools, chosen.named).kind
    agent = make_agent(name, chosen.model, tools)
    executor = AgentExecutor(
        agent=agent,
        tools=tools,
        max_iterations=15 if options.max_iterations is None else options.max_iterations,
        max_execution_time=options.max_seconds,
        max_model_calls=options.max_model_calls,
        max_tool_calls=options.max_tool_calls,
        max_tokens=options.max_tokens,
        handle_parsing_errors=True,
        early_stopping_method=options.early_stopping or "force",
        trim_intermediate_steps=options.trim or -1,
        memory=make_memory(name, agent, options.memory),
    )
    return NamedExecutor(executor, chosen.name, name, chosen)
