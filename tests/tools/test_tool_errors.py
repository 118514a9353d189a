"""Exceptions of tools: the executor's default policy, the tool's own policy, or a function."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentStep, Exhausted, Snapshot, draw
from graphexec.effects import CallTool
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import Observed
from graphexec.kernel import Entered
from graphexec.tools.calling import make_tool_handler
from tests.executor import actors
from tests.parameters import cases, examples
from tests.tools.actors import HOW, KIND, Mute, call_tool, raising


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


@HOW
@cases(("own", "default"), ("raise", explain), (None, "raise"))
def test_raise_policy_ends_the_run(run: actors.Running, own: Any, default: Any) -> None:
    error = LookupError("mine")
    with pytest.raises(LookupError) as raised:
        run(executor_with(raising(error, on_error=own), on_error=default))
    assert raised.value is error


@HOW
@KIND
def test_exception_of_the_policy_ends_the_run(run: actors.Running, kind: str) -> None:
    def fatal(error: Exception) -> str:
        raise PermissionError("stop it") from error

    with pytest.raises(PermissionError, match="stop it"):
        run(executor_with(raising(LookupError("no"), kind), on_error=fatal))


@HOW
def test_invalid_policy_result_names_the_tool(run: actors.Running) -> None:
    silent: Callable[[Any], Any] = lambda _: None  # noqa: E731
    with pytest.raises(InputError, match=r"on_error of raises returned None; return the observation .* as a string"):
        run(executor_with(raising(LookupError("no"), on_error=silent)))


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
