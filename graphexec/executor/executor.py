"""AgentExecutor, the front door: an agent and its tools, driven through the machine."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from graphexec._arguments import FLAG, FUNCTION, optional, validate, whole
from graphexec.actions import NO_STEPS, Run, steps_of
from graphexec.agents import Agent, AgentFunction, Runnable, callable_agent
from graphexec.effects import CallTool, agent_limits
from graphexec.errors import InputError
from graphexec.executor.as_tool import executor_tool, nested_runs
from graphexec.executor.batch import BatchOptions, run_batch
from graphexec.executor.handlers import Binding, answers_of
from graphexec.executor.inputs import Inputs, keys_of, name_inputs, outputs_of
from graphexec.executor.iteration import Stepwise
from graphexec.executor.memory_nodes import add_memory, save_endings
from graphexec.executor.observers import Observer, Observers, validate_observers
from graphexec.executor.options import EarlyStopping, ParsePolicy, Trim, policies_of, table_of
from graphexec.executor.result import Ending, RunResult, result_of
from graphexec.executor.streams import Answering, Chunk, Chunks, pairs
from graphexec.executor.table import Ready, ReturnDirect, require_agent_graph
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Done, Event
from graphexec.kernel.graph import Graph, Table
from graphexec.kernel.meters import DEPTH, FAN_OUT, NESTED_RUNS, Limits
from graphexec.kernel.node import Node
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.surgery import bind, drop_edge, replace, splice
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.handlers import AT_ONCE, AroundCall, HandlerLike, RunContext, RunOptions, handlers_for
from graphexec.runtime.io import ASYNC, BLOCKING, IO, Items, iterate_sync, run_sync
from graphexec.runtime.loop import follow
from graphexec.runtime.observers import OnEvent
from graphexec.tools import AnyTool, tools_by_name
from graphexec.tools.calling import Lookup, make_tool_handler
from graphexec.tools.tool import ErrorPolicy

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from graphexec.draw import AnyRun
    from graphexec.memory import Memory
    from graphexec.runtime.handlers import RunSettings
    from graphexec.verify import Verdict


class AgentExecutor:
    """Runs an agent with its tools until it has an answer or a limit is spent.

    `executor.graph` is the machine: draw it, extend it, test it. An executor holds no state of a run; it can be used
    again, and by several threads and tasks at once.

    Limits: `max_iterations` (plans), `max_execution_time` (seconds), `max_model_calls`, `max_tool_calls`, `max_tokens`,
    `max_cost` (money: the model has to be `priced`; a callable agent's own calls are not seen), `max_fan_out` (tool
    calls of one step), and of the runs that its tools start, `max_depth` (levels) and `max_nested_runs` (runs in all).
    `None` is no limit, 0 allows none (a cost has to be above 0). Runs within a run share its limits.

    - `handle_parsing_errors`: `False` raises a `ParseError`; `True`, a string or a function of the error is feedback
      for the model, which tries again.
    - `early_stopping_method`: a stopped run says so ("force"), or asks the model once more for an answer ("generate"):
      that call is beyond the limits, and may take 10 seconds beyond `max_execution_time`.
    - `trim_intermediate_steps`: how many of the last steps the agent is shown (0 or less: all), or a function of them.
    - `return_direct`: results of return-direct tools are answers where they are their step's only call ("single"), or
      the last of them in any case ("any").
    - `handle_tool_errors`: the model observes what a tool raises ("observe"), it is raised, or a function of the error
      makes the observation, where the tool does not say. `tool_lookup` may be "case_insensitive". `max_observation` is
      how many characters of a result the model sees, `tool_concurrency` how many tools of one step run at a time.
    - `memory` adds inputs before the first plan and saves the end, unless an exception ends the run. Nodes of the
      machine do it, within its limits. A save has 0.1 seconds beyond them; what is not saved then is left behind, and
      reported. `snapshot_of(error)` of what it raises has the answer, and a run that is resumed there only saves.
    - `return_intermediate_steps` adds the steps to what `invoke` returns.
    - `handlers` answer the effects of nodes of your own: `{AskHuman: function}`.
    - `observers` are called with each event, the last of which is `Done` or `Failed`; `verbose` prints a run to stderr.
      What one raises is logged (`graphexec`) and reported once to the others (`ObserverFailed`), and the run goes on,
      unless the observer has `raise_error = True`: then it ends the run.
    - `around_call` makes a context manager of each `CallContext`, entered in the thread or task of that call, for spans
      of telemetry, say.

    An executor is made only if every run of its machine is proved to end within the limits (`verify` is the proof, and
    the engine holds each step to it), or with `allow_nonterminating=True`.

    Raises `UnprovedError` for a machine that is not proved, `LimitsError` for an invalid limit, `ToolDefinitionError`
    for invalid tools or a name given twice, and `InputError` for any other invalid option.
    """

    __slots__ = (
        "_binding",
        "_graph",
        "_keys",
        "_may_run_forever",
        "_memory",
        "_observers",
        "_settings",
        "_verdict",
        "agent",
        "return_intermediate_steps",
        "run_context",
        "tools",
    )

    # The parameters are those that people know from LangChain's executor, and the limits it lacks.
    def __init__(  # noqa: PLR0913
        self,
        *,
        agent: Agent | AgentFunction | Runnable,
        tools: Sequence[AnyTool],
        max_iterations: int | None = 15,
        max_execution_time: float | None = None,
        max_model_calls: int | None = None,
        max_tool_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_fan_out: int | None = FAN_OUT,
        max_depth: int | None = DEPTH,
        max_nested_runs: int | None = NESTED_RUNS,
        return_intermediate_steps: bool = False,
        handle_parsing_errors: ParsePolicy = False,
        early_stopping_method: EarlyStopping = "force",
        trim_intermediate_steps: Trim = -1,
        return_direct: ReturnDirect = "single",
        handle_tool_errors: ErrorPolicy = "observe",
        tool_lookup: Lookup = "exact",
        max_observation: int | None = None,
        tool_concurrency: int = AT_ONCE,
        memory: Memory | None = None,
        handlers: Mapping[type[Effect[Any]], HandlerLike] | None = None,
        observers: Sequence[Observer] = (),
        verbose: bool = False,
        around_call: AroundCall | None = None,
        allow_nonterminating: bool = False,
    ) -> None:
        table = table_of(early_stopping_method, handle_parsing_errors)
        validate(
            "",
            ("tool_concurrency", tool_concurrency, whole(1)),
            ("return_intermediate_steps", return_intermediate_steps, FLAG),
            ("verbose", verbose, FLAG),
            ("allow_nonterminating", allow_nonterminating, FLAG),
            ("around_call", around_call, optional(FUNCTION)),
        )
        self.agent = agent if isinstance(agent, Agent) else callable_agent(agent)
        self.tools = tools_by_name(tools)
        self.return_intermediate_steps = return_intermediate_steps
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
        )
        self._keys = keys_of(self.agent, memory)
        self._memory = memory
        self._observers = Observers(validate_observers(observers), verbose)
        answers = answers_of(self.agent, memory)
        answers[CallTool] = make_tool_handler(
            self.tools, on_error=handle_tool_errors, lookup=tool_lookup, max_observation=max_observation
        )
        # Users without a type checker pass other things.
        if handlers is not None and not isinstance(handlers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handlers is {handlers!r}; give a dict: {{AskHuman: function}}, say")
        answers |= handlers or {}
        self.run_context = RunContext(handlers_for(answers), limits, tool_concurrency, around_call=around_call)
        policies = policies_of(handle_parsing_errors, trim_intermediate_steps, return_direct)
        self._binding = Binding.of(self.agent, self.tools, memory, handlers or {})
        self._settings = (self.agent, policies, self._keys, self._binding, nested_runs(self.tools.values()))
        self._may_run_forever = allow_nonterminating
        self._prove(self._completed(table), limits)

    def _completed(self, graph: Graph[Ready, Ending]) -> Graph[Ready, Ending]:
        return bind(graph if self._memory is None else add_memory(graph), *self._settings)

    def _prove(self, graph: Graph[Ready, Ending], limits: Limits) -> None:
        verdict = graph.verify(limits)
        if not self._may_run_forever:
            verdict.require_proof()
        self._graph = graph
        self._verdict = verdict
        ranks = verdict.certificate.ranks if verdict.certificate is not None else None
        self.run_context = dataclasses.replace(self.run_context, limits=limits, ranks=ranks)

    def __repr__(self) -> str:
        return f"<AgentExecutor with {', '.join(self.tools) or 'no tools'}: {self._graph!r}>"

    @property
    def graph(self) -> Graph[Ready, Ending]:
        """The machine itself, with this executor's agent in it."""
        return self._graph

    @property
    def memory(self) -> Memory | None:
        """The memory, which adds inputs to a run and saves its end."""
        return self._memory

    @property
    def limits(self) -> Limits:
        """What a run may spend."""
        return self.run_context.limits

    def with_graph(self, graph: Graph[Ready, Ending]) -> AgentExecutor:
        """Return the same executor with another machine: one made from `executor.graph` by surgery.

        An executor with a memory adds the nodes that load and save it, where the machine lacks them.

        Raises `InputError` unless it starts with `Ready` and ends with an `AgentFinish` or a `StoppedResponse`, and for
        nodes of an executor with another agent, other tools or other handlers (embedded, say), which these would
        replace without a word; and `UnprovedError` if a run of it may never end.
        """
        require_agent_graph(graph)
        self._binding.require_same(graph)
        changed = copy.copy(self)
        changed._prove(self._completed(graph), self.limits)
        return changed

    def splice(
        self, table: Table[Ending], *, after: Node[Any, Any] | Sequence[Node[Any, Any]], on: type | Sequence[type]
    ) -> AgentExecutor:
        """Return the same executor with a node put on an edge of its machine, or on several: `graphexec.splice`.

        This and the next two are proved within this executor's limits. They raise `GraphError` for a table that does
        not fit, and what `with_graph` raises. `verify().findings` warn of a guard that does not stand on every exit.
        """
        rows = save_endings(table, self._graph)
        return self.with_graph(splice(self._graph, rows, after=after, on=on, allow_nonterminating=True))

    def replace(self, new: Node[Any, Any], *, narrowed: bool = False) -> AgentExecutor:
        """Return the same executor with `new` in the place of the node of its name: `graphexec.replace`."""
        return self.with_graph(replace(self._graph, new, narrowed=narrowed, allow_nonterminating=True))

    def drop_edge(self, *, after: Node[Any, Any], on: type) -> AgentExecutor:
        """Return the same executor without an edge, and without the nodes to which only it leads: `drop_edge`."""
        return self.with_graph(drop_edge(self._graph, after=after, on=on, allow_nonterminating=True))

    def with_limits(self, limits: Limits) -> AgentExecutor:
        """Return the same executor with these limits, such as `dataclasses.replace(executor.limits, seconds=60)`.

        Raises `UnprovedError` if a run may never end within them, `LimitsError` for an unknown budget, and `InputError`
        for anything but limits.
        """
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the limits are {limits!r}; give Limits(iterations=...), say")
        changed = copy.copy(self)
        changed._prove(self._graph, limits)
        return changed

    def verify(self) -> Verdict:
        """The proof that every run ends within the limits, or another verdict if `allow_nonterminating`."""
        return self._verdict

    def draw(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - as `Graph.draw` has it
        runs: AnyRun | Iterable[AnyRun] = (),
    ) -> Path:
        """Write a picture of the machine with its proof within these limits to a file, as `Graph.draw` does."""
        from graphexec.draw import save

        return save(self._verdict, path, format=format, runs=runs)

    def run(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> RunResult:
        """Run to the end, and return all there is to know about it. A stop does not raise.

        `inputs` by name, or the string of the only one; or a snapshot of this machine, to go on from there, where calls
        without a reply are made again. `context` is a value for tools, handlers and nodes that take a `CallContext`; it
        is stored nowhere. `run_id` is made up unless given. In a tool, this run is within the run that calls the tool,
        and within its limits and its time; elsewhere, `host` is the call that it is within.

        Raises `InputError` for missing inputs and invalid options, what the model raises (`ModelError`), and what a
        tool or a `ParseError` raises that is not handled.
        """
        done = run_sync(self._follow(self._start(inputs), BLOCKING, RunOptions(**options)))
        return result_of(done, self.limits)

    async def arun(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> RunResult:
        """Run like `run`, on the running event loop."""
        return result_of(await self._follow(self._start(inputs), ASYNC, RunOptions(**options)), self.limits)

    def stream(
        self, inputs: Inputs | Snapshot, *, tokens: bool = False, **options: Unpack[RunSettings]
    ) -> Generator[Event[Ending], None, None]:
        """Run and yield each event when it happens; the last is `Done`. The run goes on only while it is iterated.

        With `tokens`, models that can stream do so, and each piece of a reply is an event (`Reported`).
        """
        given, start = RunOptions(**options), self._start(inputs)
        return stream_sync(lambda: self._follow(start, BLOCKING, given, emit, tokens=tokens))

    def astream(
        self, inputs: Inputs | Snapshot, *, tokens: bool = False, **options: Unpack[RunSettings]
    ) -> AsyncGenerator[Event[Ending], None]:
        """Run like `stream`, on the running event loop."""
        given, start = RunOptions(**options), self._start(inputs)
        return stream_async(lambda: self._follow(start, ASYNC, given, emit, tokens=tokens))

    def stream_chunks(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> Generator[Chunk, None, None]:
        """Run and yield what LangChain's executor streams: `actions`, `steps`, and last the `output`; see `Chunks`."""
        return iterate_sync(self._chunks(inputs, BLOCKING, RunOptions(**options)))

    def astream_chunks(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> AsyncGenerator[Chunk, None]:
        """Run like `stream_chunks`, on the running event loop."""
        return self._chunks(inputs, ASYNC, RunOptions(**options))

    def stream_answer(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> Generator[str, None, None]:
        """Run and yield the text of the final answer only, piece by piece as the model says it; see `Answering`."""
        return iterate_sync(self._answer(inputs, BLOCKING, RunOptions(**options)))

    def astream_answer(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> AsyncGenerator[str, None]:
        """Run like `stream_answer`, on the running event loop."""
        return self._answer(inputs, ASYNC, RunOptions(**options))

    def iter(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> Stepwise:
        """Run step by step: `for steps in executor.iter(...)`, or `async for`; see `Stepwise`."""
        given = RunOptions(**options)
        return Stepwise(
            lambda snapshot, io, goes_on: self._events(snapshot or inputs, io, given, goes_on=goes_on),
            limits=self.limits,
            clock=self.run_context.clock,
            known=steps_of(inputs.value) if isinstance(inputs, Snapshot) else NO_STEPS,
        )

    def invoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[RunSettings]
    ) -> dict[str, Any]:
        """Run to the end and return the inputs with the answer under `output`: LangChain's shape. Raises as `run` does.

        With `return_intermediate_steps`, the list of `(action, observation)` stands under `intermediate_steps`.
        """
        return run_sync(self._invoke(inputs, BLOCKING, RunOptions(**options), only_outputs=return_only_outputs))

    async def ainvoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[RunSettings]
    ) -> dict[str, Any]:
        """Run like `invoke`, on the running event loop."""
        return await self._invoke(inputs, ASYNC, RunOptions(**options), only_outputs=return_only_outputs)

    def as_tool(self, name: str, description: str) -> AnyTool:
        """Return a tool that runs this executor within the run that calls it, and within that run's limits and time.

        Its arguments are the agent's inputs, as strings; it returns the answer, or the text of a stopped run. The
        context is that of the run around it, which has to be of the classes that this executor takes. Raises
        `ToolDefinitionError` for an invalid name or description, and for an input that no argument can be named.
        """
        # A callable agent names no inputs.
        return executor_tool(self, self._keys.passed or ("input",), name, description)

    def batch(
        self,
        many: Sequence[Inputs],
        *,
        max_concurrency: int | None = None,
        return_exceptions: bool = False,
        progress: bool = False,
        context: Any = None,
    ) -> list[Any]:
        """Invoke for each of `many`, at most `max_concurrency` at a time, in threads; return the results in order.

        The first exception is raised, or with `return_exceptions` each is a result. `progress` draws a bar on stderr
        (rich).
        """
        options = BatchOptions(max_concurrency, return_exceptions, progress)
        return run_sync(run_batch(self._invoke, many, BLOCKING, options, RunOptions(context)))

    async def abatch(
        self,
        many: Sequence[Inputs],
        *,
        max_concurrency: int | None = None,
        return_exceptions: bool = False,
        progress: bool = False,
        context: Any = None,
    ) -> list[Any]:
        """Invoke like `batch`, on the running event loop."""
        options = BatchOptions(max_concurrency, return_exceptions, progress)
        return await run_batch(self._invoke, many, ASYNC, options, RunOptions(context))

    def _follow(
        self,
        start: Ready | Snapshot,
        io: IO,
        options: RunOptions,
        consumer: OnEvent | None = None,
        *,
        tokens: bool = False,
        goes_on: Callable[[], bool] | None = None,
    ) -> Coroutine[Any, Any, Done[Ending]]:
        notify, on_event = self._observers.make_listeners(start, self.run_context.clock, consumer, goes_on)
        # Not awaited here: each event would pass through one coroutine more.
        return follow(self._graph, start, self.run_context, io, on_event, notify=notify, pieces=tokens, options=options)

    async def _invoke(
        self, inputs: Inputs, io: IO, options: RunOptions, *, only_outputs: bool = False
    ) -> dict[str, Any]:
        result = result_of(await self._follow(self._start(inputs), io, options), self.limits)
        returned = {**({} if only_outputs else name_inputs(inputs, self._keys.passed)), **outputs_of(result.ending)}
        if self.return_intermediate_steps:
            returned["intermediate_steps"] = pairs(result.steps)
        return returned

    def _events(
        self,
        inputs: Inputs | Snapshot,
        io: IO,
        options: RunOptions,
        *,
        tokens: bool = False,
        goes_on: Callable[[], bool] | None = None,
    ) -> Items[Event[Ending]]:
        start = self._start(inputs)

        def begin() -> Coroutine[Any, Any, Done[Ending]]:
            return self._follow(start, io, options, emit, tokens=tokens, goes_on=goes_on)

        return io.iterate(lambda: stream_sync(begin), lambda: stream_async(begin))

    async def _chunks(self, inputs: Inputs | Snapshot, io: IO, options: RunOptions) -> AsyncGenerator[Chunk, None]:
        start = inputs if isinstance(inputs, Snapshot) else None
        chunks = Chunks(self._graph, with_steps=self.return_intermediate_steps, start=start)
        async with aclosing(self._events(inputs, io, options)) as events:
            async for event in events:
                for chunk in chunks.of(event):
                    yield chunk

    async def _answer(self, inputs: Inputs | Snapshot, io: IO, options: RunOptions) -> AsyncGenerator[str, None]:
        answering = Answering(self.agent, self._graph)
        async with aclosing(self._events(inputs, io, options, tokens=True)) as events:
            async for event in events:
                if piece := answering.of(event):
                    yield piece

    def _start(self, inputs: Inputs | Snapshot) -> Ready | Snapshot:
        if isinstance(inputs, Snapshot):
            return inputs
        named = name_inputs(inputs, self._keys.passed)
        # The memory will have what it provides; whether it has is seen when it is loaded.
        self._keys.require(*named, *(() if self._memory is None else self._memory.keys))
        return Ready(Run(named))
