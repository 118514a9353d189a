"""What a tool is called with: each form of an input, by the signature of the tool, in every text agent."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from graphexec import Agent, AgentFinish, agents, create_react_agent, tool
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from graphexec.tools.tool import InvalidArgumentsError
from tests.parameters import cases, read_tables

# The only tool of a self-ask agent has this name, so all have it.
NAME = "Intermediate Answer"


def none() -> str:
    """Take nothing."""
    return ""


def text(query: str) -> str:
    """Take a string."""
    return query


def number(count: int) -> str:
    """Take a number."""
    return str(count)


def one_required(query: str, top_k: int = 3) -> str:
    """Take a string and perhaps a number."""
    return f"{query}{top_k}"


def two_required(query: str, top_k: int) -> str:
    """Take a string and a number."""
    return f"{query}{top_k}"


def one_optional(unit: str = "C") -> str:
    """Take perhaps a string."""
    return unit


def two_optional(query: str = "", top_k: int = 3) -> str:
    """Take perhaps a string and perhaps a number."""
    return f"{query}{top_k}"


def several(items: list[str]) -> str:
    """Take a list."""
    return str(items)


def an_object(options: dict[str, int], top_k: int = 3) -> str:
    """Take an object and perhaps a number."""
    return f"{options}{top_k}"


# Any: their signatures differ.
EACH: list[Any] = [none, text, number, one_required, two_required, one_optional, two_optional, several, an_object]
TOOLS: Mapping[str, AnyTool] = {one.__name__: tool(name=NAME)(one) for one in EACH}
# The arguments of the call, or the name of the argument that the error is about.
Called: TypeAlias = Mapping[str, Any] | str
TABLES = read_tables(__file__)
Write: TypeAlias = Callable[[str], str]


def as_json(value: str) -> str:
    """Write an action whose input is a string."""
    return json.dumps({"action": NAME, "action_input": value})


LABELS = f"Thought: I look.\nAction: {NAME}\nAction Input: {{}}"
TEXTUAL: dict[str, tuple[Callable[..., Agent], Write]] = {
    "react": (create_react_agent, lambda given: LABELS.replace("{}", given)),
    "react, in a fence": (create_react_agent, lambda given: LABELS.replace("{}", f"\n```\n{given}\n```")),
    "mrkl": (agents.create_mrkl_agent, lambda given: LABELS.replace("{}", given)),
    "conversational": (agents.create_conversational_agent, lambda given: LABELS.replace("{}", given)),
    "self_ask": (agents.create_self_ask_agent, lambda given: f"Follow up: {given}"),
    "xml": (agents.create_xml_agent, lambda given: f"<tool>{NAME}</tool><tool_input>{given}</tool_input>"),
    "chat": (agents.create_chat_agent, as_json),
    "structured_chat": (agents.create_structured_chat_agent, as_json),
    "json_chat": (agents.create_json_chat_agent, as_json),
}


def call(make: Callable[..., Agent], reply: str, called: AnyTool) -> Called:
    """Return the arguments of the call that a reply makes, or the name of the first that does not fit."""
    decision = make(ScriptedModel([]), [called]).read(ModelReply(reply))
    assert not isinstance(decision, AgentFinish)
    try:
        return called.read(decision[0].tool_input)
    except InvalidArgumentsError as error:
        return error.arguments[0] if error.arguments else ""


@cases("agent", *TEXTUAL)
@cases("given", *TABLES["texts"])
def test_input_is_read_by_the_signature(agent: str, given: str) -> None:
    make, write = TEXTUAL[agent]
    if agent == "self_ask" and not given:
        # Without a question, there is no action.
        return
    for name, wanted in TABLES["texts"][given].items():
        assert call(make, write(given), TOOLS[name]) == wanted, name


@cases("agent", *[name for name, (_, write) in TEXTUAL.items() if write is as_json])
@cases("given", *TABLES["values"])
def test_input_may_be_a_value_of_json(agent: str, given: str) -> None:
    for name, wanted in TABLES["values"][given].items():
        reply = f'{{"action": "{NAME}", "action_input": {given}}}'
        assert call(TEXTUAL[agent][0], reply, TOOLS[name]) == wanted, name
