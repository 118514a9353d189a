"""Changes of an executor's graph: spliced, replaced and wrapped nodes."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import graphexec as gx
from graphexec import effects, kernel, models
from graphexec import executor as ex
from graphexec.errors import GraphError, InputError, MissingHandlerError, UndeclaredOutcomeError
from graphexec.executor import AGENT_EXECUTOR, Acted, LimitReached, Ready, dispatch_tools, limit_reached, parse, plan
from graphexec.executor.result import Ending
from tests.executor import actors
from tests.executor.actors import act, answer, call, echo, observations, run_executor, scripted, statuses
from tests.parameters import cases
from tests.semantics.endings import noting_tool

HOW = cases("run", [actors.run_sync, actors.run_async])
Run = Callable[[gx.AgentExecutor], gx.RunResult]
Change = Callable[[gx.Graph[Ready, Ending]], gx.Graph[Ready, Ending]]
A, B = act("echo", text="a"), act("echo", text="b")


def executor_of(*turns: Any, change: Change | None = None, bound: bool = True, **options: Any) -> gx.AgentExecutor:
    """Return an executor, whose graph is changed before or after it is bound to the agent."""
    plain = gx.AgentExecutor(**{"agent": scripted(*turns), "tools": [echo], **options})
    return plain if change is None else plain.with_graph(change(plain.graph if bound else AGENT_EXECUTOR))


def agree(asked: gx.AskHuman) -> str:
    return "yes"


def refuse(asked: gx.AskHuman) -> str:
    return "no"


@gx.charged(when_spent=limit_reached)
@gx.node
def approve(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
    """Ask a person before the tools are called."""
    names = ", ".join(action.tool for action in acted.actions)
    if (yield from gx.ask(gx.AskHuman(f"Call {names}?"))) == "yes":
        return acted
    return gx.AgentFinish({"output": f"{names} was refused"}, "", acted.run)


LIMITED: Any = gx.on(Acted, dispatch_tools) | gx.on(LimitReached, ex.stopped_response)
APPROVED: Any = gx.edges(approve, LIMITED | gx.on(gx.AgentFinish, gx.END))


def behind_parse(rows: Any) -> Change:
    return lambda machine: gx.splice(machine, rows, after=parse, on=Acted)


add_approval = behind_parse(APPROVED)


@cases("handling", [True, False])
def test_every_driver_runs_a_guard_that_asks(handling: bool) -> None:
    def executor(person: Any) -> gx.AgentExecutor:
        options: dict[str, Any] = {"handlers": {gx.AskHuman: person}, "handle_parsing_errors": handling}
        return executor_of([A, B], answer(), change=add_approval, **options)

    yes = run_executor(lambda: executor(agree))
    assert yes.outcome.output == "done"
    assert observations(yes) == ["a", "b"]
    assert [effect.question for effect in yes.asked if isinstance(effect, gx.AskHuman)] == ["Call echo, echo?"]
    no = run_executor(lambda: executor(refuse))
    assert no.outcome.output == "echo, echo was refused"
    assert (no.spent["tool_calls"], no.spent["model_calls"]) == (0, 1)


def test_graph_may_be_changed_before_binding() -> None:
    options: dict[str, Any] = {"change": add_approval, "bound": False, "handlers": {gx.AskHuman: agree}}
    assert run_executor(lambda: executor_of(A, answer(), **options)).outcome.output == "done"


def test_original_executor_is_unchanged() -> None:
    plain = gx.AgentExecutor(agent=scripted(A, answer()), tools=[echo])
    guarded = plain.with_graph(add_approval(plain.graph))
    assert "approve" in guarded.graph
    assert "approve" not in plain.graph
    assert plain.run("q").output == "done"
    with pytest.raises(MissingHandlerError, match="no handler answers AskHuman; pass handlers="):
        guarded.run("q")


@HOW
@cases("kind", ["def", "async def"])
def test_unanswered_question_is_cut_at_the_deadline(run: Run, kind: str) -> None:
    released = threading.Event()

    def silent(asked: gx.AskHuman) -> str:
        released.wait(20)
        return "yes"

    async def silent_async(asked: gx.AskHuman) -> str:
        await asyncio.sleep(20)
        return "yes"

    handlers: Any = {gx.AskHuman: silent if kind == "def" else silent_async}
    result = run(executor_of(A, change=add_approval, handlers=handlers, max_execution_time=0.3))
    released.set()
    assert result.reason == "seconds"
    assert result.spent["tool_calls"] == 0


@gx.node
def say_so(reached: LimitReached) -> gx.StoppedResponse:
    """Stop with another text."""
    return gx.StoppedResponse(f"{len(reached.run.steps)} steps are enough", reached.limit, reached.run)


def test_stopped_response_may_be_replaced() -> None:
    def executor() -> gx.AgentExecutor:
        return executor_of(
            A, change=lambda graph: gx.replace(graph, kernel.rename(say_so, "stopped_response")), max_iterations=2
        )

    assert run_executor(executor).outcome.output == "2 steps are enough"


def first_only(acted: Acted) -> Acted:
    return dataclasses.replace(acted, actions=acted.actions[:1])


@cases("bound", [True, False])
def test_wrapped_node_sees_and_returns_changed_values(bound: bool) -> None:
    def executor() -> gx.AgentExecutor:
        model = models.ScriptedModel([(call("echo", "a", text="1"), call("echo", "b", text="2")), "done"])
        agent = gx.create_tool_calling_agent(model, [echo])
        return executor_of(agent=agent, bound=bound, change=lambda one: gx.wrap(one, dispatch_tools, before=first_only))

    assert observations(run_executor(executor)) == ["1"]


@cases("bound", [True, False])
def test_a_wrapped_parse_keeps_its_settings(bound: bool) -> None:
    def shortened(outcome: Acted | gx.AgentFinish | Ready) -> Acted | gx.AgentFinish | Ready:
        return first_only(outcome) if isinstance(outcome, Acted) else outcome

    options: dict[str, Any] = {"bound": bound, "change": lambda machine: gx.wrap(machine, parse, after=shortened)}
    result = run_executor(lambda: executor_of([A, B], answer(), handle_parsing_errors=True, **options))
    assert observations(result)[0] == "a"


@HOW
def test_blocking_users_node_is_cut_at_the_deadline(run: Run) -> None:
    released = threading.Event()

    @gx.charged(when_spent=limit_reached)
    @gx.opaque
    def audit(acted: Acted) -> Acted:
        released.wait(20)
        return acted

    result = run(executor_of(A, change=behind_parse(gx.edges(audit, LIMITED)), max_execution_time=0.3))
    released.set()
    assert result.reason == "seconds"


def test_metered_users_node_costs_iterations() -> None:
    @gx.metered(when_spent=limit_reached)
    @gx.node
    def count(acted: Acted) -> Acted:
        return acted

    change = behind_parse(gx.edges(count, LIMITED))
    result = run_executor(lambda: executor_of(A, change=change, max_iterations=5))
    assert statuses(result) == ["ok", "ok"]
    assert (result.spent.iterations, result.spent["model_calls"]) == (5, 3)


def test_with_graph_and_with_limits_go_together() -> None:
    plain, limits = executor_of(A, handlers={gx.AskHuman: agree}), gx.Limits(iterations=1)
    for guarded in (
        plain.with_graph(add_approval(plain.graph)).with_limits(limits),
        plain.with_limits(limits).with_graph(add_approval(plain.graph)),
    ):
        assert "approve" in guarded.graph
        assert guarded.run("q").spent.iterations == 1


def test_invalid_splice_names_the_remedy() -> None:
    machine = gx.AgentExecutor(agent=scripted(answer()), tools=[]).graph
    with pytest.raises(GraphError, match="parse has no edge for Ready; splice on one of Acted, AgentFinish"):
        gx.splice(machine, APPROVED, after=parse, on=Ready)
    # Type checkers reject this; at run time it raises an error.
    unchecked: Any = gx.edges
    incomplete = unchecked(approve, gx.on(Acted, dispatch_tools) | gx.on(gx.AgentFinish, gx.END))
    with pytest.raises(GraphError, match=r"approve may return LimitReached, which no edge takes; add on\(LimitReached"):
        gx.splice(machine, incomplete, after=parse, on=Acted)


def test_users_plan_may_replace_the_executors() -> None:
    @gx.metered(when_spent=limit_reached)
    @gx.node
    def hasty(ready: Ready) -> ex.Replied:
        return ex.Replied(ready.run, effects.Decided(answer("at once")))

    result = run_executor(lambda: executor_of(A, change=lambda graph: gx.replace(graph, kernel.rename(hasty, "plan"))))
    assert result.outcome.output == "at once"
    assert result.spent["model_calls"] == 0


@HOW
def test_undeclared_outcome_is_not_followed(run: Run) -> None:
    note, called = noting_tool()

    def lie(acted: Acted) -> Acted | gx.AgentFinish:
        undeclared: Any = Ready(acted.run)
        return cast("Acted", undeclared)

    rows = gx.edges(gx.node(lie), gx.on(Acted, dispatch_tools) | gx.on(gx.AgentFinish, gx.END))
    executor = executor_of(act("note", text="a"), tools=[note], change=behind_parse(rows))
    with pytest.raises(UndeclaredOutcomeError, match="lie returned a Ready, which its annotation does not declare"):
        run(executor)
    assert called == []


def test_executor_runs_its_graph() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(models.ScriptedModel([]), []), tools=[])
    assert [edge.target for edge in executor.graph.edges if edge.source == "plan"] == ["parse", "stopped_response"]
    assert not any("--Ready--> plan" in str(edge) for edge in executor.graph.edges if edge.source == "parse")
    handling = gx.AgentExecutor(agent=executor.agent, tools=[], handle_parsing_errors=True)
    assert any(str(edge) == "parse --Ready--> plan" for edge in handling.graph.edges)
    assert plan.name in executor.graph


def embed_in_graph(child: Any) -> gx.Graph[Ready, Ending]:
    """Return a graph that embeds another one."""
    inner: Any = gx.embed(child, "inner")
    return gx.graph(gx.edges(inner, gx.on(gx.AgentFinish, gx.END) | gx.on(gx.StoppedResponse, gx.END)), start=inner)


def take_their_plan(inner: gx.AgentExecutor, outer: gx.AgentExecutor) -> gx.Graph[Ready, Ending]:
    """Return the outer graph with the plan and the tool calls of the inner one."""
    calling: Any = inner.graph["dispatch_tools"]
    planning: Any = inner.graph["plan"]
    return gx.replace(gx.replace(outer.graph, calling), planning)


def take_their_guard(inner: gx.AgentExecutor, outer: gx.AgentExecutor) -> gx.Graph[Ready, Ending]:
    """Return the outer graph with a guard of the inner one."""
    guard: Any = inner.with_graph(add_approval(inner.graph)).graph["approve"]
    return gx.splice(outer.graph, gx.edges(guard, APPROVED.rows[0][1]), after=parse, on=Acted)


def keep(ready: Ready) -> Ready:
    return ready


# Ways to put nodes of another executor into the graph of this one, without the model and the tools that answer them.
WAYS: dict[str, Callable[[gx.AgentExecutor, gx.AgentExecutor], gx.Graph[Ready, Ending]]] = {
    "its graph": lambda inner, outer: embed_in_graph(inner.graph),
    "its changed graph": lambda inner, outer: embed_in_graph(gx.wrap(add_approval(inner.graph), plan, before=keep)),
    "twice": lambda inner, outer: embed_in_graph(embed_in_graph(inner.graph)),
    "not embedded": lambda inner, outer: inner.graph,
    "replaced nodes": take_their_plan,
    "spliced nodes": take_their_guard,
}


@gx.tool(name="echo")
def other_echo(text: str) -> str:
    """Return another text."""
    return "no"


# They do not know their tools, so an executor of theirs may have others.
AGENT, OTHER_AGENT = (
    dataclasses.replace(gx.create_react_agent(models.ScriptedModel(["Final Answer: done"] * 9), [echo]), tools=None)
    for _ in range(2)
)


def outer_executor(**changes: Any) -> gx.AgentExecutor:
    return executor_of(**{"agent": AGENT, "handlers": {gx.AskHuman: agree}, **changes})


DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "agent": ({"agent": OTHER_AGENT}, "another agent than"),
    "agent and tools": ({"agent": OTHER_AGENT, "tools": [other_echo]}, "another agent and other tools than"),
    "tools": ({"tools": [other_echo]}, "other tools than"),
    "fewer tools": ({"tools": []}, "other tools than"),
    "handlers": ({"handlers": {gx.AskHuman: refuse}}, "another handler of AskHuman than"),
    "handler of the model": ({"handlers": {effects.CallModel: refuse}}, "another handler of CallModel than"),
}


@cases("difference", DIFFERENCES)
@cases("way", WAYS)
def test_nodes_of_a_different_executor_are_refused(way: str, difference: str) -> None:
    settings, problem = DIFFERENCES[difference]
    inner, outer = outer_executor(**settings), outer_executor()
    with pytest.raises(InputError, match=rf"bound to {problem} this .* embed\(inner, name\)"):
        outer.with_graph(WAYS[way](inner, outer))


@cases("way", WAYS)
def test_nodes_of_an_equal_executor_are_run(way: str) -> None:
    inner, outer = outer_executor(max_iterations=3), outer_executor()
    assert outer.with_graph(WAYS[way](inner, outer)).run("q").output == "done"


def test_explicitly_bound_graph_runs_with_its_agent() -> None:
    machine = embed_in_graph(kernel.bind(AGENT_EXECUTOR, AGENT, ex.Policies()))
    assert outer_executor().with_graph(machine).run("q").output == "done"
    with pytest.raises(InputError, match=r"^inner\.plan, inner\.parse, .* are bound to another agent than"):
        outer_executor(agent=OTHER_AGENT).with_graph(machine)


def test_unbound_graph_runs_with_the_outer_agent() -> None:
    model = models.ScriptedModel(["Action: echo\nAction Input: a", "Final Answer: done"])
    agent = gx.create_react_agent(model, [other_echo])
    executor = executor_of(agent=agent, tools=[other_echo], bound=False, change=embed_in_graph)
    assert [step.observation for step in executor.run("q").steps] == ["no"]


def test_same_function_and_more_handlers_fit() -> None:
    decide = scripted(answer())
    inner, outer = (executor_of(agent=decide) for _ in range(2))
    assert outer.with_graph(embed_in_graph(inner)).run("q").output == "done"
    handling = executor_of(agent=inner.agent, handlers={gx.AskHuman: agree, effects.CallModel: agree})
    assert handling.with_graph(embed_in_graph(inner)).run("q").output == "done"
