"""Agents that are asked with one text, in which their steps stand as a scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from graphexec._arguments import Constraint, check, each
from graphexec.actions import Run, Steps
from graphexec.agents.agent import Agent, Decision, chat_agent
from graphexec.agents.answers import AnswerReader
from graphexec.agents.conversation import earlier, optional
from graphexec.agents.prompt import Template, observed, rendered_tools, template
from graphexec.effects import CallModel
from graphexec.messages import ChatRequest, CompletionRequest, Model, ModelReply, SystemMessage, UserMessage
from graphexec.tools import AnyTool

Scratchpad: TypeAlias = Callable[[Steps], str]

# How a model is asked with one text: as the message of a chat, or to continue it.
TextProtocol: TypeAlias = Literal["chat", "completion"]
_PROTOCOL = Constraint("'chat' or 'completion'", lambda value: value in get_args(TextProtocol))

SCRATCHPAD = "agent_scratchpad"

# What legacy chat agents are told before their steps: LangChain's sentence.
PREVIOUS_WORK = (
    "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
)


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
    # What the agent is called where the text has messages.
    ai: str = "AI"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables that a run has to supply."""
        return tuple(name for name in self.text.variables if name not in self.fixed and name != SCRATCHPAD)

    def filled(self, run: Run) -> str:
        """Return the text for a run. No input can take the place of the tools or of the scratchpad."""
        values: dict[str, object] = {**run.inputs, **self.fixed}
        if SCRATCHPAD in self.text.variables:
            values[SCRATCHPAD] = self.scratchpad(run.steps)
        return self.text.filled(values, ai=self.ai)


def form(
    prompt: str,
    tools: Sequence[AnyTool],
    *,
    required: Sequence[str],
    scratchpad: Scratchpad = legacy_thoughts,
    name: str = "prompt",
) -> Form:
    """Read a prompt, with `{tools}` and `{tool_names}` filled in. Raises `InputError` as `template` does."""
    text = template(prompt, required=required, name=name)
    fixed = {"tools": rendered_tools(tools), "tool_names": ", ".join(tool.name for tool in tools)}
    return Form(text, fixed, scratchpad)


def text_agent(
    model: Model,
    read: Callable[[ModelReply], Decision],
    asked: Form,
    *,
    stop: Sequence[str],
    protocol: TextProtocol,
    answer: Callable[[], AnswerReader],
) -> Agent:
    """Make an agent that is asked with one text, as a chat or to continue it; `answer` tells its answer as it comes.

    Raises `InputError` for another protocol, for stop texts that are none, and for what is no model.
    """
    check("", ("protocol", protocol, _PROTOCOL))
    stops = each("stop", stop, str, "texts")

    def ask(run: Run) -> CallModel:
        text = asked.filled(run)
        if protocol == "completion":
            return CallModel(CompletionRequest(text, stops))
        return CallModel(ChatRequest((UserMessage(text),), stop=stops))

    return chat_agent(ask, read, model, input_keys=asked.inputs, answer=answer)


def instructed_agent(
    model: Model,
    read: Callable[[ModelReply], Decision],
    instructions: Form,
    question: Form,
    *,
    stop: Sequence[str],
    history: str,
    answer: Callable[[], AnswerReader],
) -> Agent:
    """Make an agent that is asked with two texts: the instructions, and the question with the scratchpad.

    Between them come the messages in the input `history`; `answer` tells the answer as it comes. Raises `InputError`
    for what is no name of an input, for stop texts that are none, and for what is no model.
    """
    stops = each("stop", stop, str, "texts")
    inputs = tuple(dict.fromkeys((*instructions.inputs, *question.inputs)))
    before = optional(history, inputs)

    def ask(run: Run) -> CallModel:
        head = SystemMessage(instructions.filled(run))
        asked = (head, *earlier(run.inputs, before), UserMessage(question.filled(run)))
        return CallModel(ChatRequest(asked, stop=stops))

    return chat_agent(ask, read, model, input_keys=inputs, answer=answer, optional_keys=before)
