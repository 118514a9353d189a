"""A sub-agent: calls of a tool that another executor, embedded in the machine, carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphexec._arguments import DESCRIPTION, NAME, validate, whole
from graphexec.actions import AgentFinish, Run, StoppedResponse
from graphexec.agents.calls import CallRules
from graphexec.agents.prompt import format_observation
from graphexec.effects import ToolResult
from graphexec.errors import InputError
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import single_input_key
from graphexec.executor.outcomes import Acted, Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import node
from graphexec.kernel.surgery import embed
from graphexec.nodes.tool_calls import read_calls
from graphexec.tools.tool import tool


@final
@dataclass(frozen=True, slots=True)
class Task:
    """A call of a sub-agent: the action at the first of these `places`, which are those of all calls that are left."""

    acted: Acted
    places: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class TaskDone:
    """The actions after a call of a sub-agent, which has an answer now."""

    acted: Acted


def sub_agent(executor: AgentExecutor, name: str, description: str, *, calls: int = 4, iterations: int = 3) -> Piece:
    """Return a piece whose tool `name(task)` is carried out by another executor, embedded in the machine.

    The executor keeps its model, tools, memory and handlers; its nodes are named `name.plan` and so on. Its calls are
    carried out one after the other, each a run of its own with at most `iterations` iterations. After `calls` calls,
    further ones are answered as "rejected". If a limit or a refusal stops the sub-agent, the model observes the reason,
    with the status "error". Other limits are those of the run.

    If both agents ask their models once per iteration, a run makes at most i + calls * iterations model calls, where i
    is its limit on iterations.

        research = create_agent(model, [search])
        executor = create_agent(model, [note], nodes=[sub_agent(research, "research", "Find out about a subject.")])
        print(executor.run("Why do elms die?").output)

    Raises `InputError` for invalid options, and for an executor that takes several inputs.
    """
    validate(
        "sub_agent",
        ("name", name, NAME),
        ("description", description, DESCRIPTION),
        ("calls", calls, whole(1)),
        ("iterations", iterations, whole(1)),
    )
    question = single_input_key(executor, f"sub_agent: the executor of {name}")

    @tool(name=name, description=description)
    def offered(task: str) -> str:
        raise InputError(f"{name} is carried out by a node, and a node of yours called it for {task!r}; pass it on")

    @node(name=f"take_{name}")
    def take_call(given: Acted | TaskDone, rules: CallRules) -> Task | Acted:
        """Take the next call of the sub-agent, if there is one."""
        acted, calls = read_calls(given.acted if isinstance(given, TaskDone) else given, rules, offered)
        return Task(acted, tuple(calls)) if calls else acted

    def reject(task: Task, _: Exhausted) -> Acted:
        """Answer all calls that are left, because the loop has to end here."""
        acted = task.acted
        for place in task.places:
            text = f"{name} was not called: a run may call it {calls} times, and has."
            acted = acted.answer(place, ToolResult(text, "rejected"))
        return acted

    @node(when_spent=reject, meters=[Meter(f"{name}_calls", calls)])
    def enter(task: Task) -> Ready:
        """Give the task to the sub-agent as its question."""
        return Ready(Run({question: offered.read(task.acted.actions[task.places[0]].tool_input)["task"]}))

    def leave(ending: AgentFinish | StoppedResponse, task: Task) -> TaskDone:
        """Answer the call with what the sub-agent says."""
        if isinstance(ending, AgentFinish):
            result = ToolResult(format_observation(ending.answer))
        else:
            text = f"{name} has no answer. {ending.reason}"
            result = ToolResult(f"{text} {ending.output}" if ending.generated else text, "error")
        return TaskDone(task.acted.answer(task.places[0], result))

    embedded = embed(executor, name, own=[Meter("iterations", iterations)], enter=enter, leave=leave)
    return Piece(
        name,
        (take_call, embedded),
        tools=(offered,),
        acts=True,
        ungated=ungated_tools(executor),
    )


def ungated_tools(executor: AgentExecutor) -> tuple[str, ...]:
    """Return the names of the tools that an executor may call, and that no piece of it gates."""
    gated = {name for piece in executor.pieces if piece.gates for name in piece.tool_names}
    reached = {*executor.tools, *(name for piece in executor.pieces for name in piece.ungated)}
    return tuple(sorted(reached - gated))
