"""`stream_chunks`: a run as LangChain's chunks."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.effects import CallTool, ToolResult
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    LimitReached,
    Observed,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.executor.streams import ChunkBuilder
from graphexec.kernel import Entered, Moved, Spent, rename
from graphexec.messages import AssistantMessage, ModelReply, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from graphexec.testing.clock import on_loop_time, run_virtually
from tests.executor.actors import act, answer, call, echo, fail, scripted
from tests.parameters import cases


def collect_chunks(executor: gx.AgentExecutor, how: str, inputs: Any = "q") -> list[dict[str, Any]]:
    if how == "sync":
        return list(executor.stream_chunks(inputs))

    async def collect() -> list[dict[str, Any]]:
        return [chunk async for chunk in executor.astream_chunks(inputs)]

    return asyncio.run(collect())


both = cases("how", ["sync", "async"])


def make_executor(*turns: Any, **settings: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=scripted(*turns), tools=[echo, fail], **settings)


@both
def test_action_step_and_output_are_separate_chunks(how: str) -> None:
    action = act("echo", text="hi")
    assert collect_chunks(make_executor(action, answer()), how) == [
        {"actions": [action], "messages": [AssistantMessage("")]},
        {"steps": [gx.AgentStep(action, "hi")], "messages": [UserMessage("hi")]},
        {"output": "done", "messages": [AssistantMessage("")]},
    ]


@both
def test_actions_come_before_the_steps(how: str) -> None:
    first, second = act("echo", text="a"), act("fail", text="b")
    chunks = collect_chunks(make_executor([first, second], answer()), how)
    assert [next(iter(chunk)) for chunk in chunks] == ["actions", "actions", "steps", "steps", "output"]
    assert [chunk["actions"] for chunk in chunks[:2]] == [[first], [second]]
    assert sorted(chunk["steps"][0].status for chunk in chunks[2:4]) == ["error", "ok"]


@gx.tool
async def wait(seconds: str) -> str:
    """Wait for so many seconds."""
    await asyncio.sleep(float(seconds))
    return seconds


def seen_at(executor: gx.AgentExecutor, mode: str) -> dict[str, float]:
    """Return the time at which each tool's result is streamed, in seconds after the first chunk."""

    async def watched() -> dict[str, float]:
        found: dict[str, float] = {}
        began = None
        now = asyncio.get_running_loop().time
        async for item in (
            on_loop_time(executor).astream_chunks("q")
            if mode == "chunks"
            else on_loop_time(executor).astream("q", tokens=mode == "tokens")
        ):
            began = now() if began is None else began
            if isinstance(item, gx.Answered) and isinstance(item.effect, CallTool):
                found[item.reply.observation] = now() - began
            elif isinstance(item, dict):
                found |= {step.observation: now() - began for step in item.get("steps", ())}
        return found

    return run_virtually(watched())


@cases("mode", ["chunks", "events", "tokens"])
@cases("order", [("0.02", "0.5"), ("0.5", "0.02")])
def test_step_of_the_faster_tool_comes_first(mode: str, order: tuple[str, str]) -> None:
    turn = [act("wait", seconds=seconds) for seconds in order]
    executor = gx.AgentExecutor(agent=scripted(turn, answer()), tools=[wait])
    assert seen_at(executor, mode) == {"0.02": pytest.approx(0.02), "0.5": pytest.approx(0.5)}


def test_each_step_is_emitted_once() -> None:
    """The same action twice in one turn, and again in the next one."""
    action = act("wait", seconds="0.1")
    executor = gx.AgentExecutor(agent=scripted([action, action], [action], answer()), tools=[wait])
    chunks = collect_chunks(executor, "async")
    assert [next(iter(chunk)) for chunk in chunks] == [
        *["actions", "actions", "steps", "steps"],
        *["actions", "steps"],
        "output",
    ]


@gx.node
def hide_results(seen: Observed) -> Observed:
    """Hide the tools' results."""
    return dataclasses.replace(seen, results=tuple(ToolResult("hidden") for _ in seen.results))


@both
def test_changeable_steps_are_emitted_after_the_change(how: str) -> None:
    executor = make_executor([act("echo", text="a"), act("echo", text="b")], answer())
    spliced = gx.splice(
        executor.graph, gx.edges(hide_results, gx.on(Observed, check_return_direct)), after=dispatch_tools, on=Observed
    )
    chunks = collect_chunks(executor.with_graph(spliced), how)
    assert [chunk["steps"][0].observation for chunk in chunks if "steps" in chunk] == ["hidden", "hidden"]


@both
def test_parse_error_is_a_step_without_an_action(how: str) -> None:
    chunks = collect_chunks(make_executor([], answer(), handle_parsing_errors="what?"), how)
    assert [next(iter(chunk)) for chunk in chunks] == ["steps", "output"]
    assert chunks[0]["steps"][0].status == "parse_error"
    assert chunks[0]["messages"] == [UserMessage("what?")]


@both
def test_a_stopped_run_ends_with_its_output(how: str) -> None:
    chunks = collect_chunks(make_executor(act("echo", text="hi"), max_iterations=1), how)
    assert chunks[-1] == {
        "output": "Agent stopped due to iteration limit or time limit.",
        "messages": [AssistantMessage("")],
    }


@both
def test_last_chunk_has_the_steps_on_request(how: str) -> None:
    action = act("echo", text="hi")
    chunks = collect_chunks(make_executor(action, answer(), return_intermediate_steps=True), how)
    assert ["intermediate_steps" in chunk for chunk in chunks] == [False, False, True]
    assert chunks[-1]["intermediate_steps"] == [(action, "hi")]


@both
def test_last_chunk_has_return_values_and_log(how: str) -> None:
    finish = gx.AgentFinish({"output": "42", "sure": True}, "I know")
    assert collect_chunks(make_executor(finish), how) == [
        {"output": "42", "sure": True, "messages": [AssistantMessage("I know")]}
    ]


@both
def test_native_calls_keep_their_messages(how: str) -> None:
    model = ScriptedModel([[call("echo", "c1", text="a"), call("echo", "c2", text="b")], "done"])
    # One at a time, as concurrent tools are ordered by when they return.
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], tool_concurrency=1)
    chunks = collect_chunks(executor, how)
    message = ModelReply("", (call("echo", "c1", text="a"), call("echo", "c2", text="b"))).message
    assert [chunk["messages"] for chunk in chunks] == [
        [message],
        [message],
        [ToolMessage("c1", "a")],
        [ToolMessage("c2", "b")],
        [AssistantMessage("done")],
    ]


@gx.tool(return_direct=True)
def finish(text: str) -> str:
    """Return the text as the answer."""
    return text


@both
def test_step_comes_before_a_direct_answer(how: str) -> None:
    action = act("finish", text="so")
    executor = gx.AgentExecutor(agent=scripted(action), tools=[finish])
    assert [next(iter(chunk)) for chunk in collect_chunks(executor, how)] == ["actions", "steps", "output"]


def test_action_is_emitted_before_its_tool_runs() -> None:
    ran: list[str] = []

    @gx.tool
    def note(text: str) -> str:
        """Note it."""
        ran.append(text)
        return text

    chunks = gx.AgentExecutor(agent=scripted(act("note", text="x"), answer()), tools=[note]).stream_chunks("q")
    assert "actions" in next(chunks)
    assert ran == []
    chunks.close()
    assert ran == []


@gx.node
def one_by_one(acted: Acted) -> gx.Asks[CallTool, Observed]:
    """Call the tools one after the other."""
    first, second = acted.actions
    one = yield from gx.ask(CallTool(first.tool, first.tool_input, acted.run))
    other = yield from gx.ask(CallTool(second.tool, second.tool_input, acted.run))
    return Observed(acted.run, acted.actions, (one, other))


@both
def test_tools_called_in_turn_are_emitted_once(how: str) -> None:
    executor = make_executor([act("echo", text="a"), act("echo", text="b")], answer())
    slowly = gx.charged(when_spent=limit_reached)(rename(one_by_one, "dispatch_tools"))
    executor = executor.with_graph(gx.replace(executor.graph, slowly))
    keys = [next(iter(chunk)) for chunk in collect_chunks(executor, how)]
    assert keys == ["actions", "actions", "steps", "steps", "output"]


def test_resumed_step_emits_its_actions_again() -> None:
    executor = gx.AgentExecutor(
        agent=scripted(act("fail", text="a"), answer()), tools=[fail], handle_tool_errors="raise"
    )
    with pytest.raises(ValueError, match="no a") as caught:
        collect_chunks(executor, "sync")
    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[fail])
    keys = [next(iter(chunk)) for chunk in collect_chunks(executor, "sync", gx.snapshot_of(caught.value))]
    assert keys == ["actions", "steps", "output"]


@both
def test_new_steps_are_emitted_after_a_removal(how: str) -> None:
    @gx.node
    def forget(ready: Ready) -> Ready:
        return Ready(Run(ready.run.inputs, Steps(ready.run.steps[-1:])))

    model = ScriptedModel([*[f"Action: echo\nAction Input: {letter}" for letter in "abcd"], "Final Answer: so"])
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo])
    changed = gx.splice(executor.graph, gx.edges(forget, gx.on(Ready, plan)), after=check_return_direct, on=Ready)
    keys = [next(iter(chunk)) for chunk in collect_chunks(executor.with_graph(changed), how)]
    assert keys == [*["actions", "steps"] * 4, "output"]


@dataclasses.dataclass(frozen=True)
class Delegate(gx.Effect[str]):
    """An effect that replaces a tool call."""

    action: gx.AgentAction


@gx.charged(when_spent=limit_reached)
@gx.node
def delegate(acted: Acted) -> gx.Asks[Delegate, Observed]:
    """Dispatch by another effect."""
    replies = yield from gx.ask_all([Delegate(action) for action in acted.actions])
    return Observed(acted.run, acted.actions, tuple(map(ToolResult, replies)))


@gx.charged(when_spent=limit_reached)
@gx.opaque
def perform(acted: Acted) -> Observed:
    """Dispatch by arbitrary code."""
    return Observed(acted.run, acted.actions, tuple(ToolResult("seen") for _ in acted.actions))


@gx.node
def observe(acted: Acted) -> Observed:
    """Dispatch without asking for an effect."""
    return Observed(acted.run, acted.actions, tuple(ToolResult("seen") for _ in acted.actions))


@gx.node
def carry_out(acted: Acted) -> Ready:
    """Dispatch and add the steps in one node."""
    return Ready(acted.run.with_steps([gx.AgentStep(action, "seen") for action in acted.actions]))


@gx.node
def observe_first(acted: Acted) -> Acted | Observed:
    """Carry out the first action and pass on the rest."""
    first, *rest = acted.actions
    if not rest:
        return Observed(acted.run, (first,), (ToolResult("seen"),))
    return Acted(acted.run.with_steps([gx.AgentStep(first, "seen")]), tuple(rest))


@gx.charged(when_spent=limit_reached)
@gx.node
def call_first(acted: Acted) -> gx.Asks[CallTool, Acted | Observed]:
    """Call the tool of the first action and pass on the rest."""
    first, *rest = acted.actions
    result = yield from gx.ask(CallTool(first.tool, first.tool_input, acted.run))
    if not rest:
        return Observed(acted.run, (first,), (result,))
    return Acted(acted.run.with_steps([gx.AgentStep(first, result.observation)]), tuple(rest))


LIMIT: Any = gx.on(LimitReached, stopped_response)
OBSERVED: Any = gx.on(Observed, check_return_direct)
# Each dispatching node, its routes, and the chunks of a step with two actions.
TOGETHER, ONE_BY_ONE = ["actions", "actions", "steps", "steps"], ["actions", "steps", "actions", "steps"]
DISPATCHERS: dict[str, tuple[Any, Any, list[str]]] = {
    "own effect": (delegate, OBSERVED | LIMIT, TOGETHER),
    "opaque": (perform, OBSERVED | LIMIT, TOGETHER),
    "pure": (observe, OBSERVED, TOGETHER),
    "pure, to the plan": (carry_out, gx.on(Ready, plan), TOGETHER),
    "pure, one by one": (observe_first, OBSERVED | gx.on(Acted, observe_first), ONE_BY_ONE),
    "one by one": (call_first, OBSERVED | LIMIT | gx.on(Acted, call_first), ["actions", "actions", "steps", "steps"]),
}


def tool_of(asked: Delegate) -> str:
    return asked.action.tool


def replace_dispatcher(dispatch: Any, routes: Any, *turns: Any) -> gx.AgentExecutor:
    """Return an executor in which another node replaces `dispatch_tools`."""
    executor = gx.AgentExecutor(
        agent=scripted(*turns),
        tools=[echo, fail],
        handlers={Delegate: tool_of},
        handle_parsing_errors=True,
        allow_nonterminating=True,
    )
    rows: Any = (
        gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, stopped_response))
        | gx.edges(parse, gx.on(Acted, dispatch) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(dispatch, routes)
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END))
    )
    if any(way.target is check_return_direct for way in routes.routes):
        rows |= gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
    return executor.with_graph(gx.graph(rows, start=plan))


@both
@cases("kind", DISPATCHERS)
def test_every_dispatching_node_emits_each_action(how: str, kind: str) -> None:
    dispatch, routes, order = DISPATCHERS[kind]
    same = act("echo", text="a")
    # The same decision again is another step; an unreadable reply has no action.
    turns: Any = [same, same], [], [act("echo", text="a"), act("echo", text="b")], [same], answer()
    chunks = collect_chunks(replace_dispatcher(dispatch, routes, *turns), how)
    expected = [*order, "steps", *order, "actions", "steps", "output"]
    assert [next(iter(chunk)) for chunk in chunks] == expected
    announced = [chunk["actions"][0] for chunk in chunks if "actions" in chunk]
    assert announced == [*turns[0], *turns[2], *turns[3]]
    carried_out = [chunk["steps"][0] for chunk in chunks if "steps" in chunk]
    assert [step.action for step in carried_out if step.status != "parse_error"] == announced


@gx.charged(when_spent=limit_reached)
@gx.node
def approve(acted: Acted) -> gx.Asks[gx.AskHuman, Acted]:
    """Leave out the second action, whatever the answer is."""
    yield from gx.ask(gx.AskHuman("All of them?"))
    return Acted(acted.run, acted.actions[:1])


@gx.charged(when_spent=limit_reached)
@gx.node
def refuse(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | Observed]:
    """Leave out all but one action, and refuse that one instead of calling its tool."""
    yield from gx.ask(gx.AskHuman("All of them?"))
    first = acted.actions[:1]
    return Observed(acted.run, first, (ToolResult("refused"),)) if len(acted.actions) == 1 else Acted(acted.run, first)


@both
@cases("guard", [approve, refuse])
def test_approval_emits_only_approved_actions(how: str, guard: Any) -> None:
    first, second = act("echo", text="a"), act("echo", text="b")
    executor = gx.AgentExecutor(
        agent=scripted([first, second], [first], answer()), tools=[echo], handlers={gx.AskHuman: lambda asked: "no"}
    )
    routes: Any = gx.on(Acted, dispatch_tools) | gx.on(LimitReached, stopped_response)
    if guard is refuse:
        routes |= gx.on(Observed, check_return_direct)
    spliced = gx.splice(executor.graph, gx.edges(guard, routes), after=parse, on=Acted)
    chunks = collect_chunks(executor.with_graph(spliced), how)
    assert [next(iter(chunk)) for chunk in chunks] == [*["actions", "steps"] * 3, "output"]
    assert all(chunk.get("actions", [first]) == [first] for chunk in chunks)


@gx.node
def brief(acted: Acted) -> Ready:
    """Pass the actions to an embedded agent."""
    return Ready(Run({"input": "?", "outer": acted}))


@gx.node
def report(finish: gx.AgentFinish) -> Observed:
    """Continue the outer run, in which the inner run was one call."""
    outer = finish.run.inputs["outer"]
    return Observed(outer.run, outer.actions, (ToolResult(finish.output),))


def make_nested_executor(decide: Any) -> gx.AgentExecutor:
    """Return an executor whose tool calls are runs of the same agent, with the input `outer`."""
    executor = gx.AgentExecutor(agent=decide, tools=[echo], handle_parsing_errors=True)
    inner: Any = gx.embed(executor, "inner")
    rows: Any = (
        gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, stopped_response))
        | gx.edges(parse, gx.on(Acted, brief) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(brief, gx.on(Ready, inner))
        | gx.edges(inner, gx.on(gx.AgentFinish, report) | gx.on(gx.StoppedResponse, gx.END))
        | gx.edges(report, gx.on(Observed, check_return_direct))
        | gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END))
    )
    return executor.with_graph(gx.graph(rows, start=plan))


@both
def test_agent_as_dispatcher_emits_the_action(how: str) -> None:
    action = act("echo", text="a")

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        return answer("inner" if "outer" in inputs else "done") if steps or "outer" in inputs else action

    chunks = collect_chunks(make_nested_executor(decide), how)
    assert [next(iter(chunk)) for chunk in chunks] == ["actions", "steps", "output"]
    assert chunks[0]["actions"] == [action]


@both
@cases("outer_steps", [1, 2, 3])
@cases("inner_steps", [0, 1, 2, 3])
def test_each_step_of_an_embedded_agent_comes_once(how: str, outer_steps: int, inner_steps: int) -> None:
    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        inner = "outer" in inputs
        if len(steps) == (inner_steps if inner else outer_steps):
            return answer("inner" if inner else "done")
        return act("echo", text=f"{'inner' if inner else 'outer'} {len(steps)}")

    within = [f"inner {number}" for number in range(inner_steps)]
    expected = [text for number in range(outer_steps) for text in (*within, f"outer {number}")]
    executor = make_nested_executor(decide)
    steps = [step for chunk in collect_chunks(executor, how) for step in chunk.get("steps", ())]
    assert [step.action for step in steps] == [act("echo", text=text) for text in expected]
    turns = [step for turn in executor.iter("q") for step in turn]
    assert [step.action for step in turns] == [act("echo", text=text) for text in expected]


@gx.node
def redact(ready: Ready) -> Ready:
    """Hide the tools' results."""
    steps = [dataclasses.replace(step, observation="hidden") for step in ready.run.steps]
    return Ready(Run(ready.run.inputs, Steps(steps)))


@both
def test_changed_step_is_not_new(how: str) -> None:
    action = act("echo", text="a")
    executor = gx.AgentExecutor(agent=scripted(action, action, answer()), tools=[echo])
    rows: Any = gx.edges(redact, gx.on(Ready, plan))
    changed = executor.with_graph(gx.splice(executor.graph, rows, after=check_return_direct, on=Ready))
    chunks = collect_chunks(changed, how)
    assert [next(iter(chunk)) for chunk in chunks] == [*["actions", "steps"] * 2, "output"]


def test_action_is_emitted_before_its_own_effect() -> None:
    asked: list[Any] = []

    def answer_effect(effect: Delegate) -> str:
        asked.append(effect)
        return "seen"

    executor = gx.AgentExecutor(
        agent=scripted(act("echo", text="a"), answer()), tools=[echo], handlers={Delegate: answer_effect}
    )
    chunks = executor.with_graph(gx.replace(executor.graph, rename(delegate, "dispatch_tools"))).stream_chunks("q")
    assert "actions" in next(chunks)
    assert asked == []
    chunks.close()


def test_other_events_have_no_chunks() -> None:
    assert ChunkBuilder(AGENT_EXECUTOR).convert(Moved("plan", object(), "parse")) == []


def test_result_of_another_action_waits_for_its_step() -> None:
    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[echo])
    chunks = ChunkBuilder(executor.graph)
    action = act("echo", text="a")
    chunks.convert(Entered("dispatch_tools", Acted(Run({"input": "q"}), (action,)), Spent()))
    other = CallTool("echo", {"text": "b"})
    assert chunks.convert(gx.Answered("dispatch_tools", other, ToolResult("b"), 0.0, Spent())) == []
    step = gx.AgentStep(action, "a")
    (_, made) = chunks.convert(Entered("plan", Ready(Run({"input": "q"}, Steps([step]))), Spent()))
    assert made["steps"] == [step]
