"""Every kind of agent on the real small model: each run ends within the proved bounds for any replies.

Such a small model forgets formats, invents tools and repeats itself, so the tests assert nothing about its words. The
questions are short: a prompt beyond the context is a `ContextOverflowError`, which ends a run as every `ModelError`.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeAlias

import pytest

from graphexec import actions, agents, effects, errors, messages
from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.executor import AgentExecutor, RunResult
from graphexec.executor.result import Ending
from graphexec.integrations import langchain
from graphexec.kernel import Answered, Asked, Done, Event, Moved, Reported, Spent
from graphexec.models import LocalModel
from graphexec.runtime.observers import Observer
from graphexec.tools import AnyTool, tool
from graphexec.tools.everyday import EVERYDAY_TOOLS, calculator
from tests.drivers import limit_of
from tests.models.test_local_model import WITH_TOOLS
from tests.parameters import mark_except

pytestmark = pytest.mark.local_model

# The prompts of text agents list every tool; two tools are enough, and take less time to process.
TOOLS = tuple(one for one in EVERYDAY_TOOLS if one.name != "today")
ITERATIONS, SECONDS, FAN_OUT = 3, 20.0, 3

Stopping: TypeAlias = Literal["force", "generate"]


@tool(name="Intermediate Answer")
def intermediate_answer(question: str) -> str:
    """Answer a follow-up question."""
    return calculator(question)


KINDS: Mapping[str, Callable[[messages.Model], agents.Agent]] = {
    "react": lambda model: agents.create_react_agent(model, TOOLS),
    "react, completion": lambda model: agents.create_react_agent(model, TOOLS, protocol="completion"),
    # Without rules, which may ask more often than the tests count; `benchmarks/score.py` runs them on this model.
    "structured": lambda model: agents.create_structured_agent(model, TOOLS, examples=EVERYDAY_EXAMPLES[:2], rules=()),
    "tool_calling": lambda model: agents.create_tool_calling_agent(model, TOOLS),
    "mrkl": lambda model: langchain.create_mrkl_agent(model, TOOLS),
    "conversational": lambda model: langchain.create_conversational_agent(model, TOOLS),
    "chat": lambda model: langchain.create_chat_agent(model, TOOLS),
    "structured_chat": lambda model: langchain.create_structured_chat_agent(model, TOOLS),
    "json_chat": lambda model: langchain.create_json_chat_agent(model, TOOLS),
    "xml": lambda model: langchain.create_xml_agent(model, TOOLS),
    "self_ask": lambda model: langchain.create_self_ask_agent(model, [intermediate_answer]),
}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    # The weights' own template does not support tools, so they are rejected.
    with LocalModel(max_tokens=48, chat_template=WITH_TOOLS) as local:
        yield local


def executor_of(
    kind: str,
    model: messages.Model,
    stopping: Stopping = "force",
    iterations: int = ITERATIONS,
    observers: Sequence[Observer] = (),
) -> AgentExecutor:
    tools: tuple[AnyTool, ...] = (intermediate_answer,) if kind == "self_ask" else TOOLS
    return AgentExecutor(
        agent=KINDS[kind](model),
        tools=tools,
        handle_parsing_errors=True,
        early_stopping_method=stopping,
        max_iterations=iterations,
        max_execution_time=SECONDS,
        max_fan_out=FAN_OUT,
        observers=observers,
    )


def inputs_of(executor: AgentExecutor) -> dict[str, Any]:
    given = {"input": "What is 37 * 48?", "chat_history": "none"}
    return {name: given[name] for name in executor.agent.input_keys}


def seconds_of(event: Event[Ending]) -> float:
    spent = getattr(event, "spent", None)
    return spent.seconds if isinstance(spent, Spent) else 0.0


def assert_within_the_proof(executor: AgentExecutor, spent: Spent, events: list[Event[Ending]]) -> None:
    verdict = executor.verify()
    assert verdict.proved
    assert verdict.certificate is not None
    bounds = verdict.certificate.bounds
    assert spent.iterations <= (executor.limits.iterations or 0)
    for name, number, bound in (
        ("transitions", sum(isinstance(event, Moved) for event in events), bounds.transitions),
        ("model_calls", spent["model_calls"], bounds.model_calls),
        ("tool_calls", spent["tool_calls"], bounds.tool_calls),
    ):
        assert bound.number is not None, f"{name} has no bound"
        assert number <= bound.number, name
    # How late a busy machine is when it cuts a call is not ours to say; but then nothing more is asked for.
    assert bounds.seconds.number is not None
    late = itertools.dropwhile(lambda event: seconds_of(event) < SECONDS, events)
    assert [event for event in late if isinstance(event, Asked)] == []


def ran(kind: str, model: messages.Model, stopping: Stopping = "force", iterations: int = ITERATIONS) -> RunResult:
    events: list[Event[Ending]] = []
    executor = executor_of(kind, model, stopping, iterations, [events.append])
    result = executor.run(inputs_of(executor))
    assert_within_the_proof(executor, result.spent, events)
    return result


def assert_streamed(executor: AgentExecutor, events: list[Event[Ending]]) -> None:
    """Assert that the last event is the end within the proof, and that the pieces of each reply add up to it."""
    done = events[-1]
    assert isinstance(done, Done)
    assert isinstance(done.outcome, actions.AgentFinish | actions.StoppedResponse)
    assert_within_the_proof(executor, done.spent, events)
    content = arguments = ""
    replies = 0
    for event in events:
        match event:
            case Asked(effect=effects.CallModel()):
                content = arguments = ""
            case Reported(effect=effects.CallModel(), news=messages.ReplyDelta() as piece):
                content += piece.content
                arguments += piece.arguments
            # A call that was cut at the deadline has no reply.
            case Answered(effect=effects.CallModel(), reply=messages.ModelReply() as reply):
                assert content == reply.content
                assert arguments == "".join(call.arguments for call in reply.tool_calls)
                replies += 1
            case _:
                pass
    assert replies <= done.spent["model_calls"]
    assert replies or isinstance(done.outcome, actions.StoppedResponse)


@pytest.mark.parametrize("kind", mark_except(KINDS, "react", "structured", "tool_calling", mark=pytest.mark.full))
def test_run_of_any_agent_respects_its_limits(kind: str, model: LocalModel) -> None:
    result = ran(kind, model)
    assert isinstance(result.ending, actions.AgentFinish | actions.StoppedResponse)
    if result.stopped is None:
        assert result.reason == "finished"
    else:
        assert limit_of(result.stopped).limit in ("iterations", "seconds", "fan_out")
    # Each iteration produces at least one step, or the answer.
    assert len(result.steps) + 1 >= result.spent.iterations
    # A call that was cut at the deadline reports no tokens.
    assert result.usage.prompt_tokens > 0 or result.reason == "seconds"


@pytest.mark.full
def test_structured_agent_needs_no_tool_support() -> None:
    with LocalModel(max_tokens=4) as plain:
        with pytest.raises(errors.BadRequestError, match="does not support tools"):
            ran("tool_calling", plain)
        assert ran("structured", plain, iterations=1).spent["model_calls"] == 1


@pytest.mark.parametrize("stopping", mark_except(["force", "generate"], "generate", mark=pytest.mark.full))
@pytest.mark.parametrize(
    "kind", mark_except(["react", "structured", "tool_calling", "xml"], "structured", mark=pytest.mark.full)
)
@pytest.mark.parametrize("iterations", mark_except([0, 1], 1, mark=pytest.mark.full))
def test_both_stopping_methods_end_a_run(kind: str, stopping: Stopping, iterations: int, model: LocalModel) -> None:
    result = ran(kind, model, stopping, iterations)
    stopped = result.stopped
    # Without any iteration, there is only the stop.
    assert stopped is not None or iterations
    if stopped is None:
        return
    assert limit_of(stopped).limit in ("iterations", "seconds")
    if stopping == "force":
        assert not stopped.generated
        assert result.spent["model_calls"] <= iterations
    elif limit_of(stopped).limit == "iterations":
        assert result.spent["model_calls"] == iterations + 1
    assert stopped.output


@pytest.mark.parametrize(
    "kind",
    mark_except(["react, completion", "structured", "tool_calling", "json_chat"], "structured", mark=pytest.mark.full),
)
def test_streamed_pieces_add_up_to_the_replies(kind: str, model: LocalModel) -> None:
    executor = executor_of(kind, model)
    assert_streamed(executor, list(executor.stream(inputs_of(executor), tokens=True)))


@pytest.mark.full
def test_agents_share_one_event_loop(model: LocalModel) -> None:
    async def all_kinds() -> None:
        seen: list[list[Event[Ending]]] = [[], []]
        kinds = zip(("mrkl", "self_ask"), seen, strict=True)
        many = [executor_of(kind, model, observers=[events.append]) for kind, events in kinds]
        results = await asyncio.gather(*(executor.arun(inputs_of(executor)) for executor in many))
        for executor, result, events in zip(many, results, seen, strict=True):
            assert isinstance(result.ending, actions.AgentFinish | actions.StoppedResponse)
            assert_within_the_proof(executor, result.spent, events)
        for kind in ("structured", "chat"):
            executor = executor_of(kind, model)
            async with aclosing(executor.astream(inputs_of(executor), tokens=True)) as coming:
                assert_streamed(executor, [event async for event in coming])

    asyncio.run(all_kinds())
