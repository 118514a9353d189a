"""The conversational agent: it talks with a person, and uses tools if necessary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from graphexec._arguments import STRING, validate
from graphexec.agents.agent import Agent, Decision
from graphexec.agents.answers import make_label_reader
from graphexec.agents.prompt import validate_tools
from graphexec.agents.scratchpad import TextProtocol, make_form, make_text_agent
from graphexec.agents.text_parsing import find_action, make_decision, strip_invention
from graphexec.errors import InputError
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

CONVERSATIONAL_PROMPT = """\
You talk with a person: you answer questions, explain, and help with what they are working on. For what you do not know
by yourself there are tools:

{tools}

To use one, write

Thought: Do I need to use a tool? Yes
Action: one of [{tool_names}]
Action Input: what to give to the tool
Observation: what the tool returned

To say something to the person, or if no tool is needed, write

Thought: Do I need to use a tool? No
{ai_prefix}: what you say

What was said before:
{chat_history}

The person now says: {input}
{agent_scratchpad}"""

STOP = ("\nObservation:", "\n\tObservation:")


def create_conversational_agent(
    model: Model,
    tools: Sequence[AnyTool],
    *,
    prompt: str = CONVERSATIONAL_PROMPT,
    ai_prefix: str = "AI",
    stop: Sequence[str] = STOP,
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
    asked = make_form(
        prompt, validate_tools(tools), required=("tools", "tool_names", "chat_history", "agent_scratchpad")
    )
    asked = replace(asked, fixed={**asked.fixed, "ai_prefix": ai_prefix}, ai=label)
    answer_label = re.compile(rf"(?im)^[ \t]{{0,4}}{re.escape(label)}[ \t]{{0,3}}:")
    return make_text_agent(
        model,
        lambda reply: read(reply, answer_label),
        asked,
        stop=stop,
        protocol=protocol,
        answer=partial(make_label_reader, f"{label}:"),
        kind="conversational",
    )


_ANSWER_LABEL = re.compile(r"(?im)^[ \t]{0,4}AI[ \t]{0,3}:")


def read(reply: ModelReply, answer_label: re.Pattern[str] = _ANSWER_LABEL) -> Decision:
    """Parse `Action:` with `Action Input:`, or the text after `AI:` at the beginning of a line.

    Raises `ParseError` if there is neither, or both, and for an action in a reply that was cut at the token limit.
    """
    text = strip_invention(reply.content)
    return make_decision(text, find_action(text, reply), answer_label.search(text))
