"""Model calls that may fail: `attempt` returns a `ModelFailure` where `ask` would end the run."""

from __future__ import annotations

from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, kernel, models, testing
from graphexec.draw.model.picture import look_of
from graphexec.effects import AttemptModel, CallAgent, CallModel, ModelFailure, attempt
from graphexec.errors import InputError, MissingAPIKeyError, ModelError, ServerError
from graphexec.executor import Ready, Replied, limit_reached
from graphexec.kernel.node import rename
from graphexec.kernel.signatures import reply_classes
from graphexec.messages import ModelReply, ReplyDelta, Usage
from tests.executor.actors import HOW, Running, call, echo, replayed
from tests.executor.test_streamed_answers import Streaming
from tests.semantics.endings import raising


@gx.metered(when_spent=limit_reached, asks=(1, 2))
@gx.node
def plan_again(ready: Ready, agent: gx.Agent) -> gx.Asks[AttemptModel, Replied]:
    """Ask the model; if it fails, ask it once more, and then apologise."""
    asked = agent.ask(ready.run)
    assert isinstance(asked, CallModel)
    reply = yield from attempt(asked)
    if isinstance(reply, ModelFailure):
        reply = yield from attempt(asked)
    return Replied(ready.run, ModelReply(f"sorry: {reply.text}") if isinstance(reply, ModelFailure) else reply)


def make_executor(*replies: Any, model: models.ScriptedModel | None = None, **options: Any) -> gx.AgentExecutor:
    model = model or models.ScriptedModel(replies, repeat_last=True)
    made = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], **options)
    return made.replace(rename(plan_again, "plan"))


@HOW
def test_failure_is_a_reply(run: Running) -> None:
    executor = make_executor(ServerError("overloaded", status=503), call("echo", text="a"), ServerError("down"))
    result = run(executor)
    assert result.output == "sorry: down"
    assert [step.observation for step in result.steps] == ["a"]
    assert (result.spent["model_calls"], result.spent["tokens"]) == (4, 4)
    assert replayed(result) == result.spent


def test_failure_is_data() -> None:
    failure = ModelFailure("graphexec.errors.ServerError", "overloaded", 503)
    assert ModelFailure.of(ServerError("overloaded", status=503)) == failure
    assert ModelFailure.of(ModelError("away")).status is None
    assert set(reply_classes(AttemptModel)) == {ModelReply, ModelFailure}
    assert reply_classes(CallModel) == (ModelReply,)
    other: Any = CallAgent(actions.Run({}))
    with pytest.raises(InputError, match=r"attempt takes a CallModel, not .*; write attempt\(CallModel\(request\)\)"):
        attempt(other)


@HOW
@pytest.mark.parametrize("error", [MissingAPIKeyError("no key"), ValueError("a bug")])
def test_other_errors_are_raised(run: Running, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        run(make_executor(error))


@HOW
def test_failures_are_charged_to_limits(run: Running) -> None:
    """Each failure counts as one call and as one token, and costs nothing."""
    down = ServerError("down")
    assert run(make_executor(down, max_model_calls=1)).reason == "model_calls"
    assert run(make_executor(down, max_tokens=1)).reason == "tokens"
    result = run(make_executor(down, ModelReply("done", usage=Usage(2, 3), cost=0.5), max_tokens=9, max_cost=1))
    assert (result.output, result.spent["tokens"], result.spent["cost"]) == ("done", 6, 0.5)


def test_attempt_is_stored_and_resumed() -> None:
    executor = make_executor("done")
    snapshot = gx.begin(executor.graph, Ready(actions.Run({"input": "q"})))
    for reply in (ModelFailure("x.Error", "down", 500), ModelReply("done")):
        pending = gx.advance(executor.graph, snapshot, executor.limits)
        assert isinstance(pending, kernel.PendingEffect)
        assert isinstance(pending.effect, AttemptModel)
        snapshot = gx.Snapshot.from_json(pending.reply(reply).to_json(), executor.graph)
    assert executor.run(snapshot).output == "done"
    assert executor.run(snapshot).spent["model_calls"] == 2


def test_answers_are_streamed() -> None:
    def make() -> gx.AgentExecutor:
        return make_executor(model=Streaming([ServerError("down"), "a fine day"], range(10)))

    assert "".join(make().stream_answer("q")) == "a fine day"
    news = [event for event in make().stream("q", tokens=True) if isinstance(event, gx.Reported)]
    assert "".join(event.news.content for event in news if isinstance(event.news, ReplyDelta)) == "a fine day"
    assert all(isinstance(event.effect, AttemptModel) for event in news)


def test_own_handler_of_the_model_is_attempted() -> None:
    executor = make_executor("unused", handlers={CallModel: raising(ServerError("down"))})
    assert executor.run("q").output == "sorry: down"


@pytest.mark.medium
def test_attempts_are_bounded_and_drawn() -> None:
    executor = make_executor("done", max_iterations=3)
    bounds = executor.verify().bounds
    assert bounds is not None
    assert str(bounds.model_calls) == "2*iterations = 6 (exact)"
    assert look_of(executor.graph["plan"]) == "model"
    testing.verify_termination(executor, examples=10)
