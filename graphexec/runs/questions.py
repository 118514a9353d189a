"""The questions of stored runs: what they ask, which replies fit, and what a run returns that waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, final

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import Effect
from graphexec.kernel.serialization import SERIALIZATION_ERRORS, load_reply, reply_adapter
from graphexec.runs.errors import RunStoreError

# The reply to a question about a call in doubt that makes the call again.
RETRY: Final = "retry"


@final
@dataclass(frozen=True, slots=True)
class Question:
    """An open question of a stored run, for `store.reply(question.run_id, question.key, value)`.

    `run_id` is the run that was started, and `key` is unique in it. `node` asks for the `effect`, whose fields are the
    `details`; `text` says it in words, which are those of `str(effect)` if its class defines `__str__`. `schema` is the
    JSON schema of the replies. `asked_at` and `expires_at` are in seconds since the epoch; after that the reply is the
    `default`.
    """

    run_id: str
    key: str
    node: str
    effect: str
    text: str
    details: Any
    schema: Mapping[str, Any]
    asked_at: float
    expires_at: float | None = None
    default: Any = None

    @property
    def choices(self) -> tuple[Any, ...]:
        """The only replies that fit, if the schema lists them, or those to the only field that a reply has to have."""
        return tuple(_find_choices(self.schema)[1])

    def __str__(self) -> str:
        """Return all that a person has to know, on one line without characters that could control a terminal."""
        text, choices = self.text, ", ".join(map(str, self.choices))
        if not all(str(one) in text for one in self.choices):
            text += f" ({choices})"
        if self.expires_at is not None:
            until = datetime.fromtimestamp(self.expires_at).astimezone()
            default = json.dumps(self.default, ensure_ascii=False)
            what = "it goes on" if self.default is None else f"the answer is {default}"
            text += f" (at {until:%Y-%m-%d %H:%M:%S} {what})"
        return " ".join("".join(one if one.isprintable() else " " for one in text).split())

    def to_json(self) -> str:
        """Return what is stored of it besides its place and its times."""
        names = ("node", "effect", "text", "details", "schema", "default")
        return json.dumps({name: getattr(self, name) for name in names})

    def read(self, value: object) -> str:
        """Return a reply as JSON. Raises `InputError` for one that does not fit the schema.

        One of the `choices` stands for an object in which only that field is given: "approve" for a `Review`.
        """
        try:
            data = to_jsonable_python(value, by_alias=True)
            json.dumps(data)
        except SERIALIZATION_ERRORS as error:
            raise InputError(f"the reply {format_value(value)} cannot be stored: {error}") from None
        field, choices = _find_choices(self.schema)
        if field and choices and not isinstance(data, dict):
            data = {field: data}
        problem = next(find_problems(self.schema, data, self.schema.get("$defs", {}), "the reply"), None)
        if problem is not None:
            raise InputError(f"{problem}; {self.key} asks: {self}")
        return json.dumps(data)


@final
@dataclass(frozen=True, slots=True)
class Waiting:
    """What a stored run returns that waits for answers: its id, and its open questions.

    Answer them with `store.reply`, from any process, then run it again by its id.
    """

    run_id: str
    questions: tuple[Question, ...]

    def __str__(self) -> str:
        several = f"{len(self.questions)} answers" if self.questions[1:] else "an answer"
        remedy = f"reply with store.reply({self.run_id!r}, key, value), then run it again by its id"
        lines = [f"  {one.key}: {one}" for one in self.questions]
        return "\n".join([f"the run {self.run_id} waits for {several}; {remedy}", *lines])

    def to_error(self) -> RunStoreError:
        """Return the error of a caller who gets nothing but the answer of the run."""
        return RunStoreError(self.run_id, str(self).removeprefix(f"the run {self.run_id} "))


class _ReplySchema(GenerateJsonSchema):
    """The schema of replies; what pydantic cannot describe may be any JSON."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        del schema, error_info
        return {}


def make_question(run_id: str, key: str, node: str, effect: Effect[Any], now: float, *, in_doubt: bool) -> Question:
    """Return the question that an effect without a handler is, or a call `in_doubt` that a person decides about."""
    kind: Any = type(effect)
    is_tool = isinstance(effect, CallTool)
    details: Any = None
    with suppress(*SERIALIZATION_ERRORS):
        known = {"name": effect.name, "tool_input": effect.tool_input} if isinstance(effect, CallTool) else effect
        details = to_jsonable_python(known)
    adapter: TypeAdapter[Any] = reply_adapter(kind)
    # A person writes the observation of a tool.
    schema: dict[str, Any] = {"type": "string"} if is_tool else adapter.json_schema(schema_generator=_ReplySchema)
    if effect.reply_choices:
        schema = _limit_choices(schema, effect.reply_choices)
    text = _describe_effect(effect, details)
    if in_doubt:
        text += " was interrupted, and it is not known whether it was carried out. "
        text += f"Reply {RETRY} to make the call again, or with its result."
        if schema != {"type": "string"}:
            schema = {"anyOf": [{"const": RETRY}, schema], "$defs": schema.pop("$defs", {})}
    question = Question(run_id, key, node, kind.__name__, text, details, schema, now)
    if effect.expiry is None:
        return question
    seconds, default = effect.expiry
    return replace(question, expires_at=now + seconds, default=adapter.dump_python(default, mode="json", by_alias=True))


def _describe_effect(effect: Effect[Any], details: Any) -> str:
    kind = type(effect)
    if kind.__str__ is not object.__str__:
        return str(effect)
    fields: dict[str, Any] = details or {}
    shown = [f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in fields.items() if one not in ("", None)]
    return f"{kind.__name__}({', '.join(shown)})"


def load_answer(effect: Effect[Any], text: str) -> Any:
    """Return the reply to an effect that was stored as JSON. Raises `InputError` if its class refuses it."""
    kind: Any = type(effect)
    if isinstance(effect, CallTool):
        return ToolResult(json.loads(text))
    try:
        return reply_adapter(kind).validate_json(text, strict=True, by_alias=True, by_name=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            # A lone surrogate, which pydantic's parser rejects.
            return load_reply(effect, {"data": json.loads(text)})
        raise InputError(": ".join([*map(str, first["loc"]), first["msg"].removeprefix("Value error, ")])) from None
    # A user's class may raise any exception.
    except Exception as error:
        raise InputError(str(error) or type(error).__name__) from error


# Any: a JSON schema, here and below.
def _resolve(schema: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
    rules: Any = {} if schema in (None, True, False) else schema
    while "$ref" in rules:
        rules = known.get(str(rules["$ref"]).rpartition("/")[2], {})
    resolved: Mapping[str, Any] = rules
    return resolved


def _find_choices(schema: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """Return the values to choose from, and the only required field whose they are; empty for the reply itself."""
    known: Mapping[str, Any] = schema.get("$defs", {})
    rules, field = _resolve(schema, known), ""
    required: list[str] = rules.get("required", [])
    if len(required) == 1:
        field = required[0]
        rules = _resolve(rules["properties"][field], known)
    return field, [rules["const"]] if "const" in rules else rules.get("enum", [])


def _limit_choices(schema: dict[str, Any], choices: Sequence[str]) -> dict[str, Any]:
    """Return the schema with only these choices."""
    field, _ = _find_choices(schema)
    only = {"type": "string", "enum": [*choices]}
    if not field:
        return only
    known: Mapping[str, Any] = schema.get("$defs", {})
    rules = _resolve(schema, known)
    return {**rules, "properties": {**rules["properties"], field: only}, "$defs": known}


# The classes of each type of JSON schema; bool is no number.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def find_problems(schema: Any, data: Any, known: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield what in the data does not fit a JSON schema of pydantic; what it does not know, it lets pass.

    A process that answers a question does not need the class of the reply, which is read when the run goes on.
    """
    rules = _resolve(schema, known)
    several: Sequence[Any] = rules.get("anyOf") or rules.get("oneOf") or ()
    if several:
        if all(next(find_problems(one, data, known, place), None) is not None for one in several):
            yield f"{place} is {format_value(data)}; give one of {', '.join(map(_describe, several))}"
        return
    choices: Sequence[Any] | None = [rules["const"]] if "const" in rules else rules.get("enum")
    if choices is not None and data not in choices:
        yield f"{place} is {format_value(data)}; choose one of {', '.join(map(str, choices))}"
    kinds = _TYPES.get(str(rules.get("type")), ())
    if kinds and (not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds)):
        yield f"{place} is {format_value(data)}; give {_describe(rules)}"
    elif isinstance(data, list):
        items = list[Any](data)  # pyright: ignore[reportUnknownArgumentType]
        for number, one in enumerate(items):
            yield from find_problems(rules.get("items"), one, known, f"{place}[{number}]")
    elif isinstance(data, dict):
        given = dict[str, Any](data)  # pyright: ignore[reportUnknownArgumentType]
        yield from _find_problems_in_fields(rules, given, known, place)


def _find_problems_in_fields(
    rules: Mapping[str, Any], given: Mapping[str, Any], known: Mapping[str, Any], place: str
) -> Iterator[str]:
    fields: Mapping[str, Any] = rules.get("properties", {})
    others: Any = rules.get("additionalProperties")
    yield from (f"{place} has no {name}; give one" for name in rules.get("required", ()) if name not in given)
    for name, one in given.items():
        if name not in fields and others is False:
            yield f"{place} has {name}, which is none of its fields {', '.join(fields)}; leave it out"
        else:
            yield from find_problems(fields.get(name, others), one, known, f"{place}.{name}")


def _describe(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if fields := schema.get("properties"):
        return f"an object with {', '.join(fields)}"
    return f"a value of type {schema.get('type') or str(schema.get('$ref', 'any')).rpartition('/')[2]}"
