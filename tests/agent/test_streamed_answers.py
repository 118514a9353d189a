"""`stream_answer`: the final answer alone, piece by piece as the model says it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import (
    Agent,
    AgentExecutor,
    AnyTool,
    create_conversational_agent,
    create_mrkl_agent,
    create_react_agent,
    create_structured_agent,
    create_tool_calling_agent,
    tool,
)
from graphexec.agents.answers import AnswerReader, after, in_json
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models import ScriptedModel
from tests.agent.actors import echo


class Speaking(ScriptedModel):
    """A scripted model that says its replies letter by letter, where somebody listens."""

    def stream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> Generator[ReplyDelta | ModelReply, None, None]:
        reply = self.complete(request, timeout=timeout)
        for letter in reply.content:
            yield ReplyDelta(letter)
        yield reply

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        for piece in self.stream(request, timeout=timeout):
            yield piece


Make = Callable[[Speaking], Agent]
TOOLS: list[AnyTool] = [echo]
ACT = "Thought: I look.\nAction: echo\nAction Input: a"
ANSWER = "It is 42."


def react(model: Speaking) -> Agent:
    return create_react_agent(model, TOOLS)


def mrkl(model: Speaking) -> Agent:
    return create_mrkl_agent(model, TOOLS)


def structured(model: Speaking) -> Agent:
    return create_structured_agent(model, TOOLS)


def conversational(model: Speaking) -> Agent:
    return create_conversational_agent(model, TOOLS)


def tool_calling(model: Speaking) -> Agent:
    return create_tool_calling_agent(model, TOOLS)


CALL = ModelReply("I look.", (ToolCall("1", "echo", '{"text": "a"}'),), finish_reason="tool_calls")
JSON = json.dumps({"action": "final_answer", "answer": ANSWER})
TALKS: dict[str, tuple[Make, Sequence[str | ModelReply], bool]] = {
    "react": (react, [ACT, f"Thought: I know.\nFinal Answer: {ANSWER}"], True),
    "react in capitals": (react, [f"FINAL ANSWER:   {ANSWER}\n"], True),
    "mrkl": (mrkl, [ACT, f"Final Answer: {ANSWER}"], True),
    "conversational": (conversational, [f"Thought: Do I need to use a tool? No\nAI: {ANSWER}"], True),
    "structured": (structured, [json.dumps({"action": "echo", "action_input": {"text": "a"}}), JSON], True),
    # Only when it is whole is it known that no call follows.
    "tool calling": (tool_calling, [CALL, ANSWER], False),
}


def executor(make: Make, replies: Sequence[str | ModelReply], **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=make(Speaking(list(replies))), tools=TOOLS, **settings)


def pieces(made: Callable[[], AgentExecutor]) -> list[str]:
    inputs = {"input": "?", **({"chat_history": ""} if "chat_history" in made().agent.input_keys else {})}

    async def heard() -> list[str]:
        return [piece async for piece in made().astream_answer(inputs)]

    found = list(made().stream_answer(inputs))
    assert asyncio.run(heard()) == found
    return found


@pytest.mark.parametrize("talk", TALKS)
def test_the_answer_alone_is_told_as_it_comes(talk: str) -> None:
    make, replies, letter_by_letter = TALKS[talk]
    found = pieces(lambda: executor(make, replies))
    assert "".join(found).strip() == ANSWER
    assert len(found) > 5 if letter_by_letter else len(found) == 1


def test_a_run_that_is_stopped_says_so() -> None:
    found = pieces(lambda: executor(react, [ACT], max_iterations=1))
    assert found == ["Agent stopped due to iteration limit or time limit."]


def test_what_turns_out_to_be_no_answer_is_followed_by_the_answer() -> None:
    both = f"Final Answer: 7\n{ACT}"

    def made() -> AgentExecutor:
        agent = react(Speaking([both, f"Final Answer: {ANSWER}"]))
        return AgentExecutor(agent=agent, tools=TOOLS, handle_parsing_errors=True)

    told = "".join(pieces(made))
    assert told.startswith("7")
    assert told.endswith(f"\n{ANSWER}")
    assert told.count(ANSWER) == 1


def test_an_agent_within_a_tool_is_not_heard() -> None:
    def made() -> AgentExecutor:
        inner = executor(react, ["Final Answer: inner"])

        @tool(name="echo")
        def delegate(text: str) -> str:
            """Ask another agent."""
            return str(inner.run(text).output)

        agent = create_react_agent(Speaking([ACT, f"Final Answer: {ANSWER}"]), [delegate])
        return AgentExecutor(agent=agent, tools=[delegate])

    assert "".join(pieces(made)) == ANSWER


def read_in(reader: AnswerReader, text: str, cuts: list[int]) -> str:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return "".join(reader(text[start:end]) for start, end in itertools.pairwise(places))


CUTS = st.lists(st.integers(0, 500))


@given(answer=st.text(), cuts=CUTS)
def test_a_decision_cut_anywhere_gives_its_answer(answer: str, cuts: list[int]) -> None:
    for ascii_only in (True, False):
        text = json.dumps({"action": "final_answer", "answer": answer}, ensure_ascii=ascii_only)
        assert read_in(in_json(), text, cuts) == answer


ONE_LINE = st.text(st.characters(exclude_characters="\n"))


@given(answer=ONE_LINE, before=st.text("Final Asw:\n"), more=ONE_LINE, cuts=CUTS)
def test_a_text_cut_anywhere_gives_what_follows_the_marker(
    answer: str, before: str, more: str, cuts: list[int]
) -> None:
    said = f"{before}\nFinal Answer:{answer}"
    if "final answer:" not in before.lower():
        assert read_in(after("Final Answer:"), said, cuts) == answer.strip()
        # What the model makes up behind it is no part of it.
        invented = f"{said}\nObservation: {more}\nFinal Answer: {more}"
        assert read_in(after("Final Answer:"), invented, cuts) == answer.strip()


@pytest.mark.parametrize("word", ["OpenAI: it is", "I say 'AI: x' soon", "AIX: x", "\n\nthe AI: x"])
def test_a_marker_within_a_line_is_none(word: str) -> None:
    assert read_in(after("AI:"), f"Thought: {word}\n AI: hello", list(range(60))) == "hello"


def test_a_line_that_is_not_made_up_after_all_is_told() -> None:
    text = "AI: one\nobs two\n  Observe!\nObservation: x"
    assert read_in(after("AI:"), text, list(range(60))) == "one\nobs two\n  Observe!"


OTHERS = ('{"action": "echo", "action_input": {"a": "final_answer"}}', "x" * 2_000, '{"answer": "x"}')


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_answer_gives_none(text: str) -> None:
    assert read_in(in_json(), text, list(range(0, 2_000, 7))) == ""


def test_a_wrong_escape_ends_the_answer() -> None:
    assert read_in(in_json(), '{"action": "final_answer", "answer": "a\\qb"}', list(range(60))) == "a"
