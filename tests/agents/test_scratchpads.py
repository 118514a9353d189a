"""The text of a run is extended with each step, and is that of the same steps alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, create_react_agent, tool
from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.agents import scratchpad
from graphexec.agents.images import number_images
from graphexec.agents.langchain import self_ask, xml
from graphexec.messages import Image, ModelReply
from tests.counting import count_calls
from tests.executor.test_call_counts import Calls
from tests.models.pictures import PNG
from tests.parameters import cases

PADS = [
    scratchpad.format_thoughts,
    scratchpad.format_legacy_thoughts,
    scratchpad.format_previous_work,
    self_ask.format_scratchpad,
    xml.format_scratchpad,
]
IMAGE = Image.from_bytes(PNG)
TEXTS = st.text(max_size=3)


@st.composite
def steps_of_runs(draw: st.DrawFn) -> AgentStep:
    observation = draw(st.one_of(TEXTS, st.just(IMAGE), st.just({"a": IMAGE}), st.integers()))
    return AgentStep(AgentAction("look", "home", draw(TEXTS)), observation)


@pytest.mark.medium
@cases("write", PADS)
@given(st.lists(steps_of_runs(), max_size=6), st.randoms(use_true_random=False))
def test_extended_text_is_that_of_the_steps_alone(
    write: scratchpad.Scratchpad, several: list[AgentStep], order: Any
) -> None:
    steps, runs = Steps(), [Steps()]
    for one in several:
        steps = steps.extended([one])
        runs.append(steps)
        if order.random() < 0.5:
            write(steps)
            number_images(Run({}, steps), ())
    # Another run goes on from an earlier step.
    runs.append(order.choice(runs).extended([AgentStep(AgentAction("look", "away", "I turn."), "a wall")]))
    order.shuffle(runs)
    for run in runs:
        assert write(run) == write(Steps(list(run)))
        assert number_images(Run({}, run), ()) == number_images(Run({}, Steps(list(run))), ())


def test_each_step_is_formatted_once() -> None:
    formatted: list[str] = []

    def format_step(step: AgentStep) -> str:
        formatted.append(step.action.log)
        return step.action.log

    write, steps, text = scratchpad.make_scratchpad(format_step), Steps(), ""
    for number in range(30):
        steps = steps.extended([AgentStep(AgentAction("look", "home", f"{number} "), "a chair")])
        text = write(steps)
    assert text == "".join(formatted) == "".join(f"{number} " for number in range(30))


class Looks(Calls):
    reply = ModelReply("I shall look.\nAction: look\nAction Input: home")


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"a chair at {place}"


@pytest.mark.medium
def test_calls_of_a_step_do_not_grow() -> None:
    """The calls between the steps 50 and 100 are as many as those between the steps 200 and 250."""

    def calls_of(steps: int) -> int:
        agent = create_react_agent(Looks(), [look])
        executor = AgentExecutor(agent=agent, tools=[look], max_iterations=steps)
        executor.run("go")
        return count_calls(lambda: executor.run("go"))

    assert calls_of(250) - calls_of(200) == pytest.approx(calls_of(100) - calls_of(50), rel=0.01)
