"""Synthesise worked examples from the names, schemas and docstrings of tools, so that small models can use them.

A model with less than a billion parameters learns the form of a decision from examples, and hardly from instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphexec.agents.examples.questions import labelled_question, natural_question
from graphexec.agents.examples.values import ExampleValues
from graphexec.agents.prompt import validate_tools
from graphexec.tools import AnyTool, ToolExample

# Tools up to which each has two examples, and the most examples altogether: more would fill a small context.
_FEW, _MOST = 4, 12


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
    come first, and replace as many. A greeting, which needs no tool, comes last; if there is a single tool, it comes
    before the last example.

    Values, observations and answers are invented: no tool is called. A tool has no example if a validator accepts only
    certain values, or if its arguments are long or take long to make.

    Raises `ToolDefinitionError` for invalid tools.
    """
    several = validate_tools(tools)
    values = ExampleValues()
    # These forms, and this order, scored best on the smallest model: benchmarks/figures.md.
    alone = len(several) == 1
    forms = [labelled_question, natural_question] if not alone and len(several) <= _FEW else [natural_question]
    examples: list[WorkedExample] = []
    for turn in range(max([len(forms), *(len(tool.examples) for tool in several)])):
        ask = forms[min(turn, len(forms) - 1)]
        for tool in several:
            if turn < len(tool.examples):
                examples.append(_complete(tool, tool.examples[turn], ask, values))
            elif turn < len(forms) and (arguments := values.arguments(tool, optional=turn > 0)) is not None:
                examples.append(_complete(tool, ToolExample(arguments), ask, values))
    shown = examples[: _MOST - 1]
    return (*shown[:-1], GREETING, *shown[-1:]) if alone else (*shown, GREETING)


def _complete(
    tool: AnyTool, example: ToolExample, ask: Callable[[str, Mapping[str, Any]], str], values: ExampleValues
) -> WorkedExample:
    """Return the worked example, with what its author left out."""
    question = ask(tool.description, example.arguments) if example.question is None else example.question
    observation = values.observation(example.arguments) if example.observation is None else example.observation
    answer = observation if example.answer is None else example.answer
    return WorkedExample(question, ((tool.name, example.arguments, observation),), answer)
