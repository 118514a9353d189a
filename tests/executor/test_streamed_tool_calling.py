"""`stream_answer` of a tool-calling agent: text is passed on at once, and discarded if a call follows."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.agents.reading.answers import make_text_reader
from graphexec.agents.tool_calling import read
from graphexec.executor import AnswerDiscarded, parse
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models import ScriptedModel
from tests.executor.actors import call, echo, run_by
from tests.parameters import cases
from tests.semantics.endings import noting_tool

CALL = call("echo", text="a")
ANSWER = "It is 42."


def split_text(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


class Streaming(ScriptedModel):
    """A scripted model that streams the text of its replies in pieces, and then the calls."""

    def __init__(self, replies: Sequence[str | ModelReply], cuts: Sequence[int]) -> None:
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


def executor_of(replies: Sequence[ModelReply], cuts: Sequence[int] = range(50), **options: Any) -> gx.AgentExecutor:
    agent = gx.create_tool_calling_agent(Streaming(replies, cuts), [echo])
    return gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True, **options)


def stream(*replies: ModelReply, cuts: Sequence[int] = range(50), **options: Any) -> tuple[list[str], str]:
    """Return the pieces of the answer, which are the same in sync and async runs, and the answer of the run."""
    found, others = (run_by(way, executor_of(replies, cuts, **options)) for way in ("stream_answer", "astream_answer"))
    assert found == others
    return found, executor_of(replies, cuts, **options).run("?").output


def without_discarded(pieces: Sequence[str]) -> str:
    """Return the pieces after the last discard as one string."""
    last = max((place for place, piece in enumerate(pieces) if isinstance(piece, AnswerDiscarded)), default=-1)
    return "".join(pieces[last + 1 :])


LOOK, END = ModelReply("I look.", (CALL,)), ModelReply(ANSWER)
GENERATE = {"max_iterations": 1, "early_stopping_method": "generate"}
STOPPED = "Agent stopped due to iteration limit or time limit."


@cases(
    ("replies", "options", "pieces", "answer"),
    [
        ([ModelReply("", (CALL,)), END], {}, [*ANSWER], ANSWER),
        # Text before a call is discarded, also if it is the beginning of the answer, or the call cannot be read.
        ([LOOK, END], {"cuts": []}, ["I look.", AnswerDiscarded("\n"), ANSWER], ANSWER),
        ([ModelReply("It is", (CALL,)), END], {"cuts": []}, ["It is", "\n", ANSWER], ANSWER),
        ([ModelReply("I look.", (ToolCall("1", "echo", "{"),)), END], {"cuts": []}, ["I look.", "\n", ANSWER], ANSWER),
        # So it is in a run that is stopped, whose last answer is streamed.
        ([LOOK], {"cuts": [], "max_iterations": 1}, ["I look.", "\n", STOPPED], STOPPED),
        ([LOOK, END], GENERATE, [*"I look.", "\n", *ANSWER], ANSWER),
        # Text like a call is held back.
        *(([ModelReply(text)], {}, [text], text) for text in ('{"a": 1}', "[1]", "```\n1\n```", "  <b>1</b>")),
    ],
)
def test_discarded_text_is_marked(replies: Any, options: Any, pieces: list[str], answer: str) -> None:
    found, output = stream(*replies, **options)
    assert (found, output, without_discarded(found)) == (pieces, answer, answer)
    assert [isinstance(piece, AnswerDiscarded) for piece in found] == [piece == "\n" for piece in pieces]


def test_discard_comes_before_the_tool_runs() -> None:
    look, called = noting_tool("look")
    agent = gx.create_tool_calling_agent(Streaming([ModelReply("I look.", (call("look", text="a"),))], []), [look])
    pieces = gx.AgentExecutor(agent=agent, tools=[look]).stream_answer("?")
    assert next(pieces) == "I look."
    assert isinstance(next(pieces), AnswerDiscarded)
    assert called == []
    pieces.close()


@gx.node
def check(finish: gx.AgentFinish) -> gx.AgentFinish:
    """Check every answer."""
    return finish


def test_guarded_answer_comes_in_one_piece() -> None:
    rows = gx.edges(check, gx.on(gx.AgentFinish, gx.END))
    executor = executor_of([END]).splice(rows, after=parse, on=gx.AgentFinish)
    assert list(executor.stream_answer("?")) == [ANSWER]


def test_reasoning_that_only_its_end_shows_is_discarded() -> None:
    found, answer = stream(ModelReply(f"I add.</think>{ANSWER}"), cuts=[6])
    assert found[0] == "I add."
    assert found[-2:] == ["\n", ANSWER]
    assert without_discarded(found) == answer == ANSWER


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
    found, answer = stream(*replies, ModelReply(last), END, cuts=cuts)
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
