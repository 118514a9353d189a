"""The ReAct agent: thought, action and observation in plain text (Yao et al. 2022), as LangChain's prompts write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.agents.agent import Agent, Decision, chat_agent
from graphexec.agents.prompt import observed, rendered_tools, template
from graphexec.effects import CallModel
from graphexec.errors import ParseError
from graphexec.messages import ChatRequest, CompletionRequest, Model, ModelReply, UserMessage
from graphexec.tools import AnyTool, named

REACT_PROMPT = """\
Answer the question as well as you can. These tools are at your disposal:

{tools}

Write in exactly this form:

Question: the question to answer
Thought: what to do next, and why
Action: one of [{tool_names}]
Action Input: what to give to the tool
Observation: what the tool returned
(Thought, Action, Action Input and Observation may come several times)
Thought: I now know the final answer
Final Answer: the answer to the question

Begin!

Question: {input}
Thought: {agent_scratchpad}"""

STOP = ("\nObservation",)

MISSING_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
MISSING_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
BOTH = "Parsing LLM output produced both a final answer and a parse-able action:"

# Bounded repetitions: hostile text is read in linear time.
_ACTION = re.compile(r"Action[ \t]{0,3}\d{0,3}[ \t]{0,3}:")
_INPUT = re.compile(r"Action[ \t]{0,3}\d{0,3}[ \t]{0,3}Input[ \t]{0,3}\d{0,3}[ \t]{0,3}:")
_FINAL = "Final Answer:"


def create_react_agent(
    model: Model,
    tools: Sequence[AnyTool],
    *,
    prompt: str = REACT_PROMPT,
    stop: Sequence[str] = STOP,
    protocol: Literal["chat", "completion"] = "chat",
) -> Agent:
    """Make an agent that thinks and acts in plain text.

    `prompt` is a template with `{tools}`, `{tool_names}` and `{agent_scratchpad}`; its other variables are the inputs
    of a run. `protocol` says how the model is asked: as a chat, or to continue the text.

    Raises `InputError` if the prompt lacks one of the three.
    """
    tools = tuple(named(tools).values())
    text = template(prompt, required=("tools", "tool_names", "agent_scratchpad"))
    fixed = {"tools": rendered_tools(tools), "tool_names": ", ".join(tool.name for tool in tools)}
    stops = tuple(stop)

    def ask(run: Run) -> CallModel:
        full = text.filled({**run.inputs, **fixed, "agent_scratchpad": scratchpad(run.steps)})
        if protocol == "completion":
            return CallModel(CompletionRequest(full, stops))
        return CallModel(ChatRequest((UserMessage(full),), stop=stops))

    inputs = [name for name in text.variables if name not in (*fixed, "agent_scratchpad")]
    return chat_agent(ask, read, model, input_keys=inputs)


def scratchpad(steps: Steps) -> str:
    """The steps as the text that the model continues: what it said, and what was observed."""
    return "".join(f"{step.action.log}\nObservation: {observed(step)}\nThought: " for step in steps)


def read(reply: ModelReply) -> Decision:
    """Read `Action:` with `Action Input:`, or `Final Answer:`.

    An `Observation:` of the model's own, and everything behind it, is cut off: it is never believed. Raises
    `ParseError` if neither is there, or both.
    """
    text = f"\n{reply.content}".partition("\nObservation")[0].removeprefix("\n")
    action = _ACTION.search(text)
    given = _INPUT.search(text, action.end()) if action else None
    final = text.rfind(_FINAL)
    if action and given:
        if final >= 0:
            raise ParseError(f"{BOTH}: {text}", llm_output=text)
        tool = text[action.end() : given.start()].strip().strip("`")
        return (AgentAction(tool, _unquoted(text[given.end() :].strip()), text),)
    if final >= 0:
        return AgentFinish({"output": text[final + len(_FINAL) :].strip()}, text)
    missing = MISSING_INPUT if action else MISSING_ACTION
    raise ParseError(f"Could not parse LLM output: `{text}`", observation=missing, llm_output=text)


def _unquoted(text: str) -> str:
    """Text without the quotes around it, if they are around it: an unbalanced one belongs to it."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text
