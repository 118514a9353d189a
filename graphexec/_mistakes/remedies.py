"""Remedies for the names that other libraries have: options, attributes, and names to import.

The remedy of a name follows "X has no option name; " or "X has no name; ".
"""

from __future__ import annotations


def _by_name(*rows: tuple[str, str]) -> dict[str, str]:
    """Return the remedies by name; a row holds names, separated by spaces, and their remedy."""
    return {name: remedy for names, remedy in rows for name in names.split()}


_CREATE_AGENT = "create_agent(model, tools) makes an agent and its executor"
_TABLE = "graph(edges(node, on(Outcome, target)) | ..., start=node)"
_TABLE_OF_NODES = f"write a function with @node for each step, and their table: {_TABLE}"
_MODELS = "write OpenAICompatible, Anthropic or LocalModel of graphexec.models"
_TOOL = "a tool is a function with annotations and a docstring: write @tool above def"
_PROMPT = "a prompt is a string with {variables}"
_OBSERVERS = "write observers=[function], a function of an event"
_OBSERVERS_OF_RUNS = "write AgentExecutor(observers=[function]), with a function of an event"
_PROGRESS = "write observers=[function], which shows the events with tqdm or rich"
_STATE = "a run's state is a value: snapshot_of(error) returns it, and run(snapshot) resumes it"
_MEMORY = "write memory=BufferMemory(as_messages=True)"
_RATE_LIMITED = "wrap the model in rate_limited, of graphexec.models"
_MODEL_FIRST = "write model, the first argument"
# Options of our own agents, which users also give to an executor and to `create_agent`.
_AGENT_OPTIONS = (
    ("create_react_agent", "stop protocol"),
    ("create_structured_agent", "examples max_answer question rules tool_choice"),
)

EXECUTOR_OPTIONS = _by_name(
    ("llm model chat_model language_model", f"the model belongs to the agent: {_CREATE_AGENT}"),
    (
        "agent_type kind",
        "each kind has its function: create_react_agent, create_tool_calling_agent, create_structured_agent",
    ),
    ("max_steps max_turns max_iter recursion_limit max_loops iterations", "write max_iterations=..."),
    ("timeout max_time seconds request_timeout", "write max_execution_time=..., in seconds"),
    (
        "system_prompt system_message system instructions prompt prefix role goal backstory",
        "the prompt belongs to the agent: create_agent(model, tools, system_prompt=...)",
    ),
    ("temperature api_key base_url", "it is an option of the model: OpenAICompatible(name, ...)"),
    ("max_rpm", _RATE_LIMITED),
    *(
        (option, f"write AgentExecutor(agent={function}(model, tools, {option}=...), tools=tools)")
        for function, options in _AGENT_OPTIONS
        for option in options.split()
    ),
    (
        "callbacks callback_manager callback_handlers hooks step_callback",
        _OBSERVERS,
    ),
    ("chat_history messages history", f"{_MEMORY}, or pass the input chat_history"),
    (
        "interrupt_before interrupt_after human_in_the_loop",
        "plug an approval: nodes=[approve_tools({'delete_file': ['approve', 'reject']})], of graphexec.nodes",
    ),
    ("checkpointer checkpoint store persist", _STATE),
    (
        "response_format output_schema result_type output_pydantic",
        "plug an output type: nodes=[output_type(int)], of graphexec.nodes",
    ),
    ("context deps config metadata tags", "it belongs to a run: executor.run(inputs, context=...)"),
    ("debug verbosity_level", "write verbose=True"),
    ("stream_runnable", "write AgentExecutor(agent=callable_agent(runnable, stream=False), tools=tools)"),
    ("name description", "they belong to the executor as a tool: executor.as_tool(name, description)"),
    ("return_only_outputs", "it belongs to a run: executor.invoke(inputs, return_only_outputs=True)"),
)

EXECUTOR_ATTRIBUTES = _by_name(
    ("run_sync kickoff predict apply chat query generate execute print_response", "write executor.run(inputs)"),
    ("run_async acall kickoff_async apredict", "write await executor.arun(inputs)"),
    (
        "run_stream run_streamed stream_events astream_events astream_log",
        "write executor.stream(inputs) or executor.astream(inputs), or stream_answer for the text of the answer",
    ),
    (
        "add_node add_edge add_conditional_edges compile",
        "write executor.splice(table, after=node, on=Outcome), which returns a changed copy",
    ),
    ("get_graph", "write executor.graph, or executor.draw(path)"),
    ("get_state get_state_history update_state", _STATE),
    ("with_config", "write executor.with_limits(limits), or pass context=... to the run"),
    ("with_retry with_fallbacks", "wrap the model: retrying(model), or with_fallbacks(model, other)"),
    ("add_tool register_tool bind_tools", "an executor does not change; make another one with tools=[...]"),
    ("max_iterations", "write executor.limits.iterations"),
    ("max_execution_time", "write executor.limits.seconds"),
)

EXECUTOR_STATICS = _by_name(
    ("from_agent_and_tools from_llm_and_tools from_tools", "write AgentExecutor(agent=agent, tools=tools)")
)

# A valid call of each method of an executor whose wrong calls are explained. An async function is not wrapped: that
# would cost memory while it waits, and Python's own error names the missing argument.
METHOD_FORMS = {
    **{name: f"executor.{name}('question')" for name in ("run", "invoke", "stream", "stream_chunks", "stream_answer")},
    **{name: f"executor.{name}('question')" for name in ("astream", "astream_chunks", "astream_answer", "iter")},
    "batch": "executor.batch(['question', ...])",
    "as_tool": "executor.as_tool(name, description)",
    "with_limits": "executor.with_limits(limits)",
    "draw": "executor.draw(path)",
}

METHOD_OPTIONS = _by_name(("progress", _PROGRESS))

AGENT_OPTIONS = _by_name(
    (
        "tools model_client llm instructions system_prompt system_message prompt name role goal backstory output_type "
        "deps_type handoffs max_iter verbose",
        f"an Agent has the functions ask and read; {_CREATE_AGENT}",
    )
)

AGENT_ATTRIBUTES = _by_name(
    (
        "run run_sync run_stream arun invoke ainvoke stream astream batch iter kickoff chat print_response as_tool "
        "generate_reply initiate_chat",
        "an executor runs an agent: AgentExecutor(agent=agent, tools=tools)",
    )
)

# Options that other libraries have where one of our functions makes an agent.
CREATE_OPTIONS = _by_name(
    ("llm chat_model language_model model_client model_name", _MODEL_FIRST),
    ("functions toolkit", "write tools, the second argument"),
    (
        "max_iterations max_execution_time verbose memory handle_parsing_errors return_intermediate_steps",
        "it belongs to the executor: AgentExecutor(agent=agent, tools=tools, ...)",
    ),
    (
        "max_steps max_turns recursion_limit",
        "it belongs to the executor: AgentExecutor(agent=agent, tools=tools, max_iterations=...)",
    ),
    ("callbacks", _OBSERVERS_OF_RUNS),
    ("checkpointer", _STATE),
    ("temperature max_tokens api_key base_url timeout", "it is an option of the model: OpenAICompatible(name, ...)"),
    ("response_format output_type", "let the answer be the arguments of a tool: @tool(return_direct=True)"),
    (
        "system_prompt system_message instructions state_modifier prefix role",
        "instructions are system=... in agents with messages, and a part of prompt=... in the others",
    ),
    (
        "messages chat_history message_history",
        "they are an input: {'input': question, 'chat_history': messages}",
    ),
    ("output_parser", "write chat_agent(ask, read, model), where read makes the decision of a reply"),
    (
        "stop stop_sequence stop_sequences",
        "agents that reply with text have it as stop: create_react_agent(model, tools, stop=[...])",
    ),
    (
        "handoffs agents sub_agents managed_agents team members",
        "other agents are tools: executor.as_tool(name, description)",
    ),
)

# Options that other libraries have where `create_agent` makes an agent and its executor.
CREATE_AGENT_OPTIONS = {
    **CREATE_OPTIONS,
    **EXECUTOR_OPTIONS,
    **_by_name(
        # An executor has no parameter `model`, but `create_agent` has.
        ("llm chat_model language_model", _MODEL_FIRST),
        ("agent_type agent_kind", "write kind='react', kind='structured' or kind='tool_calling'"),
        (
            "agent",
            "write kind='react', kind='structured' or kind='tool_calling'; for an Agent, write "
            "AgentExecutor(agent=agent, tools=tools)",
        ),
        (
            "system_message system instructions prompt prefix role goal backstory state_modifier",
            "write system_prompt=...",
        ),
        (
            "temperature api_key base_url top_p seed reasoning_effort",
            "it is an option of the model: OpenAICompatible(name, ...), which create_agent takes as model",
        ),
        (
            "output_parser",
            "write AgentExecutor(agent=chat_agent(ask, read, model), tools=tools), where read makes the decision of a "
            "reply",
        ),
    ),
}

RESULT_ATTRIBUTES = _by_name(
    (
        "content text response final_output data raw answer result final_answer value message choices",
        "write result.output",
    ),
    ("messages all_messages new_messages intermediate_steps history new_items", "write result.steps"),
    ("usage_metadata total_tokens token_usage tokens", "write result.usage"),
    ("is_done finished stop_reason finish_reason", "write result.reason"),
    ("cost", "write result.spent[COST]"),
    ("duration seconds", "write result.spent.seconds"),
)

RUN_OPTIONS = _by_name(
    (
        "max_iterations max_steps max_turns recursion_limit iterations max_execution_time timeout usage_limits "
        "max_tokens max_tool_calls max_model_calls",
        "limits belong to the executor, AgentExecutor(max_iterations=3), or for a graph to limits=Limits(iterations=3)",
    ),
    ("callbacks hooks", "write observers=[function], or read the events of stream"),
    (
        "config tags metadata",
        "write observers=[function], run_id=... and context=... in place of callbacks, tags and metadata",
    ),
    (
        "deps dependencies configurable user session",
        "write context=..., and take it in a parameter annotated CallContext",
    ),
    (
        "message_history chat_history history messages",
        "it is an input: run({'input': question, 'chat_history': messages})",
    ),
    ("input question query task user_prompt", "pass the inputs first: run('question'), or run({'input': 'question'})"),
    ("session_id thread_id conversation_id", "a conversation is kept by a memory: AgentExecutor(memory=...)"),
    ("stream stream_mode", "write executor.stream, stream_chunks or stream_answer"),
    ("tools model llm temperature", "it belongs to the agent; make another executor"),
    ("return_intermediate_steps verbose", "it belongs to the executor: AgentExecutor(...)"),
)

_OF_AGENTS = "agents have agent_limits(model_calls=..., tool_calls=..., tokens=..., cost=...)"

LIMITS_OPTIONS = _by_name(
    ("max_iterations max_steps max_turns recursion_limit steps", "write iterations=..."),
    ("max_execution_time timeout max_seconds time", "write seconds=..."),
    ("max_fan_out", "write fan_out=..."),
    ("max_depth", "write depth=..."),
    ("max_nested_runs", "write nested_runs=..."),
    ("model_calls max_model_calls request_limit", _OF_AGENTS),
    ("tool_calls max_tool_calls tokens max_tokens total_tokens_limit cost max_cost", _OF_AGENTS),
)

TOOL_OPTIONS = _by_name(
    ("args_schema", "write Tool.from_function(func, args_schema=Model), or tool_from_schema for a JSON schema"),
    ("parameters_schema input_schema inputs schema", "write tool_from_schema(name, description, schema, function)"),
    ("handle_tool_error handle_validation_error", "write on_error=..., or handle_tool_errors=... of the executor"),
    ("retries retry_on retry_wait max_retries", "write tool(name=..., description=..., retries=2)(function)"),
    ("callbacks verbose", "an executor has observers=[...] and verbose=True"),
    ("tags metadata response_format output_type", "leave it out: a tool returns any value"),
    ("infer_schema parse_docstring", "leave it out: the schema is that of the annotations, with the docstring's words"),
    ("failure_error_function", "write on_error=..., a function of the exception"),
    ("result_as_answer", "write return_direct=True"),
    ("name_override", "write name=..."),
    ("description_override", "write description=..."),
)

TOOL_ATTRIBUTES = _by_name(
    ("invoke run ainvoke arun forward _run execute on_invoke_tool", "call it as a function: tool(...)"),
    ("args args_schema schema input_schema inputs params_json_schema", "write tool.parameters, its JSON schema"),
    ("fn", "write tool.function"),
)

MODEL_ATTRIBUTES = _by_name(
    (
        "invoke ainvoke chat completions responses messages generate agenerate predict call run request",
        "an agent asks its model by itself, create_agent(model, tools); or write model.complete(ChatRequest([...]))",
    ),
    ("bind bind_tools with_structured_output", "an agent passes its tools to the model: create_agent(model, tools)"),
    ("with_retry with_fallbacks", "write retrying(model), or with_fallbacks(model, other), of graphexec.models"),
)

# Options that other libraries have where one of our classes is a model at a server.
MODEL_OPTIONS = _by_name(
    ("model_name model_id deployment deployment_name azure_deployment engine", _MODEL_FIRST),
    ("openai_api_key anthropic_api_key key token api_token", "write api_key=..."),
    (
        "openai_api_base anthropic_api_url api_base azure_endpoint endpoint url host server",
        "write base_url=..., the address of the server",
    ),
    ("streaming stream", "leave it out: write executor.stream_answer(inputs) for the text of the answer"),
    ("max_completion_tokens max_output_tokens max_tokens_to_sample max_new_tokens", "write max_tokens=..."),
    ("request_timeout default_request_timeout", "write timeout=..., in seconds"),
    ("retries num_retries", "write max_retries=..."),
    ("model_kwargs additional_kwargs extra_params", "write extra_body=..., further members of the request"),
    *(
        (name, f"write extra_body={{'{name}': ...}}, further members of the request")
        for name in ("top_k", "frequency_penalty", "presence_penalty", "logit_bias", "thinking", "user")
    ),
    ("headers default_headers organization project", "write extra_headers=..., headers of the request"),
    ("http_client http_async_client", "write client=... or async_client=..., a client of httpx"),
    ("stop stop_sequences", "the agent passes it: create_react_agent(model, tools, stop=[...])"),
    ("tools functions", f"the tools belong to the agent: {_CREATE_AGENT}"),
    ("system system_prompt instructions", "it belongs to the agent: create_agent(model, tools, system_prompt=...)"),
    ("verbose callbacks", "it belongs to the executor: create_agent(model, tools, verbose=True)"),
    ("cache", "wrap the model in cached, of graphexec.models"),
    ("rate_limiter requests_per_second max_rpm", _RATE_LIMITED),
)

_SERVER = "start the server yourself, and write OpenAICompatible(name, base_url=...)"

LOCAL_MODEL_OPTIONS = _by_name(
    ("model_path model_file filename file gguf weights", "write the path first: LocalModel('model.gguf')"),
    ("model_name model_id repo_id name", "write model=..., or the path of a GGUF file first"),
    ("n_ctx num_ctx context_length context_window context_size max_context", "write context=..., in tokens"),
    ("n_threads num_threads", "write threads=..."),
    ("n_predict num_predict max_new_tokens max_length", "write max_tokens=..."),
    ("chat_format", "write chat_template=..."),
    ("n_gpu_layers gpu_layers device device_map n_batch dtype torch_dtype", _SERVER),
    ("base_url api_key", "it is an option of a model at a server: OpenAICompatible(name, ...)"),
)

MEMORY_OPTIONS = _by_name(
    ("memory_key", "write key=..."),
    ("return_messages", "write as_messages=True"),
    ("chat_memory chat_history message_history messages store", "write history=..."),
    ("human_prefix", "write human=..."),
    ("ai_prefix", "write ai=..."),
    ("k window window_size max_turns", "write WindowMemory(turns=3)"),
    ("max_token_limit", "write TokenWindowMemory(max_tokens=2000)"),
    ("llm", "write SummaryMemory(model)"),
    (
        "session_id thread_id user_id conversation_id",
        "each conversation has a history: BufferMemory(FileHistory(path))",
    ),
)

# Attributes of events; users look for the text of the answer in them.
_TEXT = "it is an event of a run; an executor's stream_answer yields text, and its stream_chunks dictionaries"
EVENT_ATTRIBUTES = _by_name(("content text output delta data messages type get items keys response", _TEXT))
EVENT_ITEM = _TEXT

GRAPH_ATTRIBUTES = _by_name(
    ("invoke kickoff run_sync execute", "write graph.run(value)"),
    ("ainvoke run_async", "write await graph.arun(value)"),
    (
        "add_node add_edge add_conditional_edges set_entry_point set_finish_point",
        f"a graph does not change; write its whole table: {_TABLE}",
    ),
    ("compile", "a graph is complete; run it with graph.run(value)"),
    ("get_graph draw_mermaid_png draw_png", "write graph.draw(path)"),
    ("draw_mermaid", "write f'{graph:mermaid}'"),
    ("get_state update_state", _STATE),
)

RUNNING_GRAPH = {name: f"graph.{name}(value)" for name in ("run", "stream", "astream")}

# Names that users of other libraries import from this one.
IMPORTS = _by_name(
    (
        "Runner Crew Swarm AgentRunner Pipeline initialize_agent create_openai_tools_agent "
        "create_openai_functions_agent CodeAgent ReActAgent ToolCallingAgent FunctionAgent AssistantAgent "
        "UserProxyAgent AgentType load_agent LLMChain ConversationChain create_openapi_agent create_sql_agent "
        "create_pandas_dataframe_agent",
        _CREATE_AGENT,
    ),
    (
        "StateGraph MessageGraph MessagesState Workflow Flow START ToolNode add_messages Command Send",
        _TABLE_OF_NODES,
    ),
    (
        "HumanMessage AIMessage BaseMessage ChatMessage ModelMessage",
        "write UserMessage, AssistantMessage, SystemMessage or ToolMessage of graphexec.messages",
    ),
    (
        "ChatOpenAI OpenAI AsyncOpenAI LLM ChatAnthropic OpenAIModel OpenAIChatModel LiteLLMModel InferenceClientModel "
        "HfApiModel OpenAIServerModel AzureChatOpenAI AzureOpenAI ChatOllama Ollama ChatGroq ChatMistralAI "
        "ChatGoogleGenerativeAI AnthropicModel AsyncAnthropic ChatModel BaseChatModel BaseLLM HuggingFacePipeline "
        "LlamaCpp init_chat_model",
        _MODELS,
    ),
    (
        "function_tool BaseTool StructuredTool FunctionTool tool_plain Task load_tools Toolkit BaseToolkit",
        _TOOL,
    ),
    ("interrupt HumanApproval", "ask in a node: reply = yield from ask(AskHuman(question))"),
    ("MemorySaver InMemorySaver SqliteSaver", _STATE),
    ("PromptTemplate ChatPromptTemplate MessagesPlaceholder SystemMessagePromptTemplate hub", _PROMPT),
    ("RunContext ToolContext RunnableConfig", "write CallContext"),
    ("UsageLimits RecursionLimit", "write agent_limits(...), or AgentExecutor(max_iterations=...)"),
    (
        "ConversationBufferMemory ConversationMemory ChatMemory ChatMemoryBuffer",
        "write BufferMemory of graphexec.memory",
    ),
    ("ConversationBufferWindowMemory", "write WindowMemory of graphexec.memory"),
    ("ConversationTokenBufferMemory", "write TokenWindowMemory of graphexec.memory"),
    ("ConversationSummaryMemory ConversationSummaryBufferMemory", "write SummaryMemory of graphexec.memory"),
    ("ChatMessageHistory InMemoryChatMessageHistory", "write MemoryHistory or FileHistory of graphexec.memory"),
    ("FakeListLLM FakeListChatModel GenericFakeChatModel TestModel", "write ScriptedModel of graphexec.models"),
    ("OutputParserException", "write ParseError of graphexec.errors"),
    ("BaseCallbackHandler StdOutCallbackHandler AgentHooks RunHooks", _OBSERVERS_OF_RUNS),
)

# Names and modules that earlier versions of this library had.
REMOVED = _by_name(
    ("audit", "the engine compares each step of a run with its certificate, which check of graphexec.verify checks"),
    ("Progress Status View", _PROGRESS),
    ("convert_units", "write a tool that converts with pint"),
    ("diff Difference Delta Change", "compare {*after.edges} with {*before.edges}, and the bounds of both verdicts"),
    (
        "sequence_mermaid timeline",
        "the draw method of a result writes its page, with every step",
    ),
    (
        "compare_runs index_runs",
        "each run has a page, and the draw method of a machine takes several runs",
    ),
    ("fork Fork", "a snapshot goes on where a run failed, and PendingEffect of graphexec.kernel takes another reply"),
)

# Modules that users of other libraries import from this one, by their own names.
MODULES = _by_name(
    ("chat_models chat_model llms llm language_models providers openai anthropic ollama", _MODELS),
    ("prompts prompt prompt_template", _PROMPT),
    ("callbacks hooks handlers", _OBSERVERS_OF_RUNS),
    ("schema schemas types", "messages are in graphexec.messages, and the steps of a run in graphexec.actions"),
    ("message", "messages are in graphexec.messages"),
    ("core main base", "most names are in graphexec itself, and the rest in its packages and modules"),
    ("exceptions exception", "errors are in graphexec.errors"),
    ("chains prebuilt agent_types initialize crew", _CREATE_AGENT),
    ("agent_toolkits toolkits utilities community decorators function_tool", _TOOL),
    ("checkpoint checkpointer", _STATE),
    ("graph state workflow workflows flow", _TABLE_OF_NODES),
    ("chat_history chat_message_histories", "histories are in graphexec.memory"),
    ("output_parsers parsers", "write chat_agent(ask, read, model), where read makes the decision of a reply"),
    (
        "embeddings vectorstores vectorstore retrievers document_loaders text_splitter text_splitters indexes",
        f"retrieval is a tool of yours; {_TOOL}",
    ),
)
