"""Agents that are asked with one text, in which their steps stand as a scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import Constraint, validate, validate_each
from graphexec.actions import Run, Steps
from graphexec.agents.agent import Agent, Decision, chat_agent, conclude_messages
from graphexec.agents.answers import AnswerReader
from graphexec.agents.conversation import Conversation, history_keys, history_messages
from graphexec.agents.prompt import Template, describe_tools, observation_text, parse_template
from graphexec.effects import CallModel
from graphexec.messages import (
    ChatRequest,
    CompletionRequest,
    Message,
    Model,
    ModelReply,
    SystemMessage,
    ToolSpec,
    UserMessage,
)
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


def format_thoughts(steps: Steps) -> str:
    """The steps as the text that the model continues: what it said, and what was observed."""
    return "".join(f"{step.action.log}\nObservation: {observation_text(step)}\nThought: " for step in steps)


def format_legacy_thoughts(steps: Steps) -> str:
    """The steps as LangChain's older agents have them: without a blank behind `Thought:`."""
    return "".join(f"{step.action.log}\nObservation: {observation_text(step)}\nThought:" for step in steps)


def format_previous_work(steps: Steps) -> str:
    """The steps as text that the user hands to the model, which has no memory of them."""
    return PREVIOUS_WORK + format_legacy_thoughts(steps) if steps else ""


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

    def render(self, run: Run) -> str:
        """Return the text for a run. No input can take the place of the tools or of the scratchpad."""
        values: Mapping[str, object] = {**run.inputs, **self.fixed} if self.fixed else run.inputs
        if SCRATCHPAD in self.text.variables:
            values = {**values, SCRATCHPAD: self.scratchpad(run.steps)}
        return self.text.render(values, ai=self.ai)


def make_form(
    prompt: str,
    tools: Sequence[AnyTool],
    *,
    required: Sequence[str],
    scratchpad: Scratchpad = format_legacy_thoughts,
    name: str = "prompt",
) -> Form:
    """Read a prompt, with `{tools}` and `{tool_names}` filled in. Raises `InputError` as `template` does."""
    text = parse_template(prompt, required=required, name=name)
    fixed = {"tools": describe_tools(tools), "tool_names": ", ".join(tool.name for tool in tools)}
    return Form(text, fixed, scratchpad)


def make_text_agent(
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
    validate("", ("protocol", protocol, _PROTOCOL))
    stops = validate_each("stop", stop, str, "strings")

    def ask(run: Run) -> CallModel:
        text = asked.render(run)
        if protocol == "completion":
            return CallModel(CompletionRequest(text, stops))
        return CallModel(ChatRequest((UserMessage(text),), stop=stops))

    return chat_agent(ask, read, model, input_keys=asked.inputs, answer=answer)


def make_instructed_agent(  # noqa: PLR0913
    model: Model,
    read: Callable[[ModelReply], Decision],
    instructions: Form,
    question: Form,
    *,
    history: str,
    stop: Sequence[str] = (),
    answer: Callable[[], AnswerReader] | None = None,
    steps: Callable[[Steps], Iterator[Message]] | None = None,
    examples: Sequence[Message] = (),
    tools: tuple[ToolSpec, ...] = (),
    schema: Mapping[str, Any] | None = None,
    last_schema: Mapping[str, Any] | None = None,
) -> Agent:
    """Make an agent that is asked with instructions and a question, between them the messages in the input `history`.

    The steps are in the question's scratchpad, or they are the messages that `steps` makes of them. `answer` reads the
    answer as it comes. `last_schema` is that of the last question of a run that is stopped. Raises `InputError` for an
    invalid name of an input, invalid stop texts and an invalid model.
    """
    stops = validate_each("stop", stop, str, "strings")
    inputs = tuple(dict.fromkeys((*instructions.inputs, *question.inputs)))
    before = history_keys(history, inputs)
    # Mostly the same in every run.
    depends = instructions.inputs or SCRATCHPAD in instructions.text.variables
    constant = None if depends else SystemMessage(instructions.text.render(instructions.fixed, ai=instructions.ai))

    def request(run: Run) -> ChatRequest:
        system = constant or SystemMessage(instructions.render(run))
        head = (system, *examples, *history_messages(run.inputs, before), UserMessage(question.render(run)))
        messages = head if steps is None else Conversation(head, run.steps, steps)
        return ChatRequest(messages, tools=tools, stop=stops, schema=schema)

    def conclude(run: Run) -> CallModel:
        asked = request(run)
        messages = conclude_messages(asked.messages)
        return CallModel(replace(asked, messages=messages, schema=last_schema, tool_choice="none"))

    return chat_agent(
        lambda run: CallModel(request(run)),
        read,
        model,
        input_keys=inputs,
        conclude=conclude,
        answer=answer,
        optional_keys=before,
    )
