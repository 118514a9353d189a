"""The forms of MCP servers as questions to a person: one for each field, and the answers as the data of the form."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec.errors import ToolDefinitionError
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
# What a person is told that a field takes, by its type and by its format. No answer fits a field of another type.
_TYPES = {
    "string": "text",
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
}
_FORMATS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "date": ("a date such as 2026-12-31", lambda text: text[4:8:3] == "--" and date.fromisoformat(text)),
    "date-time": ("a time such as 2026-12-31T12:00:00Z", lambda text: "T" in text and datetime.fromisoformat(text)),
    "email": ("an email address", re.compile(r"[^@\s]+@[^@\s]+").fullmatch),
    "uri": ("an address such as https://example.org", re.compile(r"[A-Za-z][\w+.-]*:\S+").fullmatch),
}
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
        for name, one in fields.items():
            if one.get("type", "string") not in [*_TYPES]:
                raise ToolDefinitionError(f"the form has the field {name} of the type {one['type']}; ask for scalars")
        required = frozenset[str](made.parameters.get("required", ()) if fields else _CONSENT)
        return cls(server, message, fields or _CONSENT, required, made.arguments)

    def ask(self, name: str, problem: str = "") -> str:
        """Return the question about a field; `problem` says why its last answer was invalid."""
        field = self.fields[name]
        label = ": ".join(str(text) for text in (field.get("title", name), field.get("description")) if text)
        empty = f"; if empty: {_write(field)}" if "default" in field else "" if name in self.required else "; optional"
        lines = [f"{self.server} asks: {self.message}", f"{label} ({_describe(field)}{empty})".strip()]
        if problem:
            lines.append(f"The last answer was invalid: {problem}")
        refusal = next((one for one in REFUSALS if one not in _known(field)), REFUSALS[0])
        return "\n".join([*map(_clean, lines), f"(To refuse, answer {refusal}.)"])

    def read(self, answers: Mapping[str, str]) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """Return the result of the form as JSON data, or `None` and the problems of fields by name."""
        content: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, text in answers.items():
            answer = text.strip()
            if answer.casefold() in REFUSALS and answer.casefold() not in _known(self.fields[name]):
                return {"action": answer.casefold()}, {}
            try:
                if not answer and "default" in self.fields[name]:
                    content[name] = self.fields[name]["default"]
                elif answer or name in self.required:
                    content[name] = _read(self.fields[name], answer)
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
            # What is wrong with the whole is told beside the first field.
            first, found = next(iter(self.fields)), error.errors(include_url=False)
            places = [str(one["loc"][0]) if one["loc"] else "" for one in found]
            return {
                place if place in self.fields else first: one["msg"] for place, one in zip(places, found, strict=True)
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
    names, kind = ", ".join(_choices(field)), field.get("type")
    if kind == "array":
        return f"some of {names}, with commas between them" if names else "a list, with commas between its items"
    if names:
        return f"one of {names}"
    return _FORMATS[field["format"]][0] if _has_format(field) else _TYPES[kind or "string"]


def _has_format(field: _Schema) -> bool:
    return field.get("type") == "string" and str(field.get("format")) in _FORMATS


def _write(field: _Schema) -> str:
    """Return the default of a field as a person would write it."""
    titles = {str(value): title for title, value in _choices(field).items()} | {"True": "yes", "False": "no"}
    several: list[Any] = field["default"] if type(field.get("default")) is list else [field["default"]]
    return ", ".join(titles.get(str(one), str(one)) for one in several)


def _read(field: _Schema, answer: str) -> Any:
    """Return the value that an answer means. Raises `ValueError` for another one than the field takes."""
    kind, known = field.get("type"), _known(field)
    if kind == "array":
        # Those in titles are no commas between choices.
        next_one = f"(?=(?:{'|'.join(map(re.escape, known))}) *(?:,|$))" if known else ""
        items = field["items"] if type(field.get("items")) is dict else _ANY
        return [_read(items, one) for one in re.split(rf" *, *{next_one}", answer, flags=re.IGNORECASE)]
    if known:
        if answer.casefold() in known:
            return known[answer.casefold()]
    elif kind in ("integer", "number"):
        with suppress(ValueError):
            # Whole numbers of any length are exact.
            return int(answer)
        with suppress(ValueError):
            number = float(answer)
            if math.isfinite(number):
                return int(number) if number.is_integer() else number
    else:
        with suppress(ValueError):
            if not _has_format(field) or _FORMATS[field["format"]][1](answer):
                return answer
    raise ValueError(f"{answer!r} is not {_describe(field)}")
