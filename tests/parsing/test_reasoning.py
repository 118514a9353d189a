"""Reasoning in tags: it is neither parsed nor shown, from any model and in any pieces; tags in an answer are text."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Agent, AgentExecutor, AgentFinish, ParseError, create_react_agent, create_tool_calling_agent
from graphexec._parsing.reasoning import ReasoningSplitter, split_reasoning
from graphexec.agents import chat_agent
from graphexec.effects import CallModel
from graphexec.kernel.events import Reported
from graphexec.messages import ChatRequest, ModelReply, Reasoning, ReplyDelta, UserMessage, check_reply
from graphexec.models import ScriptedModel
from tests.executor.actors import echo
from tests.models.call_modes import Typewriter
from tests.parameters import cases, mark_except, read_tables

TABLES = read_tables(__file__)


@cases(("text", "reasoning", "content"), *TABLES["separated"])
def test_reasoning_is_separated(text: str, reasoning: str, content: str) -> None:
    assert split_reasoning(text) == (reasoning, content)
    kept = (Reasoning(reasoning),) if reasoning else ()
    assert check_reply(ModelReply(text), "model") == ModelReply(content, reasoning=kept)
    # The reasoning of the provider comes first.
    both = check_reply(ModelReply(text, reasoning=(Reasoning("first"),)), "model")
    assert both == ModelReply(content, reasoning=(Reasoning("first"), *kept))


@cases("text", *TABLES["text"])
def test_tag_in_an_answer_is_text(text: str) -> None:
    assert split_reasoning(text) == (None, text)
    assert check_reply(ModelReply(text), "model") == ModelReply(text)


CLOSINGS = st.sampled_from(["</think>", "</Thinking>", "[/THINK]", "</seed:think>"])
THOUGHTS = st.lists(
    st.sampled_from(
        [
            *("So it is 4.", "It's 4!", "Is it 4?", "(It is 4)", '"4"', "`f(4)`", "'4'", "the cats' bowl", '5" of it'),
            *("**4**", "Action: f", "Final Answer: no", "<b>4</b>", "`</think>` ends it.", 'I say "</think>".', "“4”"),
        ]
    ),
    min_size=1,
    max_size=4,
)
ANSWERS = st.sampled_from(["The answer is 4.", "4", '"4"', "`4`", "(4)", "*4*", "'4'", "“4”", "It's 4.", '{"a": "4"}'])


@given(THOUGHTS, st.sampled_from([" ", "\n"]), CLOSINGS, st.sampled_from(["", " ", "\n", "\n\n"]), ANSWERS)
def test_answer_has_no_reasoning(thoughts: list[str], between: str, closing: str, blank: str, answer: str) -> None:
    for opening, end in itertools.product(("", "<think>"), ("", blank)):
        assert split_reasoning(f"{opening}{between.join(thoughts)}{end}{closing}{blank}{answer}")[1] == answer


@given(
    st.sampled_from(["<think>", "<thinking>\n", "[THINK]"]),
    st.text(st.sampled_from("`\"'“„”«»「 ab"), min_size=1),
    CLOSINGS,
    st.sampled_from(['{"action": "f"}', "Final Answer: “4”", "f(`4`)", "It's 4."]),
)
def test_unbalanced_quote_does_not_swallow_the_reply(opening: str, thought: str, closing: str, answer: str) -> None:
    assert split_reasoning(f"{opening}{thought}{closing}{answer}") == (thought.strip(), answer)


QUOTES = st.sampled_from(["``", '""', "''", "“”", "„“", "«»", "「」"])


@given(THOUGHTS, QUOTES, st.sampled_from(["", "a ", "<think>"]), CLOSINGS, st.sampled_from(["", ".", " b"]))
def test_quoted_tag_in_an_answer_is_kept(words: list[str], quotes: str, before: str, closing: str, behind: str) -> None:
    text = f"{' '.join(words)} {quotes[0]}{before}{closing}{behind}{quotes[1]} {' '.join(words)}"
    assert split_reasoning(text) == (None, text)


TEXTS = st.lists(
    st.sampled_from(
        [
            *("<think>", "</think>", "[THINK]", "[/THINK]", "</", "<", "[", "th", "ink>", "a", " ", "\n"),
            *("`", "```", '"', "'", "long " * 30, "\ufeff", "Assi", "stant:", "{", ","),
        ]
    )
).map("".join)


def cut_at(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


@given(TEXTS, st.lists(st.integers(0, 100)))
def test_pieces_are_separated_as_the_whole_reply_is(text: str, cuts: list[int]) -> None:
    splitter = ReasoningSplitter()
    content = ""
    for piece in [*cut_at(text, cuts), None]:
        restarts = splitter.restarts
        new = splitter.rest() if piece is None else splitter.take(piece)[1]
        content = new if splitter.restarts > restarts else content + new
    assert content == split_reasoning(text)[1]


@cases(
    ("text", "taken", "rest", "restarts"),
    ("1 </thi", ("", "1 "), "</thi", 0),
    ("1\n</think>", ("", "1\n"), "", 1),
    ("<th", ("", ""), "<th", 0),
    ("<think>1</thi", ("1", ""), "", 0),
)
def test_end_of_a_reply_shows_what_was_held_back(text: str, taken: tuple[str, str], rest: str, restarts: int) -> None:
    splitter = ReasoningSplitter()
    assert (splitter.take(text), splitter.rest(), splitter.restarts) == (taken, rest, restarts)


@pytest.mark.parametrize(
    "piece",
    mark_except(["<think></think>", " </think> ", "<", " ", "<think>", "a</think>", "`</think>`"], "`</think>`"),
)
def test_reasoning_is_separated_in_linear_time(piece: str) -> None:
    text = piece * (30_000 // len(piece))
    began = time.process_time()
    split_reasoning(text)
    splitter = ReasoningSplitter()
    for character in text:
        splitter.take(character)
    assert time.process_time() - began < 3


def test_only_so_many_blocks_are_reasoning() -> None:
    """The rest is content, so that the splitter of a hostile reply has done its work after these."""
    text = "a</think>" * 1_002
    blocks, content = split_reasoning(text)
    assert blocks is not None
    assert (blocks.count("a"), content) == (1_000, "a</think>" * 2)
    splitter = ReasoningSplitter()
    for character in text:
        splitter.take(character)
    splitter.rest()
    assert (len(splitter.blocks), splitter.content_start) == (1_000, len(text) - len(content))


THOUGHT = "<think>\nAction: echo\nAction Input: no\nFinal Answer: no\n</think>\n\n"
ACT = f"{THOUGHT}Action: echo\nAction Input: yes"


def executor(model: Any, make: Callable[..., Agent] = create_react_agent) -> AgentExecutor:
    return AgentExecutor(agent=make(model, [echo]), tools=[echo])


def test_reasoning_is_not_in_the_next_prompt() -> None:
    model = ScriptedModel([ACT, f"{THOUGHT}Final Answer: done"])
    result = executor(model).run("q")
    assert (result.output, [step.observation for step in result.steps]) == ("done", ["yes"])
    assert "think" not in str(model.requests[1])
    # Streamed reasoning is reported as reasoning.
    streamed = executor(Typewriter([f"{THOUGHT}Final Answer: done"])).stream("q", tokens=True)
    deltas = [event.news for event in streamed if isinstance(event, Reported) and isinstance(event.news, ReplyDelta)]
    assert "".join(delta.content for delta in deltas) == "Final Answer: done"
    assert "".join(delta.reasoning for delta in deltas) == THOUGHT[len("<think>") : THOUGHT.index("</think>")]


@cases("make", create_react_agent, create_tool_calling_agent)
def test_streamed_answer_has_no_reasoning(make: Callable[..., Agent]) -> None:
    label = "Final Answer: " if make is create_react_agent else ""
    assert "".join(executor(Typewriter([f"{THOUGHT}{label}It is 42."]), make).stream_answer("q")) == "It is 42."


CUTS = st.lists(st.integers(0, 100))


@given(CUTS, st.sampled_from(["", "<think>"]), st.sampled_from(["I think.", "Final Answer soon: 1", "a\n\nb"]))
def test_answer_reader_skips_reasoning_for_all_cuts(cuts: list[int], opening: str, thought: str) -> None:
    reader = create_react_agent(ScriptedModel([]), []).answer
    assert reader is not None
    text = f"{opening}{thought}\n</think>\nFinal Answer: It is 42."
    assert "".join(map(reader(), cut_at(text, cuts))) == "It is 42."
    # An answer that turns out as reasoning ends.
    assert [*map(reader(), ["Final Answer: 1", "\n</think>\n", "Final Answer: 2"])] == ["1", "", ""]


def test_agents_of_users_receive_content_only() -> None:
    received: list[ModelReply] = []

    def read(reply: ModelReply) -> AgentFinish:
        received.append(reply)
        return AgentFinish({"output": reply.content})

    model = ScriptedModel([])
    agent = chat_agent(lambda run: CallModel(ChatRequest((UserMessage("q"),))), read, model)
    replies = ["a\n</think>\nb", "<think>a</think>b"]
    # A handler of the user's answers, so no code of ours receives the reply before the agent.
    handlers: dict[Any, Any] = {CallModel: lambda effect: ModelReply(replies.pop())}  # pyright: ignore[reportUnknownLambdaType]
    made = AgentExecutor(agent=agent, tools=[], handlers=handlers)
    assert [made.run("q").output for _ in range(2)] == ["b", "b"]
    assert received == [ModelReply("b", reasoning=(Reasoning("a"),))] * 2


@cases("make", create_react_agent, create_tool_calling_agent)
def test_reasoning_alone_is_a_parse_error(make: Callable[..., Agent]) -> None:
    with pytest.raises(ParseError):
        executor(ScriptedModel(["<think>It may be 42."]), make).run("q")
