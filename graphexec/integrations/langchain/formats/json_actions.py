"""LangChain's agents that act by a JSON object: the chat, the structured chat and the JSON chat agent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeGuard

from graphexec._mistakes import explain_creation
from graphexec.actions import AgentStep, Decision, Steps, ToolInput
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.conversation import observation_turns
from graphexec.agents.prompt import format_observation, names_of, parse_template, validate_tools
from graphexec.agents.reading.json_text import (
    Region,
    find_decisions,
    find_regions,
    has_action_member,
    has_action_name,
    is_answer,
    is_decision,
    read_decision_fields,
    reject_answer_tool,
)
from graphexec.agents.reading.labels import FINAL_ANSWER, THOUGHT, TURN, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import (
    BOTH,
    find_action,
    find_answer,
    find_named_tools,
    find_tool,
    has_text,
    make_unreadable_error,
)
from graphexec.agents.reading.turns import (
    ReplyText,
    Value,
    find_value_after,
    find_value_from,
    read_text,
)
from graphexec.agents.scratchpad import (
    STOP,
    format_legacy_thoughts,
    format_thoughts,
    make_form,
    make_instructed_agent,
)
from graphexec.errors import InputError, ParseError
from graphexec.messages import Model, ModelReply
from graphexec.messages.turns import TurnMaker
from graphexec.tools import AnyTool

CHAT_PROMPT = """\
Answer questions as well as you can. These tools help you:

{tools}

A tool is used by a JSON object in a fence, with the tool's name as `action` ({tool_names}) and what it is given as
`action_input`. Write in this form:

Question: what is asked
Thought: what to do next, and why
Action:
```
{{"action": "the tool", "action_input": "what it is given"}}
```
Observation: what the tool returned
(Thought, Action and Observation may be repeated; one action at a time)
Thought: I have all that I need
Final Answer: the answer to the question"""

CHAT_QUESTION = "{input}\n\n{agent_scratchpad}"

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

# The sentence before the steps in the older chat agents.
PREVIOUS_WORK = (
    "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
)


@remakeable
@explain_creation
def create_chat_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = CHAT_PROMPT,
    *,
    question: str = CHAT_QUESTION,
    stop: Sequence[str] = STOP,
    history: str = "chat_history",
) -> Agent:
    """Make an agent that writes thoughts in plain text and actions as a JSON object in a fence.

    `prompt` is the template of the instructions, with `{tools}`; `question` is the template of the user's message, with
    `{agent_scratchpad}`. Their other variables are the inputs of a run. A reply ends before any of the `stop` strings.
    Messages in the input `history`, for example of a memory with `as_messages=True`, are sent between the instructions
    and the question; if a template has `{history}` as a variable, they are written there as text.

    Raises `ToolDefinitionError` for invalid tools and for a tool with the answer's name, and `InputError` for any other
    invalid argument.
    """
    return _make_agent("chat", read_chat, model, tools, prompt, question, stop, history, required=("tools",))


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
    return _make_agent("structured_chat", read_structured_chat, model, tools, prompt, question, stop, history)


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
    response = parse_template(tool_response, required=("observation",), name="tool_response")
    if others := [name for name in response.variables if name != "observation"]:
        raise InputError(f"the tool_response has the variable {{{others[0]}}}; it can only have {{observation}}")

    def observe(step: AgentStep) -> str:
        return response.render({"observation": step.text})

    steps = observation_turns(observe)
    return _make_agent("json_chat", read_json_chat, model, tools, prompt, question, stop, history, steps=steps)


def _make_agent(  # noqa: PLR0913
    kind: str,
    read: Callable[..., Decision],
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str,
    question: str,
    stop: Sequence[str],
    history: str,
    *,
    required: tuple[str, ...] = ("tools", "tool_names"),
    steps: TurnMaker | None = None,
) -> Agent:
    """Make an agent; the steps are a part of the question, or `steps` makes messages of them."""
    tools = validate_tools(tools)
    reject_answer_tool(tools)
    pads = (format_legacy_thoughts, format_previous_work) if steps is None else (format_thoughts, format_thoughts)
    pad = ("agent_scratchpad",) if steps is None else ()
    return make_instructed_agent(
        model,
        partial(read, names=names_of(tools)),
        make_form(prompt, tools, required=required, scratchpad=pads[0]),
        make_form(question, tools, required=pad, scratchpad=pads[1], name="question"),
        stop=stop,
        history=history,
        kind=kind,
        steps=steps,
    )


def format_previous_work(steps: Steps) -> str:
    """Format the steps as a part of the user's message."""
    return PREVIOUS_WORK + format_legacy_thoughts(steps) if steps else ""


def read_chat(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the JSON object that is the action, or `Final Answer:`. The `names` are those of the known tools.

    Raises `ParseError` for neither, for both, for two actions, and for truncated JSON.
    """
    whole = read_text(reply, _find_chat_value)
    text = whole.text
    final = find_answer(_without_json(whole.log))
    if final:
        before, after = find_decisions(text[: final.start()]), find_regions(text[final.end() :])
        if any(map(has_action_member, before)) or any(region.is_json and _is_action(region) for region in after):
            raise ParseError(f"{BOTH}: {text}", llm_output=text)
        return whole.finish(read_text_after(text, final, whole.end))
    found = find_decisions(text)
    if not found:
        raise _unreadable("it has neither an action as a JSON object in a fence nor a 'Final Answer:'", text)
    if len(found) > 1:
        raise _unreadable(f"it has {len(found)} JSON objects; decide on one action at a time", text)
    return _read_decision(found[0], whole, reply, names)


def _find_value_in_json(text: str) -> Value | None:
    """Return the place behind the first decision in JSON, unless it is not closed."""
    first = next(filter(is_decision, find_regions(text)), None)
    return Value(first.end, Spelling.TRANSLATED) if first and first.is_closed else None


def _find_chat_value(text: str) -> Value | None:
    label = FINAL_ANSWER.patterns[Spelling.TRANSLATED].search(_without_json(text))
    found = (find_value_after(text, [(FINAL_ANSWER, label)]), _find_value_in_json(text))
    return min(filter(None, found), default=None)


def _without_json(text: str) -> str:
    parts: list[str] = []
    position = 0
    for region in find_regions(text):
        if region.is_json:
            parts += (text[position : region.start], " " * (region.end - region.start))
            position = region.end
    return "".join(parts) + text[position:]


def read_structured_chat(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the JSON object that is the action or the answer; a text without a decision in JSON is the answer.

    The `names` are those of the known tools. Raises `ParseError` for an empty text, several objects, an invalid
    decision, and truncated JSON.
    """
    whole = read_text(reply, _find_structured_value)
    text = whole.text
    found = find_decisions(text)
    if len(found) > 1:
        raise _unreadable(f"it has {len(found)} JSON objects; decide on one action at a time", text)
    if found:
        before = text[: found[0].start]
        if TURN.lines[Spelling.EXACT].search(before, _find_prose(before).start):
            raise _unreadable("its decision follows a question that you wrote", text)
        return _read_decision(found[0], whole, reply, names)
    if not has_text(text):
        raise _unreadable("it is empty", text)
    if find_action(text) or find_named_tools(text, names):
        raise _unreadable("its action is not a JSON object", text)
    return whole.finish(whole.log.strip())


def _find_structured_value(text: str) -> Value | None:
    return _find_value_in_json(text) if any(map(is_decision, find_regions(text))) else _find_prose(text)


def _find_prose(text: str) -> Value:
    """Return the answer in a text without JSON: it begins in the first line without a label."""
    start = len(text) - len(text.lstrip())
    labels = (TURN.lines[Spelling.EXACT], THOUGHT.lines[Spelling.EXACT])
    while any(label.match(text, start) for label in labels):
        start = (text.find("\n", start) + 1) or len(text)
    return find_value_from(text, start, Spelling.EXACT)


def read_json_chat(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse the only decision of the reply; a list with one action is that action. Otherwise raises `ParseError`.

    The `names` are those of the known tools.
    """
    whole = read_text(reply, _find_value_in_json)
    found = find_decisions(whole.text)
    if len(found) != 1:
        why = f"it has {len(found)} JSON objects instead of one" if found else "it has no JSON object"
        raise _unreadable(why, whole.text)
    return _read_decision(found[0], whole, reply, names)


def _read_decision(region: Region, read: ReplyText, reply: ModelReply, names: Collection[str]) -> Decision:
    """Parse the decision in a region: an action, or the action `Final Answer`, whose input is the answer.

    A missing input is an empty object. The `names` are those of the known tools. Raises `ParseError` for anything else.
    """
    fields = read_decision_fields(region, reply, lambda why: _unreadable(why, read.text))
    action = fields["action"]
    # Any: values of arbitrary JSON.
    given: Any = fields.get("actioninput")
    if is_answer(action):
        output = "" if given is None else format_observation(given)
        return read.finish(output)
    tool_input: ToolInput = {} if given is None else given if _is_input(given) else format_observation(given)
    return read.act(find_tool(action.strip(), names), tool_input)


def _is_input(given: Any) -> TypeGuard[ToolInput]:
    # The keys of a JSON object are strings.
    return isinstance(given, (dict, str))


def _is_action(region: Region) -> bool:
    """Return whether a region is an action, or looks like one, and not the answer."""
    try:
        fields = read_decision_fields(region, ModelReply(""), lambda why: _unreadable(why, region.text))
    except ParseError:
        return has_action_name(region)
    return not is_answer(fields["action"])


def _unreadable(why: str, text: str) -> ParseError:
    """Return the error for a reply without exactly one valid action; its observation repeats the format."""
    form = 'To act, write one JSON object, {"action": "<tool>", "action_input": <its input>}.'
    return make_unreadable_error(why, text, form, prose="{" not in text)
