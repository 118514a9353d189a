"""The tool-calling agent: the model's native tool calls, also several in one reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphexec._arguments import STRING, validate
from graphexec._mistakes import explain_creation
from graphexec._parsing.json import read_object
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Decision, Steps
from graphexec.agents.agent import Agent, RuleName, remakeable, validate_rules
from graphexec.agents.conversation import make_message
from graphexec.agents.images import observation_images
from graphexec.agents.prompt import Template, parse_template, validate_tools
from graphexec.agents.reading.answers import make_text_reader
from graphexec.agents.reading.text_parsing import reject_empty, strip_fence
from graphexec.agents.reading.textual_calls import read_textual_calls
from graphexec.agents.scratchpad import Form, format_thoughts, make_instructed_agent
from graphexec.agents.tool_choice import validate_tool_choice
from graphexec.errors import InputError, ParseError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Model,
    ModelReply,
    ToolCall,
    ToolMessage,
    UserMessage,
    separate_reasoning,
)
from graphexec.messages.turns import MessageTurn
from graphexec.tools import AnyTool

SYSTEM_PROMPT = "You are a helpful assistant. Use the tools where they help; answer in a sentence when you know."


@remakeable
@explain_creation
def create_tool_calling_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = "{input}",
    *,
    system: str = SYSTEM_PROMPT,
    history: str = "chat_history",
    tool_choice: str = "auto",
    rules: Sequence[RuleName] = (),
) -> Agent:
    """Make an agent from a model with native tool calls.

    `system` is the text of the instructions, not a template; `prompt` is the template of the user's message, and its
    variables are the inputs of a run. A reply without tool calls is the answer. `history` is as in `create_chat_agent`.
    `tool_choice` is `required` or the name of a tool if the model must call one before it answers; after the first call
    it decides itself, so every run can end with an answer. `rules` are those of `create_structured_agent` against
    repeated calls; `("no_immediate_repeats",)` suits most models.

    Raises `ToolDefinitionError` for invalid tools, and `InputError` for a prompt without a variable and any other
    invalid argument.
    """
    tools = validate_tools(tools)
    validate("", ("system", system, STRING))
    validate_tool_choice(tool_choice, [tool.name for tool in tools])
    if "no_dummies" in validate_rules(rules):
        raise InputError(
            "rules has no_dummies, and a tool-calling agent shows no worked examples; leave it out, or take "
            "create_structured_agent"
        )
    question = Form(parse_template(prompt, required=()), {}, format_thoughts)
    # In other agents the prompt is the instructions; here such a prompt would silently drop the question.
    if not question.inputs:
        raise InputError(
            "the prompt has no variable, so no input is used; write {input} in it, and pass instructions as system=..."
        )
    instructions = Form(Template(((system, None),)), {}, format_thoughts, tools=tools)
    agent = make_instructed_agent(
        model,
        partial(read, tools=tools),
        instructions,
        question,
        history=history,
        kind="tool_calling",
        answer=make_text_reader,
        steps=step_turns,
        specs=tuple(tool.spec for tool in tools),
        first=None if tool_choice == "auto" else lambda request, _: replace(request, tool_choice=tool_choice),
        narrow=_narrow,
        rules=rules,
        max_actions=None,
    )
    return replace(agent, tool_choice=tool_choice)


def _narrow(request: ChatRequest, names: frozenset[str]) -> ChatRequest:
    # Without any tool, the definitions stay: earlier calls in the conversation may need them.
    if not names:
        return replace(request, tool_choice="none")
    return replace(request, tools=tuple(spec for spec in request.tools if spec.name in names))


def step_turns(steps: Steps, first: int) -> Iterator[MessageTurn]:
    """Yield the steps as turns: each reply of the model once, with the calls that have results, then the results.

    A step without a native call, such as a parse error, becomes the model's reply and a user message.
    """
    position = first
    while position < len(steps):
        step = steps[position]
        answered = _steps_of_reply(steps, position)
        if step.action.message is None or not answered:
            position += 1
            answer = UserMessage(step.text, observation_images(step))
            yield MessageTurn(position, (make_message(step), answer))
            continue
        message = step.action.message
        closed = len(answered) == len(message.tool_calls)
        reply = message if closed else message.with_calls([call for call, _ in answered])
        results = [ToolMessage(call.id, one.text, observation_images(one)) for call, one in answered]
        position += len(answered)
        yield MessageTurn(position, (reply, *results), closed)


def _steps_of_reply(steps: Steps, position: int) -> list[tuple[ToolCall, AgentStep]]:
    """Return the calls of one reply with their steps, from `position` on. An equal reply later is a separate one."""
    message = steps[position].action.message
    calls = iter(message.tool_calls if message else ())
    answered: list[tuple[ToolCall, AgentStep]] = []
    for index in range(position, len(steps)):
        step = steps[index]
        call = next((call for call in calls if call.id == step.action.call_id), None)
        if call is None or step.action.message != message:
            break
        answered.append((call, step))
    return answered


def read(reply: ModelReply, tools: Sequence[AnyTool] = ()) -> Decision:
    """Parse the tool calls, native ones or calls to known `tools` that the text consists of, or the text as the answer.

    Raises `ParseError` if a call's arguments are not JSON, for a call in the text that cannot be read, and for a reply
    with neither text nor calls.
    """
    reply = separate_reasoning(reply)
    if not reply.tool_calls:
        reply = read_textual_calls(reply, tools)
    if not reply.tool_calls:
        reject_empty(reply)
        return AgentFinish({"output": reply.content}, reply.content)
    # `reply.message` written out, to save a call at each step.
    message = AssistantMessage(reply.content, reply.tool_calls, reply.reasoning)
    content = f"responded: {reply.content}\n" if reply.content else "\n"
    actions: list[AgentAction] = []
    for call in reply.tool_calls:
        arguments = _arguments(call, reply)
        log = f"\nInvoking: `{call.name}` with `{arguments}`\n{content}\n"
        actions.append(AgentAction(call.name, arguments, log, call.id, message))
    return tuple(actions)


def _arguments(call: ToolCall, reply: ModelReply) -> dict[str, Any]:
    """Parse the arguments of a call. Truncated JSON is an error; it is not completed by guessing."""
    try:
        written = call.arguments
        # The usual arguments, an object and nothing else, have no fence.
        if written[:1] != "{" or written[-1:] != "}":
            written = strip_fence(written.strip())
        return read_object("{}" if written in {"", "null"} else written)
    except ValueError as error:
        why = "they were cut at the token limit" if reply.finish_reason == "length" else str(error)
        text = f"The arguments of the call to {call.name} are not a JSON object: {why}. Call it again."
        calls = "".join(f"\n{each.name}({each.arguments})" for each in reply.tool_calls)
        raw = f"{reply.content}{calls}".strip()
        raise ParseError(f"{text} The arguments were: {call.arguments}", observation=text, llm_output=raw) from None
