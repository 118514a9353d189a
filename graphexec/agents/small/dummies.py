"""The values of worked examples, which belong to no question: a small model copies them into its calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from graphexec.agents.small.known_values import KnownText
from graphexec.agents.small.synthesis import WorkedExample
from graphexec.tools import AnyTool

# The arguments in worked examples, by tool and argument.
Dummies: TypeAlias = Mapping[str, Mapping[str, tuple[Any, ...]]]


def find_dummies(examples: Sequence[WorkedExample], tools: Sequence[AnyTool], prompt: str = "") -> Dummies:
    """Return the arguments of the examples' calls, and the answers without calls, such as that to a greeting.

    Enumerations are left out, because a model can only choose one of their values, and so is what the `prompt` says.
    """
    by_name = {tool.name: tool for tool in tools}
    instructions = KnownText(prompt)
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    if answers := tuple(example.answer for example in examples if not example.calls):
        found["final_answer"] = {"answer": answers}
    for example in examples:
        for name, arguments, _ in example.calls:
            if (tool := by_name.get(name)) is None:
                continue
            for argument, value in arguments.items():
                if not is_choice(tool, argument) and not instructions.has(value):
                    values = found.setdefault(name, {})
                    values[argument] = (*values.get(argument, ()), value)
    return found


def find_declared_strings(tool: AnyTool) -> frozenset[str]:
    """Return the names and values that a tool's schema lists at any depth, which a model does not make up."""
    return frozenset(find_strings_and_keys(tool.parameters, without=("description", "title", "examples")))


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
    return _is_choice(tool.parameters["properties"].get(argument, {}), tool.parameters.get("$defs", {}))


def _is_choice(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    match schema:
        case {"enum": _} | {"const": _} | {"type": "boolean" | "null"}:
            return True
        case {"$ref": str(reference)}:
            name = reference.removeprefix("#/$defs/")
            # A definition may refer to itself.
            others = {other: definition for other, definition in definitions.items() if other != name}
            return _is_choice(definitions.get(name, {}), others)
        case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
            return all(_is_choice(branch, definitions) for branch in branches)
        case _:
            return False
