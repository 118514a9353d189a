"""Rules of calls: those that an executor checks before it calls tools, and whether a model must call one first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import Constraint, validate, validate_each
from graphexec.agents.examples import WorkedExample
from graphexec.errors import InputError, format_value
from graphexec.messages import Model
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
    """Return the arguments of the examples' calls, and the answers without calls, such as that to a greeting.

    Enumerations are left out: a model can only choose one of their values.
    """
    by_name = {tool.name: tool for tool in tools}
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    if answers := tuple(example.answer for example in examples if not example.calls):
        found["final_answer"] = {"answer": answers}
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


# Models that answer almost every question themselves, unless they must call a tool first. On ten tools with one
# argument, SmolLM2 with 135 million parameters gave 5 right answers of its own accord, and 8 when it had to call them.
_TINY = re.compile(r"smollm2?[-:]135m", re.IGNORECASE)

_WORD = re.compile(r"[^\W_]+")
# Words of small talk, mostly in the language of the tiny models.
_SMALL_TALK = frozenset(
    _WORD.findall(
        "a about afternoon all am an and are arigato awesome bye can ciao cool could danke did do does doing "
        "everything evening fine from glad good goodbye gracias great hallo hello help hey hi hola how i is it "
        "later lot m me meet merci morning much my name nice night no obrigado of oh ok okay please pleased "
        "pleasure re right s salut see so sorry sure t tell thank thanks that the there to too ve very was welcome "
        "well what who with wonderful yeah yes you your yourself "
    )
)


def validate_tool_choice(given: object, names: Sequence[str]) -> None:
    """Raise `InputError` unless `given` is auto, required, or the name of a tool."""
    choices = ("auto", *(["required"] if names else []), *names)
    words = f"auto, required, or the name of a tool: {', '.join(names)}" if names else "auto, since there are no tools"
    validate("", ("tool_choice", given, Constraint(words, lambda value: value in choices)))


def is_tiny(model: Model) -> bool:
    """Return whether a model, by its name, answers questions itself that it should ask a tool."""
    return _TINY.search(str(getattr(model, "name", ""))) is not None


def is_small_talk(text: str) -> bool:
    """Return whether a text is only a greeting, thanks, or a question about the agent: "Hello, how are you?"."""
    return _SMALL_TALK.issuperset(_WORD.findall(text.casefold()))
