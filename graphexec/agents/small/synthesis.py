"""Synthesise worked examples from the names, schemas and docstrings of tools, so that small models can use them.

A model with less than a billion parameters learns the form of a decision from examples, and hardly from instructions.
It also copies their values, the dummies, into its calls: they belong to no question.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphexec.agents.prompt import describe_tools, validate_tools
from graphexec.agents.small.known_values import KnownText
from graphexec.tools import AnyTool, ToolExample
from graphexec.tools.schemas import alternatives

if TYPE_CHECKING:
    from graphexec.agents.small.values import ExampleValues

# Tools up to which each has two examples, and the most examples altogether: more would fill a small context.
_FEW, _MOST = 4, 12

# Bytes of the tools' descriptions and of the examples: of few tools, of five or six, and what each further one adds;
# and what examples have beside long descriptions. With the instructions, six tools take 850 tokens of the smallest
# model.
_SPACE_OF_FEW, _SPACE, _MORE_SPACE, _LEAST_SPACE = 3200, 2550, 400, 1900
_MANY = 6
# Bytes that take as many tokens as what is the same in every example: four messages, and the JSON in them.
_FRAME = 240


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question with its solution: tool calls as `(tool, arguments, observation)`, and the answer.

    A model sees it as a conversation.
    """

    question: str
    calls: tuple[tuple[str, Mapping[str, Any], str], ...]
    answer: str


GREETING = WorkedExample("Hello!", (), "Hello! How can I help you?")


def synthesised_examples(tools: Sequence[AnyTool]) -> tuple[WorkedExample, ...]:
    """Return the worked examples that a structured agent makes for these tools if it is given none.

    Two to four tools have two examples each: a question that names the arguments, and one in natural words. Other
    numbers of tools have one each, in natural words, up to eleven. Those of a tool's author (`@tool(examples=...)`)
    come first, and replace as many. A greeting, which needs no tool, comes last: after anything else, a small model
    answers thanks with the number of the last example.

    Values, observations and answers are invented: no tool is called. A tool has no example if a validator accepts only
    certain values, if its arguments are long or take long to make, or if the prompt would be long: with six tools, the
    first prompt has about 850 tokens of a small model at most, unless their descriptions are long.

    Raises `ToolDefinitionError` for invalid tools.
    """
    from graphexec.agents.small.questions import labelled_question, natural_question
    from graphexec.agents.small.values import ExampleValues

    several = validate_tools(tools)
    values = ExampleValues()
    # These forms, and this order, scored best on the smallest model: benchmarks/figures.md.
    forms = [labelled_question, natural_question] if 1 < len(several) <= _FEW else [natural_question]
    turns = max([len(forms), *(len(tool.examples) for tool in several)])
    examples: list[WorkedExample] = []
    space = _space(several)
    for turn, tool in itertools.product(range(turns), several):
        if len(examples) == _MOST - 1:
            break
        if is_given := turn < len(tool.examples):
            example = tool.examples[turn]
        elif turn < len(forms) and (arguments := values.arguments(tool, optional=turn > 0)) is not None:
            example = ToolExample(arguments)
        else:
            continue
        worked = _complete(tool, example, forms[min(turn, len(forms) - 1)], values)
        size = _FRAME + _bytes(json.dumps([worked.question, *worked.calls, worked.answer], ensure_ascii=False))
        if is_given or size <= space:
            examples.append(worked)
            space -= size
    return (*examples, GREETING)


def _space(tools: Sequence[AnyTool]) -> int:
    """Return the bytes that the examples of these tools may take."""
    together = _SPACE_OF_FEW if len(tools) <= _FEW else _SPACE + _MORE_SPACE * max(len(tools) - _MANY, 0)
    return max(together - _bytes(describe_tools(tools)), _LEAST_SPACE)


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _complete(
    tool: AnyTool, example: ToolExample, ask: Callable[[str, Mapping[str, Any]], str], values: ExampleValues
) -> WorkedExample:
    """Return the worked example, with what its author left out."""
    question = ask(tool.description, example.arguments) if example.question is None else example.question
    observation = values.observation(example.arguments) if example.observation is None else example.observation
    answer = observation if example.answer is None else example.answer
    return WorkedExample(question, ((tool.name, {**example.arguments}, observation),), answer)


def find_dummies(examples: Sequence[WorkedExample], tools: Sequence[AnyTool], prompt: str = "") -> tuple[Any, ...]:
    """Return the arguments of the examples' calls, and the answers without calls, such as that to a greeting.

    Enumerations are left out, because a model can only choose one of their values, and so is what the `prompt` says.
    """
    by_name = {tool.name: tool for tool in tools}
    instructions = KnownText(prompt)
    arguments = (
        value
        for example in examples
        for name, given, _ in example.calls
        for argument, value in given.items()
        if name in by_name and not is_choice(by_name[name], argument) and not instructions.has(value)
    )
    return (*(example.answer for example in examples if not example.calls), *arguments)


def find_strings_and_keys(value: Any, *, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the strings and the keys in JSON data, but not what the keys `without` lead to."""
    pending = [value]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case {**members}:
                pending += [*members, *(part for key, part in members.items() if key not in without)]
            case [*parts]:
                pending += parts
            case _:
                pass


def is_choice(tool: AnyTool, argument: str) -> bool:
    """Return whether a model can only choose an argument among listed values, or between true and false."""
    found = [*alternatives(tool.parameters["properties"].get(argument, {}), tool.parameters.get("$defs", {}))]
    listed = ("enum" in one or "const" in one or one.get("type") in ("boolean", "null") for one in found)
    return bool(found) and all(listed)
