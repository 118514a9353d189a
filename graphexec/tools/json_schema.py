"""Tools whose arguments a JSON schema describes, such as those of other programs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from graphexec._arguments import DESCRIPTION, NAME, Constraint, validate
from graphexec._parsing import compile_lazily
from graphexec.errors import ToolDefinitionError, format_value
from graphexec.tools.options import ToolOptions, check_examples, read_options
from graphexec.tools.schemas import Schema, copy_schema, map_schemas, normalize_schema
from graphexec.tools.tool import AnyTool, Tool

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import Unpack

_SCHEMA = Constraint("a JSON schema, as a dict", lambda value: isinstance(value, Mapping))
_FUNCTION = Constraint("a function that takes the arguments by name", callable)
# Keywords that may refuse what their parts accept.
_CHOICES = frozenset({"not", "oneOf", "if", "contains"})
# Keywords about the keys of an object that match patterns, or match none, and about what others left out: they are
# searched with `re`, which may take exponential time.
_OF_KEYS = frozenset({"patternProperties", "additionalProperties"})
_OF_THE_REST = frozenset({"unevaluatedProperties", "unevaluatedItems"})
# Of draft 3, and of later ones.
_STEPS = frozenset({"divisibleBy", "multipleOf"})
# Sets of sets: other characters for pydantic's engine than in ECMA-262.
_NESTED = compile_lazily(r"\[[^\]]*(?:\[|--|&&|~~)")
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
    cannot be searched in linear time, such as one that looks ahead, is left to the model's server: it is sent, and not
    checked. So are `patternProperties`. The function may be `async def`. The options are those of `tool`. Needs
    `pip install "graphexec-agents[schema]"`.

    Raises `ToolDefinitionError` for an invalid schema, for a function that does not take the arguments in it, and for
    an invalid option.
    """
    # Users without a type checker may pass other values.
    validate(
        "tool_from_schema",
        ("name", name, NAME),
        ("description", description, DESCRIPTION),
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
    try:
        # Without the formats of the meta-schema: a pattern may be one that Python cannot read.
        kind.check_schema(schema, format_checker=importlib.import_module("jsonschema").FormatChecker(()))
    except validators.exceptions.SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        fact = error.message
        if len(fact) > _LONGEST:
            # What is wrong stands at the end, behind the value.
            fact = f"{fact[:_LONGEST]} ... {fact[-_END:]}"
        raise ToolDefinitionError(f"{name} has an invalid JSON schema: {fact} at #/{place}; correct it there") from None
    checks = dict.fromkeys(_STEPS & kind.VALIDATORS.keys(), _check_step)
    return validators.extend(kind, {"pattern": _check_pattern, **checks})


# Any: the package has no types.
def _check_pattern(_: Any, pattern: Any, value: Any, __: Any) -> Iterator[Any]:
    matcher = _make_matcher(pattern)
    assert matcher is not None, "other patterns are not checked"
    if isinstance(value, str) and not matcher.isinstance_python(_replace_surrogates(value)):
        error: Any = importlib.import_module("jsonschema.exceptions").ValidationError
        yield error(f"{value!r} does not match {pattern!r}")


@lru_cache(maxsize=128)
def _make_matcher(pattern: str) -> Any:
    """Return pydantic's validator for a pattern, which takes linear time; `None` if its engine does not read it."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        schema = core_schema.str_schema(pattern=_replace_surrogates(pattern))
        return None if _NESTED().search(pattern) else SchemaValidator(schema)
    except SchemaError:
        return None


def _replace_surrogates(text: str) -> str:
    """Return a string without lone surrogates, which are no characters for pydantic's engine."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Any: the package has no types.
def _check_step(validator: Any, step: Any, value: Any, _: Any) -> Iterator[Any]:
    """Decide in decimal, as the number was written: for floats, 19.99 is no multiple of 0.01."""
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


# Any: a part of a JSON document.
def _drop_unchecked(part: Any, dropped: frozenset[str] = frozenset()) -> Any:
    """Return a part of a schema without what is not checked: it accepts all that the part accepts."""
    changed = map_schemas(part, lambda inner: _drop_unchecked(inner, dropped))
    if not isinstance(part, dict):
        return changed
    members: Schema = part  # pyright: ignore[reportUnknownVariableType]
    gone = {key for key in _CHOICES & members.keys() if changed[key] != members[key]} | dropped
    if "patternProperties" in members:
        gone |= _OF_KEYS
    pattern = members.get("pattern")
    if isinstance(pattern, str) and _make_matcher(pattern) is None:
        gone.add("pattern")
    return {key: value for key, value in changed.items() if key not in gone}


def _make_adapter(name: str, schema: Schema, validator_class: Any) -> TypeAdapter[Any]:
    """Return a validator that reports the schema's errors as pydantic's."""
    from pydantic import AfterValidator, TypeAdapter
    from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

    checked = _drop_unchecked(schema)
    if checked != schema:
        checked = _drop_unchecked(schema, _OF_THE_REST)
    # With an empty registry, the validator fetches nothing.
    validator: Any = validator_class(checked, registry=importlib.import_module("referencing").Registry())

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            _check_depth(arguments)
            found = list(dict.fromkeys(_list_errors(validator, arguments)))
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
    """Yield the place and the text of each error."""
    best_match: Any = importlib.import_module("jsonschema.exceptions").best_match
    for error in sorted(validator.iter_errors(arguments), key=lambda one: [str(part) for part in one.absolute_path]):
        # Of the branches of an anyOf, the one that is closest.
        inner = best_match([error])
        place = tuple(inner.absolute_path)
        if inner.validator == "required":
            # In pydantic's words, as for typed tools.
            missing = (key for key in inner.validator_value if key not in inner.instance)
            yield from (((*place, key), "Field required") for key in missing)
        else:
            yield place, str(inner.message)[:_LONGEST]
