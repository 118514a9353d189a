"""`early_stopping_method="generate"`: a run that a limit stops asks the model once more, for an answer."""

import dataclasses
import json
import threading
from typing import Any

import graphexec as gx
from graphexec import actions, effects, messages, models
from graphexec.agents.agent import FINAL_REQUEST, conclude_messages, conclude_request
from graphexec.agents.structured import decision_schema
from graphexec.executor import agent_graph
from graphexec.executor.nodes import STOPPED
from tests.drivers import limit_of
from tests.executor.actors import (
    AnyTool,
    Running,
    call,
    echo,
    fail,
    prompt,
    run_async,
    run_executor,
    run_sync,
    snapshot_after,
    timed,
    until,
)
from tests.executor.test_streamed_answers import Streaming
from tests.parameters import cases

ACT = "Thought: hm\nAction: echo\nAction Input: hi"
DONE = "I have heard enough.\nFinal Answer: hi it is"


def make_executor(agent: Any, *more: AnyTool, **settings: Any) -> gx.AgentExecutor:
    settings = {"max_iterations": 1, "early_stopping_method": "generate", **settings}
    return gx.AgentExecutor(agent=agent, tools=[echo, *more], **settings)


def react(*replies: Any, protocol: Any = "chat", **settings: Any) -> tuple[gx.AgentExecutor, models.ScriptedModel]:
    model = models.ScriptedModel(replies)
    agent = gx.create_react_agent(model, [echo], protocol=protocol)
    return make_executor(agent, **{"max_iterations": 2, **settings}), model


def run_until_stopped(executor: gx.AgentExecutor) -> gx.StoppedResponse:
    ending = executor.run("say hi").ending
    assert isinstance(ending, gx.StoppedResponse)
    return ending


def last_answer(executor: gx.AgentExecutor) -> tuple[str, bool]:
    """Return the output of a stopped run, and whether a model wrote it."""
    ending = run_until_stopped(executor)
    return ending.output, ending.generated


# ---- the last request


@cases("protocol", "chat", "completion")
def test_react_prompt_ends_with_the_concluding_sentence(protocol: Any) -> None:
    forced, model = react(ACT, ACT, DONE, max_iterations=3, protocol=protocol)
    forced.run("say hi")
    generated, other = react(ACT, ACT, DONE, protocol=protocol)
    assert last_answer(generated) == ("hi it is", True)
    # Except for the sentence, the third request of one run is the last one of the other.
    assert (model.requests[:2], len(other.requests)) == (other.requests[:2], 3)
    assert prompt(other.requests[2]) == f"{prompt(model.requests[2])}\n\n{FINAL_REQUEST}"
    assert other.requests[2] == conclude_request(model.requests[2])
    kind = messages.CompletionRequest if protocol == "completion" else messages.ChatRequest
    assert isinstance(other.requests[2], kind)


def test_structured_agent_may_only_answer() -> None:
    decision = json.dumps({"action": "echo", "action_input": {"text": "hi"}})
    final = json.dumps({"action": "final_answer", "answer": "hi it is"})
    model = models.ScriptedModel([decision, final])
    assert last_answer(make_executor(gx.create_structured_agent(model, [echo]))) == ("hi it is", True)
    first, last = [one for one in model.requests if isinstance(one, messages.ChatRequest)]
    assert last.schema == decision_schema(())
    assert last.schema != first.schema
    assert tuple(last.messages) == (
        *first.messages,
        messages.AssistantMessage(decision),
        messages.UserMessage(f"Observation: hi\n\n{FINAL_REQUEST}"),
    )


def test_last_request_of_a_stopped_run_forbids_calls() -> None:
    model = models.ScriptedModel([call("echo", text="hi"), "hi it is"])
    agent = gx.create_tool_calling_agent(model, [echo], system="Help.")
    assert last_answer(make_executor(agent)) == ("hi it is", True)
    first, last = [one for one in model.requests if isinstance(one, messages.ChatRequest)]
    assert (first.tool_choice, last.tool_choice, last.schema) == ("auto", "none", None)
    # An API refuses a conversation with tool calls that offers no tools.
    assert last.tools == first.tools == (echo.spec,)
    assert list(last.messages) == [
        messages.SystemMessage("Help."),
        messages.UserMessage("say hi"),
        messages.AssistantMessage("", (call("echo", text="hi"),)),
        messages.ToolMessage("c1", f"hi\n\n{FINAL_REQUEST}"),
    ]


def test_concluding_sentence_joins_the_users_last_message() -> None:
    reply = messages.AssistantMessage("a")
    assert conclude_messages([messages.UserMessage("q")]) == (messages.UserMessage(f"q\n\n{FINAL_REQUEST}"),)
    assert conclude_messages([reply]) == (reply, messages.UserMessage(FINAL_REQUEST))


@cases("kind", "def", "async def")
def test_callable_agent_is_asked_to_conclude(kind: str) -> None:
    seen: list[dict[str, Any]] = []

    def decide(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        seen.append(inputs)
        if inputs.get("conclude"):
            return gx.AgentFinish({"output": f"{len(steps)} steps"})
        return gx.AgentAction("echo", {"text": "hi"})

    async def decide_too(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        return decide(steps, inputs)

    def make() -> gx.AgentExecutor:
        seen.clear()
        return make_executor(decide if kind == "def" else decide_too, max_iterations=2)

    result = run_executor(make)
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert (result.outcome.output, result.outcome.generated) == ("2 steps", True)
    assert result.spent["model_calls"] == 3
    assert seen == [{"input": "q"}, {"input": "q"}, {"input": "q", "conclude": True}]
    # The run's inputs are unchanged.
    assert result.outcome.run.inputs == {"input": "q"}


def test_agent_without_conclude_is_asked_again() -> None:
    model = models.ScriptedModel([ACT, DONE])
    given = gx.create_react_agent(model, [echo])
    agent = gx.Agent(given.ask, given.read, model, input_keys=given.input_keys)
    assert run_until_stopped(make_executor(agent)).output == "hi it is"
    assert FINAL_REQUEST not in prompt(model.requests[-1])


# ---- the last reply


# An answer of several values is kept whole; no actions are no answer.
@cases(
    ("last", "answer"),
    (gx.AgentFinish({"answer": 42, "sure": True}), ('{"answer":42,"sure":true}', True)),
    ([], (STOPPED, False)),
)
def test_last_decision_of_a_function_is_the_answer(last: Any, answer: tuple[str, bool]) -> None:
    def decide(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        return last if inputs.get("conclude") else gx.AgentAction("echo", {"text": ""})

    assert last_answer(make_executor(decide)) == answer


@cases(("strict", "table"), (False, agent_graph(strict=True, generate=True)), (True, agent_graph(generate=True)))
def test_picture_shows_that_the_last_node_is_stopped(strict: bool, table: Any) -> None:
    executor, _ = react(handle_parsing_errors=strict)
    assert (executor.graph.edges, executor.graph["stopped_response"].grace) == (table.edges, 10)
    assert executor.verify().proved


# ---- observers, time


def test_observers_see_the_last_call() -> None:
    seen: list[Any] = []
    executor, _ = react(ACT, ACT, DONE, observers=[seen.append])
    assert executor.invoke({"input": "q"}) == {"input": "q", "output": "hi it is"}
    _, asked, answered, moved = [event for event in seen if getattr(event, "node", "") == "stopped_response"]
    assert (type(asked), type(answered), type(moved)) == (gx.Asked, gx.Answered, gx.Moved)
    assert (type(asked.effect), answered.spent["model_calls"]) == (effects.CallModel, 3)


class Stuck:
    """A model that answers, but hangs when asked to conclude; its clock jumps to the end of the grace period."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    def complete(self, request: messages.ModelRequest, *, timeout: float | None = None) -> messages.ModelReply:
        if FINAL_REQUEST in prompt(request):
            self.released.wait(30)
            return messages.ModelReply("Final Answer: too late")
        # This waits in real time, of which almost none is left.
        self.seconds = 14.95
        return messages.ModelReply(ACT)

    async def acomplete(self, request: messages.ModelRequest, *, timeout: float | None = None) -> messages.ModelReply:
        if FINAL_REQUEST in prompt(request):
            await until(self.released)
        return self.complete(request)


@cases("run", run_sync, run_async)
def test_last_call_is_cut_after_the_grace(run: Running) -> None:
    model = Stuck()
    executor = make_executor(gx.create_react_agent(model, [echo]), max_iterations=15, max_execution_time=5)
    executor = timed(executor, model.clock)
    result = run(executor)
    model.released.set()
    ending = result.ending
    assert isinstance(ending, gx.StoppedResponse)
    # The first limit is named.
    assert (ending.output, ending.generated) == (STOPPED, False)
    limit = limit_of(ending)
    assert (limit.limit, limit.value, limit.reached) == ("seconds", 5, 14.95)
    assert (result.spent.seconds, result.spent["model_calls"]) == (15, 2)


def test_last_call_is_streamed_and_follows_a_resumed_batch() -> None:
    # The pieces of the last answer are streamed.
    executor = make_executor(gx.create_react_agent(Streaming([ACT, DONE], []), [echo]))
    heard = [event for event in executor.stream("q", tokens=True) if isinstance(event, gx.Reported)]
    pieces = [(event.node, event.news) for event in heard]
    assert pieces == [("plan", messages.ReplyDelta(ACT)), ("stopped_response", messages.ReplyDelta(DONE))]
    # The last call follows a resumed batch.
    # The limit refuses the failed call; the other call's result must not be taken for the model's reply.
    model = models.ScriptedModel([[call("echo", "c1", text="a"), call("fail", "c2", text="b")], "the last word"])
    agent = gx.create_tool_calling_agent(model, [echo, fail])
    failing = dataclasses.replace(fail, on_error="raise")
    executor = make_executor(agent, failing, max_iterations=15, max_tool_calls=2, tool_concurrency=1)
    snapshot = snapshot_after(ValueError, lambda: executor.run("q"), "no b")
    assert len(snapshot.open) == 2
    result = executor.run(gx.Snapshot.from_json(snapshot.to_json(), executor.graph))
    assert (result.reason, result.output, result.spent["tool_calls"]) == ("tool_calls", "the last word", 2)
