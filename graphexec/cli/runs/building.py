"""The executor that a command runs: one of the user's own, or one that the options of the command line select."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from graphexec.cli.check_targets import OWN_LIMITS, meters_of, parse_limits
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.executors import load_executor
from graphexec.cli.runs.options import (
    HISTORY_KEY,
    AgentName,
    ChosenModel,
    ReplyOptions,
    fetch_weights,
    load_tools,
    make_agent,
    make_memory,
    make_model,
)
from graphexec.cli.runs.parameters import add_examples, parse_examples
from graphexec.create import choose_kind
from graphexec.errors import did_you_mean
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.meters import Exhausted, Limits
from graphexec.verify import UnprovedError

# Tokens. Every current model writes replies of this length; one that is asked for more than its own limit refuses.
_SAFE_REPLY = 4_096

# The limits with an option of their own.
LIMIT_OPTIONS = ("iterations", "seconds", "model_calls", "tool_calls", "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of the command line that select an executor and its limits; one that was left out is `None`.

    `target` is an executor of the user. The other fields have the names of their options.
    """

    target: str | None = None
    model: str | None = None
    base_url: str | None = None
    gguf: Path | None = None
    retries: int | None = None
    agent: AgentName | None = None
    system: str | None = None
    temperature: float | None = None
    timeout: float | None = None
    max_reply_tokens: int | None = None
    example: Sequence[str] | None = None
    trim: int | None = None
    tools: Sequence[str] | None = None
    cache: Path | None = None
    memory: Path | None = None
    early_stopping: Literal["force", "generate"] | None = None
    max_iterations: int | None = None
    max_seconds: float | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    limit: Sequence[str] | None = None


# What a target has of its own, by the name of the option.
_OF_TARGETS = {
    **dict.fromkeys(
        ("model", "base_url", "gguf", "retries", "temperature", "timeout", "max_reply_tokens", "cache"), "model"
    ),
    **dict.fromkeys(("agent", "system", "example"), "agent"),
    "tools": "tools",
    "memory": "memory, or none",
    "trim": "trimming",
    "early_stopping": "way to stop",
}


@dataclass(frozen=True, slots=True)
class NamedExecutor:
    """An executor, with the names of its model and of its kind of agent for people.

    `chosen` is the model of the options, and `target` the name of an executor of the user.
    """

    executor: AgentExecutor
    model: str
    agent: str
    chosen: ChosenModel | None = None
    target: str | None = None

    def fetch_weights(self) -> None:
        """Download the weights that the model needs, with a progress bar. Raises `WeightsError`."""
        if self.chosen is not None:
            fetch_weights(self.chosen)


def build_executor(options: AgentOptions, recorded: Mapping[str, float | None] | None = None) -> NamedExecutor:
    """Return the executor of these options; nothing is downloaded, and no server is called.

    The limits of a `recorded` run, by name, hold unless the options set others.

    Raises `UsageError` for options that do not fit together, and `InputError`, `LimitsError` or `ToolDefinitionError`
    for invalid values.
    """
    limits, target = _chosen_limits(options), options.target
    named = _make_executor(options) if target is None else _own_executor(options, target)
    if recorded:
        limits = {**_different_limits(named.executor, recorded), **limits}
    return dataclasses.replace(named, executor=apply_limits(named.executor, limits)) if limits else named


def _own_executor(options: AgentOptions, target: str) -> NamedExecutor:
    given = [name for name in _OF_TARGETS if getattr(options, name) not in (None, [])]
    if given:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        verb, them = ("does", "it") if len(given) == 1 else ("do", "them")
        own = " and ".join(dict.fromkeys(_OF_TARGETS[name] for name in given))
        if given == ["memory"]:
            raise UsageError(
                f"--memory does not apply to a run of {target}; talk with it in graphexec chat {target} --memory FILE, "
                f"or give it a memory in {target.rpartition(':')[0] or target}"
            )
        raise UsageError(
            f"{flags} {verb} not apply to {target}, which has its own {own}; leave {them} out, or change "
            f"{target.rpartition(':')[0] or target}"
        )
    executor = load_executor(target)
    model = getattr(executor.agent.model, "name", None)
    return NamedExecutor(
        executor, model if isinstance(model, str) and model else target, executor.agent.kind, target=target
    )


def _make_executor(options: AgentOptions) -> NamedExecutor:
    tools = load_tools(options.tools or ())
    chosen = make_model(
        options.model,
        options.base_url,
        options.gguf,
        retries=options.retries,
        cache=options.cache,
        settings=_reply_options(options),
    )
    name: AgentName = options.agent or choose_kind(chosen.model, tools, chosen.full_name).kind
    examples = parse_examples(options.example, tools) if options.example else None
    if examples is not None and name != "structured":
        tools = add_examples(tools, examples)
    agent = make_agent(name, chosen.model, tools, system=options.system, examples=examples)
    executor = AgentExecutor(
        agent=agent,
        tools=tools,
        handle_parsing_errors=True,
        early_stopping_method=options.early_stopping or "force",
        trim_intermediate_steps=options.trim or -1,
        memory=make_memory(agent, options.memory) if options.memory or HISTORY_KEY in agent.input_keys else None,
    )
    return NamedExecutor(executor, chosen.name, name, chosen)


def _reply_options(options: AgentOptions) -> ReplyOptions:
    settings: ReplyOptions = {}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.timeout is not None:
        settings["timeout"] = options.timeout
    if options.max_reply_tokens is not None:
        settings["max_tokens"] = options.max_reply_tokens
    elif options.max_tokens is not None and 1 <= options.max_tokens <= _SAFE_REPLY:
        # A longer reply would exceed the limit of the run alone.
        settings["max_tokens"] = options.max_tokens
    return settings


def _chosen_limits(options: AgentOptions) -> Mapping[str, float | None]:
    """Return the limits of the options by name. Raises `UsageError` for one that is set twice."""
    limits: dict[str, float | None] = {
        limit: value for limit in LIMIT_OPTIONS if (value := getattr(options, f"max_{limit}")) is not None
    }
    for name, value in (parse_limits(None, options.limit or ()) or {}).items():
        if name in limits:
            raise UsageError(f"the limit {name} is set twice; set it once")
        limits[name] = value
    return limits


def suggest_amount(reached: Exhausted) -> str:
    """Return what to allow a run instead of the limit that stopped it: twice as much."""
    # Tokens are counted after a call, so more than the limit may be spent. Seconds are not whole.
    more = 2 * (reached.value if reached.limit == "seconds" else max(reached.value, reached.reached))
    return f"{more or 1:.12g}"


def keep_limits(executor: AgentExecutor, recorded: Mapping[str, float | None]) -> AgentExecutor:
    """Return the executor with the limits of a recorded run, by name."""
    different = _different_limits(executor, recorded)
    return apply_limits(executor, different) if different else executor


def _different_limits(executor: AgentExecutor, recorded: Mapping[str, float | None]) -> Mapping[str, float | None]:
    """Return those of the recorded limits that the executor has with another value."""
    before = executor.limits
    now = {**{name: getattr(before, name) for name in OWN_LIMITS}, **before.budgets}
    now |= {name: before[name] for name in meters_of(executor.graph)}
    return {name: limit for name, limit in recorded.items() if name in now and now[name] != limit}


def apply_limits(executor: AgentExecutor, chosen: Mapping[str, float | None]) -> AgentExecutor:
    """Return the executor with these limits in place of its own, by name.

    Raises `UsageError` for an unknown name and for limits within which a run may not end, and `LimitsError` for an
    invalid value.
    """
    meters = meters_of(executor.graph)
    before = executor.limits
    known = dict.fromkeys((*OWN_LIMITS, *meters, *before.budgets))
    for name in chosen:
        if name not in known:
            near = did_you_mean(name, known, f"the limits are {', '.join(known)}")
            raise UsageError(f"--limit {name} is not a limit of this executor; {near}")
    # Any: the values come from the command line, so no type checker can know them; Limits validates them.
    own: dict[str, Any] = {name: chosen.get(name, getattr(before, name)) for name in OWN_LIMITS}
    budgets: dict[str, Any] = {name: chosen.get(name, value) for name, value in before.budgets.items()}
    limits = Limits({meter: chosen.get(name, before[name]) for name, meter in meters.items()}, budgets=budgets, **own)
    try:
        return executor.with_limits(limits)
    except UnprovedError as error:
        named = " ".join(f"--limit {name}={'none' if value is None else value}" for name, value in chosen.items())
        raise UsageError(f"with {named}, a run may not end; set a limit, such as --max-iterations 15") from error
