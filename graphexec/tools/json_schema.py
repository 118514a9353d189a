"""Tools whose arguments a JSON schema describes, such as those of other programs."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from graphexec._arguments import NAME, Constraint, validate
from graphexec.errors import ToolDefinitionError, format_value
from graphexec.tools.examples import check_examples
from graphexec.tools.options import ToolOptions, read_options
from graphexec.tools.patterns import COMPILE_ERRORS, is_costly, is_searchable, search_pattern
from graphexec.tools.schemas import Schema, copy_schema, normalize_schema
from graphexec.tools.tool import AnyTool, Tool

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import Unpack

_DESCRIPTION = Constraint("a string that describes the tool to a model", NAME.fits)
_SCHEMA = Constraint("a JSON schema, as a dict", lambda value: isinstance(value, Mapping))
_FUNCTION = Constraint("a function that takes the arguments by name", callable)
# Keywords that may refuse what a pattern in them accepts.
_CHOICES = frozenset({"not", "oneOf", "if", "contains"})
# Of draft 3, and of later ones.
_STEPS = frozenset({"divisibleBy", "multipleOf"})
# Python's errors for patterns that are invalid in other dialects, too.
_INVALID = ("unterminated character set", "missing )", "unbalanced parenthesis", "nothing to repeat")
# Characters of an error: its text may quote a long argument.
_LONGEST, _END = 300, 40
# Levels of arguments and of schemas. Deeper ones could reach the limit of recursion within rpds, which jsonschema uses
# and which is written in Rust: it panics with what is no Exception.
_DEEPEST = 100


def tool_from_schema(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any],
    **options: Unpack[ToolOptions],
) -> AnyTool:
    """Make a tool from a JSON schema of its arguments, for a function that takes them by name: `**arguments`, say.

    The arguments of a call are validated by the schema, and passed as the model wrote them, without defaults. The
    schema is of the draft that its `$schema` names, by default 2020-12; its references are within it. A pattern that
    Python cannot read, such as one with `(?<name>...)`, is left to the model's server: it is sent, and not checked; so
    is one that looks ahead, back or at a group, where it may take long to search. The function may be `async def`. The
    options are those of `tool`. Needs `pip install "graphexec-agents[schema]"`.

    Raises `ToolDefinitionError` for an invalid schema, for a function that does not take the arguments in it, and for
    an invalid option.
    """
    # Users without a type checker may pass other values.
    validate(
        "tool_from_schema",
        ("name", name, NAME),
        ("description", description, _DESCRIPTION),
        ("parameters", parameters, _SCHEMA),
        ("function", function, _FUNCTION),
        error=ToolDefinitionError,
    )
    # Loads pydantic.
    from graphexec.tools.arguments import Definition, fill_parameters, is_async, takes_more

    given = copy_schema(parameters, name)
    try:
        _check_depth(given)
        validator_class = _check_schema(name, given)
        schema = normalize_schema(given, name)
    except RecursionError:
        raise ToolDefinitionError(
            f"{name} has a JSON schema that is nested too deeply; give inner schemas a name in $defs, and refer to them"
        ) from None
    if not takes_more(function):
        schema.setdefault("additionalProperties", False)
    adapter = _make_adapter(name, schema, validator_class)
    defined = Definition(name, description, schema, function, adapter, is_async(function))
    defined = fill_parameters(defined, schema["properties"], schema.get("required", ()))
    made: AnyTool = Tool(**defined._asdict(), **read_options(name, options))
    return check_examples(made)


# Any: the package has no types.
def _check_schema(name: str, schema: Schema) -> Any:
    """Return the class of validators for a schema's draft. Raises `ToolDefinitionError` for an invalid schema."""
    try:
        validators: Any = importlib.import_module("jsonschema.validators")
    except ImportError:
        raise ToolDefinitionError(
            f"{name} has a JSON schema, which needs jsonschema; pip install 'graphexec-agents[schema]'"
        ) from None
    draft = {"$schema": str(schema.get("$schema"))}
    kind: Any = validators.validator_for(draft, default=validators.Draft202012Validator)
    formats: Any = importlib.import_module("jsonschema").FormatChecker(("regex",))
    formats.checks("regex", raises=COMPILE_ERRORS)(_may_be_pattern)
    try:
        kind.check_schema(schema, format_checker=formats)
    except validators.exceptions.SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        fact = error.message
        if len(fact) > _LONGEST:
            # What is wrong stands at the end, behind the value.
            fact = f"{fact[:_LONGEST]} ... {fact[-_END:]}"
        raise ToolDefinitionError(f"{name} has an invalid JSON schema: {fact} at #/{place}; correct it there") from None
    checks: dict[str, Any] = {"pattern": _check_pattern, "patternProperties": _check_keys}
    checks |= dict.fromkeys(_STEPS & kind.VALIDATORS.keys(), _check_step)
    checks["additionalProperties"] = _name_matching_keys(kind.VALIDATORS["additionalProperties"])
    checks |= {key: _skip_unsearchable(kind.VALIDATORS[key]) for key in _CHOICES & kind.VALIDATORS.keys()}
    if (unevaluated := kind.VALIDATORS.get("unevaluatedProperties")) is not None:
        checks["unevaluatedProperties"] = _skip_costly(unevaluated, tuple(_list_patterns(schema, of_keys=True)))
    return validators.extend(kind, checks)


# Any: a value of a JSON schema.
def _may_be_pattern(value: Any) -> bool:
    fact = ""
    try:
        re.compile(value if isinstance(value, str) else "")
    except re.error as error:
        fact = str(error)
    # In ECMA-262, an empty class of characters is valid.
    return not fact.startswith(_INVALID) or "[]" in value or "[^]" in value


# Any: the package has no types. What Python cannot search for is accepted.
def _check_pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[Any]:
    del validator, schema
    if isinstance(value, str) and search_pattern(pattern, value) is False:
        error: Any = importlib.import_module("jsonschema.exceptions").ValidationError
        yield error(f"{value!r} does not match {pattern!r}")


# Any: the package has no types.
def _check_step(validator: Any, step: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Decide in decimal, as the number was written: for floats, 19.99 is no multiple of 0.01."""
    del schema
    if not validator.is_type(value, "number"):
        return
    try:
        multiple = (_to_fraction(value) / _to_fraction(step)).denominator == 1
    except (ValueError, ZeroDivisionError):
        # NaN, an infinity, or a step of 0.
        multiple = False
    if not multiple:
        error: Any = importlib.import_module("jsonschema.exceptions").ValidationError
        yield error(f"{format_value(value)} is not a multiple of {format_value(step)}")


# Any: a fraction of Python.
def _to_fraction(number: Any) -> Any:
    from fractions import Fraction

    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _check_keys(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[Any]:
    del schema
    for pattern, inner in patterns.items():
        for key in _keys_of(value):
            if search_pattern(pattern, key):
                yield from validator.descend(value[key], inner, path=key, schema_path=pattern)


def _name_matching_keys(check: Any) -> Any:
    """Return the check of `additionalProperties` with the keys that match a pattern among the properties."""

    def find_errors(validator: Any, others: Any, value: Any, schema: Any) -> Iterator[Any]:
        if patterns := schema.get("patternProperties"):
            keys = _keys_of(value)
            matching = [key for key in keys if any(search_pattern(one, key) is not False for one in patterns)]
            named = {**schema.get("properties", {}), **dict.fromkeys(matching, True)}
            schema = {**schema, "properties": named, "patternProperties": {}}
        yield from check(validator, others, value, schema)

    return find_errors


def _skip_unsearchable(check: Any) -> Any:
    """Return the check of a keyword that accepts everything if it has a pattern that cannot be searched for."""

    def find_errors(validator: Any, part: Any, value: Any, schema: Any) -> Iterator[Any]:
        # No string in the value is longer.
        length = len(str(value))
        if all(is_searchable(pattern, length) for pattern in _list_patterns(part)):
            yield from check(validator, part, value, schema)

    return find_errors


def _skip_costly(check: Any, patterns: tuple[str, ...]) -> Any:
    """Return the check of a keyword that accepts everything if `re` cannot search a key for these patterns."""

    def find_errors(validator: Any, part: Any, value: Any, schema: Any) -> Iterator[Any]:
        length = max(map(len, _keys_of(value)), default=0)
        with suppress(re.error):
            if not any(is_costly(pattern, length) for pattern in patterns):
                yield from check(validator, part, value, schema)

    return find_errors


def _keys_of(value: Any) -> list[str]:
    return [*value] if isinstance(value, dict) else []


def _list_patterns(part: Any, *, of_keys: bool = False) -> Iterator[str]:
    match part:
        case [*items]:
            for item in items:
                yield from _list_patterns(item, of_keys=of_keys)
        case {**members}:
            # Any: a property may have the name of a keyword.
            named: Any = members.get("patternProperties")
            patterns: list[Any] = [*(named if isinstance(named, dict) else ())]
            if not of_keys:
                patterns.append(members.get("pattern"))
            yield from (pattern for pattern in patterns if isinstance(pattern, str))
            for member in members.values():
                yield from _list_patterns(member, of_keys=of_keys)
        case _:
            pass


def _make_adapter(name: str, schema: Schema, validator_class: Any) -> TypeAdapter[Any]:
    """Return a validator that reports the schema's errors as pydantic's."""
    from pydantic import AfterValidator, TypeAdapter
    from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

    # With an empty registry, the validator fetches nothing.
    validator: Any = validator_class(schema, registry=importlib.import_module("referencing").Registry())

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            _check_depth(arguments)
            found = list(_list_errors(validator, arguments))
        except RecursionError:
            found = [((), "The arguments are nested too deeply")]
        details = [
            InitErrorDetails(type=PydanticCustomError("json_schema", "{text}", {"text": text}), loc=place, input=None)
            for place, text in found
        ]
        if details:
            raise ValidationError.from_exception_data(name, details)
        return arguments

    return TypeAdapter(Annotated[dict[str, Any], AfterValidator(check)])


def _check_depth(data: Any) -> None:
    """Raise `RecursionError` for data on more levels than `_DEEPEST`."""
    level = [data]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, (dict, list))]
        if not level:
            return
    raise RecursionError(f"more than {_DEEPEST} levels")


def _list_errors(validator: Any, arguments: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the place and the text of each error, once."""
    best_match: Any = importlib.import_module("jsonschema.exceptions").best_match
    seen: set[tuple[tuple[str | int, ...], str]] = set()
    for error in sorted(validator.iter_errors(arguments), key=lambda one: [str(part) for part in one.absolute_path]):
        # Of the branches of an anyOf, the one that is closest.
        inner = best_match([error])
        place = tuple(inner.absolute_path)
        found = [(place, str(inner.message)[:_LONGEST])]
        if inner.validator == "required":
            # In pydantic's words, as for typed tools.
            found = [((*place, key), "Field required") for key in inner.validator_value if key not in inner.instance]
        for one in found:
            if one not in seen:
                seen.add(one)
                yield one
