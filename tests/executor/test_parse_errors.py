"""Unreadable replies: the error is raised, or sent to the model as feedback."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.errors import AgentError, InputError, format_value
from graphexec.messages import AssistantMessage, ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests.executor import actors
from tests.executor.actors import act, answer, echo, observations, run_executor, statuses
from tests.parameters import cases
from tests.semantics.endings import A, raising, run_turns

HOW = cases("run", [actors.run_sync, actors.run_async])
Run = Callable[[gx.AgentExecutor], Any]
Make = Callable[[ScriptedModel, list[actors.AnyTool]], gx.Agent]

# For each agent: a factory, an unreadable reply, a readable one, and the error message for the first.
AGENTS: dict[str, tuple[Make, ScriptedReply, ScriptedReply, str, str]] = {
    "react": (
        gx.create_react_agent,
        "I am thinking.",
        "Final Answer: done",
        "I am thinking.",
        "Invalid Format: Missing 'Action:' after 'Thought:'",
    ),
    "structured": (
        gx.create_structured_agent,
        '{"action": "echo", "action_in',
        '{"action": "final_answer", "answer": "done"}',
        '{"action": "echo", "action_in',
        "Your reply could not be read: it is not JSON: ",
    ),
    "tool calling": (
        gx.create_tool_calling_agent,
        ToolCall("c1", "echo", '{"text": '),
        "done",
        'echo({"text": )',
        "The arguments of the call to echo are not a JSON object: ",
    ),
}
EACH = cases("kind", AGENTS)


def executor_of(make: Make, model: ScriptedModel, policy: Any = True, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=make(model, [echo]), tools=[echo], handle_parsing_errors=policy, **options)


@EACH
def test_false_raises_a_parse_error_with_a_remedy(kind: str) -> None:
    make, garbage, *_ = AGENTS[kind]
    for run in (actors.run_sync, actors.run_async):
        with pytest.raises(gx.ParseError) as raised:
            run(executor_of(make, ScriptedModel([garbage]), policy=False))
        assert "handle_parsing_errors=True" in str(raised.value)
        kept = gx.snapshot_of(raised.value)
        assert kept is not None
        assert (kept.node, kept.spent["model_calls"]) == ("parse", 1)
    with pytest.raises(gx.ParseError):
        run_executor(lambda: executor_of(make, ScriptedModel([garbage]), policy=False))


def name_error(error: gx.ParseError) -> str:
    return f"No: {type(error).__name__}"


@pytest.mark.medium
@EACH
@cases(("policy", "feedback"), [(True, None), ("Try again!", "Try again!"), ("", ""), (name_error, "No: ParseError")])
def test_model_receives_its_reply_and_the_error(kind: str, policy: Any, feedback: str | None) -> None:
    make, garbage, good, reply, wrong = AGENTS[kind]
    models: list[ScriptedModel] = []

    def executor() -> gx.AgentExecutor:
        models.append(ScriptedModel([garbage, good]))
        return executor_of(make, models[-1], policy)

    result = run_executor(executor)
    assert result.outcome.output == "done"
    assert statuses(result) == ["parse_error"]
    assert observations(result)[0].startswith(wrong if feedback is None else feedback)
    (step,) = result.outcome.steps
    assert (step.action.tool, step.action.log, step.action.tool_input) == ("_Exception", reply, step.observation)
    for model in models:
        if kind == "react":
            assert actors.prompt(model.requests[1]).endswith(f"{reply}\nObservation: {step.observation}\nThought: ")
        else:
            *_, assistant, user = actors.messages(model.requests[1])
            feedback = step.observation if kind == "tool calling" else f"Observation: {step.observation}"
            assert (assistant, user) == (AssistantMessage(reply), UserMessage(feedback))
        model.assert_complete()


def test_true_has_a_default_feedback() -> None:
    agent = gx.create_react_agent(ScriptedModel(["a"], repeat_last=True), [])
    silent = gx.Agent(agent.ask, raising(gx.ParseError("unreadable")), model=agent.model)
    result = gx.AgentExecutor(agent=silent, tools=[], handle_parsing_errors=True, max_iterations=1).run("q")
    (step,) = result.steps
    assert (step.observation, step.action.log) == ("Invalid or incomplete response", "unreadable")


@HOW
def test_exception_of_the_policy_is_raised(run: Run) -> None:
    with pytest.raises(LookupError, match="of the policy"):
        run(executor_of(gx.create_react_agent, ScriptedModel(["garbage"]), raising(LookupError("of the policy"))))


@HOW
@cases("returned", [None, 3, {"query": "x"}])
def test_policy_must_return_a_string(run: Run, returned: Any) -> None:
    executor = executor_of(gx.create_react_agent, ScriptedModel(["garbage"]), lambda error: returned)
    with pytest.raises(InputError, match=r"handle_parsing_errors returned .*; return a string, the feedback for the m"):
        run(executor)


@cases("policy", [None, 0, 1, 3, [True]])
def test_invalid_policy_is_refused(policy: Any) -> None:
    message = f"handle_parsing_errors is {policy!r}; give True, False, a string, or a function"
    with pytest.raises(InputError, match=re.escape(message)):
        gx.AgentExecutor(agent=actors.scripted(answer()), tools=[], handle_parsing_errors=policy)


@cases("policy", [True, "Try again!"])
def test_empty_list_of_actions_is_a_parse_error(policy: Any) -> None:
    result = run_turns(A, [], handle_parsing_errors=policy, max_iterations=3)
    assert statuses(result) == ["ok", "parse_error", "parse_error"]
    assert observations(result)[1] == ("Decide on an action, or finish." if policy is True else policy)
    assert result.spent.iterations == 3


def test_unhandled_empty_list_of_actions_raises() -> None:
    with pytest.raises(gx.ParseError, match="empty list of actions"):
        run_turns([], max_iterations=3)


def test_users_agent_without_actions_does_not_loop() -> None:
    agent = gx.create_react_agent(ScriptedModel(["x"], repeat_last=True), [])
    idle = gx.Agent(agent.ask, lambda reply: (), model=agent.model)
    with pytest.raises(gx.ParseError, match="empty list of actions"):
        gx.AgentExecutor(agent=idle, tools=[], max_iterations=None, allow_nonterminating=True).run("q")


@HOW
@cases(
    ("returned", "says"),
    [
        (None, "returned None; return an AgentAction, a list of them, or an AgentFinish"),
        ("text", "returned 'text'; return an AgentAction"),
        ({"output": "x"}, "returned {'output': 'x'}; return an AgentAction"),
        ([act("echo"), "text"], "returned a list with 'text'; return a list of AgentAction only"),
        ([answer()], "returned a list with AgentFinish"),
    ],
)
def test_invalid_decision_is_an_agent_error(run: Run, returned: Any, says: str) -> None:
    def confused(steps: Any, inputs: Any) -> Any:
        return returned

    async def confused_async(steps: Any, inputs: Any) -> Any:
        return returned

    for agent in (confused, confused_async):
        with pytest.raises(AgentError) as raised:
            run(gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True))
        assert str(raised.value).startswith(f"the agent {agent.__name__} {says}")


@HOW
def test_an_async_callable_agent_works_in_every_run(run: Run) -> None:
    async def decide(steps: Any, inputs: Any) -> Any:
        return answer(steps[0].observation) if steps else act("echo", text=inputs["input"])

    assert run(gx.AgentExecutor(agent=decide, tools=[echo])).output == "q"


def test_parse_error_in_a_tool_is_its_failure() -> None:
    @gx.tool
    def parses() -> str:
        """Parse something."""
        raise gx.ParseError("of the tool")

    result = run_turns(act("parses"), answer(), tools=[parses], handle_parsing_errors=True)
    assert (statuses(result), observations(result)) == (["error"], ["parses failed: ParseError: of the tool"])
    assert isinstance(result.outcome, gx.AgentFinish)


@cases(("make", "unreadable"), [(make, one) for make, one, *_ in AGENTS.values()])
def test_stopped_run_says_why_no_reply_was_read(make: Make, unreadable: ScriptedReply) -> None:
    model = ScriptedModel([unreadable], repeat_last=True)
    result = executor_of(make, model, max_iterations=2).run("q")
    assert result.stopped is not None
    assert result.stopped.reason == (
        "Stopped after 2 steps: the limit of 2 iterations was reached (2 spent). No reply could be read; the last "
        f"observation was {format_value(result.steps[-1].observation)}."
    )


def test_run_with_a_call_names_the_limit_alone() -> None:
    model = ScriptedModel(["I am thinking.", "Action: echo\nAction Input: a", "I am thinking."])
    result = executor_of(gx.create_react_agent, model, max_iterations=3).run("q")
    assert result.stopped is not None
    assert result.stopped.reason == "Stopped after 3 steps: the limit of 3 iterations was reached (3 spent)."
