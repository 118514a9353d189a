"""Every kind of agent on the real small model: each run ends within the proved bounds for any replies.

Such a small model forgets formats, invents tools and repeats itself, so the tests assert nothing about its words. The
questions are short: a prompt beyond the context is a `ContextOverflowError`, which ends a run as every `ModelError`.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from graphexec import actions, agents, effects, errors, messages
from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.executor import AgentExecutor, RunResult
from graphexec.executor.result import Ending
from graphexec.kernel import Answered, Asked, Event, Moved, Reported, Spent
from graphexec.models import LocalModel
from graphexec.tools import AnyTool
from graphexec.tools.everyday import EVERYDAY_TOOLS
from tests.drivers import limit_of
from tests.executor.actors import search
from tests.models.test_local_model import WITH_TOOLS
from tests.models.test_reasoning_agents import KINDS as ALL_KINDS
from tests.parameters import mark_except

pytestmark = pytest.mark.local_model

# The prompts of text agents list every tool; two tools are enough, and take less time to process.
TOOLS = tuple(one for one in EVERYDAY_TOOLS if one.name != "today")
ITERATIONS, SECONDS, FAN_OUT = 3, 20.0, 3


KINDS: dict[str, Callable[..., agents.Agent]] = {
    **{name: kind.create for name, kind in ALL_KINDS.items()},
    "react, completion": partial(agents.create_react_agent, protocol="completion"),
    # Without rules, which may ask more often than the tests count; `benchmarks/score.py` runs them on this model.
    "structured": partial(agents.create_structured_agent, examples=EVERYDAY_EXAMPLES[:2], rules=()),
}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    # The weights' own template does not support tools, so they are rejected.
    with LocalModel(max_tokens=48, chat_template=WITH_TOOLS) as local:
        yield local


# Any: options of an executor, here and below.
def executor_of(kind: str, model: messages.Model, **options: Any) -> AgentExecutor:
    tools: tuple[AnyTool, ...] = (search,) if kind == "self_ask" else TOOLS
    limits: dict[str, Any] = {"max_iterations": ITERATIONS, "max_execution_time": SECONDS, "max_fan_out": FAN_OUT}
    agent = KINDS[kind](model, tools)
    return AgentExecutor(agent=agent, tools=tools, handle_parsing_errors=True, **limits | options)


def inputs_of(executor: AgentExecutor) -> dict[str, Any]:
    given = {"input": "What is 37 * 48?", "chat_history": "none"}
    return {name: given[name] for name in executor.agent.input_keys}


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
    late = itertools.dropwhile(lambda event: getattr(event, "spent", Spent()).seconds < SECONDS, events)
    assert [event for event in late if isinstance(event, Asked)] == []


def ran(kind: str, model: messages.Model, **options: Any) -> RunResult:
    events: list[Event[Ending]] = []
    executor = executor_of(kind, model, observers=[events.append], **options)
    result = executor.run(inputs_of(executor))
    assert_within_the_proof(executor, result.spent, events)
    return result


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
        assert ran("structured", plain, max_iterations=1).spent["model_calls"] == 1


@pytest.mark.parametrize("kind", mark_except(["react", "tool_calling"], "react", mark=pytest.mark.full))
@pytest.mark.parametrize("iterations", mark_except([0, 1], 1, mark=pytest.mark.full))
def test_stopped_run_may_ask_for_a_last_answer(kind: str, iterations: int, model: LocalModel) -> None:
    result = ran(kind, model, early_stopping_method="generate", max_iterations=iterations)
    # Without any iteration, there is only the stop.
    assert result.stopped is not None or iterations
    if result.stopped is not None and limit_of(result.stopped).limit == "iterations":
        assert result.spent["model_calls"] == iterations + 1
        assert result.stopped.output


@pytest.mark.parametrize(
    "kind", mark_except(["react, completion", "tool_calling"], "tool_calling", mark=pytest.mark.full)
)
def test_streamed_pieces_add_up_to_the_replies(kind: str, model: LocalModel) -> None:
    executor = executor_of(kind, model)
    content = arguments = ""
    for event in executor.stream(inputs_of(executor), tokens=True):
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
            case _:
                pass
