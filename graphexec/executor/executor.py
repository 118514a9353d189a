"""The class that runs an agent and its tools through the transition table, within limits, and proves that it ends."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from graphexec._arguments import DESCRIPTION, FLAG, FUNCTION, NAME, LangChainObject, optional, validate, whole
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import EXECUTOR_OPTIONS
from graphexec.agents import Agent, AgentFunction, callable_agent
from graphexec.effects import TOOL_CALLS, agent_limits
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor.inputs import answer_of
from graphexec.executor.nodes import Policies, ReturnDirect, agent_graph, require_agent_graph
from graphexec.executor.options import (
    EARLY_STOPPING,
    HANDLERS,
    MEMORY,
    PARSE_POLICY,
    RETURN_DIRECT,
    TRIM,
    EarlyStopping,
    ParsePolicy,
    Trim,
    make_feedback,
    make_selection,
)
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging.piece import Piece, Plugged, Seats, assign_seats, to_piece, to_pieces
from graphexec.executor.plugging.plug import pass_on
from graphexec.executor.result import Ending, T_co
from graphexec.executor.rules import rule_pieces
from graphexec.executor.runs import RunMethods
from graphexec.executor.setup import Setup
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.graph import Table
from graphexec.kernel.meters import DEPTH, FAN_OUT, NESTED_RUNS, Limits
from graphexec.kernel.node import Node
from graphexec.kernel.surgery import replace
from graphexec.machine import Machine, splice
from graphexec.runtime.handlers import AT_ONCE, RUNS, HandlerLike, RunContext
from graphexec.runtime.observers import OBSERVERS, AroundCall, Observer
from graphexec.tools import AnyTool, Toolset, tools_by_name
from graphexec.tools.calling import Lookup
from graphexec.tools.collecting import to_tools
from graphexec.tools.options import MAX_TOOL_INPUT, ErrorPolicy
from graphexec.tools.tool import tool

if TYPE_CHECKING:
    from pathlib import Path

    from graphexec.draw import AnyRun
    from graphexec.memory import Memory
    from graphexec.runtime.stored import RunStore
    from graphexec.verify import Verdict


# The parameter of an executor's tool that receives the `CallContext`.
_CALL = "call"


class ExecutorOptions(TypedDict, total=False):
    """The options of `AgentExecutor` but its agent and its tools; see there."""

    max_iterations: int | None
    max_execution_time: float | None
    max_model_calls: int | None
    max_tool_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    max_fan_out: int | None
    max_depth: int | None
    max_nested_runs: int | None
    max_restarts: int | None
    return_intermediate_steps: bool
    handle_parsing_errors: ParsePolicy
    early_stopping_method: EarlyStopping
    trim_intermediate_steps: Trim
    return_direct: ReturnDirect
    handle_tool_errors: ErrorPolicy
    tool_lookup: Lookup
    max_observation: int | None
    max_tool_input: int | None
    tool_concurrency: int
    memory: Memory | None
    handlers: Mapping[type[Effect[Any]], HandlerLike] | None
    observers: Sequence[Observer]
    verbose: bool
    around_call: AroundCall | None
    nodes: Sequence[Plugged]
    runs: RunStore | None
    allow_nonterminating: bool


@explain_class("AgentExecutor(agent=agent, tools=tools)", options=EXECUTOR_OPTIONS)
class AgentExecutor(RunMethods[T_co]):
    """Runs an agent with its tools until it has an answer or a limit is used up.

    `executor.graph` is the machine, with the agent's rules as pieces: draw it, extend it, test it. An executor holds no
    state of a run; it can be reused, and shared by threads and tasks.

    Limits: `max_iterations` (visits of `plan`), `max_execution_time` (seconds), `max_model_calls`, `max_tool_calls`,
    `max_tokens`, `max_cost` (money: the model must be `priced`; calls that a callable agent makes itself are not
    counted), `max_fan_out` (tool calls of one step), for the runs that its tools start, `max_depth` (levels) and
    `max_nested_runs` (runs in all), and for stored runs, `max_restarts` (after a crash or an exception in a call; what
    they add to the bounds is in the proof). `None` means no limit, 0 allows none (a cost must be above 0). Nested runs
    share the limits of the outer run.

    - `handle_parsing_errors`: `False` raises a `ParseError`; `True`, a string, or a function of the error returns
      feedback to the model, which tries again.
    - `early_stopping_method`: the output of a stopped run is a set text ("force"), or an answer that the model is asked
      for once more ("generate"). That call is not limited, except to 10 seconds beyond `max_execution_time`.
    - `trim_intermediate_steps`: the number of last steps that the agent sees (0 or less: all), or a function that
      selects them.
    - `return_direct`: the result of a return-direct tool is the answer if the step has no other call ("single"), or
      always ("any"; of several such results, the last).
    - `handle_tool_errors`: if a tool raises and has no policy of its own, the model observes the error ("observe"), the
      run raises it ("raise"), or a function of the error returns the observation. `tool_lookup` may be
      "case_insensitive". `max_observation` is the number of characters of a result that the model sees,
      `max_tool_input` the number of characters of a call's arguments; a tool that gets more is not called, and the
      model observes the limit. `tool_concurrency` is the number of tools of one step that run at a time.
    - `memory` adds inputs before the first plan and saves the ending, unless an exception ends the run. Nodes of the
      machine load and save it, within the limits. A save has 0.1 seconds beyond them; after that the run ends without
      it and reports so. If a save raises, `snapshot_of(error)` holds the answer, and a run resumed from it only saves.
    - `return_intermediate_steps` adds the steps to the result of `invoke`.
    - `handlers` answer the effects of your own nodes: `{AskHuman: function}`.
    - `observers` are called with each event; the last one is `Done` or `Failed`. `verbose` prints a run to stderr. If
      an observer raises, this is logged and reported once to the others (`ObserverFailed`), and the run continues,
      unless the observer has `raise_error = True`.
    - `around_call` returns a context manager, such as a telemetry span, for each `CallContext`; the call's thread or
      task enters it.

    - `runs` is the store of its runs, such as `SQLiteRuns("runs.db")`: a run that has to wait returns a `Waiting`.

    - `nodes` are pieces of `graphexec.nodes` and nodes of your own; see `plug`.

    An executor is created only if every run is proved to end within the limits, or with `allow_nonterminating=True`.
    `verify` returns the proof; the engine checks each step against it.

    Raises `UnprovedError` for a machine without a proof, `LimitsError` for an invalid limit, `ToolDefinitionError` for
    invalid tools or a duplicate name, and `InputError` for tools that are not those of the agent, and for any other
    invalid option.
    """

    __slots__ = ("_allow_nonterminating", "_verdict")

    # Lower layers recognize an executor, and one of a subclass, by this; see `is_executor`.
    runs_agent: ClassVar = True

    # The parameters of LangChain's executor, and the limits that it lacks.
    def __init__(  # noqa: PLR0913
        self,
        *,
        agent: Agent | AgentFunction | LangChainObject,
        tools: Sequence[AnyTool | Toolset | LangChainObject],
        max_iterations: int | None = 15,
        max_execution_time: float | None = None,
        max_model_calls: int | None = None,
        max_tool_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_fan_out: int | None = FAN_OUT,
        max_depth: int | None = DEPTH,
        max_nested_runs: int | None = NESTED_RUNS,
        max_restarts: int | None = None,
        return_intermediate_steps: bool = False,
        handle_parsing_errors: ParsePolicy = False,
        early_stopping_method: EarlyStopping = "force",
        trim_intermediate_steps: Trim = -1,
        return_direct: ReturnDirect = "single",
        handle_tool_errors: ErrorPolicy = "observe",
        tool_lookup: Lookup = "exact",
        max_observation: int | None = None,
        max_tool_input: int | None = MAX_TOOL_INPUT,
        tool_concurrency: int = AT_ONCE,
        memory: Memory | None = None,
        handlers: Mapping[type[Effect[Any]], HandlerLike] | None = None,
        observers: Sequence[Observer] = (),
        verbose: bool = False,
        around_call: AroundCall | None = None,
        nodes: Sequence[Plugged] = (),
        runs: RunStore | None = None,
        allow_nonterminating: bool = False,
    ) -> None:
        # Invalid options are reported before anything is made of them.
        validate(
            "",
            ("early_stopping_method", early_stopping_method, EARLY_STOPPING),
            ("handle_parsing_errors", handle_parsing_errors, PARSE_POLICY),
            ("trim_intermediate_steps", trim_intermediate_steps, TRIM),
            ("return_direct", return_direct, RETURN_DIRECT),
            ("memory", memory, optional(MEMORY)),
            ("handlers", handlers, optional(HANDLERS)),
            ("observers", observers, OBSERVERS),
            ("tool_concurrency", tool_concurrency, whole(1)),
            ("return_intermediate_steps", return_intermediate_steps, FLAG),
            ("verbose", verbose, FLAG),
            ("allow_nonterminating", allow_nonterminating, FLAG),
            ("around_call", around_call, optional(FUNCTION)),
            ("runs", runs, optional(RUNS)),
        )
        by_name = tools_by_name(tools)
        known = _to_agent(agent, by_name)
        limits = agent_limits(
            iterations=max_iterations,
            seconds=max_execution_time,
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            cost=max_cost,
            fan_out=max_fan_out,
            depth=max_depth,
            nested_runs=max_nested_runs,
            restarts=max_restarts,
        )
        self._setup = setup = Setup(
            agent=known,
            tools=tuple(by_name.values()),
            memory=memory,
            handlers=handlers or {},
            policies=Policies(
                make_feedback(handle_parsing_errors), make_selection(trim_intermediate_steps), return_direct
            ),
            table=agent_graph(strict=handle_parsing_errors is False, generate=early_stopping_method == "generate"),
            on_tool_error=handle_tool_errors,
            lookup=tool_lookup,
            max_observation=max_observation,
            max_tool_input=max_tool_input,
            pieces=(*rule_pieces(known), *to_pieces(nodes)),
        )
        self._observers, self._verbose, self._runs = tuple(observers), verbose, runs
        self._allow_nonterminating, self._checks_access = allow_nonterminating, True
        self.return_intermediate_steps = return_intermediate_steps
        context = RunContext(setup.all_handlers, limits, tool_concurrency, around_call=around_call)
        self._prove(setup.make_graph(limits.fan_out), context)

    def _prove(self, graph: Machine[Ready, Ending], context: RunContext) -> None:
        verdict = graph.verify(context.limits)
        if not self._allow_nonterminating:
            verdict.require_proof()
        self._graph, self._verdict = graph, verdict
        self._run_context = dataclasses.replace(context, proof=verdict.proof)

    def _copy_with(self, setup: Setup) -> Self:
        """Return a copy of this executor that is made of another setup, within the same limits."""
        changed = copy.copy(self)
        changed._setup = setup
        graph = setup.make_graph(self.limits.fan_out)
        context = dataclasses.replace(self.run_context, handlers=setup.all_handlers)
        changed._prove(graph, context)
        return changed

    def __repr__(self) -> str:
        agent = self.agent
        choice = "" if agent.tool_choice == "auto" else f", tool_choice={agent.tool_choice}"
        return f"<AgentExecutor with {', '.join(self.tools) or 'no tools'} ({agent.kind}){choice}: {self._graph!r}>"

    @property
    def graph(self) -> Machine[Ready, Ending]:
        """The machine, with this executor's agent, tools and handlers as its settings."""
        return self._graph

    @property
    def memory(self) -> Memory | None:
        """The memory, which adds inputs to a run and saves its ending."""
        return self._setup.memory

    def with_graph(self, graph: Machine[Ready, Ending]) -> Self:
        """Return a copy of this executor with another machine, which is derived from `executor.graph` by surgery.

        If the executor has a memory, the nodes that load and save it are added unless the machine has them.
        Raises `UnprovedError` if a run may not terminate, and `InputError` unless the machine starts with `Ready`, ends
        with an `AgentFinish` or a `StoppedResponse`, and is not the machine of another executor: the agent, tools and
        handlers of this one would silently replace those.
        """
        require_agent_graph(graph)
        return self._copy_with(self._setup.with_graph(graph))

    def plug(self, *pieces: Plugged) -> Self:
        """Return a copy of this executor with more pieces: those of `graphexec.nodes`, and nodes of your own.

        A piece sits on every edge of the class of outcomes that it takes. On the way to the model, the first piece is
        met first; on the way out, it is met last. The new machine is proved within this executor's limits.

        Raises `GraphError` for a piece that does not fit, `UnprovedError` if a run may not terminate, `InputError` for
        another object than a piece and for an agent that a piece cannot change, and `ToolDefinitionError` for a tool of
        a piece whose name another tool has.
        """
        setup = self._setup
        return self._copy_with(dataclasses.replace(setup, pieces=(*setup.pieces, *map(to_piece, pieces))))

    def unplug(self, *names: str) -> Self:
        """Return a copy of this executor without the pieces of these names; the machine is as it was before them.

        Raises `InputError` for a name that is not plugged, and for a piece that is a part of a machine which `splice`,
        `replace` or `with_graph` has changed.
        """
        return self._copy_with(self._setup.without(names, self._graph))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces that are plugged, in order: first those of the agent's rules."""
        return self._setup.pieces

    def seats(self) -> Seats:
        """Return the pieces of each class of outcomes, in the order in which a value passes them."""
        return assign_seats(self._setup.fitted)

    def with_tools(self, tools: Iterable[AnyTool | Callable[..., Any] | Toolset | LangChainObject]) -> Self:
        """Return a copy of this executor with other tools, which its agent offers to the model.

        Raises `ToolDefinitionError` for invalid tools, and `InputError` for an agent that cannot be made with others.
        """
        several = tuple(tools_by_name(to_tools(tools)).values())
        agent = self._setup.agent.with_tools(several)
        return self._copy_with(dataclasses.replace(self._setup, tools=several, agent=agent))

    def with_handlers(self, handlers: Mapping[type[Effect[Any]], HandlerLike]) -> Self:
        """Return a copy of this executor with more handlers of effects; they replace those of the same effects.

        Raises `InputError` for invalid handlers.
        """
        validate("", ("handlers", handlers, HANDLERS))
        return self._copy_with(dataclasses.replace(self._setup, handlers={**self._setup.handlers, **handlers}))

    def with_agent(self, agent: Agent | AgentFunction | LangChainObject) -> Self:
        """Return a copy of this executor with another agent and the same tools.

        Raises `InputError` for an agent that describes other tools to its model.
        """
        known = _to_agent(agent, tools_by_name(self._setup.tools))
        return self._copy_with(self._setup.with_agent(known))

    def splice(
        self, table: Table[Ending], *, after: Node[Any, Any] | Sequence[Node[Any, Any]], on: type | Sequence[type]
    ) -> Self:
        """Return a copy of this executor with a node inserted on one or more edges; see `graphexec.splice`.

        The new machine is proved within this executor's limits. What the node passes on to the home of its class still
        goes through the pieces on that edge. `verify().findings` warn of a guard that does not cover every exit.
        `splice` and `replace` raise `GraphError` for a table that does not fit, and what `with_graph` raises.
        """
        rows = pass_on(table, self._graph, after, on)
        return self.with_graph(splice(self._graph, rows, after=after, on=on))

    def replace(self, new: Node[Any, Any], *, narrowed: bool = False) -> Self:
        """Return a copy of this executor where `new` replaces the node of the same name; see `graphexec.replace`."""
        return self.with_graph(replace(self._graph, new, narrowed=narrowed))

    def with_limits(self, limits: Limits) -> Self:
        """Return a copy of this executor with these limits, such as `dataclasses.replace(executor.limits, seconds=60)`.

        Raises `UnprovedError` if a run may not terminate within them, `LimitsError` for a limit that its meter cannot
        have, and `InputError` for a value that is not a `Limits`.
        """
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the limits are {limits!r}; give a Limits, for example Limits(iterations=15)")
        changed = copy.copy(self)
        known = limits.fan_out == self.limits.fan_out
        graph = self._graph if known else self._setup.make_graph(limits.fan_out)
        changed._prove(graph, dataclasses.replace(self.run_context, limits=limits))
        return changed

    def verify(self) -> Verdict:
        """Return the proof that every run ends within the limits, or another verdict if `allow_nonterminating`."""
        return self._verdict

    def draw(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - as `Machine.draw` has it
        runs: AnyRun | Iterable[AnyRun] = (),
    ) -> Path:
        """Write a picture of the machine with its proof within these limits to a file; see `Machine.draw`."""
        from graphexec.draw import save

        return save(self._verdict, path, format=format, runs=runs)

    def as_tool(self, name: str, description: str) -> AnyTool:
        """Return a tool that starts a nested run of this executor, within the limits and the time of the calling run.

        Its arguments are the agent's inputs, as strings; it returns the answer, or the text of a stopped run. It passes
        on the context of the calling run, which must be an instance of the classes that this executor takes. Raises
        `ToolDefinitionError` for an invalid name or description, and for an input whose name is not a valid argument.
        """
        validate("as_tool", ("name", name, NAME), ("description", description, DESCRIPTION), error=ToolDefinitionError)
        # A callable agent declares no inputs.
        keys = self.input_keys or ("input",)
        if bad := [key for key in keys if not key.isidentifier() or iskeyword(key) or key == _CALL]:
            raise ToolDefinitionError(f"the agent has the input {bad[0]!r}, an invalid argument name; rename the input")
        nested = copy.copy(self)
        # The outer run checks the access to the models.
        nested._checks_access = False

        def run(call: CallContext[Any], **inputs: str) -> Any:
            return answer_of(nested.run(inputs, context=call.context, host=call, run_id=str(call.id)))

        async def arun(call: CallContext[Any], **inputs: str) -> Any:
            return answer_of(await nested.arun(inputs, context=call.context, host=call, run_id=str(call.id)))

        for function in (run, arun):
            # `tool` derives the schema from the annotations and the signature.
            function.__annotations__ = {_CALL: CallContext[Any], **dict.fromkeys(keys, str), "return": Any}
            parameters = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY) for key in (_CALL, *keys)]
            setattr(function, "__signature__", inspect.Signature(parameters))  # noqa: B010 - a checker knows no such attribute
        return dataclasses.replace(
            tool(name=name, description=description, async_function=arun)(run),
            context_types=self.run_context.context_types(self._graph),
            nested=self.verify().nested_runs(name, TOOL_CALLS.name),
            check_access=self.check_access,
            # Made again, the call continues the nested run, which is stored, too.
            in_doubt="retry",
        )


def _to_agent(given: Agent | AgentFunction | LangChainObject, tools: Mapping[str, AnyTool]) -> Agent:
    """Return the agent. Raises `InputError` unless the executor's tools are those that it describes to its model.

    They are the same if they have the same names and parameters; a replacement, such as a tool that tests script, may
    have another function. An agent that does not know its tools, such as a function, goes with any.
    """
    agent = given if isinstance(given, Agent) else callable_agent(given)
    if agent.tools is None:
        return agent
    described = {tool.name: tool for tool in agent.tools}
    owned = {
        "the agent": [name for name in described if name not in tools],
        "the executor": [name for name in tools if name not in described],
    }
    differences = [f"only {owner} has {', '.join(names)}" for owner, names in owned.items() if names]
    differences += [
        f"{tool.signature} of the agent is {tools[name].signature} in the executor"
        for name, tool in described.items()
        if name in tools and tools[name].parameters != tool.parameters
    ]
    if differences:
        raise InputError(
            f"the agent and the executor have different tools: {'; '.join(differences)}; pass the same list to both"
        )
    return agent
