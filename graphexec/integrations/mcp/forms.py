"""The forms of MCP servers as questions to a person: one for each field, and the answers as the data of the form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec.tools import tool_from_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Characters of a server's text in a question.
_LONGEST = 2_000
# What a person writes instead of an answer; the server is told so.
REFUSALS = ("decline", "cancel")
_FLAGS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}

# The schema of a field: its values are arbitrary JSON.
_Schema: TypeAlias = Mapping[str, Any]
# Stands for the schema `true`, and for `false`, which no answer fits.
_ANY: _Schema = {}
# A form without fields asks for consent.
_CONSENT: Mapping[str, _Schema] = {"": {"type": "boolean"}}


@final
@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """A form of a server: its message, and its fields, the schemas of scalars and lists of strings by name."""

    server: str
    message: str
    fields: Mapping[str, _Schema]
    required: frozenset[str]
    arguments: TypeAdapter[Any]

    @classmethod
    def read_schema(cls, server: str, message: str, schema: _Schema) -> ElicitationForm:
        """Return the form of a schema. Raises `ToolDefinitionError` for an invalid one."""
        # A tool has arguments of the same schema, whose patterns are searched in linear time.
        made = tool_from_schema("the form", message or "the form", schema, _ignore)
        given: Mapping[str, _Schema | bool] = made.parameters["properties"]
        fields = {name: _ANY if isinstance(one, bool) else one for name, one in given.items()}
        required = frozenset[str](made.parameters.get("required", ()) if fields else _CONSENT)
        return cls(server, message, fields or _CONSENT, required, made.arguments)

    def ask(self, name: str, problem: str = "") -> str:
        """Return the question about a field; `problem` says why its last answer was invalid."""
        field = self.fields[name]
        label = ": ".join(str(text) for text in (field.get("title", name), field.get("description")) if text)
        empty = "" if name in self.required else f"; if empty: {_write(field)}" if "default" in field else "; optional"
        lines = [f"{self.server} asks: {self.message}", f"{label} ({_describe(field)}{empty})".strip()]
        if problem:
            lines.append(f"The last answer was invalid: {problem}")
        return "\n".join([*map(_clean, lines), f"(To refuse, answer {REFUSALS[0]}.)"])

    def read(self, answers: Mapping[str, str]) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """Return the result of the form as JSON data, or `None` and the problems of fields by name."""
        content: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, text in answers.items():
            answer = text.strip()
            if answer.casefold() in REFUSALS and answer.casefold() not in _known(self.fields[name]):
                return {"action": answer.casefold()}, {}
            try:
                if answer or name in self.required:
                    content[name] = _read(self.fields[name], answer)
                elif "default" in self.fields[name]:
                    content[name] = self.fields[name]["default"]
            except ValueError as error:
                problems[name] = str(error)
        if self.fields is _CONSENT and not problems:
            return ({"action": "accept", "content": {}} if content[""] else {"action": REFUSALS[0]}), {}
        problems = problems or self._find_problems(content)
        return (None, problems) if problems else ({"action": "accept", "content": content}, {})

    def _find_problems(self, content: Mapping[str, Any]) -> dict[str, str]:
        from pydantic import ValidationError

        try:
            self.arguments.validate_python(content)
        except ValidationError as error:
            details = error.errors(include_url=False)
            places = [str(one["loc"][0]) if one["loc"] else "" for one in details]
            # What is wrong with the whole is told beside the first field.
            first = next(iter(self.fields))
            return {
                place if place in self.fields else first: one["msg"] for place, one in zip(places, details, strict=True)
            }
        return {}


def _ignore(**arguments: object) -> None:
    """Stand for the function of a tool, of which only the arguments are read."""


def _clean(text: str) -> str:
    """Return a server's text without characters that could control a terminal, cut at `_LONGEST`."""
    shown = "".join(one for one in text[: _LONGEST + 1] if one.isprintable() or one == "\n")
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def _choices(field: _Schema) -> dict[str, Any]:
    """Return the values that may be chosen by their titles; empty for a field without a choice."""
    among: _Schema = field["items"] if type(field.get("items")) is dict else field
    either: list[Any] = among.get("oneOf", among.get("anyOf", []))
    titled: list[_Schema] = [one for one in either if type(one) is dict and "const" in one]
    values: list[Any] = [one["const"] for one in titled] or among.get("enum", [])
    names: list[Any] = among["enumNames"] if type(among.get("enumNames")) is list else values
    titles: list[Any] = [one.get("title", one["const"]) for one in titled] or names
    return {str(title): value for title, value in zip(titles, values, strict=False)}


def _known(field: _Schema) -> dict[str, Any]:
    """Return the only values that a field takes by what may be written for them, in lower case; empty for any value."""
    choices = _choices(field)
    if not choices:
        return _FLAGS if field.get("type") == "boolean" else {}
    by_value = {str(value).casefold(): value for value in choices.values()}
    return by_value | {title.casefold(): value for title, value in choices.items()}


def _describe(field: _Schema) -> str:
    """Return what a field takes."""
    names = ", ".join(_choices(field))
    kind = field.get("type")
    if kind == "array":
        return f"some of {names}, with commas between them"
    if names:
        return f"one of {names}"
    known = {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}
    return known.get(str(kind)) or str(field.get("format", "text"))


def _write(field: _Schema) -> str:
    """Return the default of a field as a person would write it."""
    titles = {str(value): title for title, value in _choices(field).items()} | {"True": "yes", "False": "no"}
    several: list[Any] = field["default"] if type(field.get("default")) is list else [field["default"]]
    return ", ".join(titles.get(str(one), str(one)) for one in several)


def _read(field: _Schema, answer: str) -> Any:
    """Return the value that an answer means. Raises `ValueError` for another one than the field takes."""
    kind, known = field.get("type"), _known(field)
    values: list[Any] = [one.strip() for one in answer.split(",")] if kind == "array" else [answer]
    if known:
        if unknown := [one for one in values if one.casefold() not in known]:
            raise ValueError(f"{unknown[0]!r} is not {_describe(field)}")
        values = [known[one.casefold()] for one in values]
    if kind == "array":
        return values
    if kind not in ("integer", "number"):
        return values[0]
    try:
        number = float(answer)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{answer!r} is not a number")
    return int(number) if number.is_integer() else number
