"""Methods that are tools, and the tools of an object, a class or a module."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, Field

from graphexec import AgentExecutor, Tool, tool
from graphexec.errors import ToolDefinitionError
from graphexec.tools import tools_of
from graphexec.tools.collecting import to_tools
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, act, answer, echo, run_async, run_sync, scripted
from tests.parameters import cases


class Shop:
    """A shop with tools of every kind."""

    def __init__(self, price: int) -> None:
        self.cost = price

    @tool
    def price(self, item: str) -> str:
        """Tell the price of an item."""
        return f"{item} costs {self.cost}"

    @tool(timeout=20, return_direct=True)
    async def order(self, item: str, count: int = 1) -> str:
        """Order an item."""
        return f"{count} {item} for {count * self.cost}"

    @staticmethod
    @tool
    def round_up(amount: float) -> int:
        """Round an amount up."""
        return -int(-amount // 1)

    @tool
    @staticmethod
    def tax(amount: float) -> float:
        """Calculate the tax of an amount."""
        return amount / 10

    @tool
    @classmethod
    def name(cls) -> str:
        """Tell the name of the shop."""
        return cls.__name__

    @classmethod
    @tool
    def branches(cls, city: str) -> str:
        """List the branches in a city."""
        return f"{cls.__name__} in {city}"

    def close(self) -> None:
        """Close the shop, which no model may do."""

    @property
    def broken(self) -> str:
        raise RuntimeError("tools_of must not read this")

    @tool
    def _secret(self) -> str:
        """Tell a secret."""
        return "secret"


class Bakery(Shop):
    """Another shop, without orders."""

    order = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    @tool
    def bread(self) -> str:
        """List the sorts of bread."""
        return "rye"


NAMES = ["price", "order", "round_up", "tax", "name", "branches"]


@cases("run", [run_sync, run_async])
def test_method_is_called_on_its_object(run: Any) -> None:
    shop, other = Shop(3), Shop(4)
    for one, observed in ((shop, "tea costs 3"), (other, "tea costs 4")):
        result = run(AgentExecutor(agent=scripted(act("price", item="tea"), answer()), tools=[one.price]))
        assert result.steps[0].observation == observed
    assert (
        run(AgentExecutor(agent=scripted(act("order", item="tea", count=2)), tools=[shop.order])).output
        == "2 tea for 6"
    )


def test_self_is_no_argument() -> None:
    assert Shop(3).price.signature == "price(item: string)"
    assert Shop(3).price("tea") == "tea costs 3"
    assert (Shop(3).order.timeout, Shop(3).order.is_async) == (20, True)


def test_tools_of_an_object_are_bound_to_it() -> None:
    tools = {one.name: one for one in tools_of(Shop(3))}
    assert list(tools) == NAMES
    assert tools["price"]("tea") == "tea costs 3"
    assert tools["round_up"](1.5) == 2
    assert tools["tax"](10) == 1
    assert tools["name"]() == "Shop"
    assert tools["branches"]("Oslo") == "Shop in Oslo"


def test_subclass_changes_the_tools() -> None:
    tools = {one.name: one for one in tools_of(Bakery(3))}
    assert list(tools) == ["price", "round_up", "tax", "name", "branches", "bread"]
    assert tools["branches"]("Oslo") == "Bakery in Oslo"


def test_class_method_is_a_tool_of_an_executor() -> None:
    methods: list[Any] = [Shop.branches, Shop.name, Bakery(3).branches]
    for method, observed in zip(methods, ["Shop in Oslo", "Shop", "Bakery in Oslo"], strict=True):
        name = "name" if observed == "Shop" else "branches"
        arguments = {} if observed == "Shop" else {"city": "Oslo"}
        executor = AgentExecutor(agent=scripted(act(name, **arguments), answer()), tools=[method])
        assert executor.run("q").steps[0].observation == observed


def test_attributes_of_an_object_are_tools_too() -> None:
    holder = types.SimpleNamespace(first=echo, again=echo, other=3)
    assert tools_of(holder) == (echo,)


def test_tools_of_a_class_need_no_object() -> None:
    class Maths:
        @staticmethod
        @tool
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

    (double,) = tools_of(Maths)
    assert double(4) == 8
    with pytest.raises(ToolDefinitionError, match=r"Shop has the method price, .*; pass tools_of\(Shop\(\)\)"):
        tools_of(Shop)


def test_tools_of_a_module_are_its_public_ones() -> None:
    module = types.ModuleType("shopping")
    vars(module).update(search=echo, _hidden=Shop(3).price, number=3)
    assert tools_of(module) == (echo,)


@cases("empty", [types.ModuleType("empty"), object(), str, 3])
def test_source_without_tools_is_refused(empty: object) -> None:
    with pytest.raises(ToolDefinitionError, match="has no tools; write @tool above the functions"):
        tools_of(empty)


def test_method_without_an_object_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"price is a method .*; take it from one, as in Shop\(\).price"):
        AgentExecutor(agent=scripted(answer()), tools=[Shop.price])


def test_other_tools_are_not_bound() -> None:
    class Holder:
        search = echo

    # mypy takes every function of a class for a method.
    held: list[object] = [Holder().search, Holder.search]
    assert held == [echo, echo]


def test_async_method_and_its_function_are_bound() -> None:
    class Twice:
        async def _later(self, text: str) -> str:
            return f"awaited {text} {type(self).__name__}"

        @tool(async_function=_later)
        def say(self, text: str) -> str:
            """Say it."""
            return f"said {text} {type(self).__name__}"

    for run, observed in ((run_sync, "said x Twice"), (run_async, "awaited x Twice")):
        result = run(AgentExecutor(agent=scripted(act("say", text="x"), answer()), tools=[Twice().say]))
        assert result.steps[0].observation == observed


def plain(text: str) -> str:
    """Repeat a text."""
    return text


def test_functions_among_tools_become_tools() -> None:
    given: list[Any] = [echo, plain, Shop(3).price, Shop(3).branches]
    names = [one.name for one in to_tools(given)]
    assert names == ["echo", "plain", "price", "branches"]
    made: AnyTool = to_tools([plain])[0]
    assert isinstance(made, Tool)
    assert made("x") == "x"


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

# The schema of a LangChain tool, its signature here, and its argument in a sync and an async run.
LANGCHAIN = [
    (Question, "query: string, limit?: integer", ("invoked", "awaited"), "{'query': 'tea', 'limit': 3}"),
    (SCHEMA, "query: string", ("invoked", "awaited"), "{'query': 'tea'}"),
    (None, "tool_input: string", ("invoked", "awaited"), "tea"),
]


@cases(("schema", "signature", "ways", "argument"), LANGCHAIN)
def test_tool_of_langchain_is_invoked(schema: Any, signature: str, ways: tuple[str, str], argument: str) -> None:
    given: list[Any] = [LangChainTool(schema)]
    (made,) = to_tools(given)
    assert (made.signature, made.description) == (f"search({signature})", "Search the web.")
    for run, way in zip((run_sync, run_async), ways, strict=True):
        result = run(AgentExecutor(agent=scripted(act("search", **made.read("tea")), answer()), tools=[made]))
        assert result.steps[0].observation == f"{way} with {argument}"


class FirstVersion:
    """Stands for a model of pydantic 1."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"title": "Question", **SCHEMA}


@cases("schema", [Question, FirstVersion, SCHEMA, None])
def test_tool_of_langchain_may_return_directly(schema: Any) -> None:
    for direct in (False, True):
        (made,) = to_tools([LangChainTool(schema, return_direct=direct)])
        assert made.return_direct is direct
        assert made.read("tea")["tool_input" if schema is None else "query"] == "tea"


class Aliased(BaseModel):
    """What to search for."""

    text: str = Field(alias="query")
    most: int = Field(3, validation_alias=AliasChoices("limit", "max"))
    nested: Question | None = None


@cases(
    ("arguments", "invoked"),
    [
        ({"query": "tea"}, {"query": "tea", "nested": None}),
        ({"query": "tea", "limit": 5}, {"query": "tea", "limit": 5, "nested": None}),
        ({"query": "tea", "max": 5}, {"query": "tea", "max": 5, "nested": None}),
        ({"query": "tea", "nested": {"query": "milk"}}, {"query": "tea", "nested": {"query": "milk"}}),
    ],
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


@cases(("handled", "observed"), [(False, "search failed: ValueError: it is closed"), ("Try later.", "Try later.")])
def test_tool_of_langchain_handles_its_errors(handled: str | bool, observed: str) -> None:
    tools = to_tools([FailingTool(Question, handle_tool_error=handled)])
    result = run_sync(AgentExecutor(agent=scripted(act("search", query="tea"), answer()), tools=tools))
    assert result.steps[0].observation == observed


class Unserializable(BaseModel):
    """What has no JSON schema."""

    called: Callable[[], int]


@cases(
    ("schema", "says"),
    [
        (Unserializable, "search has an argument without a JSON schema"),
        (object, "search has args_schema=.*, which is not a model of pydantic 2; write class Arguments"),
        (3, "tool_from_schema has parameters=3; give a JSON schema"),
    ],
)
def test_unusable_schema_of_langchain_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        to_tools([LangChainTool(schema)])


@cases(
    ("wrong", "says"),
    [
        (3, "tools is 3; give a list of tools"),
        ("search", "tools is 'search'; give a list of tools"),
        ([3], "3 is not a tool; decorate the function with @tool"),
        ([Shop(3)], r"shop has tools, and is none; write \*tools_of\(shop\) instead of it"),
        ([lambda: 3], "a lambda has no name"),
    ],
)
def test_invalid_value_among_tools_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        to_tools(wrong)
