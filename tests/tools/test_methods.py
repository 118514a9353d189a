"""Methods that are tools, and the tools of an object, a class or a module."""

from __future__ import annotations

import types
from typing import Any

import pytest

from graphexec import Tool, errors, tool
from graphexec.tools import tools_of
from graphexec.tools.collecting import to_tools
from tests.executor.actors import AnyTool, Running, act, echo, make_executor, run_async, run_sync
from tests.parameters import cases
from tests.tools.actors import HOW, observe


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


@cases(
    ("method", "arguments", "observed"),
    (Shop.branches, {"city": "Oslo"}, "Shop in Oslo"),
    (Shop.name, {}, "Shop"),
    (Bakery(3).branches, {"city": "Oslo"}, "Bakery in Oslo"),
)
def test_class_method_is_a_tool_of_an_executor(method: Any, arguments: dict[str, str], observed: str) -> None:
    assert observe(run_sync, method, **arguments) == observed


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
    with pytest.raises(errors.ToolDefinitionError, match=r"Shop has the method price, .*; pass tools_of\(Shop\(\)\)"):
        tools_of(Shop)


@cases("empty", types.ModuleType("empty"), object(), str, 3)
def test_source_without_tools_is_refused(empty: object) -> None:
    with pytest.raises(errors.ToolDefinitionError, match="has no tools; write @tool above the functions"):
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


@cases(
    ("wrong", "says"),
    (3, "tools is 3; give a list of tools"),
    ("search", "tools is 'search'; give a list of tools"),
    ([3], "3 is not a tool; decorate the function with @tool"),
    ([Shop(3)], r"shop has tools, and is none; write \*tools_of\(shop\) instead of it"),
    ([lambda: 3], "a lambda has no name"),
)
def test_invalid_value_among_tools_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(errors.ToolDefinitionError, match=says):
        to_tools(wrong)
