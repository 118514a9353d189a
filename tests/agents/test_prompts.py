"""Prompts: variables are validated when the agent is made, values are never parsed as templates; and LangChain's."""

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import Agent, AgentExecutor, actions, agents, effects, models, tool
from graphexec.agents.prompt import parse_template
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.integrations import langchain
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, SystemMessage, UserMessage
from tests.agents.runs import run_and_record
from tests.executor.actors import echo, messages, observations, prompt, statuses
from tests.parameters import cases

Make = Callable[..., Agent]
MODEL = models.ScriptedModel([])
ECHO = "echo(text: string) - Say it again."


@tool(name="Intermediate Answer")
def search(query: str) -> str:
    """Look a question up."""
    return query


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


BRACES = ["{", "}", "{}", "{0}", "{a b}", "{a.b}", "{a[0]}", "{input!r}", "{input:>10}", "{input: x}", "{{{"]


@cases("text", *BRACES, '{"action": "x"}')
def test_single_braces_are_rejected_and_double_ones_literal(text: str) -> None:
    with pytest.raises(InputError, match=r"write \{\{ and \}\} for braces"):
        parse_template(text, required=())
    # Double braces are literal, and values stay unchanged.
    filled = parse_template("{{x}} {a} {b} {a}", required=("a",))
    assert filled.variables == ("a", "b")
    assert filled.render({"a": "{b}", "b": "{{tools}}", "c": 3}) == "{x} {b} {{tools}} {b}"


WORK, TRAVEL = "{tools}{tool_names}{agent_scratchpad}", "{city} {day}"


@cases(
    ("make", "options", "reply"),
    (agents.create_react_agent, {"prompt": WORK + TRAVEL}, "Final Answer: done"),
    (agents.create_structured_agent, {"question": TRAVEL}, '{"action": "final_answer", "answer": "done"}'),
    (agents.create_tool_calling_agent, {"prompt": TRAVEL}, "done"),
)
def test_other_variables_are_inputs_of_the_run(make: Make, options: dict[str, str], reply: str) -> None:
    model = models.ScriptedModel([reply])
    executor = AgentExecutor(agent=make(model, [echo], **options), tools=[echo])
    assert executor.agent.input_keys == ("city", "day")
    with pytest.raises(InputError, match=r"the inputs lack day; pass \{'city': \.\.\., 'day': \.\.\.\}") as raised:
        executor.invoke({"city": "Oslo"})
    assert raised.value.missing == ("day",)
    with pytest.raises(InputError, match="the inputs lack city, day; pass") as raised:
        executor.invoke({})
    assert raised.value.missing == ("city", "day")
    with pytest.raises(InputError, match="several inputs; pass a dict with city, day instead of a string"):
        executor.invoke("Oslo")
    assert not model.requests
    returned = executor.invoke({"city": "{Oslo}", "day": 3, "extra": None})
    assert returned == {"city": "{Oslo}", "day": 3, "extra": None, "output": "done"}
    (request,) = model.requests
    last = messages(request)[-1]
    assert isinstance(last, UserMessage)
    assert last.content.endswith("{Oslo} 3")


def test_input_cannot_replace_tools_or_scratchpad() -> None:
    model = models.ScriptedModel(["Final Answer: a"])
    agent = agents.create_react_agent(model, [echo], prompt="{tool_names}|{tools}|{agent_scratchpad}|{input}")
    AgentExecutor(agent=agent, tools=[echo]).run({"input": "q", "tool_names": "x", "agent_scratchpad": "y"})
    assert prompt(model.requests[0]) == "echo|echo(text: string) - Say it again.||q"


@cases("text", "x" * 1_000_000, "\ud800 ☃ {} %s \x00")
def test_huge_and_unusual_inputs_are_passed_unchanged(text: str) -> None:
    model = models.ScriptedModel([ModelReply("a")])
    AgentExecutor(agent=agents.create_tool_calling_agent(model, []), tools=[]).run(text)
    assert messages(model.requests[-1])[-1] == UserMessage(text)


# ---- agents of LangChain

# The variables that each template needs.
REQUIRED: list[tuple[Make, str, tuple[str, ...]]] = [
    (agents.create_react_agent, "prompt", ("tools", "tool_names", "agent_scratchpad")),
    (langchain.create_mrkl_agent, "prompt", ("tools", "tool_names", "agent_scratchpad")),
    (langchain.create_conversational_agent, "prompt", ("tools", "tool_names", "chat_history", "agent_scratchpad")),
    (langchain.create_xml_agent, "prompt", ("tools", "agent_scratchpad")),
    (langchain.create_chat_agent, "prompt", ("tools",)),
    (langchain.create_chat_agent, "question", ("agent_scratchpad",)),
    (langchain.create_structured_chat_agent, "prompt", ("tools", "tool_names")),
    (langchain.create_structured_chat_agent, "question", ("agent_scratchpad",)),
    (langchain.create_json_chat_agent, "prompt", ("tools", "tool_names")),
    (langchain.create_json_chat_agent, "tool_response", ("observation",)),
    (langchain.create_self_ask_agent, "prompt", ("agent_scratchpad",)),
    (agents.create_structured_agent, "prompt", ("tools",)),
]


@cases(("make", "option", "names", "missing"), *[(*row, missing) for row in REQUIRED for missing in row[2]])
def test_template_requires_its_variables(make: Make, option: str, names: tuple[str, ...], missing: str) -> None:
    template = " ".join(f"{{{name}}}" for name in (*names, "input") if name != missing and option != "tool_response")
    with pytest.raises(InputError, match=rf"the {option} lacks \{{{missing}\}}; write it") as raised:
        make(MODEL, [search], **{option: template})
    assert raised.value.missing == (missing,)


@cases(
    ("make", "name"),
    *((agents.create_structured_agent, name) for name in ("final_answer", "Final_Answer", "final answer")),
    (agents.create_structured_agent, " FINAL ANSWER "),
    (langchain.create_chat_agent, "Final Answer"),
    (langchain.create_structured_chat_agent, "final_answer"),
    (langchain.create_json_chat_agent, "Final_Answer"),
)
def test_reserved_tool_name_is_refused(make: Make, name: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"a tool is named {name}, which stands for the answer"):
        make(MODEL, [tool(name=name)(echo.function)])


MOOD = r"tool_response has the variable \{mood\}; it can only have \{observation\}"


@cases(
    ("make", "tools", "options", "text"),
    (langchain.create_self_ask_agent, [], {}, "is given no tool; give it exactly one tool, named with @"),
    (langchain.create_self_ask_agent, [echo], {}, "is given echo; give it exactly one tool, named with @"),
    (langchain.create_self_ask_agent, [search, echo], {}, "is given Intermediate Answer, echo; give it"),
    (langchain.create_conversational_agent, [], {"ai_prefix": " "}, "ai_prefix is ' '; give the label"),
    (langchain.create_json_chat_agent, [echo], {"tool_response": "{observation} {mood}"}, MOOD),
)
def test_other_mistakes_are_refused(make: Make, tools: list[Any], options: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        make(MODEL, tools, **options)


@cases(
    ("make", "options", "replies", "stop", "head", "step"),
    (
        agents.create_react_agent,
        {"prompt": "{tools}|{tool_names}|{{x}}|{input}|{agent_scratchpad}"},
        ["Think.\nAction: echo\nAction Input: cats", "Final Answer: done"],
        ("\nObservation",),
        f"{ECHO}|echo|{{x}}|q|",
        "Think.\nAction: echo\nAction Input: cats\nObservation: cats\nThought: ",
    ),
    (
        langchain.create_mrkl_agent,
        {"prompt": "{tools}|{tool_names}|{input}|{agent_scratchpad}"},
        [" Hm.\nAction: echo\nAction Input: cats", " So.\nFinal Answer: done"],
        ("\nObservation:", "\n\tObservation:"),
        f"{ECHO}|echo|q|",
        " Hm.\nAction: echo\nAction Input: cats\nObservation: cats\nThought:",
    ),
    # The server cuts the reply before the stop string.
    (
        langchain.create_xml_agent,
        {"prompt": "{tools}|{input}|{agent_scratchpad}"},
        ["I look.\n<tool>echo</tool><tool_input>cats", "<final_answer>done</final_answer>"],
        ("</tool_input>",),
        f"{ECHO}|q|",
        "I look.\n<tool>echo</tool><tool_input>cats</tool_input>\n<observation>cats</observation>\n",
    ),
    (
        langchain.create_self_ask_agent,
        {"prompt": "{input}{agent_scratchpad}"},
        [" Yes.\nFollow up: cats", "So the final answer is: done"],
        ("\nIntermediate answer:",),
        "q",
        " Yes.\nFollow up: cats\nIntermediate answer: cats\n",
    ),
)
def test_model_continues_one_text(
    make: Make, options: dict[str, str], replies: list[str], stop: tuple[str, ...], head: str, step: str
) -> None:
    tools = [search if make is langchain.create_self_ask_agent else echo]
    result, (first, second) = run_and_record(lambda model: make(model, tools, **options), replies, tools)
    assert (result.outcome.output, observations(result)) == ("done", ["cats"])
    assert isinstance(first, ChatRequest)
    assert first.stop == stop
    assert [prompt(first), prompt(second)] == [head, head + step]


def test_self_ask_prompt_may_have_the_tool() -> None:
    made = tool(name="Intermediate Answer", examples=[{"query": "Who {was}?"}])(search.function)
    agent = langchain.create_self_ask_agent(MODEL, [made], prompt="{tools} {input}{agent_scratchpad}")
    effect = agent.ask(actions.Run({"input": "q"}))
    assert isinstance(effect, effects.CallModel)
    described = 'Intermediate Answer(query: string) - Look a question up. For example: {"query": "Who {was}?"} q'
    assert prompt(effect.request) == described


def test_conversational_prompt_has_earlier_messages_and_the_prefix() -> None:
    model = models.ScriptedModel(["Robot (v2): Ada, I think."])
    template = "{tools}{tool_names}|{ai_prefix}|{chat_history}|{input}|{agent_scratchpad}"
    agent = langchain.create_conversational_agent(model, [echo], prompt=template, ai_prefix="Robot (v2)")
    assert agent.input_keys == ("chat_history", "input")
    assert langchain.create_mrkl_agent(MODEL, [echo]).input_keys == ("input",)
    executor = AgentExecutor(agent=agent, tools=[echo])
    assert executor.run({"chat_history": "Human: I am Ada.", "input": "Who am I?"}).output == "Ada, I think."
    assert prompt(model.requests[0]).endswith("|Robot (v2)|Human: I am Ada.|Who am I?|")
    with pytest.raises(InputError, match="the inputs lack chat_history"):
        executor.run({"input": "Who am I?"})


def test_chat_request_has_instructions_and_previous_work() -> None:
    reply = 'Action:\n```\n{"action": "echo", "action_input": {"text": "a"}}\n```'
    model = models.ScriptedModel([reply, "Final Answer: done"])
    options: dict[str, Any] = {"prompt": "{tools}|{mood}", "question": "{input}|{agent_scratchpad}", "stop": ["X"]}
    agent = langchain.create_chat_agent(model, [echo], **options)
    assert agent.input_keys == ("mood", "input")
    assert AgentExecutor(agent=agent, tools=[echo]).run({"input": "q", "mood": "calm"}).output == "done"
    first, second = model.requests
    head = SystemMessage(f"{ECHO}|calm")
    assert messages(first) == [head, UserMessage("q|")]
    work = (
        "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
        f"{reply}\nObservation: a\nThought:"
    )
    assert messages(second) == [head, UserMessage(f"q|{work}")]
    assert second.stop == ("X",)


def test_structured_chat_tool_receives_several_named_inputs() -> None:
    blob = '```\n{"action": "add", "action_input": {"a": 1, "b": 2}}\n```'
    finish = '```\n{"action": "Final Answer", "action_input": "3"}\n```'
    result, (first, second) = run_and_record(
        lambda model: langchain.create_structured_chat_agent(model, [add]), [blob, finish], [add]
    )
    assert (result.outcome.output, observations(result)) == ("3", [3])
    assert first.stop == ("\nObservation",)
    assert "add(a: integer, b: integer) - Add two numbers." in messages(first)[0].content
    assert f"{blob}\nObservation: 3\nThought:" in messages(second)[1].content


def test_json_conversation_has_all_messages_in_order() -> None:
    blob = '{"action": "echo", "action_input": "a"}'
    options = {"prompt": "{tools}|{tool_names}", "question": "Q: {input}", "tool_response": "Got {observation}"}
    result, requests = run_and_record(
        lambda model: langchain.create_json_chat_agent(model, [echo], **options),
        [blob, "Hm.", '{"action": "Final Answer", "action_input": "done"}'],
        [echo],
        handle_parsing_errors="Again!",
    )
    assert result.outcome.output == "done"
    assert messages(requests[-1]) == [
        SystemMessage(f"{ECHO}|echo"),
        UserMessage("Q: q"),
        AssistantMessage(blob),
        UserMessage("Got a"),
        AssistantMessage("Hm."),
        UserMessage("Got Again!"),
    ]
    assert requests[-1].stop == ("\nObservation",)
    agent = langchain.create_json_chat_agent(MODEL, [echo], prompt="{tools}{tool_names}{mood}", question="{a}{mood}")
    assert agent.input_keys == ("mood", "a")


def test_run_continues_after_a_parse_error() -> None:
    result, requests = run_and_record(
        lambda model: langchain.create_xml_agent(model, [echo], prompt="{tools}{agent_scratchpad}"),
        ["Hm <tool>", "<final_answer>done</final_answer>"],
        [echo],
        handle_parsing_errors="Correct it.",
    )
    assert result.outcome.output == "done"
    assert prompt(requests[1]).endswith("again.Hm <tool>\n<observation>Correct it.</observation>\n")
    result, _ = run_and_record(
        lambda model: langchain.create_chat_agent(model, [echo]),
        ['```{"action": "echo", "action_input": "a"}```', "what?", "Final Answer: done"],
        [echo],
        handle_parsing_errors=True,
    )
    assert statuses(result) == ["ok", "parse_error"]
