"""`escalate`: a stronger model makes the next decision when the agent is stuck."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, AgentStep, actions, create_tool_calling_agent, verify
from graphexec.draw.model.picture import look_of
from graphexec.errors import InputError, MissingAPIKeyError, ServerError
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import AskStronger, escalate
from graphexec.nodes.escalation import is_stuck
from tests.executor.actors import HOW, Running, call, echo, fail, messages
from tests.nodes.shelf import proof_of
from tests.parameters import cases, examples

# Arguments that are not JSON.
UNREADABLE = ToolCall("c1", "echo", "{")


AT_ONCE: dict[str, Callable[[actions.Run], bool]] = {"when": lambda run: not run.steps}
FAILURES = [call("fail", text=str(number)) for number in range(9)]


def make_executor(weak: ScriptedModel, strong: ScriptedModel, **options: Any) -> AgentExecutor:
    piece = escalate(strong, **{name: options.pop(name) for name in ("times", "when") if name in options})
    agent = create_tool_calling_agent(weak, [echo, fail])
    return AgentExecutor(agent=agent, tools=[echo, fail], nodes=[piece], handle_parsing_errors=True, **options)


@HOW
def test_stronger_model_decides_after_two_failures(run: Running) -> None:
    weak = ScriptedModel([call("fail", text="a"), call("fail", text="b"), "done"])
    strong = ScriptedModel([call("echo", text="c")])
    result = run(make_executor(weak, strong))
    assert [step.observation for step in result.steps][2:] == ["c"]
    assert (result.output, len(weak.requests), len(strong.requests)) == ("done", 3, 1)
    # It sees what the agent's own model would have seen.
    assert messages(strong.requests[0])[:-2] == messages(weak.requests[1])
    assert (result.spent["model_calls"], result.spent["escalations"]) == (4, 1)


@HOW
@cases(
    ("weak", "strong", "options", "ending", "asked"),
    ([UNREADABLE], ["better"], {}, ("finished", "better"), (1, 1)),
    # The agent goes on when the escalations are used up.
    (FAILURES, FAILURES, {"max_iterations": 5}, ("iterations", "Agent stopped"), (5, 2)),
    # A failure of the stronger model changes nothing.
    ([UNREADABLE, "done"], [ServerError("down")], {"times": 1}, ("finished", "done"), (2, 1)),
    ([UNREADABLE], ["better"], {"max_model_calls": 1}, ("model_calls", "Agent stopped"), (1, 0)),
    (["weak"], ["strong"], AT_ONCE, ("finished", "strong"), (0, 1)),
)
def test_stronger_model_is_asked_within_the_limits(
    run: Running, weak: Any, strong: Any, options: Any, ending: tuple[str, str], asked: tuple[int, int]
) -> None:
    models = ScriptedModel(weak, repeat_last=True), ScriptedModel(strong, repeat_last=True)
    result = run(make_executor(*models, **options))
    assert (result.reason, result.output[: len(ending[1])]) == ending
    assert tuple(len(model.requests) for model in models) == asked
    assert result.spent["model_calls"] == sum(asked)


def test_key_of_the_stronger_model_is_checked_first() -> None:
    class Locked(ScriptedModel):
        def check_access(self) -> None:
            raise MissingAPIKeyError("no key")

    weak = ScriptedModel(["done"])
    with pytest.raises(MissingAPIKeyError):
        make_executor(weak, Locked([])).run("q")
    assert weak.requests == []


@HOW
def test_function_agent_goes_on_as_usual(run: Running) -> None:
    def agent(steps: Any, inputs: dict[str, Any]) -> Any:
        return AgentFinish({"output": "done"}) if len(steps) == 2 else AgentAction("fail", {"text": "a"})

    strong = ScriptedModel([])
    executor = AgentExecutor(agent=agent, tools=[fail], nodes=[escalate(strong)])
    assert run(executor).output == "done"


@cases(
    ("statuses", "stuck"),
    *(([], False), (["parse_error"], True), (["error"], False), (["error", "unknown_tool"], True)),
    *((["parse_error", "bad_arguments"], True), (["error", "ok"], False), (["ok", "error"], False)),
    (["ok", "timed_out", "error"], True),
)
def test_two_failures_are_a_reason(statuses: list[actions.StepStatus], stuck: bool) -> None:
    steps = [AgentStep(AgentAction("echo", {}), "", status) for status in statuses]
    assert is_stuck(actions.Run({}).with_steps(steps)) is stuck


def test_both_nodes_are_drawn_as_the_piece() -> None:
    graph = make_executor(ScriptedModel([]), ScriptedModel([])).graph
    assert look_of(graph["ask_stronger"]) == "model"
    assert graph["judge_progress"].group == graph["ask_stronger"].group == "escalate"


@cases(("options", "text"), ({"times": 0}, "escalate has times="), ({"when": 3}, "escalate has when="))
def test_invalid_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        escalate(ScriptedModel([]), **options)
    (kind,) = escalate(ScriptedModel([])).handlers
    assert issubclass(kind, AskStronger)
    with pytest.raises(InputError):
        escalate(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_calls_are_counted_within_the_bound(data: st.DataObject) -> None:
    reply: st.SearchStrategy[Any] = st.sampled_from(
        [call("fail", text="a"), call("echo", text="b"), UNREADABLE, "done"]
    )
    weak = ScriptedModel(data.draw(st.lists(reply, min_size=1, max_size=6), label="weak"), repeat_last=True)
    replies = data.draw(st.lists(reply | st.just(ServerError("down")), min_size=1, max_size=4), label="strong")
    strong = ScriptedModel(replies, repeat_last=True)
    iterations, times = data.draw(st.integers(1, 5), label="iterations"), data.draw(st.integers(1, 3), label="times")
    limit = data.draw(st.none() | st.integers(1, 9), label="limit")
    executor = make_executor(weak, strong, times=times, max_iterations=iterations, max_model_calls=limit)
    result = executor.run("q")
    certificate = proof_of(executor)
    verify.check(certificate, executor.graph)
    bounds = certificate.bounds
    assert result.spent["model_calls"] == len(weak.requests) + len(strong.requests)
    assert result.spent["model_calls"] <= min(bounds.model_calls.number or 0, iterations + times)
    # A limit that may cut a visit off can make the proved bound higher by that visit's call.
    assert limit is not None or bounds.model_calls.number == iterations + times
