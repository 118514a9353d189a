"""The schema of a decision: valid, and exactly as strict as the tools."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import importlib
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from graphexec import tool
from graphexec.agents.structured import decision_schema
from tests.executor.actors import AnyTool, echo
from tests.parameters import cases

# An independent validator of JSON schemas; it has no type annotations.
jsonschema: Any = importlib.import_module("jsonschema")


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Item(BaseModel):
    name: str
    parts: list[Item] = []


class Other(BaseModel):
    """A class with the same name as one in another tool's schema."""

    code: int


@tool
def order(item: Item, size: Size, count: int = 1) -> str:
    """Order an item."""
    return item.name


@tool
def look(at: Literal["up", "down"], when: dt.date | None = None) -> str:
    """Look somewhere."""
    return at


@tool
def ping() -> str:
    """Answer."""
    return "pong"


def same_named() -> AnyTool:
    def refer(item: Any, size: Size) -> str:
        """Refer to another item."""
        return ""

    # The class of the other schema's definition has the same name.
    refer.__annotations__.update(item=type("Item", (Other,), {}), size=Size)
    return tool(refer)


TOOLS: list[AnyTool] = [order, look, ping, echo, same_named()]

ARGUMENTS: list[tuple[AnyTool, dict[str, Any]]] = [
    (order, {"item": {"name": "bolt"}, "size": "s"}),
    (order, {"item": {"name": "bolt", "parts": [{"name": "nut", "parts": []}]}, "size": "l", "count": 3}),
    (order, {"item": {"name": "bolt", "parts": [{"code": 3}]}, "size": "s"}),
    (order, {"item": {"code": 1}, "size": "s"}),
    (order, {"item": {"name": "bolt"}, "size": "x"}),
    (order, {"item": {"name": "bolt"}}),
    (order, {"item": {"name": "bolt"}, "size": "s", "colour": "red"}),
    (look, {"at": "up"}),
    (look, {"at": "down", "when": None}),
    (look, {"at": "sideways"}),
    (look, {}),
    (ping, {}),
    (ping, {"x": 1}),
    (echo, {"text": "a"}),
    (echo, {"text": 1}),
    (TOOLS[4], {"item": {"code": 1}, "size": "s"}),
    (TOOLS[4], {"item": {"name": "bolt"}, "size": "s"}),
]


def test_schema_is_valid_json_schema() -> None:
    schema = decision_schema(TOOLS)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    answer = {"action": "final_answer", "answer": "42"}
    assert jsonschema.Draft202012Validator(decision_schema([])).is_valid(answer)


@cases(("called", "arguments"), *ARGUMENTS)
def test_branch_accepts_same_arguments_as_its_tool(called: AnyTool, arguments: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(decision_schema(TOOLS))
    accepted = validator.is_valid({"action": called.name, "action_input": arguments})
    with contextlib.nullcontext() if accepted else pytest.raises(ValidationError):
        called.arguments.validate_python(arguments)


@cases(
    "decision",
    {},
    {"action": "nope", "action_input": {}},
    {"action": "ping"},
    {"action": "final_answer"},
    {"action": "final_answer", "answer": 3},
    {"action": "final_answer", "answer": "a", "thought": "b"},
    {"action": "ping", "action_input": {}, "answer": "x"},
    [{"action": "ping", "action_input": {}}],
)
def test_schema_rejects_invalid_decisions(decision: Any) -> None:
    assert not jsonschema.Draft202012Validator(decision_schema(TOOLS)).is_valid(decision)
