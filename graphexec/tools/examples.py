"""Examples of a tool's use, which its author gives and every agent shows to its model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphexec.errors import GraphexecError, ToolDefinitionError, described, format_value

if TYPE_CHECKING:
    from graphexec.tools.tool import AnyTool


@dataclass(frozen=True, slots=True)
class ToolExample:
    """A call of a tool: its `arguments` as JSON data, and optionally a `question` that the call helps to answer.

    `observation` is what the tool returned, as text, and `answer` is the answer to the question. Structured agents show
    all of it as a worked example, and invent what is missing; other agents show the arguments.
    """

    arguments: Mapping[str, Any]
    question: str | None = None
    observation: str | None = None
    answer: str | None = None


def check_examples(tool: AnyTool) -> AnyTool:
    """Return the tool with its examples read; a dict stands for the arguments alone.

    Raises `ToolDefinitionError` for other values, for arguments that do not fit the tool, and for texts that are not
    strings.
    """
    # Users without a type checker pass anything.
    given: Any = tool.examples
    if isinstance(given, (str, Mapping, ToolExample)) or not isinstance(given, Iterable):
        raise ToolDefinitionError(
            f"{tool.name} has examples={format_value(tool.examples)}; give a list of arguments, such as "
            f"[{_make_sample(tool.names)}], or of ToolExample"
        )
    several: list[Any] = list(given)  # pyright: ignore[reportUnknownArgumentType]
    if not several:
        return tool
    return dataclasses.replace(
        tool, examples=tuple(_read_example(tool, number, one) for number, one in enumerate(several, 1))
    )


def _read_example(tool: AnyTool, number: int, given: Any) -> ToolExample:
    example = given if isinstance(given, ToolExample) else ToolExample(given)
    subject = f"example {number} of {tool.name}"
    # A string is a valid input of a tool of one argument, but an example names its arguments.
    if not isinstance(example.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(
            f"{subject} is {format_value(given)}; give its arguments by name, such as {_make_sample(tool.names)}"
        )
    for name in ("question", "observation", "answer"):
        text: object = getattr(example, name)
        if text is not None and not isinstance(text, str):
            raise ToolDefinitionError(f"{subject} has {name}={format_value(text)}; give a string, or leave it out")
    try:
        tool.read(example.arguments)
        json.dumps(dict(example.arguments))
    except TypeError as error:
        raise ToolDefinitionError(f"{subject} has arguments that are not JSON: {error}; write them as JSON") from error
    # The arguments do not fit, or a validator of the user's rejects them with any exception.
    except Exception as error:
        why = str(error) if isinstance(error, GraphexecError | ValueError) else described(error)
        raise ToolDefinitionError(f"{subject} does not fit it: {why}") from error
    return example


def _make_sample(names: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}": ...' for name in names) + "}"


def describe_examples(tool: AnyTool) -> str:
    """Return the arguments of a tool's examples as text for a model; empty if it has none."""
    calls = [json.dumps(dict(one.arguments), ensure_ascii=False) for one in tool.examples]
    return f"For example: {', '.join(calls)}" if calls else ""
