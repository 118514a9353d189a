"""What a tool is called with: each form of an input, by the signature of the tool, in every text agent."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from graphexec import Agent, AgentFinish, agents, create_react_agent, tool
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from graphexec.tools.tool import InvalidArgumentsError
from tests.parameters import cases

# The only tool of a self-ask agent has this name, so all have it.
NAME = "Intermediate Answer"


@tool(name=NAME)
def none() -> str:
    """Take nothing."""
    return ""


@tool(name=NAME)
def text(query: str) -> str:
    """Take a string."""
    return query


@tool(name=NAME)
def number(count: int) -> str:
    """Take a number."""
    return str(count)


@tool(name=NAME)
def one_required(query: str, top_k: int = 3) -> str:
    """Take a string and perhaps a number."""
    return f"{query}{top_k}"


@tool(name=NAME)
def two_required(query: str, top_k: int) -> str:
    """Take a string and a number."""
    return f"{query}{top_k}"


@tool(name=NAME)
def one_optional(unit: str = "C") -> str:
    """Take perhaps a string."""
    return unit


@tool(name=NAME)
def two_optional(query: str = "", top_k: int = 3) -> str:
    """Take perhaps a string and perhaps a number."""
    return f"{query}{top_k}"


@tool(name=NAME)
def several(items: list[str]) -> str:
    """Take a list."""
    return str(items)


@tool(name=NAME)
def an_object(options: dict[str, int], top_k: int = 3) -> str:
    """Take an object and perhaps a number."""
    return f"{options}{top_k}"


# The arguments of the call, or the name of the argument that the error is about; an empty string if it is about none.
Called: TypeAlias = Mapping[str, Any] | str
TABLE: dict[str, list[tuple[AnyTool, Called]]] = {
    "": [(none, {}), (text, {"query": ""}), (number, "count"), (one_required, {"query": ""})],
    "None": [(none, {}), (text, {"query": "None"}), (one_required, {"query": "None"}), (an_object, "options")],
    "null": [(none, {}), (text, {"query": "null"}), (one_required, {"query": "null"}), (number, "count")],
    "{}": [(none, {}), (text, "query"), (one_required, "query"), (two_required, "query"), (an_object, {"options": {}})],
    "5": [
        (none, {}),
        (text, {"query": "5"}),
        (number, {"count": 5}),
        (one_optional, {"unit": "5"}),
        (several, "items"),
    ],
    "cats": [(none, {}), (text, {"query": "cats"}), (number, "count"), (one_required, {"query": "cats"})],
    '["a", "b"]': [(text, {"query": '["a", "b"]'}), (several, {"items": ["a", "b"]}), (an_object, "options")],
    '{"query": "cats"}': [
        *((one, {"query": "cats"}) for one in (text, one_required, two_optional)),
        *((two_required, "top_k"), (none, "query"), (an_object, "options")),
    ],
    '{"query": "cats", "top_k": 5}': [
        *((one, {"query": "cats", "top_k": 5}) for one in (one_required, two_required, two_optional)),
        (text, "top_k"),
    ],
    '{"top_k": 5}': [
        *((one_required, "query"), (two_required, "query"), (two_optional, {"top_k": 5}), (an_object, "options")),
        # A tool with one argument may take JSON as its text.
        (text, {"query": '{"top_k": 5}'}),
    ],
    '{"a": 1}': [
        (one_optional, {"unit": '{"a": 1}'}),
        (one_required, "query"),
        (two_optional, "a"),
        (an_object, {"options": {"a": 1}}),
        (number, "count"),
    ],
    # An argument that is null is omitted, if it may be.
    "{'query': 'cats', 'top_k': None}": [(one_required, {"query": "cats"}), (two_required, "top_k")],
}
for nothing in ("", "None", "null", "{}"):
    TABLE[nothing] += [(one_optional, {}), (two_optional, {})]

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


@cases("agent", TEXTUAL)
@cases("given", TABLE)
def test_input_is_read_by_the_signature(agent: str, given: str) -> None:
    make, write = TEXTUAL[agent]
    if agent == "self_ask" and not given:
        # Without a question, there is no action.
        return
    for called, wanted in TABLE[given]:
        found = call(make, write(given), called)
        assert found == wanted, called.signature


VALUES: dict[str, list[tuple[AnyTool, Called]]] = {
    "null": [(none, {}), (text, "query"), (one_optional, {}), (two_optional, {}), (one_required, "query")],
    '{"query": "cats"}': [(text, {"query": "cats"}), (one_required, {"query": "cats"}), (two_required, "top_k")],
    '{"top_k": 5}': [(one_required, "query"), (two_optional, {"top_k": 5}), (an_object, "options")],
    '["a"]': [(several, {"items": ["a"]}), (text, {"query": '["a"]'})],
    "5": [(number, {"count": 5}), (text, {"query": "5"})],
}
VALUES["{}"] = VALUES["null"]


@cases("agent", [name for name, (_, write) in TEXTUAL.items() if write is as_json])
@cases("given", VALUES)
def test_input_may_be_a_value_of_json(agent: str, given: str) -> None:
    for called, wanted in VALUES[given]:
        found = call(TEXTUAL[agent][0], f'{{"action": "{NAME}", "action_input": {given}}}', called)
        assert found == wanted, called.signature
