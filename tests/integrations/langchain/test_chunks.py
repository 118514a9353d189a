"""`stream_chunks`: a run as LangChain's chunks."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import graphexec as gx
import graphexec.executor as ex
from graphexec import kernel, models
from graphexec.actions import Run, Steps
from graphexec.effects import CallTool, ToolResult
from graphexec.integrations import langchain
from graphexec.messages import AssistantMessage, ModelReply, ToolMessage, UserMessage
from tests.executor.actors import act, answer, call, echo, make_executor, run_by, scripted, snapshot_after
from tests.kernel.machines import pure
from tests.parameters import cases
from tests.semantics.endings import noting_tool


def kinds(chunks: list[dict[str, Any]]) -> list[str]:
    return [next(iter(chunk)) for chunk in chunks]


both = cases("way", "stream_chunks", "astream_chunks")
# The chunks of a step with two actions.
TOGETHER, ONE_BY_ONE = ["actions", "actions", "steps", "steps"], ["actions", "steps", "actions", "steps"]


WAIT = act("wait", seconds="0.1")
HI, A, B = act("echo", text="hi"), act("echo", text="a"), act("echo", text="b")
EMPTY = [AssistantMessage("")]
STEP = [{"actions": [HI], "messages": EMPTY}, {"steps": [gx.AgentStep(HI, "hi")], "messages": [UserMessage("hi")]}]
STOPPED = "Agent stopped due to iteration limit or time limit."
SURE = gx.AgentFinish({"output": "42", "sure": True}, "I know")


@both
@cases(
    ("executor", "chunks"),
    (make_executor(HI, answer()), [*STEP, {"output": "done", "messages": EMPTY}]),
    (make_executor(HI, max_iterations=1), [*STEP, {"output": STOPPED, "messages": EMPTY}]),
    (
        make_executor(HI, answer(), return_intermediate_steps=True),
        [*STEP, {"output": "done", "intermediate_steps": [(HI, "hi")], "messages": EMPTY}],
    ),
    (make_executor(SURE), [{"output": "42", "sure": True, "messages": [AssistantMessage("I know")]}]),
)
def test_action_step_and_output_are_chunks(way: str, executor: gx.AgentExecutor, chunks: list[dict[str, Any]]) -> None:
    assert run_by(way, executor) == chunks


@gx.tool
async def wait(seconds: str) -> str:
    """Wait for so many seconds."""
    await asyncio.sleep(float(seconds))
    return seconds


CALLS = (call("echo", "c1", text="a"), call("echo", "c2", text="b"))
CALLED, RESULTS = ModelReply("", CALLS).message, [ToolMessage("c1", "a"), ToolMessage("c2", "b")]
ACT, DONE = "I look.\nAction: echo\nAction Input: a", "So.\nFinal Answer: 42"


@both
@cases(
    ("create", "replies", "sent"),
    (gx.create_tool_calling_agent, [[*CALLS], "done"], [CALLED, CALLED, *RESULTS, AssistantMessage("done")]),
    (gx.create_react_agent, [ACT, DONE], [AssistantMessage(ACT), UserMessage("a"), AssistantMessage(DONE)]),
)
def test_chunks_have_the_messages_of_the_agent(way: str, create: Any, replies: list[Any], sent: list[Any]) -> None:
    executor = gx.AgentExecutor(agent=create(models.ScriptedModel(replies), [echo]), tools=[echo])
    assert [chunk["messages"] for chunk in run_by(way, executor)] == [[one] for one in sent]


def test_resumed_step_emits_its_actions_again() -> None:
    failing = make_executor(act("fail", text="a"), handle_tool_errors="raise")
    snapshot = snapshot_after(ValueError, lambda: run_by("stream_chunks", failing), "no a")
    chunks = run_by("stream_chunks", make_executor(answer()), snapshot)
    assert kinds(chunks) == ["actions", "steps", "output"]


# ---- other nodes that dispatch or change steps


@dataclasses.dataclass(frozen=True)
class Delegate(gx.Effect[str]):
    """An effect that replaces a tool call."""

    action: gx.AgentAction


@gx.node(when_spent=ex.limit_reached)
def delegate(acted: ex.Acted) -> gx.Asks[Delegate, ex.Observed]:
    """Dispatch by another effect."""
    replies = yield from gx.ask_all([Delegate(action) for action in acted.actions])
    return ex.Observed(acted.run, acted.actions, tuple(map(ToolResult, replies)))


def observe(acted: ex.Acted) -> ex.Observed:
    """Dispatch without asking for an effect."""
    return ex.Observed(acted.run, acted.actions, tuple(ToolResult("seen") for _ in acted.actions))


@gx.node
def carry_out(acted: ex.Acted) -> ex.Ready:
    """Dispatch and add the steps in one node."""
    return ex.Ready(acted.run.with_steps([gx.AgentStep(action, "seen") for action in acted.actions]))


@gx.node
def observe_first(acted: ex.Acted) -> ex.Acted | ex.Observed:
    """Carry out the first action and pass on the rest."""
    first, *rest = acted.actions
    if not rest:
        return ex.Observed(acted.run, (first,), (ToolResult("seen"),))
    return ex.Acted(acted.run.with_steps([gx.AgentStep(first, "seen")]), tuple(rest))


@gx.node(when_spent=ex.limit_reached)
def call_first(acted: ex.Acted) -> gx.Asks[CallTool, ex.Acted | ex.Observed]:
    """Call the tool of the first action and pass on the rest."""
    first, *rest = acted.actions
    result = yield from gx.ask(CallTool(first.tool, first.tool_input, acted.run))
    if not rest:
        return ex.Observed(acted.run, (first,), (result,))
    return ex.Acted(acted.run.with_steps([gx.AgentStep(first, result.observation)]), tuple(rest))


LIMIT: Any = gx.on(ex.Stopped, ex.stopped_response)
OBSERVED: Any = gx.on(ex.Observed, ex.check_return_direct)


def dispatch_with(executor: gx.AgentExecutor, dispatch: Any, routes: Any, *more: Any) -> gx.AgentExecutor:
    """Return the executor with another node instead of `dispatch_tools`, its routes, and more rows."""
    rows: Any = (
        gx.edges(ex.plan, gx.on(ex.Replied, ex.parse) | LIMIT)
        | gx.edges(ex.parse, gx.on(ex.Acted, dispatch) | gx.on(ex.Ready, ex.plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(dispatch, routes)
        | gx.edges(ex.stopped_response, gx.on(gx.StoppedResponse, gx.END))
    )
    if more or any(way.target is ex.check_return_direct for way in routes.routes):
        rows |= gx.edges(ex.check_return_direct, gx.on(ex.Ready, ex.plan) | gx.on(gx.AgentFinish, gx.END))
    for row in more:
        rows |= row
    return executor.with_graph(gx.graph(rows, start=ex.plan))


@both
@cases(
    ("dispatch", "routes", "order"),
    (delegate, OBSERVED | LIMIT, TOGETHER),
    (gx.node(when_spent=ex.limit_reached, opaque=True)(observe), OBSERVED | LIMIT, TOGETHER),
    (gx.node(observe), OBSERVED, TOGETHER),
    (carry_out, gx.on(ex.Ready, ex.plan), TOGETHER),
    (observe_first, OBSERVED | gx.on(ex.Acted, observe_first), ONE_BY_ONE),
    (call_first, OBSERVED | LIMIT | gx.on(ex.Acted, call_first), TOGETHER),
)
def test_every_dispatching_node_emits_each_action(way: str, dispatch: Any, routes: Any, order: list[str]) -> None:
    # The same decision again is another step; an unreadable reply has no action.
    turns: Any = [A, A], [], [A, B], [A], answer()
    options: Any = {"handle_parsing_errors": True, "allow_nonterminating": True}
    handlers: dict[Any, Callable[[Delegate], str]] = {Delegate: lambda asked: asked.action.tool}
    executor = make_executor(*turns, handlers=handlers, **options)
    chunks = run_by(way, dispatch_with(executor, dispatch, routes))
    assert kinds(chunks) == [*order, "steps", *order, "actions", "steps", "output"]
    announced = [chunk["actions"][0] for chunk in chunks if "actions" in chunk]
    assert announced == [*turns[0], *turns[2], *turns[3]]
    carried_out = [chunk["steps"][0] for chunk in chunks if "steps" in chunk]
    assert [step.action for step in carried_out if step.status != "parse_error"] == announced


@gx.node(when_spent=ex.limit_reached)
def approve(acted: ex.Acted) -> gx.Asks[gx.AskHuman, ex.Acted]:
    """Leave out the second action, whatever the answer is."""
    yield from gx.ask(gx.AskHuman("All of them?"))
    return ex.Acted(acted.run, acted.actions[:1])


@gx.node(when_spent=ex.limit_reached)
def refuse(acted: ex.Acted) -> gx.Asks[gx.AskHuman, ex.Acted | ex.Observed]:
    """Leave out all but one action, and refuse that one instead of calling its tool."""
    yield from gx.ask(gx.AskHuman("All of them?"))
    first = acted.actions[:1]
    if len(acted.actions) == 1:
        return ex.Observed(acted.run, first, (ToolResult("refused"),))
    return ex.Acted(acted.run, first)


@both
@cases(
    ("guard", "routes"),
    (approve, gx.on(ex.Acted, ex.dispatch_tools)),
    (refuse, gx.on(ex.Acted, ex.dispatch_tools) | OBSERVED),
)
def test_approval_emits_only_approved_actions(way: str, guard: Any, routes: Any) -> None:
    handlers: dict[Any, Callable[[object], str]] = {gx.AskHuman: lambda asked: "no"}
    executor = make_executor([A, B], [A], answer(), handlers=handlers)
    chunks = run_by(way, executor.splice(gx.edges(guard, routes | LIMIT), after=ex.parse, on=ex.Acted))
    assert kinds(chunks) == [*["actions", "steps"] * 3, "output"]
    assert all(chunk.get("actions", [A]) == [A] for chunk in chunks)


brief = pure("brief", ex.Acted, ex.Ready, lambda acted: ex.Ready(Run({"input": "?", "outer": acted})))


@gx.node
def report(finish: gx.AgentFinish) -> ex.Observed:
    """Continue the outer run, in which the inner run was one call."""
    outer = finish.run.inputs["outer"]
    return ex.Observed(outer.run, outer.actions, (ToolResult(finish.output),))


def make_nested_executor(decide: Any) -> gx.AgentExecutor:
    """Return an executor whose tool calls are runs of the same agent, with the input `outer`."""
    executor = gx.AgentExecutor(agent=decide, tools=[echo], handle_parsing_errors=True)
    inner: Any = gx.embed(executor, "inner")
    return dispatch_with(
        executor,
        brief,
        gx.on(ex.Ready, inner),
        gx.edges(inner, gx.on(gx.AgentFinish, report) | gx.on(gx.StoppedResponse, gx.END)),
        gx.edges(report, gx.on(ex.Observed, ex.check_return_direct)),
    )


@both
@cases("outer_steps", 1, 2, 3)
@cases("inner_steps", 0, 1, 2, 3)
def test_each_step_of_an_embedded_agent_comes_once(way: str, outer_steps: int, inner_steps: int) -> None:
    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        inner = "outer" in inputs
        if len(steps) == (inner_steps if inner else outer_steps):
            return answer("inner" if inner else "done")
        return act("echo", text=f"{'inner' if inner else 'outer'} {len(steps)}")

    within = [f"inner {number}" for number in range(inner_steps)]
    expected = [text for number in range(outer_steps) for text in (*within, f"outer {number}")]
    executor = make_nested_executor(decide)
    chunks = run_by(way, executor)
    if not inner_steps:
        assert kinds(chunks) == [*["actions", "steps"] * outer_steps, "output"]
        assert [chunk["actions"] for chunk in chunks[:-1:2]] == [[act("echo", text=text)] for text in expected]
    steps = [step for chunk in chunks for step in chunk.get("steps", ())]
    assert [step.action for step in steps] == [act("echo", text=text) for text in expected]
    turns = [step for turn in langchain.iterate(executor, "q") for step in turn]
    assert [step.action for step in turns] == [act("echo", text=text) for text in expected]


@gx.node
def redact(ready: ex.Ready) -> ex.Ready:
    """Hide the tools' results."""
    steps = [dataclasses.replace(step, observation="hidden") for step in ready.run.steps]
    return ex.Ready(Run(ready.run.inputs, Steps(steps)))


forget = pure("forget", ex.Ready, ex.Ready, lambda ready: ex.Ready(Run(ready.run.inputs, Steps(ready.run.steps[-1:]))))


@gx.node(when_spent=ex.limit_reached)
def one_by_one(acted: ex.Acted) -> gx.Asks[CallTool, ex.Observed]:
    """Call the tools one after the other."""
    first, second = (CallTool(action.tool, action.tool_input, acted.run) for action in acted.actions)
    return ex.Observed(acted.run, acted.actions, ((yield from gx.ask(first)), (yield from gx.ask(second))))


@gx.tool(return_direct=True)
def finish(text: str) -> str:
    """Return the text as the answer."""
    return text


def spell(steps: Steps, inputs: dict[str, Any]) -> Any:
    """Say the letters from a to d, and look at the last step only."""
    last = steps[-1].observation if steps else ""
    return answer() if last == "d" else act("echo", text=chr(ord(last) + 1) if last else "a")


def after_steps(node: Any, agent: Any) -> gx.AgentExecutor:
    executor = gx.AgentExecutor(agent=agent, tools=[echo])
    return executor.splice(gx.edges(node, gx.on(ex.Ready, ex.plan)), after=ex.check_return_direct, on=ex.Ready)


@both
@cases(
    ("executor", "order"),
    # The same action twice in one turn, and again in the next one.
    (make_executor([WAIT, WAIT], [WAIT], answer(), tools=[wait]), [*TOGETHER, "actions", "steps"]),
    (after_steps(redact, scripted(A, A, answer())), ["actions", "steps"] * 2),
    (after_steps(forget, spell), ["actions", "steps"] * 4),
    (make_executor([A, B], answer()).replace(kernel.node(name="dispatch_tools")(one_by_one)), TOGETHER),
    (make_executor(act("finish", text="so"), tools=[finish]), ["actions", "steps"]),
)
def test_changed_steps_are_emitted_once(way: str, executor: gx.AgentExecutor, order: list[str]) -> None:
    assert kinds(run_by(way, executor)) == [*order, "output"]


@cases("dispatch", ex.dispatch_tools, kernel.node(name="dispatch_tools")(delegate))
def test_action_is_emitted_before_its_effect(dispatch: Any) -> None:
    note, ran = noting_tool()
    agent = scripted(act("note", text="x"), answer())
    executor = gx.AgentExecutor(agent=agent, tools=[note], handlers={Delegate: ran.append})
    chunks = langchain.stream_chunks(executor.replace(dispatch), "q")
    assert "actions" in next(chunks)
    assert ran == []
    chunks.close()
    assert ran == []
