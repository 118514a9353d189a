"""The history of a conversation: messages before the question, or text where a template has a variable for it."""

import dataclasses
import json
from collections import UserList, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Agent, AgentExecutor, agents, effects, messages
from graphexec.actions import Run
from graphexec.agents.conversation import parse_messages
from graphexec.errors import InputError
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory, MemoryHistory, Turn
from graphexec.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.executor import actors
from tests.executor.actors import echo, prompt, search
from tests.parameters import cases

BEFORE = (UserMessage("I am Ada."), AssistantMessage("Hello, Ada."))


# Each agent with the template that holds the question, and its other required variables.
ASKED_WITH_MESSAGES: dict[str, tuple[Callable[..., Agent], str, str]] = {
    "chat": (langchain.create_chat_agent, "question", "{agent_scratchpad}"),
    "JSON chat": (langchain.create_json_chat_agent, "question", ""),
    "structured": (partial(agents.create_structured_agent, examples=()), "question", ""),
    "structured chat": (langchain.create_structured_chat_agent, "question", "{agent_scratchpad}"),
    "tool calling": (agents.create_tool_calling_agent, "prompt", ""),
}

ASKED_WITH_TEXT: dict[str, tuple[Callable[..., Agent], Any]] = {
    "conversational": (langchain.create_conversational_agent, echo),
    "MRKL": (langchain.create_mrkl_agent, echo),
    "ReAct": (agents.create_react_agent, echo),
    "self-ask": (langchain.create_self_ask_agent, search),
    "XML": (langchain.create_xml_agent, echo),
}

HOW = cases("kind", *ASKED_WITH_MESSAGES)


def make_agent(kind: str, question: str = "{input}", **options: Any) -> Agent:
    create, name, besides = ASKED_WITH_MESSAGES[kind]
    return create(ScriptedModel([]), [echo], **{name: f"{question}{besides}"}, **options)


def request_of(agent: Agent, **inputs: Any) -> messages.ModelRequest:
    effect = agent.ask(Run(inputs))
    assert isinstance(effect, effects.CallModel)
    return effect.request


def sent_by(agent: Agent, **inputs: Any) -> list[messages.Message]:
    return actors.messages(request_of(agent, **inputs))


@HOW
def test_history_comes_between_instructions_and_question(kind: str) -> None:
    agent = make_agent(kind)
    assert (agent.input_keys, agent.optional_keys) == (("input",), ("chat_history",))
    instructions, question = sent_by(agent, input="Who am I?")
    assert isinstance(instructions, SystemMessage)
    assert question == UserMessage("Who am I?")
    stored = [dataclasses.asdict(message) for message in BEFORE]
    for before in (BEFORE, list(BEFORE), deque(BEFORE), UserList(BEFORE), stored):
        assert sent_by(agent, input="Who am I?", chat_history=before) == [instructions, *BEFORE, question]


@HOW
def test_message_memory_reaches_every_chat_agent(kind: str) -> None:
    memory = BufferMemory(MemoryHistory(), key="talk", as_messages=True)
    memory.history.add(Turn("I am Ada.", "Hello, Ada."))
    agent = make_agent(kind, history="talk")
    assert agent.optional_keys == ("talk",)
    AgentExecutor(agent=agent, tools=[echo], memory=memory)
    assert tuple(sent_by(agent, input="Who am I?", **memory.load({}))[1:3]) == BEFORE


@HOW
def test_template_variable_receives_history_as_text(kind: str) -> None:
    agent = make_agent(kind, "{chat_history}|{input}")
    assert (agent.input_keys, agent.optional_keys) == (("chat_history", "input"), ())
    for before in (BEFORE, "Human: I am Ada.\nAI: Hello, Ada."):
        _, question = sent_by(agent, input="Who am I?", chat_history=before)
        assert question == UserMessage("Human: I am Ada.\nAI: Hello, Ada.|Who am I?")


@HOW
@cases("other", "", "Human: I am Ada.", None, 3, [("human", "I am Ada.")], [{"role": "human"}], b"", b"I")
def test_invalid_list_of_messages_is_refused(kind: str, other: Any) -> None:
    with pytest.raises(InputError, match=r"the input chat_history is .*; give messages, .* write \{chat_history\}"):
        make_agent(kind).ask(Run({"input": "Who am I?", "chat_history": other}))


def test_examples_come_before_the_history() -> None:
    examples = [agents.WorkedExample("Say a.", (), "a")]
    agent = agents.create_structured_agent(ScriptedModel([]), [echo], examples=examples)
    sent = sent_by(agent, input="q", chat_history=BEFORE)
    assert sent[1] == UserMessage("Say a.")
    assert tuple(sent[3:5]) == BEFORE


TEXT = st.text(max_size=20)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)
MESSAGES = st.lists(
    st.one_of(
        st.builds(SystemMessage, TEXT),
        st.builds(UserMessage, TEXT),
        st.builds(AssistantMessage, TEXT, CALLS, st.lists(st.builds(messages.Reasoning, TEXT, TEXT, TEXT)).map(tuple)),
        st.builds(ToolMessage, TEXT, TEXT),
    )
)


@given(MESSAGES)
def test_messages_survive_json(conversation: list[messages.Message]) -> None:
    stored = json.loads(json.dumps([dataclasses.asdict(message) for message in conversation]))
    assert parse_messages(stored) == parse_messages(conversation) == tuple(conversation)


@cases(
    ("role", "fields"),
    ("user", {}),
    ("user", {"content": None}),
    ("tool", {"content": "a"}),
    ("assistant", {"content": "a", "tool_calls": 3}),
    ("assistant", {"content": "a", "tool_calls": [{"id": "1", "name": "echo"}]}),
    ("assistant", {"content": "a", "reasoning": "Hm."}),
    ("assistant", {"content": "a", "reasoning": [{"data": "x"}]}),
    ("assistant", {"content": "a", "reasoning": [{"text": "x", "data": None}]}),
)
def test_incomplete_message_in_json_is_refused(role: str, fields: dict[str, Any]) -> None:
    assert parse_messages([*BEFORE, {"role": role, **fields}]) is None


TURNS = st.lists(st.builds(Turn, st.text(max_size=20), st.text(max_size=20)), max_size=4)


@cases("kind", *ASKED_WITH_TEXT)
@given(turns=TURNS)
def test_text_prompt_formats_messages_like_a_memory(kind: str, turns: list[Turn]) -> None:
    create, one = ASKED_WITH_TEXT[kind]
    agent = create(ScriptedModel([]), [one], prompt="{tools}{tool_names}{chat_history}|{input}{agent_scratchpad}")
    history = MemoryHistory()
    for turn in turns:
        history.add(turn)
    as_text = BufferMemory(history).load({})["chat_history"]
    as_messages = BufferMemory(history, as_messages=True).load({})["chat_history"]
    stored = json.loads(json.dumps([dataclasses.asdict(message) for message in as_messages]))
    first, *others = [prompt(request_of(agent, input="q", chat_history=it)) for it in (as_text, as_messages, stored)]
    assert as_text in first
    assert others == [first, first]


def test_conversational_agent_names_its_speakers() -> None:
    agent = langchain.create_conversational_agent(ScriptedModel([]), [echo], ai_prefix=" Robot ")
    assert "Human: I am Ada.\nRobot: Hello, Ada." in prompt(request_of(agent, input="q", chat_history=BEFORE))


def test_other_messages_have_names_too() -> None:
    calls = (ToolCall("1", "age", '{"of": "Ada"}'), ToolCall("2", "age", "{}"))
    conversation: list[tuple[messages.Message, list[str]]] = [
        (SystemMessage("Be brief."), ["System: Be brief."]),
        (UserMessage("How old am I?"), ["Ada: How old am I?"]),
        (AssistantMessage("Let me see.", calls), ["Robot: Let me see.", 'age({"of": "Ada"})', "age({})"]),
        (ToolMessage("1", "36"), ["Tool: 36"]),
        (AssistantMessage("", calls[1:]), ["Robot: age({})"]),
        (AssistantMessage(""), ["Robot: "]),
    ]
    text = messages.transcript([message for message, _ in conversation], human="Ada", ai="Robot")
    assert text.split("\n") == [line for _, lines in conversation for line in lines]


def test_other_lists_are_formatted_unchanged() -> None:
    agent = make_agent("tool calling", "{input}")
    for value in ([1, 2], ["a"], [*BEFORE, 3], {"role": "user"}, (None,)):
        assert sent_by(agent, input=value)[-1] == UserMessage(str(value))
