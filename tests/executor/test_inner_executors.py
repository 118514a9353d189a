"""Executors within another one, as a tool: their runs are nested in the run that calls it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, errors, models, testing
from graphexec.executor import Acted, dispatch_tools, parse
from graphexec.memory import BufferMemory
from graphexec.tools import AnyTool
from tests.executor import actors
from tests.executor.actors import HOW, Caller, Running, act, answer, call, caller_of, echo, make_executor
from tests.parameters import cases
from tests.traces import unpack_page


def make_inner(*replies: Any, **options: Any) -> gx.AgentExecutor:
    return caller_of(models.ScriptedModel(replies, repeat_last=True), echo, **options)


def make_outer(one: AnyTool, **options: Any) -> gx.AgentExecutor:
    names = dict.fromkeys(one.names, "hello")
    return make_executor(act(one.name, **names), answer(), tools=[one], **options)


def research(inner: gx.AgentExecutor) -> AnyTool:
    return inner.as_tool("research", "Find it out.")


def test_inputs_of_an_agent_are_arguments_of_its_tool() -> None:
    # The tool has the given name and description.
    one = research(make_inner("done"))
    facts = one.name, one.description, one.signature
    assert facts == ("research", "Find it out.", "research(input: string)")
    assert one.spec.parameters == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    executor = make_executor(act("research", question="?"), answer(), tools=[one])
    assert executor.run("q").steps[0].status == "bad_arguments"
    # An agent of a function takes one input.
    seen: list[Any] = []

    def agent(steps: Any, inputs: Any) -> Any:
        seen.append(inputs)
        return answer("found")

    one = research(gx.AgentExecutor(agent=agent, tools=[]))
    assert one.names == ("input",)
    assert make_outer(one).run("q").steps[0].observation == "found"
    assert seen == [{"input": "hello"}]
    # Each input of a prompt is an argument.
    model = models.ScriptedModel(["Final Answer: done"])
    react = gx.create_react_agent(model, [echo], prompt="{topic} for {reader} {agent_scratchpad} {tools} {tool_names}")
    one = gx.AgentExecutor(agent=react, tools=[echo]).as_tool("write", "Write about it.")
    assert sorted(one.names) == ["reader", "topic"]
    outer = make_executor(act("write", topic="tea", reader="kids"), answer(), tools=[one])
    assert outer.run("q").steps[0].observation == "done"
    assert "tea for kids" in str(model.requests[0])


@HOW
def test_inputs_of_a_memory_are_not_arguments(run: Running) -> None:
    memory = BufferMemory(key="past")
    model = models.ScriptedModel(["Final Answer: first", "Final Answer: second"])
    prompt = "{past} {input} {agent_scratchpad} {tools} {tool_names}"
    inner = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo], prompt=prompt), tools=[echo], memory=memory)
    one = inner.as_tool("talk", "Talk to it.")
    assert one.names == ("input",)
    assert [run(make_outer(one)).steps[0].observation for _ in range(2)] == ["first", "second"]
    assert "first" in str(model.requests[1])


STOPPED = "Agent stopped due to iteration limit or time limit."
FINISH = gx.AgentFinish({"answer": "yes", "why": "so"})


# The second inner run is stopped, and the third one has several outputs.
@HOW
@cases(
    ("make", "observation", "calls"),
    (lambda: make_inner(call("echo", text="a"), "found it"), "found it", 2),
    (lambda: make_inner(call("echo", text="a"), max_iterations=2), STOPPED, 2),
    (lambda: make_executor(FINISH, tools=[]), {"answer": "yes", "why": "so"}, 1),
)
def test_answer_is_the_observation(run: Running, make: Any, observation: object, calls: int) -> None:
    result = run(make_outer(research(make())))
    assert (result.steps[0].observation, result.steps[0].status, result.reason) == (observation, "ok", "finished")
    assert result.spent["model_calls"] == 2 + calls
    assert actors.replayed(result) == result.spent


@HOW
def test_error_of_the_inner_run_is_observed(run: Running) -> None:
    one = research(make_inner(gx.ModelError("overloaded")))
    (step,) = run(make_outer(one)).steps
    assert (step.status, step.error) == ("error", "graphexec.errors.ModelError")
    assert "overloaded" in step.observation
    with pytest.raises(gx.ModelError, match="overloaded"):
        run(make_outer(one, handle_tool_errors="raise"))


def test_async_run_uses_no_thread() -> None:
    threads: set[int] = set()

    @gx.tool
    async def see(text: str) -> str:
        """Note the thread."""
        threads.add(threading.get_ident())
        await asyncio.sleep(1)
        return text

    clock = testing.VirtualClock()
    inner = testing.on_loop_time(caller_of(Caller(answers_after=1), see), clock)
    outer = testing.on_loop_time(make_outer(research(inner), max_execution_time=5), clock)
    assert clock.run(outer.arun("q")).steps[0].observation == "hello"
    assert threads == {threading.get_ident()}
    assert clock.seconds == 1


@HOW
def test_tool_passes_the_context_on(run: Running) -> None:
    here = threading.get_ident()
    inner, seen = actors.look_by(lambda call: (call.context, threading.get_ident() == here))
    run(make_outer(research(inner)), context="ada")
    # A sync run stays in its thread.
    assert seen == [("ada", run is actors.run_sync)]


@HOW
@pytest.mark.parametrize("taker", ["tool", "handler", "node"])
def test_context_of_another_class_is_refused(run: Running, taker: str) -> None:
    """This is a bug in the program: it must not become an observation in the middle of a paid run."""
    asked: list[Any] = []

    @gx.tool
    def see(text: str, call: gx.CallContext[int]) -> str:
        """Note the context."""
        return text

    def see_effect(effect: effects.SaveMemory, call: gx.CallContext[int]) -> None: ...

    @gx.node
    def see_node(acted: Acted, call: gx.CallContext[int]) -> Acted:
        return acted

    def decide(steps: Any, inputs: Any) -> Any:
        asked.append(inputs)
        return answer()

    inner = caller_of(Caller(answers_after=1), see if taker == "tool" else echo)
    if taker == "handler":
        inner = inner.with_handlers({effects.SaveMemory: see_effect})
    if taker == "node":
        inner = inner.splice(gx.edges(see_node, gx.on(Acted, dispatch_tools)), after=parse, on=Acted)
    middle = make_outer(research(inner))
    outer = gx.AgentExecutor(agent=decide, tools=[middle.as_tool("ask", "Ask.")])
    with pytest.raises(gx.InputError, match=r"the run's context is a str, .* CallContext\[int\]"):
        run(outer, context="ada")
    assert asked == []
    assert run(outer, context=3).output == "done"


def test_executor_may_be_its_own_tool() -> None:
    model = Caller(answers_after=1)
    tools: list[AnyTool] = []

    @gx.tool
    def again(text: str, call: gx.CallContext[Any]) -> Any:
        """Ask again."""
        return tools[0].function(input=text, call=call)

    executor = caller_of(model, again, max_depth=3)
    tools.append(executor.as_tool("itself", "Ask itself."))
    assert executor.run("q").output == "Agent stopped due to depth limit."
    assert model.calls == 2 * 4


def test_nested_executor_is_drawn_and_documented(tmp_path: Path) -> None:
    outer = make_outer(research(make_inner("done")))
    assert "research" in repr(outer)
    assert "research" in unpack_page(outer.run("q").draw(tmp_path / "run.html").read_text("utf-8"))
    assert "dispatch_tools" in outer.draw(tmp_path / "flow.svg").read_text("utf-8")
    assert "the limits and the time" in (gx.AgentExecutor.as_tool.__doc__ or "")


@cases(
    ("name", "description", "wrong"),
    *((name, "Find it out.", "name") for name in ("", "  ", None, 3)),
    *(("research", text, "description") for text in ("", None, 3)),
)
def test_invalid_names_and_descriptions_are_refused(name: Any, description: Any, wrong: str) -> None:
    with pytest.raises(errors.ToolDefinitionError, match=f"as_tool has {wrong}="):
        make_inner("done").as_tool(name, description)


@cases("key", "call", "class", "my-topic")
def test_inputs_with_invalid_argument_names_are_refused(key: str) -> None:
    made = gx.chat_agent(lambda run: ..., lambda reply: ..., models.ScriptedModel(["done"]), input_keys=(key,))  # type: ignore[arg-type,return-value]  # pyright: ignore
    message = f"the input '{key}', an invalid argument name; rename the input"
    with pytest.raises(errors.ToolDefinitionError, match=message):
        research(gx.AgentExecutor(agent=made, tools=[]))


# ---- in general


def test_async_functions_of_nested_sync_runs_share_the_loop() -> None:
    loops: set[int] = set()

    @gx.tool(repeatable=True)
    async def connect() -> str:
        """Connect."""
        loops.add(id(asyncio.get_running_loop()))
        return "connected"

    inner = make_executor(act("connect"), answer(), tools=[connect])
    make_executor(
        act("connect"), act("research", input="x"), act("connect"), answer(), tools=[connect, research(inner)]
    ).run("q")
    assert len(loops) == 1
