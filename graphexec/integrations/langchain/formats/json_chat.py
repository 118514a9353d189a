"""The JSON chat agent: a conversation in which each reply of the model is a JSON object."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from graphexec._mistakes import explain_creation
from graphexec.actions import AgentStep, Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.conversation import observation_turns
from graphexec.agents.prompt import names_of, parse_template, validate_tools
from graphexec.agents.reading.json_text import find_decisions, reject_answer_tool
from graphexec.agents.reading.turns import find_value_in_json, read_text
from graphexec.agents.scratchpad import STOP, Form, format_thoughts, make_form, make_instructed_agent
from graphexec.errors import InputError
from graphexec.integrations.langchain.formats.json_action import make_action_error, make_answer_reader, read_decision
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

JSON_CHAT_PROMPT = """\
You help with questions and tasks of all kinds. The user can look things up for you with these tools:

{tools}

Each of your replies is one JSON object in a fence, and nothing else. If a tool is to be used (one of {tool_names}):
```json
{{"action": "the tool", "action_input": "what it is given"}}
```
If you have the answer:
```json
{{"action": "Final Answer", "action_input": "the answer, in full"}}
```"""

JSON_CHAT_QUESTION = "{input}\n\n(Reply with one JSON object in a fence, and nothing else.)"

TOOL_RESPONSE = """\
The tool returned:
{observation}

What is the answer to my last message, now that you know this? I have not seen what the tool returned, so say all that
matters. Reply with one JSON object in a fence, and nothing else."""


@remakeable
@explain_creation
def create_json_chat_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = JSON_CHAT_PROMPT,
    *,
    question: str = JSON_CHAT_QUESTION,
    tool_response: str = TOOL_RESPONSE,
    stop: Sequence[str] = STOP,
    history: str = "chat_history",
) -> Agent:
    """Make an agent whose replies are JSON objects.

    `prompt` is the template of the instructions, with `{tools}` and `{tool_names}`; `question` is the template of the
    user's message. `tool_response` is the template of the user's message after each action, with `{observation}` as its
    only variable. The other options and the errors raised are as in `create_chat_agent`.
    """
    tools = validate_tools(tools)
    reject_answer_tool(tools)
    instructions = make_form(prompt, tools, required=("tools", "tool_names"), scratchpad=format_thoughts)
    asked = Form(parse_template(question, required=(), name="question"), {}, format_thoughts)
    response = parse_template(tool_response, required=("observation",), name="tool_response")
    if others := [name for name in response.variables if name != "observation"]:
        raise InputError(f"the tool_response has the variable {{{others[0]}}}; it can only have {{observation}}")

    def observe(step: AgentStep) -> str:
        return response.render({"observation": step.text})

    return make_instructed_agent(
        model,
        partial(read, names=names_of(tools)),
        instructions,
        asked,
        stop=stop,
        history=history,
        kind="json_chat",
        answer=make_answer_reader,
        steps=observation_turns(observe),
    )


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the only decision of the reply; a list with one action is that action. Otherwise raises `ParseError`.

    The `names` are those of the known tools.
    """
    whole = read_text(reply, find_value_in_json)
    found = find_decisions(whole.text)
    if len(found) != 1:
        why = f"it has {len(found)} JSON objects instead of one" if found else "it has no JSON object"
        raise make_action_error(why, whole.text)
    return read_decision(found[0], whole, reply, names)
