"""What users of other libraries type, and what they read."""

from __future__ import annotations

# By library: a line that its users type, and what they read.
MISTAKES: dict[str, list[tuple[str, str]]] = {
    "LangChain": [
        (
            "from graphexec import initialize_agent",
            "graphexec has no initialize_agent; create_agent(model, tools) makes an agent and its executor",
        ),
        (
            "from graphexec import ChatOpenAI",
            "graphexec has no ChatOpenAI; write OpenAICompatible, Anthropic or LocalModel of graphexec.models",
        ),
        (
            "from graphexec import HumanMessage",
            "graphexec has no HumanMessage; write UserMessage, AssistantMessage, SystemMessage or ToolMessage of "
            "graphexec.messages",
        ),
        (
            "from graphexec import ConversationBufferMemory",
            "graphexec has no ConversationBufferMemory; write BufferMemory of graphexec.memory",
        ),
        (
            "AgentExecutor(llm=model, tools=[echo])",
            "AgentExecutor has no option llm; the model belongs to the agent: create_agent(model, tools) makes "
            "an agent and its executor",
        ),
        (
            "AgentExecutor(agent, [echo])",
            "AgentExecutor takes its arguments by name, and was given 2 by position; write AgentExecutor(agent=agent, "
            "tools=tools)",
        ),
        ("AgentExecutor(agent=agent)", "AgentExecutor needs tools; write AgentExecutor(agent=agent, tools=tools)"),
        ("AgentExecutor(tools=[echo])", "AgentExecutor needs agent; write AgentExecutor(agent=agent, tools=tools)"),
        (
            "AgentExecutor.from_agent_and_tools(agent=agent, tools=[echo])",
            "AgentExecutor has no from_agent_and_tools; write AgentExecutor(agent=agent, tools=tools)",
        ),
        (
            'create_agent(model, [echo], agent_type="zero-shot-react-description")',
            "create_agent has no option agent_type; write kind='react', kind='structured' or kind='tool_calling'",
        ),
        ("create_agent(llm=model, tools=[echo])", "create_agent has no option llm; write model, the first argument"),
        (
            "create_agent(model, [echo], tools=[echo])",
            "create_agent was given tools twice, by position and by name; write create_agent(model, tools)",
        ),
        (
            "create_agent(agent, [echo])",
            "model is an Agent, which has a model already; write AgentExecutor(agent=agent, tools=tools)",
        ),
        ("create_agent(executor)", "model is an AgentExecutor, which has a model already; run it as it is"),
        (
            "AgentExecutor(agent=create_agent, tools=[echo])",
            "agent is the function create_agent; call it: create_agent(model, tools)",
        ),
        (
            'AgentExecutor(agent=agent, tools=[echo], agent_type="zero-shot-react-description")',
            "AgentExecutor has no option agent_type; each kind has its function: create_react_agent, "
            "create_tool_calling_agent, create_structured_agent",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], callbacks=[print])",
            "AgentExecutor has no option callbacks; write observers=[function], a function of an event",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], max_iteration=3)",
            "AgentExecutor has no option max_iteration; did you mean max_iterations?",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], return_only_outputs=True)",
            "AgentExecutor has no option return_only_outputs; it belongs to a run: executor.invoke(inputs, "
            "return_only_outputs=True)",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], stream_runnable=False)",
            "AgentExecutor has no option stream_runnable; write AgentExecutor(agent=callable_agent(runnable, "
            "stream=False), tools=tools)",
        ),
        (
            "AgentExecutor(agent=create_react_agent, tools=[echo])",
            "agent is the function create_react_agent; call it: create_react_agent(model, tools)",
        ),
        (
            "create_react_agent(llm=model, tools=[echo])",
            "create_react_agent has no option llm; write model, the first argument",
        ),
        (
            "create_react_agent([echo], model)",
            "tools is the model <ScriptedModel: 1 of 1 replies left>; give the model first, and then the tools",
        ),
        (
            'create_react_agent(model, [echo], "You are helpful.")',
            "create_react_agent takes 2 by position, and was given 3; write create_react_agent(model, tools, "
            "prompt=...)",
        ),
        (
            "create_react_agent(model, [echo], prompt=prompt_template)",
            "the prompt is ChatPromptTemplate(); give a string",
        ),
        (
            "create_react_agent(model, [echo], verbose=True)",
            "create_react_agent has no option verbose; it belongs to the executor: AgentExecutor(agent=agent, "
            "tools=tools, ...)",
        ),
        (
            'create_react_agent(model, [echo], stop_sequence=["Observation:"])',
            "create_react_agent has no option stop_sequence; agents that reply with text have it as stop: "
            "create_react_agent(model, tools, stop=[...])",
        ),
        (
            "create_react_agent(model, [langchain_tool])",
            "StructuredTool() is not a tool; create_agent(model, tools) takes tools of LangChain",
        ),
        ("create_react_agent(model, [plain])", "plain is not a tool; decorate the function with @tool"),
        (
            "create_tool_calling_agent(model, [echo], output_parser=print)",
            "create_tool_calling_agent has no option output_parser; write chat_agent(ask, read, model), where "
            "read makes the decision of a reply",
        ),
        ('tool("search")(plain)', "tool was given the string 'search'; write @tool(name='search'), say"),
        (
            "tool(args_schema=dict)(plain)",
            "tool has no option args_schema; write Tool.from_function(func, args_schema=Model), or tool_from_schema "
            "for a JSON schema",
        ),
        ('echo.invoke({"text": "a"})', "Tool has no invoke; call it as a function: tool(...)"),
        ('echo.run("a")', "Tool has no run; call it as a function: tool(...)"),
        (
            'executor("How are you?")',
            "AgentExecutor cannot be called; write executor.run(inputs), or executor.invoke(inputs)",
        ),
        (
            'executor.invoke({"messages": [("user", "How are you?")]})',
            "the inputs lack input; pass {'input': ...}, and earlier messages as 'chat_history'",
        ),
        (
            "executor.invoke([human_message])",
            "the inputs are [HumanMessage('How are you?')]; pass the question and the messages before it: "
            "{'input': question, 'chat_history': messages}",
        ),
        (
            'executor.invoke({"input": "How are you?"}, {"callbacks": [print]})',
            "AgentExecutor.invoke takes 1 by position, and was given 2; write executor.invoke('question')",
        ),
        (
            'executor.invoke({"input": "How are you?"}, config={"tags": ["a"]})',
            "a run has no option config; write context=..., and take it in a parameter annotated CallContext",
        ),
        ('executor.predict("How are you?")', "AgentExecutor has no predict; write executor.run(inputs)"),
        (
            'executor.astream_events("How are you?")',
            "AgentExecutor has no astream_events; write executor.stream(inputs) or executor.astream(inputs), or "
            "stream_answer for the text of the answer",
        ),
        (
            'executor.with_config(tags=["a"])',
            "AgentExecutor has no with_config; write executor.with_limits(limits), or pass context=... to the run",
        ),
        ("executor.run()", "AgentExecutor.run needs inputs; write executor.run('question')"),
        ("executor.run(None)", "the inputs are None; pass a dict of inputs by name, or the only input as a string"),
        (
            'executor.run("How are you?", callbacks=[print])',
            "a run has no option callbacks; write AgentExecutor(observers=[function]), or read the events of stream",
        ),
    ],
    "LangGraph": [
        (
            "from graphexec import StateGraph",
            "graphexec has no StateGraph; write a function with @node for each step, and their table: "
            "graph(edges(node, on(Outcome, target)) | ..., start=node)",
        ),
        (
            "from graphexec import MemorySaver",
            "graphexec has no MemorySaver; a run's state is a value: snapshot_of(error) returns it, and "
            "run(snapshot) resumes it",
        ),
        (
            "from graphexec import interrupt",
            "graphexec has no interrupt; ask in a node: reply = yield from ask(AskHuman(question))",
        ),
        (
            'create_react_agent(model, tools=[echo], state_modifier="You are helpful.")',
            "create_react_agent has no option state_modifier; instructions are system=... in agents with "
            "messages, and a part of prompt=... in the others",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], recursion_limit=25)",
            "AgentExecutor has no option recursion_limit; write max_iterations=...",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], checkpointer=None)",
            "AgentExecutor has no option checkpointer; a run's state is a value: snapshot_of(error) returns it, "
            "and run(snapshot) resumes it",
        ),
        (
            'AgentExecutor(agent=agent, tools=[echo], interrupt_before=["tools"])',
            "AgentExecutor has no option interrupt_before; plug an approval: "
            "nodes=[approve_tools({'delete_file': ['approve', 'reject']})], of graphexec.nodes",
        ),
        (
            "executor.compile()",
            "AgentExecutor has no compile; write executor.splice(table, after=node, on=Outcome), which returns a "
            "changed copy",
        ),
        (
            "executor.get_state()",
            "AgentExecutor has no get_state; a run's state is a value: snapshot_of(error) returns it, and "
            "run(snapshot) resumes it",
        ),
        ('executor.graph.invoke("How are you?")', "Graph has no invoke; write graph.run(value)"),
        (
            'executor.graph.add_node("plan", plain)',
            "Graph has no add_node; a graph does not change; write its whole table: graph(edges(node, "
            "on(Outcome, target)) | ..., start=node)",
        ),
        ("executor.graph.get_graph()", "Graph has no get_graph; write graph.draw(path)"),
        (
            'executor.run("How are you?", recursion_limit=3)',
            "a run has no option recursion_limit; limits belong to the executor, "
            "AgentExecutor(max_iterations=3), or for a graph to limits=Limits(iterations=3)",
        ),
        (
            'executor.run("How are you?", thread_id="1")',
            "a run has no option thread_id; a conversation is kept by a memory: AgentExecutor(memory=...)",
        ),
        (
            "graph(edges(step, on(Out, END)))",
            "graph needs start; write graph(edges(node, on(Outcome, target)) | ..., start=node)",
        ),
        ("edges(step)", "edges needs routes; write edges(node, on(Outcome, target))"),
        ("on(Out)", "on needs target; write on(Outcome, target)"),
        (
            'executor.stream("How are you?", stream_mode="values")',
            "a run has no option stream_mode; write executor.stream, stream_chunks or stream_answer",
        ),
    ],
    "pydantic-ai": [
        (
            'Agent("openai:gpt-5-mini", instructions="Be concise.")',
            "Agent has no option instructions; an Agent has the functions ask and read; create_agent(model, "
            "tools) makes an agent and its executor",
        ),
        ('Agent("openai:gpt-5-mini")', "Agent needs read; write create_agent(model, tools), or Agent(ask, read)"),
        (
            "Agent(model=model, tools=[echo])",
            "Agent needs ask and read; write create_agent(model, tools), or Agent(ask, read)",
        ),
        (
            'agent.run_sync("How are you?")',
            "Agent has no run_sync; an executor runs an agent: AgentExecutor(agent=agent, tools=tools)",
        ),
        ('executor.run_sync("How are you?")', "AgentExecutor has no run_sync; write executor.run(inputs)"),
        (
            'executor.run("How are you?", deps="ada")',
            "a run has no option deps; write context=..., and take it in a parameter annotated CallContext",
        ),
        (
            'executor.run("How are you?", message_history=[])',
            "a run has no option message_history; it is an input: run({'input': question, 'chat_history': messages})",
        ),
        (
            'executor.run("How are you?", usage_limits=None)',
            "a run has no option usage_limits; limits belong to the executor, AgentExecutor(max_iterations=3), "
            "or for a graph to limits=Limits(iterations=3)",
        ),
        ('executor.run("How are you?").data', "RunResult has no data; write result.output"),
        ('executor.run("How are you?").all_messages()', "RunResult has no all_messages; write result.steps"),
        ("from graphexec import RunContext", "graphexec has no RunContext; write CallContext"),
        (
            'create_agent(model, [echo], instructions="Be concise.")',
            "create_agent has no option instructions; write system_prompt=...",
        ),
        (
            "create_agent(model, [echo], result_type=int)",
            "create_agent has no option result_type; plug an output type: nodes=[output_type(int)], of graphexec.nodes",
        ),
        (
            'create_agent("gpt-5-mini", [echo])',
            "model is 'gpt-5-mini', without a known provider; did you mean 'openai:gpt-5-mini'?",
        ),
    ],
    "OpenAI Agents SDK": [
        (
            "from graphexec import Runner",
            "graphexec has no Runner; create_agent(model, tools) makes an agent and its executor",
        ),
        (
            "from graphexec import function_tool",
            "graphexec has no function_tool; a tool is a function with annotations and a docstring: write @tool "
            "above def",
        ),
        (
            'Agent(name="Assistant", ask=print, read=print)',
            "Agent has no option name; an Agent has the functions ask and read; create_agent(model, tools) makes "
            "an agent and its executor",
        ),
        (
            'executor.run("How are you?", max_turns=3)',
            "a run has no option max_turns; limits belong to the executor, AgentExecutor(max_iterations=3), or "
            "for a graph to limits=Limits(iterations=3)",
        ),
        ('executor.run("How are you?").final_output', "RunResult has no final_output; write result.output"),
        ('executor.run("How are you?").new_items', "RunResult has no new_items; write result.steps"),
    ],
    "CrewAI": [
        (
            "from graphexec import Crew",
            "graphexec has no Crew; create_agent(model, tools) makes an agent and its executor",
        ),
        ("executor.kickoff()", "AgentExecutor has no kickoff; write executor.run(inputs)"),
        (
            'create_agent(model, [echo], role="Poet", goal="Rhyme")',
            "create_agent has no option role; write system_prompt=...; create_agent has no option goal; write "
            "system_prompt=...",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], max_iter=3)",
            "AgentExecutor has no option max_iter; write max_iterations=...",
        ),
        ('executor.run("How are you?").raw', "RunResult has no raw; write result.output"),
    ],
    "smolagents": [
        (
            "from graphexec import CodeAgent",
            "graphexec has no CodeAgent; create_agent(model, tools) makes an agent and its executor",
        ),
        (
            "create_agent(model, [echo], max_steps=3)",
            "create_agent has no option max_steps; write max_iterations=...",
        ),
        (
            "AgentExecutor(agent=agent, tools=[echo], max_steps=3)",
            "AgentExecutor has no option max_steps; write max_iterations=...",
        ),
        ('echo.forward("a")', "Tool has no forward; call it as a function: tool(...)"),
    ],
    "AutoGen": [
        (
            "from graphexec import AssistantAgent",
            "graphexec has no AssistantAgent; create_agent(model, tools) makes an agent and its executor",
        ),
        (
            "Agent(model_client=model)",
            "Agent has no option model_client; an Agent has the functions ask and read; create_agent(model, "
            "tools) makes an agent and its executor",
        ),
        (
            'create_react_agent(model, [echo], system_message="Be concise.")',
            "create_react_agent has no option system_message; instructions are system=... in agents with "
            "messages, and a part of prompt=... in the others",
        ),
    ],
    "Haystack": [
        (
            "from graphexec import Pipeline",
            "graphexec has no Pipeline; create_agent(model, tools) makes an agent and its executor",
        ),
        ('executor.run(query="How are you?")', "AgentExecutor.run needs inputs; write executor.run('question')"),
    ],
    "openai": [
        (
            "from graphexec import OpenAI",
            "graphexec has no OpenAI; write OpenAICompatible, Anthropic or LocalModel of graphexec.models",
        ),
        (
            'model.chat.completions.create(messages=["How are you?"])',
            "ScriptedModel has no chat; an agent asks its model by itself, create_agent(model, tools); or write "
            "model.complete(ChatRequest([...]))",
        ),
        ("tool(executor)", "tool was given an executor; write executor.as_tool(name, description)"),
        (
            'ChatRequest([{"role": "user", "content": "How are you?"}])',
            "ChatRequest has messages[0]={'role': 'user', 'content': 'How are you?'}; write UserMessage('How are "
            "you?')",
        ),
        (
            'ChatRequest("How are you?")',
            "ChatRequest has messages='How are you?'; write ChatRequest([UserMessage('How are you?')])",
        ),
        (
            "create_react_agent(model, [openai_schema])",
            "{'type': 'function'} is not a tool; write tool_from_schema(name, description, schema, function), of "
            "graphexec.tools",
        ),
        ('executor.run("How are you?").choices', "RunResult has no choices; write result.output"),
        (
            '[event.content for event in executor.stream("How are you?")]',
            "Entered has no content; it is an event of a run; an executor's stream_answer yields text, and its "
            "stream_chunks dictionaries",
        ),
        (
            '[event["output"] for event in executor.stream("How are you?")]',
            "Entered has no items; it is an event of a run; an executor's stream_answer yields text, and its "
            "stream_chunks dictionaries",
        ),
        (
            'executor.run("How are you?")["output"]',
            "RunResult has no items; write result.output; executor.invoke(inputs) returns a dict",
        ),
        ("Limits(max_iterations=3)", "Limits has no option max_iterations; write iterations=..."),
        (
            'Limits({"model_calls": 3})',
            "the limits have 'model_calls', which is not a meter; give {Meter('model_calls'): 5}",
        ),
        (
            "executor.graph.run(Ready(Run({})), max_iterations=3)",
            "a run has no option max_iterations; limits belong to the executor, AgentExecutor(max_iterations=3), "
            "or for a graph to limits=Limits(iterations=3)",
        ),
    ],
}
