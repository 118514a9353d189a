"""Section 3 of docs/semantics.md, row by row: what an executor does, and what its agents read and say."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import agents, errors
from graphexec.actions import Run, Steps
from graphexec.agents import tool_calling
from graphexec.integrations import langchain
from graphexec.messages import AssistantMessage, CompletionRequest, ModelReply, ToolCall, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from tests.drivers import FakeClock
from tests.executor import actors
from tests.executor.actors import HOW, Running, act, answer, echo, run_by, scripted
from tests.executor.test_memory_nodes import Diary
from tests.parameters import cases
from tests.semantics import endings
from tests.semantics.endings import A, B, C, run_agent, run_turns


def invoke(executor: gx.AgentExecutor, inputs: Any, **settings: Any) -> dict[str, Any]:
    """Invoke in both ways, which return the same."""
    # Any: with a store, it may be a `Waiting`.
    returned: Any = executor.invoke(inputs, **settings)
    assert asyncio.run(executor.ainvoke(inputs, **settings)) == returned
    outputs: dict[str, Any] = returned
    return outputs


# ---- 3.1 Construction


LANGCHAINS_DEFAULTS: dict[str, Any] = {
    "return_intermediate_steps": False,
    "max_iterations": 15,
    "max_execution_time": None,
    "early_stopping_method": "force",
    "handle_parsing_errors": False,
    "trim_intermediate_steps": -1,
    "memory": None,
    "verbose": False,
}


def test_own_fields_have_langchains_defaults() -> None:
    parameters = inspect.signature(gx.AgentExecutor).parameters
    defaults = {name: one.default for name, one in parameters.items()}
    assert {name: defaults[name] for name in LANGCHAINS_DEFAULTS} == LANGCHAINS_DEFAULTS
    assert [name for name, default in defaults.items() if default is inspect.Parameter.empty] == ["agent", "tools"]


def test_tools_are_copied_and_looked_up_by_exact_name() -> None:
    tools = [echo]
    executor = gx.AgentExecutor(agent=scripted(A, answer()), tools=tools)
    tools.clear()
    assert [step.observation for step in executor.run("q").steps] == ["a"]
    assert executor.tools == {"echo": echo}
    assert executor.tools["echo"] is echo
    with pytest.raises(KeyError):
        executor.tools["Echo"]


# ---- 3.2 Inputs and outputs


@HOW
def test_memory_failure_precedes_the_first_plan(run: Running) -> None:
    events: list[Any] = []
    memory = Diary(endings.raising(OSError("gone")))
    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[], memory=memory, observers=[events.append])
    with pytest.raises(OSError, match="gone"):
        run(executor)
    assert [type(event).__name__ for event in events] == ["Entered", "Asked", "Failed"]
    assert {event.node for event in events[:2]} == {"load_memory"}


def test_string_becomes_the_only_input() -> None:
    model = ScriptedModel(["Final Answer: 42"], repeat_last=True)
    agent = gx.create_react_agent(model, [], prompt="{tools}{tool_names}{agent_scratchpad}{question}")
    executor = gx.AgentExecutor(agent=agent, tools=[])
    assert invoke(executor, "why?") == {"question": "why?", "output": "42"}
    # A missing key is named.
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    with pytest.raises(errors.InputError) as raised:
        invoke(executor, {"question": "q"})
    assert raised.value.missing == ("input",)


def test_answer_may_have_no_output() -> None:
    assert invoke(gx.AgentExecutor(agent=scripted(gx.AgentFinish({})), tools=[]), {}) == {}


# ---- 3.3 Limits and stopping


def test_monotonic_clock_starts_with_the_run() -> None:
    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[], max_execution_time=5)
    assert executor.run_context.clock is time.monotonic
    clock = FakeClock(1_000_000)
    turns = langchain.iterate(actors.timed(executor, clock), "q")
    clock.advance(100)
    list(turns)
    assert turns.result.output == "done"


GENERATE: dict[str, Any] = {"max_iterations": 1, "early_stopping_method": "generate"}


# ---- 3.4 Parse errors


def saying(error: gx.ParseError) -> Any:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            return answer()
        raise error

    return decide


SENT = gx.ParseError("no", observation="Say it again.", llm_output="garbage")


def test_false_raises_with_error_and_remedy() -> None:
    with pytest.raises(gx.ParseError, match=r"^no; pass handle_parsing_errors=True") as raised:
        run_agent(saying(SENT))
    assert (raised.value.observation, raised.value.llm_output) == ("Say it again.", "garbage")


LOST = endings.raising(LookupError("of the user"))


@cases(
    ("run", "error", "message"),
    (lambda: run_agent(saying(SENT), handle_parsing_errors=LOST), LookupError, "of the user"),
    (lambda: run_agent(LOST, handle_parsing_errors=True), LookupError, "of the user"),
    # A parse error of the function that trims.
    (
        lambda: run_agent(scripted(answer()), trim_intermediate_steps=endings.raising(gx.ParseError("no"))),
        gx.ParseError,
        "no",
    ),
    (lambda: endings.run_replies(errors.ServerError("busy"), handle_parsing_errors=True), errors.ServerError, "busy"),
    # The one of a stopped run's last reply.
    (
        lambda: endings.run_replies(errors.ServerError("busy"), **dict[str, Any](GENERATE, max_iterations=0)),
        errors.ServerError,
        "busy",
    ),
)
def test_other_exceptions_are_not_parse_errors(run: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_user_tool_may_be_named_exception() -> None:
    mine, called = endings.noting_tool("_Exception", return_direct=True)
    result = run_agent(saying(SENT), tools=[mine], handle_parsing_errors=True)
    assert (result.outcome.output, called) == ("done", [])


# ---- 3.6 Tools


C_JSON = '{"text": "c"}'
REQUIRED = "echo was not called: text: Field required. Call it as echo(text: string)."
EXTRA = REQUIRED.replace("required.", "required; texd: Extra inputs are not permitted.")


@cases(
    ("actions", "tools", "results", "texts"),
    # The lookup is exact.
    ([act("echo ", text="a"), A], [echo], ["unknown_tool", "ok"], {1: "a"}),
    ([act("nope")], [], ["unknown_tool"], {0: "nope is not a valid tool, try one of []."}),
    # A tool takes its input by name or as a string.
    ([A, *(gx.AgentAction("echo", one) for one in ("b", C_JSON))], [echo], ["ok"] * 3, dict(enumerate("abc"))),
    # Invalid arguments do not call it.
    (
        [act("echo"), act("echo", text=["a"]), act("echo", texd="c")],
        [echo],
        ["bad_arguments"] * 3,
        {0: REQUIRED, 2: EXTRA},
    ),
)
def test_calls_have_these_observations(actions: Any, tools: Any, results: list[str], texts: dict[int, str]) -> None:
    result = run_turns(actions, answer(), tools=tools)
    assert (actors.statuses(result), result.outcome.output) == (results, "done")
    assert {at: actors.observations(result)[at] for at in texts} == texts


@pytest.mark.medium
@cases("value", 3, None, 1.5, ["a"], {"a": 1}, "")
def test_observation_is_the_unconverted_result(value: Any) -> None:
    @gx.tool
    def give() -> Any:
        """Give it."""
        return value

    result = run_turns(act("give"), answer(), tools=[give])
    assert actors.observations(result) == [value]
    assert type(actors.observations(result)[0]) is type(value)


# ---- 3.8 Memory


@cases("way", *actors.WAYS)
def test_memory_is_loaded_and_saved_once(way: str) -> None:
    memory = Diary()
    run_by(way, gx.AgentExecutor(agent=scripted(A, answer("42")), tools=[echo], memory=memory))
    a = "a" if way.startswith("a") else ""
    assert (memory.calls, memory.loaded) == ([f"{a}load", f"{a}save"], [{"input": "q"}])
    assert memory.saved == [({"input": "q", "before": "nothing"}, {"output": "42"})]


@HOW
def test_memory_saves_a_stop_but_not_an_error(run: Running) -> None:
    stopped, failed = Diary(), Diary()
    run(gx.AgentExecutor(agent=scripted(A), tools=[echo], memory=stopped, max_iterations=1))
    assert [name.removeprefix("a") for name in stopped.calls] == ["load", "save"]
    with pytest.raises(errors.AgentError):
        run(gx.AgentExecutor(agent=lambda steps, inputs: None, tools=[], memory=failed))
    assert [name.removeprefix("a") for name in failed.calls] == ["load"]


def test_memory_is_not_given_steps_or_messages() -> None:
    memory = Diary()
    executor = gx.AgentExecutor(agent=scripted(answer("42")), tools=[], memory=memory, return_intermediate_steps=True)
    list(langchain.stream_chunks(executor, "q"))
    executor.invoke("q")
    assert [outputs for _, outputs in memory.saved] == [{"output": "42"}] * 2
    # Iterating twice is two runs.
    memory = Diary()
    turns = langchain.iterate(gx.AgentExecutor(agent=scripted(answer("42")), tools=[], memory=memory), "q")
    list(turns)
    list(turns)
    assert memory.calls == ["load", "save"] * 2


def test_finish_contains_inputs_and_steps() -> None:
    assert run_turns(A, answer()).outcome.run == Run({"input": "q"}, Steps([gx.AgentStep(A, "a")]))


def two_steps(**options: Any) -> gx.AgentExecutor:
    # In turn, since of several at once the first to return is the first step.
    agent = scripted(A, [B, C], answer("42"))
    return gx.AgentExecutor(agent=agent, tools=[echo], tool_concurrency=1, **options)


# ---- 3.9 Callbacks: events and observers are what they are here


@HOW
def test_time_limit_events_answer_each_request(run: Running) -> None:
    events: list[gx.Event[Any]] = []
    model = actors.BlockingModel()
    agent = gx.create_react_agent(model, [])
    executor = gx.AgentExecutor(agent=agent, tools=[], max_execution_time=0.3, observers=[events.append])
    try:
        result = run(executor)
    finally:
        model.released.set()
    assert (result.output, result.reason, result.spent["model_calls"]) == (endings.STOPPED, "seconds", 1)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Entered", "Asked", "Answered", "Moved", "Entered", "Moved", "Done"]


# ---- 3.10 Iterator and streaming


def test_parse_error_chunk_has_a_step_and_no_action() -> None:
    executor = gx.AgentExecutor(agent=saying(SENT), tools=[], handle_parsing_errors=True)
    chunks = run_by("stream_chunks", executor)
    assert run_by("astream_chunks", executor) == chunks
    assert [sorted(chunk) for chunk in chunks] == [["messages", "steps"], ["messages", "output"]]
    assert chunks[0]["messages"] == [UserMessage("Say it again.")]
    assert [step.observation for step in chunks[0]["steps"]] == ["Say it again."]


@cases("seen", 0, 1, 2)
def test_resumed_stream_repeats_no_step(seen: int) -> None:
    executor = two_steps()
    pauses = [
        gx.Snapshot(event.node, event.value, spent=event.spent)
        for event in executor.stream("q")
        if isinstance(event, gx.Entered) and event.node == "plan"
    ]
    chunks = list(langchain.stream_chunks(executor, "q"))
    turns = [chunks, chunks[2:], chunks[6:]]
    assert list(langchain.stream_chunks(executor, pauses[seen])) == turns[seen]


def test_consumer_time_counts_against_the_limit() -> None:
    clock = FakeClock()
    chunks = langchain.stream_chunks(actors.timed(two_steps(max_execution_time=5), clock), "q")
    next(chunks)
    clock.advance(6)
    *_, last = chunks
    assert last["output"] == endings.STOPPED


def test_time_limit_spares_the_stream_consumer() -> None:
    async def consume() -> Any:
        last: Any = None
        past = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, past.set)
        async for one in langchain.astream_chunks(
            gx.AgentExecutor(agent=scripted(A), tools=[echo], max_execution_time=0.02), "q"
        ):
            last = one
            # The consumer awaits something else, until after the limit.
            await past.wait()
        return last

    assert asyncio.run(consume())["output"] == endings.STOPPED


ACTING = "I look.\nAction: echo\nAction Input: a"
BLOB = '{"action": "echo", "action_input": "a"}'
FENCED = f"Action:\n```\n{BLOB}\n```"
ASK, ANSWERED = "Follow up: how old?", ("\nIntermediate answer:",)

LINE, TABBED = ("\nObservation",), ("\nObservation:", "\n\tObservation:")
XML = "<tool>echo</tool><tool_input>a"
PREVIOUS = "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
CHAT_PAD = f"{PREVIOUS}{FENCED}\nObservation: a\nThought:"

# How it is made, what it says first, its stop words, and what its next prompt has of the step.
AGENTS: dict[str, tuple[Callable[..., gx.Agent], str, tuple[str, ...], str]] = {
    "react": (agents.create_react_agent, ACTING, LINE, f"{ACTING}\nObservation: a\nThought: "),
    "structured chat": (langchain.create_structured_chat_agent, FENCED, LINE, CHAT_PAD),
    "xml": (langchain.create_xml_agent, XML, ("</tool_input>",), f"{XML}</tool_input>\n<observation>a</observation>"),
    "self ask": (langchain.create_self_ask_agent, ASK, ANSWERED, f"{ASK}{ANSWERED[0]} how old?\n"),
    "zero shot": (langchain.create_mrkl_agent, ACTING, TABBED, f"{ACTING}\nObservation: a\nThought:"),
    "conversational": (langchain.create_conversational_agent, ACTING, TABBED, f"{ACTING}\nObservation: a\nThought:"),
    "chat": (langchain.create_chat_agent, FENCED, LINE, CHAT_PAD),
}


@cases("kind", *AGENTS)
def test_an_agent_has_its_stop_words_scratchpad_and_last_sentence(kind: str) -> None:
    make, text, stop, scratchpad = AGENTS[kind]
    tools: list[AnyTool] = [actors.search if kind == "self ask" else echo]
    model = ScriptedModel([text, "It is 42."])
    executor = gx.AgentExecutor(agent=make(model, tools), tools=tools, **GENERATE)
    result = executor.run({"input": "q", "chat_history": []})
    assert (type(result.ending), result.output, result.spent["model_calls"]) == (gx.StoppedResponse, "It is 42.", 2)
    first, last = model.requests
    assert first.stop == last.stop == stop
    shown = last.prompt if isinstance(last, CompletionRequest) else actors.messages(last)[-1].content
    assert scratchpad.rstrip() in shown
    assert shown.endswith(f"\n\n{endings.FINAL}")


def test_json_chat_stops_at_the_label() -> None:
    model = ScriptedModel([BLOB, '{"action": "Final Answer", "action_input": "done"}'])
    agent = langchain.create_json_chat_agent(model, [echo], tool_response="Got {observation}")
    gx.AgentExecutor(agent=agent, tools=[echo]).run("q")
    assert model.requests[1].stop == ("\nObservation",)
    assert actors.messages(model.requests[1])[-2:] == [AssistantMessage(BLOB), UserMessage("Got a")]


def test_tool_calling_renders_steps_as_messages() -> None:
    calls = (actors.call("echo", "c1", text="a"), actors.call("echo", "c2", text="b"))
    model = ScriptedModel([calls, ToolCall("c3", "echo", "{"), "done"])
    agent = gx.create_tool_calling_agent(model, [echo])
    gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors="Fix it!").run("q")
    assert model.requests[1].stop == ()
    assert actors.messages(model.requests[2])[2:] == [
        AssistantMessage("", calls),
        ToolMessage("c1", "a"),
        ToolMessage("c2", "b"),
        # A parse error, whose observation reaches the model.
        AssistantMessage("echo({)"),
        UserMessage("Fix it!"),
    ]


def test_a_native_call_has_langchains_log() -> None:
    decision: Any = tool_calling.read(ModelReply("I look.", (ToolCall("c", "f", '{"a": 1}'),)))
    assert decision[0].log == "\nInvoking: `f` with `{'a': 1}`\nresponded: I look.\n\n"
