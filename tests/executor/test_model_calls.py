"""Calls of models: those that may fail, their keys, and their usage."""

import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, errors, kernel, models, testing
from graphexec.draw.model.picture import look_of
from graphexec.effects import AttemptModel, CallAgent, CallModel, ModelFailure, agent_limits, attempt
from graphexec.errors import InputError, MissingAPIKeyError, ModelError, ServerError
from graphexec.executor import Ready, Replied, limit_reached
from graphexec.kernel.signatures import reply_classes
from graphexec.memory import BufferMemory, Turn
from graphexec.messages import CompletionRequest, Model, ModelReply, ModelRequest, ReplyDelta, Usage
from graphexec.runtime import run
from tests.executor.actors import HOW, WAYS, Running, call, caller_of, echo, replayed, run_by, run_sync, snapshot_after
from tests.executor.test_streamed_answers import Streaming
from tests.kernel.machines import PROMPTS, Prompt
from tests.parameters import cases
from tests.semantics.endings import raising


@gx.node(when_spent=limit_reached, meters=[gx.ITERATIONS], asks=(1, 2))
def plan_again(ready: Ready, agent: gx.Agent) -> gx.Asks[AttemptModel, Replied]:
    """Ask the model; if it fails, ask it once more, and then apologise."""
    asked = agent.ask(ready.run)
    assert isinstance(asked, CallModel)
    reply = yield from attempt(asked)
    if isinstance(reply, ModelFailure):
        reply = yield from attempt(asked)
    return Replied(ready.run, ModelReply(f"sorry: {reply.text}") if isinstance(reply, ModelFailure) else reply)


def make_apologising(*replies: Any, model: models.ScriptedModel | None = None, **options: Any) -> gx.AgentExecutor:
    model = model or models.ScriptedModel(replies, repeat_last=True)
    made = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], **options)
    return made.replace(kernel.node(name="plan")(plan_again))


@HOW
def test_failure_is_a_reply(run: Running) -> None:
    executor = make_apologising(ServerError("overloaded", status=503), call("echo", text="a"), ServerError("down"))
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
        run(make_apologising(error))


@HOW
def test_failures_are_charged_to_limits(run: Running) -> None:
    """Each failure counts as one call and as one token, and costs nothing."""
    down = ServerError("down")
    assert run(make_apologising(down, max_model_calls=1)).reason == "model_calls"
    assert run(make_apologising(down, max_tokens=1)).reason == "tokens"
    result = run(make_apologising(down, ModelReply("done", usage=Usage(2, 3), cost=0.5), max_tokens=9, max_cost=1))
    assert (result.output, result.spent["tokens"], result.spent["cost"]) == ("done", 6, 0.5)


def test_attempt_is_stored_and_resumed() -> None:
    executor = make_apologising("done")
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
        return make_apologising(model=Streaming([ServerError("down"), "a fine day"], range(10)))

    assert "".join(make().stream_answer("q")) == "a fine day"
    news = [event for event in make().stream("q", tokens=True) if isinstance(event, gx.Reported)]
    assert "".join(event.news.content for event in news if isinstance(event.news, ReplyDelta)) == "a fine day"
    assert all(isinstance(event.effect, AttemptModel) for event in news)


def test_own_handler_of_the_model_is_attempted() -> None:
    executor = make_apologising("unused", handlers={CallModel: raising(ServerError("down"))})
    assert executor.run("q").output == "sorry: down"


@pytest.mark.medium
def test_attempts_are_bounded_and_drawn() -> None:
    executor = make_apologising("done", max_iterations=3)
    bounds = executor.verify().bounds
    assert bounds is not None
    assert str(bounds.model_calls) == "2*iterations = 6 (exact)"
    assert look_of(executor.graph["plan"]) == "model"
    testing.verify_termination(executor, examples=10)


# ---- a missing API key is found before anything of a run is charged, and before a tool runs

KEYLESS = models.OpenAICompatible("gpt-9", base_url="https://models.example/v1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def make_caller(model: Model, **options: Any) -> gx.AgentExecutor:
    return caller_of(model, echo, **options)


@cases("way", *WAYS)
def test_missing_key_is_found_before_the_first_step(way: str) -> None:
    events: list[object] = []
    with pytest.raises(MissingAPIKeyError, match=r"gpt-9 at https://models.example/v1 needs an API key; set OPENAI_"):
        run_by(way, make_caller(KEYLESS, observers=[events.append]))
    assert events == []


DONE = models.ScriptedModel(["done"], repeat_last=True)
ANTHROPIC = models.Anthropic("claude-9")


@cases(
    "model",
    models.OpenAIResponses("gpt-9"),
    ANTHROPIC,
    # Wrappers pass the check on, and raise an error that is no reason to fall back.
    models.retrying(KEYLESS),
    models.priced(KEYLESS, models.Price(1, 1)),
    models.rate_limited(KEYLESS, per_second=1),
    models.with_fallbacks(KEYLESS, ANTHROPIC),
    models.retrying(models.with_fallbacks(KEYLESS, KEYLESS)),
    models.with_fallbacks(KEYLESS, DONE, on=(errors.AuthenticationError,)),
)
def test_every_remote_model_checks_its_key(model: Model) -> None:
    with pytest.raises(MissingAPIKeyError):
        make_caller(model).check_access()
    with pytest.raises(MissingAPIKeyError):
        make_caller(model).run("q")


@cases("model", models.with_fallbacks(KEYLESS, DONE), models.with_fallbacks(DONE, KEYLESS))
def test_one_model_of_the_fallbacks_is_enough(model: Model) -> None:
    assert make_caller(model).run("q").output == "done"


def test_cached_replies_need_no_key(tmp_path: Any) -> None:
    store = models.SQLiteCache(tmp_path / "cache")
    assert make_caller(models.cached(DONE, store, name="a")).run("q").output == "done"
    offline = models.cached(KEYLESS, store, name="a")
    offline.check_access()
    with pytest.raises(MissingAPIKeyError):
        make_caller(offline).run("q")


def test_nested_executors_are_checked_once_before_the_outer_run() -> None:
    outer, checks = models.ScriptedModel([call("ask", input="q"), call("ask", input="r"), "done"]), list[str]()

    def delegate_to(inner: gx.AgentExecutor) -> gx.AgentExecutor:
        return caller_of(outer, inner.as_tool("ask", "Ask the other agent."))

    with pytest.raises(MissingAPIKeyError):
        delegate_to(make_caller(KEYLESS)).run("q")
    assert outer.requests == []

    class Counted(models.ScriptedModel):
        def check_access(self) -> None:
            checks.append("inner")

    inner = make_caller(Counted(["one", "two"]))
    assert [step.observation for step in delegate_to(inner).run("q").steps] == ["one", "two"]
    assert checks == ["inner"]
    inner.check_access()
    assert checks == ["inner", "inner"]


def test_resumed_run_is_checked_before_its_tools() -> None:
    called: list[str] = []

    @gx.tool
    def note(text: str) -> str:
        """Note it."""
        called.append(text)
        raise KeyError(text)

    first = models.ScriptedModel([call("note", text="a")])
    state = snapshot_after(KeyError, lambda: caller_of(first, note, handle_tool_errors="raise").run("q"))
    with pytest.raises(MissingAPIKeyError):
        caller_of(KEYLESS, note).run(state)
    assert called == ["a"]


def test_saving_a_memory_needs_no_key() -> None:
    def refuse(turn: Turn) -> None:
        raise OSError("the disk is full")

    history: Any = SimpleNamespace(turns=tuple, add=refuse, clear=refuse)
    memory = BufferMemory(history, as_messages=True)
    state = snapshot_after(OSError, lambda: make_caller(DONE, memory=memory).run("q"), "the disk is full")
    history.add = list[Turn]().append
    assert make_caller(KEYLESS, memory=memory).run(state).output == "done"


@HOW
def test_model_with_complete_alone_serves_every_kind_of_run(run: Running) -> None:
    class Slow:
        """A model that notes the thread of its calls."""

        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            del request, timeout
            threads.append(threading.current_thread() is threading.main_thread())
            return ModelReply("Final Answer: done")

    threads = list[bool]()
    for model in (Slow(), models.retrying(Slow())):
        agent = gx.create_tool_calling_agent(model, [])
        assert run(gx.AgentExecutor(agent=agent, tools=[])).output == "Final Answer: done"
    assert threads == [run is run_sync] * 2


def test_own_model_may_have_its_own_check_or_none() -> None:
    scripted = models.ScriptedModel(["Final Answer: done"])
    model: Any = SimpleNamespace(complete=scripted.complete, acomplete=scripted.acomplete)
    assert gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[]).run("q").output == "done"

    class Closed(models.ScriptedModel):
        def check_access(self) -> None:
            raise ModelError("the model is closed on Sundays; come back tomorrow")

    with pytest.raises(ModelError, match="closed on Sundays"):
        make_caller(models.retrying(Closed(["done"]))).run("q")


# ---- the usage and the cost of a reply are checked for every client, wrapper, handler and caller

ACT = "Thought: hm\nAction: echo\nAction Input: hi"


class Hostile:
    """A model whose first reply is valid; every later one is the given reply."""

    identity = "hostile"

    def __init__(self, reply: Any, before: int = 0) -> None:
        self.reply = reply
        self.left = before

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
        self.left -= 1
        return ModelReply(ACT, usage=Usage(2, 1), cost=0.25) if self.left >= 0 else self.reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
        return self.complete(request)

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Any, None, None]:
        yield self.complete(request)

    async def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        yield self.complete(request)


def replies(fields: Mapping[str, Any]) -> ModelReply:
    tokens = {name: value for name, value in fields.items() if name.endswith("tokens")}
    return ModelReply(ACT, usage=Usage(**{"prompt_tokens": 1, **tokens}), cost=fields.get("cost"))


def make_react(model: Any, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], **options)


STREAMING = {"tokens": True}
in_every_way = cases(("way", "options"), ("run", {}), ("arun", {}), ("stream", STREAMING), ("astream", STREAMING))


@pytest.mark.medium
@in_every_way
@cases("field", "prompt_tokens", "completion_tokens")
@cases("value", 0.01, 1e-9, 1.0, -1, math.nan, math.inf, -math.inf, True, None, "3", 10**5000 * -1)
def test_invalid_tokens_end_the_run_with_its_steps(field: str, value: Any, way: str, options: Any) -> None:
    executor = make_react(Hostile(replies({field: value}), before=2), max_tokens=10)
    message = f"the model Hostile returned a reply with {field}=.*; pass a whole"
    snapshot = snapshot_after(ModelError, lambda: run_by(way, executor, "go", **options), message)
    assert (snapshot.spent["model_calls"], snapshot.spent["prompt_tokens"]) == (3, 4)
    # Resumed with another model, the run keeps its steps.
    other = make_react(models.ScriptedModel(["Final Answer: done"]), max_tokens=10)
    result = other.run(gx.Snapshot.from_json(snapshot.to_json(), other.graph))
    assert (result.output, len(result.steps)) == ("done", 2)


@in_every_way
@cases("cost", -0.5, math.nan, math.inf, True, "1", 10**5000)
def test_invalid_cost_ends_the_run(cost: Any, way: str, options: Any) -> None:
    executor = make_react(Hostile(replies({"cost": cost})), max_cost=1)
    with pytest.raises(ModelError, match=r"the model Hostile returned a reply with cost=.*; pass a finite number"):
        run_by(way, executor, "go", **options)


@in_every_way
@cases("reply", None, "Final Answer: 4", {"content": "4"}, (ModelReply("4"),))
def test_reply_of_another_class_ends_the_run(reply: Any, way: str, options: Any) -> None:
    with pytest.raises(ModelError, match=r"the model Hostile returned .*; return a ModelReply"):
        run_by(way, make_react(Hostile(reply)), "go", **options)


def test_missing_usage_keeps_the_prepayment() -> None:
    result = make_react(Hostile(ModelReply(ACT)), max_tokens=3, max_iterations=None).run("go")
    assert (result.spent["model_calls"], result.spent["tokens"]) == (3, 3)


def test_tokens_of_any_size_are_counted() -> None:
    result = make_react(Hostile(replies({"completion_tokens": 10**5000})), max_tokens=10).run("go")
    assert result.spent["tokens"] == 10**5000 + 1
    assert isinstance(result.ending, gx.StoppedResponse)
    assert "(1.0e+5000 spent)" in str(result.ending.cause)


# Any: the class of a model.
WRAPPERS: list[Callable[[Any], Any]] = [
    lambda model: models.cached(model, {}),
    lambda model: models.priced(model, models.Price(1, 1)),
    lambda model: models.retrying(model, attempts=2),
    lambda model: models.with_fallbacks(model, models.ScriptedModel([]), on=(KeyError,)),
    lambda model: models.rate_limited(model, per_minute=60_000),
]


@cases("wrapper", *WRAPPERS)
@cases("value", 0.01, None, "3")
def test_wrappers_refuse_invalid_usage(wrapper: Callable[[Any], Any], value: Any) -> None:
    model = wrapper(Hostile(replies({"prompt_tokens": value})))
    with pytest.raises(errors.InvalidReplyError, match="the model Hostile returned a reply with prompt_tokens="):
        model.complete(CompletionRequest("?"))


def test_price_that_a_float_cannot_hold_is_refused() -> None:
    model = models.priced(models.ScriptedModel([ModelReply("a", usage=Usage(10**5000, 0))]), models.Price(1.5, 1))
    with pytest.raises(errors.InvalidReplyError, match="with cost=inf; pass a finite number"):
        model.complete(CompletionRequest("?"))


@cases("fields", {"prompt_tokens": 0.01}, {"completion_tokens": -1}, {"cost": math.nan})
def test_handlers_and_callers_are_checked_too(fields: Mapping[str, Any]) -> None:
    limits = agent_limits(tokens=10)
    with pytest.raises(ModelError, match=f"with {next(iter(fields))}="):
        run(PROMPTS, Prompt(), handlers={CallModel: lambda call: replies(fields)}, limits=limits)
    state = kernel.advance(PROMPTS, kernel.begin(PROMPTS, Prompt()), limits)
    assert isinstance(state, kernel.PendingEffect)
    with pytest.raises(ModelError, match=f"with {next(iter(fields))}="):
        state.reply(replies(fields))
