"""Read a function's signature with pydantic, to validate its arguments and to describe them as a JSON schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Union, get_args, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, with_config
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from graphexec.actions import Run
from graphexec.errors import ToolDefinitionError
from graphexec.kernel.effects import find_call_parameter
from graphexec.kernel.signatures import resolve_hints


class Arguments(NamedTuple):
    """A tool's `arguments`, and the parameters that the model does not set: those for the run and for the call."""

    arguments: TypeAdapter[Any]
    run_parameters: tuple[str, ...]
    call_parameter: str | None
    context_type: type | None


def read_signature(function: Callable[..., Any], name: str) -> Arguments:
    """Return the arguments of a function as a typed dict, which pydantic validates and describes as an object."""
    try:
        hints = resolve_hints(function, extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"{name} has an annotation that cannot be resolved: {error}; import or define it"
        ) from error
    except TypeError as error:
        raise ToolDefinitionError(f"{name} is not a function; write one, with def, that calls it") from error
    fields: dict[str, Any] = {}
    run_parameters: list[str] = []
    parameters = {key: hint for key, hint in hints.items() if key != "return"}
    call_parameter, context_type = find_call_parameter(parameters)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ToolDefinitionError(f"{name} takes {parameter}, which has no schema; name each argument")
        if parameter.kind == parameter.POSITIONAL_ONLY:
            raise ToolDefinitionError(
                f"{name} takes {parameter.name} by position only; remove the / from its parameters"
            )
        if parameter.name not in hints:
            raise ToolDefinitionError(f"{name} does not annotate {parameter.name}; write {parameter.name}: str, say")
        kind = hints[parameter.name]
        if _is_run(kind):
            run_parameters.append(parameter.name)
            continue
        if parameter.name == call_parameter:
            continue
        if isinstance(parameter.default, FieldInfo):
            text = f"the default of {parameter.name} in {name} is Field(...), so the function would receive that object"
            raise ToolDefinitionError(f"{text}; write {parameter.name}: Annotated[..., Field(...)]")
        if parameter.default is not parameter.empty:
            kind = NotRequired[Annotated[kind, Field(json_schema_extra=_schema_default(parameter.default))]]
        fields[parameter.name] = kind
    # The typed dict is built at run time, which type checkers cannot follow.
    make: Any = TypedDict
    arguments = with_config(ConfigDict(extra="forbid"))(make(name, fields))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(arguments)
        adapter.json_schema()
    except PydanticUserError as error:
        first = str(error).splitlines()[0]
        raise ToolDefinitionError(f"{name} has an argument without a JSON schema: {first}") from error
    return Arguments(adapter, tuple(run_parameters), call_parameter, context_type)


def _is_run(kind: object) -> bool:
    if get_origin(kind) is Annotated:
        return _is_run(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return all(one is NoneType or _is_run(one) for one in get_args(kind))
    return kind is Run


def _schema_default(default: object) -> dict[str, Any]:
    return {"default": default} if isinstance(default, (str, int, float, bool, type(None))) else {}
