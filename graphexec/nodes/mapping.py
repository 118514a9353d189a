"""A piece that gives several tasks to runs of another executor at once: `map_agents`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from graphexec._arguments import DESCRIPTION, VARIABLE, validate, whole
from graphexec.agents.calls import CallRules
from graphexec.agents.prompt import format_observation
from graphexec.effects import AGENT_TASKS, GraphResult, RunGraph, ToolResult
from graphexec.errors import AbandonedError, described
from graphexec.executor.executor import AgentExecutor, answer_of, context_types_of
from graphexec.executor.inputs import single_input_key
from graphexec.executor.outcomes import Acted, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, CallContext, ask_all
from graphexec.kernel.node import node
from graphexec.nodes.sub_agents import ungated_tools
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.tools.tool import AnyTool, tool


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
    offered = dataclasses.replace(_make_tool(name, description), nested=verdict.nested_runs(name, AGENT_TASKS.name))
    # The class has no fields of its own, so it stays a frozen dataclass.
    label = "".join(part.capitalize() for part in name.split("_"))
    kind: type[RunGraph] = type(label, (RunGraph,), {"__slots__": (), "__module__": __name__})

    @node(name=name, when_spent=limit_reached, asks=(0, most))
    def run_tasks(acted: Acted, rules: CallRules) -> Asks[RunGraph, Acted]:
        """Run the tasks of this reply at once."""
        tasks: dict[int, list[str]] = {}
        for place in acted.open:
            action = acted.actions[place]
            found = rules.find_tool(action)
            if found is None or found.name != name or (given := _read_tasks(offered, action.tool_input)) is None:
                # The handler of tools explains invalid arguments to the model.
                continue
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
                lambda: executor.run(effect.inputs, context=call.context, host=call),
                lambda: executor.arun(effect.inputs, context=call.context, host=call),
            )
        except AbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - the failure of one run is no failure of the others
            return GraphResult(described(error), "failed", f"{type(error).__module__}.{type(error).__qualname__}")
        return GraphResult(answer_of(result), result.reason)

    return Handler(answer, context_types=context_types_of(executor), check_access=executor.check_access)


def _make_tool(name: str, description: str) -> AnyTool:
    @tool(name=name, description=description)
    def offered(tasks: list[str]) -> str:
        raise AssertionError(f"{len(tasks)} tasks have valid arguments, so the node has run them")

    return offered


# Any: the values of a call's arguments are JSON data.
def _read_tasks(offered: AnyTool, given: Any) -> list[str] | None:
    """Return the tasks of a call; `None` if its arguments are invalid."""
    try:
        tasks: list[str] = offered.read(given)["tasks"]
    except ValueError:
        return None
    return tasks


def _join(done: Sequence[tuple[str, GraphResult]]) -> ToolResult:
    """Return the observation of a call, which is an error only if no task has an answer."""
    texts = [f"Task {number}: {task}\n{_format(result)}" for number, (task, result) in enumerate(done, 1)]
    answered = any(_is_answer(result) for _, result in done)
    return ToolResult("\n\n".join(texts), "ok" if answered else "error")


def _is_answer(result: GraphResult) -> bool:
    return result.reason in ("finished", "return_direct")


def _format(result: GraphResult) -> str:
    text = format_observation(result.output)
    if _is_answer(result):
        return text
    return f"This task failed: {text}" if result.error else f"This task has no answer: {text}"
