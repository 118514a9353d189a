"""Remedies for the options that other libraries have, and for names that earlier versions of this one had.

The remedy of a name follows "X has no option name; " or "X has no name; ".
"""

from __future__ import annotations


def _by_name(*rows: tuple[str, str]) -> dict[str, str]:
    """Return the remedies by name; a row holds names, separated by spaces, and their remedy."""
    return {name: remedy for names, remedy in rows for name in names.split()}


_CREATE_AGENT = "create_agent(model, tools) makes an agent and its executor"
_PROGRESS = "write observers=[function], which shows the events with tqdm or rich"
_STATE = "a run's state is a value: snapshot_of(error) returns it, and run(snapshot) resumes it"
_RATE_LIMITED = "wrap the model in rate_limited, of graphexec.models"
_INSTRUCTIONS = "instructions are system=... in agents with messages, and a part of prompt=... in the others"
_TO_EXECUTOR = "it belongs to the executor: AgentExecutor(agent=agent, tools=tools"
_OF_MODEL = "it is an option of the model: OpenAICompatible(name, ...)"
_MODEL_FIRST = "write model, the first argument"
# Options of our own agents, which users also give to an executor and to `create_agent`.
_AGENT_OPTIONS = (
    ("create_react_agent", "stop protocol"),
    ("create_structured_agent", "examples max_answer question rules tool_choice"),
)

EXECUTOR_OPTIONS = _by_name(
    ("llm model chat_model language_model", f"the model belongs to the agent: {_CREATE_AGENT}"),
    ("agent_type kind", "each kind has its function, such as create_react_agent or create_structured_agent"),
    ("max_steps max_turns max_iter recursion_limit max_loops iterations", "write max_iterations=..."),
    ("timeout max_time seconds request_timeout", "write max_execution_time=..., in seconds"),
    (
        "system_prompt system_message system instructions prompt prefix role goal backstory",
        "the prompt belongs to the agent: create_agent(model, tools, system_prompt=...)",
    ),
    ("temperature api_key base_url", _OF_MODEL),
    ("max_rpm", _RATE_LIMITED),
    *(
        (option, f"write AgentExecutor(agent={function}(model, tools, {option}=...), tools=tools)")
        for function, options in _AGENT_OPTIONS
        for option in options.split()
    ),
    (
        "callbacks callback_manager callback_handlers hooks step_callback",
        "write observers=[function], a function of an event",
    ),
    ("chat_history messages history", "write memory=BufferMemory(as_messages=True), or pass the input chat_history"),
    (
        "interrupt_before interrupt_after human_in_the_loop",
        "plug an approval: nodes=[approve_tools({'delete_file': ['approve', 'reject']})], of graphexec.nodes",
    ),
    ("checkpointer checkpoint store persist", _STATE),
    ("response_format output_schema result_type", "plug an output type: nodes=[output_type(int)], of graphexec.nodes"),
    ("context deps config metadata tags", "it belongs to a run: executor.run(inputs, context=...)"),
    ("stream_runnable", "write AgentExecutor(agent=runnable_agent(runnable, stream=False), tools=tools)"),
    ("name description", "they belong to the executor as a tool: executor.as_tool(name, description)"),
    ("return_only_outputs", "it belongs to a run: executor.invoke(inputs, return_only_outputs=True)"),
)

_AN_AGENT = f"an Agent has the functions ask and read; {_CREATE_AGENT}"
AGENT_OPTIONS = _by_name(("tools llm instructions system_prompt prompt name role output_type verbose", _AN_AGENT))

# Options that other libraries have where one of our functions makes an agent.
CREATE_OPTIONS = _by_name(
    ("llm chat_model language_model model_client model_name", _MODEL_FIRST),
    ("functions toolkit", "write tools, the second argument"),
    (
        "max_iterations max_execution_time verbose memory handle_parsing_errors return_intermediate_steps",
        f"{_TO_EXECUTOR}, ...)",
    ),
    ("max_steps max_turns recursion_limit", f"{_TO_EXECUTOR}, max_iterations=...)"),
    ("callbacks", "write AgentExecutor(observers=[function]), with a function of an event"),
    ("checkpointer", _STATE),
    ("temperature max_tokens api_key base_url timeout", _OF_MODEL),
    ("response_format output_type", "let the answer be the arguments of a tool: @tool(return_direct=True)"),
    ("system_prompt system_message instructions prefix role", _INSTRUCTIONS),
    ("messages chat_history message_history", "they are an input: {'input': question, 'chat_history': messages}"),
    ("output_parser", "write chat_agent(ask, read, model), where read makes the decision of a reply"),
    ("stop stop_sequences", "agents that reply with text have it: create_react_agent(model, tools, stop=[...])"),
    ("handoffs agents sub_agents", "other agents are tools: executor.as_tool(name, description)"),
)

_KINDS = "write kind='react', kind='structured' or kind='tool_calling'"
# Options that other libraries have where `create_agent` makes an agent and its executor.
CREATE_AGENT_OPTIONS = {
    **CREATE_OPTIONS,
    **EXECUTOR_OPTIONS,
    **_by_name(
        # An executor has no parameter `model`, but `create_agent` has.
        ("llm chat_model language_model", _MODEL_FIRST),
        ("agent_type agent_kind", _KINDS),
        ("agent", f"{_KINDS}; for an Agent, write AgentExecutor(agent=agent, tools=tools)"),
        ("system_message system instructions prompt prefix role goal backstory", "write system_prompt=..."),
        ("temperature api_key base_url top_p seed", f"{_OF_MODEL}, which create_agent takes as model"),
        ("output_parser", "write AgentExecutor(agent=chat_agent(ask, read, model), tools=tools), where read decides"),
    ),
}

RUN_OPTIONS = _by_name(
    (
        "max_iterations max_steps max_turns recursion_limit max_execution_time timeout usage_limits max_tokens",
        "limits belong to the executor, AgentExecutor(max_iterations=3), or for a graph to limits=Limits(iterations=3)",
    ),
    ("callbacks hooks", "write observers=[function], or read the events of stream"),
    (
        "config tags metadata",
        "write observers=[function], run_id=... and context=... in their place, or use as_runnable, of "
        "graphexec.integrations.langchain, which takes them as LangChain does",
    ),
    ("deps dependencies configurable", "write context=..., and take it in a parameter annotated CallContext"),
    ("message_history chat_history messages", "it is an input: run({'input': question, 'chat_history': messages})"),
    ("input question query task user_prompt", "pass the inputs first: run('question'), or run({'input': 'question'})"),
    ("session_id thread_id conversation_id", "a conversation is kept by a memory: AgentExecutor(memory=...)"),
    ("stream stream_mode", "write executor.stream or stream_answer"),
    ("tools model llm temperature", "it belongs to the agent; make another executor"),
    ("return_intermediate_steps verbose", "it belongs to the executor: AgentExecutor(...)"),
)

_OF_AGENTS = "agents have agent_limits(model_calls=..., tool_calls=..., tokens=..., cost=...)"

LIMITS_OPTIONS = _by_name(
    ("max_iterations max_steps max_turns recursion_limit steps", "write iterations=..."),
    ("max_execution_time timeout max_seconds time", "write seconds=..."),
    ("max_fan_out max_depth max_nested_runs", "write fan_out=..., depth=... or nested_runs=..."),
    ("model_calls max_model_calls request_limit", _OF_AGENTS),
    ("tool_calls max_tool_calls tokens max_tokens total_tokens_limit cost max_cost", _OF_AGENTS),
)

TOOL_OPTIONS = _by_name(
    ("args_schema", "write Tool.from_function(func, args_schema=Model), or tool_from_schema for a JSON schema"),
    ("parameters_schema input_schema inputs schema", "write tool_from_schema(name, description, schema, function)"),
    ("handle_tool_error handle_validation_error", "write on_error=..., or handle_tool_errors=... of the executor"),
    ("retries retry_on retry_wait max_retries", "write tool(name=..., description=..., retries=2)(function)"),
    ("callbacks verbose", "an executor has observers=[...] and verbose=True"),
    ("infer_schema parse_docstring", "leave it out: the schema is that of the annotations, with the docstring's words"),
    ("result_as_answer", "write return_direct=True"),
)

# Options that other libraries have where one of our classes is a model at a server.
MODEL_OPTIONS = _by_name(
    ("model_name model_id deployment azure_deployment engine", _MODEL_FIRST),
    ("openai_api_key anthropic_api_key key token api_token", "write api_key=..."),
    ("openai_api_base anthropic_api_url api_base azure_endpoint url host", "write base_url=..., the server's address"),
    ("streaming stream", "leave it out: write executor.stream_answer(inputs) for the text of the answer"),
    ("max_completion_tokens max_output_tokens max_tokens_to_sample max_new_tokens", "write max_tokens=..."),
    ("request_timeout default_request_timeout", "write timeout=..., in seconds"),
    ("retries num_retries", "write max_retries=..."),
    ("model_kwargs additional_kwargs extra_params", "write extra_body=..., further members of the request"),
    *(
        (name, f"write extra_body={{'{name}': ...}}, further members of the request")
        for name in ("top_k", "frequency_penalty", "presence_penalty", "logit_bias", "thinking", "user")
    ),
    ("headers default_headers organization", "write extra_headers=..., headers of the request"),
    ("http_client http_async_client", "write client=... or async_client=..., a client of httpx"),
    ("stop stop_sequences", "the agent passes it: create_react_agent(model, tools, stop=[...])"),
    ("tools functions", f"the tools belong to the agent: {_CREATE_AGENT}"),
    ("system system_prompt instructions", "it belongs to the agent: create_agent(model, tools, system_prompt=...)"),
    ("verbose callbacks", "it belongs to the executor: create_agent(model, tools, verbose=True)"),
    ("cache", "wrap the model in cached, of graphexec.models"),
    ("rate_limiter requests_per_second max_rpm", _RATE_LIMITED),
)

LOCAL_MODEL_OPTIONS = _by_name(
    ("model_path model_file filename file gguf weights", "write the path first: LocalModel('model.gguf')"),
    ("model_name model_id repo_id name", "write model=..., or the path of a GGUF file first"),
    ("n_ctx num_ctx context_length context_window context_size max_context", "write context=..., in tokens"),
    ("n_threads num_threads", "write threads=..."),
    ("n_predict num_predict max_new_tokens max_length", "write max_tokens=..."),
    ("n_gpu_layers device device_map", "start the server yourself: OpenAICompatible(name, base_url=...)"),
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
    ("session_id thread_id conversation_id", "write BufferMemory(SQLiteHistory(path, conversation=name))"),
)

# Names that earlier versions had, without `graphexec.` before them.
REMOVED = _by_name(
    (
        "verify.audit",
        "the engine compares each step of a run with its certificate, which check of graphexec.verify reads",
    ),
    ("kernel.bind", "write machine.with_settings(value)"),
    ("memory.SummaryMemory", "write TokenWindowMemory(max_tokens=2000), or a memory of your own"),
    (
        "runtime.RunContext runtime.RunOptions runtime.make_run_context",
        "run, arun, stream and astream take the handlers, the limits, the clock, the context and so on by keyword",
    ),
    ("runtime.HandlerLike runtime.Handlers", "annotate Handler, or Mapping[type[Effect[Any]], Callable[..., Any]]"),
    ("Progress executor.Status executor.View", _PROGRESS),
    ("models.MemoryCache", "pass a dict to cached, or another mapping of strings"),
    ("models.ReplyLimits", "the option max_reply_bytes of a model bounds its replies"),
    ("executor.LimitReached", "write Stopped(run, limit)"),
    ("executor.Refused", "write Stopped.by_refusal(run, by, why)"),
    ("draft kernel.draft", "graph raises GraphError, whose faults are all that is wrong with a table"),
    ("kernel.drop_edge", "write replace(machine, new, narrowed=True), with a node that does not return the outcome"),
    ("kernel.replay kernel.journal_of kernel.Journal", "recording_of of graphexec.draw takes a result or an error"),
    (
        "executor.STRICT_AGENT_EXECUTOR executor.GENERATING_AGENT_EXECUTOR executor.STRICT_GENERATING_AGENT_EXECUTOR",
        "agent_graph(strict=True, generate=True) returns the variants of AGENT_EXECUTOR",
    ),
    ("Budget kernel.Budget", "write Meter in its place"),
    ("metered kernel.metered", "write @node(when_spent=..., meters=[ITERATIONS])"),
    ("charged kernel.charged", "write @node(when_spent=...)"),
    ("kernel.reserved", "write @node(when_spent=..., asks=1, grace=10)"),
    ("opaque kernel.opaque", "write @node(opaque=True)"),
    ("kernel.rename", "write @node(name=...)"),
    ("tools.everyday.convert_units", "write a tool that converts with pint"),
    (
        "testing.agent_scripts testing.drawn_graphs testing.executor_machine testing.graphs testing.limits "
        "testing.time_limits",
        "verify_termination tries every script",
    ),
    ("testing.as_test", "a test that explores the machine again fails until it is fixed"),
    (
        "verify.diff verify.Difference verify.Delta verify.Change",
        "compare {*after.edges} with {*before.edges}, and the bounds of both verdicts",
    ),
    (
        "executor.NotSaved executor.load_memory executor.return_unsaved executor.save_memory",
        "the graph of an executor with a memory has the nodes of these names",
    ),
    ("memory.FileHistory memory.HistoryWarning", "write SQLiteHistory(path, conversation=name)"),
    ("draw.sequence_mermaid draw.timeline", "the draw method of a result writes its page, with every step"),
    ("live.live_page", "serving of graphexec.live serves the page on this computer"),
    ("draw.PieceView", "pieces are boxes in every picture"),
    (
        "draw.compare_runs draw.index_runs",
        "each run has a page, and the draw method of a machine takes several runs",
    ),
    (
        "agents.Planner agents.Runnable agents.create_chat_agent agents.create_conversational_agent "
        "agents.create_json_chat_agent agents.create_mrkl_agent agents.create_self_ask_agent "
        "agents.create_structured_chat_agent agents.create_xml_agent executor.Chunk executor.Stepwise "
        "models.from_langchain",
        "import it from graphexec.integrations.langchain",
    ),
    (
        "draw.fork draw.Fork",
        "a snapshot goes on where a run failed, and PendingEffect of graphexec.kernel takes another reply",
    ),
)
