"""The usage and the cost of a reply are checked for every client, wrapper, handler and caller."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any

import pytest

from graphexec import AgentExecutor, Snapshot, StoppedResponse, create_react_agent, models, snapshot_of
from graphexec.effects import CallModel, agent_limits
from graphexec.errors import InvalidReplyError, ModelError
from graphexec.kernel import PendingEffect, advance, begin
from graphexec.messages import CompletionRequest, ModelReply, ModelRequest, Usage
from graphexec.runtime import make_run_context, run
from tests.executor.actors import echo, run_by
from tests.kernel.machines import PROMPTS, Prompt
from tests.parameters import cases

INVALID_TOKENS = [0.01, 1e-9, 1.0, -1, math.nan, math.inf, -math.inf, True, None, "3", 10**5000 * -1]
INVALID_COSTS = [-0.5, math.nan, math.inf, True, "1", 10**5000]
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


def make_executor(model: Any, **options: Any) -> AgentExecutor:
    return AgentExecutor(agent=create_react_agent(model, [echo]), tools=[echo], **options)


STREAMING = {"tokens": True}
in_every_way = cases(("way", "options"), [("run", {}), ("arun", {}), ("stream", STREAMING), ("astream", STREAMING)])


@pytest.mark.medium
@in_every_way
@cases("field", ["prompt_tokens", "completion_tokens"])
@cases("value", INVALID_TOKENS)
def test_invalid_tokens_end_the_run_with_its_steps(field: str, value: Any, way: str, options: Any) -> None:
    executor = make_executor(Hostile(replies({field: value}), before=2), max_tokens=10)
    with pytest.raises(ModelError, match=f"the model Hostile returned a reply with {field}=.*; pass a whole") as caught:
        run_by(way, executor, "go", **options)
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    assert (snapshot.spent["model_calls"], snapshot.spent["prompt_tokens"]) == (3, 4)
    # Resumed with another model, the run keeps its steps.
    other = make_executor(models.ScriptedModel(["Final Answer: done"]), max_tokens=10)
    result = other.run(Snapshot.from_json(snapshot.to_json(), other.graph))
    assert (result.output, len(result.steps)) == ("done", 2)


@in_every_way
@cases("cost", INVALID_COSTS)
def test_invalid_cost_ends_the_run(cost: Any, way: str, options: Any) -> None:
    executor = make_executor(Hostile(replies({"cost": cost})), max_cost=1)
    with pytest.raises(ModelError, match=r"the model Hostile returned a reply with cost=.*; pass a finite number"):
        run_by(way, executor, "go", **options)


@in_every_way
@cases("reply", [None, "Final Answer: 4", {"content": "4"}, (ModelReply("4"),)])
def test_reply_of_another_class_ends_the_run(reply: Any, way: str, options: Any) -> None:
    with pytest.raises(ModelError, match=r"the model Hostile returned .*; return a ModelReply"):
        run_by(way, make_executor(Hostile(reply)), "go", **options)


WRONG_PARTS: dict[str, tuple[list[Any], str]] = {
    "usage": ([None, 3, (1, 2), {"prompt_tokens": 1}], "pass Usage"),
    "content": ([None, 3, b"Final Answer: 4"], "pass a string, which is empty if there are tool calls"),
    "tool_calls": ([None, [], (1,), ({"name": "f"},), "calls"], "pass a tuple of ToolCall("),
}


@cases(("part", "value"), [(part, value) for part, (values, _) in WRONG_PARTS.items() for value in values])
def test_part_of_another_class_is_refused(part: str, value: Any) -> None:
    parts: dict[str, Any] = {"content": ACT, part: value}
    with pytest.raises(ModelError) as caught:
        make_executor(Hostile(ModelReply(**parts))).run("go")
    assert f"with {part}=" in str(caught.value)
    assert WRONG_PARTS[part][1] in str(caught.value)


def test_missing_usage_keeps_the_prepayment() -> None:
    result = make_executor(Hostile(ModelReply(ACT)), max_tokens=3, max_iterations=None).run("go")
    assert (result.spent["model_calls"], result.spent["tokens"]) == (3, 3)


def test_tokens_of_any_size_are_counted() -> None:
    result = make_executor(Hostile(replies({"completion_tokens": 10**5000})), max_tokens=10).run("go")
    assert result.spent["tokens"] == 10**5000 + 1
    assert isinstance(result.ending, StoppedResponse)
    assert "(1.0e+5000 spent)" in str(result.ending.limit)


WRAPPERS: Mapping[str, Callable[[Any], Any]] = {
    "cached": lambda model: models.cached(model, models.MemoryCache()),
    "priced": lambda model: models.priced(model, models.Price(1, 1)),
    "retrying": lambda model: models.retrying(model, attempts=2),
    "with_fallbacks": lambda model: models.with_fallbacks(model, models.ScriptedModel([]), on=(KeyError,)),
    "rate_limited": lambda model: models.rate_limited(model, per_minute=60_000),
}


@cases("wrapper", WRAPPERS.values())
@cases("value", [0.01, None, "3"])
def test_wrappers_refuse_invalid_usage(wrapper: Callable[[Any], Any], value: Any) -> None:
    model = wrapper(Hostile(replies({"prompt_tokens": value})))
    with pytest.raises(InvalidReplyError, match="the model Hostile returned a reply with prompt_tokens="):
        model.complete(CompletionRequest("?"))


def test_price_that_a_float_cannot_hold_is_refused() -> None:
    model = models.priced(models.ScriptedModel([ModelReply("a", usage=Usage(10**5000, 0))]), models.Price(1.5, 1))
    with pytest.raises(InvalidReplyError, match="with cost=inf; pass a finite number"):
        model.complete(CompletionRequest("?"))


@cases("fields", [{"prompt_tokens": 0.01}, {"completion_tokens": -1}, {"cost": math.nan}])
def test_handlers_and_callers_are_checked_too(fields: Mapping[str, Any]) -> None:
    limits = agent_limits(tokens=10)
    with pytest.raises(ModelError, match=f"with {next(iter(fields))}="):
        run(PROMPTS, Prompt(), make_run_context({CallModel: lambda call: replies(fields)}, limits=limits))
    state = advance(PROMPTS, begin(PROMPTS, Prompt()), limits)
    assert isinstance(state, PendingEffect)
    with pytest.raises(ModelError, match=f"with {next(iter(fields))}="):
        state.reply(replies(fields))
