"""Chat models, tools and agents of LangChain where ours are taken, and executors where its runnables are."""

# LangChain's types are wide, and some of its packages may be missing.
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

if find_spec("langchain_core") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool

from graphexec import (
    AgentAction,
    AgentExecutor,
    AgentFinish,
    create_agent,
    create_react_agent,
    create_tool_calling_agent,
    errors,
    models,
    nodes,
)
from graphexec.integrations import langchain
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, ToolCall, Usage, UserMessage
from graphexec.models.wrappers.wrapping import Price
from graphexec.runs import RunStoreError, SQLiteRuns
from graphexec.tools import tools_by_name
from tests.executor.actors import Running, run_async, run_sync
from tests.integrations.langchain.chat_models import Recording, Scripted, Streaming, add, adding, call, scripted
from tests.models.call_modes import MODES, Ask
from tests.models.pictures import ADDRESS, CAT
from tests.parameters import cases

pytestmark = pytest.mark.medium

RUNS = cases("run", run_sync, run_async)
# Any: the wrappers and pieces have no types for LangChain's models.
wrap: Any = models
plug: Any = nodes
chunk: Any = AIMessageChunk
agents: Any = langchain


def calling(model: Any, *tools: Any, **options: Any) -> AgentExecutor[Any]:
    return create_agent(model, tools or [add], kind="tool_calling", **options)


# ---- models


def unreachable(request: object) -> ModelReply:
    raise errors.ModelConnectionError("not there")


MODELS: list[Callable[[Scripted], Any]] = [
    lambda model: model,
    lambda model: model.bind(temperature=0.5),
    agents.LangChainModel,
    wrap.retrying,
    wrap.cached,
    lambda model: wrap.with_fallbacks(models.FunctionModel(unreachable), model),
    lambda model: wrap.routed(lambda _: "one", {"one": model}),
    lambda model: wrap.rate_limited(model, per_minute=60),
    lambda model: wrap.priced(model, Price(1.0, 1.0)),
]
PIECES: list[Callable[[Scripted], Any]] = [
    lambda model: plug.critic(model=model),
    lambda model: plug.select_tools(1, model=model),
    lambda model: plug.escalate(model, when=bool),
    lambda model: plug.compact(1, 1, model=model),
]


@RUNS
def test_chat_model_is_taken_as_it_is(run: Running) -> None:
    for make in MODELS:
        model = adding()
        assert run(calling(make(model))).output == "3"
        assert [tool["function"]["name"] for tool in model.bound[0]] == ["add"]
    for piece in PIECES:
        model, asked = scripted(*[AIMessage("OK")] * 9), [call("add", a=number, b=1) for number in range(3)]
        run(calling(scripted(*asked, AIMessage("3")), add, returning(3, "other"), nodes=[piece(model)]))
        assert model.given
    text = "<final_answer>3</final_answer> Final Answer: 3"
    for kind in (create_react_agent, create_tool_calling_agent, agents.create_xml_agent):
        agent = kind(scripted(AIMessage(text)), [add])
        assert "3" in str(run(AgentExecutor(agent=agent, tools=[add])).output)


@cases("ask", *MODES)
def test_model_of_text_is_taken_as_it_is(ask: Ask) -> None:
    agent: Any = create_react_agent(FakeListLLM(responses=["Final Answer: 3"]), [add])
    assert ask(agent.model, CompletionRequest("q")).content == "Final Answer: 3"


def test_turn_is_converted_once_and_tools_are_bound_once() -> None:
    # Servers may send the same id each time.
    model = scripted(*[call("add", "c1", a=number, b=1) for number in range(4)], AIMessage("done"))
    assert calling(model).run("q").output == "done"
    last = model.given[-1]
    ids = [one["id"] for message in last if message.type == "ai" for one in message.tool_calls]
    assert len({*ids}) == 4
    assert [message.tool_call_id for message in last if message.type == "tool"] == ids
    assert len(model.bound) == 1
    assert calling(scripted(AIMessage("3"))).with_tools([add, returning(3, "other")]).tools.keys() == {"add", "other"}
    # From the first repeated id on, the ids are others.
    for before, after in zip(model.given[2:], model.given[3:], strict=False):
        assert [id(one) for one in before] == [id(one) for one in after[: len(before)]]
        assert [one.type for one in after[len(before) :]] == ["ai", "tool"]


def test_request_with_other_options_is_bound_again() -> None:
    model, spec = scripted(*[AIMessage("ok")] * 8), tools_by_name([add])["add"].spec
    made = agents.LangChainModel(model)
    for choice, sent in [("auto", None), ("required", "any"), ("add", "add"), ("none", "none")] * 2:
        made.complete(ChatRequest([UserMessage("q", (ADDRESS,))], (spec,), ("STOP",), tool_choice=choice))
        assert model.options[-1] == {"stop": ["STOP"]} | ({"tool_choice": sent} if sent else {})
    assert ADDRESS.url in str(model.given[0][0].content)


THOUGHT: Any = {"type": "reasoning", "reasoning": "Hm."}
TEXT: Any = {"type": "text", "text": "three"}
USED: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "input_token_details": {"cache_read": 5}}
BROKEN: Any = {"name": "add", "args": '{"a": 1', "id": "c1", "error": None, "type": "invalid_tool_call"}
PART: Any = {"name": "add", "args": '{"a": 1', "id": "c1", "index": 0}
END: Any = {"response_metadata": {"stop_reason": "max_tokens"}}
# Of OpenAI's Responses API, which has no reason of the end.
COMPLETE: Any = {"response_metadata": {"status": "completed", "model_provider": "openai"}}
CUT: Any = {"response_metadata": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}}
# Of Gemini, for a request that it does not read.
BLOCKED: Any = {"model_provider": "google_genai", "prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}
# A message, the chunks of the same one, and the reply.
REPLIES: list[tuple[AIMessage, list[AIMessageChunk], ModelReply]] = [
    (
        AIMessage([THOUGHT, TEXT], usage_metadata=USED),
        [chunk([THOUGHT]), chunk([TEXT], usage_metadata=USED)],
        ModelReply("three", usage=Usage(9, 4, 5)),
    ),
    (
        AIMessage("three", usage_metadata=USED, response_metadata={"finish_reason": "stop", "model_name": "tiny"}),
        [chunk("th"), chunk("ree", usage_metadata=USED, response_metadata={"model_name": "tiny"})],
        ModelReply("three", usage=Usage(9, 4, 5), model="tiny"),
    ),
    *(
        (
            AIMessage("", tool_calls=[{"name": name, "args": {"a": 1}, "id": call_id}] * times),
            [chunk("", tool_call_chunks=[{"name": name, "args": '{"a": 1}', "id": call_id, "index": 0}])],
            ModelReply("", (ToolCall(call_id or "call_0", "add", '{"a": 1}'),), finish_reason="tool_calls"),
        )
        for name, call_id, times in [("add", "c1", 1), ("add", "", 1), ("add<|channel|>x", "c1", 1), ("add", "c1", 2)]
    ),
    (
        AIMessage("", invalid_tool_calls=[BROKEN]),
        [chunk("", tool_call_chunks=[PART])],
        ModelReply("", (ToolCall("c1", "add", '{"a": 1'),), finish_reason="tool_calls"),
    ),
    (AIMessage("\ud800", **END), [chunk("\ud800", **END)], ModelReply("\ufffd", finish_reason="length")),
    (AIMessage([], **END), [chunk([], **END)], ModelReply("", finish_reason="length")),
    (AIMessage("three", **COMPLETE), [chunk("three"), chunk("", **COMPLETE)], ModelReply("three")),
    (AIMessage("three", **CUT), [chunk("three"), chunk("", **CUT)], ModelReply("three", finish_reason="length")),
]


@cases("ask", *MODES)
def test_reply_has_every_part_of_the_message(ask: Ask) -> None:
    for whole, chunks, reply in REPLIES:
        model = Streaming(replies=[chunks]) if "stream" in ask.__name__ else scripted(whole)
        found = ask(agents.LangChainModel(model))
        assert replace(found, reasoning=()) == reply
        assert [one.text for one in found.reasoning] == (["Hm."] if whole is REPLIES[0][0] else [])


@cases("ask", *MODES)
def test_blocked_request_is_a_refusal(ask: Ask) -> None:
    whole, part = AIMessage("", response_metadata=BLOCKED), chunk("", response_metadata=BLOCKED)
    model = Streaming(replies=[[part]]) if "stream" in ask.__name__ else scripted(whole)
    with pytest.raises(errors.RefusalError, match="PROHIBITED_CONTENT"):
        ask(agents.LangChainModel(model))


class Counting(FakeListChatModel):
    """A model with OpenAI's field for the usage of streams, which its Responses API does not take as an option."""

    stream_usage: bool | None = None

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Iterator[Any]:
        assert "stream_usage" not in options
        used = USED if self.stream_usage else None
        yield ChatGenerationChunk(message=chunk("three", usage_metadata=used, **COMPLETE))


def test_streams_have_usage_unless_their_model_forbids_it() -> None:
    for allowed, usage in ((None, Usage(9, 4, 5)), (True, Usage(9, 4, 5)), (False, Usage())):
        model = Counting(responses=[], stream_usage=allowed)
        for given in (model, model.bind(temperature=0.5)):
            *_, reply = agents.LangChainModel(given).stream(ChatRequest([UserMessage("q")]))
            assert reply.usage == usage
        assert model.stream_usage is allowed


def raised(name: str, **attributes: Any) -> Exception:
    """Return an exception of a provider's package, by the name of its class."""
    error: Exception = type(name, (Exception,), attributes)("sk-secret-key said no")
    return error


@cases(
    ("error", "kind"),
    (raised("APIError", status_code=429), errors.RateLimitError),
    (raised("ModelRateLimitError"), errors.RateLimitError),
    (raised("ResourceExhausted"), errors.RateLimitError),
    (raised("ModelAuthenticationError"), errors.AuthenticationError),
    (raised("ModelPermissionDeniedError"), errors.AuthenticationError),
    (raised("ContextOverflowError"), errors.ContextOverflowError),
    (raised("ModelNotFoundError"), errors.ModelNotFoundError),
    (raised("ModelInvalidRequestError"), errors.BadRequestError),
    (raised("ModelRefusalError"), errors.RefusalError),
    (raised("ContentFilterFinishReasonError"), errors.RefusalError),
    (raised("ModelAPIError"), errors.ServerError),
    (raised("ModelTimeoutError"), errors.ModelTimeoutError),
    (FileNotFoundError("no certificate"), errors.ModelError),
)
def test_error_of_a_provider_is_a_model_error(error: Exception, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret-key")
    with pytest.raises(errors.ModelError) as caught:
        agents.LangChainModel(scripted(error)).complete(ChatRequest([UserMessage("q")]))
    assert (type(caught.value), "sk-secret-key" in str(caught.value)) == (kind, False)


def test_tools_for_a_chain_are_an_error_with_a_remedy() -> None:
    for chain in (adding().with_retry(), adding() | RunnableLambda(str)):
        with pytest.raises(errors.InputError, match="takes no tools; give the chat model itself"):
            calling(agents.LangChainModel(chain)).run("q")


# ---- agents


def test_agent_of_langchain_is_taken_as_it_is() -> None:
    classic: Any = pytest.importorskip("langchain_classic.agents")
    prompts: Any = import_module("langchain_core.prompts")
    lines = [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
    for plans in (False, True):
        agent = classic.create_tool_calling_agent(adding(), [add], prompts.ChatPromptTemplate.from_messages(lines))
        agent = classic.agent.RunnableMultiActionAgent(runnable=agent) if plans else agent
        result = AgentExecutor(agent=agent, tools=[add]).run("q")
        assert (result.output, [step.observation for step in result.steps]) == ("3", [3])
    for other in (adding(), add):
        with pytest.raises(errors.InputError, match=r"is no agent; write create_agent\("):
            AgentExecutor(agent=other, tools=[add])


# ---- tools


def returning(value: Any, name: str = "add", **options: Any) -> Any:
    def function(a: int, b: int) -> Any:
        return value

    return StructuredTool.from_function(function, name=name, description="Add.", **options)


def run_tool(given: Any, run: Running = run_sync, **options: Any) -> Any:
    (step,) = run(calling(adding(), given, **options)).steps
    return step


class OnlyAwaited(BaseTool):
    """A tool whose author wrote the async form alone."""

    name: str = "add"
    description: str = "Add."
    fails: bool = False

    def _run(self, a: int, b: int) -> int:
        raise NotImplementedError("use the async form")

    async def _arun(self, a: int, b: int) -> int:
        if self.fails:
            raise NotImplementedError("not yet")
        return a + b


@RUNS
@cases("options", {}, {"max_execution_time": 30})
def test_tool_without_a_blocking_form_is_awaited(run: Running, options: dict[str, Any]) -> None:
    assert run_tool(OnlyAwaited(), run, **options).observation == 3
    failed = run_tool(OnlyAwaited(fails=True), run, **options)
    assert (failed.status, "not yet" in failed.text) == ("error", True)


BLOCKS: list[Any] = [
    {"type": "image", "base64": CAT.data, "mime_type": "image/png"},
    {"type": "image", "data": CAT.data, "mimeType": "image/png"},
    {"type": "image", "source_type": "base64", "data": CAT.data, "mime_type": "image/png"},
    {"type": "image", "url": CAT.url},
    {"type": "image_url", "image_url": {"url": CAT.url}},
]
# Not content: it is observed as it is.
DATA: list[Any] = [[{"type": "image", "url": "file:///x"}], [TEXT, {"type": "file"}], [TEXT, "x"], [{"text": "x"}], []]


@cases(
    ("returned", "observed"),
    ([TEXT, TEXT], "three\nthree"),
    *(([TEXT, block], ["three", CAT]) for block in BLOCKS),
    *((data, data) for data in DATA),
)
def test_content_blocks_are_text_and_images(returned: Any, observed: Any) -> None:
    assert run_tool(returning(returned)).observation == observed
    with_artifact = returning((returned, object()), response_format="content_and_artifact")
    assert run_tool(with_artifact).observation == observed


def test_command_of_langgraph_is_read_or_named() -> None:
    command: Any = pytest.importorskip("langgraph.types").Command
    three = command(update={"messages": [HumanMessage("three")]})
    assert run_tool(returning(three)).observation == "three"
    # A tool may also return several, beside messages with results.
    assert run_tool(returning([three])).observation == "three"
    assert run_tool(returning([three, ToolMessage("four", tool_call_id="c1")])).observation == "three\nfour"
    assert run_tool(returning([ToolMessage("no", tool_call_id="c1", status="error")])).status == "error"
    for made, named in [
        (command(goto="other"), "goto"),
        (command(update={"messages": [], "todos": []}), "todos"),
        (command(update=[("messages", [])]), "an update"),
        (command(), "no messages"),
    ]:
        step = run_tool(returning(made))
        assert (step.status, f"a Command with {named}, which only a graph" in step.text) == ("error", True)


class Sum(BaseModel):
    """Add."""

    a: int = Field(alias="first")
    b: int = Field(5, alias="second")


def test_argument_is_offered_by_its_name_and_passed_by_its_alias() -> None:
    adder = StructuredTool(name="add", description="Add.", args_schema=Sum, func=lambda a, b: a + b)
    model = adding()
    (step,) = calling(model, adder).run("q").steps
    ((offered,),) = model.bound
    assert ([*offered["function"]["parameters"]["properties"]], step.observation) == (["a", "b"], 3)


def test_injected_argument_is_the_call_id_or_refused() -> None:
    prebuilt: Any = pytest.importorskip("langgraph.prebuilt")

    def by_id(a: int, b: int, call_id: Annotated[str, InjectedToolCallId]) -> str:
        return call_id

    def by_state(a: int, state: Annotated[dict[str, Any], prebuilt.InjectedState]) -> None: ...
    def by_store(a: int, store: Annotated[Any, prebuilt.InjectedStore()]) -> None: ...
    def by_runtime(a: int, runtime: Any) -> None: ...

    by_runtime.__annotations__["runtime"] = prebuilt.ToolRuntime
    identified = StructuredTool.from_function(by_id, name="add", description="Add.")
    assert run_tool(identified).observation == "c1"
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    refused: list[Any] = [by_state, by_store, by_runtime]
    for function in refused:
        name = function.__name__.removeprefix("by_")
        for more in ({}, {"args_schema": schema}):
            made = StructuredTool.from_function(function, description="Add.", **more)
            with pytest.raises(errors.ToolDefinitionError, match=f"by_{name} has the injected argument {name},"):
                calling(adding(), made)


# ---- callbacks, tags and metadata

WAYS: list[Callable[[Any, Any, Any], Any]] = [
    lambda runnable, inputs, config: runnable.invoke(inputs, config),
    lambda runnable, inputs, config: runnable.batch([inputs], config)[0],
    lambda runnable, inputs, config: list(runnable.stream(inputs, config))[-1],
    lambda runnable, inputs, config: asyncio.run(runnable.ainvoke(inputs, config)),
    lambda runnable, inputs, config: asyncio.run(collect(runnable.astream(inputs, config)))[-1],
]


async def collect(chunks: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in chunks]


@cases("way", *WAYS)
def test_config_of_a_runnable_reaches_models_and_tools(way: Callable[..., Any]) -> None:
    own = Recording()
    # A deadline gives each call a thread or a task. A model's own config adds to that of the run.
    for options, config in (({}, None), ({"max_execution_time": 30}, {"callbacks": [own], "tags": ["own"]})):
        recorded, model = Recording(), agents.from_langchain(adding(), config=config)
        given = {"callbacks": [recorded], "tags": ["tag"], "metadata": {"key": 1}}
        assert way(agents.as_runnable(calling(model, **options)), "q", given)["output"] == "3"
        children = [("model", "chain"), ("tool", "chain"), ("model", "chain")]
        assert recorded.tree("tag", "key") == [("chain", ""), *children]
    assert own.tree("own", "tag") == [("model", ""), ("model", "")]


def decide(inputs: dict[str, Any]) -> Any:
    done = AgentFinish({"output": "3"})
    return done if inputs["intermediate_steps"] else AgentAction("add", {"a": 1, "b": 2})


@cases("tokens", False, True)
def test_config_of_an_agent_reaches_its_tools(tokens: bool) -> None:
    recorded, outer = Recording(), Recording()
    config = {"callbacks": [recorded], "tags": ["tag"], "metadata": {"key": 1}}
    agent = agents.runnable_agent(RunnableLambda(decide), config=config)
    executor = AgentExecutor(agent=agent, tools=[add])

    def start(text: str) -> None:
        *_, _ = executor.stream(text, tokens=tokens)

    RunnableLambda(start).invoke("q", {"callbacks": [outer]})
    assert [kind for kind, _ in recorded.tree("tag", "key")] == ["chain", "tool", "chain"]
    assert [kind for kind, _ in outer.tree()] == ["chain", "chain", "tool", "chain"]


# ---- executors as runnables


def read(outputs: dict[str, Any]) -> Any:
    return outputs["output"]


def test_executor_is_composed_and_streams_chunks() -> None:
    named: Any = RunnableLambda(lambda text: {"input": text})
    last: Any = RunnableLambda(read)
    chain: Any = named | agents.as_runnable(calling(adding())) | last
    assert chain.invoke("q") == "3"
    streamed: Any = named | agents.as_runnable(calling(adding()))
    chunks = [{*one} for one in streamed.stream("q")]
    assert chunks == [{"actions", "messages"}, {"steps", "messages"}, {"output", "messages"}]
    runnable = agents.as_runnable(calling(adding()), name="adder")
    assert [*runnable.input_schema.model_fields] == ["input"]
    assert [*runnable.output_schema.model_fields] == ["output"]
    assert "adder" in {one.name for one in runnable.get_graph().nodes.values()}


def test_messages_of_langchain_are_converted() -> None:
    model = scripted(AIMessage("3"))
    history = [HumanMessage("Hello"), AIMessage("Hi")]
    agents.as_runnable(calling(model)).invoke({"input": "q", "chat_history": history})
    assert [one.content for one in model.given[0][1:]] == ["Hello", "Hi", "q"]


@cases("way", *WAYS)
def test_waiting_run_raises_and_stopped_run_has_its_text(way: Callable[..., Any], tmp_path: Path) -> None:
    assert "stopped" in way(agents.as_runnable(calling(adding(), max_iterations=1)), "q", None)["output"]
    approving = nodes.approve_tools({"add": ["approve", "reject"]})
    with SQLiteRuns(tmp_path / "runs.db") as store:
        waiting = agents.as_runnable(calling(adding(), nodes=[approving], runs=store))
        with pytest.raises(RunStoreError, match="waits for an answer"):
            way(waiting, "q", None)


def test_other_object_is_no_executor() -> None:
    with pytest.raises(errors.InputError, match=r"as_runnable has executor=.*; give an AgentExecutor"):
        agents.as_runnable(adding())
