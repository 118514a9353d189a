"""Agents whose request is one text with the steps as a scratchpad, or instructions and a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import Constraint, LangChainObject, validate, validate_each
from graphexec.actions import AgentStep, Decision, Run, Steps
from graphexec.agents.agent import Agent, RuleName, chat_agent, conclude_messages, validate_rules
from graphexec.agents.conversation import history_keys, history_messages, join_system
from graphexec.agents.images import input_images, prepare_inputs, reject_images
from graphexec.agents.prompt import Template, describe_tools, parse_template
from graphexec.agents.reading.answers import AnswerReader
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
from graphexec.messages.turns import Conversation, TurnMaker
from graphexec.tools import AnyTool

Scratchpad: TypeAlias = Callable[[Steps], str]

# The request for one text: a chat with one message, or a completion.
TextProtocol: TypeAlias = Literal["chat", "completion"]
_PROTOCOL = Constraint("'chat' or 'completion'", lambda value: value in get_args(TextProtocol))

SCRATCHPAD = "agent_scratchpad"

# LangChain's stop string.
STOP = ("\nObservation",)


def make_scratchpad(format_step: Callable[[AgentStep], str]) -> Scratchpad:
    """Make a scratchpad of the texts of the steps. In a run each is formatted once, and added to those before it."""

    def extend(text: str, steps: Sequence[AgentStep]) -> str:
        return text + "".join(map(format_step, steps))

    return lambda steps: steps.derive(format_step, extend, nothing="")


# The steps as a text that the model continues: its replies and the observations.
format_thoughts = make_scratchpad(lambda step: f"{step.action.log}\nObservation: {step.text}\nThought: ")

# As LangChain's older agents format them: without a space after `Thought:`.
format_legacy_thoughts = make_scratchpad(lambda step: f"{step.action.log}\nObservation: {step.text}\nThought:")


@dataclass(frozen=True, slots=True)
class Form:
    """The format of a run as one text: a template, the values that are the same in every run, and the scratchpad.

    `tools` are those that the text describes.
    """

    text: Template
    fixed: Mapping[str, str]
    scratchpad: Scratchpad
    # The name of the agent in transcripts of messages.
    ai: str = "AI"
    tools: tuple[AnyTool, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables that the inputs of a run must supply."""
        return tuple(name for name in self.text.variables if name not in self.fixed and name != SCRATCHPAD)

    def render(self, run: Run) -> str:
        """Return the text for a run. Inputs cannot replace the tools or the scratchpad."""
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
    """Parse a prompt and set `{tools}` and `{tool_names}`. Raises `InputError` as `parse_template` does."""
    text = parse_template(prompt, required=required, name=name)
    fixed = {"tools": describe_tools(tools), "tool_names": ", ".join(tool.name for tool in tools)}
    return Form(text, fixed, scratchpad, tools=tuple(tools))


def make_text_agent(
    model: Model | LangChainObject,
    read: Callable[[ModelReply], Decision],
    asked: Form,
    *,
    stop: Sequence[str],
    protocol: TextProtocol,
    kind: str,
    answer: Callable[[], AnswerReader] | None = None,
) -> Agent:
    """Make an agent whose request is one text; `answer` makes the reader of a streamed answer.

    Raises `InputError` for an invalid protocol, invalid stop strings and an invalid model.
    """
    validate("", ("protocol", protocol, _PROTOCOL))
    stops = validate_each("stop", stop, str, "strings")

    def ask(run: Run) -> CallModel:
        reject_images(run.steps)
        if protocol == "completion":
            return CallModel(CompletionRequest(asked.render(run), stops))
        message = UserMessage(asked.render(run), input_images(run.inputs, asked.inputs))
        return CallModel(ChatRequest((message,), stop=stops))

    prepare = partial(prepare_inputs, variables=asked.inputs, sees=protocol == "chat")
    return chat_agent(
        ask,
        read,
        model,
        input_keys=asked.inputs,
        answer=answer,
        tools=asked.tools,
        kind=kind,
        prepare=prepare,
        max_actions=1,
    )


def make_instructed_agent(  # noqa: PLR0913
    model: Model | LangChainObject,
    read: Callable[[ModelReply], Decision],
    instructions: Form,
    question: Form,
    *,
    history: str,
    kind: str,
    stop: Sequence[str] = (),
    answer: Callable[[], AnswerReader] | None = None,
    steps: TurnMaker | None = None,
    examples: Sequence[Message] = (),
    specs: tuple[ToolSpec, ...] = (),
    first: Callable[[ChatRequest, str], ChatRequest] | None = None,
    schema: Mapping[str, Any] | None = None,
    narrow: Callable[[ChatRequest, frozenset[str]], ChatRequest] | None = None,
    rules: Sequence[RuleName] = (),
    max_actions: int | None = 1,
) -> Agent:
    """Make an agent whose request is instructions, the messages in the input `history`, and a question.

    The steps are in the question's scratchpad, without images, or `steps` makes messages from them. The images in the
    inputs are in the question's message. `answer` makes the reader of a streamed answer. `specs` are the tools that the
    model may call natively. `first` changes the requests before the first call of a tool, given the text of the
    question. `narrow` returns a request that allows only calls of these tools; the last request of a run that is
    stopped allows none. A reply that is read has at most `max_actions` actions. Raises `InputError` for an invalid name
    of an input, invalid stop strings, an invalid model and invalid rules.
    """
    stops = validate_each("stop", stop, str, "strings")
    inputs = tuple(dict.fromkeys((*instructions.inputs, *question.inputs)))
    before = history_keys(history, inputs)
    # The instructions are usually the same in every run.
    depends = instructions.inputs or SCRATCHPAD in instructions.text.variables
    constant = None if depends else SystemMessage(instructions.text.render(instructions.fixed, ai=instructions.ai))

    def make_head(run: Run) -> tuple[Message, ...]:
        system = constant or SystemMessage(instructions.render(run))
        asked = UserMessage(question.render(run), input_images(run.inputs, inputs))
        return join_system([system, *examples, *history_messages(run.inputs, before), asked])

    def request(run: Run) -> ChatRequest:
        messages: Sequence[Message]
        if steps is None:
            reject_images(run.steps)
            messages = head = make_head(run)
        else:
            # The inputs of a run, and so its first messages, are the same at each step.
            memo = run.steps.memo
            kept, head = memo.get(make_head, (None, ()))
            if kept is not run.inputs:
                head = make_head(run)
                memo[make_head] = run.inputs, head
            messages = Conversation(head, run.steps, steps)
        made = ChatRequest(messages, specs, stops, schema)
        # Only until a tool has been called: a model that must always call a tool never answers.
        if first is None or any(step.status != "parse_error" for step in run.steps):
            return made
        return first(made, head[-1].content)

    agent = chat_agent(
        lambda run: CallModel(request(run)),
        read,
        model,
        input_keys=inputs,
        answer=answer,
        optional_keys=before,
        tools=instructions.tools,
        kind=kind,
        prepare=partial(prepare_inputs, variables=inputs, sees=True),
        max_actions=max_actions,
    )
    if narrow is None:
        return agent

    def conclude(run: Run) -> CallModel:
        asked = narrow(request(run), frozenset())
        return CallModel(replace(asked, messages=conclude_messages(asked.messages)))

    def narrow_run(run: Run, names: frozenset[str]) -> CallModel:
        return CallModel(narrow(request(run), names))

    return replace(agent, rules=validate_rules(rules), conclude=conclude, narrow=narrow_run)
