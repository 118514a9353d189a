"""Replies and decisions: those that cannot be read are raised, or sent to the model; a long reply is read once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects
from graphexec.agents.reading.answers import READ_AHEAD, read_ahead, read_reply
from graphexec.errors import AgentError, InputError, format_value
from graphexec.messages import AssistantMessage, ModelReply, ReplyDelta, ToolCall, UserMessage
from graphexec.messages.model import LONG, VERY_LONG
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests import garbage
from tests.executor import actors
from tests.executor.actors import HOW, act, answer, echo, observations, run_executor, statuses
from tests.kernel.machines import error_message
from tests.parameters import cases
from tests.runtime.actors import LONG as SECONDS
from tests.semantics.endings import run_turns

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


# ---- a long reply is read within the call of the model, in a thread of an async run or of one with a deadline

TEXT = "x" * (LONG + 1)


class PlainModel:
    """A model that answers with the same reply, and may stream it in one piece."""

    def __init__(self, reply: ModelReply) -> None:
        self.reply = reply

    def complete(self, request: object, *, timeout: float | None = None) -> ModelReply:
        return self.reply

    async def acomplete(self, request: object, *, timeout: float | None = None) -> ModelReply:
        return self.reply

    async def astream(self, request: object, *, timeout: float | None = None) -> AsyncIterator[Any]:
        yield ReplyDelta(self.reply.content)
        yield self.reply


REPLIES = [ModelReply(TEXT), ModelReply("", (ToolCall("1", "t", TEXT),))]


def make_executor(reply: ModelReply, read: Any, kind: str, **options: Any) -> gx.AgentExecutor:
    """Return an executor of an agent with this reader; its model is of the library or of the user, or a handler."""
    model: Any = ScriptedModel([reply], repeat_last=True) if kind == "scripted" else PlainModel(reply)
    made = gx.create_tool_calling_agent(model, [])
    agent = gx.Agent(made.ask, read, model=model, answer=made.answer)

    def answer(effect: effects.CallModel) -> ModelReply:
        return reply

    handlers: Any = {effects.CallModel: answer} if kind == "handler" else {}
    return gx.AgentExecutor(agent=agent, tools=[], handlers=handlers, **options)


@pytest.mark.medium
@cases("kind", "scripted", "model", "handler")
@cases("reply", *REPLIES)
def test_deadline_cuts_a_slow_reader(kind: str, reply: ModelReply) -> None:
    held = threading.Event()

    def read(found: Any) -> gx.AgentFinish:
        held.wait(SECONDS)
        return gx.AgentFinish({"output": "late"})

    executor = make_executor(reply, read, kind, max_execution_time=0.1)
    assert executor.run("?").reason == "seconds"

    async def main() -> None:
        waiting = asyncio.create_task(executor.arun("?"))
        async for event in executor.astream("?"):
            assert not held.is_set(), event
        result = await waiting
        held.set()
        assert (result.reason, result.spent["model_calls"]) == ("seconds", 1)

    asyncio.run(main())


@cases("kind", "scripted", "model", "handler")
@cases("reply", *REPLIES)
@cases("error", None, gx.ParseError("unclear", observation="again"))
def test_long_reply_is_read_once(kind: str, reply: ModelReply, error: gx.ParseError | None) -> None:
    threads: list[int] = []

    def read(found: Any) -> gx.AgentFinish:
        threads.append(threading.get_ident())
        if error is not None:
            raise error
        return gx.AgentFinish({"output": "read"})

    executor = make_executor(reply, read, kind, max_iterations=1, handle_parsing_errors=True)
    result = asyncio.run(executor.arun("?"))
    assert [step.observation for step in result.steps] == ([] if error is None else ["again"])
    # In a sync run it is read by its node, but what was read of this reply is known.
    assert executor.run("?").steps == result.steps
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_mistake_of_a_reader_is_raised_by_its_node() -> None:
    def read(found: Any) -> gx.AgentFinish:
        raise LookupError("a mistake")

    with pytest.raises(LookupError, match="a mistake") as raised:
        asyncio.run(make_executor(ModelReply(TEXT), read, "model").arun("?"))
    assert actors.snapshot_in(raised.value).node == "parse"


def test_decision_is_forgotten_with_its_reply() -> None:
    def read(found: Any) -> gx.AgentFinish:
        raise gx.ParseError("unclear")

    reply = read_ahead(read, ModelReply(TEXT))
    assert any(known[1] is read for known in READ_AHEAD.values())
    with pytest.raises(gx.ParseError, match="unclear"):
        read_reply(read, reply)
    del reply
    garbage.collect()
    assert not any(known[1] is read for known in READ_AHEAD.values())


def test_answer_in_a_long_piece_streams_in_one() -> None:
    text = "x" * (VERY_LONG + 1)
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(PlainModel(ModelReply(text)), []), tools=[])

    async def main() -> list[str]:
        return [piece async for piece in executor.astream_answer("?")]

    assert asyncio.run(main()) == [text]
