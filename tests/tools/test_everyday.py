"""The everyday tools accept any text, and no tool is called with longer arguments than its limit."""

import contextlib
import datetime as dt
import importlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec
from graphexec import AgentExecutor, create_react_agent, effects, errors, models, tool, tools
from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.tools import everyday
from graphexec.tools.calling import make_tool_handler
from graphexec.tools.everyday import LARGEST, LONGEST, ExpressionError, calculator, evaluate, today
from tests.executor import actors
from tests.parameters import cases, examples
from tests.tools.actors import call_tool

_NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str), st.floats(0, 10**6, allow_subnormal=False).map(lambda number: f"{number:.6f}")
)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", " + ", " - "]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["**2", "**0.5", " ** 3", "**-1"])).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS.filter(lambda text: len(text) <= LONGEST))
@example("2 ** 3 ** 2")
@example("-2**2")
@example("7 // -2 % 3")
def test_calculator_agrees_with_python(expression: str) -> None:
    try:
        expected = eval(expression, {"__builtins__": {}})
    except (ZeroDivisionError, OverflowError):
        expected = None
    if expected is None or isinstance(expected, complex) or not abs(expected) <= LARGEST:
        with pytest.raises(ExpressionError):
            evaluate(expression)
    else:
        try:
            assert evaluate(expression) == expected
        except ExpressionError:
            # An intermediate result may be out of range although the final result is not.
            assert "**" in expression


_SIGNS = st.text("0123456789.,+-*/%()^×÷−xeE πasqrtbound=?_\x00\n")  # noqa: RUF001 - people type these


@given(st.text() | _SIGNS)
@example("9**9**9**9")
@example("(((9**99)**99)**99)")
@example("10**308*" * 30 + "1")
@example("9" * LONGEST + "**" + "9")
@example("(" * 150 + ")" * 150)
@example("-" * LONGEST)
@example("1 " * 150)
@example("2**-" * 60 + "2")
@example("__import__('os')")
@example("0.5" + "**0.5" * 50)
@settings(max_examples=examples(500), deadline=200)
def test_calculator_handles_any_text(text: str) -> None:
    try:
        number = evaluate(text)
    except ExpressionError as error:
        message = str(error)
    else:
        assert abs(number) <= LARGEST
        message = everyday.format_number(number)
    assert "\n" not in message
    assert len(message) <= 310


@cases(
    ("expression", "answer"),
    ("37 * 48", "1776"),
    ("10 / 2", "5"),
    ("0.1 + 0.2", "0.3"),
    ("1 / 3", "0.333333333333"),
    ("2 ** 100", "1267650600228229401496703205376"),
    ("2 ** 0.5", "1.41421356237"),
    ("1e21", "1e+21"),
    ("37 × 48", "1776"),
    ("37 x 48 = ?", "1776"),
    ("37 times 48", "1776"),
    ("10 ÷ 4", "2.5"),
    ("2^10", "1024"),
    ("5 − 7", "-2"),  # noqa: RUF001
    ("15% of 80", "12"),
    ("17 % 5", "2"),
    ("1,234,567 + 1", "1234568"),
)
def test_common_spellings_are_accepted(expression: str, answer: str) -> None:
    assert calculator(expression) == answer


@cases(
    ("expression", "says"),
    ("", "is empty; write one such as (2 + 3) * 4"),
    ("five plus three", "'five' is not arithmetic; write numbers with + - * /"),
    ("2 +", "'2 +' is not a whole expression; write"),
    ("1 / 0", "divides by zero"),
    ("(-8) ** 0.5", "is not a real number; use a base of 0 or more"),
    ("10 ** 400", "too large; stay below"),
    ("sqrt(4)", "'sqrt(4)' is not arithmetic; write numbers with"),
    ("1, 2", "',' is not arithmetic"),
    ("2(3)", "'2(3)' is not arithmetic"),
    ("1" * 301, "has 301 characters; write at most 300"),
    ("0x10", "calculator failed: ExpressionError: "),
    ("9**9**9**9", "the number is too large; stay below 10**308"),
    ("2**-99999999", "0"),
    ("0.5 ** 10**300", "0"),
    ("1" * 299 + "0", "1" * 299 + "0"),
    ("(" * 140 + "1" + ")" * 140, "1"),
    ("(" * 140, "is not a whole expression; write one such as"),
    ("-" * 299 + "1", "-1"),
    ("9" * 5_000, "calculator was not called: its arguments have 5,000 characters, and it takes at most 2,000"),
    ("[" * 100_000, "its arguments have 100,000 characters"),
    ("9" * 400, "the expression has 400 characters; write at most 300"),
    ("٣ + ٤", "'٣' is not arithmetic; write numbers with"),
)
def test_odd_expression_gets_a_clear_answer(expression: str, says: str) -> None:
    assert says in call_tool(calculator, expression).observation


def test_today_returns_date_and_weekday_of_its_clock() -> None:
    assert everyday.make_today(lambda: dt.date(2026, 2, 28))() == "Saturday, 2026-02-28"
    # The clock is not in the schema.
    assert today.parameters["properties"] == {}
    assert everyday.make_today(dt.date.today).signature == "today()"


def test_worked_examples_are_true() -> None:
    tools = {tool.name: tool for tool in everyday.EVERYDAY_TOOLS}
    for worked in EVERYDAY_EXAMPLES:
        for name, arguments, observation in worked.calls:
            found = tools[name].read(arguments)
            if name != today.name:
                assert tools[name](**found) == observation, worked.question
            assert observation.split("= ")[-1].split()[0].rstrip(",") in worked.answer, worked.question


MEGABYTE = 1_000_000
# Seconds of processor time.
MOST = 0.05


def builtin_tools() -> Iterator[tools.AnyTool]:
    """Return the tools in all modules that define one."""
    folder = Path(graphexec.__file__).parent
    defines = re.compile(r"^@tool\b|^\w+(?:: \w+)? = (?:tool|Tool|make_\w+|tool_from_schema)\(", re.MULTILINE)
    for path in sorted(folder.rglob("*.py")):
        if defines.search(path.read_text("utf-8")):
            name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            with contextlib.suppress(errors.ToolDefinitionError):
                yield from tools.tools_of(importlib.import_module(name))


BUILTIN = {one.name: one for one in builtin_tools()}
assert {"calculator", "today"} <= BUILTIN.keys()

# What a parser, a pattern or a number may be slow for.
FRAGMENTS = [
    *" \t\n\x00()[]{}<>0189.,:;+-*/%^=_eExé°²µ\u0661\uff11\u200b\ud800\"'`\\“‘«",
    *("**", "9**", "1,", "1,000,", "1e", "e+", "0x", "1 x ", "% of ", " / ", "per ", "degrees ", "- ", "--1"),
    *("sqrt(", "max(1,", "round(", "pi ", "times ", "None", "True ", "null"),
    *('["', '{"a":', "{'", "[1,", "[[1],", "```"),
]

FRAGMENT = st.sampled_from(FRAGMENTS) | st.text(min_size=1, max_size=8)


def repeat(fragment: str) -> str:
    return (fragment * (MEGABYTE // len(fragment) + 1))[:MEGABYTE]


def processor_seconds(one: tools.AnyTool, tool_input: Any) -> tuple[float, effects.ToolResult]:
    """Return the shortest time of three calls, which other processes disturb least, and the result."""
    handler = make_tool_handler({one.name: one})
    # Compiles patterns and fills caches, once for a process.
    actors.reply_of(handler, effects.CallTool(one.name, "1"))
    times: list[float] = []
    while True:
        began = time.thread_time()
        result: effects.ToolResult = actors.reply_of(handler, effects.CallTool(one.name, tool_input))
        times.append(time.thread_time() - began)
        if min(times) < MOST or len(times) == 3:
            return min(times), result


def arguments_of(one: tools.AnyTool, text: str) -> Iterator[Any]:
    """Return the forms in which a model can give a text to a tool."""
    yield text
    yield {"unknown": text}
    yield {text: text}
    usual = {name: 1 if "number" in str(schema) else "1" for name, schema in one.parameters["properties"].items()}
    for name in one.names:
        yield {**usual, name: text}
        yield {**usual, name: [text]}
    yield json.dumps({**usual, **dict.fromkeys(one.names[:1], text)})


@pytest.mark.medium
@cases("name", *BUILTIN)
@given(FRAGMENT)
@settings(max_examples=examples(25), deadline=None)
def test_builtin_tool_answers_a_megabyte_at_once(name: str, fragment: str) -> None:
    one, text = BUILTIN[name], repeat(fragment)
    for tool_input in arguments_of(one, text):
        seconds, result = processor_seconds(one, tool_input)
        assert seconds < MOST
        assert isinstance(result.observation, str)
        assert len(result.observation) < 1_000
        assert result.status in {"ok", "error", "bad_arguments"}


@pytest.mark.medium
@given(FRAGMENT)
@settings(max_examples=examples(25), deadline=None)
def test_calculator_itself_needs_no_limit(fragment: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match=r"\w; \w") as raised:
        calculator(repeat(fragment))
    assert time.thread_time() - began < MOST
    assert len(str(raised.value)) < 1_000


@pytest.mark.medium
@given(FRAGMENT, st.integers(1, 1_900))
@settings(max_examples=examples(300), deadline=None)
def test_builtin_tools_observe_any_short_text(fragment: str, length: int) -> None:
    text = (fragment * length)[:length]
    for one in BUILTIN.values():
        for tool_input in arguments_of(one, text):
            result = call_tool(one, tool_input)
            # Python's own words for its limits.
            assert not re.search("recursion|Exceeds the limit|MemoryError", str(result.observation))


def test_unknown_name_of_a_megabyte_is_shortened() -> None:
    handler = make_tool_handler(BUILTIN)
    began = time.thread_time()
    result = actors.reply_of(handler, effects.CallTool("x" * MEGABYTE, {}))
    assert time.thread_time() - began < MOST
    assert result.status == "unknown_tool"
    assert len(result.observation) < 1_000


def observed(executor: AgentExecutor, start: Any = "q") -> list[Any]:
    return [step.observation for step in executor.run(start).steps]


CALLS: list[str] = []


@tool(max_tool_input=10)
def note(text: str) -> str:
    """Note a text."""
    CALLS.append(text)
    return "noted"


def test_tool_is_not_called_with_more_than_its_limit() -> None:
    CALLS.clear()
    says = "its arguments have {} characters, and it takes at most 10. Call it with shorter arguments."
    refused = f"note was not called: {says}"
    turns = actors.act("note", text="abcdef"), actors.act("note", text="a"), actors.answer()
    result = actors.run_executor(lambda: actors.make_executor(*turns, tools=[note]))
    assert actors.observations(result) == [refused.format(18), refused.format(13)]
    assert actors.statuses(result) == ["bad_arguments", "bad_arguments"]
    assert not CALLS
    # Text alone is measured as it is.
    assert call_tool(note, "x" * 11).observation == refused.format(11)
    assert call_tool(note, "x" * 10).observation == "noted"
    assert CALLS == ["x" * 10]


def echo(text: str) -> str:
    return text


def limited(**options: Any) -> tools.AnyTool:
    @tool(**options)
    def take(text: str) -> str:
        """Take a text."""
        return f"{len(text)}"

    return take


@pytest.mark.medium
@cases(
    ("of_tool", "of_executor", "taken"),
    (None, {}, 900_000),
    (None, {"max_tool_input": 50}, 50),
    (None, {"max_tool_input": None}, 1_100_000),
    (20, {}, 20),
    (60, {"max_tool_input": 50}, 60),
    (1_200_000, {}, 1_100_000),
)
def test_limit_of_executor_is_default_for_tools(of_tool: int | None, of_executor: dict[str, Any], taken: int) -> None:
    one = limited(max_tool_input=of_tool)
    limit = of_tool or of_executor.get("max_tool_input", 1_000_000)
    sizes = [taken, *([] if limit is None or limit > taken else [limit + 1])]
    script = [f"Action: take\nAction Input: {'x' * size}" for size in sizes]
    agent = create_react_agent(models.ScriptedModel([*script, "Final Answer: done"]), [one])
    first, *rest = observed(AgentExecutor(agent=agent, tools=[one], **of_executor))
    assert first == f"{taken}"
    assert all(f"it takes at most {limit:,}" in one for one in rest)


def test_executor_that_is_a_tool_has_the_limit() -> None:
    inner = actors.make_executor(actors.answer(), tools=[]).as_tool("ask", "Ask it.")
    turns = actors.act("ask", input="x" * 100), actors.answer()
    (said,) = observed(actors.make_executor(*turns, tools=[inner], max_tool_input=50))
    assert said.startswith("ask was not called: its arguments have 113 characters")


def test_changed_executor_and_resumed_run_keep_the_limit() -> None:
    def executor(*after: Any) -> AgentExecutor:
        return actors.make_executor(actors.act("take", text="x" * 100), *after, tools=[limited()], max_tool_input=50)

    changed = executor(actors.answer())
    for one in (changed.with_limits(changed.limits), changed.with_graph(changed.graph)):
        assert "it takes at most 50" in observed(one)[0]
    snapshot = actors.snapshot_after(errors.AgentError, lambda: executor("nonsense").run("q"), "nonsense")
    first, second = observed(executor(actors.act("take", text="x" * 100), actors.answer()), snapshot)
    assert first == second
    assert "it takes at most 50" in second


SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@cases(
    "one",
    tools.Tool("take", echo, "Take it.", max_tool_input=5),
    tools.tool_from_schema("take", "Take it.", SCHEMA, echo, max_tool_input=5),
)
def test_other_forms_of_tools_take_the_limit(one: tools.AnyTool) -> None:
    assert "it takes at most 5" in call_tool(one, "abcdef").observation


@cases("option", "max_tool_input", "max_observation")
@cases("most", 0, -1, 2.5, "100", True)
def test_invalid_limit_is_rejected(option: str, most: Any) -> None:
    invalid: dict[str, Any] = {option: most}
    says = "give a whole number of characters, 1 or more, or None for"
    with pytest.raises(errors.ToolDefinitionError, match=f"a tool has {option}=.*; {says} the executor's"):
        tool(**invalid)
    with pytest.raises(errors.ToolDefinitionError, match=f"take has {option}=.*; {says} the executor's"):
        tools.Tool("take", echo, "Take it.", **invalid)
    with pytest.raises(errors.InputError, match=f"^{option} is .*; {says} no limit"):
        actors.make_executor(actors.answer(), tools=[], **invalid)
