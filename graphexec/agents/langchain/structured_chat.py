"""The structured chat agent: actions of several inputs by name, as a JSON object; prose is the answer."""

from __future__ import annotations

from collections.abc import Sequence

from graphexec.actions import AgentFinish
from graphexec.agents.agent import Agent, Decision
from graphexec.agents.langchain.json_action import answering, blobs, not_one_action, read_decision, refuse_answer_tool
from graphexec.agents.prompt import tools_of
from graphexec.agents.scratchpad import form, instructed_agent, previous_work
from graphexec.agents.text_parsing import believed
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

STOP = ("\nObservation",)


def create_structured_chat_agent(
    model: Model,
    tools: Sequence[AnyTool],
    *,
    prompt: str = STRUCTURED_CHAT_PROMPT,
    question: str = STRUCTURED_CHAT_QUESTION,
    stop: Sequence[str] = STOP,
    history: str = "chat_history",
) -> Agent:
    """Make an agent that calls tools of several inputs by a JSON object.

    `prompt` is the template of the instructions, with `{tools}` and `{tool_names}`; `question` that of the user's
    message, with `{agent_scratchpad}`. The options, and the errors raised, are those of `create_chat_agent`.
    """
    tools = tools_of(tools)
    refuse_answer_tool(tools)
    instructions = form(prompt, tools, required=("tools", "tool_names"))
    asked = form(question, tools, required=("agent_scratchpad",), scratchpad=previous_work, name="question")
    return instructed_agent(model, read, instructions, asked, stop=stop, history=history, answer=answering)


def read(reply: ModelReply) -> Decision:
    """Read the JSON object that is the action or the answer; a text without one is the answer as it stands.

    Raises `ParseError` for an empty text, several objects, an invalid decision, and JSON that is cut short.
    """
    text = believed(reply.content)
    found = blobs(text)
    if len(found) > 1:
        raise not_one_action(f"it has {len(found)} JSON objects; decide on one action at a time", text)
    if found:
        return read_decision(found[0], text, reply)
    if not text.strip():
        raise not_one_action("it is empty", text)
    return AgentFinish({"output": text.strip()}, text)
