"""Habits from other libraries: what users type, and what they read, which names the remedy; or it works."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import graphexec
from graphexec import AgentExecutor, actions, create_agent, create_react_agent, create_tool_calling_agent, node, tool
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import Ready
from graphexec.memory import BufferMemory, WindowMemory
from graphexec.messages import ChatRequest, Image
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ScriptedModel
from tests.executor.actors import echo, fail
from tests.kernel.machines import value
from tests.parameters import cases

MAKE = "create_agent(model, tools) makes an agent and its executor"
EXECUTOR = "write AgentExecutor(agent=agent, tools=tools)"
LIMITS = ("limits belong to the executor, AgentExecutor(max_iterations=3)", "limits=Limits(iterations=3)")
SNAPSHOT = ("snapshot_of(error) returns it", "run(snapshot) resumes it")
CONTEXT = ("write context=...", "CallContext")
FUNCTIONS = ("an Agent has the functions ask and read", MAKE)
TABLE = "graph(edges(node, on(Outcome, target)) | ..., start=node)"
MODELS = "write OpenAICompatible, Anthropic or LocalModel of graphexec.models"
INSTRUCTIONS = ("instructions are system=... in agents with messages", "a part of prompt=... in the others")

# By library: lines that its users type, each with the facts of the error.
MISTAKES: dict[str, list[tuple[str, ...]]] = {
    "LangChain": [
        ("from graphexec import initialize_agent", "graphexec has no initialize_agent", MAKE),
        ("from graphexec import ChatOpenAI", "graphexec has no ChatOpenAI", MODELS),
        ("from graphexec import HumanMessage", "no HumanMessage", "UserMessage", "of graphexec.messages"),
        ("from graphexec import ConversationBufferMemory", "write BufferMemory of graphexec.memory"),
        ("AgentExecutor(llm=model, tools=[echo])", "has no option llm; the model belongs to the agent", MAKE),
        ("AgentExecutor(agent, [echo])", "AgentExecutor takes its arguments by name", "2 by position", EXECUTOR),
        ("AgentExecutor(agent=agent)", "AgentExecutor needs tools", EXECUTOR),
        ("AgentExecutor(tools=[echo])", "AgentExecutor needs agent", EXECUTOR),
        ("AgentExecutor.from_agent_and_tools(agent=agent, tools=[])", "has no from_agent_and_tools", EXECUTOR),
        ('create_agent(model, [], agent_type="mrkl")', "create_agent has no option agent_type", "kind='react'"),
        ("create_agent(llm=model, tools=[echo])", "create_agent has no option llm", "write model, the first argument"),
        ("create_agent(model, [echo], tools=[echo])", "tools twice, by position and by name", "(model, tools)"),
        ("create_agent(agent, [echo])", "model is an Agent, which has a model already", EXECUTOR),
        ("create_agent(executor)", "model is an AgentExecutor, which has a model already", "run it as it is"),
        ("AgentExecutor(agent=create_agent, tools=[])", "function create_agent", "call it: create_agent(model, tools)"),
        ('AgentExecutor(agent=agent, tools=[], agent_type="")', "has no option agent_type", "create_react_agent"),
        ("AgentExecutor(agent=agent, tools=[], callbacks=[print])", "option callbacks", "write observers=[function]"),
        ("AgentExecutor(agent=agent, tools=[], max_iteration=3)", "max_iteration", "did you mean max_iterations?"),
        ("AgentExecutor(agent=agent, tools=[], return_only_outputs=1)", "return_only_outputs", "executor.invoke"),
        ("AgentExecutor(agent=agent, tools=[], stream_runnable=0)", "stream_runnable", "callable_agent(runnable"),
        ("AgentExecutor(agent=create_react_agent, tools=[])", "function", "call it: create_react_agent(model, tools)"),
        ("create_react_agent(llm=model, tools=[])", "has no option llm", "write model, the first argument"),
        ("create_react_agent([], model)", "tools is the model <ScriptedModel: 1 of 1 replies left>", "model first"),
        ('create_react_agent(model, [], "Hi.")', "takes 2 by position, and was given 3", "(model, tools, prompt=...)"),
        ("create_react_agent(model, [], prompt=prompt_template)", "is ChatPromptTemplate()", "give a string"),
        ("create_react_agent(model, [], verbose=True)", "no option verbose", "it belongs to the executor"),
        ('create_react_agent(model, [], stop_sequence=["O"])', "no option stop_sequence", "(model, tools, stop=[...])"),
        ("create_react_agent(model, [langchain_tool])", "StructuredTool() is not a tool", "takes tools of LangChain"),
        ("create_react_agent(model, [plain])", "plain is not a tool", "decorate the function with @tool"),
        ("create_tool_calling_agent(model, [], output_parser=print)", "output_parser", "chat_agent(ask, read"),
        ('tool("search")(plain)', "tool was given the string 'search'", "@tool(name='search')"),
        ("tool(args_schema=dict)(plain)", "args_schema", "Tool.from_function", "tool_from_schema"),
        ('echo.invoke({"text": "a"})', "Tool has no invoke", "call it as a function: tool(...)"),
        ('echo.run("a")', "Tool has no run", "call it as a function: tool(...)"),
        ('executor("Hi")', "AgentExecutor cannot be called", "executor.run(inputs), or executor.invoke(inputs)"),
        ('executor.invoke({"messages": [("user", "Hi")]})', "the inputs lack input", "'chat_history'"),
        ("executor.invoke([human_message])", "[HumanMessage('How are you?')]", "'chat_history': messages}"),
        ('executor.invoke({"input": "Hi"}, {"callbacks": []})', "1 by position", "was given 2", "invoke('question')"),
        ('executor.invoke({"input": "Hi"}, config={"tags": ["a"]})', "a run has no option config", *CONTEXT),
        ('executor.predict("Hi")', "AgentExecutor has no predict", "write executor.run(inputs)"),
        ('executor.astream_events("Hi")', "has no astream_events", "executor.astream(inputs)", "stream_answer"),
        ('executor.with_config(tags=["a"])', "has no with_config", "executor.with_limits", "pass context=..."),
        ("executor.run()", "AgentExecutor.run needs inputs", "write executor.run('question')"),
        ("executor.run(None)", "the inputs are None", "a dict of inputs by name, or the only input as a string"),
        ('executor.run("Hi", callbacks=[print])', "option callbacks", "observers=[function]", "events of stream"),
    ],
    "LangGraph": [
        ("from graphexec import StateGraph", "graphexec has no StateGraph", "@node for each step", TABLE),
        ("from graphexec import MemorySaver", "graphexec has no MemorySaver; a run's state is a value", *SNAPSHOT),
        ("from graphexec import interrupt", "has no interrupt", "ask in a node: reply = yield from ask"),
        ('create_react_agent(model, [], state_modifier="Hi.")', "has no option state_modifier", *INSTRUCTIONS),
        ("AgentExecutor(agent=agent, tools=[], recursion_limit=25)", "recursion_limit", "write max_iterations=..."),
        ("AgentExecutor(agent=agent, tools=[], checkpointer=None)", "has no option checkpointer", *SNAPSHOT),
        ("AgentExecutor(agent=agent, tools=[], interrupt_before=[])", "interrupt_before", "nodes=[approve_tools("),
        ("executor.compile()", "AgentExecutor has no compile", "executor.splice(table, after=node, on=Outcome)"),
        ("executor.get_state()", "AgentExecutor has no get_state", *SNAPSHOT),
        ('executor.graph.invoke("Hi")', "Graph has no invoke", "write graph.run(value)"),
        ('executor.graph.add_node("plan", plain)', "Graph has no add_node; a graph does not change", TABLE),
        ("executor.graph.get_graph()", "Graph has no get_graph", "write graph.draw(path)"),
        ('executor.run("Hi", recursion_limit=3)', "a run has no option recursion_limit", *LIMITS),
        ('executor.run("Hi", thread_id="1")', "a run has no option thread_id", "a memory: AgentExecutor(memory=...)"),
        ("graph(edges(step, on(Out, END)))", "graph needs start", TABLE),
        ("edges(step)", "edges needs routes", "write edges(node, on(Outcome, target))"),
        ("on(Out)", "on needs target", "write on(Outcome, target)"),
        ('executor.stream("Hi", stream_mode="values")', "no option stream_mode", "stream_chunks or stream_answer"),
    ],
    "pydantic-ai": [
        ('Agent("openai:gpt-5-mini", instructions="Be concise.")', "Agent has no option instructions", *FUNCTIONS),
        ('Agent("openai:gpt-5-mini")', "Agent needs read", "write create_agent(model, tools), or Agent(ask, read)"),
        ("Agent(model=model, tools=[])", "Agent needs ask and read", "create_agent(model, tools), or Agent(ask, read)"),
        ('agent.run_sync("Hi")', "Agent has no run_sync", "AgentExecutor(agent=agent, tools=tools)"),
        ('executor.run_sync("Hi")', "AgentExecutor has no run_sync", "write executor.run(inputs)"),
        ('executor.run("Hi", deps="ada")', "a run has no option deps", *CONTEXT),
        ('executor.run("Hi", message_history=[])', "message_history; it is an input", "'chat_history': messages"),
        ('executor.run("Hi", usage_limits=None)', "a run has no option usage_limits", *LIMITS),
        ('executor.run("Hi").data', "RunResult has no data", "write result.output"),
        ('executor.run("Hi").all_messages()', "RunResult has no all_messages", "write result.steps"),
        ("from graphexec import RunContext", "graphexec has no RunContext", "write CallContext"),
        ('create_agent(model, [], instructions="Hi.")', "has no option instructions", "write system_prompt=..."),
        ("create_agent(model, [], result_type=int)", "option result_type", "output_type(int)], of graphexec.nodes"),
        ('create_agent("gpt-5-mini", [])', "'gpt-5-mini', without a known provider", "as in 'openai:gpt-5-mini'"),
    ],
    "OpenAI Agents SDK": [
        ("from graphexec import Runner", "graphexec has no Runner", MAKE),
        ("from graphexec import function_tool", "graphexec has no function_tool", "a docstring: write @tool above def"),
        ('Agent(name="Assistant", ask=print, read=print)', "Agent has no option name", *FUNCTIONS),
        ('executor.run("Hi", max_turns=3)', "a run has no option max_turns", *LIMITS),
        ('executor.run("Hi").final_output', "RunResult has no final_output", "write result.output"),
        ('executor.run("Hi").new_items', "RunResult has no new_items", "write result.steps"),
    ],
    "CrewAI": [
        ("from graphexec import Crew", "graphexec has no Crew", MAKE),
        ("executor.kickoff()", "AgentExecutor has no kickoff", "write executor.run(inputs)"),
        ('create_agent(model, [], role="Poet", goal="Rhyme")', "option role; write system_prompt", "no option goal"),
        ("AgentExecutor(agent=agent, tools=[], max_iter=3)", "has no option max_iter;", "write max_iterations=..."),
        ('executor.run("Hi").raw', "RunResult has no raw", "write result.output"),
    ],
    "smolagents": [
        ("from graphexec import CodeAgent", "graphexec has no CodeAgent", MAKE),
        ("create_agent(model, [], max_steps=3)", "create_agent has no option max_steps", "write max_iterations=..."),
        ("AgentExecutor(agent=agent, tools=[], max_steps=3)", "Executor has no option max_steps", "max_iterations=..."),
        ('echo.forward("a")', "Tool has no forward", "call it as a function: tool(...)"),
    ],
    "AutoGen": [
        ("from graphexec import AssistantAgent", "graphexec has no AssistantAgent", MAKE),
        ("Agent(model_client=model)", "Agent has no option model_client", *FUNCTIONS),
        ('create_react_agent(model, [], system_message="Hi.")', "has no option system_message", *INSTRUCTIONS),
    ],
    "Haystack": [
        ("from graphexec import Pipeline", "graphexec has no Pipeline", MAKE),
        ('executor.run(query="Hi")', "AgentExecutor.run needs inputs", "write executor.run('question')"),
    ],
    "openai": [
        ("from graphexec import OpenAI", "graphexec has no OpenAI;", MODELS),
        ('model.chat.completions.create(messages=["Hi"])', "ScriptedModel has no chat", "model.complete"),
        ("tool(executor)", "tool was given an executor", "write executor.as_tool(name, description)"),
        ('ChatRequest([{"role": "user", "content": "Hi"}])', "messages[0]={'role': 'user'", "UserMessage('Hi')"),
        ('ChatRequest("Hi")', "messages='Hi'", "write ChatRequest([UserMessage('Hi')])"),
        ("create_react_agent(model, [openai_schema])", "{'type': 'function'} is not a tool", "write tool_from_schema"),
        ('executor.run("Hi").choices', "RunResult has no choices", "write result.output"),
        ('[event.content for event in executor.stream("Hi")]', "Entered has no content", "stream_answer"),
        ('[event["output"] for event in executor.stream("Hi")]', "Entered has no items", "stream_chunks"),
        ('executor.run("Hi")["output"]', "RunResult has no items", "result.output; executor.invoke(inputs)"),
        ("Limits(max_iterations=3)", "Limits has no option max_iterations", "write iterations=..."),
        ('Limits({"model_calls": 3})', "'model_calls', which is not a meter", "give {Meter('model_calls'): 5}"),
        ("executor.graph.run(Ready(Run({})), max_iterations=3)", "a run has no option max_iterations", *LIMITS),
    ],
}


def plain(text: str) -> str:
    """Return the text."""
    return text


@value
class Out:
    x: int


@node
def step(x: Out) -> Out:
    return x


class Other:
    """An object of another library."""

    def __init__(self, shown: str, **fields: Any) -> None:
        self.shown = shown
        vars(self).update(fields)

    def __repr__(self) -> str:
        return self.shown


model = ScriptedModel(["Final Answer: I am fine."], repeat_last=True)
agent = create_react_agent(model, [echo])
executor = AgentExecutor(agent=agent, tools=[echo])

# The names that the users' lines have.
NAMES: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    **{one.__name__: one for one in (Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ChatRequest, Image)},
    **{one.__name__: one for one in (BufferMemory, WindowMemory, actions.Run, Ready, Path, Out)},
    "step": step,
    "echo": echo,
    "plain": plain,
    "model": model,
    "agent": agent,
    "executor": executor,
    "prompt_template": Other("ChatPromptTemplate()"),
    "human_message": Other("HumanMessage('How are you?')", type="human", content="How are you?"),
    "langchain_tool": Other("StructuredTool()", name="search", invoke=print),
    "openai_schema": {"type": "function"},
}


# By the class of the error: lines with the facts of the error.
CONSTRUCTORS: list[tuple[str, ...]] = [
    ('OpenAICompatible(model_name="a")', "has no option model_name", "write model, the first argument"),
    ('OpenAICompatible("a", openai_api_key="k")', "has no option openai_api_key", "write api_key=..."),
    ('Anthropic("a", streaming=True)', "has no option streaming; leave it out", "executor.stream_answer(inputs)"),
    ("Anthropic()", "Anthropic needs model", "write Anthropic('claude-sonnet-4-5')"),
    ("OpenAIResponses()", "OpenAIResponses needs model", "write OpenAIResponses('gpt-5-mini')"),
    ('OpenAICompatible("openai:gpt-4o")', "a name with a provider", "write create_model('openai:gpt-4o')"),
    ('Anthropic("Claude:claude-4")', "Anthropic has model='Claude:claude-4'", "write create_model('Claude:claude-4')"),
    ('LocalModel(model_path="a.gguf")', "LocalModel has no option model_path", "LocalModel('model.gguf')"),
    ('BufferMemory(memory_key="a", return_messages=True)', "memory_key; write key=...", "write as_messages=True"),
    ("WindowMemory(k=3)", "WindowMemory has no option k", "write WindowMemory(turns=3)"),
    ('executor.as_tool("adder")', "as_tool needs description", "write executor.as_tool(name, description)"),
    ("executor.draw()", "AgentExecutor.draw needs path", "write executor.draw(path)"),
]
LOST = ("is not sent to the model; name it images", "write the text of a file into another input")
QUOTED = ("'echo' is not a tool", "pass the function itself, without quotes")
TOOLS: list[tuple[str, ...]] = [
    ('create_agent(model, ["echo"])', *QUOTED),
    ('create_react_agent(model, ["echo"])', *QUOTED),
    ("create_agent(model, [openai_schema])", "{'type': 'function'} is not a tool", "write tool_from_schema(name"),
    ("create_agent(model, [3])", "3 is not a tool", "decorate the function with @tool"),
    ("create_agent(model, [len])", "len is a builtin function", "Tool(name='len', func=len", "a function with def"),
    ("create_agent(model, [lambda x: x])", "a lambda has no name", "write Tool(name=..., ", "or a function with def"),
]
VALUES: list[tuple[str, ...]] = [
    ('create_react_agent("local", [])', "the model is 'local'", "create_model('local'), of graphexec.models"),
    ('create_tool_calling_agent(model, [], "Hi.")', "2 by position, and was given 3", "(model, tools, system=...)"),
    ('create_agent(model, [], "Hi.")', "takes 2 by position, and was given 3", "(model, tools, system_prompt=...)"),
    ('create_agent(model, [], agent="mrkl")', "has no option agent", "write kind='react'", "AgentExecutor(agent=agent"),
    ("create_agent(model, [], handoffs=[agent])", "has no option handoffs", "executor.as_tool(name, description)"),
    (
        'create_agent(model, [echo]).run({"input": "Hello!", "chat_history": [("human", "Hello!")]})',
        "the input chat_history is [('human', 'Hello!')]",
        "{'role': 'user', 'content': '...'}",
        "as_messages=True, or write {chat_history} into the agent's template",
    ),
    ('create_agent(model, []).run({"input": "Hi", "img": Path("a.png")})', "the input img", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "photo": "a.PNG"})', "the input photo", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "files": [Path("a.pdf")]})', "the input files", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "cat": Image("https://a/b")})', "the input cat", *LOST),
]
ROWS: list[tuple[type[Exception], list[tuple[str, ...]]]] = [
    (InputError, CONSTRUCTORS),
    (ToolDefinitionError, TOOLS),
    (InputError, VALUES),
    *((Exception, rows) for rows in MISTAKES.values()),
]


@cases(("error", "line", "facts"), [(error, line, facts) for error, rows in ROWS for line, *facts in rows])
def test_habit_is_answered_with_a_remedy(error: type[Exception], line: str, facts: list[str]) -> None:
    with pytest.raises(error) as raised:
        exec(line, dict(NAMES))
    assert len(str(raised.value).splitlines()) == 1
    for fact in facts:
        assert fact in str(raised.value)


def test_other_inputs_are_ignored() -> None:
    executor = create_agent(ScriptedModel(["Final Answer: I am fine."]), [echo], kind="react")
    inputs = {"input": "How are you?", "photo": "of a cat", "path": Path("a.png"), "file": None}
    assert executor.run(inputs).output == "I am fine."


NO_PROVIDERS = ["ft:gpt-4o:ours", "gpt-4o", "unknown:gpt-4o"]


@cases(("name", "url"), [*((name, None) for name in NO_PROVIDERS), ("openai:gpt-4o", "http://127.0.0.1:4000/v1")])
def test_names_of_models_may_have_colons(name: str, url: str | None) -> None:
    assert OpenAICompatible(name, base_url=url).name == name


def test_most_libraries_have_several_habits() -> None:
    assert sum(map(len, MISTAKES.values())) >= 100
    assert len(MISTAKES) == 9


async def echo_later(text: str) -> str:
    """Return the text."""
    return text


def give_nothing(text: str, seen: list[str] = []) -> None:  # noqa: B006 - users write it
    """Print the text."""
    seen.append(text)


@cases("used", [plain, echo_later, give_nothing, fail.function])
def test_usual_functions_are_tools(used: Any) -> None:
    calls = ScriptedModel([f"Action: {used.__name__}\nAction Input: a", "Final Answer: I am fine."])
    assert create_agent(calls, [used], kind="react").run("How are you?").output == "I am fine."


def test_result_is_printed_as_its_answer() -> None:
    result = executor.run("How are you?")
    assert f"{result}" == str(result) == "I am fine."
    stopped = AgentExecutor(agent=agent, tools=[echo], max_iterations=0).run("How are you?")
    assert str(stopped) == stopped.output


def test_run_works_on_an_event_loop() -> None:
    async def main(*, awaited: bool) -> Any:
        running: Any = executor.run("How are you?")
        return await running if awaited else running

    assert asyncio.run(main(awaited=False)).output == "I am fine."
    with pytest.warns(RuntimeWarning, match=r"it has blocked the event loop; write await executor\.arun\(\.\.\.\)"):
        assert asyncio.run(main(awaited=True)).output == "I am fine."


@cases("create", [create_react_agent, create_tool_calling_agent])
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(model, [tool()(plain)]).tools[0].name == "plain"
