"""The executor that a command runs: one of the user's own, or one that the options of the command line select."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphexec.cli.check_targets import change_limits, parse_limits
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.options import load_tools, make_agent, make_memory, make_model
from graphexec.cli.runs.parameters import AgentOptions
from graphexec.cli.runs.servers import NO_SERVERS, Servers
from graphexec.cli.targets import format_place, is_module_reference, load_object, machines_at
from graphexec.create import choose_kind
from graphexec.errors import an
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted
from graphexec.verify import UnprovedError

if TYPE_CHECKING:
    from graphexec.models import ModelOptions

# The options that an executor of the user takes, too; all others are settings that it has of its own.
_OF_EVERY_EXECUTOR = ("target", "max_iterations", "limit", "mcp", "yes")


@dataclass(frozen=True, slots=True)
class NamedExecutor:
    """An executor, with the names of its model and of its kind of agent for people.

    `weights` are the named weights that its model needs, if any, and `target` is the name of an executor of the user.
    """

    executor: AgentExecutor
    model: str
    agent: str
    weights: str | None = None
    target: str | None = None

    def fetch_weights(self) -> None:
        """Download the weights that the model needs, with a progress bar. Raises `WeightsError`."""
        if self.weights is not None:
            from graphexec.models.local.weights import pull

            pull(self.weights)


def build_executor(options: AgentOptions, servers: Servers = NO_SERVERS) -> NamedExecutor:
    """Return the executor of these options; nothing is downloaded, and no server but those of MCP is called.

    Raises `UsageError` for options that do not fit together, and `InputError`, `LimitsError` or `ToolDefinitionError`
    for invalid values.
    """
    limits, target = parse_limits(options.max_iterations, options.limit or ()), options.target
    named = _make_executor(options, servers) if target is None else _own_executor(options, target)
    if servers.by_name and target is not None:
        named = dataclasses.replace(named, executor=servers.add_to(named.executor))
    return dataclasses.replace(named, executor=apply_limits(named.executor, limits)) if limits else named


def _own_executor(options: AgentOptions, target: str) -> NamedExecutor:
    names = [one.name for one in dataclasses.fields(options) if one.name not in _OF_EVERY_EXECUTOR]
    if given := [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) not in (None, [])]:
        place = target.rpartition(":")[0] or target
        raise UsageError(f"{target} has settings of its own; leave out {' and '.join(given)}, or change {place}")
    executor = load_executor(target)
    named = getattr(executor.agent.model, "name", None)
    model = named if isinstance(named, str) and named else target
    return NamedExecutor(executor, model, executor.agent.kind, target=target)


def load_executor(reference: str) -> AgentExecutor:
    """Return the named executor, or that of a function without parameters, or the only one of a module or a file.

    Raises `UsageError` for anything else, and for a function that raises.
    """
    if is_module_reference(reference):
        machines = machines_at(reference)
        executors = [one for one in machines if isinstance(one.value, AgentExecutor)]
        if len(executors) > 1:
            names = " or ".join(one.name for one in executors)
            raise UsageError(f"{reference} has {len(executors)} executors; name {names}")
        only = (executors or machines)[0]
        reference, found = only.name, only.value
    else:
        _, found = load_object(reference, "my_agent.py:executor")
        if inspect.isfunction(found) or inspect.ismethod(found) or inspect.isbuiltin(found):
            reference, found = f"{reference}()", _call_factory(reference, found)
    if isinstance(found, AgentExecutor):
        # Of any output type, which an object that is loaded does not tell.
        return found  # pyright: ignore[reportUnknownVariableType]
    raise _refuse(reference, found)


# Any: a function of the user.
def _call_factory(reference: str, factory: Callable[..., Any]) -> object:
    remedy = "name an executor, or a function (def) without parameters that returns one"
    if inspect.iscoroutinefunction(factory):
        raise UsageError(f"{reference} is a coroutine function; {remedy}")
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{reference} has parameters ({error}); {remedy}") from error
    try:
        # Its output must not mix with the answer.
        with redirect_stdout(sys.stderr):
            return factory()
    except KeyboardInterrupt:
        raise
    # A user's function may raise anything, even SystemExit.
    except BaseException as error:
        raise UsageError(f"{reference}() raised {type(error).__name__}: {error}{format_place(error)}") from error


def _refuse(reference: str, found: object) -> UsageError:
    """Return the error for an object that is not an executor, with what to do."""
    file = reference.rpartition(":")[0]
    if isinstance(found, Graph):
        bare = reference.removesuffix("()")
        return UsageError(
            f"{reference} is a graph, which has no agent to answer; name an executor, such as {file}:executor, or look "
            f"at the graph with graphexec check {bare} or graphexec draw {bare}"
        )
    kind = f"the class {found.__name__}" if isinstance(found, type) else an(type(found).__name__)
    return UsageError(f"{reference} is {kind}, not an executor; name an AgentExecutor in {file}")


def _make_executor(options: AgentOptions, servers: Servers) -> NamedExecutor:
    own = load_tools(options.tools or ()) if options.tools or not servers.by_name else ()
    chosen = make_model(options.model, options.base_url, _model_options(options))
    added = servers.tools(own)
    if chosen.local:
        # A small model would make a call again and again, if it may.
        added = [dataclasses.replace(one, repeatable=False) for one in added]
    tools = (*own, *added)
    kind = options.agent or choose_kind(chosen.model, tools, chosen.full_name)
    agent = make_agent(kind, chosen.model, tools, options.system)
    executor = AgentExecutor(
        agent=agent,
        tools=tools,
        handle_parsing_errors=True,
        early_stopping_method=options.early_stopping or "force",
        memory=make_memory(agent, options.memory) if options.memory else None,
    )
    executor = executor.plug(*servers.pieces(executor))
    return NamedExecutor(executor, chosen.name, kind, chosen.weights)


def _model_options(options: AgentOptions) -> ModelOptions:
    settings: ModelOptions = {}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.timeout is not None:
        settings["timeout"] = options.timeout
    if options.max_reply_tokens is not None:
        settings["max_tokens"] = options.max_reply_tokens
    if options.retries is not None:
        settings["max_retries"] = options.retries
    return settings


def suggest_limit(reached: Exhausted) -> str:
    """Return what to allow a run instead of the limit that stopped it, twice as much: `iterations=30`."""
    # Tokens are counted after a call, so more than the limit may be spent. Seconds are not whole.
    more = 2 * (reached.value if reached.limit == "seconds" else max(reached.value, reached.reached))
    return f"{reached.limit}={more or 1:.12g}"


def apply_limits(executor: AgentExecutor, chosen: Mapping[str, float | None]) -> AgentExecutor:
    """Return the executor with these limits in place of its own, by name.

    Raises `UsageError` for limits within which a run may not end, and `LimitsError` for an unknown name and for an
    invalid value.
    """
    try:
        return executor.with_limits(change_limits(executor.graph, executor.limits, chosen))
    except UnprovedError as error:
        named = " ".join(f"--limit {name}={'none' if value is None else value}" for name, value in chosen.items())
        raise UsageError(f"with {named}, a run may not end; set a limit, such as --max-iterations 15") from error
