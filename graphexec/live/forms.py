"""Forms for the questions of stored runs, made of the JSON schemas of their replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, final

from graphexec.draw.model.text import sanitize_lines
from graphexec.runs.questions import find_problems

# The name of the field of a whole reply.
REPLY: Final = "reply"
# More choices are a list that opens.
_RADIOS = 7
# Objects in objects in objects are written as JSON.
_DEEP = 3
# In place of the value of a field that was left empty.
_ABSENT: Final = object()


def safe(text: object) -> str:
    """Return text for HTML; characters that are invisible or change the direction of others become `�`."""
    return escape("\n".join(sanitize_lines(str(text))))


@final
class ReplyForm:
    """The form of a schema: as HTML, with the `given` texts of an invalid reply, and the reply in such texts."""

    def __init__(self, schema: Mapping[str, Any], given: Mapping[str, str] | None = None) -> None:
        self._schema, self._known = schema, schema.get("$defs", {})
        self._given = given or {}
        # By field.
        self.problems: dict[str, str] = {}

    def read(self) -> Any:
        """Return the reply, and note the `problems` of the fields."""
        return self._read(self._schema, REPLY, required=True)

    def html(self) -> str:
        """Return the fields."""
        return self._field(self._schema, REPLY, "", required=True)

    def _resolve(self, schema: Any) -> Mapping[str, Any]:
        """Return the schema behind a reference, and behind a choice between one and null."""
        rules = _rules(schema)
        if "$ref" in rules:
            return self._resolve(self._known.get(str(rules["$ref"]).rpartition("/")[2]))
        several: Sequence[Any] = rules.get("anyOf") or rules.get("oneOf") or ()
        others = [one for one in several if one != {"type": "null"}]
        return self._resolve(others[0]) if len(others) == 1 else {} if several else rules

    def _members(self, rules: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return the fields of an object that has a form of its own."""
        members: Mapping[str, Any] = rules.get("properties") or {}
        return members if rules.get("type") == "object" and name.count(".") < _DEEP else {}

    def _read(self, schema: Any, name: str, *, required: bool) -> Any:
        rules = self._resolve(schema)
        if members := self._members(rules, name):
            needed = rules.get("required", ())
            read = {
                one: self._read(part, f"{name}.{one}", required=required and one in needed)
                for one, part in members.items()
            }
            # An optional object without any of its fields is absent.
            found = {one: value for one, value in read.items() if value is not _ABSENT}
            return found if required or found else _ABSENT
        text = self._given.get(name, "").replace("\r\n", "\n")
        plain = rules.get("type") == "string" and _choices(rules) is None
        if not text and not (plain and required and name != REPLY):
            if required:
                self.problems[name] = "give an answer"
            return _ABSENT
        try:
            value = text if plain else json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.problems[name] = f"this is not {_TYPES.get(str(rules.get('type')), 'JSON')}"
            return _ABSENT
        problem = next(find_problems(schema, value, self._known, "it"), None)
        if problem is not None:
            self.problems[name] = problem
        return value

    def _field(self, schema: Any, name: str, label: str, *, required: bool) -> str:
        rules = self._resolve(schema)
        own = _rules(schema)
        hints = [] if required else ["optional"]
        if name != REPLY:
            hints += str(own.get("description") or rules.get("description") or "").split("\n\n")[:1]
        hint = f"<small>{safe('; '.join(filter(None, hints)))}</small>" if any(hints) else ""
        if members := self._members(rules, name):
            needed = rules.get("required", ())
            inner = "".join(
                self._field(part, f"{name}.{one}", one, required=one in needed) for one, part in members.items()
            )
            legend = f"<legend>{safe(label)} {hint}</legend>" if label else ""
            return f"<fieldset>{legend}{inner}</fieldset>"
        title = f"<span>{safe(label)} {hint}</span>" if label else ""
        problem = self.problems.get(name)
        told = f'<strong class="problem" role="alert">{safe(problem)}</strong>' if problem else ""
        choices = _choices(rules)
        if choices is None or len(choices) > _RADIOS:
            return f'<label class="field">{title}{self._control(rules, name, choices, label)}{told}</label>'
        given = self._given.get(name)
        boxes = "".join(
            f'<label class="choice"><input type="radio" name="{safe(name)}" value="{escape(value)}"'
            f"{' checked' if value == given else ''}>{safe(text)}</label>"
            for value, text in choices
        )
        return f'<div class="field" role="radiogroup" aria-label="{safe(label or "answer")}">{title}{boxes}{told}</div>'

    def _control(
        self, rules: Mapping[str, Any], name: str, choices: Sequence[tuple[str, str]] | None, label: str
    ) -> str:
        given = self._given.get(name, "")
        named = f'name="{safe(name)}" aria-label="{safe(label or "answer")}"'
        if choices is not None:
            options = "".join(
                f'<option value="{escape(value)}"{" selected" if value == given else ""}>{safe(text)}</option>'
                for value, text in choices
            )
            return f'<select {named}><option value=""></option>{options}</select>'
        kind = rules.get("type")
        if kind in ("integer", "number"):
            step = "1" if kind == "integer" else "any"
            return f'<input type="number" step="{step}" {named} value="{escape(given)}">'
        hint = "" if kind == "string" else ' placeholder="JSON" class="json" spellcheck="false"'
        # A browser drops a line end right behind the tag.
        return f'<textarea rows="2" {named}{hint}>\n{escape(given)}</textarea>'


# The words for what is not JSON.
_TYPES: Mapping[str, str] = {"integer": "a whole number", "number": "a number"}


def _rules(schema: Any) -> Mapping[str, Any]:
    """Return a schema as a mapping: `True` and a missing one allow anything."""
    return {} if schema is None or isinstance(schema, bool) else schema


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _choices(rules: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return the values that fit, as JSON, and their texts; `None` for a schema that does not list them."""
    if rules.get("type") == "boolean":
        return [("true", "yes"), ("false", "no")]
    values: Sequence[Any] | None = [rules["const"]] if "const" in rules else rules.get("enum")
    if values is None:
        return None
    return [(json.dumps(one), one if isinstance(one, str) else json.dumps(one)) for one in values]
