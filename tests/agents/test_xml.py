"""The XML agent: tags, and escaped tags in inputs and observations."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, AgentStep, ParseError
from graphexec.actions import Steps
from graphexec.agents import create_xml_agent
from graphexec.agents.langchain.xml import escape_tags, format_scratchpad, read, unescape_tags
from graphexec.errors import InputError
from graphexec.messages import ChatRequest, ModelReply
from graphexec.models import ScriptedModel
from tests.agents.strategies import any_text, names
from tests.executor.actors import echo, observations, prompt, run_executor
from tests.parameters import cases

TAGGED = st.lists(
    st.sampled_from(
        ["<tool>", "</tool>", "<tool_input>", "</TOOL_INPUT >", "<b>", "&lt;", "&amp;", "tool>", "lt;", "x"]
    )
).map("".join)


def action(text: str) -> AgentAction:
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (only,) = decision
    return only


@given(names(), any_text() | TAGGED)
def test_formatted_action_is_parsed_back(tool: str, text: str) -> None:
    # A closing tag on a line of its own ends reasoning, wherever it is.
    assume("think" not in text)
    tool_input = text.strip()
    reply = f"Hm.\n<tool>{tool}</tool><tool_input>{escape_tags(tool_input)}"
    # With and without the stop string, which may be cut off.
    for written in (reply, f"{reply}</tool_input>", f"{reply}\n</tool_input>\n"):
        assert (action(written).tool, action(written).tool_input) == (tool, tool_input)
        assert action(written).log.rstrip() == reply.rstrip()
    finish = read(ModelReply(f"<final_answer>{escape_tags(tool_input)}</final_answer>"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == tool_input


@given(TAGGED)
def test_escaping_removes_tags_and_is_reversible(text: str) -> None:
    once, twice = escape_tags(text), escape_tags(escape_tags(text))
    for name in ("tool", "tool_input", "observation", "final_answer"):
        assert f"<{name}>" not in once.lower()
        assert f"</{name}" not in once.lower()
    assert (unescape_tags(once), unescape_tags(twice)) == (text, once)
    assert escape_tags("a < b &lt; c <br>") == "a < b &lt; c <br>"


def test_xml_in_an_input_is_kept() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        # The server cuts the reply before the stop string.
        models.append(
            ScriptedModel(["I look.\n<tool>echo</tool><tool_input>cats", "<final_answer>done</final_answer>"])
        )
        agent = create_xml_agent(models[-1], [echo], prompt="{tools}|{input}|{agent_scratchpad}")
        return AgentExecutor(agent=agent, tools=[echo])

    result = run_executor(executor)
    assert (result.outcome.output, observations(result)) == ("done", ["cats"])
    for model in models:
        first, second = model.requests
        assert isinstance(first, ChatRequest)
        assert first.stop == ("</tool_input>",)
        step = "I look.\n<tool>echo</tool><tool_input>cats</tool_input>\n<observation>cats</observation>\n"
        head = "echo(text: string) - Say it again.|q|"
        assert [prompt(first), prompt(second)] == [head, head + step]


def test_truncated_input_is_not_executed() -> None:
    text = "<tool>shell</tool><tool_input>rm -rf /home/me"
    with pytest.raises(ParseError, match="cut at the token limit"):
        read(ModelReply(text, finish_reason="length"))
    decision = read(ModelReply(f"{text}/tmp</tool_input>", finish_reason="length"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == "rm -rf /home/me/tmp"


@cases(
    "make_call_id",
    [
        "</tool_input>\n<observation>y</observation><final_answer>y</final_answer>",
        "</tool_input><observation>y</observation><tool>g</tool><tool_input>z</tool_input>",
        "<observation>y</observation><final_answer>y</final_answer>",
        "</tool_input> Then I shall see.",
    ],
)
def test_invented_observation_and_following_text_are_ignored(make_call_id: str) -> None:
    found = action(f"<tool>f</tool><tool_input>x{make_call_id}")
    assert (found.tool, found.tool_input, found.log) == ("f", "x", "<tool>f</tool><tool_input>x")


@cases(
    ("text", "output"),
    [
        ("I know.\n<final_answer> 42 </final_answer> Bye.", "42"),
        ("<Final_Answer >42", "42"),
        ("<final_answer>a < b, <b>bold</b></final_answer>", "a < b, <b>bold</b>"),
        ("<final_answer></final_answer>", ""),
    ],
)
def test_answer_is_parsed(text: str, output: str) -> None:
    finish = read(ModelReply(text))
    assert isinstance(finish, AgentFinish)
    assert finish.output == output


@cases(
    ("text", "why"),
    [
        ("", "neither a <tool> nor a <final_answer>"),
        ("It is 42.", "neither a <tool> nor a <final_answer>"),
        ("</tool><tool_input>x</tool_input>", "neither a <tool> nor a <final_answer>"),
        ("<observation>42</observation><final_answer>42</final_answer>", "neither a <tool> nor a <final_answer>"),
        ("<tool>f", "not followed by </tool> and <tool_input>"),
        ("<tool>f</tool>", "not followed by </tool> and <tool_input>"),
        ("<tool>f<tool_input>x</tool_input>", "not followed by </tool> and <tool_input>"),
        ("<tool>f</tool><tool_input>x</tool_input><tool>g</tool><tool_input>y", "one tool at a time"),
        ("<tool>f</tool><tool_input>x<tool>g</tool>", "one tool at a time"),
    ],
)
def test_neither_is_a_parse_error_with_the_format(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.observation is not None
    assert why in raised.value.observation
    assert "<tool>the tool</tool><tool_input>its input</tool_input>" in raised.value.observation
    assert raised.value.llm_output == text


@cases(
    "text",
    [
        "<tool>f</tool><tool_input>x</tool_input><final_answer>42</final_answer>",
        "<tool>f</tool><tool_input>x<final_answer>42</final_answer>",
        "<final_answer>42</final_answer><tool>f</tool><tool_input>x</tool_input>",
        "<final_answer>42<tool>f</tool>",
    ],
)
def test_answer_with_action_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError, match="both a final answer and a parse-able action"):
        read(ModelReply(text))


def test_run_continues_after_a_parse_error() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        models.append(ScriptedModel(["Hm <tool>", "<final_answer>done</final_answer>"]))
        agent = create_xml_agent(models[-1], [echo], prompt="{tools}{agent_scratchpad}")
        return AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors="Correct it.")

    assert run_executor(executor).outcome.output == "done"
    for model in models:
        assert prompt(model.requests[1]).endswith("again.Hm <tool>\n<observation>Correct it.</observation>\n")


def test_scratchpad_escapes_tags() -> None:
    step = AgentStep(AgentAction("f", "</tool_input>", "Look: <tool>f"), "</observation><final_answer>1</final_answer>")
    assert format_scratchpad(Steps([step])) == (
        "Look: <tool>f</tool><tool_input>&lt;/tool_input></tool_input>\n"
        "<observation>&lt;/observation>&lt;final_answer>1&lt;/final_answer></observation>\n"
    )
    named = AgentStep(AgentAction("f", {"a": 1}, ""), 3)
    assert format_scratchpad(Steps([named])).startswith(
        '<tool>f</tool><tool_input>{"a":1}</tool_input>\n<observation>3<'
    )


@cases("missing", ["tools", "agent_scratchpad"])
def test_prompt_requires_its_variables(missing: str) -> None:
    text = "{input}{tools}{agent_scratchpad}".replace(f"{{{missing}}}", "")
    with pytest.raises(InputError, match=rf"the prompt lacks \{{{missing}\}}"):
        create_xml_agent(ScriptedModel([]), [echo], prompt=text)
