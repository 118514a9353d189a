"""`graphexec run --tools`: those of a module, objects with tools, and functions without `@tool`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.targets import tools_at
from tests.parameters import cases

FILES = {
    "plain_functions": """
from graphexec import create_agent

def _helper(text: str) -> str:
    return text

def weather(city: str) -> str:
    "Return the weather in a city."
    return f"It rains in {city}."

def untyped(city):
    "Return nothing."

def silent(city: str) -> str:
    return city

class Shop:
    def price(self, item: str) -> int:
        "Return the price of an item."
        return 3

price = Shop().price
several = [weather, price]
number = 3
none = ()
executor = create_agent(lambda request: "", [weather])
""",
    "shop_of_mine": """
from graphexec import tool
from other_tools import wait

class Shop:
    @tool
    def price(self, item: str) -> int:
        "Return the price of an item."
        return 3

@tool
def weather(city: str) -> str:
    "Return the weather in a city."
    return f"It rains in {city}."

shop = Shop()
""",
    "other_tools": """
from graphexec import tool

@tool
def wait() -> str:
    "Wait."
    return ""
""",
    "only_imports": "from other_tools import wait",
    "no_functions": "from plain_functions import weather",
    "unusable": "def add(a, b):\n    'Add two numbers.'\n    return a + b\n\ndef silent(a: int) -> int:\n    return a",
    "second_usable": "def add(a, b):\n    'Add.'\n\ndef half(a: int) -> float:\n    'Halve.'\n    return a / 2",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


FOUND = {
    "plain_functions:weather": ["weather"],
    "plain_functions.py:several": ["weather", "price"],
    "plain_functions:price": ["price"],
    "shop_of_mine:shop": ["price"],
    # The tools of a module are those that it defines, and else those that it imports.
    "shop_of_mine": ["weather"],
    "shop_of_mine.py": ["weather"],
    "only_imports": ["wait"],
}


@cases("reference", FOUND)
def test_functions_and_modules_are_tools(reference: str) -> None:
    assert [tool.name for tool in tools_at(reference)] == FOUND[reference]


NO_TOOLS = "has no tools; write @tool above its functions"
NOT_TOOLS = "is not a tool or a list of tools: "
# A reference, and the error after it.
WRONG = {
    "plain_functions": f"{NO_TOOLS}, or name one, such as plain_functions:weather",
    "plain_functions.py": f"{NO_TOOLS}, or name one, such as plain_functions.py:weather",
    "no_functions": NO_TOOLS,
    "unusable.py": f"{NO_TOOLS}; add does not annotate a; write a: str, say",
    "second_usable.py": f"{NO_TOOLS}, or name one, such as second_usable.py:half",
    "plain_functions:untyped": f"{NOT_TOOLS}untyped does not annotate city; write city: str, say",
    "plain_functions:silent": f"{NOT_TOOLS}silent has no docstring, so no model knows what it does; write one line",
    "plain_functions:executor": f"{NOT_TOOLS}tool was given an executor; write executor.as_tool(name, description)",
    "plain_functions:number": f"{NOT_TOOLS}int has no tools; write @tool above the functions that a model may call",
    "plain_functions:weather,plain_functions:price": (
        "has a comma; write --tools for each: --tools plain_functions:weather --tools plain_functions:price"
    ),
    "./plain_functions": "is neither a module nor a Python file; did you mean ./plain_functions.py?",
    "plain_functions:none": "is an empty tuple; name a tool or a list of tools",
}


@cases("reference", WRONG)
def test_reference_without_tools_gets_the_remedy(reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        tools_at(reference)
    assert str(caught.value) == f"{reference} {WRONG[reference]}"


def test_dot_before_an_object_gets_the_remedy() -> None:
    for reference in ("plain_functions.weather", "plain_functions.weather:x"):
        with pytest.raises(
            UsageError, match=r"no module plain_functions\.weather .*; did you mean plain_functions:weath"
        ):
            tools_at(reference)
