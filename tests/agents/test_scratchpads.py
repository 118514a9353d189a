"""Texts and bodies of a run are extended with each step, and are those of the same steps alone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec.messages as gm
from graphexec import AgentExecutor, create_react_agent, tool
from graphexec.actions import NO_STEPS, AgentAction, AgentStep, Steps
from graphexec.agents import scratchpad
from graphexec.agents.tool_calling import step_turns
from graphexec.integrations.langchain.formats import json_actions, self_ask, xml
from graphexec.messages.turns import Conversation
from graphexec.models.http import json_bodies
from graphexec.models.http.dialect import Dialect, Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_responses import RESPONSES
from tests.counting import count_calls
from tests.executor.test_call_counts import Calls
from tests.models.pictures import PNG
from tests.parameters import cases

DIALECTS = [CHAT_COMPLETIONS, MESSAGES, RESPONSES]
HEAD: tuple[gm.Message, ...] = (gm.SystemMessage("Be brief."), gm.UserMessage("Go on."))
IMAGE = gm.Image.from_bytes(PNG)
TEXTS = st.text(st.sampled_from('a "\\\n\u00e9\U0001f600\ud800'), max_size=4)


@st.composite
def replies(draw: st.DrawFn) -> list[AgentStep]:
    """Return the steps of one reply: of some of its calls, or of text that could not be read."""
    content, observed = draw(TEXTS), draw(st.one_of(TEXTS, st.just(IMAGE), st.just({"a": 1})))
    if draw(st.booleans()):
        return [AgentStep(AgentAction("t", "x", content), observed)]
    calls = tuple(gm.ToolCall(f"c{at}", "t", draw(st.sampled_from(["{}", '{"x": 1}', "{x"]))) for at in range(3))
    thoughts = (gm.Reasoning("Hm.", '{"type": "reasoning", "id": "r"}', "openai"),) if draw(st.booleans()) else ()
    message = gm.AssistantMessage(content, calls, thoughts)
    answered = draw(
        st.lists(st.sampled_from(calls), unique=True, max_size=3).map(lambda several: sorted(several, key=calls.index))
    )
    return [AgentStep(AgentAction("t", {}, content, call.id, message), observed) for call in answered]


def body(dialect: Dialect, messages: Sequence[gm.Message]) -> Any:
    sampling = Sampling("m", max_tokens=9, provider="openai")
    return json.loads(write(dialect.encode(gm.ChatRequest(messages), sampling, stream=False)))


@pytest.mark.medium
@cases("dialect", *DIALECTS)
@given(st.lists(replies(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_shared_turns_are_encoded_as_others(dialect: Dialect, given_replies: list[list[AgentStep]], order: Any) -> None:
    steps, runs = Steps(), list[Steps]()
    for reply in given_replies:
        for one in reply:
            steps = steps.extended([one])
            runs.append(steps)
            # A request is made before the other calls of a reply have results, too.
            body(dialect, Conversation(HEAD, steps, step_turns))
    order.shuffle(runs)
    for run in runs:
        head = (*HEAD[:1], gm.UserMessage(order.choice(["Go on.", "Stop."])))
        alone = [*head, *(message for turn in step_turns(Steps(list(run)), 0) for message in turn.messages)]
        conversation = Conversation(head, run, step_turns)
        assert list(conversation) == alone
        assert len(conversation) == len(alone)
        assert body(dialect, conversation) == body(dialect, alone)


def test_each_turn_is_made_and_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    encode = json_bodies.to_json

    def counting(value: Any) -> str:
        encoded.extend([value] if "role" in value else [])
        return encode(value)

    monkeypatch.setattr(json_bodies, "to_json", counting)
    steps, made = Steps(), list[gm.Message]()
    for number in range(50):
        message = gm.AssistantMessage("", (gm.ToolCall(str(number), "t", "{}"),))
        steps = steps.extended([AgentStep(AgentAction("t", {}, "", str(number), message), "x")])
        conversation = Conversation(HEAD, steps, step_turns)
        body(CHAT_COMPLETIONS, conversation)
        assert [one for one, other in zip(made, conversation, strict=False) if one is not other] == []
        made = list(conversation)
    assert len(encoded) == len(made) == 2 + 2 * 50


def test_changed_tools_are_encoded_again() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    tools = (gm.ToolSpec("t", "Do.", parameters),)
    for kind in ("string", "integer"):
        parameters["properties"]["x"] = {"type": kind}
        request = gm.ChatRequest(HEAD, tools, schema=parameters)
        sent = json.loads(write(CHAT_COMPLETIONS.encode(request, Sampling("m"), stream=False)))
        assert sent["tools"][0]["function"]["parameters"]["properties"]["x"] == {"type": kind}
        assert sent["response_format"]["json_schema"]["schema"]["properties"]["x"] == {"type": kind}


def test_runs_share_nothing_of_their_empty_beginning() -> None:
    NO_STEPS.memo["a"] = 1
    assert NO_STEPS.memo == {}


# ---- texts

PADS = [scratchpad.format_thoughts, scratchpad.format_legacy_thoughts, json_actions.format_previous_work]
WORDS = st.text(max_size=3)
OBSERVATIONS: st.SearchStrategy[Any] = WORDS | st.just(IMAGE) | st.just({"a": IMAGE}) | st.integers()
STEPS = st.builds(AgentStep, st.builds(AgentAction, st.just("look"), st.just("home"), WORDS), OBSERVATIONS)


@pytest.mark.medium
@cases("write", *PADS, self_ask.format_scratchpad, xml.format_scratchpad)
@given(st.lists(STEPS, max_size=6), st.randoms(use_true_random=False))
def test_extended_text_is_that_of_the_steps(write: scratchpad.Scratchpad, several: list[AgentStep], order: Any) -> None:
    steps, runs = Steps(), [Steps()]
    for one in several:
        steps = steps.extended([one])
        runs.append(steps)
        if order.random() < 0.5:
            write(steps)
    # Another run goes on from an earlier step.
    runs.append(order.choice(runs).extended([AgentStep(AgentAction("look", "away", "I turn."), "a wall")]))
    order.shuffle(runs)
    for run in runs:
        assert write(run) == write(Steps(list(run)))


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
    reply = gm.ModelReply("I shall look.\nAction: look\nAction Input: home")


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
