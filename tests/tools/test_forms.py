"""The forms in which a tool may be written: plain functions, callables, methods, and the tools of an object."""

# Functions without annotations are what is tested.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphexec import Tool, tool
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.tools import tools_of
from graphexec.tools.collecting import to_tools
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, Running, act, echo, make_executor, run_async, run_sync
from tests.parameters import cases
from tests.tools.actors import HOW, observe


# Any: type checkers reject functions without annotations.
def untyped(query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return f"found {query}"


UNTYPED: Any = untyped


async def untyped_async(q):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return f"awaited {q}"


UNTYPED_ASYNC: Any = untyped_async


class Searching:
    """Searches."""

    def __call__(self, query: str, limit: int = 3) -> str:
        """Search the web."""
        return f"{query} {limit}"

    def run(self, *args: Any, **kwargs: Any) -> str:
        return f"ran {args} {kwargs}"


def pair(left: str, right: str = "r") -> str:
    """Join two words."""
    return f"{left}{right}"


def first(made: AnyTool, text: str) -> object:
    return made.function(**made.read(text))


# A function, its signature as a tool, and what it returns for "abc".
FUNCTIONS: list[tuple[Any, str, object]] = [
    (UNTYPED, "query: string", "found abc"),
    (lambda text: text.upper(), "text: string", "ABC"),
    (lambda _: "nothing", "input: string", "nothing"),
    (lambda *texts: texts, "input: string", ("abc",)),
    (lambda *texts, **named: (texts, named), "input: string", (("abc",), {})),
    (lambda text, limit=3: (text, limit), "text: string", ("abc", 3)),
    (lambda text="none": text, "text?: string", "abc"),
    (lambda *, text: text, "text: string", "abc"),
    (lambda: "now", "", "now"),
    (len, "input: string", 3),
    (str.upper, "input: string", "ABC"),
    (str, "input: string", "abc"),
    (Searching().run, "input: string", "ran ('abc',) {}"),
    (Searching(), "query: string, limit?: integer", "abc 3"),
    (pair, "left: string, right?: string", "abcr"),
    (functools.partial(pair, right="!"), "left: string", "abc!"),
    (functools.partial(pair, "!"), "right?: string", "!abc"),
]


@cases(("function", "signature", "result"), *FUNCTIONS)
def test_tool_takes_a_plain_function(function: Any, signature: str, result: object) -> None:
    made: AnyTool = Tool(name="Find", func=function, description="Find it.")
    assert (made.signature, made.description) == (f"Find({signature})", "Find it.")
    assert first(made, "abc") == result


def test_tool_takes_its_arguments_by_position() -> None:
    made: AnyTool = Tool("Find", UNTYPED, "Find it.")
    assert first(made, "abc") == made("abc") == "found abc"
    assert Tool("length", len, "Count the letters.")("abc") == 3
    full: AnyTool = Tool(name="find", function=UNTYPED, description="Find it.", async_function=UNTYPED_ASYNC)
    assert first(full, "abc") == "found abc"
    # The description is by default the docstring.
    assert Tool("join", pair).description == "Join two words."
    with pytest.raises(ToolDefinitionError, match="find has no docstring"):
        Tool("find", UNTYPED)


# A JSON object would be all arguments by name.
@given(st.text().filter(lambda text: not text.lstrip().startswith("{")))
def test_untyped_function_receives_any_text(text: str) -> None:
    same: Any = lambda value: value  # noqa: E731
    made: AnyTool = Tool("echo", same, "Repeat it.")
    assert first(made, text) == text


# The functions of a tool, and what a sync and an async run observe.
@cases(
    ("functions", "blocking", "awaited"),
    ({"func": UNTYPED_ASYNC}, "awaited x", "awaited x"),
    ({"func": None, "coroutine": UNTYPED_ASYNC}, "awaited x", "awaited x"),
    ({"coroutine": UNTYPED_ASYNC}, "awaited x", "awaited x"),
    ({"func": UNTYPED, "coroutine": UNTYPED_ASYNC}, "found x", "awaited x"),
)
def test_coroutine_is_called_in_async_runs(functions: dict[str, Any], blocking: str, awaited: str) -> None:
    made: AnyTool = Tool(name="find", description="Find it.", **functions)
    assert observe(run_sync, made, **made.read("x")) == blocking
    assert observe(run_async, made, **made.read("x")) == awaited


@cases(
    ("arguments", "says"),
    ({"func": lambda left, right: left}, "find takes left, right, and without .* string; annotate left and right"),
    ({"func": lambda **named: named}, r"find takes \*\*named, which has no schema; name each argument"),
    ({"func": None}, r"find has no function; pass func=..., or coroutine=... for an async def"),
    ({"func": 3}, "tool was given 3; write @tool above a function, with def"),
    ({"func": UNTYPED, "coroutine": UNTYPED}, r"find has coroutine=.*; give a function \(async def\)"),
    ({"func": pair, "coroutine": UNTYPED_ASYNC}, "func that takes left, right, and a coroutine that takes q; give"),
    ({"func": UNTYPED, "name": ""}, "a tool has name=''; give a name, as a string"),
    ({"func": UNTYPED, "description": 3}, "find has description=3; give a string"),
    ({"func": UNTYPED, "timeout": -1}, "find has timeout=-1; give seconds above 0"),
)
def test_invalid_tool_is_refused_with_the_remedy(arguments: dict[str, Any], says: str) -> None:
    arguments = {"name": "find", "description": "Find it.", **arguments}
    with pytest.raises(ToolDefinitionError, match=says):
        Tool(**arguments)


class Search(BaseModel):
    """Search the web."""

    query: str
    limit: int = 10


def search(query: str, limit: int) -> str:
    return f"{query} {limit}"


async def search_async(query: str, limit: int) -> str:
    return f"awaited {query} {limit}"


def test_from_function_takes_a_schema_of_arguments() -> None:
    made = Tool.from_function(search, "web", args_schema=Search, coroutine=search_async, return_direct=True)
    assert repr(made) == "<tool web(query: string, limit?: integer)>"
    assert (made.description, made.return_direct) == ("Search the web.", True)
    # The model's default is passed, because the function may have none.
    assert made.read({"query": "x", "limit": "3"}) == {"query": "x", "limit": 3}
    assert first(made, "x") == "x 10"
    with pytest.raises(InvalidArgumentsError, match="limit: Input should be a valid integer"):
        made.read({"query": "x", "limit": "many"})
    assert run_async(make_executor(act("web", query="x"), tools=[made])).output == "awaited x 10"


def test_from_function_reads_the_function() -> None:
    other: Any
    for other in ({"type": "object"}, int, 3):
        with pytest.raises(ToolDefinitionError, match=r"web has args_schema=.*, which is not .* or tool_from_schema\("):
            Tool.from_function(search, "web", "Search.", args_schema=other)
    assert repr(Tool.from_function(pair)) == "<tool pair(left: string, right?: string)>"
    assert repr(Tool.from_function(coroutine=search_async, description="Search.")).startswith("<tool search_async(")
    assert Tool.from_function(func=UNTYPED, name="find", description="Find it.").read("x") == {"query": "x"}
    with pytest.raises(ToolDefinitionError, match="from_function was given no function"):
        Tool.from_function(name="find")


def test_replaced_tool_keeps_the_other_fields() -> None:
    made: AnyTool = Tool("Find", UNTYPED, "Find it.", coroutine=UNTYPED_ASYNC)
    quick = dataclasses.replace(made, timeout=3.0)
    assert (quick.timeout, quick.name, quick.description) == (3.0, "Find", "Find it.")
    assert (quick.function, quick.async_function) == (made.function, made.async_function)


def logged(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return f"logged {function(*args, **kwargs)}"

    return wrapper


@dataclasses.dataclass
class Point:
    """A point of a map."""

    x: float
    y: float = 0.0


def homeless() -> Callable[..., str]:
    """Return a function that belongs to no module."""
    made = types.FunctionType(pair.__code__, {}, "pair", ("r",))
    made.__doc__, made.__annotations__ = pair.__doc__, pair.__annotations__
    made.__kwdefaults__ = None
    return made


# What `tool` makes a tool of, its signature, and its description.
CALLABLES: list[tuple[Any, str, str]] = [
    (Searching(), "Searching(query: string, limit?: integer)", "Search the web."),
    (functools.partial(pair, right="!"), "pair(left: string)", "Join two words."),
    (functools.partial(functools.partial(pair), right="!"), "pair(left: string)", "Join two words."),
    (logged(pair), "pair(left: string, right?: string)", "Join two words."),
    (Search, "Search(query: string, limit?: integer)", "Search the web."),
    (Point, "Point(x: number, y?: number)", "A point of a map."),
    (homeless(), "pair(left: string, right?: string)", "Join two words."),
]


@cases(("called", "signature", "description"), *CALLABLES)
def test_every_callable_is_a_tool(called: Any, signature: str, description: str) -> None:
    made: AnyTool = tool(called)
    assert (made.signature, made.description) == (signature, description)
    # A bound argument is not shown to the model.
    assert "!" not in str(made.parameters)


def test_lambda_is_a_tool_with_name_and_description() -> None:
    shout: Any = lambda text: text.upper()  # noqa: E731
    made: AnyTool = tool(name="shout", description="Shout it.")(shout)
    assert first(made, "hey") == "HEY"
    with pytest.raises(ToolDefinitionError, match="a lambda has no name; write Tool"):
        tool(shout)


@HOW
def test_async_callable_object_is_awaited(run: Running) -> None:
    class Later:
        async def __call__(self, text: str) -> str:
            """Repeat it later."""
            return text

    made: AnyTool = tool(name="later")(Later())
    assert made.is_async
    assert observe(run, made, text="x") == "x"


def test_result_of_a_coroutine_function_is_refused() -> None:
    called: Any = search_async("x", 3)
    with pytest.raises(ToolDefinitionError, match="the result of a call of search_async; pass the function itself"):
        tool(called)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        asyncio.run(called)


@cases(
    ("arguments", "says"),
    ({"args_schema": Search}, r"no option args_schema; write Tool.from_function\(func, args_schema=Model\)"),
    ({"handle_tool_error": True}, "no option handle_tool_error; write on_error=..."),
    ({"retries": 2}, r"no option retries; write tool\(name=..., description=..., retries=2\)\(function\)"),
    ({"descriptoin": "x"}, "no option descriptoin; did you mean description?"),
)
def test_unknown_option_gets_the_remedy(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"Tool has {says}"):
        Tool("find", pair, **arguments)


# ---- methods, and the tools of an object, a class or a module


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


@HOW
def test_method_is_called_on_its_object(run: Running) -> None:
    shop, other = Shop(3), Shop(4)
    assert observe(run, shop.price, item="tea") == "tea costs 3"
    assert observe(run, other.price, item="tea") == "tea costs 4"
    assert run(make_executor(act("order", item="tea", count=2), tools=[shop.order])).output == "2 tea for 6"
    # `self` is no argument.
    assert shop.price.signature == "price(item: string)"
    assert shop.price("tea") == "tea costs 3"
    assert (shop.order.timeout, shop.order.is_async) == (20, True)
    # A class method is called on its class.
    assert observe(run, Shop.branches, city="Oslo") == "Shop in Oslo"
    assert observe(run, Shop.name) == "Shop"
    assert observe(run, Bakery(3).branches, city="Oslo") == "Bakery in Oslo"


def test_tools_of_an_object_are_bound_to_it() -> None:
    tools = {one.name: one for one in tools_of(Shop(3))}
    assert list(tools) == ["price", "order", "round_up", "tax", "name", "branches"]
    assert tools["price"]("tea") == "tea costs 3"
    assert tools["round_up"](1.5) == 2
    assert tools["tax"](10) == 1
    assert tools["name"]() == "Shop"
    assert tools["branches"]("Oslo") == "Shop in Oslo"
    # A subclass changes the tools.
    changed = {one.name: one for one in tools_of(Bakery(3))}
    assert list(changed) == ["price", "round_up", "tax", "name", "branches", "bread"]
    assert changed["branches"]("Oslo") == "Bakery in Oslo"


# An object, and a module; of a module only what is public.
MODULE = types.ModuleType("shopping")
vars(MODULE).update(search=echo, _hidden=Shop(3).price, number=3)


@cases("source", types.SimpleNamespace(first=echo, again=echo, other=3), MODULE)
def test_attributes_are_tools_too(source: object) -> None:
    assert tools_of(source) == (echo,)


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


@cases("empty", types.ModuleType("empty"), object(), str, 3)
def test_source_without_tools_is_refused(empty: object) -> None:
    with pytest.raises(ToolDefinitionError, match="has no tools; write @tool above the functions"):
        tools_of(empty)


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

    assert observe(run_sync, Twice().say, text="x") == "said x Twice"
    assert observe(run_async, Twice().say, text="x") == "awaited x Twice"


def test_functions_among_tools_become_tools() -> None:
    given: list[Any] = [functools.partial(pair, right="!"), echo, Shop(3).price, Shop(3).branches]
    made, *others = to_tools(given)
    assert [made.name, *(one.name for one in others)] == ["pair", "echo", "price", "branches"]
    assert isinstance(made, Tool)
    assert made("x") == "x!"


@cases(
    ("wrong", "says"),
    (3, "tools is 3; give a list of tools"),
    ("search", "tools is 'search'; give a list of tools"),
    ([3], "3 is not a tool; decorate the function with @tool"),
    ([Shop(3)], r"shop has tools, and is none; write \*tools_of\(shop\) instead of it"),
    ([lambda: 3], "a lambda has no name"),
)
def test_invalid_value_among_tools_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        to_tools(wrong)
