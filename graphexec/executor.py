"""AgentExecutor, the front door: an agent and its tools, driven through the machine."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphexec.actions import AgentFinish, Run, StoppedResponse
from graphexec.agents import Agent, AgentFunction, callable_agent
from graphexec.drive import AT_ONCE, World, arun, astream, run, stream
from graphexec.edge import END
from graphexec.effects import CallAgent, CallModel, CallTool, Effect
from graphexec.errors import InputError, ParseError, UnprovedError
from graphexec.events import Event
from graphexec.graph import Graph
from graphexec.handlers import Answer, asking_agent, asking_model, handlers_for
from graphexec.limits import Limits
from graphexec.machine import AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR, Feedback, Ready
from graphexec.result import Ending, RunResult, result_of
from graphexec.snapshot import Snapshot
from graphexec.surgery import bind
from graphexec.tools import AnyTool, named
from graphexec.tools.calling import calling
from graphexec.waiting import wait_for_all

if TYPE_CHECKING:
    from graphexec.verify import Verdict

Inputs: TypeAlias = Mapping[str, Any] | str
ParsePolicy: TypeAlias = bool | str | Callable[[ParseError], str]

# What the model is told after a reply that cannot be read, if the parser does not know better: LangChain's text.
INVALID = "Invalid or incomplete response"


class AgentExecutor:
    """Runs an agent with its tools until it has an answer or a limit is spent.

    `executor.graph` is the machine that is run: draw it, extend it, test it. An executor holds no state of
    a run; it can be used again, and by several threads and tasks at once.

    Limits: `max_iterations` (plans), `max_execution_time` (seconds), `max_model_calls`, `max_tool_calls`, `max_tokens`,
    `max_fan_out` (tool calls of one step); `None` is no limit, 0 allows none. `handle_parsing_errors`: `False` raises a
    `ParseError`; `True`, a text or a function of the error tells the model and lets it try again. `tool_concurrency` is
    how many tools of one step run at a time. `handlers` answer the effects of nodes of your own:
    `{AskHuman: function}`. `return_intermediate_steps` adds the steps to what `invoke` returns;
    `early_stopping_method` is "force", the only one there is.

    An executor is made only if every run of its machine is proved to end within the limits (`verify` is the proof, and
    the engine holds each step to it); with `may_run_forever=True` it is made all the same.

    Raises `UnprovedError` for a machine that is not proved, `LimitsError` for a limit that is none,
    `ToolDefinitionError` for what is no tool or a name given twice, and `InputError` for any other option that cannot
    be.
    """

    __slots__ = (
        "_graph",
        "_may_run_forever",
        "_settings",
        "_verdict",
        "agent",
        "return_intermediate_steps",
        "tools",
        "world",
    )

    # The parameters are those that people know from LangChain's executor, and the limits it lacks.
    def __init__(  # noqa: PLR0913
        self,
        *,
        agent: Agent | AgentFunction,
        tools: Sequence[AnyTool],
        max_iterations: int | None = 15,
        max_execution_time: float | None = None,
        max_model_calls: int | None = None,
        max_tool_calls: int | None = None,
        max_tokens: int | None = None,
        max_fan_out: int | None = None,
        return_intermediate_steps: bool = False,
        handle_parsing_errors: ParsePolicy = False,
        early_stopping_method: Literal["force"] = "force",
        tool_concurrency: int = AT_ONCE,
        handlers: Mapping[type[Effect[Any]], Answer] | None = None,
        may_run_forever: bool = False,
    ) -> None:
        if early_stopping_method != "force":
            raise InputError(f"early_stopping_method is {early_stopping_method!r}; the only one there is is 'force'")
        if not isinstance(tool_concurrency, int) or tool_concurrency < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"tool_concurrency is {tool_concurrency!r}; give a whole number, 1 or more")
        if not isinstance(agent, Agent) and not callable(agent):
            raise InputError(f"agent is {agent!r}; make one with create_react_agent, say, or give a function")
        self.agent = agent if isinstance(agent, Agent) else callable_agent(agent)
        self.tools = named(tools)
        self.return_intermediate_steps = return_intermediate_steps
        limits = Limits(
            iterations=max_iterations,
            seconds=max_execution_time,
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            fan_out=max_fan_out,
        )
        answers = {**_answers(self.agent, self.tools), **(handlers or {})}
        self.world = World(handlers_for(answers), limits, tool_concurrency)
        table = STRICT_AGENT_EXECUTOR if handle_parsing_errors is False else AGENT_EXECUTOR
        self._settings = (self.agent, Feedback(_observation(handle_parsing_errors)))
        self._may_run_forever = may_run_forever
        self._prove(bind(table, *self._settings), limits)

    def _prove(self, graph: Graph[Ready, Ending], limits: Limits) -> None:
        """Take the machine and the limits, if every run ends within them or may as well not."""
        verdict = graph.verify(limits)
        if not verdict.proved and not self._may_run_forever:
            raise UnprovedError(verdict)
        self._graph = graph
        self._verdict = verdict
        ranks = verdict.certificate.ranks if verdict.certificate is not None else None
        self.world = dataclasses.replace(self.world, limits=limits, ranks=ranks)

    def __repr__(self) -> str:
        return f"<AgentExecutor with {', '.join(self.tools) or 'no tools'}: {self._graph!r}>"

    @property
    def graph(self) -> Graph[Ready, Ending]:
        """The machine itself, with this executor's agent in it."""
        return self._graph

    @property
    def limits(self) -> Limits:
        """What a run may spend."""
        return self.world.limits

    def with_graph(self, graph: Graph[Ready, Ending]) -> AgentExecutor:
        """Return the same executor with another machine: one made from `executor.graph` by surgery.

        Raises `InputError` if the machine does not start with `Ready`, or ends with anything but an `AgentFinish` or a
        `StoppedResponse`, and `UnprovedError` if a run of it may never end.
        """
        # Users without a type checker pass what they like.
        if not isinstance(graph, Graph) or Ready not in graph[graph.start].takes:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{graph!r} does not start with Ready; make it from executor.graph, with splice say")
        for edge in graph.edges:
            if edge.target == END.name and edge.outcome not in (AgentFinish, StoppedResponse):
                raise InputError(f"{edge} ends the run; end it with an AgentFinish or a StoppedResponse")
        changed = copy.copy(self)
        changed._prove(bind(graph, *self._settings), self.limits)
        return changed

    def with_limits(self, limits: Limits) -> AgentExecutor:
        """Return the same executor with exactly these limits: what they leave out is as `Limits` has it.

        Raises `UnprovedError` if a run may never end within them, and `LimitsError` for a budget that there is not.
        """
        changed = copy.copy(self)
        changed._prove(self._graph, limits)
        return changed

    def verify(self) -> Verdict:
        """The proof that every run ends within the limits, made when the executor was.

        With `may_run_forever`, it may be another verdict.
        """
        return self._verdict

    def run(self, inputs: Inputs | Snapshot) -> RunResult:
        """Run to the end, and return all there is to know about it. A stop does not raise.

        `inputs` by name, or the text of the only one; or a snapshot of this machine, to go on from there.

        Raises `InputError` for missing inputs, what the model raises (`ModelError`), what a tool raises that is told to
        raise, and a `ParseError` if they are not handled.
        """
        return result_of(run(self._graph, self._ready(inputs), self.world), self.limits)

    async def arun(self, inputs: Inputs | Snapshot) -> RunResult:
        """Run like `run`, on the running event loop."""
        return result_of(await arun(self._graph, self._ready(inputs), self.world), self.limits)

    def stream(self, inputs: Inputs | Snapshot) -> Generator[Event[Ending], None, None]:
        """Run and yield each event when it happens; the last is `Done`. The run goes on only while it is iterated."""
        return stream(self._graph, self._ready(inputs), self.world)

    def astream(self, inputs: Inputs | Snapshot) -> AsyncGenerator[Event[Ending], None]:
        """Run like `stream`, on the running event loop."""
        return astream(self._graph, self._ready(inputs), self.world)

    def invoke(self, inputs: Inputs) -> dict[str, Any]:
        """Run to the end and return the inputs with the answer under `output`: LangChain's shape.

        With `return_intermediate_steps`, the list of `(action, observation)` stands under `intermediate_steps`. Raises
        as `run` does.
        """
        return self._returned(inputs, self.run(inputs))

    async def ainvoke(self, inputs: Inputs) -> dict[str, Any]:
        """Run like `invoke`, on the running event loop."""
        return self._returned(inputs, await self.arun(inputs))

    def batch(
        self, many: Sequence[Inputs], *, max_concurrency: int | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Invoke for each of `many`, at most `max_concurrency` at a time, in threads; return the results in order.

        The first exception is raised, or with `return_exceptions` each stands in the place of its result.
        """

        def invoke(inputs: Inputs) -> Any:
            try:
                return self.invoke(inputs)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        _several(many)
        width = _width(max_concurrency)
        if not many:
            return []
        return list(wait_for_all([partial(invoke, one) for one in many], None, at_once=width))

    async def abatch(
        self, many: Sequence[Inputs], *, max_concurrency: int | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Invoke like `batch`, on the running event loop."""

        async def invoke(inputs: Inputs) -> Any:
            try:
                return await self.ainvoke(inputs)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        _several(many)
        # Before a coroutine is made that nobody would await.
        width = _width(max_concurrency)
        if not many:
            return []
        from graphexec.awaiting import await_all

        return list(await await_all([invoke(one) for one in many], None, at_once=width))

    def _ready(self, inputs: Inputs | Snapshot) -> Ready | Snapshot:
        if isinstance(inputs, Snapshot):
            return inputs
        named_inputs = self._named(inputs)
        missing = [key for key in self.agent.input_keys if key not in named_inputs]
        if missing:
            wanted = ", ".join(f"{key!r}: ..." for key in self.agent.input_keys)
            raise InputError(f"the inputs lack {', '.join(missing)}; pass {{{wanted}}}", missing=missing)
        return Ready(Run(named_inputs))

    def _named(self, inputs: Inputs) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        # Users without a type checker pass lists of messages, and None.
        if not isinstance(inputs, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the inputs are {inputs!r}; pass a dict of them by name, or the text of the only one")
        match self.agent.input_keys:
            case ():
                return {"input": inputs}
            case (key,):
                return {key: inputs}
            case keys:
                raise InputError(f"the agent has several inputs; pass a dict with {', '.join(keys)} instead of a text")

    def _returned(self, inputs: Inputs, result: RunResult) -> dict[str, Any]:
        ending = result.ending
        values = ending.return_values if isinstance(ending, AgentFinish) else {"output": ending.output}
        returned = {**self._named(inputs), **values}
        if self.return_intermediate_steps:
            returned["intermediate_steps"] = [(step.action, step.observation) for step in result.steps]
        return returned


def _several(many: Sequence[Inputs]) -> None:
    # A text is a sequence of texts, and a dict looks like one.
    if isinstance(many, (str, Mapping)):
        raise InputError("batch takes several inputs; pass a list of them, or use invoke for one")


def _width(max_concurrency: int | None) -> int:
    if max_concurrency is not None and max_concurrency < 1:
        raise InputError(f"max_concurrency is {max_concurrency}; give 1 or more, or None for {AT_ONCE}")
    return max_concurrency or AT_ONCE


def _observation(policy: ParsePolicy) -> Callable[[ParseError], str]:
    """What the model is told of a parse error."""
    if isinstance(policy, str):
        return lambda _: policy
    if isinstance(policy, bool):
        return lambda error: error.observation or INVALID
    if not callable(policy):
        raise InputError(f"handle_parsing_errors is {policy!r}; give True, False, a text, or a function of the error")

    def observation(error: ParseError) -> str:
        told = policy(error)
        # Users without a type checker return what they like.
        if not isinstance(told, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handle_parsing_errors returned {told!r}; return the text that the model is told")
        return told

    return observation


def _answers(agent: Agent, tools: Mapping[str, AnyTool]) -> dict[type[Effect[Any]], Answer]:
    """Who answers what the five nodes ask: the model or the agent's function, and the tools."""
    answers: dict[type[Effect[Any]], Answer] = {CallTool: calling(tools)}
    if agent.model is not None:
        answers[CallModel] = asking_model(agent.model)
    if agent.function is not None:
        answers[CallAgent] = asking_agent(agent.function)
    return answers
