"""The forms in which a tool may be written: LangChain's class, plain functions, and callables of every kind."""

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
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, Running, act, make_executor, run_async, run_sync
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


def test_bound_argument_is_not_shown_to_the_model() -> None:
    def send(text: str, key: str = "") -> str:
        """Send a text."""
        return f"{text} with {key}"

    made: AnyTool = tool(functools.partial(send, key="secret"))
    assert "secret" not in str(made.parameters)
    assert first(made, "hey") == "hey with secret"


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
