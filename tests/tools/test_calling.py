"""Results and exceptions of tools in sync and async runs: never lost, never confused with our own errors."""

import asyncio
import functools
import re
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import tool
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.tools.calling import make_tool_handler
from tests.executor import actors
from tests.parameters import cases
from tests.tools.actors import HOW, KIND, Mute, observe, raising


@pytest.mark.medium
@HOW
@KIND
@cases("count", 1, 2)
@cases("limit", None, 30.0)
@cases(
    ("error", "message"),
    (ValueError("bad"), "ValueError: bad"),
    (KeyError("k"), "KeyError: 'k'"),
    (RuntimeError(), "RuntimeError"),
    (TimeoutError("late"), "TimeoutError: late"),
    (asyncio.CancelledError("its own"), "CancelledError: its own"),
    (ExceptionGroup("two", [ValueError("a"), OSError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), "UnicodeDecodeError: 'utf-8' codec"),
    (AssertionError("no"), "AssertionError: no"),
    (RecursionError("deep"), "RecursionError: deep"),
    (MemoryError(), "MemoryError"),
)
def test_exception_is_an_observation(
    run: actors.Running, kind: str, error: BaseException, message: str, count: int, limit: float | None
) -> None:
    turns = [actors.act("raises")] * count, actors.answer()
    result = run(actors.make_executor(*turns, tools=[raising(error, kind)], max_execution_time=limit))
    assert [step.status for step in result.steps] == ["error"] * count
    assert all(step.observation.startswith(f"raises failed: {message}") for step in result.steps), result.steps
    assert result.output == "done"


@pytest.mark.medium
@HOW
@KIND
@cases("error", KeyboardInterrupt("ctrl-c"), SystemExit(3), GeneratorExit("odd"))
@cases("limit", None, 30.0)
@cases("count", 1, 2)
def test_what_is_no_exception_is_raised(
    run: actors.Running, kind: str, error: BaseException, limit: float | None, count: int
) -> None:
    turns = actors.act("echo", text="a"), [actors.act("raises")] * count
    with pytest.raises(type(error)):
        run(actors.make_executor(*turns, tools=[actors.echo, raising(error, kind)], max_execution_time=limit))


@HOW
@cases(("error", "message"), (StopIteration("end"), "StopIteration: end"), (Mute(), "Mute"))
def test_odd_exception_is_equal_in_all_drivers(run: actors.Running, error: Exception, message: str) -> None:
    assert observe(run, raising(error)) == f"raises failed: {message}"


@HOW
@cases("timeout", None, 20)
def test_decorated_async_tool_is_awaited(run: actors.Running, timeout: float | None) -> None:
    async def greet(text: str) -> str:
        """Greet."""
        await asyncio.sleep(0)
        if text == "no one":
            raise LookupError(text)
        return f"hello {text}"

    @functools.wraps(greet)
    def traced(text: str) -> Any:
        return greet(text)

    batch = [actors.act("greet", text="you"), actors.act("greet", text="no one")]
    result = run(actors.make_executor(batch, actors.answer(), tools=[tool(timeout=timeout)(traced)]))
    assert [step.observation for step in result.steps] == ["hello you", "greet failed: LookupError: no one"]


@HOW
@KIND
@cases("count", 1, 2)
@cases("settings", {}, {"timeout": 20})
def test_on_error_raise_raises_the_tools_exception(run: actors.Running, kind: str, count: int, settings: Any) -> None:
    error = LookupError("mine")
    tools = [actors.echo, raising(error, kind, on_error="raise", **settings)]
    executor = actors.make_executor(actors.act("echo", text="before"), [actors.act("raises")] * count, tools=tools)
    with pytest.raises(LookupError) as raised:
        run(executor)
    assert raised.value is error
    # The results of the paid calls are kept.
    kept = actors.snapshot_in(error)
    assert kept.node == "dispatch_tools"
    assert [step.observation for step in getattr(kept.value, "run").steps] == ["before"]  # noqa: B009 - any outcome


def test_return_direct_ignores_a_timed_out_tool(released: threading.Event) -> None:
    @tool(return_direct=True, timeout=0.02)
    def slow() -> str:
        """Wait."""
        released.wait(20)
        return "late"

    result = actors.make_executor(actors.act("slow"), actors.answer("by the agent"), tools=[slow]).run("q")
    assert (result.output, result.reason) == ("by the agent", "finished")


def make_tools(*names: str) -> dict[str, actors.AnyTool]:
    return {name: tool(name=name)(actors.echo.function) for name in names}


ALONE = "Write its name alone; the arguments belong in the input."


@cases(
    ("requested", "suggested"),
    ("web_serch", " Did you mean web_search?"),
    ("WebSearch", " Did you mean web_search?"),
    ("WEB_SEARCH", " Did you mean web_search?"),
    ("calculator", " Did you mean Calculate?"),
    ("weather", ""),
    ("", ""),
    ("webserch(query: 'x')", " Did you mean web_search?"),
    ("web_search, Calculate", f" Did you mean web_search? {ALONE}"),
    ("one of [web_search, Calculate]", ""),
)
def test_unknown_tool_suggests_the_closest_name(requested: str, suggested: str) -> None:
    result = actors.reply_of(make_tool_handler(make_tools("web_search", "Calculate")), CallTool(requested, "x"))
    first = f"{requested} is not a valid tool, try one of [web_search, Calculate]."
    assert result == ToolResult(first + suggested, "unknown_tool")


# What models write around the name of a tool.
FORMS = [
    *('{}(city: "Oslo")', '{}("Oslo")', "{} city=Oslo", "{}()", "{}: Oslo", "`{}`", "[{}]", "{}\n", "{}.", "{}[Oslo]"),
    *("functions.{}", "use {}", "call {} for Oslo", "the {} tool", '{}{{"city": "Oslo"}}', "**{}**", '"{}"', "<{}>"),
]


@given(st.sampled_from(FORMS), st.sampled_from(["web_search", "Web_Search"]), st.text(" ,;()=.", max_size=5))
def test_call_in_place_of_a_name_is_recognized(form: str, name: str, more: str) -> None:
    handler = make_tool_handler(make_tools("web_search", "Calculate"))
    observation = actors.reply_of(handler, CallTool(form.format(name) + more, "x")).observation
    assert observation.endswith(f" Did you mean web_search? {ALONE}")


@given(st.text(), st.lists(st.sampled_from(["a", "A", "echo", "Echo", "straße", "STRASSE", "x y"]), unique=True))
@example("0" * 200, [])
@example("0" * 201, [])
def test_any_unknown_name_has_langchains_sentence(name: str, names: list[str]) -> None:
    """Of a name without end, which a model may write, the sentence has the first 200 characters."""
    result = actors.reply_of(make_tool_handler(make_tools(*names)), CallTool(name, "x"))
    if name in names:
        assert result == ToolResult("x")
    else:
        assert result.status == "unknown_tool"
        shown = name if len(name) <= 200 else f"{name[:200]}..."
        assert result.observation.startswith(f"{shown} is not a valid tool, try one of [{', '.join(names)}].")


def test_case_insensitive_lookup_finds_names() -> None:
    tools = make_tools("Web_Search", "Straße")
    handler = make_tool_handler(tools, lookup="case_insensitive")
    for name in ("Web_Search", "web_search", "WEB_SEARCH", "STRASSE"):
        assert actors.reply_of(handler, CallTool(name, "x")) == ToolResult("x")
    assert actors.reply_of(handler, CallTool("websearch", "x")).observation == (
        "websearch is not a valid tool, try one of [Web_Search, Straße]. Did you mean Web_Search?"
    )
    assert actors.reply_of(make_tool_handler(tools), CallTool("web_search", "x")).status == "unknown_tool"


def test_case_insensitive_lookup_rejects_ambiguous_names() -> None:
    tools = make_tools("search", "Search")
    assert actors.reply_of(make_tool_handler(tools), CallTool("Search", "x")) == ToolResult("x")
    with pytest.raises(ToolDefinitionError, match="two tools are named search and Search, which differ only in case"):
        make_tool_handler(tools, lookup="case_insensitive")


@cases("wrong", "fuzzy", ["exact"], None)
def test_invalid_lookup_is_rejected(wrong: Any) -> None:
    with pytest.raises(InputError, match=f"^tool_lookup is {re.escape(repr(wrong))}; give 'exact' or 'case_"):
        make_tool_handler({}, lookup=wrong)
