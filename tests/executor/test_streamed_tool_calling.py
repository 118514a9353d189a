"""`stream_answer` of a tool-calling agent: text is passed on at once, and discarded if a call follows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Generator, Sequence

from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.agents.reading.answers import make_text_reader
from graphexec.agents.tool_calling import read
from graphexec.executor import AnswerDiscarded, parse
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models import ScriptedModel
from tests.executor.actors import call, echo
from tests.parameters import cases

CALL = call("echo", text="a")
ANSWER = "It is 42."


def split_text(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


class Streaming(ScriptedModel):
    """A scripted model that streams the text of its replies in pieces, and then the calls."""

    def __init__(self, replies: Sequence[ModelReply], cuts: Sequence[int]) -> None:
        super().__init__(replies)
        self._cuts = cuts

    def stream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> Generator[ReplyDelta | ModelReply, None, None]:
        reply = self.complete(request, timeout=timeout)
        for piece in split_text(reply.content, self._cuts):
            yield ReplyDelta(piece)
        for index, one in enumerate(reply.tool_calls):
            yield ReplyDelta(index=index, call_id=one.id, name=one.name)
            yield ReplyDelta(index=index, arguments=one.arguments)
        yield reply

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        for piece in self.stream(request, timeout=timeout):
            yield piece


def stream(
    replies: Sequence[ModelReply], cuts: Sequence[int] = range(50), max_iterations: int = 15
) -> tuple[list[str], str]:
    """Return the pieces of the answer, which are the same in sync and async runs, and the answer of the run."""

    def executor() -> gx.AgentExecutor:
        agent = gx.create_tool_calling_agent(Streaming(replies, cuts), [echo])
        return gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True, max_iterations=max_iterations)

    async def collect() -> list[str]:
        return [piece async for piece in executor().astream_answer("?")]

    found = list(executor().stream_answer("?"))
    assert asyncio.run(collect()) == found
    return found, executor().run("?").output


def without_discarded(pieces: Sequence[str]) -> str:
    """Return the pieces after the last discard as one string."""
    last = max((place for place, piece in enumerate(pieces) if isinstance(piece, AnswerDiscarded)), default=-1)
    return "".join(pieces[last + 1 :])


def test_answer_arrives_piece_by_piece() -> None:
    found, answer = stream([ModelReply("", (CALL,)), ModelReply(ANSWER)])
    assert found == list(ANSWER)
    assert answer == ANSWER


def test_text_before_a_call_is_discarded() -> None:
    found, _ = stream([ModelReply("I look.", (CALL,)), ModelReply(ANSWER)], [])
    assert found == ["I look.", AnswerDiscarded("\n"), ANSWER]
    assert [isinstance(piece, AnswerDiscarded) for piece in found] == [False, True, False]


def test_discard_comes_before_the_tool_runs() -> None:
    called: list[str] = []

    @gx.tool
    def look(text: str) -> str:
        """Look it up."""
        called.append(text)
        return text

    agent = gx.create_tool_calling_agent(Streaming([ModelReply("I look.", (call("look", text="a"),))], []), [look])
    pieces = gx.AgentExecutor(agent=agent, tools=[look]).stream_answer("?")
    assert next(pieces) == "I look."
    assert isinstance(next(pieces), AnswerDiscarded)
    assert called == []
    pieces.close()


def test_discarded_text_is_not_taken_for_the_beginning() -> None:
    found, answer = stream([ModelReply("It is", (CALL,)), ModelReply(ANSWER)], [])
    assert found == ["It is", "\n", ANSWER]
    assert without_discarded(found) == answer


def test_stopped_run_discards_the_text() -> None:
    found, answer = stream([ModelReply("I look.", (CALL,))], [], max_iterations=1)
    assert found == ["I look.", "\n", answer]


def test_generated_answer_of_a_stopped_run_is_streamed() -> None:
    model = Streaming([ModelReply("I look.", (CALL,)), ModelReply(ANSWER)], range(50))
    agent = gx.create_tool_calling_agent(model, [echo])
    executor = gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=1, early_stopping_method="generate")
    assert list(executor.stream_answer("?")) == [*"I look.", "\n", *ANSWER]


@gx.node
def check(finish: gx.AgentFinish) -> gx.AgentFinish:
    """Check every answer."""
    return finish


def test_guarded_answer_comes_in_one_piece() -> None:
    agent = gx.create_tool_calling_agent(Streaming([ModelReply(ANSWER)], range(50)), [echo])
    plain = gx.AgentExecutor(agent=agent, tools=[echo])
    executor = plain.splice(gx.edges(check, gx.on(gx.AgentFinish, gx.END)), after=parse, on=gx.AgentFinish)
    assert list(executor.stream_answer("?")) == [ANSWER]


def test_text_of_an_unreadable_call_is_discarded() -> None:
    broken = ToolCall("1", "echo", "{")
    found, _ = stream([ModelReply("I look.", (broken,)), ModelReply(ANSWER)], [])
    assert found == ["I look.", "\n", ANSWER]


def test_reasoning_that_only_its_end_shows_is_discarded() -> None:
    found, answer = stream([ModelReply(f"I add.</think>{ANSWER}")], [6])
    assert found[0] == "I add."
    assert found[-2:] == ["\n", ANSWER]
    assert without_discarded(found) == answer == ANSWER


@cases("text", ['{"a": 1}', "[1]", "```\n1\n```", "  <b>1</b>"])
def test_text_like_a_call_is_held_back(text: str) -> None:
    found, answer = stream([ModelReply(text)])
    assert found == [answer]


def test_tag_of_a_call_is_held_back() -> None:
    read = make_text_reader()
    assert "".join(map(read, "1 < 2 <b> <Tool_Call>{}")) == "1 < 2 <b> "


def is_answer(text: str) -> bool:
    """Return whether a reply with this text is the answer, and not a call that cannot be read."""
    try:
        return isinstance(read(ModelReply(text), [echo]), gx.AgentFinish)
    except gx.ParseError:
        return False


TEXTS = st.text() | st.lists(
    st.sampled_from(["<tool_call>", "<think>", "</think>", "<", "{", "`", " ", "\n", "a", "42"])
).map("".join)
CALLS = st.sampled_from([(), (CALL,), (CALL, CALL), (ToolCall("1", "echo", "{"),)])
REPLIES = st.lists(st.builds(ModelReply, TEXTS, CALLS), max_size=4)


@given(replies=REPLIES, last=TEXTS.filter(is_answer), cuts=st.lists(st.integers(0, 500)))
def test_pieces_after_the_last_discard_are_the_answer(replies: list[ModelReply], last: str, cuts: list[int]) -> None:
    # The last reply may be no answer either: only reasoning, for example.
    found, answer = stream([*replies, ModelReply(last), ModelReply(ANSWER)], cuts)
    assert without_discarded(found) == answer
    assert "" not in found


@given(text=TEXTS, cuts=st.lists(st.integers(0, 500)))
def test_reader_returns_a_beginning(text: str, cuts: list[int]) -> None:
    assert text.startswith("".join(map(make_text_reader(), split_text(text, cuts))))


PLAIN = st.text(st.characters(exclude_characters="{[`<"))


@given(text=PLAIN, cuts=st.lists(st.integers(0, 500)))
def test_plain_text_is_never_held_back(text: str, cuts: list[int]) -> None:
    read: Callable[[str], str] = make_text_reader()
    assert "".join(map(read, split_text(text, cuts))) == (text if text.strip() else "")


def test_other_agents_discard_a_reply_that_cannot_be_read() -> None:
    both = "Final Answer: 7\nAction: echo\nAction Input: a"
    model = Streaming([ModelReply(both), ModelReply(f"Final Answer: {ANSWER}")], [])
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], handle_parsing_errors=True)
    assert without_discarded(list(executor.stream_answer("?"))) == ANSWER
