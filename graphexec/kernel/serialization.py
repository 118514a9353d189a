"""Convert values and replies to JSON and back, with pydantic and their annotations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import to_jsonable_python

from graphexec.errors import NodeError, SnapshotError, an
from graphexec.kernel.effects import All, Effect, Perform, Request
from graphexec.kernel.exactness import (
    MISSING_REMEDY,
    REMEDY,
    class_of,
    find_difference,
    find_part,
    locate,
)
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.signatures import read_reply

# Raised by pydantic for values and classes that JSON cannot express.
SERIALIZATION_ERRORS = (PydanticUserError, PydanticUndefinedAnnotation, ValueError, RecursionError)

# Raised for JSON data that do not have the expected form.
INVALID_DATA_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def load_reply(effect: Request, data: Any, outcomes: Mapping[str, type] = MappingProxyType({})) -> Any:
    """Load a reply to `effect` from the data of `dump_reply`. Raises `SnapshotError` for invalid data.

    `outcomes` are those of the graph, which opaque nodes return.
    """
    try:
        data = data.get("reply", data)
        if isinstance(effect, All):
            return tuple(_read_reply(one, each) for one, each in zip(effect.effects, data["data"], strict=True))
        if isinstance(effect, Perform):
            return load_value(data, outcomes)
        reply = _read_reply(effect, data["data"])
        # Of an effect whose reply may be anything.
        return tuple(reply) if class_of(reply) is list and data.get("class") == "tuple" else reply
    except SnapshotError:
        raise
    except INVALID_DATA_ERRORS as error:
        raise SnapshotError(f"a stored reply is not a reply to {type(effect).__name__}: {error}") from error


def dump_value(value: object) -> dict[str, Any]:
    """Return an outcome as JSON data: the name of its class, and its fields. Raises `ValueError` as `dump_exactly`."""
    kind: Any = type(value)
    generic: Any = getattr(kind, "__pydantic_generic_metadata__", None)
    bases: list[Any] = [base for base in kind.__mro__[1:] if generic is None or base is not generic["origin"]]
    for base in bases:
        if base.__dict__.get("__final__", False):
            raise ValueError(
                f"the value is {an(kind.__name__)}, a subclass of the final {base.__name__}, which is what the graph "
                f"carries; start the run with {an(base.__name__)}"
            )
    return {"class": kind.__name__, "data": _dump_by_effects(value, (), kind.__name__)}


def load_value(data: Any, outcomes: Mapping[str, type]) -> Any:
    """Load an outcome from the data of `dump_value`. Raises `SnapshotError` for a class that the graph lacks."""
    name = data["class"]
    if name not in outcomes:
        raise SnapshotError(
            f"the snapshot holds a {name}, which no edge of this graph carries; resume it with its own graph"
        )
    return load_as(outcomes[name], data["data"])


# A JSON object with this key alone stands for an integer of more than 4,300 digits, which Python refuses to write in
# decimal: it has the hexadecimal digits.
_INTEGER = "graphexec.integer"

# Python writes all integers below this one; its limit cannot be set lower.
_LONG = 10**600


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text that `format_json` may have written. Raises `ValueError`, also if it is nested too deeply."""
    try:
        return json.loads(text, object_hook=_read_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def format_json(data: Any, **options: Any) -> str:
    """Return data as JSON text, like `json.dumps`, with integers of any size."""
    try:
        return json.dumps(data, **options)
    except ValueError:
        return json.dumps(_replace(data, _write_integer), **options)


def _read_integer(data: dict[str, Any]) -> Any:
    digits = data.get(_INTEGER)
    return int(digits, 16) if isinstance(digits, str) and len(data) == 1 else data


def _write_integer(part: Any) -> Any:
    return {_INTEGER: f"{part:x}"} if isinstance(part, int) and abs(part) >= _LONG else part


def _replace(data: Any, change: Callable[[Any], Any]) -> Any:
    """Return data with what `change` returns for each name, string, number and constant."""
    kind = class_of(data)
    if issubclass(kind, dict):
        return {change(name): _replace(one, change) for name, one in data.items()}
    if issubclass(kind, (list, tuple)):
        return [_replace(one, change) for one in data]
    return change(data)


def dump_reply(
    reply: object, effects: Sequence[type[Effect[Any]]] = (), place: str = "the reply", *, is_batch: bool = False
) -> dict[str, Any]:
    """Return a reply to one of the effects, a batch of them, or the `Exhausted` in its place, as JSON data.

    Without effects it is dumped by its own class. Raises `ValueError` as `dump_exactly` does.
    """
    own = class_of(reply)
    if own is Exhausted:
        return {"exhausted": to_json_data(reply)}
    kinds: list[type[Effect[Any]]] = [kind for kind in effects if kind is not Perform]
    # Those whose reply may be anything, such as a tuple.
    unknown = [effect for effect in kinds if any(kind in (Any, object) for kind in read_reply(effect))]
    if is_batch or (own is tuple and (unknown or not kinds)) or (own is list and not kinds):
        replies: Any = reply
        each = kinds if is_batch else unknown
        data: Any = [_dump_by_effects(one, each, f"{place}[{number}]") for number, one in enumerate(replies)]
        return {"reply": {"class": "tuple" if is_batch else own.__name__, "data": data}}
    return {"reply": {"class": own.__name__, "data": _dump_by_effects(reply, kinds, place)}}


def _dump_by_effects(reply: object, effects: Sequence[type[Effect[Any]]], place: str) -> Any:
    """Return the data of a reply to one of the effects; it is read as the reply of its effect."""
    own: Any = type(reply)
    declared: list[Any] = [kind for effect in effects for kind in read_reply(effect)]
    if own in declared or not declared:
        try:
            adapter = _adapter(own)
        except PydanticSchemaGenerationError as error:
            fact = error.message.partition(". ")[0]
            where = find_part(reply, lambda part: TypeAdapter(class_of(part)))
            raise ValueError(f"{place}{where} has no JSON: {fact}; {REMEDY}") from None
        return dump_exactly(reply, adapter, place)
    failures: list[ValueError] = []
    for effect in effects:
        # mypy does not take a class for hashable.
        kind: Any = effect
        try:
            return dump_exactly(reply, reply_adapter(kind), place)
        except ValueError as error:
            failures.append(error)
    raise failures[0]


def dump_exactly(
    value: object, adapter: TypeAdapter[Any], place: str, read: Callable[[TypeAdapter[Any], Any], Any] | None = None
) -> Any:
    """Return a value as the JSON data from which `read`, by default `load_as`, gets the same, by type and value.

    Raises `ValueError` with the place of the first part that would be another one, or that JSON cannot express.
    """
    # A field of a model that was not set stays so, if its default is the same when it is read.
    with suppress(ValueError):
        return _dump_and_read(value, adapter, place, read or _validate, only_set=True)
    return _dump_and_read(value, adapter, place, read or _validate, only_set=False)


# Any: JSON data.
def _dump_and_read(
    value: object, adapter: TypeAdapter[Any], place: str, read: Callable[..., Any], *, only_set: bool
) -> Any:
    try:
        data = _dump(adapter, value, only_set=only_set)
    except Exception as error:
        where = find_part(value, to_jsonable_python)
        raise ValueError(f"{place}{where} cannot be written: {error}; {REMEDY}") from error
    try:
        restored = read(adapter, data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = locate(value, first["loc"])
        remedy = MISSING_REMEDY if first["type"] == "missing" else REMEDY
        raise ValueError(f"{place}{where} cannot be read back: {first['msg']}; {remedy}") from None
    except Exception as error:
        raise ValueError(f"{place} cannot be read back ({type(error).__name__}: {error}); {REMEDY}") from error
    if difference := find_difference(value, restored):
        where, fact = difference
        raise ValueError(f"{place}{where} {fact}")
    return data


def _read_reply(effect: Effect[Any], data: object) -> Any:
    return _validate(reply_adapter(class_of(effect)), data)


def to_json_data(value: object) -> Any:
    """Return a value as JSON data; each reply of a batch is converted by its own class."""
    if type(value) in (tuple, list):
        values: Any = value
        return [to_json_data(one) for one in values]
    return _dump(_adapter(class_of(value)), value)


def _dump(adapter: TypeAdapter[Any], value: object, *, only_set: bool = False) -> Any:
    """Dump by alias, and without what is computed. The class is not checked here: what is read back is."""
    return adapter.dump_python(
        value, mode="json", by_alias=True, exclude_unset=only_set, round_trip=True, warnings="none"
    )


def load_as(kind: Any, data: object) -> Any:
    """Load a value of the class `kind` from JSON data. Raises `ValidationError`, also for `true` instead of 1."""
    return _validate(_adapter(kind), data)


def _validate(adapter: TypeAdapter[Any], data: object) -> Any:
    """Validate data as `read_exactly` does, with integers and strings that pydantic's parser of JSON rejects."""
    try:
        return read_exactly(adapter, json.dumps(data))
    except ValueError as error:
        if isinstance(error, ValidationError) and error.errors(include_input=False)[0]["type"] != "json_invalid":
            raise
    # pydantic's parser rejects integers of more than 4,300 digits and lone surrogates, so it checks substitutes.
    read_exactly(adapter, json.dumps(_replace(data, _stand_in)))
    return adapter.validate_python(data, by_alias=True, by_name=True)


# The types of pydantic's errors for a field that a class does not have, or sets itself.
_UNKNOWN_FIELD = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def read_exactly(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """Validate JSON strictly; only types that JSON lacks, such as dates, are converted.

    Raises `ValidationError`, and `ValueError` for a field that its class does not have, and would lose.
    """
    try:
        return adapter.validate_json(text, strict=True, extra="forbid", by_alias=True, by_name=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    value = adapter.validate_json(text, strict=True, by_alias=True, by_name=True)
    # Written again, the value has each field that its class keeps, whether it is declared or not.
    data, kept = json.loads(text), _dump(adapter, value)
    for one in found:
        if one["type"] in _UNKNOWN_FIELD and _is_lost(one["loc"], data, kept):
            raise ValueError(
                f"{'.'.join(map(str, one['loc']))} is stored, and its class has no such field; read it with the code "
                "that stored it, or give the class a field of this name"
            )
    return value


def _is_lost(place: Sequence[str | int], data: Any, kept: Any) -> bool:
    """Return whether what is at this place in the data is not in what is kept."""
    for step in place:
        # A step that is not in the data names a member of a union.
        with suppress(LookupError, TypeError):
            data = data[step]
            try:
                kept = kept[step]
            except (LookupError, TypeError):
                return True
    return False


def _stand_in(part: Any) -> Any:
    if isinstance(part, str):
        return part.encode(errors="replace").decode()
    return max(-_LONG, min(part, _LONG)) if type(part) is int else part


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def reply_adapter(effect: type[Effect[Any]]) -> TypeAdapter[Any]:
    """Return the type adapter of an effect's reply, `Page` of `Effect[Page]`. Raises `NodeError` if JSON has none."""
    replies = read_reply(effect)
    if not replies:
        raise NodeError(f"{effect.__name__} does not declare its reply; write class {effect.__name__}(Effect[Reply])")
    try:
        return TypeAdapter(replies[0])
    except PydanticSchemaGenerationError as error:
        raise NodeError(
            f"{effect.__name__} has the reply {replies[0]!r}, which cannot be stored as JSON; reply with a "
            f"dataclass or a pydantic model"
        ) from error
