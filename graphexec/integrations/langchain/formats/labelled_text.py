"""LangChain's agents that act by labels in plain text: the zero-shot agent and the conversational agent."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from graphexec._arguments import STRING, validate
from graphexec._mistakes import explain_creation
from graphexec.actions import AgentFinish, Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.labels import FINAL_ANSWER, INPUT, Label, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import (
    BOTH,
    find_action,
    find_value,
    make_decision,
    make_missing_error,
    read_action,
)
from graphexec.agents.reading.turns import ReplyText, Value, find_value_after, read_text
from graphexec.agents.scratchpad import TextProtocol, make_form, make_text_agent
from graphexec.errors import InputError, ParseError
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

# Of the older agents.
LEGACY_STOP = ("\nObservation:", "\n\tObservation:")

MRKL_PROMPT = """\
Find the answer to a question. You may use these tools:

{tools}

Keep to this form, one line for each:

Question: what is asked
Thought: what you know, and what you still need
Action: the name of one tool, out of {tool_names}
Action Input: what the tool is given
Observation: what the tool says; it is written for you
(the last four may be repeated)
Thought: nothing is missing any more
Final Answer: what the question asked for

Here it begins.

Question: {input}
Thought:{agent_scratchpad}"""

CONVERSATIONAL_PROMPT = """\
You talk with a person: you answer questions, explain, and help with what they are working on. For what you do not know
by yourself there are tools:

{tools}

To use one, write

Thought: Do I need to use a tool? Yes
Action: the name of one tool, out of {tool_names}
Action Input: what to give to the tool
Observation: what the tool returned

To say something to the person, or if no tool is needed, write

Thought: Do I need to use a tool? No
{ai_prefix}: what you say

What was said before:
{chat_history}

The person now says: {input}
{agent_scratchpad}"""


@remakeable
@explain_creation
def create_mrkl_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = MRKL_PROMPT,
    *,
    stop: Sequence[str] = LEGACY_STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make a zero-shot agent (Karpas et al. 2022), which continues a text of thoughts, actions and observations.

    `prompt` is a template with `{tools}`, `{tool_names}` and `{agent_scratchpad}`. The options and the errors raised
    are as in `create_react_agent`.
    """
    tools = validate_tools(tools)
    asked = make_form(prompt, tools, required=("tools", "tool_names", "agent_scratchpad"))
    return make_text_agent(
        model,
        partial(read_mrkl, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        kind="mrkl",
    )


@remakeable
@explain_creation
def create_conversational_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = CONVERSATIONAL_PROMPT,
    *,
    ai_prefix: str = "AI",
    stop: Sequence[str] = LEGACY_STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make an agent that talks; the input `chat_history` is the earlier conversation, as a string or as messages.

    `prompt` is a template with `{tools}`, `{tool_names}`, `{chat_history}` and `{agent_scratchpad}`, and optionally
    `{ai_prefix}`: the label before the agent's own words. The other options and the errors raised are as in
    `create_react_agent`; an empty `ai_prefix` is an `InputError`.
    """
    validate("", ("ai_prefix", ai_prefix, STRING))
    label = ai_prefix.strip()
    if not label:
        raise InputError(f"ai_prefix is {ai_prefix!r}; give the label before the agent's words, such as AI")
    tools = validate_tools(tools)
    asked = make_form(prompt, tools, required=("tools", "tool_names", "chat_history", "agent_scratchpad"))
    asked = replace(asked, fixed={**asked.fixed, "ai_prefix": ai_prefix}, ai=label)
    answer_label = Label(label)
    return make_text_agent(
        model,
        partial(read_conversational, answer_label=answer_label, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        kind="conversational",
    )


def read_mrkl(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse `Action:` with `Action Input:`, or `Final Answer:`; an answer before an action has priority.

    Such an answer ends at the next blank line or at the action. Raises `ParseError` for neither, for an answer after
    the action, for several actions, and for an action in a reply that was cut at the token limit.
    """
    whole = read_text(reply, find_value)
    return _answer_before_action(whole) or make_decision(whole, names)


def _answer_before_action(read: ReplyText) -> AgentFinish | None:
    text = read.text
    answer, found = FINAL_ANSWER.patterns[Spelling.EXACT].search(text), find_action(text, Spelling.EXACT)
    if answer is None or found is None or found.action.start() < answer.end():
        return None
    blank = text.find("\n\n", answer.end())
    end = min(found.action.start(), read.end, len(text) if blank < 0 else blank)
    return replace(read, end=end).finish(read_text_after(text, answer, end))


_ANSWER_LABEL = Label("AI")


def read_conversational(
    reply: ModelReply, answer_label: Label = _ANSWER_LABEL, names: Collection[str] = ()
) -> Decision:
    """Parse `Action:` with `Action Input:`, or the text after `AI:` at the beginning of a line.

    Without such a line, `AI:` after whitespace begins the answer, too. Raises `ParseError` if there is neither, or
    both, for several actions, and for an action in a reply that was cut at the token limit.
    """
    whole = read_text(reply, partial(_find_value, answer_label))
    text = whole.text
    found = find_action(text)
    if found and answer_label.at_line.search(text):
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if found:
        return read_action(whole, found, names)
    answer = _find_answer(answer_label, text)
    if answer is None:
        raise make_missing_error(text)
    return whole.finish(read_text_after(text, answer, whole.end))


def _find_answer(label: Label, text: str) -> re.Match[str] | None:
    exact = label.patterns[Spelling.EXACT].finditer(text)
    return label.at_line.search(text) or next((one for one in exact if text[one.start() - 1].isspace()), None)


def _find_value(label: Label, text: str) -> Value | None:
    action = find_action(text, Spelling.TRANSLATED)
    return find_value_after(text, [(INPUT, action and action.input), (label, _find_answer(label, text))])
