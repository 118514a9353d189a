"""The zero-shot MRKL agent (Karpas et al. 2022): LangChain's first agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from graphexec._mistakes import explain_creation
from graphexec.actions import AgentFinish, Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.answers import make_label_reader
from graphexec.agents.reading.labels import FINAL_ANSWER, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import find_action, find_value, make_decision
from graphexec.agents.reading.turns import ReplyText, read_text
from graphexec.agents.scratchpad import LEGACY_STOP, TextProtocol, make_form, make_text_agent
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

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

# Extracts the answer while the reply streams.
make_answer_reader = partial(make_label_reader, FINAL_ANSWER)


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
    """Make a zero-shot agent that continues a text of thoughts, actions and observations.

    `prompt` is a template with `{tools}`, `{tool_names}` and `{agent_scratchpad}`. The options and the errors raised
    are as in `create_react_agent`.
    """
    tools = validate_tools(tools)
    asked = make_form(prompt, tools, required=("tools", "tool_names", "agent_scratchpad"))
    return make_text_agent(
        model,
        partial(read, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        answer=make_answer_reader,
        kind="mrkl",
    )


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse `Action:` with `Action Input:`, or `Final Answer:`; an answer before an action has priority.

    Such an answer ends at the next blank line or at the action. Raises `ParseError` for neither, for an answer after
    the action, for several actions, and for an action in a reply that was cut at the token limit.
    """
    whole = read_text(reply, find_value)
    return _answer_before_action(whole) or make_decision(whole, names)


def _answer_before_action(read: ReplyText) -> AgentFinish | None:
    text = read.text
    answer, found = FINAL_ANSWER.patterns[Spelling.EXACT].search(text), find_action(text, Spelling.EXACT)
    if answer is None or found is None or found.start < answer.end():
        return None
    blank = text.find("\n\n", answer.end())
    end = min(found.start, read.end, len(text) if blank < 0 else blank)
    return replace(read, end=end).finish(read_text_after(text, answer, end))
