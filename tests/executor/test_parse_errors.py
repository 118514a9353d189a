"""Unreadable replies: the error is raised, or sent to the model as feedback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.errors import AgentError, InputError, format_value
from graphexec.messages import AssistantMessage, ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests.executor import actors
from tests.parameters import cases

HOW = cases("run", [actors.run_sync, actors.run_async])
Make = Callable[[ScriptedModel], gx.Agent]

# For each agent: a factory, an unreadable reply, a readable one, and the error message for the first.
AGENTS: dict[str, tuple[Make, ScriptedReply, ScriptedReply, str, str]] = {
    "react": (
        lambda model: gx.create_react_agent(model, [actors.echo]),
        "I am thinking.",
        "Final Answer: done",
        "I am thinking.",
        "Invalid Format: Missing 'Action:' after 'Thought:'",
    ),
    "structured": (
        lambda model: gx.create_structured_agent(model, [actors.echo]),
        '{"action": "echo", "action_in',
        '{"action": "final_answer", "answer": "done"}',
        '{"action": "echo", "action_in',
        "Your reply could not be read: it is not JSON: ",
    ),
    "tool calling": (
        lambda model: gx.create_tool_calling_agent(model, [actors.echo]),
        ToolCall("c1", "echo", '{"text": '),
        "done",
        'echo({"text": )',
        "The arguments of the call to echo are not a JSON object: ",
    ),
}
EACH = cases("kind", AGENTS)


@EACH
def test_false_raises_a_parse_error_with_a_remedy(kind: str) -> None:
    make, garbage, *_ = AGENTS[kind]
    for run in (actors.run_sync, actors.run_async):
        with pytest.raises(gx.ParseError) as raised:
            run(gx.AgentExecutor(agent=make(ScriptedModel([garbage])), tools=[actors.echo]))
        assert "handle_parsing_errors=True" in str(raised.value)
        kept = gx.snapshot_of(raised.value)
        assert kept is not None
        assert (kept.node, kept.spent["model_calls"]) == ("parse", 1)
    with pytest.raises(gx.ParseError):
        actors.run_executor(lambda: gx.AgentExecutor(agent=make(ScriptedModel([garbage])), tools=[actors.echo]))


def name_error(error: gx.ParseError) -> str:
    return f"No: {type(error).__name__}"


@EACH
@cases("policy", ["true", "text", "empty text", "function"])
def test_model_receives_its_reply_and_the_error(kind: str, policy: str) -> None:
    make, garbage, good, reply, wrong = AGENTS[kind]
    policies: dict[str, tuple[Any, str]] = {
        "true": (True, wrong),
        "text": ("Try again!", "Try again!"),
        "empty text": ("", ""),
        "function": (name_error, "No: ParseError"),
    }
    handling, observation = policies[policy]
    models: list[ScriptedModel] = []

    def executor() -> gx.AgentExecutor:
        models.append(ScriptedModel([garbage, good]))
        return gx.AgentExecutor(agent=make(models[-1]), tools=[actors.echo], handle_parsing_errors=handling)

    result = actors.run_executor(executor)
    assert result.outcome.output == "done"
    assert actors.statuses(result) == ["parse_error"]
    assert actors.observations(result)[0].startswith(observation)
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
    def read(reply: Any) -> Any:
        raise gx.ParseError("unreadable")

    agent = gx.create_react_agent(ScriptedModel(["a"], repeat_last=True), [])
    silent = gx.Agent(agent.ask, read, model=agent.model)
    result = gx.AgentExecutor(agent=silent, tools=[], handle_parsing_errors=True, max_iterations=1).run("q")
    (step,) = result.steps
    assert (step.observation, step.action.log) == ("Invalid or incomplete response", "unreadable")


@HOW
def test_exception_of_the_policy_is_raised(run: Callable[[gx.AgentExecutor], Any]) -> None:
    def policy(error: gx.ParseError) -> str:
        raise LookupError("of the policy") from error

    model = ScriptedModel(["garbage"])
    with pytest.raises(LookupError, match="of the policy"):
        run(gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[], handle_parsing_errors=policy))


@HOW
@cases("returned", [None, 3, {"query": "x"}])
def test_policy_must_return_a_string(run: Callable[[gx.AgentExecutor], Any], returned: Any) -> None:
    model = ScriptedModel(["garbage"])
    executor = gx.AgentExecutor(
        agent=gx.create_react_agent(model, []), tools=[], handle_parsing_errors=lambda error: returned
    )
    with pytest.raises(InputError, match=r"handle_parsing_errors returned .*; return a string"):
        run(executor)


@cases("policy", [None, 0, 1, 3, [True]])
def test_invalid_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InputError, match="give True, False, a string, or a function"):
        gx.AgentExecutor(agent=actors.scripted(actors.answer()), tools=[], handle_parsing_errors=policy)


@cases("policy", [True, "Try again!"])
def test_empty_list_of_actions_is_a_parse_error(policy: Any) -> None:
    result = actors.run_executor(
        lambda: gx.AgentExecutor(
            agent=actors.scripted(actors.act("echo", text="a"), []),
            tools=[actors.echo],
            handle_parsing_errors=policy,
            max_iterations=3,
        )
    )
    assert actors.statuses(result) == ["ok", "parse_error", "parse_error"]
    assert actors.observations(result)[1] == ("Decide on an action, or finish." if policy is True else policy)
    assert result.spent.iterations == 3


def test_unhandled_empty_list_of_actions_raises() -> None:
    with pytest.raises(gx.ParseError, match="empty list of actions"):
        actors.run_executor(lambda: gx.AgentExecutor(agent=actors.scripted([]), tools=[actors.echo], max_iterations=3))


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
        ([actors.act("echo"), "text"], "returned a list with 'text'; return a list of AgentAction only"),
        ([actors.answer()], "returned a list with AgentFinish"),
    ],
)
def test_invalid_decision_is_an_agent_error(run: Callable[[gx.AgentExecutor], Any], returned: Any, says: str) -> None:
    def confused(steps: Any, inputs: Any) -> Any:
        return returned

    async def confused_async(steps: Any, inputs: Any) -> Any:
        return returned

    for agent in (confused, confused_async):
        with pytest.raises(AgentError) as raised:
            run(gx.AgentExecutor(agent=agent, tools=[actors.echo], handle_parsing_errors=True))
        assert str(raised.value).startswith(f"the agent {agent.__name__} {says}")


@HOW
def test_an_async_callable_agent_works_in_every_run(run: Callable[[gx.AgentExecutor], Any]) -> None:
    async def decide(steps: Any, inputs: Any) -> Any:
        return actors.answer(steps[0].observation) if steps else actors.act("echo", text=inputs["input"])

    assert run(gx.AgentExecutor(agent=decide, tools=[actors.echo])).output == "q"


def test_parse_error_in_a_tool_is_its_failure() -> None:
    from graphexec import tool

    @tool
    def parses() -> str:
        """Parse something."""
        raise gx.ParseError("of the tool")

    result = actors.run_executor(
        lambda: gx.AgentExecutor(
            agent=actors.scripted(actors.act("parses"), actors.answer()), tools=[parses], handle_parsing_errors=True
        )
    )
    assert actors.statuses(result) == ["error"]
    assert isinstance(result.outcome, gx.AgentFinish)


@cases(("make", "unreadable"), [(make, one) for make, one, *_ in AGENTS.values()])
def test_stopped_run_says_why_no_reply_was_read(make: Make, unreadable: ScriptedReply) -> None:
    model = ScriptedModel([unreadable], repeat_last=True)
    result = gx.AgentExecutor(agent=make(model), tools=[actors.echo], handle_parsing_errors=True, max_iterations=2).run(
        "q"
    )
    assert result.stopped is not None
    assert result.stopped.reason == (
        "Stopped after 2 steps: the limit of 2 iterations was reached (2 spent). No reply could be read; the last "
        f"observation was {format_value(result.steps[-1].observation)}."
    )


def test_run_with_a_call_names_the_limit_alone() -> None:
    model = ScriptedModel(["I am thinking.", "Action: echo\nAction Input: a", "I am thinking."])
    agent = gx.create_react_agent(model, [actors.echo])
    result = gx.AgentExecutor(agent=agent, tools=[actors.echo], handle_parsing_errors=True, max_iterations=3).run("q")
    assert result.stopped is not None
    assert result.stopped.reason == "Stopped after 3 steps: the limit of 3 iterations was reached (3 spent)."
