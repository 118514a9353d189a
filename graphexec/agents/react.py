"""The ReAct agent: thoughts, actions and observations in plain text (Yao et al. 2022), in LangChain's format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from graphexec._arguments import LangChainObject
from graphexec._mistakes import explain_creation
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.answers import make_label_reader
from graphexec.agents.reading.text_parsing import find_value, make_decision, reject_more, unwrap
from graphexec.agents.reading.turns import read_text
from graphexec.agents.scratchpad import STOP, TextProtocol, format_thoughts, make_form, make_text_agent
from graphexec.messages import Model, ModelReply, separate_reasoning
from graphexec.tools import AnyTool

REACT_PROMPT = """\
Answer the question as well as you can. These tools are at your disposal:

{tools}

Write in exactly this form:

Question: the question to answer
Thought: what to do next, and why
Action: the name of the tool, and nothing else
Action Input: what to give to the tool
Observation: what the tool returned
(Thought, Action, Action Input and Observation may come several times)
Thought: I now know the final answer
Final Answer: the answer to the question

The names of the tools are: {tool_names}

Begin!

Question: {input}
Thought: {agent_scratchpad}"""


@remakeable
@explain_creation
def create_react_agent(
    model: Model | LangChainObject,
    tools: Sequence[AnyTool | LangChainObject],
    prompt: str = REACT_PROMPT,
    *,
    stop: Sequence[str] = STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make an agent that thinks and acts in plain text.

    `prompt` is a template with `{tools}`, `{tool_names}` and `{agent_scratchpad}`; its other variables are the inputs
    of a run. A reply ends before any of the `stop` strings. `protocol` selects a chat request or a completion request.
    Raises `ToolDefinitionError` for invalid tools, and `InputError` for any other invalid argument.
    """
    tools = validate_tools(tools)
    asked = make_form(prompt, tools, required=("tools", "tool_names", "agent_scratchpad"), scratchpad=format_thoughts)
    return make_text_agent(
        model,
        partial(read, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        answer=make_label_reader,
        kind="react",
    )


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse `Action:` with `Action Input:`, or `Final Answer:`. The `names` are those of the known tools.

    A fence around the whole reply and a token such as `</s>` at its end are not read. An `Observation:` or `Question:`
    that the model invented, and everything after it, is `unread`. Raises `ParseError` if the reply has neither an
    action nor an answer, or both, or several actions, however they are spelled and whatever is missing of them, and for
    an action in a reply that was cut at the token limit.
    """
    # The thoughts are not a part of the fence around the whole answer.
    reply = separate_reasoning(reply)
    read = read_text(replace(reply, content=unwrap(reply.content)), find_value)
    decision = make_decision(read, names)
    reject_more(read.text, names)
    # A fence or a token may end before what the model invented.
    if read.unread and (content := unwrap(read.log)) != read.log:
        inner = read_text(replace(reply, content=content), find_value)
        rest = "\n".join(filter(None, (inner.rest, read.unread)))
        decision = make_decision(replace(inner, rest=rest, is_cut=read.is_cut), names)
    return decision
