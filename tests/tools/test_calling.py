"""Results and exceptions of tools: never lost, equal in sync and async runs, and observed as the policies say."""

import asyncio
import functools
import re
import threading
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentStep, Exhausted, Snapshot, draw, tool
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import Observed
from graphexec.kernel import Entered
from graphexec.tools.calling import make_tool_handler
from tests.executor import actors
from tests.parameters import cases, examples
from tests.tools.actors import HOW, KIND, Mute, call_tool, observe, raising


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
@cases(
    ("options", "default"),
    ({"on_error": "raise"}, "observe"),
    ({"on_error": "raise"}, str),
    ({"on_error": "raise", "timeout": 20}, "observe"),
    ({}, "raise"),
)
def test_raise_policy_raises_the_tools_exception(
    run: actors.Running, kind: str, count: int, options: Any, default: Any
) -> None:
    error, before = LookupError("mine"), actors.act("echo", text="before")
    tools = [actors.echo, raising(error, kind, **options)]
    executor = actors.make_executor(before, [actors.act("raises")] * count, tools=tools, handle_tool_errors=default)
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


def executor_with(one: actors.AnyTool, **defaults: Any) -> AgentExecutor:
    """Return an executor whose agent calls the tool once, then twice at once, and then answers."""
    turns = actors.act(one.name), [actors.act(one.name)] * 2, actors.answer()
    handler = make_tool_handler({one.name: one}, **defaults)
    return actors.make_executor(*turns, tools=[one], handlers={CallTool: handler})


def explain(error: Exception) -> str:
    return f"that did not work: {error.args[0]}"


class DeclinedError(Exception):
    """An exception class of the user."""


DECLINED = f"{__name__}.DeclinedError"


@pytest.mark.medium
@KIND
@cases(
    ("policy", "error", "observed", "name"),
    (explain, LookupError("no page"), "that did not work: no page", "LookupError"),
    # The policy is for exceptions alone.
    (explain, asyncio.CancelledError("odd"), "raises failed: CancelledError: odd", "asyncio.exceptions.CancelledError"),
    (explain, DeclinedError("no"), "that did not work: no", DECLINED),
    ("observe", ValueError("no"), "raises failed: ValueError: no", "ValueError"),
    ("observe", DeclinedError("no"), "raises failed: DeclinedError: no", DECLINED),
)
def test_exception_is_observed_as_the_policy_says(
    kind: str, policy: Any, error: BaseException, observed: str, name: str
) -> None:
    result = actors.run_executor(lambda: executor_with(raising(error, kind, on_error=policy)))
    assert [(step.observation, step.status, step.error) for step in result.outcome.steps] == [
        (observed, "error", name)
    ] * 3


@cases(
    ("own", "default", "observed"),
    (None, explain, "that did not work: no page"),
    ("observe", explain, "raises failed: LookupError: no page"),
    (None, "observe", "raises failed: LookupError: no page"),
    ("observe", "raise", "raises failed: LookupError: no page"),
    (explain, "raise", "that did not work: no page"),
    (None, "".format, ""),
)
def test_executor_policy_is_the_default_for_tools(own: Any, default: Any, observed: str) -> None:
    one = raising(LookupError("no page"), on_error=own)
    assert call_tool(one, {}, on_error=default).observation == observed


def fatal(error: Exception) -> str:
    raise PermissionError("stop it") from error


def silent(_: Exception) -> Any:
    return None


@HOW
@KIND
@cases(
    ("policy", "error", "text"),
    (fatal, PermissionError, "stop it"),
    (silent, InputError, r"on_error of raises returned None; return the observation .* as a string"),
)
def test_failing_policy_ends_the_run(run: actors.Running, kind: str, policy: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        run(executor_with(raising(LookupError("no"), kind), on_error=policy))


@cases("own", None, "raise")
@cases(
    ("name", "arguments", "status"),
    ("raises", {"x": 1}, "bad_arguments"),
    ("nope", {}, "unknown_tool"),
    ("echo", {"text": "a"}, "ok"),
)
def test_other_results_have_no_error(own: Any, name: str, arguments: dict[str, Any], status: str) -> None:
    """The policy receives only exceptions of tools."""
    tools = {"raises": raising(LookupError("no"), on_error=own), "echo": actors.echo}
    result = actors.reply_of(make_tool_handler(tools, on_error=explain), CallTool(name, arguments))
    assert (result.status, result.error) == (status, None)
    assert CallTool("echo", {}).cut(Exhausted("seconds", 1, 1)).error is None


def test_steps_of_different_errors_differ() -> None:
    action = AgentAction("raises", {})
    steps = [AgentStep(action, "no", "error", error=name) for name in ("ValueError", "KeyError")]
    assert steps[0] != steps[1]


def test_snapshot_and_records_keep_the_error() -> None:
    executor = executor_with(raising(LookupError("no")))
    result = executor.run("q")
    observed = next(one for one in executor.stream("q") if isinstance(one, Entered) and isinstance(one.value, Observed))
    stored = Snapshot(observed.node, observed.value, spent=observed.spent).to_json()
    assert executor.run(Snapshot.from_json(stored, executor.graph)).steps[0].error == "LookupError"
    records = draw.recording_of(result).records
    replies = [reply for record in records if record["event"] == "answered" for reply in record["replies"]]
    assert [reply["error"] for reply in replies if reply["effect"] == "CallTool"] == ["LookupError"] * 3
    assert [step["error"] for step in records[-1]["steps"]] == ["LookupError"] * 3


async def explain_later(error: Exception) -> str:
    return str(error)


@cases("policy", "ignore", 3, True, ["observe"], explain_later)
def test_invalid_policy_is_rejected(policy: Any) -> None:
    says = r"give 'observe', 'raise', or a function \(def\) from the exception"
    with pytest.raises(ToolDefinitionError, match=f"raises has on_error=.*; {says}"):
        raising(LookupError("no"), on_error=policy)
    with pytest.raises(InputError, match=f"^handle_tool_errors is .*; {says}"):
        make_tool_handler({}, on_error=policy)


class Own(Exception):
    def __init__(self, *details: object) -> None:
        super().__init__(*details)
        self.details = details


KINDS_OF_EXCEPTIONS: list[Any] = [
    *(ValueError, KeyError, OSError, TimeoutError, StopIteration, StopAsyncIteration, Own, Mute)
]
EXCEPTIONS: st.SearchStrategy[Exception] = st.tuples(st.sampled_from(KINDS_OF_EXCEPTIONS), st.text()).map(
    lambda made: made[0](made[1])
) | st.lists(st.builds(ValueError), min_size=1).map(lambda errors: ExceptionGroup("several", errors))


@pytest.mark.medium
@settings(max_examples=examples(40))
@given(EXCEPTIONS, st.integers(0, 3), st.none() | st.integers(1, 40), st.sampled_from(["observe", repr]))
def test_all_drivers_agree_on_any_exception(error: Exception, retries: int, most: int | None, policy: Any) -> None:
    executor = executor_with(raising(error, retries=retries), on_error=policy, max_observation=most)
    results = [actors.run_sync(executor), actors.run_async(executor)]
    for result in results:
        assert result.output == "done"
        assert [step.status for step in result.steps] == ["error"] * 3
    assert list(results[0].steps) == list(results[1].steps)
