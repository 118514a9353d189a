"""The zero-shot MRKL agent (Karpas et al. 2022): LangChain's first agent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graphexec.actions import AgentFinish
from graphexec.agents.agent import Agent, Decision
from graphexec.agents.answers import make_label_reader
from graphexec.agents.prompt import validate_tools
from graphexec.agents.scratchpad import TextProtocol, make_form, make_text_agent
from graphexec.agents.text_parsing import FINAL, find_action, find_last, make_decision, strip_invention
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
make_answer_reader = partial(make_label_reader, "Final Answer:")

STOP = ("\nObservation:", "\n\tObservation:")


def create_mrkl_agent(
    model: Model,
    tools: Sequence[AnyTool],
    *,
    prompt: str = MRKL_PROMPT,
    stop: Sequence[str] = STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make a zero-shot agent that continues a text of thoughts, actions and observations.

    `prompt` is a template with `{tools}`, `{tool_names}` and `{agent_scratchpad}`. The options and the errors raised
    are as in `create_react_agent`.
    """
    asked = make_form(prompt, validate_tools(tools), required=("tools", "tool_names", "agent_scratchpad"))
    return make_text_agent(model, read, asked, stop=stop, protocol=protocol, answer=make_answer_reader, kind="mrkl")


def read(reply: ModelReply) -> Decision:
    """Parse `Action:` with `Action Input:`, or `Final Answer:`; an answer before an action has priority.

    Such an answer ends at the next blank line or at the action. Raises `ParseError` for neither, for an answer after
    the action, and for an action in a reply that was cut at the token limit.
    """
    text = strip_invention(reply.content)
    first = FINAL.search(text)
    final = find_last(FINAL, text)
    found = find_action(text[: first.start()] if first else text, reply)
    before = _answer_before_action(text, first.end()) if first and not found else None
    return before or make_decision(text, found, final)


def _answer_before_action(text: str, begin: int) -> AgentFinish | None:
    followed = find_action(text[begin:], ModelReply(""))
    if followed is None:
        return None
    start, _ = followed
    blank = text.find("\n\n", begin)
    end = min(begin + start, len(text) if blank < 0 else blank)
    return AgentFinish({"output": text[begin:end].strip()}, text[:end])
