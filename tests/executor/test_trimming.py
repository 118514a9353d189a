"""`trim_intermediate_steps`: the steps that the agent sees. The run keeps all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, AgentStep, create_react_agent
from graphexec.actions import Steps
from graphexec.errors import InputError
from graphexec.models import ScriptedModel
from tests.executor.actors import echo, prompt, run_executor
from tests.parameters import cases, examples

ACT = "Thought: hm\nAction: echo\nAction Input: {}"
DONE = "Thought: I know\nFinal Answer: done"


def shown_with(trim: Any, *, steps: int = 4, **settings: Any) -> list[list[str]]:
    """Return the observations that the agent sees at each turn."""
    seen: list[list[str]] = []

    def decide(shown: Steps, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
        seen.append([str(step.observation) for step in shown])
        # The visible steps cannot be counted, as they are trimmed.
        return AgentFinish({"output": "done"}) if len(seen) > steps else AgentAction("echo", {"text": str(len(seen))})

    result = AgentExecutor(agent=decide, tools=[echo], trim_intermediate_steps=trim, **settings).run("q")
    assert [step.observation for step in result.steps] == [str(number) for number in range(1, steps + 1)]
    return seen


def every(steps: Steps) -> Steps:
    return steps


def first_and_last(steps: Steps) -> list[AgentStep]:
    return [*steps[:1], *steps[-1:]]


def none(steps: Steps) -> tuple[AgentStep, ...]:
    return ()


def as_pairs(steps: Steps) -> list[tuple[AgentAction, str]]:
    """Return pairs, as functions written for LangChain do."""
    return [(step.action, "again") for step in steps[-2:]]


def texts(steps: Steps) -> list[str]:
    return ["step"]


ALL = ["1", "2", "3", "4"]


@cases(
    ("trim", "last"),
    [
        *((trim, ALL) for trim in (-1, 0, 4, 99, every)),
        *((1, ["4"]), (3, ["2", "3", "4"])),
        *((first_and_last, ["1", "4"]), (none, []), (as_pairs, ["again", "again"])),
    ],
)
def test_agent_sees_the_selected_steps(trim: Any, last: list[str]) -> None:
    assert shown_with(trim)[-1] == last


@settings(max_examples=examples(40), deadline=None)
@given(trim=st.integers(-3, 6), steps=st.integers(0, 5))
def test_number_selects_the_last_steps(trim: int, steps: int) -> None:
    every = [str(number) for number in range(1, steps + 1)]
    kept = [every[:turn] for turn in range(steps + 1)]
    assert shown_with(trim, steps=steps) == [done[-trim:] if trim > 0 else done for done in kept]


def test_model_sees_only_the_last_step() -> None:
    models: list[ScriptedModel] = []

    def make() -> AgentExecutor:
        models.append(ScriptedModel([ACT.format("one"), ACT.format("two"), DONE]))
        return AgentExecutor(agent=create_react_agent(models[-1], [echo]), tools=[echo], trim_intermediate_steps=1)

    result = run_executor(make)
    assert [step.observation for step in result.outcome.steps] == ["one", "two"]
    for model in models:
        last = prompt(model.requests[-1])
        assert "Observation: two" in last
        assert "Observation: one" not in last


def test_function_cannot_change_the_run() -> None:
    lengths: list[int] = []

    def last(steps: Steps) -> Sequence[AgentStep]:
        assert isinstance(steps, Steps)
        lengths.append(len(steps))
        return steps[-1:]

    assert shown_with(last)[-1] == ["4"]
    assert lengths == [0, 1, 2, 3, 4]


@cases("trim", ["last", None, 1.5, [1]])
def test_invalid_trim_is_refused(trim: Any) -> None:
    with pytest.raises(InputError, match=r"trim_intermediate_steps is .*; give the number of steps to show, or a func"):
        AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[], trim_intermediate_steps=trim)


def test_function_must_return_steps() -> None:
    with pytest.raises(InputError, match="returned a sequence with 'step'; return steps of the run"):
        shown_with(texts)


@cases("policy", ["perhaps", None, 1])
def test_unknown_return_direct_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InputError, match=f"return_direct is {policy!r}; give 'single' or 'any'"):
        AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[], return_direct=policy)
