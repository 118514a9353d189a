"""The names of the rules that an executor checks before it calls tools, and what they compare arguments with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import validate_each
from graphexec.agents.examples.worked import WorkedExample
from graphexec.errors import InputError, format_value
from graphexec.tools import AnyTool

# - no_dummies: no argument is copied from a worked example.
# - no_repeats: a call that has succeeded is not made again with the same arguments.
# - no_immediate_repeats: nor is it made again before another tool has returned a result, which may change its own.
RuleName: TypeAlias = Literal["no_dummies", "no_repeats", "no_immediate_repeats"]

# The arguments in worked examples, by tool and argument.
Dummies: TypeAlias = Mapping[str, Mapping[str, tuple[Any, ...]]]


def validate_rules(rules: Sequence[RuleName]) -> tuple[RuleName, ...]:
    """Return the names of rules. Raises `InputError` for other values, and for both rules against repetitions."""
    known = ", ".join(get_args(RuleName))
    for name in validate_each("rules", rules, str, f"names of rules: {known}"):
        if name not in get_args(RuleName):
            raise InputError(f"rules has {format_value(name)}; give names of {known}")
    if "no_repeats" in rules and "no_immediate_repeats" in rules:
        raise InputError("rules has no_repeats and no_immediate_repeats; give one of them")
    return tuple(rules)


def find_dummies(examples: Sequence[WorkedExample], tools: Sequence[AnyTool]) -> Dummies:
    """Return the arguments of the examples' calls, except for enumerations: a model can only choose one of those."""
    by_name = {tool.name: tool for tool in tools}
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for example in examples:
        for name, arguments, _ in example.calls:
            if (tool := by_name.get(name)) is None:
                continue
            for argument, value in arguments.items():
                if not is_choice(tool, argument):
                    values = found.setdefault(name, {})
                    values[argument] = (*values.get(argument, ()), value)
    return found


def is_choice(tool: AnyTool, argument: str) -> bool:
    """Return whether a model can only choose an argument among listed values, or between true and false."""
    return _is_choice(tool.parameters["properties"].get(argument, {}), tool.parameters.get("$defs", {}))


def _is_choice(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    match schema:
        case {"enum": _} | {"const": _} | {"type": "boolean" | "null"}:
            return True
        case {"$ref": str(reference)}:
            return _is_choice(definitions.get(reference.removeprefix("#/$defs/"), {}), {})
        case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
            return all(_is_choice(branch, definitions) for branch in branches)
        case _:
            return False
