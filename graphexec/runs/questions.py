"""The questions of stored runs: what they ask, which replies fit, and what a run returns that waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from graphexec.effects import AskHuman, CallTool
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import Effect
from graphexec.kernel.serialization import SERIALIZATION_ERRORS, format_json, reply_adapter

# The reply to a question about a call in doubt that makes the call again.
RETRY: Final = "retry"


@final
@dataclass(frozen=True, slots=True)
class Question:
    """An open question of a stored run, for `store.reply(question.run_id, question.key, value)`.

    `run_id` is the run that was started, and `key` is unique in it. `node` asks for the `effect`, whose fields are the
    `details`; `text` says it in words. `schema` is the JSON schema of the replies. `asked_at` and `expires_at` are in
    seconds since the epoch; after that the reply is the `default`.
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
        """The only replies that fit, if the schema lists them."""
        return tuple(self.schema.get("enum", ()))

    def read(self, value: object) -> str:
        """Return a reply as JSON. Raises `InputError` for one that does not fit the schema."""
        try:
            data = to_jsonable_python(value, by_alias=True)
        except SERIALIZATION_ERRORS as error:
            raise InputError(f"the reply {format_value(value)} cannot be stored: {error}") from None
        problem = next(find_problems(self.schema, data, self.schema.get("$defs", {}), "the reply"), None)
        if problem is not None:
            raise InputError(f"{problem}; {self.key} asks: {self.text}")
        return format_json(data, ensure_ascii=False)


@final
@dataclass(frozen=True, slots=True)
class Waiting:
    """What a stored run returns that waits for answers: its id, and its open questions.

    Answer them with `store.reply`, from any process, then run it again by its id.
    """

    run_id: str
    questions: tuple[Question, ...]

    def __str__(self) -> str:
        lines = [f"{one.key}: {one.text}" for one in self.questions]
        return "\n".join(
            [
                f"the run {self.run_id} waits for {len(lines)} answers"
                if len(lines) != 1
                else f"the run {self.run_id} waits for an answer",
                *lines,
            ]
        )


def make_question(run_id: str, key: str, node: str, effect: Effect[Any], now: float, *, in_doubt: bool) -> Question:
    """Return the question that an effect without a handler is, or a call `in_doubt` that a person decides about."""
    kind: Any = type(effect)
    try:
        details: Any = to_jsonable_python(effect)
    except SERIALIZATION_ERRORS:
        details = None
    if in_doubt and isinstance(effect, CallTool):
        text = (
            f"{effect.name} was interrupted, and it is not known whether it was carried out. Reply {RETRY} to call it "
            f"again, or with its result. Its arguments: {json.dumps(to_jsonable_python(effect.tool_input))}"
        )
        return Question(run_id, key, node, kind.__name__, text, details, {"type": "string"}, now)
    adapter: TypeAdapter[Any] = reply_adapter(kind)
    schema: dict[str, Any] = adapter.json_schema()
    expiry = effect.expiry
    if isinstance(effect, AskHuman):
        text = effect.question
        if effect.choices:
            schema = {"type": "string", "enum": [*effect.choices]}
    else:
        fields: Any = details.items() if isinstance(details, dict) else ()
        text = f"{kind.__name__}: " + ", ".join(
            f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in fields if one not in ("", None)
        )
        if in_doubt:
            text += " (interrupted: it is not known whether it was carried out)"
    if expiry is None:
        return Question(run_id, key, node, kind.__name__, text, details, schema, now)
    seconds, default = expiry
    return Question(
        run_id,
        key,
        node,
        kind.__name__,
        text,
        details,
        schema,
        now,
        now + seconds,
        adapter.dump_python(default, mode="json"),
    )


def load_answer(effect: Effect[Any], text: str) -> Any:
    """Return the reply to an effect that was stored as JSON. Raises `ValidationError`."""
    kind: Any = type(effect)
    return reply_adapter(kind).validate_json(text, strict=True)


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
    rules: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    if "$ref" in rules:
        yield from find_problems(known.get(str(rules["$ref"]).rpartition("/")[2]), data, known, place)
        return
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
        items: list[Any] = data
        for number, one in enumerate(items):
            yield from find_problems(rules.get("items"), one, known, f"{place}[{number}]")
    elif isinstance(data, dict):
        given: dict[str, Any] = data
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
    return f"a value of type {schema.get('type') or str(schema.get('$ref', 'any')).rpartition('/')[2]}"
