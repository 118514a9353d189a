"""Replies and decisions that cannot be read are raised, or sent to the model."""

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
from tests.kernel.machines import error_message
from tests.parameters import cases
from tests.semantics.endings import run_turns

HOW = cases("run", actors.run_sync, actors.run_async)
Run = Callable[[gx.AgentExecutor], Any]
Make = Callable[[ScriptedModel, list[actors.AnyTool]], gx.Agent]

CUT, NO_ACTION = '{"action": "echo", "action_in', "Invalid Format: Missing 'Action:' after 'Thought:'"
DONE, NO_JSON = '{"action": "final_answer", "answer": "done"}', "Your reply could not be read: it is not JSON: "
CUT_CALL, NO_OBJECT = ToolCall("c1", "echo", '{"text": '), "The arguments of the call to echo are not a JSON object: "
# For each agent: a factory, an unreadable reply, a readable one, the first as text, and the error message for it.
AGENTS: dict[str, tuple[Make, ScriptedReply, ScriptedReply, str, str]] = {
    "react": (gx.create_react_agent, "I think.", "Final Answer: done", "I think.", NO_ACTION),
    "structured": (gx.create_structured_agent, CUT, DONE, CUT, NO_JSON),
    "tool calling": (gx.create_tool_calling_agent, CUT_CALL, "done", 'echo({"text": )', NO_OBJECT),
}
EACH = cases("kind", *AGENTS)


def executor_of(
    make: Make, model: ScriptedModel, policy: bool | str | Callable[[Any], Any] = True, **options: Any
) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=make(model, [echo]), tools=[echo], handle_parsing_errors=policy, **options)


@EACH
def test_false_raises_a_parse_error_with_a_remedy(kind: str) -> None:
    make, garbage, *_ = AGENTS[kind]
    for run in (actors.run_sync, actors.run_async):
        with pytest.raises(gx.ParseError) as raised:
            run(executor_of(make, ScriptedModel([garbage]), policy=False))
        assert "handle_parsing_errors=True" in str(raised.value)
        kept = actors.snapshot_in(raised.value)
        assert (kept.node, kept.spent["model_calls"]) == ("parse", 1)
    with pytest.raises(gx.ParseError):
        run_executor(lambda: executor_of(make, ScriptedModel([garbage]), policy=False))


def name_error(error: gx.ParseError) -> str:
    return f"No: {type(error).__name__}"


@pytest.mark.medium
@EACH
@cases(("policy", "feedback"), (True, None), ("Try again!", "Try again!"), ("", ""), (name_error, "No: ParseError"))
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
            feedback = f"{'' if kind == 'tool calling' else 'Observation: '}{step.observation}"
            assert (assistant, user) == (AssistantMessage(reply), UserMessage(feedback))
        model.assert_complete()


def test_empty_list_of_actions_ends_the_run_of_a_users_agent() -> None:
    agent = gx.create_react_agent(ScriptedModel(["x"], repeat_last=True), [])
    idle = gx.Agent(agent.ask, lambda reply: (), model=agent.model)
    with pytest.raises(gx.ParseError, match="empty list of actions"):
        gx.AgentExecutor(agent=idle, tools=[], max_iterations=None, allow_nonterminating=True).run("q")


@HOW
@cases("returned", None, 3, {"query": "x"})
def test_policy_must_return_a_string(run: Run, returned: Any) -> None:
    executor = executor_of(gx.create_react_agent, ScriptedModel(["garbage"]), lambda error: returned)
    with pytest.raises(InputError, match=r"handle_parsing_errors returned .*; return a string, the feedback for the m"):
        run(executor)


@HOW
@cases(
    ("returned", "says"),
    (None, "returned None; return an AgentAction, a list of them, or an AgentFinish"),
    ("text", "returned 'text'; return an AgentAction"),
    ({"output": "x"}, "returned {'output': 'x'}; return an AgentAction"),
    ([act("echo"), "text"], "returned a list with 'text'; return a list of AgentAction only"),
    ([answer()], "returned a list with AgentFinish"),
    ((act("echo") for _ in "a"), "returned <generator object"),
)
def test_invalid_decision_is_an_agent_error(run: Run, returned: Any, says: str) -> None:
    def confused(steps: Any, inputs: Any) -> Any:
        return returned

    async def confused_async(steps: Any, inputs: Any) -> Any:
        return returned

    for agent in (confused, confused_async):
        executor = gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True)
        assert error_message(AgentError, run, executor).startswith(f"the agent {agent.__name__} {says}")


def test_parse_error_in_a_tool_is_its_failure() -> None:
    @gx.tool
    def parses() -> str:
        """Parse something."""
        raise gx.ParseError("of the tool")

    result = run_turns(act("parses"), answer(), tools=[parses], handle_parsing_errors=True)
    assert (statuses(result), observations(result)) == (["error"], ["parses failed: ParseError: of the tool"])
    assert isinstance(result.outcome, gx.AgentFinish)


@cases(("make", "unreadable"), *[(make, one) for make, one, *_ in AGENTS.values()])
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


@HOW
def test_hidden_async_agents_work(run: Any) -> None:
    async def decide(steps: Any, inputs: Any) -> Any:
        return answer("awaited")

    class Deciding:
        async def __call__(self, steps: Any, inputs: Any) -> Any:
            return answer("an object")

    # Objects that are no coroutine functions themselves.
    agents: dict[str, Callable[..., Any]] = {
        "awaited": lambda *given: decide(*given),  # noqa: PLW0108 - it hides the coroutine function
        "an object": Deciding(),
    }
    for output, agent in agents.items():
        assert run(gx.AgentExecutor(agent=agent, tools=[])).output == output
