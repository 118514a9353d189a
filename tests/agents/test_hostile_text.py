"""Every parser turns any text into a decision or a `ParseError` in linear time."""

import contextlib
import sys
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import AgentFinish, ParseError, messages
from graphexec.agents import Decision, react, structured, tool_calling
from tests.agents.strategies import PIECES, any_text
from tests.integrations.langchain.readers import READERS as READERS_OF_LANGCHAIN
from tests.integrations.langchain.readers import Read
from tests.parameters import cases

READERS: list[Read] = [react.read, structured.read, tool_calling.read, *READERS_OF_LANGCHAIN.values()]


@example('Action: "Action Input: "')
@given(any_text())
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__.rpartition(".")[2])
def test_any_text_is_decision_or_parse_error(read: Callable[[messages.ModelReply], Decision], text: str) -> None:
    try:
        decision = read(messages.ModelReply(text))
    except ParseError as error:
        raw = error.llm_output
    else:
        assert isinstance(decision, AgentFinish) or len(decision) == 1
        raw = decision.log if isinstance(decision, AgentFinish) else decision[0].log
    assert raw in text
    # Without its colon, the word is text.
    assert read is not react.read or "\nObservation:" not in raw


FORMAT = "".join(filter(lambda one: unicodedata.category(one) == "Cf", map(chr, range(sys.maxunicode + 1))))
BLANKS = st.lists(st.sampled_from([*" \n\t\u3000", "```", "```json\n", "</s>", "<|im_end|>", *FORMAT]), max_size=6)


@cases("read", *READERS)
@example(text=FORMAT)
@given(text=BLANKS.map("".join))
def test_reply_without_visible_text_is_unreadable(read: Callable[[messages.ModelReply], Decision], text: str) -> None:
    with pytest.raises(ParseError):
        read(messages.ModelReply(text))


# Each piece is repeated after a beginning that makes a parser examine it.
BEGINNINGS = ("", "Action:", "```json\n{", "Action: a\nAction Input: ", "<tool>a</tool><tool_input>", "Final Answer:")
PAIRS = ("Action 1 ", "\n\t", '\\"', '"\\', "```{", '```{"', "<tool", "&amp;", "Follow up", "{[", "[{", '{"a":', "``")


def seconds(read: Callable[[messages.ModelReply], Decision], text: str) -> float:
    began = time.process_time()
    with contextlib.suppress(ParseError):
        read(messages.ModelReply(text))
    return time.process_time() - began


@pytest.mark.slow
@cases("read", *READERS)
def test_hostile_text_is_parsed_in_linear_time(read: Callable[[messages.ModelReply], Decision]) -> None:
    for beginning in BEGINNINGS:
        for piece in (*PIECES, *PAIRS):
            text = beginning + piece * (20_000 // len(piece))
            # A quadratic parser takes seconds for 20,000 characters, a linear one a few milliseconds. The
            # second measurement excludes other work of the process, such as garbage collection.
            assert seconds(read, text) < 0.2 or seconds(read, text) < 0.2


# What copies the rest of a text at each piece shows in long ones only. `benchmarks/reading.py` has more of them.
LONG = [("", "</think>"), (f"{BEGINNINGS[3]} ", "Action:"), ("", '{"a": 1}'), ("", "```\n<tool_call>\n```\n")]


@pytest.mark.slow
@cases("read", *READERS)
@cases(("beginning", "piece"), *LONG)
def test_time_grows_with_the_text(read: Callable[[messages.ModelReply], Decision], beginning: str, piece: str) -> None:
    def is_linear(length: int = 200_000) -> bool:
        once, twice = (seconds(read, beginning + piece * (many // len(piece))) for many in (length, 2 * length))
        return twice < 3 * once + 0.1

    assert is_linear() or is_linear()
