"""A function's arguments as pydantic sees them: validated by name, and described as a JSON schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, with_config
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from graphexec.annotations import resolved
from graphexec.errors import ToolDefinitionError


def arguments_of(function: Callable[..., Any], name: str) -> TypeAdapter[Any]:
    """The arguments as a typed dict, which pydantic validates to a dict and describes as an object."""
    try:
        hints = resolved(function, extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"{name} has an annotation that cannot be resolved: {error}; import or define it"
        ) from error
    except TypeError as error:
        raise ToolDefinitionError(f"{name} is not a function; write one, with def, that calls it") from error
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(f"{name} takes {parameter}, which has no schema; name each argument")
        if parameter.name not in hints:
            raise ToolDefinitionError(f"{name} does not annotate {parameter.name}; write {parameter.name}: str, say")
        kind = hints[parameter.name]
        if isinstance(parameter.default, FieldInfo):
            text = f"{name} has Field(...) as the default of {parameter.name}, which the function would be called with"
            raise ToolDefinitionError(f"{text}; write {parameter.name}: Annotated[..., Field(...)]")
        if parameter.default is not parameter.empty:
            kind = NotRequired[Annotated[kind, Field(json_schema_extra=_shown_default(parameter.default))]]
        fields[parameter.name] = kind
    # A typed dict made at run time, which no checker can follow.
    make: Any = TypedDict
    arguments = with_config(ConfigDict(extra="forbid"))(make(name, fields))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(arguments)
        adapter.json_schema()
    except PydanticUserError as error:
        first = str(error).splitlines()[0]
        raise ToolDefinitionError(f"{name} has an argument without a JSON schema: {first}") from error
    return adapter


def _shown_default(default: object) -> dict[str, Any]:
    return {"default": default} if isinstance(default, (str, int, float, bool, type(None))) else {}
