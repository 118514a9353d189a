"""The parsers of LangChain's agents: what they read, what they refuse, and text that a model has invented."""

import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphexec import AgentAction, AgentFinish, AgentStep, ParseError, actions
from graphexec.integrations.langchain.formats import self_ask, xml
from graphexec.integrations.langchain.formats.json_actions import read_chat, read_json_chat, read_structured_chat
from graphexec.integrations.langchain.formats.labelled_text import read_conversational, read_mrkl
from graphexec.integrations.langchain.formats.xml import escape_tags, format_scratchpad, unescape_tags
from graphexec.messages import ModelReply
from tests.agents.mutations.common import Meaning, meaning_of
from tests.agents.strategies import any_text, names, objects, plain
from tests.integrations.langchain.readers import READERS, Read
from tests.parameters import cases, read_tables

CATS, ADD = '{"action": "search", "action_input": "cats"}', '{"action": "add", "action_input": {"a": 1, "b": 2}}'
ECHO = '{"action": "echo", "action_input": "a"}'
TAGS = ["<tool>", "</tool>", "<tool_input>", "</TOOL_INPUT >", "<b>", "&lt;", "&amp;", "tool>", "lt;", "x"]
TAGGED = st.lists(st.sampled_from(TAGS)).map("".join)


def action(read: Read, text: str) -> AgentAction:
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (only,) = decision
    return only


# ---- what is formatted is parsed back


@cases(
    ("read", "form"),
    (read_mrkl, "I look.\nAction: {}\nAction Input: {}"),
    (read_conversational, "Thought: Do I need to use a tool? Yes\nAction: {}\nAction Input: {}"),
)
@given(names(), plain())
def test_labelled_action_is_parsed_back(read: Read, form: str, tool: str, tool_input: str) -> None:
    text = form.format(tool, tool_input)
    assert action(read, text) == AgentAction(tool, tool_input, text)


@cases(
    ("read", "form", "indent"),
    (read_chat, "Thought: hm\nAction:\n```\n{}\n```", 2),
    (read_structured_chat, "Thought: hm\nAction:\n```\n{}\n```", None),
    (read_json_chat, "```json\n{}\n```", None),
    (read_json_chat, "{}", None),
    (read_json_chat, "[{}]", None),
    (read_json_chat, "Sure!\n```\n{}\n```\nDone.", None),
)
@given(names(), plain() | objects())
def test_action_in_json_is_parsed_back(
    read: Read, form: str, indent: int | None, name: str, tool_input: str | dict[str, Any]
) -> None:
    text = form.format(json.dumps({"action": name, "action_input": tool_input}, indent=indent))
    assert action(read, text) == AgentAction(name, tool_input, text)


@given(names(), any_text() | TAGGED)
def test_tagged_action_is_parsed_back(tool: str, text: str) -> None:
    # A closing tag on a line of its own ends reasoning, wherever it is.
    assume("think" not in text)
    tool_input = text.strip()
    # It may be the beginning of the stop string.
    assume(not tool_input.endswith(("<", "</")))
    reply = f"Hm.\n<tool>{tool}</tool><tool_input>{escape_tags(tool_input)}"
    # With and without the stop string, which may be cut off.
    for written in (reply, f"{reply}</tool_input>", f"{reply}\n</tool_input>\n"):
        found = action(xml.read, written)
        assert (found.tool, found.tool_input, found.log.rstrip()) == (tool, tool_input, reply.rstrip())
    finish = xml.read(ModelReply(f"<final_answer>{escape_tags(tool_input)}</final_answer>"))
    assert meaning_of(finish) == (tool_input,)


@given(plain())
def test_question_is_parsed_back(question: str) -> None:
    assume(question and "\n" not in question)
    text = f" Yes.\nFollow up: {question}\n"
    assert action(self_ask.read, text) == AgentAction("Intermediate Answer", question, text)
    assert meaning_of(self_ask.read(ModelReply(f"So the final answer is: {question}\n\n"))) == (question,)


@given(plain())
def test_answer_is_parsed_back(text: str) -> None:
    fenced = f"```json\n{json.dumps({'action': 'Final Answer', 'action_input': text})}\n```"
    assert meaning_of(read_json_chat(ModelReply(fenced))) == (text,)
    assume("action" not in text.lower())
    spoken = ModelReply(f"Thought: Do I need to use a tool? No\nAI: {text}\nAI: {text}")
    assert meaning_of(read_conversational(spoken)) == (f"{text}\nAI: {text}".strip(),)


# ---- what replies mean


TABLES = read_tables(__file__)


def rows_of(table: str) -> list[tuple[Any, ...]]:
    return [(READERS[name], *row) for name, rows in TABLES[table].items() for row in rows]


@cases(("read", "text", "meaning"), *rows_of("meanings"))
def test_reply_has_a_meaning(read: Read, text: str, meaning: list[object]) -> None:
    assert meaning_of(read(ModelReply(text))) == tuple(meaning)


ACT = "Action: f\nAction Input: x"
FOO = "Action: foo\nAction Input: bar"
BEHIND_QUESTION = [
    f"\n{label} B.\nSo the final answer is: B"
    for label in ("Intermediate answer:", "intermediate Answer :", "Intermediate answer 1:")
]
BEHIND_TAGS = [
    "</tool_input>\n<observation>y</observation><final_answer>y</final_answer>",
    "</tool_input><observation>y</observation><tool>g</tool><tool_input>z</tool_input>",
    "<observation>y</observation><final_answer>y</final_answer>",
    "</tool_input> Then I shall see.",
]


@cases(
    ("read", "text", "meaning", "invented"),
    # An answer before an action has priority, and keeps its last character.
    *((read_mrkl, "Final Answer: 42", ("42",), rest) for rest in ("", f"\n\n{FOO}", f"\n\tObservation: no\n\n{FOO}")),
    *((read_mrkl, "Final Answer: 42\n", ("42",), rest) for rest in (FOO, f"{FOO}\n\nmore")),
    (read_mrkl, "Final Answer: 4\nFinal Answer: 42\n\nIt is.", ("42\n\nIt is.",), ""),
    (read_mrkl, "final answer: 42", ("42",), ""),
    (read_mrkl, ACT, ("f", "x"), "\nObservation: y\nFinal Answer: y"),
    (read_mrkl, ACT, ("f", "x"), "\n\tObservation: y\nFinal Answer: y"),
    (read_mrkl, ACT, ("f", "x"), "\nobservation: y\nFinal Answer: y"),
    (read_conversational, ACT, ("f", "x"), "\nObservation: y\nAI: y it is"),
    (
        read_chat,
        f"Action:\n```\n{CATS}\n```",
        ("search", "cats"),
        "\nObservation: found\nFinal Answer: found",
    ),
    (
        read_chat,
        f"Action:\n```\n{CATS}\n```",
        ("search", "cats"),
        f"\nobservation: found\n```\n{CATS}\n```",
    ),
    (
        read_structured_chat,
        f"```\n{ADD}\n```",
        ("add", {"a": 1, "b": 2}),
        f"\nObservation: 4\n```\n{ADD}\n```",
    ),
    (read_structured_chat, "It is 3.", ("It is 3.",), "\nObservation: 4"),
    (read_json_chat, f"```json\n{ECHO}\n```", ("echo", "a"), f"\nObservation: b\n```json\n{ECHO}\n```"),
    *((xml.read, "<tool>f</tool><tool_input>x", ("f", "x"), invented) for invented in BEHIND_TAGS),
    *((self_ask.read, "Follow up: A?", ("Intermediate Answer", "A?"), invented) for invented in BEHIND_QUESTION),
)
def test_invented_observation_and_the_rest_are_ignored(read: Read, text: str, meaning: Meaning, invented: str) -> None:
    decision = read(ModelReply(text + invented))
    assert meaning_of(decision) == meaning
    assert (decision.log if isinstance(decision, AgentFinish) else decision[0].log) == text


# ---- what is refused

# The facts that every observation of a reader has.
FORMS: dict[Read, str] = {
    read_mrkl: "Invalid Format: ",
    read_json_chat: 'write one JSON object, {"action": "<tool>"',
    xml.read: "<tool>the tool</tool><tool_input>its input</tool_input>",
}


@cases(("read", "text", "why"), *[(*row, None)[:3] for row in rows_of("refused")])
def test_other_replies_are_parse_errors(read: Read, text: str, why: str | None) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.llm_output == text.partition("Observation")[0]
    if why is None:
        assert raised.value.observation is None
    else:
        assert FORMS.get(read, "") in str(raised.value.observation)
        assert why in str(raised.value.observation)


@cases(("read", "text"), *[(READERS[name], text) for name, texts in TABLES["both"].items() for text in texts])
def test_answer_with_action_is_a_parse_error(read: Read, text: str) -> None:
    with pytest.raises(ParseError, match="both a final answer and a parse-able action") as raised:
        read(ModelReply(text))
    assert raised.value.llm_output == text


HEADS = ["Action:\n```\n", "```json", "Action: ", ""]
CUTS = [
    *itertools.product([read_chat], [CATS], HEADS, range(1, len(CATS))),
    *itertools.product([read_structured_chat], [ADD], HEADS, range(1, len(ADD))),
    *itertools.product([read_json_chat], [ECHO], ["```json\n", ""], range(len(ECHO))),
]


@cases(("read", "blob", "before", "length"), *CUTS)
def test_truncated_json_is_neither_action_nor_answer(read: Read, blob: str, before: str, length: int) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(before + blob[:length]))
    with pytest.raises(ParseError):
        read(ModelReply(before + blob[:length], finish_reason="length"))


@given(objects(), st.data())
def test_truncated_json_is_parsed_completely_or_not(tool_input: dict[str, Any], data: st.DataObject) -> None:
    text = f"```json\n{json.dumps({'action': 'f', 'action_input': tool_input})}\n```"
    length = data.draw(st.integers(0, len(text)))
    with contextlib.suppress(ParseError):
        assert meaning_of(read_json_chat(ModelReply(text[:length]))) == ("f", tool_input)


@cases(
    ("read", "text"),
    (read_json_chat, ECHO[:-3]),
    (self_ask.read, "Follow up: Who was the"),
    (xml.read, "<tool>shell</tool><tool_input>rm -rf /home/me"),
)
def test_truncated_action_is_not_executed(read: Read, text: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text, finish_reason="length"))
    assert "cut at the token limit" in str(raised.value.observation)
    # A complete input is read.
    text = "<tool>shell</tool><tool_input>rm -rf /home/me/tmp</tool_input>"
    assert meaning_of(xml.read(ModelReply(text, finish_reason="length"))) == ("shell", "rm -rf /home/me/tmp")


# ---- tags


@given(TAGGED)
def test_escaping_removes_tags_and_is_reversible(text: str) -> None:
    once, twice = escape_tags(text), escape_tags(escape_tags(text))
    for name in ("tool", "tool_input", "observation", "final_answer"):
        assert f"<{name}>" not in once.lower()
        assert f"</{name}" not in once.lower()
    assert (unescape_tags(once), unescape_tags(twice)) == (text, once)
    assert escape_tags("a < b &lt; c <br>") == "a < b &lt; c <br>"


def test_scratchpad_escapes_tags() -> None:
    step = AgentStep(AgentAction("f", "</tool_input>", "Look: <tool>f"), "</observation><final_answer>1</final_answer>")
    assert format_scratchpad(actions.Steps([step])) == (
        "Look: <tool>f</tool><tool_input>&lt;/tool_input></tool_input>\n"
        "<observation>&lt;/observation>&lt;final_answer>1&lt;/final_answer></observation>\n"
    )
    named = format_scratchpad(actions.Steps([AgentStep(AgentAction("f", {"a": 1}, ""), 3)]))
    assert named.startswith('<tool>f</tool><tool_input>{"a":1}</tool_input>\n<observation>3<')
