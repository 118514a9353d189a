"""Agents that are asked with one text, in which their steps stand as a scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from graphexec.actions import Run, Steps
from graphexec.agents.agent import Agent, Decision, chat_agent
from graphexec.agents.answers import after
from graphexec.agents.prompt import Template, observed, rendered_tools, template
from graphexec.effects import CallModel
from graphexec.errors import InputError
from graphexec.messages import ChatRequest, CompletionRequest, Model, ModelReply, SystemMessage, UserMessage
from graphexec.tools import AnyTool, named

Scratchpad: TypeAlias = Callable[[Steps], str]

# How a model is asked with one text: as the message of a chat, or to continue it.
TextProtocol: TypeAlias = Literal["chat", "completion"]

SCRATCHPAD = "agent_scratchpad"

# What legacy chat agents are told before their steps: LangChain's sentence.
PREVIOUS_WORK = (
    "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
)


def texts(stop: Sequence[str]) -> tuple[str, ...]:
    """Return the stop texts. Raises `InputError` for one text, which is a sequence of letters."""
    if isinstance(stop, str):
        raise InputError(f"stop is the text {stop!r}; pass a list of texts")
    return tuple(stop)


def thoughts(steps: Steps) -> str:
    """The steps as the text that the model continues: what it said, and what was observed."""
    return "".join(f"{step.action.log}\nObservation: {observed(step)}\nThought: " for step in steps)


def legacy_thoughts(steps: Steps) -> str:
    """The steps as LangChain's older agents have them: without a blank behind `Thought:`."""
    return "".join(f"{step.action.log}\nObservation: {observed(step)}\nThought:" for step in steps)


def previous_work(steps: Steps) -> str:
    """The steps as text that the user hands to the model, which has no memory of them."""
    return PREVIOUS_WORK + legacy_thoughts(steps) if steps else ""


@dataclass(frozen=True, slots=True)
class Form:
    """How a run is written as one text: a template, what is the same in every run, and what the steps look like."""

    text: Template
    fixed: Mapping[str, str]
    scratchpad: Scratchpad

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables that a run has to supply."""
        return tuple(name for name in self.text.variables if name not in self.fixed and name != SCRATCHPAD)

    def filled(self, run: Run) -> str:
        """Return the text for a run. No input can take the place of the tools or of the scratchpad."""
        values: dict[str, object] = {**run.inputs, **self.fixed}
        if SCRATCHPAD in self.text.variables:
            values[SCRATCHPAD] = self.scratchpad(run.steps)
        return self.text.filled(values)


def form(
    prompt: str, tools: Sequence[AnyTool], *, required: Sequence[str], scratchpad: Scratchpad = legacy_thoughts
) -> Form:
    """Read a prompt, with `{tools}` and `{tool_names}` filled in.

    Raises `InputError` if it lacks a `required` variable, `ToolDefinitionError` for what is no tool.
    """
    tools = tuple(named(tools).values())
    text = template(prompt, required=required)
    fixed = {"tools": rendered_tools(tools), "tool_names": ", ".join(tool.name for tool in tools)}
    return Form(text, fixed, scratchpad)


def text_agent(
    model: Model,
    read: Callable[[ModelReply], Decision],
    asked: Form,
    *,
    stop: Sequence[str],
    protocol: TextProtocol,
    marker: str | None = None,
) -> Agent:
    """Make an agent that is asked with one text, as a chat or to continue it. Behind the `marker` stands its answer."""
    stops = texts(stop)

    def ask(run: Run) -> CallModel:
        text = asked.filled(run)
        if protocol == "completion":
            return CallModel(CompletionRequest(text, stops))
        return CallModel(ChatRequest((UserMessage(text),), stop=stops))

    return chat_agent(ask, read, model, input_keys=asked.inputs, answer=partial(after, marker) if marker else None)


def instructed_agent(
    model: Model,
    read: Callable[[ModelReply], Decision],
    instructions: Form,
    question: Form,
    *,
    stop: Sequence[str],
) -> Agent:
    """Make an agent that is asked with two texts: the instructions, and the question with the scratchpad."""
    stops = texts(stop)

    def ask(run: Run) -> CallModel:
        asked = (SystemMessage(instructions.filled(run)), UserMessage(question.filled(run)))
        return CallModel(ChatRequest(asked, stop=stops))

    return chat_agent(ask, read, model, input_keys=tuple(dict.fromkeys((*instructions.inputs, *question.inputs))))
