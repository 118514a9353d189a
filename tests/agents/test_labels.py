"""Labels in the ways in which models write them, and text that only looks like a label."""

import contextlib
import itertools
import re
import time
from collections.abc import Callable
from typing import TypeAlias

import pytest

from graphexec import Agent, AgentExecutor, ParseError, agents, create_react_agent, messages, models
from graphexec.agents import react
from graphexec.agents.reading.labels import (
    ACTION,
    FINAL_ANSWER,
    INPUT,
    OBSERVATION,
    THOUGHT,
    TRANSLATIONS,
    TURN,
    Spelling,
)
from graphexec.integrations import langchain
from graphexec.integrations.langchain.formats import labelled_text
from tests.agents.mutations.common import meaning_of
from tests.executor.actors import echo, fail
from tests.parameters import cases, read_tables

Read: TypeAlias = Callable[..., agents.Decision]
READERS: list[Read] = [react.read, labelled_text.read_mrkl]
NAMES = ("weather", "Intermediate Answer")
TABLES = read_tables(__file__)


@cases("read", *READERS)
@cases(("text", "meaning"), *TABLES["meanings"])
def test_label_is_read_however_it_is_written(read: Read, text: str, meaning: list[str]) -> None:
    assert meaning_of(read(messages.ModelReply(text))) == tuple(meaning)


@cases("words", *TRANSLATIONS)
def test_every_translation_is_found_at_a_line_start_only(words: str) -> None:
    labels = {"Action": ACTION, "Action Input": INPUT, "Final Answer": FINAL_ANSWER, "Observation": OBSERVATION}
    label = {**labels, "Question": TURN, "Thought": THOUGHT}[words]
    for translation in TRANSLATIONS[words]:
        for line in (f"{translation}:", f"**{translation.lower()}** ：", f" {translation} 1 :"):
            assert label.at_line.match(line)
        assert label.patterns[Spelling.TRANSLATED].search(f"x {translation}:") is None


@cases("text", *TABLES["several"])
def test_several_decisions_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        react.read(messages.ModelReply(text), NAMES)


@cases(
    ("read", "text", "meaning"),
    # An input with another answer is LangChain's.
    (labelled_text.read_mrkl, "Action: f\nAction Input: Write:\nfinal answer: 42", ("f", "Write:\nfinal answer: 42")),
    # A spoken answer may follow on the line.
    (labelled_text.read_conversational, "Thought: no tool is needed. AI: Hello.", ("Hello.",)),
    (labelled_text.read_conversational, "AI：Hello.", ("Hello.",)),
    (labelled_text.read_conversational, "**AI:** Hello.", ("Hello.",)),
)
def test_agents_of_langchain_read_more(read: Read, text: str, meaning: tuple[str, ...]) -> None:
    assert meaning_of(read(messages.ModelReply(text))) == meaning


@cases("read", labelled_text.read_mrkl, labelled_text.read_conversational)
@cases("second", "action input: y", "Action: weather", "行动：weather")
def test_second_known_tool_is_refused(read: Read, second: str) -> None:
    with pytest.raises(ParseError):
        read(messages.ModelReply(f"Action: f\nAction Input: x\n{second}"), names=NAMES)


@cases(("written", "tool"), *TABLES["decorated"])
def test_known_tool_is_found_in_its_decoration(written: str, tool: str) -> None:
    decision = react.read(messages.ModelReply(f"Action: {written}\nAction Input: x"), NAMES)
    assert meaning_of(decision) == (tool, "x")


Make: TypeAlias = Callable[..., Agent]
LABELLED: list[Make] = [create_react_agent, langchain.create_mrkl_agent]
IN_JSON: list[Make] = [
    langchain.create_chat_agent,
    langchain.create_structured_chat_agent,
    langchain.create_json_chat_agent,
]
OTHERS: list[Make] = [langchain.create_conversational_agent, agents.create_structured_agent, langchain.create_xml_agent]


@cases("make", *LABELLED, *IN_JSON, *OTHERS)
def test_no_prompt_shows_a_list_where_a_name_belongs(make: Make) -> None:
    model = models.ScriptedModel(["Final Answer: x"])
    agent = make(model, [echo, fail])
    inputs = dict.fromkeys(agent.input_keys, "q")
    with contextlib.suppress(ParseError, AssertionError):
        AgentExecutor(agent=agent, tools=[echo, fail]).run(inputs)
    assert not re.search(r"(?i)action: *(?:one of|\[)", str(model.requests[0]))


@cases("make", *LABELLED, *IN_JSON)
def test_agents_pass_the_names_of_their_tools(make: Make) -> None:
    labels, data = "Action: one of [echo]\nAction Input: x", '{"action": "one of [echo]", "action_input": "x"}'
    decision = make(models.ScriptedModel([]), [echo]).read(messages.ModelReply(labels if make in LABELLED else data))
    assert meaning_of(decision) == ("echo", "x")


PIECES = ("Action ", "**Action", "行动", "1. ", "> ", "Action Input:", "*" * 9, "\u3000", "Observation 1 ", "final\n")


@pytest.mark.medium
@cases(
    ("before", "piece"),
    *itertools.product(("", "Action: f\nAction Input: ", "Final Answer: "), PIECES),
    *(("", piece) for piece in ("Action", "Action:", "Final Answer", "\n")),
    *(("Action", " "), ("Action: ", "Action 1 "), ("Action:", "1 Input"), ("Action: a\nAction Input: ", '"')),
)
def test_labels_are_found_in_linear_time(before: str, piece: str) -> None:
    text = before + piece * (100_000 // len(piece))
    began = time.process_time()
    for read in READERS:
        with contextlib.suppress(ParseError):
            read(messages.ModelReply(text))
    assert time.process_time() - began < 3
