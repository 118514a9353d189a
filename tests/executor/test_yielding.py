"""Callable agents that yield their decision in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, ParseError
from graphexec.errors import AgentError
from tests.executor.actors import act, answer, echo, observations, run_async, run_sync, statuses
from tests.parameters import cases
from tests.semantics.endings import A, B, C, run_agent

HOW = cases("run", [run_sync, run_async])


def make_generator_agent(*chunks: Any) -> Callable[..., Iterator[Any]]:
    def decide(steps: Any, inputs: Any) -> Iterator[Any]:
        yield from [answer()] if steps else chunks

    return decide


def make_async_generator_agent(*chunks: Any) -> Callable[..., AsyncIterator[Any]]:
    async def decide(steps: Any, inputs: Any) -> AsyncIterator[Any]:
        for chunk in [answer()] if steps else chunks:
            yield chunk

    return decide


def wrap_in_function(agent: Callable[..., Any]) -> Callable[..., Any]:
    def decide(steps: Any, inputs: Any) -> Any:
        return agent(steps, inputs)

    return decide


BOTH = cases("agent", [make_generator_agent, make_async_generator_agent])


@BOTH
@cases(
    "chunks",
    [[[A], [B, C]], [A, B, C], [[], [A], (), B, (C,)]],
)
def test_yielded_actions_are_one_decision(agent: Callable[..., Any], chunks: Any) -> None:
    result = run_agent(agent(*chunks))
    assert observations(result) == ["a", "b", "c"]
    # All of them are one decision.
    assert result.spent.iterations == result.spent["model_calls"] == 2


@BOTH
@cases("chunks", [[answer("one")], [[], answer("one")], [answer("one"), []]])
def test_yielded_finish_ends_the_run(agent: Callable[..., Any], chunks: Any) -> None:
    result = run_agent(agent(*chunks))
    assert isinstance(result.outcome, AgentFinish)
    assert result.outcome.output == "one"


@HOW
@BOTH
@cases(
    ("chunks", "says"),
    [
        ([answer(), answer()], "yielded AgentFinish 2 times; yield one AgentFinish, or actions only"),
        ([act("echo"), answer()], "yielded an AgentFinish and actions; yield one AgentFinish, or actions only"),
        ([answer(), [act("echo")]], "yielded an AgentFinish and actions; yield one"),
        ([], "yielded nothing; yield an AgentAction, a list of them, or an AgentFinish"),
        (["text"], "returned 'text'; return an AgentAction"),
        ([None], "returned None; return an AgentAction"),
        ([[answer()]], "returned a list with AgentFinish"),
    ],
)
def test_invalid_chunks_are_agent_errors(run: Any, agent: Any, chunks: Any, says: str) -> None:
    with pytest.raises(AgentError) as raised:
        run(AgentExecutor(agent=agent(*chunks), tools=[echo], handle_parsing_errors=True))
    assert str(raised.value).startswith(f"the agent decide {says}")


@BOTH
def test_empty_chunks_are_a_parse_error(agent: Callable[..., Any]) -> None:
    result = run_agent(agent([], []), handle_parsing_errors=True, max_iterations=3)
    assert statuses(result) == ["parse_error"]


@HOW
def test_generators_return_value_is_its_last_chunk(run: Any) -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            return answer(len(steps))
        yield A
        return [B]

    assert run(AgentExecutor(agent=decide, tools=[echo])).output == 2


@HOW
def test_parse_error_between_chunks_is_fed_back(run: Any) -> None:
    def decide(steps: Any, inputs: Any) -> Iterator[Any]:
        if steps:
            yield answer(steps[0].observation)
            return
        yield A
        raise ParseError("unreadable", observation="Again!")

    async def decide_async(steps: Any, inputs: Any) -> AsyncIterator[Any]:
        for chunk in decide(steps, inputs):
            yield chunk

    for agent in (decide, decide_async):
        assert run(AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True)).output == "Again!"


@HOW
def test_hidden_async_agents_and_generators_work(run: Any) -> None:
    async def decide(steps: Any, inputs: Any) -> Any:
        return answer("awaited")

    class Deciding:
        async def __call__(self, steps: Any, inputs: Any) -> Any:
            return answer("an object")

    # Functions that are neither coroutine functions nor generator functions themselves.
    agents: dict[str, Callable[..., Any]] = {
        "awaited": wrap_in_function(decide),
        "an object": Deciding(),
        "yielded": wrap_in_function(make_generator_agent(answer("yielded"))),
        "yielded later": wrap_in_function(make_async_generator_agent(answer("yielded later"))),
    }
    for output, agent in agents.items():
        assert run(AgentExecutor(agent=agent, tools=[])).output == output
