"""Agents with `invoke` or `plan`, such as LangChain's: their inputs, methods and config, and their decisions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field

import graphexec
from graphexec import AgentExecutor, AgentFinish, ParseError, Reported, Snapshot, tool
from graphexec.errors import AgentError, InputError, SnapshotError
from graphexec.integrations.langchain import runnable_agent
from graphexec.messages import AssistantMessage, ReplyDelta, ToolCall
from tests.executor.actors import echo, run_async, run_by, run_sync, scripted, snapshot_after
from tests.integrations.langchain import shapes as lc
from tests.parameters import cases

RUNS = cases("run", run_sync, run_async)


def executor(
    chain: Any, config: Callable[[Any], Any] | dict[str, Any] | None = None, *, stream: bool = True, **settings: Any
) -> AgentExecutor:
    return AgentExecutor(agent=runnable_agent(chain, config=config, stream=stream), tools=[echo], **settings)


ACT = lc.AgentAction("echo", "a", "I look.")
DONE = lc.AgentFinish({"output": "done"})
OURS = graphexec.AgentAction("echo", "a", "I look.")


@RUNS
@cases("decision", ACT, OURS, [ACT], (OURS,))
def test_runnable_decides_from_inputs_and_steps(run: Callable[..., Any], decision: Any) -> None:
    chain = lc.Invoked(decision, lc.AgentFinish({"output": "done"}, "I know."))
    finish = run(executor(chain)).ending
    assert isinstance(finish, AgentFinish)
    assert (finish.output, finish.log) == ("done", "I know.")
    first, second = chain.given
    assert first.pop("intermediate_steps") == []
    ((action, observation),) = second.pop("intermediate_steps")
    several: Any = decision
    decided: Any = several[0] if isinstance(decision, (list, tuple)) else decision
    assert (action is decided, observation) == (True, "a")
    assert first == second


@RUNS
def test_output_parser_exception_is_a_parse_error(run: Callable[..., Any]) -> None:
    chain = lc.Invoked(
        lc.OutputParserException("what?", "Say it again.", "hm"),
        lc.OutputParserException("?"),
        lc.AgentFinish({"output": 1}),
    )
    ended = run(executor(chain, handle_parsing_errors=True))
    assert [step.status for step in ended.steps] == ["parse_error", "parse_error"]
    assert ended.steps[0].observation == "Say it again."


@cases("error", ValueError("no"), OSError("no"), ParseError("no"))
def test_other_errors_are_raised_unchanged(error: Exception) -> None:
    with pytest.raises(type(error), match="no") as raised:
        executor(lc.Invoked(error)).run("q")
    assert raised.value is error or isinstance(error, ParseError)


class Blocking(lc.Invoked):
    """A runnable that can stream, but not on an event loop."""

    stream = lc.Chain.stream
    chunks = lc.Chain.chunks


class Awaited(lc.Invoked):
    """A runnable with one async method."""

    ainvoke = lc.Chain.ainvoke


class OnlyAwaited:
    """A runnable without a blocking method."""

    def __init__(self, *decisions: Any) -> None:
        inner = lc.Chain(*decisions)
        self.ainvoke, self.used = inner.ainvoke, inner.used


@cases(
    ("chain", "stream", "used"),
    (lc.Chain, True, ("stream", "astream")),
    (lc.Chain, False, ("invoke", "ainvoke")),
    (lc.Invoked, True, ("invoke", "invoke")),
    (Blocking, True, ("stream", "stream")),
    (Awaited, True, ("invoke", "ainvoke")),
    (OnlyAwaited, True, ("ainvoke", "ainvoke")),
)
def test_each_run_uses_its_own_method(chain: Any, stream: bool, used: tuple[str, str]) -> None:
    for run, method in zip((run_sync, run_async), used, strict=True):
        made = chain(ACT, DONE)
        assert run(executor(made, stream=stream)).output == "done"
        assert made.used == [method, method]


def test_async_run_awaits_on_its_own_loop() -> None:
    loops: list[object] = []

    async def look(inputs: dict[str, Any], config: Any = None) -> Any:
        loops.append(asyncio.get_running_loop())
        return DONE

    async def main() -> None:
        await executor(SimpleNamespace(ainvoke=look)).arun("q")
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())


@RUNS
@cases(
    ("chunks", "found"),
    (([ACT], lc.AgentAction("echo", "b", "")), ["a", "b"]),
    (([], [ACT], (), lc.AgentAction("echo", "b", "")), ["a", "b"]),
    (([], lc.AgentFinish({"output": "one"}, "")), []),
    ((lc.AgentFinish({"output": "a"}), lc.AgentFinish({"output": "b"})), "yielded AgentFinish 2 times; yield one"),
    ((ACT, lc.AgentFinish({"output": "a"})), "yielded an AgentFinish and actions; yield one AgentFinish"),
    ((), "yielded nothing; yield an AgentAction, a list of them, or an AgentFinish"),
)
def test_streamed_chunks_are_one_decision(run: Callable[..., Any], chunks: Any, found: Any) -> None:
    chain = executor(lc.Chain(chunks, (DONE,)))
    if isinstance(found, list):
        assert [step.observation for step in run(chain).steps] == found
        return
    with pytest.raises(AgentError, match=f"^the agent Chain {found}"):
        run(chain)


@RUNS
def test_config_reaches_every_call(run: Callable[..., Any]) -> None:
    chain = lc.Chain(ACT, DONE)
    config = {"tags": ["mine"], "configurable": {"user": 1}, "metadata": {"shop": 7}}
    run(executor(chain, config), run_id="monday")
    assert [(one["tags"], one["configurable"]) for one in chain.configs] == [(["mine"], {"user": 1})] * 2
    assert [one["metadata"] for one in chain.configs] == [
        {"shop": 7, "graphexec_run_id": "monday", "graphexec_call_id": f"monday/{number}.0"} for number in (1, 3)
    ]
    # It may depend on the context.
    chain = lc.Chain(DONE)
    run(executor(chain, lambda call: {"configurable": {"session_id": call.context}}), context="ada")
    assert chain.configs[0]["configurable"] == {"session_id": "ada"}


@cases("wrong", ["callbacks"], "tags", 3)
def test_invalid_config_is_refused(wrong: Any) -> None:
    message = r"^the config is .*; give a dict such as \{'callbacks': \[...\], 'tags': \[...\]\}, or a function"
    with pytest.raises(InputError, match=message):
        runnable_agent(lc.Chain(), config=wrong)
    with pytest.raises(InputError, match=message):
        executor(lc.Chain(), lambda _: wrong).run("q")


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match=r"^agent is an executor, .*; run it as it is, or pass executor\.as_tool\("):
        executor(executor(lc.Chain()))
    wrong: list[Any] = [scripted(AgentFinish({})), lc.Chain, None]
    for one in wrong:
        with pytest.raises(InputError, match=r"^the runnable is .*; give an object with invoke or plan, of"):
            runnable_agent(one)
    # A chain of LangChain is not called as a function is.
    chains: list[Any] = [OldChain(), lc.Invoked()]
    for made in chains:
        with pytest.raises(
            InputError, match=r"^agent is .*; write runnable_agent\(runnable\), of graphexec\.integrations"
        ):
            AgentExecutor(agent=made, tools=[])


# Native tool calls.


def native(*arguments: dict[str, Any]) -> lc.AIMessage:
    """A message with a call of `echo` for each of the arguments."""
    fields: dict[str, Any] = {
        "tool_calls": [{"name": "echo", "args": one, "id": f"c{number}"} for number, one in enumerate(arguments)],
        "additional_kwargs": {"signature": "s"},
        "a_field_of_its_own": 3,
    }
    return lc.AIMessage(content="I look.", **fields)


class ToolCalling(lc.Chain):
    """LangChain's tool-calling agent: it formats its steps as messages, and parses the next reply."""

    def decide(self, method: str, inputs: dict[str, Any], config: Any) -> Any:
        inputs = {**inputs, "messages": lc.format_to_tool_messages(inputs["intermediate_steps"])}
        reply = super().decide(method, inputs, config)
        return lc.calls(reply) if reply.tool_calls else lc.AgentFinish({"output": reply.content}, reply.content)


BLOCKS: Any = ["I ", {"type": "text", "text": "look."}, {"type": "thinking", "thinking": "Hm."}]


@cases("content", "I look.", BLOCKS)
def test_native_tool_call_has_its_id_and_message(content: Any) -> None:
    message = native({"text": "a"}).model_copy(update={"content": content})
    action = executor(ToolCalling(message, lc.AIMessage(content="done"))).run("q").steps[0].action
    assert action.call_id == "c0"
    assert action.message == AssistantMessage("I look.", (ToolCall("c0", "echo", '{"text": "a"}'),))


def test_resumed_native_calls_keep_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = ToolCalling(native({"text": "a"}, {"text": "b"}), OSError("crash"), lc.AIMessage(content="done"))
    text = snapshot_after(OSError, lambda: executor(chain).run("q"), match="crash").retried().to_json()
    resumed = executor(chain)
    ended = resumed.run(Snapshot.from_json(text, resumed.graph))
    assert (ended.output, [step.observation for step in ended.steps]) == ("done", ["a", "b"])
    assert Snapshot.from_json(text, resumed.graph).to_json() == text
    called, *results = chain.given[-1]["messages"]
    assert called == native({"text": "a"}, {"text": "b"})
    assert [(one.tool_call_id, one.content) for one in results] == [("c0", "a"), ("c1", "b")]
    monkeypatch.delattr(sys.modules[lc.ToolAgentAction.__module__], "ToolAgentAction")
    with pytest.raises(SnapshotError, match=r"shapes\.ToolAgentAction, which this program has not loaded"):
        resumed.run(Snapshot.from_json(text, resumed.graph))


class Weather(BaseModel):
    """A tool's result."""

    celsius: float = Field(serialization_alias="degrees")


FORGED = {"kind": "graphexec.image", "url": "https://example.org/a.png"}
DATA: list[Any] = [FORGED, {"kind": "graphexec.data", "data": FORGED}, {"kind": "graphexec.data"}, ["a"]]


@cases(("returned", "data"), (Weather(celsius=3.5), {"degrees": 3.5}), *(({"r": one}, {"r": one}) for one in DATA))
def test_runnable_gets_data_as_they_are(returned: Any, data: Any) -> None:
    @tool(name="echo")
    def look(text: str) -> Any:
        """Look."""
        return returned

    chain = lc.Invoked(ACT, DONE)
    AgentExecutor(agent=runnable_agent(chain), tools=[look]).run("q")
    assert chain.given[1]["intermediate_steps"] == [(ACT, data)]


def test_long_observation_is_cut_for_a_runnable() -> None:
    chain = lc.Invoked(lc.AgentAction("echo", "x" * 99, ""), DONE)
    executor(chain, max_observation=10).run("q")
    assert [seen for _, seen in chain.given[1]["intermediate_steps"]] == [
        "x" * 10 + "\n[... 89 more characters were cut; ask for less]"
    ]


# Objects with `plan`.


class Planning:
    """LangChain's agents before runnables: the steps by position, the inputs by name."""

    input_keys = ("input", "city")

    def __init__(self, *decisions: Any) -> None:
        self.inner = lc.Invoked(*decisions)

    def plan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
        return self.inner.decide("plan", {**inputs, "intermediate_steps": intermediate_steps}, callbacks)

    async def aplan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
        return self.inner.decide("aplan", {**inputs, "intermediate_steps": intermediate_steps}, callbacks)


@cases("method", "plan", "aplan")
def test_object_with_plan_is_an_agent(method: str) -> None:
    planning: Any = Planning([ACT, ACT], DONE)
    made = executor(planning, {"callbacks": ["mine"]})
    inputs = {"input": "q", "city": "Oslo"}
    result = made.run(inputs) if method == "plan" else asyncio.run(made.arun(inputs))
    assert (result.output, len(result.steps)) == ("done", 2)
    assert planning.inner.used == [method, method]
    assert planning.inner.given[0] == {**inputs, "intermediate_steps": []}
    assert planning.inner.configs == [["mine"], ["mine"]]
    with pytest.raises(InputError, match="the inputs lack city"):
        made.run({"input": "q"})


# Tokens of the models within a runnable.


class Speaking(lc.Chain):
    """A runnable whose model streams a text and a tool call to LangChain's callbacks."""

    def chunks(self, method: str, inputs: dict[str, Any], config: Any) -> Any:
        for handler in config.get("callbacks", ()):
            handler.on_llm_start({}, ["prompt"])
            handler.on_llm_new_token("Let me ")
            handler.on_llm_new_token([{"type": "text", "text": "look."}])
            part = {"name": "echo", "args": '{"te', "id": "c0", "index": 1}
            handler.on_llm_new_token("", chunk=SimpleNamespace(message=SimpleNamespace(tool_call_chunks=[part])))
        return super().chunks(method, inputs, config)


PIECES = [ReplyDelta("Let me "), ReplyDelta("look."), ReplyDelta(index=1, call_id="c0", name="echo", arguments='{"te')]


def test_tokens_of_a_runnable_are_reported() -> None:
    for way in ("stream", "astream"):
        events = run_by(way, executor(Speaking(DONE)), tokens=True)
        assert [event.news for event in events if isinstance(event, Reported)] == PIECES


class Manager:
    """LangChain's manager of callbacks."""

    def __init__(self, *handlers: object) -> None:
        self.handlers = [*handlers]

    def copy(self) -> Manager:
        return Manager(*self.handlers)

    def add_handler(self, handler: object) -> None:
        self.handlers.append(handler)


def test_users_callbacks_are_kept() -> None:
    mine, manager = object(), Manager()
    for given, handlers in (([mine], 2), (manager, 1)):
        chain = lc.Chain(DONE)
        list(executor(chain, {"callbacks": given}).stream("q", tokens=True))
        callbacks = chain.configs[0]["callbacks"]
        assert len(getattr(callbacks, "handlers", callbacks)) == handlers
    assert manager.handlers == []
    # A listener is added only for pieces.
    chain = lc.Chain(DONE)
    executor(chain).run("q")
    assert "callbacks" not in chain.configs[0]


# Decisions that are none.

LOOP = "it runs a loop of its own, so it is no agent for an executor"


@cases(
    ("decision", "remedy"),
    (None, "return an AgentAction, a list of them, or an AgentFinish"),
    (3, "return an AgentAction"),
    ([3], "return an AgentAction"),
    ("Final Answer: 3", r"end it with an output parser: prompt \| model \| ReActSingleInputOutputParser\(\)"),
    (lc.AIMessage(content="3"), r"end it with an output parser: prompt \| model \| ToolsAgentOutputParser\(\)"),
    ({"output": "x"}, LOOP),
    ({"messages": []}, LOOP),
    ({"x": 1}, "return an AgentAction"),
)
def test_invalid_decision_names_runnable_and_remedy(decision: Any, remedy: str) -> None:
    with pytest.raises(AgentError, match=rf"^the agent Chain returned .*; {remedy}"):
        executor(lc.Chain(decision)).run("q")


class OldChain(lc.Chain):
    """A chain of LangChain before its runnables."""

    def __call__(self, inputs: Any) -> Any:
        raise AssertionError("LangChain's chains are not agent functions")


def test_callable_object_is_invoked_and_functions_need_no_module() -> None:
    def invoke(inputs: dict[str, Any], /) -> lc.AgentFinish:
        return lc.AgentFinish({"output": inputs["input"]})

    for run in (run_sync, run_async):
        assert run(executor(OldChain(DONE))).output == "done"
        assert run(executor(SimpleNamespace(invoke=invoke))).output == "q"

    def decide(steps: Any, inputs: Any) -> AgentFinish:
        return AgentFinish({"output": "done"})

    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    nameless: Any = None
    decide.__module__ = shout.__module__ = nameless
    assert AgentExecutor(agent=decide, tools=[]).run("q").output == "done"
    assert tool(shout)("a") == "A"
