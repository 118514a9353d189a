"""The conversational agent: it talks with a person, and uses tools if necessary."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from graphexec._arguments import STRING, validate
from graphexec._mistakes import explain_creation
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.answers import make_label_reader
from graphexec.agents.reading.labels import INPUT, Label, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import BOTH, find_action, make_missing_error, read_action
from graphexec.agents.reading.turns import Value, find_value_after, read_text
from graphexec.agents.scratchpad import LEGACY_STOP, TextProtocol, make_form, make_text_agent
from graphexec.errors import InputError, ParseError
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

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
        partial(read, answer_label=answer_label, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        answer=partial(make_label_reader, answer_label),
        kind="conversational",
    )


_ANSWER_LABEL = Label("AI")


def read(reply: ModelReply, answer_label: Label = _ANSWER_LABEL, names: Collection[str] = ()) -> Decision:
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
