"""Prompts: plain templates, whose variables are validated when the agent is made."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphexec._arguments import MODEL, STRING, LangChainObject, validate
from graphexec.agents.conversation import parse_messages
from graphexec.errors import InputError, ToolDefinitionError, format_value
from graphexec.messages import transcript
from graphexec.messages.observations import format_observation
from graphexec.tools import AnyTool, tools_by_name
from graphexec.tools.options import describe_examples

__all__ = ["Template", "describe_tools", "format_observation", "names_of", "parse_template"]


@dataclass(frozen=True)
class Template:
    """A text with `{variables}`; `{{` and `}}` stand for braces. `parts` are pairs of literal text and variable."""

    parts: tuple[tuple[str, str | None], ...]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in order, without repetitions."""
        return tuple(dict.fromkeys(name for _, name in self.parts if name is not None))

    def render(self, values: Mapping[str, object], *, ai: str = "AI") -> str:
        """Return the text with every variable replaced by its value.

        Messages are written as a transcript in which the agent is called `ai`; an empty list becomes an empty string.
        Raises `InputError` for a variable without a value.
        """
        if missing := [name for name in self.variables if name not in values]:
            known = ", ".join(f"{{{name}}}" for name in values)
            raise InputError(f"a template has {{{missing[0]}}}, but there is only {known}", missing=missing)
        return "".join(
            [text if name is None else f"{text}{_format_value(values[name], ai)}" for text, name in self.parts]
        )


def _format_value(value: object, ai: str) -> str:
    messages = parse_messages(value)
    return f"{value}" if messages is None else transcript(messages, ai=ai)


def parse_template(text: str, *, required: Sequence[str], name: str = "prompt") -> Template:
    """Parse a template; error messages call it `name`.

    Raises `InputError` if a `required` variable is missing, or if the text is not a template.
    """
    validate("", (f"the {name}", text, STRING))
    try:
        read_parts = tuple(string.Formatter().parse(text))
    except ValueError as error:
        raise InputError(f"the {name} is not a template: {error}; write {{{{ and }}}} for braces") from None
    odd = [
        f"{variable}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
        for _, variable, form, conversion in read_parts
        if variable is not None and (form or conversion or not variable.isidentifier())
    ]
    if odd:
        raise InputError(
            f"the {name} has the variable {{{odd[0]}}}, which is not a name; write {{{{ and }}}} for braces"
        )
    read = Template(tuple((literal, variable) for literal, variable, _, _ in read_parts))
    missing = [variable for variable in required if variable not in read.variables]
    if missing:
        wanted = ", ".join(f"{{{variable}}}" for variable in missing)
        raise InputError(f"the {name} lacks {wanted}; write it where it belongs in the text", missing=missing)
    return read


def describe_tools(tools: Sequence[AnyTool]) -> str:
    """Return the tools' descriptions for a model, one on each line: `name(argument: type) - description`.

    The examples of a tool follow its description.
    """
    return "\n".join(
        " ".join(f"{tool.signature} - {tool.description} {describe_examples(tool)}".split()) for tool in tools
    )


def names_of(tools: Sequence[AnyTool]) -> frozenset[str]:
    """Return the names of the tools, by which parsers know them."""
    return frozenset(tool.name for tool in tools)


def validate_tools(tools: Iterable[AnyTool | LangChainObject]) -> tuple[AnyTool, ...]:
    """Return the tools. Raises `ToolDefinitionError` as `tools_by_name` does, and for a model instead of tools."""
    reject_model(tools)
    return tuple(tools_by_name(tools).values())


def reject_model(tools: object) -> None:
    """Raise `ToolDefinitionError` for a model instead of tools."""
    if MODEL.fits(tools):
        raise ToolDefinitionError(f"tools is the model {format_value(tools)}; give the model first, and then the tools")
