"""One run of LangChain's agent and tools: what answers the effects of the machine, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_classic.agents.agent import ExceptionTool
from langchain_classic.agents.tools import InvalidTool
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.exceptions import OutputParserException
from langchain_core.tools import BaseTool
from langchain_core.utils.input import get_color_mapping

from graphexec.integrations.langchain.dropin.machine import (
    LANGCHAIN_EXECUTOR,
    CallLangChainTool,
    Pairs,
    PlanTurn,
    ToolReturn,
    ToolsChosen,
    TurnReady,
    TurnsFinished,
    TurnsStopped,
    prove,
)
from graphexec.integrations.langchain.dropin.tool_calls import call_tool
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Done
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.runtime.handlers import Handler, RunContext, RunOptions, handlers_for
from graphexec.runtime.io import IO
from graphexec.runtime.observers import OnEvent
from graphexec.runtime.stored import follow

if TYPE_CHECKING:
    from graphexec.verify import Verdict

# LangChain calls all tools of a turn at once.
_AT_ONCE = 1_000_000

_ADVICE = (
    "An output parsing error occurred. In order to pass this error back to the agent and have it try again, pass "
    "`handle_parsing_errors=True` to the AgentExecutor. This is the error: "
)


@dataclass(slots=True)
class Turns:
    """A run of an executor: its inputs and callbacks, which an iterator may change between two turns."""

    # Any: an `AgentExecutor`, of the module above this one; and what LangChain has protected or has not annotated.
    executor: Any
    inputs: Mapping[str, Any]
    manager: Any
    io: IO
    # The clock of a sync run stands still within a turn: as in LangChain, no limit stops a turn that has begun.
    now: float = field(init=False)
    # For an iterator: the steps that it has taken in, and its iterations then.
    seen: int = 0
    iterations: int = 0
    verdict: Verdict = field(init=False)
    # Whether LangChain's odd cases are kept.
    is_odd: bool = field(init=False)
    tools: dict[str, BaseTool] = field(init=False)
    colors: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.now = time.monotonic()
        self.change(self.executor, self.inputs)

    def change(self, executor: Any, inputs: Mapping[str, Any]) -> None:
        """Use another executor and other inputs from the next turn on."""
        self.executor, self.inputs = executor, inputs
        # An iterator may be given LangChain's own executor.
        self.is_odd = getattr(executor, "compat", "langchain") == "langchain"
        self.tools = {tool.name: tool for tool in executor.tools}
        self.colors = get_color_mapping([*self.tools], excluded_colors=["green", "red"])

    def prove(self) -> Verdict:
        """Return the verdict on the machine within the executor's limits, which may have changed."""
        return prove(self.executor.max_iterations, self.executor.max_execution_time)

    def follow(
        self, start: TurnReady | Snapshot, finish: Callable[[Done[Any]], Any], consumer: OnEvent | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Return the run from its start, as a coroutine."""
        self.verdict = verdict = self.prove()
        context = RunContext(_HANDLERS[self.io.blocking], verdict.limits, _AT_ONCE, proof=verdict.proof)
        if self.io.blocking and verdict.limits.seconds is not None:
            context = replace(context, clock=lambda: self.now)
        return follow(
            LANGCHAIN_EXECUTOR,
            start,
            context,
            self.io,
            consumer,
            tokens=False,
            options=RunOptions(self),
            finish=finish,
        )

    def finish_of(self, ending: TurnsFinished | TurnsStopped) -> AgentFinish:
        """Return LangChain's finish of a run that has ended."""
        agent, method = self.executor._action_agent, self.executor.early_stopping_method
        if isinstance(ending, TurnsStopped):
            stopped: AgentFinish = agent.return_stopped_response(method, [*ending.steps], **self.inputs)
            return stopped
        if ending.finish is None:
            return AgentFinish({(agent.return_values or ["output"])[0]: ending.steps[-1][1]}, "")
        if self.is_odd:
            return ending.finish
        # The steps and the messages are added to its values, and the agent may have kept it.
        return ending.finish.model_copy(update={"return_values": {**ending.finish.return_values}})

    def stopped_by(self, error: TimeoutError) -> TurnsStopped:
        """Return how LangChain ends an async run in which anything has timed out. Raises the error without `compat`."""
        if not self.is_odd:
            raise error
        state = snapshot_of(error)
        assert state is not None, "the run has attached it"
        spent = state.spent.seconds
        # Any: each node of the machine takes a value with steps.
        value: Any = state.value
        return TurnsStopped(value.steps, Exhausted("seconds", self.executor.max_execution_time or spent, spent))

    def child(self) -> Any:
        """Return the callbacks of a call."""
        return self.manager.get_child() if self.manager else None

    def read_decision(self, output: Any, steps: Pairs) -> ToolsChosen | TurnsFinished:
        """Return what the agent has decided. Raises `OutputParserException` for an empty list of actions."""
        if isinstance(output, AgentFinish):
            return TurnsFinished(steps, output)
        # LangChain raises the `TypeError` for another object here, too.
        actions = (output,) if isinstance(output, AgentAction) else tuple[AgentAction, ...](output)
        if not actions and self.is_odd:
            raise IndexError("list index out of range")
        if not actions:
            fault, remedy = "The agent returned an empty list of actions", "Decide on an action, or finish."
            raise OutputParserException(fault, observation=remedy, llm_output="[]", send_to_llm=True)
        return ToolsChosen(steps, actions, self.io.blocking, loses_results=self.is_odd)

    def explain(self, error: OutputParserException) -> AgentAction:
        """Return the action that stands for an output that cannot be read. Raises `ValueError` by the policy."""
        policy, text = self.executor.handle_parsing_errors, str(error)
        # Any: LangChain passes a dict of the tool's arguments on, too.
        observation: Any = policy
        if policy is False:
            raise ValueError(_ADVICE + text) from error
        if policy is True:
            observation = "Invalid or incomplete response"
            if error.send_to_llm:
                observation, text = str(error.observation), str(error.llm_output)
        elif not isinstance(policy, str):
            observation = policy(error)
        return AgentAction("_Exception", observation, text)


async def _ask_agent(effect: PlanTurn, call: CallContext[Turns], io: IO) -> ToolsChosen | TurnsFinished:
    turns = call.context
    agent = turns.executor._action_agent
    try:
        steps = turns.executor._prepare_intermediate_steps([*effect.steps])
        # Any: an output, or in an async run a coroutine.
        output: Any = (agent.plan if io.blocking else agent.aplan)(steps, callbacks=turns.child(), **turns.inputs)
        return turns.read_decision(output if io.blocking else await output, effect.steps)
    except OutputParserException as error:
        return ToolsChosen(effect.steps, (turns.explain(error),), in_turn=True, unreadable=True)


async def _call_tool(effect: CallLangChainTool, call: CallContext[Turns], io: IO) -> ToolReturn:
    turns, turn = call.context, effect.turn
    action, executor = turn.actions[effect.place], turns.executor
    named = turns.tools.get(action.tool)
    options, tool_input = {**executor._action_agent.tool_run_logging_kwargs()}, action.tool_input
    tool: BaseTool = named or InvalidTool()
    color = None if named is None else turns.colors[action.tool]
    if turn.unreadable:
        tool, color = ExceptionTool(), None
    elif named is None:
        tool_input = {"requested_tool_name": action.tool, "available_tool_names": [*turns.tools]}
    elif named.return_direct:
        options["llm_prefix"] = ""
    if turns.manager and io.blocking:
        turns.manager.on_agent_action(action, color="green")
    elif turns.manager and not turn.unreadable:
        await turns.manager.on_agent_action(action, color="green", verbose=executor.verbose)
    options |= {"verbose": executor.verbose, "color": color}
    observation = await call_tool(tool, tool_input, io, turns.child(), **options)
    if effect.place == len(turn.actions) - 1:
        turns.now = time.monotonic()
    return ToolReturn(action, observation, named is not None and named.return_direct)


# Whether a run is sync: then nothing runs in another thread.
_HANDLERS = {
    blocking: handlers_for(
        {
            PlanTurn: Handler(_ask_agent, instant=blocking),
            CallLangChainTool: Handler(_call_tool, instant=blocking),
        }
    )
    for blocking in (True, False)
}
