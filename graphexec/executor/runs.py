"""The methods that run an agent: to its end, as events, as text, and for many inputs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from graphexec._arguments import Constraint, optional, validate, whole
from graphexec.actions import AgentFinish, Run
from graphexec.agents import Agent
from graphexec.effects import ModelEffect
from graphexec.errors import InputError, OutputError
from graphexec.executor.console import ConsolePrinter
from graphexec.executor.inputs import Inputs, name_inputs, to_outputs
from graphexec.executor.outcomes import Ready
from graphexec.executor.result import Ending, RunResult, T_co, load_answer, make_result
from graphexec.executor.setup import Setup
from graphexec.executor.streams import AnswerExtractor
from graphexec.kernel.events import Done, Event
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.kernel.surgery import same
from graphexec.kernel.tables import reachable
from graphexec.machine import Machine
from graphexec.messages import check_access
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.handlers import AT_ONCE, RunContext, RunOptions
from graphexec.runtime.io import ASYNC, BLOCKING, IO, gather, iterate_sync, run_sync
from graphexec.runtime.observers import AroundCall, Observer, OnEvent
from graphexec.runtime.stored import follow
from graphexec.tools import AnyTool

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphexec.runs.questions import Waiting
    from graphexec.runtime.handlers import AnySettings, RunSettings, StoredSettings
    from graphexec.runtime.stored import RunStore

R = TypeVar("R")

# Not one string, whose items are strings, and not one dict.
_SEVERAL = Constraint(
    "a list of inputs, such as list(...), or use invoke for one",
    lambda value: isinstance(value, Collection) and not isinstance(value, (str, Mapping)),
)


class RunMethods(Generic[T_co]):
    """The methods of `AgentExecutor` that run it, and the parts of the executor that they need."""

    __slots__ = (
        "_checks_access",
        "_graph",
        "_observers",
        "_run_context",
        "_runs",
        "_setup",
        "_verbose",
        "return_intermediate_steps",
    )

    # False for the copy whose runs are nested in those that check it.
    _checks_access: bool
    _graph: Machine[Ready, Ending]
    _observers: tuple[Observer, ...]
    _run_context: RunContext
    _runs: RunStore | None
    _setup: Setup
    _verbose: bool
    return_intermediate_steps: bool

    @property
    def agent(self) -> Agent:
        """The agent, with the tools of the pieces."""
        return self._setup.agent_with_tools

    @property
    def tools(self) -> Mapping[str, AnyTool]:
        """The tools by name, with those of the pieces."""
        return self._setup.offered

    @property
    def run_context(self) -> RunContext:
        """The handlers, the limits and the proof of each run."""
        return self._run_context

    def with_context(self, context: RunContext) -> Self:
        """Return a copy whose runs have another clock, other handlers or `around_call`, such as for tests.

        Raises `InputError` for a context with other limits or another proof than this one's; see `with_limits`.
        """
        own = self._run_context
        if (context.limits, context.proof) != (own.limits, own.proof):
            raise InputError("the context has other limits or another proof; write executor.with_limits(limits)")
        changed = copy.copy(self)
        changed._run_context = context
        return changed

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        return self._run_context.limits

    @property
    def runs(self) -> RunStore | None:
        """The store of the runs, unless a run is given another one; `None` without one."""
        return self._runs

    @property
    def input_keys(self) -> tuple[str, ...]:
        """The names of the inputs that the caller passes: the agent's, without those that a memory adds.

        An agent that is a function of yours declares none: then it is empty, and a string is the `input`.
        """
        return self._setup.keys.passed

    def begin(self, inputs: Inputs, *, run_id: str = "") -> Snapshot:
        """Return the first snapshot of a run with this id, for `graphexec.kernel.advance`: nothing is asked yet.

        Raises `InputError` for missing inputs.
        """
        return begin(self._graph, Ready(Run(self._prepare(self._setup.name(inputs)))), run_id=run_id)

    @overload
    def run(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> RunResult[T_co]: ...
    @overload
    def run(self, inputs: Inputs | Snapshot, **options: Unpack[StoredSettings]) -> RunResult[T_co] | Waiting: ...
    def run(self, inputs: Inputs | Snapshot, **options: Unpack[AnySettings]) -> RunResult[T_co] | Waiting:
        """Run to the end and return the result. A run that a limit stops has a result, too, and does not raise.

        `inputs` is a dict of inputs by name, the only input as a string, or a snapshot of this machine to resume from;
        then calls without a reply are made again. The optional input `images` is an image or a list of them, each an
        `Image`, bytes or a URL; an agent that sends messages sends them with the question.

        `context` is a value for tools, handlers and nodes that take a `CallContext`; it is not stored. `run_id` is
        generated unless given. `observers` are called with each event of this run, behind those of the executor;
        `around_call` makes a context manager, such as a telemetry span, around each of its calls. A run that a tool
        starts is nested in the run that calls the tool, and shares its limits and its deadline; elsewhere, pass that
        call as `host`.

        `runs` is a store, such as `SQLiteRuns("runs.db")`, that keeps the run under its `run_id` while it goes on. The
        same id continues a run whose process has ended, or returns its result. A run that has to wait for an answer
        returns a `Waiting` with its questions; after `runs.reply`, it goes on. A run that another version of the
        machine began raises `RunChangedError`; with `migrate`, it goes on as far as it asks for the same calls. See
        `graphexec.runs` for these and for what else a stored run raises.

        Raises `InputError` for missing inputs and invalid options, `ModelError` if the model fails, `ParseError` for an
        unreadable reply, and any exception of a tool, unless it is handled.
        """
        return run_sync(self._follow(self._name(inputs), BLOCKING, RunOptions(**options), self.make_result))

    @overload
    async def arun(self, inputs: Inputs | Snapshot, **options: Unpack[RunSettings]) -> RunResult[T_co]: ...
    @overload
    async def arun(self, inputs: Inputs | Snapshot, **options: Unpack[StoredSettings]) -> RunResult[T_co] | Waiting: ...
    async def arun(self, inputs: Inputs | Snapshot, **options: Unpack[AnySettings]) -> RunResult[T_co] | Waiting:
        """Run like `run`, on the running event loop."""
        return await self._follow(self._name(inputs), ASYNC, RunOptions(**options), self.make_result)

    def resume(
        self, run_id: str, *, runs: RunStore | None = None, migrate: bool = False, context: Any = None
    ) -> RunResult[T_co] | Waiting:
        """Continue a stored run with the inputs that the store has, or return its result.

        The store `runs` is by default the executor's; `migrate` and `context` are as in `run`.

        Raises what `run` raises, and `InputError` for a run that there is not.
        """
        options = self._resuming(RunOptions(context, run_id, runs=runs, migrate=migrate))
        return run_sync(self._follow(None, BLOCKING, options, self.make_result))

    async def aresume(
        self, run_id: str, *, runs: RunStore | None = None, migrate: bool = False, context: Any = None
    ) -> RunResult[T_co] | Waiting:
        """Resume like `resume`, on the running event loop."""
        options = self._resuming(RunOptions(context, run_id, runs=runs, migrate=migrate))
        return await self._follow(None, ASYNC, options, self.make_result)

    def _resuming(self, options: RunOptions) -> RunOptions:
        if options.runs is None and self._runs is None:
            raise InputError("resume needs the store of the run; pass runs=SQLiteRuns('runs.db')")
        return options

    def stream(
        self, inputs: Inputs | Snapshot | None, *, tokens: bool = False, **options: Unpack[AnySettings]
    ) -> Generator[Event[Ending], None, None]:
        """Run and yield each event when it happens; the last is `Done`. The run advances only while it is iterated.

        In a stored run that has to wait, the last item is the `Waiting`; `inputs` of `None` continue it with those that
        the store has.

        With `tokens`, models stream their replies if they can, and each piece is an event (`Reported`).
        """
        run_options, given = self._read(inputs, options)
        return stream_sync(lambda: self._follow(given, BLOCKING, run_options, same, emit, tokens=tokens))

    def astream(
        self, inputs: Inputs | Snapshot | None, *, tokens: bool = False, **options: Unpack[AnySettings]
    ) -> AsyncGenerator[Event[Ending], None]:
        """Run like `stream`, on the running event loop."""
        run_options, given = self._read(inputs, options)
        return stream_async(lambda: self._follow(given, ASYNC, run_options, same, emit, tokens=tokens))

    def stream_answer(self, inputs: Inputs | Snapshot, **options: Unpack[AnySettings]) -> Generator[str, None, None]:
        """Run and yield the text of the final answer in pieces, as the model streams it.

        The pieces after the last `AnswerDiscarded`, a string with a line break, are together exactly the answer. It
        follows text that was not the answer, such as a sentence before a tool call; see `AnswerExtractor`. A stored run
        that has to wait has no answer yet: it raises a `RunStoreError` that names the questions.
        """
        return iterate_sync(self._answer(inputs, BLOCKING, RunOptions(**options)))

    def astream_answer(self, inputs: Inputs | Snapshot, **options: Unpack[AnySettings]) -> AsyncGenerator[str, None]:
        """Run like `stream_answer`, on the running event loop."""
        return self._answer(inputs, ASYNC, RunOptions(**options))

    @overload
    def invoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[RunSettings]
    ) -> dict[str, Any]: ...
    @overload
    def invoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[StoredSettings]
    ) -> dict[str, Any] | Waiting: ...
    def invoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[AnySettings]
    ) -> dict[str, Any] | Waiting:
        """Run to the end and return a dict of the inputs and the answer (`output`), as LangChain's executor does.

        With `return_intermediate_steps`, it has the list of `(action, observation)`, too. A stored run that has to wait
        returns the `Waiting`. Raises what `run` raises.
        """
        return run_sync(self._invoke(inputs, BLOCKING, RunOptions(**options), only_outputs=return_only_outputs))

    @overload
    async def ainvoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[RunSettings]
    ) -> dict[str, Any]: ...
    @overload
    async def ainvoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[StoredSettings]
    ) -> dict[str, Any] | Waiting: ...
    async def ainvoke(
        self, inputs: Inputs, *, return_only_outputs: bool = False, **options: Unpack[AnySettings]
    ) -> dict[str, Any] | Waiting:
        """Run like `invoke`, on the running event loop."""
        return await self._invoke(inputs, ASYNC, RunOptions(**options), only_outputs=return_only_outputs)

    def batch(
        self,
        many: Sequence[Inputs],
        *,
        max_concurrency: int | None = None,
        return_exceptions: bool = False,
        context: Any = None,
        observers: Sequence[Observer] = (),
        around_call: AroundCall | None = None,
        runs: RunStore | None = None,
        run_id: str | None = None,
    ) -> list[Any]:
        """Invoke for each of `many`, at most `max_concurrency` at a time, in threads; return the results in order.

        With `return_exceptions`, exceptions are results; otherwise the first one is raised. `observers` are called with
        the events of each run, and `around_call` with their calls. With a store `runs`, the runs have the ids
        `run_id-0`, `run_id-1` and so on, and a result may be a `Waiting`.
        """
        options = RunOptions(context, run_id, observers=observers, around_call=around_call, runs=runs)
        return run_sync(self._batch(many, BLOCKING, options, max_concurrency, return_exceptions=return_exceptions))

    async def abatch(
        self,
        many: Sequence[Inputs],
        *,
        max_concurrency: int | None = None,
        return_exceptions: bool = False,
        context: Any = None,
        observers: Sequence[Observer] = (),
        around_call: AroundCall | None = None,
        runs: RunStore | None = None,
        run_id: str | None = None,
    ) -> list[Any]:
        """Invoke like `batch`, on the running event loop."""
        options = RunOptions(context, run_id, observers=observers, around_call=around_call, runs=runs)
        return await self._batch(many, ASYNC, options, max_concurrency, return_exceptions=return_exceptions)

    def _follow(
        self,
        given: Mapping[str, Any] | Snapshot | None,
        io: IO,
        options: RunOptions,
        finish: Callable[[Done[Ending]], R],
        consumer: OnEvent | None = None,
        *,
        tokens: bool = False,
    ) -> Coroutine[Any, Any, R]:
        """Return the run, whose result `finish` makes; without inputs it is in the store. Raises as `run` does."""
        start: Ready | Snapshot | None = None
        if given is not None:
            start = self._load_answer(given) if isinstance(given, Snapshot) else Ready(Run(self._prepare(given)))
        if self._checks_access and self._may_ask_model(start):
            self.check_access()
        if self._runs is not None and options.runs is None:
            options = dataclasses.replace(options, runs=self._runs)
        observers = self._observers
        if self._verbose:
            observers += (ConsolePrinter(start if isinstance(start, Snapshot) else None),)
        watched = dataclasses.replace(options, observers=(*observers, *options.observers)) if observers else options
        return follow(self._graph, start, self.run_context, io, consumer, tokens=tokens, options=watched, finish=finish)

    def _load_answer(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the instance of the output type in a stored answer, as the nodes expect it."""
        value, output = snapshot.value, self._setup.output
        if output is None or not isinstance(value, AgentFinish):
            return snapshot
        with suppress(OutputError):
            value = load_answer(value, output)
        return snapshot if value is snapshot.value else dataclasses.replace(snapshot, value=value)

    async def _invoke(
        self, inputs: Inputs, io: IO, options: RunOptions, *, only_outputs: bool = False
    ) -> dict[str, Any] | Waiting:
        def make_outputs(done: Done[Ending]) -> dict[str, Any]:
            result = self.make_result(done)
            returned = {} if only_outputs else name_inputs(inputs, self._setup.keys.passed)
            returned |= to_outputs(result.ending)
            if self.return_intermediate_steps:
                returned["intermediate_steps"] = [(step.action, step.observation) for step in result.steps]
            return returned

        return await self._follow(self._name(inputs), io, options, make_outputs)

    async def _batch(
        self, many: Sequence[Inputs], io: IO, options: RunOptions, most: int | None, *, return_exceptions: bool
    ) -> list[Any]:
        validate("batch", ("inputs", many, _SEVERAL), ("max_concurrency", most, optional(whole(1), str(AT_ONCE))))

        async def run_one(inputs: Inputs, number: int) -> Any:
            own = (
                options if options.run_id is None else dataclasses.replace(options, run_id=f"{options.run_id}-{number}")
            )
            try:
                return await self._invoke(inputs, io, own)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        return await gather(
            io, [partial(run_one, inputs, number) for number, inputs in enumerate(many)], at_once=most or AT_ONCE
        )

    def make_result(self, done: Done[Ending]) -> RunResult[T_co]:
        """Return the result of a run of this executor from its last event."""
        return make_result(done, self.limits, self._setup.output)

    async def _answer(self, inputs: Inputs | Snapshot, io: IO, options: RunOptions) -> AsyncGenerator[str, None]:
        extractor = AnswerExtractor(self.agent, self._graph)
        given = self._name(inputs)

        def begin_run() -> Coroutine[Any, Any, Done[Ending]]:
            return self._follow(given, io, options, same, emit, tokens=True)

        async with aclosing(io.iterate(lambda: stream_sync(begin_run), lambda: stream_async(begin_run))) as events:
            # Any: the last item of a stored run may be a `Waiting`.
            event: Any = None
            async for event in events:
                for piece in extractor.extract(event):
                    yield piece
        if not isinstance(event, Done):
            raise event.to_error()

    def check_access(self) -> None:
        """Raise `MissingAPIKeyError`, or what else a model raises before its first call. Sends and charges nothing.

        Each run begins with this check of its models, of the executors that are tools, and of embedded executors, as
        far as they support it.
        """
        for handler in self.run_context.all_handlers(self._graph):
            check_access(handler)

    def _read(
        self, inputs: Inputs | Snapshot | None, options: AnySettings
    ) -> tuple[RunOptions, Mapping[str, Any] | Snapshot | None]:
        run_options = RunOptions(**options)
        if inputs is None and (run_options.runs or self._runs) is not None:
            return run_options, None
        # Any: without a store, `None` is told what inputs are.
        given: Any = inputs
        return run_options, self._name(given)

    def _name(self, inputs: Inputs | Snapshot) -> Mapping[str, Any] | Snapshot:
        return inputs if isinstance(inputs, Snapshot) else self._setup.name(inputs)

    def _may_ask_model(self, start: Ready | Snapshot | None) -> bool:
        """Return whether a run from there may ask the model: one that only has to save its memory needs none."""
        begin = start.node if isinstance(start, Snapshot) else self._graph.start
        left = reachable(begin, [(edge.source, edge.target) for edge in self._graph.edges])
        nodes = [node for node in self._graph if node.name in left]
        return any(issubclass(effect, ModelEffect) for node in nodes for effect in node.effects)

    def _prepare(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        return named if self.agent.prepare is None else self.agent.prepare(named)
