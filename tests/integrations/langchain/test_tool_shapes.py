"""Tools with the attributes of LangChain's, which it need not be installed for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, Field

from graphexec import errors
from graphexec.tools.collecting import to_tools
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import Running, run_async, run_sync
from tests.parameters import cases
from tests.tools.actors import observe


class Question(BaseModel):
    """What to search for."""

    query: str
    limit: int = 3


@dataclasses.dataclass
class LangChainTool:
    """Stands for a tool of LangChain."""

    args_schema: Any
    name: str = "search"
    description: str = "Search the web."
    return_direct: bool = False

    def invoke(self, tool_input: Any, config: Any = None) -> str:
        return f"invoked with {tool_input}"

    async def ainvoke(self, tool_input: Any, config: Any = None) -> str:
        return f"awaited with {tool_input}"


SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


class FirstVersion:
    """Stands for a model of pydantic 1."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"title": "Question", **SCHEMA}


# The schema of a LangChain tool, its signature here, and its argument.
@cases(
    ("schema", "signature", "argument"),
    (Question, "query: string, limit?: integer", "{'query': 'tea', 'limit': 3}"),
    *((schema, "query: string", "{'query': 'tea'}") for schema in (SCHEMA, FirstVersion)),
    (None, "tool_input: string", "tea"),
)
@cases(("run", "way", "direct"), (run_sync, "invoked", False), (run_async, "awaited", True))
def test_tool_of_langchain_is_invoked(
    schema: Any, signature: str, argument: str, run: Running, way: str, direct: bool
) -> None:
    (made,) = to_tools([LangChainTool(schema, return_direct=direct)])
    assert made.return_direct is direct
    assert (made.signature, made.description) == (f"search({signature})", "Search the web.")
    assert observe(run, made, **made.read("tea")) == f"{way} with {argument}"


class Aliased(BaseModel):
    """What to search for."""

    text: str = Field(alias="query")
    most: int = Field(3, validation_alias=AliasChoices("limit", "max"))
    nested: Question | None = None


@cases(
    ("arguments", "invoked"),
    ({"query": "tea"}, {"query": "tea", "nested": None}),
    ({"query": "tea", "limit": 5}, {"query": "tea", "limit": 5, "nested": None}),
    ({"query": "tea", "max": 5}, {"query": "tea", "max": 5, "nested": None}),
    ({"query": "tea", "nested": {"query": "milk"}}, {"query": "tea", "nested": {"query": "milk"}}),
)
def test_tool_of_langchain_is_invoked_with_aliases(arguments: Any, invoked: Any) -> None:
    (made,) = to_tools([LangChainTool(Aliased)])
    assert made.names == ("query", "limit", "nested")
    assert made.read(arguments) == invoked
    assert Aliased.model_validate(made.read(arguments))
    with pytest.raises(InvalidArgumentsError, match="query: Field required; limit: Input should be a valid integer"):
        made.read({"text": "tea", "limit": "many"})


@dataclasses.dataclass
class FailingTool(LangChainTool):
    """Stands for a tool of LangChain, whose `invoke` handles its errors."""

    handle_tool_error: str | bool = False

    def invoke(self, tool_input: Any, config: Any = None) -> str:
        if self.handle_tool_error:
            return str(self.handle_tool_error)
        raise ValueError("it is closed")


@cases(("handled", "observed"), (False, "search failed: ValueError: it is closed"), ("Try later.", "Try later."))
def test_tool_of_langchain_handles_its_errors(handled: str | bool, observed: str) -> None:
    (made,) = to_tools([FailingTool(Question, handle_tool_error=handled)])
    assert observe(run_sync, made, query="tea") == observed


class Unserializable(BaseModel):
    """What has no JSON schema."""

    called: Callable[[], int]


@cases(
    ("schema", "says"),
    (Unserializable, "search has an argument without a JSON schema"),
    (object, "search has args_schema=.*, which is not a model of pydantic 2; write class Arguments"),
    (3, "tool_from_schema has parameters=3; give a JSON schema"),
)
def test_tool_with_another_schema_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(errors.ToolDefinitionError, match=says):
        to_tools([LangChainTool(schema)])
