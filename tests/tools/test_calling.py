"""Results and exceptions of tools in sync and async runs: never lost, never confused with our own errors."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import re
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, Tool, create_react_agent, snapshot_of, tool
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.models import ScriptedModel
from graphexec.tools.calling import make_tool_handler
from tests.drivers import LIVE, Driver
from tests.executor.actors import (
    AnyTool,
    Running,
    act,
    answer,
    direct,
    echo,
    fail,
    make_executor,
    observations,
    prompt,
    reply_of,
    run_executor,
    script_of,
    scripted,
    statuses,
)
from tests.parameters import cases
from tests.tools.actors import HOW, KIND, call_tool, observe, raising


@pytest.mark.medium
@HOW
@KIND
@cases("count", [1, 2])
@cases("limit", [None, 30.0])
@cases(
    ("error", "message"),
    [
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
    ],
)
def test_exception_is_an_observation(
    run: Running, kind: str, error: BaseException, message: str, count: int, limit: float | None
) -> None:
    turns = [act("raises")] * count, answer()
    result = run(make_executor(*turns, tools=[raising(error, kind)], max_execution_time=limit))
    assert [step.status for step in result.steps] == ["error"] * count
    assert all(step.observation.startswith(f"raises failed: {message}") for step in result.steps), result.steps
    assert result.output == "done"


@pytest.mark.medium
@HOW
@KIND
@cases("error", [KeyboardInterrupt("ctrl-c"), SystemExit(3), GeneratorExit("odd")])
@cases("limit", [None, 30.0])
@cases("count", [1, 2])
def test_what_is_no_exception_is_raised(
    run: Running, kind: str, error: BaseException, limit: float | None, count: int
) -> None:
    turns = act("echo", text="a"), [act("raises")] * count
    with pytest.raises(type(error)):
        run(make_executor(*turns, tools=[echo, raising(error, kind)], max_execution_time=limit))


@HOW
def test_stop_iteration_is_equal_in_all_drivers(run: Running) -> None:
    assert observe(run, raising(StopIteration("end"))) == "raises failed: StopIteration: end"


@HOW
@cases("timeout", [None, 20])
def test_decorated_async_tool_is_awaited(run: Running, timeout: float | None) -> None:
    async def greet(text: str) -> str:
        """Greet."""
        await asyncio.sleep(0)
        if text == "no one":
            raise LookupError(text)
        return f"hello {text}"

    @functools.wraps(greet)
    def traced(text: str) -> Any:
        return greet(text)

    batch = [act("greet", text="you"), act("greet", text="no one")]
    result = run(make_executor(batch, answer(), tools=[tool(timeout=timeout)(traced)]))
    assert [step.observation for step in result.steps] == ["hello you", "greet failed: LookupError: no one"]


@HOW
@KIND
@cases("count", [1, 2])
@cases("settings", [{}, {"timeout": 20}])
def test_on_error_raise_raises_the_tools_exception(
    run: Running, kind: str, count: int, settings: dict[str, Any]
) -> None:
    error = LookupError("mine")
    tools = [echo, raising(error, kind, on_error="raise", **settings)]
    executor = make_executor(act("echo", text="before"), [act("raises")] * count, tools=tools)
    with pytest.raises(LookupError) as raised:
        run(executor)
    assert raised.value is error
    # The results of the paid calls are kept.
    kept = snapshot_of(error)
    assert kept is not None
    assert kept.node == "dispatch_tools"
    assert [step.observation for step in getattr(kept.value, "run").steps] == ["before"]  # noqa: B009 - any outcome


def test_on_error_raise_concerns_only_exceptions() -> None:
    strict = tool(on_error="raise")(echo.function)
    result = run_executor(lambda: make_executor([act("echo"), act("nope")], answer(), tools=[strict]))
    assert statuses(result) == ["bad_arguments", "unknown_tool"]


@tool(return_direct=True)
def direct_failing(text: str) -> str:
    """Never work."""
    raise ValueError(text)


def test_return_direct_answers_after_a_single_call() -> None:
    result = run_executor(lambda: make_executor(act("direct", text="42"), tools=[direct]))
    assert isinstance(result.outcome, AgentFinish)
    assert (result.outcome.output, result.outcome.return_direct, result.outcome.log) == ("42", True, "")
    assert observations(result) == ["42"]


@pytest.mark.medium
@cases(
    "turn",
    [
        [act("direct", text="a"), act("direct", text="b")],
        [act("echo", text="a"), act("direct", text="b")],
        act("direct_failing", text="a"),
        act("direct", texd="a"),
        act("nope", text="a"),
        act("Direct", text="a"),
    ],
)
def test_return_direct_requires_one_successful_call(turn: Any) -> None:
    result = run_executor(lambda: make_executor(turn, answer("by the agent"), tools=[direct, direct_failing, echo]))
    assert result.outcome.output == "by the agent"
    assert isinstance(result.outcome, AgentFinish)
    assert not result.outcome.return_direct


def test_return_direct_ignores_a_timed_out_tool() -> None:
    released = threading.Event()

    @tool(return_direct=True, timeout=0.02)
    def slow() -> str:
        """Wait."""
        released.wait(20)
        return "late"

    result = make_executor(act("slow"), answer("by the agent"), tools=[slow]).run("q")
    released.set()
    assert (result.output, result.reason) == ("by the agent", "finished")


@cases(("tools", "known"), [((fail,), "fail"), ((), "")])
def test_unknown_tool_lists_the_known_names(tools: tuple[AnyTool, ...], known: str) -> None:
    result = run_executor(lambda: make_executor(act(" echo "), answer(), tools=tools))
    assert observations(result) == [f" echo  is not a valid tool, try one of [{known}]."]


def make_tools(*names: str) -> dict[str, AnyTool]:
    return {name: tool(name=name)(echo.function) for name in names}


ALONE = "Write its name alone; the arguments belong in the input."


@cases(
    ("requested", "suggested"),
    [
        ("web_serch", " Did you mean web_search?"),
        ("WebSearch", " Did you mean web_search?"),
        ("WEB_SEARCH", " Did you mean web_search?"),
        ("calculator", " Did you mean Calculate?"),
        ("weather", ""),
        ("", ""),
        ("webserch(query: 'x')", " Did you mean web_search?"),
        ("web_search, Calculate", f" Did you mean web_search? {ALONE}"),
        ("one of [web_search, Calculate]", ""),
    ],
)
def test_unknown_tool_suggests_the_closest_name(requested: str, suggested: str) -> None:
    result = reply_of(make_tool_handler(make_tools("web_search", "Calculate")), CallTool(requested, "x"))
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
    observation = reply_of(handler, CallTool(form.format(name) + more, "x")).observation
    assert observation.endswith(f" Did you mean web_search? {ALONE}")


@given(st.text(), st.lists(st.sampled_from(["a", "A", "echo", "Echo", "straße", "STRASSE", "x y"]), unique=True))
@example("0" * 200, [])
@example("0" * 201, [])
def test_any_unknown_name_has_langchains_sentence(name: str, names: list[str]) -> None:
    """Of a name without end, which a model may write, the sentence has the first 200 characters."""
    result = reply_of(make_tool_handler(make_tools(*names)), CallTool(name, "x"))
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
        assert reply_of(handler, CallTool(name, "x")) == ToolResult("x")
    assert reply_of(handler, CallTool("websearch", "x")).observation == (
        "websearch is not a valid tool, try one of [Web_Search, Straße]. Did you mean Web_Search?"
    )
    assert reply_of(make_tool_handler(tools), CallTool("web_search", "x")).status == "unknown_tool"


def test_case_insensitive_lookup_rejects_ambiguous_names() -> None:
    tools = make_tools("search", "Search")
    assert reply_of(make_tool_handler(tools), CallTool("Search", "x")) == ToolResult("x")
    with pytest.raises(ToolDefinitionError, match="two tools are named search and Search, which differ only in case"):
        make_tool_handler(tools, lookup="case_insensitive")


@cases("wrong", ["fuzzy", ["exact"], None])
def test_invalid_lookup_is_rejected(wrong: Any) -> None:
    with pytest.raises(InputError, match=f"^tool_lookup is {re.escape(repr(wrong))}; give 'exact' or 'case_"):
        make_tool_handler({}, lookup=wrong)


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"

    __str__ = __repr__


CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)


@dataclasses.dataclass
class Point:
    x: int
    y: int


def giving(returned: Any) -> AnyTool:
    def give() -> Any:
        """Give it."""
        return returned

    return tool(give)


@pytest.mark.medium
@cases("driver", LIVE)
@cases(
    ("returned", "shown"),
    [
        (42, "42"),
        (None, "null"),
        ("", ""),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (dt.date(2026, 2, 28), '"2026-02-28"'),
        (Opaque(), '"<opaque>"'),
        (b"\xff\x00", "b'\\xff\\x00'"),
        ({"a": "\ud800"}, "{'a': '\\ud800'}"),
        (CIRCULAR, "[[...]]"),
        (float("nan"), "NaN"),
        ("naïve ☃ 日本 \U0001f600", "naïve ☃ 日本 \U0001f600"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
)
def test_any_observation_is_kept_and_shown_as_text(driver: Driver, returned: Any, shown: str) -> None:
    one, model = giving(returned), ScriptedModel(["Action: give\nAction Input:", "Final Answer: done"])
    result = driver(script_of(AgentExecutor(agent=create_react_agent(model, [one]), tools=[one])))
    assert result.outcome.steps[0].observation is returned
    assert prompt(model.requests[1]).endswith(f"\nObservation: {shown}\nThought: ")


@cases("returned", [42, None, "", {"a": [1, {"b": None}]}, "☃", [1.5, True]])
def test_json_observation_survives_serialization(returned: Any) -> None:
    result = run_executor(lambda: make_executor(act("give"), answer(), tools=[giving(returned)]))
    assert observations(result) == [returned]


@cases("tool_input", ["hi", {"text": "hi"}])
def test_tool_handler_works_without_an_executor(tool_input: Any) -> None:
    assert call_tool(echo, tool_input) == ToolResult("hi")


def test_tool_can_be_in_several_sets() -> None:
    shared: Tool[[str], str] = echo
    assert AgentExecutor(agent=scripted(answer()), tools=[shared]).tools == {"echo": echo}
    assert AgentExecutor(agent=scripted(answer()), tools=(shared,)).tools == {"echo": echo}
