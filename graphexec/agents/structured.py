"""The structured agent: one JSON decision per step, constrained by a schema with a branch per tool.

It is for models without native tool calls: the schema allows nothing but a decision. It has no field for a thought on
purpose: with the field, a model with 135 million parameters solved a quarter of the tool tasks that it solved without.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from graphexec._arguments import LangChainObject, optional, validate, validate_each, whole
from graphexec._mistakes import explain_creation
from graphexec._parsing import compile_lazily
from graphexec.actions import AgentAction, AgentFinish, Decision
from graphexec.agents.agent import Agent, RuleName, remakeable
from graphexec.agents.conversation import observation_turns
from graphexec.agents.prompt import format_observation, parse_template, validate_tools
from graphexec.agents.reading.answers import make_json_reader
from graphexec.agents.reading.json_text import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    find_decisions,
    find_regions,
    has_decision,
    is_answer,
    read_decision_fields,
    read_fields,
    read_items,
    reject_answer_tool,
)
from graphexec.agents.reading.labels import FINAL_ANSWER, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import find_action, find_named_tools, find_tool, make_unreadable_error
from graphexec.agents.reading.textual_calls import read_textual_calls
from graphexec.agents.scratchpad import Form, format_thoughts, make_form, make_instructed_agent
from graphexec.agents.small.synthesis import WorkedExample, find_dummies, synthesised_examples
from graphexec.agents.small.tool_choice import INFERRED, find_subjects, is_tiny, needs_tool, validate_tool_choice
from graphexec.errors import ParseError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    Model,
    ModelReply,
    UserMessage,
    separate_reasoning,
)
from graphexec.tools import AnyTool

_ANSWER_ACTION = "final_answer"

STRUCTURED_PROMPT = """\
You answer questions with the help of tools:
{tools}

Reply with one JSON object, and nothing else: either
{{"action": "<tool>", "action_input": {{<its arguments>}}}} to use a tool, or
{{"action": "final_answer", "answer": "<the answer>"}} when an observation tells you the answer."""


# Characters. Without a limit, a reply that a small model does not end repeats itself up to the limit on tokens.
MAX_ANSWER = 300


# Each parameter is a separate part of the agent.
@remakeable
@explain_creation
def create_structured_agent(  # noqa: PLR0913
    model: Model | LangChainObject,
    tools: Sequence[AnyTool | LangChainObject],
    prompt: str = STRUCTURED_PROMPT,
    *,
    question: str = "{input}",
    examples: Sequence[WorkedExample] | Literal["auto"] = "auto",
    history: str = "chat_history",
    max_answer: int | None = MAX_ANSWER,
    tool_choice: str | None = None,
    rules: Sequence[RuleName] = ("no_dummies", "no_repeats"),
) -> Agent:
    """Make an agent whose replies are one JSON object per step.

    `prompt` is the template of the instructions, with `{tools}`; `question` is the template of the user's message.
    Their other variables are the inputs of a run. The worked `examples` are shown before the question: small models
    solve few tasks without them. "auto" makes them from the tools (see `synthesised_examples`), and `()` is for models
    that need none. The schema limits an answer to `max_answer` characters (`None`: any number); the longer answer of a
    server that ignores schemas is kept whole.

    `tool_choice` is as in `create_tool_calling_agent`. By default it is `auto`, but the default local model hardly sees
    when it needs a tool, so it must call one first if the question has data in it (digits, a quoted text, a path or an
    address), or a word of a tool's name, description or parameters. The agent's `tool_choice` is then `inferred`.

    `rules` are checked by the executor before it calls tools; `()` turns them off. "no_dummies": a call with an
    argument of an example that follows from neither the inputs nor an observation is not made, and the model is asked
    again without that tool. "no_repeats": a call that has succeeded is
    not made again with the same arguments, unless the tool is `repeatable`, and the model is asked for its answer.
    "no_immediate_repeats" is the same, but only until a later reply has made another call.

    `history` and the errors raised are as in `create_chat_agent`.
    """
    tools = validate_tools(tools)
    reject_answer_tool(tools)
    validate("", ("max_answer", max_answer, optional(whole(1, "a whole number of characters, 1 or more"), "no limit")))
    if examples == "auto":
        several = synthesised_examples(tools)
    else:
        wanted = "WorkedExample(question, calls, answer), or 'auto'"
        several = validate_each("examples", examples, WorkedExample, wanted)

    if tool_choice is not None:
        validate_tool_choice(tool_choice, [tool.name for tool in tools])
    choice = tool_choice or (INFERRED if tools and is_tiny(model) else "auto")

    def narrow(request: ChatRequest, names: frozenset[str]) -> ChatRequest:
        return replace(request, schema=decision_schema([tool for tool in tools if tool.name in names], max_answer))

    agent = make_instructed_agent(
        model,
        partial(read, tools=tools),
        make_form(prompt, tools, required=("tools",)),
        Form(parse_template(question, required=(), name="question"), {}, format_thoughts),
        history=history,
        kind="structured",
        answer=make_answer_reader,
        steps=observation_turns(lambda step: f"Observation: {step.text}"),
        examples=[message for example in several for message in _example_messages(example)],
        schema=decision_schema(tools, max_answer),
        first=_require_call(tools, choice),
        narrow=narrow,
        rules=rules,
    )
    dummies = find_dummies(several, tools, f"{prompt}\n{question}")
    questions = tuple(example.question for example in several)
    return replace(agent, dummies=dummies, example_questions=questions, tool_choice=choice)


def _require_call(tools: Sequence[AnyTool], tool_choice: str) -> Callable[[ChatRequest, str], ChatRequest] | None:
    """Return what changes the requests before the first call of a tool; `None` if the model may always answer."""
    if tool_choice == "auto":
        return None
    required = [tool for tool in tools if tool_choice in (INFERRED, "required", tool.name)]
    schema = decision_schema(required, answers=False)
    subjects = find_subjects(tools)

    def first(request: ChatRequest, asked: str) -> ChatRequest:
        if tool_choice == INFERRED and not needs_tool(asked, subjects):
            return request
        return replace(request, schema=schema)

    return first


def _example_messages(example: WorkedExample) -> Iterator[Message]:
    yield UserMessage(example.question)
    for tool, arguments, observation in example.calls:
        yield AssistantMessage(_write({"action": tool, "action_input": dict(arguments)}))
        yield UserMessage(f"Observation: {observation}")
    yield AssistantMessage(_write({"action": _ANSWER_ACTION, "answer": example.answer}))


def _write(decision: Mapping[str, Any]) -> str:
    return json.dumps(decision, ensure_ascii=False)


def decision_schema(
    tools: Sequence[AnyTool], max_answer: int | None = MAX_ANSWER, *, answers: bool = True
) -> dict[str, Any]:
    """Return the JSON schema of a decision: one branch per tool with its arguments, and one for the answer.

    The answer has at most `max_answer` characters; unless it `answers`, the decision is a call.
    """
    answer: dict[str, Any] = {"type": "string"} if max_answer is None else {"type": "string", "maxLength": max_answer}
    definitions: dict[str, Any] = {}
    branches: list[dict[str, Any]] = []
    for tool in tools:
        arguments = {key: value for key, value in tool.parameters.items() if key != "$defs"}
        for name, definition in tool.parameters.get("$defs", {}).items():
            definitions[f"{tool.name}.{name}"] = _prefix_references(definition, tool.name)
        branches.append(_branch(tool.name, "action_input", _prefix_references(arguments, tool.name)))
    if answers:
        branches.append(_branch(_ANSWER_ACTION, "answer", answer))
    schema: dict[str, Any] = {"anyOf": branches}
    if definitions:
        schema["$defs"] = definitions
    return schema


def _branch(action: str, field: str, value: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"action": {"const": action}, field: value},
        "required": ["action", field],
        "additionalProperties": False,
    }


def _prefix_references(schema: Mapping[str, Any], prefix: str) -> Any:
    # In JSON, the quotes of a string are escaped: this is no part of one.
    reference = '"$ref": "#/$defs/'
    return json.loads(json.dumps(schema).replace(reference, f"{reference}{json.dumps(prefix)[1:-1]}."))


# The members with the answer, as `read_fields` returns their names; the last one is also the input of a tool.
_ANSWERS = ("answer", "finalanswer", "actioninput")

# Extracts the answer while the reply streams.
make_answer_reader = partial(make_json_reader, _ANSWERS)


# The mark of a call, which a model may write before its decision, or another tag at the end of a text.
_MARK = compile_lazily(r"(?:<[|\w=]{1,60}>|\[\w{1,20}\])\s*\Z")
_MARK_END = compile_lazily(r"\A(?:\s{0,9}</\w{1,60}>)+")


def read(reply: ModelReply, tools: Collection[AnyTool] = ()) -> Decision:
    """Parse the only decision of the reply. The answer may also be the `action_input`, and any JSON but null and `{}`.

    The input may be null, and of a tool in `tools` without required arguments it may be missing. Raises `ParseError`
    for two different answers, an action with an answer, and any other invalid decision: even constrained output can be
    cut short.
    """
    text = separate_reasoning(reply).content.strip()
    found = find_decisions(text)
    if len(found) != 1:
        why = f"it has {len(found)} decisions; decide on one action at a time" if found else "it is not JSON"
        raise _unreadable(text, why)
    fields = read_decision_fields(found[0], reply, partial(_unreadable, text))
    action: str = fields["action"]
    names = {tool.name for tool in tools}
    tool = find_tool(action.strip(), names)
    before, after = text[: found[0].start], text[found[0].end :]
    beside = f"{before}\n{after}"
    if find_action(beside) or any(name != tool for name in find_named_tools(beside, names)):
        raise _unreadable(text, "it has another action")
    others = [item for region in find_regions(beside) for item in read_items(region)]
    # The label of the same action is no other call.
    parts = [
        part for part in (_MARK().sub("", before), _MARK_END().sub("", after)) if not find_named_tools(part, names)
    ]
    if has_decision(others, names) or any(_has_call(part, tools) for part in parts if part):
        raise _unreadable(text, "it has a tool call beside its decision")
    labelled = FINAL_ANSWER.patterns[Spelling.TRANSLATED].search(beside)
    given = fields.get("actioninput")
    answers = [fields[name] for name in _ANSWERS if name in fields and fields[name] not in (None, {})]
    later = (read_fields(item) for region in find_regions(after) for item in read_items(region))
    if any(one.get(name) not in (None, "", {}, *answers) for one in later for name in _ANSWERS):
        raise _unreadable(text, "it has other JSON with an input or an answer")
    if is_answer(action):
        # An empty string beside an answer is a member that was not filled in.
        answers = [answer for answer in answers if answer != ""] or answers
        if not answers:
            raise _unreadable(text, "it is a final_answer without an answer")
        if any(answer != answers[0] for answer in answers):
            raise _unreadable(text, "it has two answers")
        answer = answers[0]
        is_call = isinstance(answer, str) and any(name in answer for name in names) and _has_call(answer, tools)
        if is_call or has_decision(answer, names):
            raise _unreadable(text, "its answer is an action")
        _reject_members(fields, "final_answer", answers[0], names, text)
        if labelled and read_text_after(beside, labelled) not in ("", format_observation(answers[0])):
            raise _unreadable(text, "it has two answers")
        return AgentFinish({"output": format_observation(answers[0])}, text)
    if labelled or any(fields.get(name) not in (None, "", {}, []) for name in _ANSWERS[:-1]):
        raise _unreadable(text, "it has both an action and an answer")
    _reject_members(fields, action, given, names, text)
    optional = any(one.name == tool and not one.parameters.get("required") for one in tools)
    if given is None and ("actioninput" in fields or optional):
        given = {}
    if not isinstance(given, (dict, str)):
        raise _unreadable(text, "its action has no action_input")
    # The keys of a JSON object are strings.
    return (AgentAction(tool, given, text),)  # pyright: ignore[reportUnknownArgumentType]


def _has_call(text: str, tools: Collection[AnyTool]) -> bool:
    """Return whether a text has a call that a tool-calling agent reads or refuses."""
    try:
        return bool(read_textual_calls(ModelReply(text), tuple(tools)).tool_calls)
    except ParseError:
        return True


def _reject_members(fields: Mapping[str, Any], action: str, given: Any, names: Collection[str], text: str) -> None:
    """Raise `ParseError` if a member beside the action has another name, other arguments or another decision."""
    for name, value in fields.items():
        if name in ("action", *_ANSWERS) or value in (None, "", {}, []):
            continue
        differs = (name in NAME_KEYS and value != action) or (name in ARGUMENT_KEYS and value != given)
        if differs or has_decision(value, names):
            raise _unreadable(text, f"its member {name} is another decision")


def _unreadable(text: str, why: str) -> ParseError:
    form = (
        'Reply with one JSON object: {"action": "<tool>", "action_input": {...}} or '
        '{"action": "final_answer", "answer": "..."}'
    )
    return make_unreadable_error(why, text, form, prose="{" not in text)
