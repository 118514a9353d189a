"""The chat agent: thoughts in plain text, and the action as a JSON object in a fence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from graphexec._mistakes import explain_creation
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.answers import make_label_reader
from graphexec.agents.reading.json_text import (
    find_decisions,
    find_regions,
    has_action_member,
    reject_answer_tool,
)
from graphexec.agents.reading.labels import FINAL_ANSWER, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import BOTH, find_answer
from graphexec.agents.reading.turns import Value, find_value_after, find_value_in_json, read_text
from graphexec.agents.scratchpad import STOP, format_previous_work, make_form, make_instructed_agent
from graphexec.errors import ParseError
from graphexec.integrations.langchain.formats.json_action import is_action, make_action_error, read_decision
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

CHAT_PROMPT = """\
Answer questions as well as you can. These tools help you:

{tools}

A tool is used by a JSON object in a fence, with the tool's name as `action` ({tool_names}) and what it is given as
`action_input`. Write in this form:

Question: what is asked
Thought: what to do next, and why
Action:
```
{{"action": "the tool", "action_input": "what it is given"}}
```
Observation: what the tool returned
(Thought, Action and Observation may be repeated; one action at a time)
Thought: I have all that I need
Final Answer: the answer to the question"""

CHAT_QUESTION = "{input}\n\n{agent_scratchpad}"

# Extracts the answer while the reply streams.
make_answer_reader = partial(make_label_reader, FINAL_ANSWER)


@remakeable
@explain_creation
def create_chat_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = CHAT_PROMPT,
    *,
    question: str = CHAT_QUESTION,
    stop: Sequence[str] = STOP,
    history: str = "chat_history",
) -> Agent:
    """Make an agent that writes thoughts in plain text and actions as a JSON object in a fence.

    `prompt` is the template of the instructions, with `{tools}`; `question` is the template of the user's message, with
    `{agent_scratchpad}`. Their other variables are the inputs of a run. A reply ends before any of the `stop` strings.
    Messages in the input `history`, for example of a memory with `as_messages=True`, are sent between the instructions
    and the question; if a template has `{history}` as a variable, they are written there as text.

    Raises `ToolDefinitionError` for invalid tools and for a tool with the answer's name, and `InputError` for any other
    invalid argument.
    """
    tools = validate_tools(tools)
    reject_answer_tool(tools)
    instructions = make_form(prompt, tools, required=("tools",))
    asked = make_form(question, tools, required=("agent_scratchpad",), scratchpad=format_previous_work, name="question")
    return make_instructed_agent(
        model,
        partial(read, names=names_of(tools)),
        instructions,
        asked,
        stop=stop,
        history=history,
        kind="chat",
        answer=make_answer_reader,
    )


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the JSON object that is the action, or `Final Answer:`. The `names` are those of the known tools.

    Raises `ParseError` for neither, for both, for two actions, and for truncated JSON.
    """
    whole = read_text(reply, _find_value)
    text = whole.text
    final = find_answer(_without_json(whole.log))
    if final:
        before, after = find_decisions(text[: final.start()]), find_regions(text[final.end() :])
        if any(map(has_action_member, before)) or any(region.is_json and is_action(region) for region in after):
            raise ParseError(f"{BOTH}: {text}", llm_output=text)
        return whole.finish(read_text_after(text, final, whole.end))
    found = find_decisions(text)
    if not found:
        raise make_action_error("it has neither an action as a JSON object in a fence nor a 'Final Answer:'", text)
    if len(found) > 1:
        raise make_action_error(f"it has {len(found)} JSON objects; decide on one action at a time", text)
    return read_decision(found[0], whole, reply, names)


def _find_value(text: str) -> Value | None:
    label = FINAL_ANSWER.patterns[Spelling.TRANSLATED].search(_without_json(text))
    found = (find_value_after(text, [(FINAL_ANSWER, label)]), find_value_in_json(text))
    return min(filter(None, found), default=None)


def _without_json(text: str) -> str:
    parts: list[str] = []
    position = 0
    for region in find_regions(text):
        if region.is_json:
            parts += (text[position : region.start], " " * (region.end - region.start))
            position = region.end
    return "".join(parts) + text[position:]
