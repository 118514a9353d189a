"""An embedded executor keeps its settings: its model, tools, memory and handlers answer its nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import pytest

import graphexec as gx
from graphexec import actions, effects, errors, kernel, memory, messages, models, runtime, testing
from graphexec.executor import AGENT_EXECUTOR, Acted, Ready, dispatch_tools, limit_reached
from graphexec.kernel.events import Done
from graphexec.runtime import handlers
from graphexec.runtime.io import run_sync
from tests.drivers import Script, run_script
from tests.kernel.machines import machine_of, pending


@gx.tool
def search(query: str) -> str:
    """Search the archive."""
    return f"Nothing about {query}."


@gx.tool(name="search")
def search_elsewhere(query: str) -> str:
    """Search another archive."""
    return f"A lot about {query}."


def brief(acted: Acted) -> Ready:
    return Ready(actions.Run({"input": str(acted.actions[0].tool_input)}))


def report(ending: gx.AgentFinish | gx.StoppedResponse, acted: Acted) -> Acted:
    return acted.answer(0, effects.ToolResult(ending.output))


START = Ready(actions.Run({"input": "q"}))
CALLS = "Action: search\nAction Input: elms"


def archivist(*replies: str, **options: Any) -> gx.AgentExecutor:
    """Return an executor with a model and a tool of its own."""
    agent = gx.create_react_agent(models.ScriptedModel([*replies]), [search_elsewhere])
    return gx.AgentExecutor(agent=agent, tools=[search_elsewhere], **options)


def delegating(inner: Any, **options: Any) -> gx.AgentExecutor:
    """Return an executor that hands its first call to another one."""
    agent = gx.create_react_agent(models.ScriptedModel([CALLS, "Final Answer: done"]), [search])
    delegate = gx.embed(inner, "inner", own=[gx.Meter("iterations", 2)], enter=brief, leave=report)
    return gx.AgentExecutor(agent=agent, tools=[search], nodes=[delegate], max_iterations=4, **options)


Answers: TypeAlias = dict[type[effects.AskHuman], Callable[[effects.AskHuman], str]]
ASKED = effects.AskHuman
OUTER: Answers = {ASKED: lambda _: "outer"}


def observations(executor: gx.AgentExecutor) -> list[Any]:
    return [step.observation for step in executor.run("q").steps]


class TestAnswers:
    def test_own_model_tools_and_memory(self) -> None:
        def script() -> Script[Ready, Any]:
            outer = delegating(archivist(CALLS, "Final Answer: I have found it"))
            return Script(outer.graph, START, outer.run_context)

        assert [step.observation for step in run_script(script).outcome.run.steps] == ["I have found it"]
        inner = archivist(CALLS, "Final Answer: found")
        assert observations(delegating(inner)) == ["found"]
        assert isinstance(inner.agent.model, models.ScriptedModel)
        assert "A lot about elms." in str(inner.agent.model.requests[1])
        agent = gx.create_tool_calling_agent(models.ScriptedModel(["remembered"]), [])
        inner = gx.AgentExecutor(agent=agent, tools=[], memory=memory.BufferMemory(as_messages=True))
        assert observations(delegating(inner)) == ["remembered"]
        assert "remembered" in str(inner.memory and inner.memory.load({"input": "q"}))

    def test_handlers_of_the_inner_machine_win(self) -> None:
        assert observations(delegating(asking("inner"), handlers=OUTER)) == ["inner"]
        assert observations(delegating(archivist("Final Answer: again")).with_handlers({})) == ["again"]
        inner = asking("")
        *others, own = inner.graph.settings
        bare = handlers.Handlers({kind: one for kind, one in inner.run_context.handlers.items() if kind is not ASKED})
        assert own == inner.run_context.handlers
        assert observations(delegating(inner.graph.with_settings(*others, bare), handlers=OUTER)) == ["outer"]

    def test_settings_of_a_node_are_kept(self) -> None:
        innermost = archivist("Final Answer: innermost")
        middle = delegating(innermost)
        assert observations(delegating(middle)) == ["done"]
        assert middle.graph["inner.plan"].settings is innermost.graph.settings
        assert delegating(middle).graph["inner.inner.plan"].settings is innermost.graph.settings
        assert all(one.settings is None for one in archivist().graph)
        assert delegating(AGENT_EXECUTOR).graph["inner.plan"].settings is None
        outer = delegating(archivist("Final Answer: found"))
        assert (
            outer.with_graph(machine_of(gx.embed(archivist("Final Answer: x").graph, "inner"))).run("q").output == "x"
        )

        @gx.node
        def look(acted: Acted) -> Acted:
            return acted

        changed = outer.splice(gx.edges(look, gx.on(Acted, dispatch_tools)), after=outer.graph["inner.leave"], on=Acted)
        assert observations(changed) == ["found"]


def asking(answer: str) -> gx.AgentExecutor:
    """Return an executor with a node that asks a person, whose answer is the agent's."""

    @gx.node(when_spent=limit_reached, asks=1)
    def consult(finish: gx.AgentFinish) -> gx.Asks[effects.AskHuman, gx.AgentFinish]:
        reply = yield from gx.ask(effects.AskHuman("Really?"))
        return gx.AgentFinish({"output": reply}, "", finish.run)

    answers: Answers = {ASKED: lambda _: answer}
    return archivist("Final Answer: x", handlers=answers).plug(consult)


class TestChecks:
    def test_access_to_own_models_is_checked(self) -> None:
        class Locked(models.ScriptedModel):
            def check_access(self) -> None:
                raise errors.InputError("no key")

        agent = gx.create_react_agent(Locked([]), [search])
        executor = delegating(gx.AgentExecutor(agent=agent, tools=[search]))
        with pytest.raises(errors.InputError, match="no key"):
            executor.run("q")
        assert executor.tools["search"].name == "search"

    def test_own_context_type_is_required(self) -> None:
        @gx.tool(name="search")
        def private(query: str, call: gx.CallContext[int]) -> str:
            """Search."""
            return str(call.context)

        agent = gx.create_react_agent(models.ScriptedModel([CALLS, "Final Answer: x"]), [private])
        executor = delegating(gx.AgentExecutor(agent=agent, tools=[private]))
        with pytest.raises(errors.InputError, match=r"takes CallContext\[int\]; pass run\(\.\.\., context=int"):
            executor.run("q")
        assert executor.run("q", context=3).output == "done"
        outer = gx.create_react_agent(models.ScriptedModel(["Final Answer: y"]), [executor.as_tool("ask", "Ask.")])
        asks = gx.AgentExecutor(agent=outer, tools=[executor.as_tool("ask", "Ask.")])
        with pytest.raises(errors.InputError, match=r"takes CallContext\[int\]"):
            asks.run("q")

    @pytest.mark.medium
    def test_all_machines_are_scripted_and_limited(self) -> None:
        testing.verify_termination(delegating(archivist()), examples=10)
        result = delegating(archivist(*[CALLS] * 2), max_model_calls=2).run("q")
        assert (result.reason, result.spent.meters["model_calls"]) == ("model_calls", 2)


class TestDelegation:
    def test_example_is_stored_at_every_step(self) -> None:
        """The run is read from JSON before each effect and before each reply."""
        executor = import_module("examples.delegation").executor
        lines = (
            "I need the archive.\nAction: research\nAction Input: elm trees",
            "Let me see.\nAction: search\nAction Input: elm",
            "Final Answer: The archive has nothing about elms.",
            "Final Answer: Nobody knows.",
        )
        replies = iter(lines)
        snapshot = gx.begin(executor.graph, Ready(actions.Run({"input": "Why do elms die?"})))
        frames: list[list[str]] = []
        while isinstance(state := gx.advance(executor.graph, snapshot, executor.limits), kernel.PendingEffect):
            paused = gx.Snapshot.from_json(state.snapshot.to_json(), executor.graph)
            assert paused.frames == state.snapshot.frames
            frames.append([*paused.frames])
            (call,) = state.calls
            if paused.node.endswith("plan"):
                answer: Any = messages.ModelReply(next(replies))
            else:
                assert call.effect is not None
                handler = executor.run_context.handlers_of(executor.graph)[call.node][type(call.effect)]
                answer = run_sync(handler.answer(call.effect, call, runtime.BLOCKING))
            reply = (answer,) if hasattr(state.effect, "effects") else answer
            snapshot = gx.Snapshot.from_json(state.reply(reply).to_json(), executor.graph)
        assert isinstance(state, Done)
        assert frames == [[], ["delegate"], ["delegate"], ["delegate"], []]
        assert state.outcome.output == "Nobody knows."
        assert [step.observation for step in state.outcome.run.steps] == ["The archive has nothing about elms."]

    def test_frame_holds_the_outer_run(self) -> None:
        executor = delegating(archivist(*["Final Answer: found"] * 2))
        first = pending(executor.graph, Ready(actions.Run({"input": "outer question"})), executor.limits)
        stored = pending(executor.graph, first.reply(messages.ModelReply(CALLS)), executor.limits).snapshot.to_json()
        assert json.loads(stored)["value"]["data"]["run"]["inputs"] == {"input": "elms"}
        assert json.loads(stored)["frames"]["inner"]["data"]["run"]["inputs"] == {"input": "outer question"}
        assert executor.run(gx.Snapshot.from_json(stored, executor.graph).retried()).output == "done"
