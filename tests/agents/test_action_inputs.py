"""What a tool is called with: each form of an input, by the signature of the tool, in every text agent.

The table is the one that users read, in `docs/reference/replies.md`.
"""

import datetime as dt
import enum
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from graphexec import Agent, AgentFinish, CallContext, create_react_agent, tool
from graphexec._parsing.json import read_value
from graphexec.integrations import langchain
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool, tool_from_schema
from tests.parameters import cases
from tests.tools.actors import call_tool

# The only tool of a self-ask agent has this name, so all have it.
NAME = "Intermediate Answer"
PAGE = Path(__file__).parents[2] / "docs/reference/replies.md"


class Unit(enum.StrEnum):
    CATS = "cats"


class Order(BaseModel):
    a: int


class Trip(BaseModel):
    a: int
    order: Order = Order(a=2)


# The names in the signatures of the table.
NAMES: dict[str, Any] = {
    "Any": Any,
    "Annotated": Annotated,
    "Literal": Literal,
    "date": dt.date,
    "Field": Field,
    **{one.__name__: one for one in (Decimal, CallContext, Unit, Order, Trip)},
}
Write: TypeAlias = Callable[[str], str]


def as_json(value: str) -> str:
    """Write an action whose input is a string."""
    return json.dumps({"action": NAME, "action_input": value})


LABELS = f"Thought: I look.\nAction: {NAME}\nAction Input: {{}}"
TEXTUAL: dict[str, tuple[Callable[..., Agent], Write]] = {
    "react": (create_react_agent, lambda given: LABELS.replace("{}", given)),
    "react, in a fence": (create_react_agent, lambda given: LABELS.replace("{}", f"\n```\n{given}\n```")),
    "mrkl": (langchain.create_mrkl_agent, lambda given: LABELS.replace("{}", given)),
    "conversational": (langchain.create_conversational_agent, lambda given: LABELS.replace("{}", given)),
    "self_ask": (langchain.create_self_ask_agent, lambda given: f"Follow up: {given}"),
    "xml": (langchain.create_xml_agent, lambda given: f"<tool>{NAME}</tool><tool_input>{given}</tool_input>"),
    "chat": (langchain.create_chat_agent, as_json),
    "structured_chat": (langchain.create_structured_chat_agent, as_json),
    "json_chat": (langchain.create_json_chat_agent, as_json),
}


def read_table() -> tuple[list[str], dict[str, list[str]]]:
    """Return the inputs, and by signature the cell of each."""
    part = PAGE.read_text(encoding="utf-8").partition("## Inputs of tools")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip(" `").replace("\\|", "|") for cell in line] for line in lines]
    return ["" if text == "nothing" else text for text in head[1:]], {row[0]: row[1:] for row in rows}


def make_tool(signature: str) -> AnyTool:
    """Return a tool that returns its arguments; a signature may be the properties of a schema."""
    if signature.startswith("{"):
        schema = {"type": "object", "properties": json.loads(signature), "required": [*json.loads(signature)]}
        return tool_from_schema(NAME, "Look.", schema, dict[str, Any])
    name, _, parameters = signature.partition("(")
    found: dict[str, Any] = {}
    exec(f"def {name}({parameters}: return locals()", NAMES, found)
    return tool(name=NAME, description="Parse JSON." if name == "parse" else "Look.")(found[name])


INPUTS, TABLE = read_table()
TOOLS = {signature: make_tool(signature) for signature in TABLE}


# Any: the arguments are of any types.
def plain(value: Any) -> Any:
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def call(make: Callable[..., Agent], reply: str, called: AnyTool) -> Mapping[str, Any] | None:
    """Return the arguments that the tool has after a reply, `None` if it is not called."""
    decision = make(ScriptedModel([]), [called]).read(ModelReply(reply))
    assert not isinstance(decision, AgentFinish)
    result = call_tool(called, decision[0].tool_input)
    if result.status == "bad_arguments":
        return None
    # One of them has an alias.
    return {"q" if key == "term" else key: plain(value) for key, value in result.observation.items() if key != "call"}


def wanted(signature: str, given: str, cell: str) -> Mapping[str, Any] | None:
    """Return what a cell of the table says."""
    called = TOOLS[signature]
    schemas: Mapping[str, Any] = called.parameters["properties"]
    required = called.parameters.get("required", ())
    usual = {name: schema.get("default") for name, schema in schemas.items() if name not in required}
    alone, *_ = required or [*schemas, ""]
    match cell:
        case "–":
            return None
        case "call":
            return usual
        case "text":
            return usual | {alone: given}
        case "value":
            return usual | {alone: read_value(given)}
        case "names":
            members = read_value(given).items()
            return usual | {name: value for name, value in members if value is not None or name not in schemas}
        case _:
            raise AssertionError(cell)


@cases("agent", *TEXTUAL)
@cases("signature", *TABLE)
def test_input_is_read_by_the_signature(agent: str, signature: str) -> None:
    make, write = TEXTUAL[agent]
    for given, cell in zip(INPUTS, TABLE[signature], strict=True):
        # Without a question, a self-ask agent has no action.
        if given or agent != "self_ask":
            assert call(make, write(given), TOOLS[signature]) == wanted(signature, given, cell), given


@cases("agent", *[name for name, (_, write) in TEXTUAL.items() if write is as_json])
@cases("signature", *TABLE)
def test_input_may_be_a_value_of_json(agent: str, signature: str) -> None:
    """There, an object has the arguments by name, and null is an empty one."""
    for given, cell in zip(INPUTS, TABLE[signature], strict=True):
        if given[:1] in ("n", "{", "["):
            said = cell if cell in ("call", "names") or given.startswith("[") else "–"
            reply = f'{{"action": "{NAME}", "action_input": {given}}}'
            assert call(TEXTUAL[agent][0], reply, TOOLS[signature]) == wanted(signature, given, said), given
