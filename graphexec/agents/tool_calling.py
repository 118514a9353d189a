"""The tool-calling agent: the model's native tool calls, also several in one reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphexec._arguments import STRING, LangChainObject, validate
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
from graphexec.agents.small.tool_choice import validate_tool_choice
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
    with_own_ids,
)
from graphexec.messages.turns import MessageTurn
from graphexec.tools import AnyTool

SYSTEM_PROMPT = "You are a helpful assistant. Use the tools where they help; answer in a sentence when you know."


@remakeable
@explain_creation
def create_tool_calling_agent(
    model: Model | LangChainObject,
    tools: Sequence[AnyTool | LangChainObject],
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

    The calls are those that were made: a node may have changed an action. A step without a native call, such as a parse
    error, becomes the model's reply and a user message.
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
        message, calls = step.action.message, [*step.action.message.tool_calls]
        for place, one in answered:
            calls[place] = _made_call(calls[place], one.action)
        own = with_own_ids(calls)
        reply = message if own == message.tool_calls else replace(message, tool_calls=own)
        closed = len(answered) == len(own)
        reply = reply if closed else reply.with_calls([own[place] for place, _ in answered])
        results = [ToolMessage(own[place].id, one.text, observation_images(one)) for place, one in answered]
        position += len(answered)
        yield MessageTurn(position, (reply, *results), closed)


def _steps_of_reply(steps: Steps, position: int) -> list[tuple[int, AgentStep]]:
    """Return the steps of one reply, from `position` on, with the places of their calls.

    An equal reply later is a separate one.
    """
    message = steps[position].action.message
    calls = enumerate(message.tool_calls if message else ())
    answered: list[tuple[int, AgentStep]] = []
    for index in range(position, len(steps)):
        step = steps[index]
        place = next((place for place, call in calls if call.id == step.action.call_id), None)
        if place is None or step.action.message != message:
            break
        answered.append((place, step))
    return answered


def _made_call(call: ToolCall, action: AgentAction) -> ToolCall:
    """Return the call of an action: that of the reply, unless the action has another tool or other arguments."""
    given = action.tool_input
    try:
        written = _read_arguments(call.arguments)
    except ValueError:
        written = {}
    # A string is the only argument.
    if action.tool == call.name and (given == written or (isinstance(given, str) and given in written.values())):
        return call
    arguments = {"input": given} if isinstance(given, str) else given
    return ToolCall(call.id, action.tool, json.dumps(arguments, ensure_ascii=False, default=str))


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
    calls = reply.tool_calls
    # The usual call has an id, and is the only one.
    if calls[1:] or not calls[0].id:
        calls = with_own_ids(calls)
    # `reply.message` written out, to save a call at each step.
    message = AssistantMessage(reply.content, calls, reply.reasoning)
    content = f"responded: {reply.content}\n" if reply.content else "\n"
    actions: list[AgentAction] = []
    for call in calls:
        try:
            arguments = _read_arguments(call.arguments)
        except ValueError as error:
            raise _argument_error(call, reply, error) from None
        log = f"\nInvoking: `{call.name}` with `{arguments}`\n{content}\n"
        actions.append(AgentAction(call.name, arguments, log, call.id, message))
    return tuple(actions)


def _read_arguments(written: str) -> dict[str, Any]:
    """Parse the arguments of a call. Raises `ValueError` for truncated JSON: it is not completed by guessing."""
    # The usual arguments, an object and nothing else, have no fence.
    if written[:1] != "{" or written[-1:] != "}":
        written = strip_fence(written.strip())
    return read_object("{}" if written in {"", "null"} else written)


def _argument_error(call: ToolCall, reply: ModelReply, error: ValueError) -> ParseError:
    why = "they were cut at the token limit" if reply.finish_reason == "length" else str(error)
    text = f"The arguments of the call to {call.name} are not a JSON object: {why}. Call it again."
    calls = "".join(f"\n{each.name}({each.arguments})" for each in reply.tool_calls)
    raw = f"{reply.content}{calls}".strip()
    return ParseError(f"{text} The arguments were: {call.arguments}", observation=text, llm_output=raw)
