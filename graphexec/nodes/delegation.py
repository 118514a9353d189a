"""Agents that work for an agent: `sub_agent`, `map_agents` and `handoffs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, final

from graphexec._arguments import DESCRIPTION, NAME, VARIABLE, validate, whole
from graphexec.actions import AgentFinish, Run, StoppedResponse
from graphexec.agents.calls import CallRules
from graphexec.agents.prompt import format_observation
from graphexec.effects import AGENT_TASKS, GraphResult, RunGraph, ToolResult
from graphexec.errors import AbandonedError, InputError, described, format_value
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import answer_of, single_input_key
from graphexec.executor.nodes import make_step
from graphexec.executor.outcomes import Acted, Ready, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, CallContext, ask_all
from graphexec.kernel.graph import M, change_table
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import END, Edge, Node, node
from graphexec.kernel.surgery import embed
from graphexec.nodes.tool_calls import read_calls
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.tools import AnyTool
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


def map_agents(
    executor: AgentExecutor,
    name: str = "research_all",
    description: str = "Work on several independent tasks at the same time. Each answer comes back under its task.",
    *,
    most: int = 8,
) -> Piece:
    """Give the model a tool `name(tasks)`, whose tasks are runs of `executor`, all of a reply at once.

    The observation lists each task with its answer. A task whose run was stopped or failed says so there, and the
    others keep their answers. A reply may have up to `most` tasks: further calls are answered with that limit.

        researcher = create_agent(model, [search], max_iterations=5)
        executor = create_agent(model, nodes=[map_agents(researcher)], max_model_calls=100)
        print(executor.run("Compare the populations of Paris, Rome and Oslo.").output)

    The runs are nested in the call as those of tools are, within the limits and the time of the run: all of them start,
    and each goes on until the run has nothing left. With a bound of c model calls for the executor, the agent's bound
    grows by `most * c` for each of its decisions. A resumed run keeps the answers that it has, and begins the other
    tasks again.

    Raises `InputError` for an executor with several inputs, and for invalid options; `UnprovedError` for an executor
    whose runs may not end.
    """
    validate(
        "map_agents", ("name", name, VARIABLE), ("description", description, DESCRIPTION), ("most", most, whole(1))
    )
    key = single_input_key(executor, "map_agents: the executor")
    verdict = executor.verify()
    verdict.require_proof()

    @tool(name=name, description=description)
    def called(tasks: list[str]) -> str:
        raise AssertionError(f"{len(tasks)} tasks have valid arguments, so the node has run them")

    offered = dataclasses.replace(called, nested=verdict.nested_runs(name, AGENT_TASKS.name))
    # The class has no fields of its own, so it stays a frozen dataclass.
    label = "".join(part.capitalize() for part in name.split("_"))
    kind: type[RunGraph] = type(label, (RunGraph,), {"__slots__": (), "__module__": __name__})

    @node(name=name, when_spent=limit_reached, asks=(0, most))
    def run_tasks(acted: Acted, rules: CallRules) -> Asks[RunGraph, Acted]:
        """Run the tasks of this reply at once."""
        tasks: dict[int, list[str]] = {}
        acted, calls = read_calls(acted, rules, offered)
        for place, arguments in calls.items():
            given: list[str] = arguments["tasks"]
            left = most - sum(map(len, tasks.values()))
            if not given:
                acted = acted.answer(place, ToolResult(f"{name} got no tasks; give at least one.", "bad_arguments"))
            elif len(given) > left:
                text = f"{name} takes at most {most} tasks in one turn; give fewer, and the others in the next turn."
                acted = acted.answer(place, ToolResult(text, "bad_arguments"))
            else:
                tasks[place] = given
        every = [task for several in tasks.values() for task in several]
        results = iter((yield from ask_all([kind({key: task}) for task in every])))
        for place, several in tasks.items():
            acted = acted.answer(place, _join([(task, next(results)) for task in several]))
        return acted

    runner = dataclasses.replace(run_tasks, effects=(kind,))
    return Piece(
        name,
        (runner,),
        tools=(offered,),
        handlers={kind: _make_handler(executor)},
        acts=True,
        ungated=ungated_tools(executor),
    )


def _make_handler(executor: AgentExecutor) -> Handler:
    """Return the handler that runs the executor, nested in the call."""

    async def answer(effect: RunGraph, call: CallContext[Any], io: IO) -> GraphResult:
        try:
            result = await io.either(
                lambda: executor.run(effect.inputs, context=call.context, host=call, run_id=str(call.id)),
                lambda: executor.arun(effect.inputs, context=call.context, host=call, run_id=str(call.id)),
            )
        except AbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - the failure of one run is no failure of the others
            return GraphResult(described(error), "failed", f"{type(error).__module__}.{type(error).__qualname__}")
        return GraphResult(answer_of(result), result.reason)

    context_types = executor.run_context.context_types(executor.graph)
    return Handler(answer, context_types=context_types, check_access=executor.check_access)


def _join(done: Sequence[tuple[str, GraphResult]]) -> ToolResult:
    """Return the observation of a call, which is an error only if no task has an answer."""
    texts: list[str] = []
    answers = 0
    for number, (task, result) in enumerate(done, 1):
        text = format_observation(result.output)
        if result.reason in ("finished", "return_direct"):
            answers += 1
        else:
            text = f"This task {'failed' if result.error else 'has no answer'}: {text}"
        texts.append(f"Task {number}: {task}\n{text}")
    return ToolResult("\n\n".join(texts), "ok" if answers else "error")


@final
@dataclass(frozen=True, slots=True)
class Handoff:
    """The run, and the name of the agent that continues it."""

    run: Run
    to: str


def handoffs(
    members: Mapping[str, AgentExecutor],
    *,
    handoffs: int = 3,
    iterations: int = 4,
    name: str = "handoffs",
    host: str = "host",
) -> Piece:
    """Return a piece with which agents hand the conversation over to each other: a swarm, or a supervisor's team.

    The agent that the piece is plugged into is the `host`, and `members` are others by name. Each of them gets a tool
    `transfer_to_NAME` for each other one. A member continues the conversation from the question and the steps so far,
    with its own model and tools and at most `iterations` iterations per turn; its answer is that of the run. Other
    calls in a reply that hands over are answered as not done. After that many `handoffs` in a run, one more stops it.

    If the agents ask their models once per iteration, a run makes at most i + handoffs * iterations model calls, where
    i is its limit on iterations.

        hotels = create_agent(model, [book_hotel])
        executor = create_agent(model, [book_flight], nodes=[handoffs({"hotels": hotels})])
        print(executor.run("A flight to Rome, and a hotel there.").output)

    Raises `InputError` for no members, invalid names, numbers below 1, and members whose tools cannot be changed.
    """
    validate("handoffs", ("handoffs", handoffs, whole(1)), ("iterations", iterations, whole(1)), ("name", name, NAME))
    # Users without a type checker pass a list of executors.
    given: Any = members
    if not isinstance(given, Mapping):
        raise InputError(f"handoffs has members={format_value(given)}; give a dict of executors by name")
    names = [host, *members]
    wrong = [one for one in names if not one.isidentifier() or names.count(one) > 1]
    if wrong or not members:
        raise InputError(f"handoffs has the members {names[1:]} and the host {host!r}; give each a name of its own")
    tools = {one: _transfer_tool(one) for one in names}
    turns = {one: _turn_class(one) for one in members}
    # The union of classes that exist only at run time.
    leads: Any = Union[(Ready, *turns.values())]
    passes = Meter(name, handoffs)

    def switch(handoff: Handoff) -> Any:
        """Pass the run on to the agent that continues it."""
        # The tools that a piece has selected are those of the agent that handed over.
        run = handoff.run.with_aside(tools=None)
        return Ready(run) if handoff.to == host else turns[handoff.to](run)

    switch.__annotations__["return"] = leads
    passing: Node[Any, Any] = node(name=f"switch_{name}", when_spent=limit_reached, meters=[passes])(switch)
    nodes: list[Node[Any, Any]] = [_transfer_node(f"transfer_{name}", members), passing]
    for one, executor in members.items():
        # Checked here: the member receives the inputs of the host's run.
        single_input_key(executor, f"handoffs: the member {one}")
        others = [other for other in names if other != one]
        # The tools of its pieces come with them.
        plugged = {one_tool.name for piece in executor.pieces for one_tool in piece.tools}
        own = [one_tool for label, one_tool in executor.tools.items() if label not in plugged]
        member = executor.with_tools([*own, *(tools[other] for other in others)])
        whole_graph = _with_transfer(member.graph, _transfer_node(f"transfer_{name}", others))
        turn = Meter("iterations", iterations)
        nodes.append(embed(whole_graph, one, own=[turn], enter=_entering(turns[one])))
    ungated = tuple(label for executor in members.values() for label in ungated_tools(executor))
    return Piece(name, tuple(nodes), tools=tuple(tools[one] for one in members), acts=True, ungated=ungated)


def _transfer_tool(name: str) -> AnyTool:
    def transfer() -> str:
        raise InputError(f"transfer_to_{name} is carried out by a node, and a node of yours called it; pass it on")

    return tool(name=f"transfer_to_{name}", description=f"Hand the conversation over to {name}.")(transfer)


@cache
def _turn_class(name: str) -> type[Any]:
    """Return the class of the outcome that leads to a member."""
    made = dataclasses.make_dataclass(f"Turn_{name}", [("run", Run)], frozen=True)
    made.__module__ = __name__
    return final(made)


def _entering(turn: type[Any]) -> Callable[[Any], Ready]:
    def enter(given: Any) -> Ready:
        """Begin a turn of this agent."""
        return Ready(given.run)

    enter.__annotations__["given"] = turn
    return enter


def _transfer_node(name: str, members: Sequence[str] | Mapping[str, object]) -> Node[Acted, Acted | Handoff]:
    """Return the node that hands over if the model asks for one of these agents."""
    # Without regard to case, as an executor may look its tools up: no other tool has such a name.
    by_tool = {f"transfer_to_{member}".casefold(): member for member in members}

    @node(name=name)
    def transfer(acted: Acted) -> Acted | Handoff:
        """Hand over if the model asks for it; other calls of the reply are not done."""
        chosen = next((place for place in acted.open if acted.actions[place].tool.casefold() in by_tool), None)
        if chosen is None:
            return acted
        to = by_tool[acted.actions[chosen].tool.casefold()]
        for place in acted.open:
            done = ToolResult(f"Handed over to {to}.")
            left = ToolResult(f"Not done: the conversation was handed over to {to}.", "rejected")
            acted = acted.answer(place, done if place == chosen else left)
        results = acted.with_results(()).results
        steps = [make_step(action, result) for action, result in zip(acted.actions, results, strict=True)]
        return Handoff(acted.run.with_steps(steps), to)

    return transfer


def _with_transfer(machine: M, transfer: Node[Any, Any]) -> M:
    """Return the machine with a node before the one that calls tools, behind all others that its actions pass."""
    home = "dispatch_tools"
    edges = [
        dataclasses.replace(edge, target=transfer.name) if (edge.outcome, edge.target) == (Acted, home) else edge
        for edge in machine.edges
    ]
    added = [Edge(transfer.name, Acted, home), Edge(transfer.name, Handoff, END.name)]
    return change_table(machine, [*machine, transfer], [*edges, *added])
