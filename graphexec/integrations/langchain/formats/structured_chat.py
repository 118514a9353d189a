"""The structured chat agent: actions with several named inputs as a JSON object; other text is the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from graphexec._mistakes import explain_creation
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import names_of, validate_tools
from graphexec.agents.reading.json_text import find_decisions, find_regions, is_decision, reject_answer_tool
from graphexec.agents.reading.labels import THOUGHT, TURN, Spelling
from graphexec.agents.reading.text_parsing import find_action, find_named_tools, has_text
from graphexec.agents.reading.turns import Value, find_value_from, find_value_in_json, read_text
from graphexec.agents.scratchpad import STOP, format_previous_work, make_form, make_instructed_agent
from graphexec.integrations.langchain.formats.json_action import make_action_error, make_answer_reader, read_decision
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

STRUCTURED_CHAT_PROMPT = """\
Help as well and as exactly as you can. These tools are there, with their inputs:

{tools}

To act, write a JSON object in a fence. Its `action` is "Final Answer" or one of {tool_names}; its `action_input` is an
object with the tool's inputs by name, or the text of the answer. One object at a time:

Question: what is asked
Thought: what was found, and what comes next
Action:
```
{{"action": "the tool", "action_input": {{"an input": "its value"}}}}
```
Observation: what the tool returned
(Thought, Action and Observation may be repeated)
Thought: I know what to answer
Action:
```
{{"action": "Final Answer", "action_input": "the answer to the question"}}
```"""

STRUCTURED_CHAT_QUESTION = "{input}\n\n{agent_scratchpad}\n(Whatever happens, reply with a JSON object in a fence.)"


@remakeable
@explain_creation
def create_structured_chat_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = STRUCTURED_CHAT_PROMPT,
    *,
    question: str = STRUCTURED_CHAT_QUESTION,
    stop: Sequence[str] = STOP,
    history: str = "chat_history",
) -> Agent:
    """Make an agent that calls tools with several inputs by a JSON object.

    `prompt` is the template of the instructions, with `{tools}` and `{tool_names}`; `question` is the template of the
    user's message, with `{agent_scratchpad}`. The options and the errors raised are as in `create_chat_agent`.
    """
    tools = validate_tools(tools)
    reject_answer_tool(tools)
    instructions = make_form(prompt, tools, required=("tools", "tool_names"))
    asked = make_form(question, tools, required=("agent_scratchpad",), scratchpad=format_previous_work, name="question")
    return make_instructed_agent(
        model,
        partial(read, names=names_of(tools)),
        instructions,
        asked,
        stop=stop,
        history=history,
        kind="structured_chat",
        answer=make_answer_reader,
    )


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the JSON object that is the action or the answer; a text without a decision in JSON is the answer.

    The `names` are those of the known tools. Raises `ParseError` for an empty text, several objects, an invalid
    decision, and truncated JSON.
    """
    whole = read_text(reply, _find_value)
    text = whole.text
    found = find_decisions(text)
    if len(found) > 1:
        raise make_action_error(f"it has {len(found)} JSON objects; decide on one action at a time", text)
    if found:
        before = text[: found[0].start]
        if TURN.lines[Spelling.EXACT].search(before, _find_prose(before).start):
            raise make_action_error("its decision follows a question that you wrote", text)
        return read_decision(found[0], whole, reply, names)
    if not has_text(text):
        raise make_action_error("it is empty", text)
    if find_action(text) or find_named_tools(text, names):
        raise make_action_error("its action is not a JSON object", text)
    return whole.finish(whole.log.strip())


def _find_value(text: str) -> Value | None:
    return find_value_in_json(text) if any(map(is_decision, find_regions(text))) else _find_prose(text)


def _find_prose(text: str) -> Value:
    """Return the answer in a text without JSON: it begins in the first line without a label."""
    start = len(text) - len(text.lstrip())
    labels = (TURN.lines[Spelling.EXACT], THOUGHT.lines[Spelling.EXACT])
    while any(label.match(text, start) for label in labels):
        start = (text.find("\n", start) + 1) or len(text)
    return find_value_from(text, start, Spelling.EXACT)
