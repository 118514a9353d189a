"""Steps share their storage, and behave like tuples."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from graphexec import AgentAction, AgentFinish, AgentStep
from graphexec.actions import Run, Steps

STEP = st.integers(0, 99).map(lambda number: AgentStep(AgentAction(f"tool{number}", {"n": number}), number))
STEPS = st.lists(STEP, max_size=4)


@given(first=STEPS, extensions=st.lists(st.tuples(st.integers(0, 30), STEPS), max_size=12))
def test_steps_can_be_extended_anytime(first: list[AgentStep], extensions: list[tuple[int, list[AgentStep]]]) -> None:
    made, model = [Steps(first)], [tuple(first)]
    for which, more in extensions:
        older = which % len(made)
        made.append(made[older].extended(more))
        model.append((*model[older], *more))
    # Checked at the end: later extensions have changed none of them.
    for steps, expected in zip(made, model, strict=True):
        assert (tuple(steps), len(steps)) == (expected, len(expected))
        assert list(reversed(steps)) == list(reversed(expected))
        assert steps == Steps(expected)
        assert hash(steps) == hash(Steps(expected))
        assert repr(steps) == repr(Steps(expected))


@given(steps=st.lists(STEP, max_size=6), data=st.data())
def test_steps_are_indexed_like_a_tuple(steps: list[AgentStep], data: st.DataObject) -> None:
    made, model = Steps(steps[:3]).extended(steps[3:]), tuple(steps)
    # A step that was appended for another must not appear here.
    made.extended([AgentStep(AgentAction("x", ""), "x")])
    cut = data.draw(st.slices(len(steps)))
    assert made[cut] == model[cut]
    for index in range(-len(steps), len(steps)):
        assert made[index] is model[index]
    for index in (len(steps), -len(steps) - 1):
        with pytest.raises(IndexError, match=f"there is no step {index}; the run has {len(steps)}"):
            made[index]


def test_steps_are_compared_with_steps() -> None:
    step = AgentStep(AgentAction("x", ""), "x")
    assert Steps([step]) != [step]
    assert Steps([step]) != Steps()
    assert step in Steps([step])
    first, second = Run({}).with_steps([step]), Run({}).with_steps([])
    assert (len(first.steps), len(second.steps), len(AgentFinish({}).steps)) == (1, 0, 0)


def test_threads_can_extend_the_same_steps() -> None:
    base = Steps([AgentStep(AgentAction("base", ""), 0)])
    barrier = threading.Barrier(8)
    made: list[tuple[int, Steps]] = []

    def extend(number: int) -> None:
        barrier.wait()
        for count in range(50):
            steps = base
            for _ in range(3):
                steps = steps.extended([AgentStep(AgentAction(str(number), ""), count)])
            made.append((number, steps))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(extend, range(8)))
    assert len(made) == 400
    for number, steps in made:
        assert [step.action.tool for step in steps] == ["base", *[str(number)] * 3]


@given(steps=STEPS)
def test_steps_are_stored_as_a_list(steps: Sequence[AgentStep]) -> None:
    adapter = TypeAdapter(Run)
    data = adapter.dump_python(Run({"input": "x"}, Steps(steps)), mode="json")
    assert isinstance(data["steps"], list)
    assert adapter.validate_python(data) == Run({"input": "x"}, Steps(steps))


def test_step_and_answer_have_parts() -> None:
    action, observation = AgentStep(AgentAction("x", ""), 3)
    assert (action, observation) == (AgentAction("x", ""), 3)
    assert AgentFinish({"output": 1, "log": 2}).output == 1
    assert AgentFinish({"answer": 1}).output == 1
    with pytest.raises(KeyError):
        _ = AgentFinish({"a": 1, "b": 2}).output
