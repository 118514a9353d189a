"""Read a function's signature with pydantic, to validate its arguments and to describe them as a JSON schema."""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, with_config
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from graphexec.actions import Run
from graphexec.errors import ToolDefinitionError, format_value
from graphexec.kernel.signatures import find_call_parameter

# Any: the functions of users, whose parameters are unknown.
Function: TypeAlias = Callable[..., Any]

# What a method is bound to when it is taken from an object or a class: the first parameter, `self` or `cls`.
Receiver: TypeAlias = Literal["object", "class"]


class Definition(NamedTuple):
    """The fields of a `Tool` that follow from its function, its name and its description."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Function
    arguments: TypeAdapter[Any]
    is_async: bool
    run_parameters: tuple[str, ...] = ()
    call_parameter: str | None = None
    context_types: tuple[type, ...] = ()
    receiver: Receiver | None = None


def define_tool(function: Function, name: str | None, description: str | None, *, is_typed: bool = True) -> Definition:
    """Return the definition of a tool whose arguments are the annotated parameters of a function.

    Unless it `is_typed`, a function that is no method needs no annotations if it takes one string: it is called with
    that string alone, even if it could take more. Raises `ToolDefinitionError` for a parameter without an annotation or
    a schema, for several arguments that need one, and for a missing description.
    """
    called, receiver = _split_receiver(function)
    tool_name, summary = describe(called, name, description)
    hints, parameters = read_hints(called, tool_name), _read_parameters(called, receiver)
    if not is_typed and receiver is None:
        known = parameters or ()
        if parameters is None or not all(one.name in hints and _takes_keyword(one) for one in known):
            return _define_untyped(tool_name, summary, called, known, hints)
    if parameters is None:
        raise ToolDefinitionError(f"{tool_name} does not say what it takes; write a function, with def, that calls it")
    if parameters and inspect.isbuiltin(called):
        raise ToolDefinitionError(
            f"{tool_name} is a builtin function, without annotations; write Tool(name={tool_name!r}, func={tool_name}, "
            "description='...') if it takes one string, or else a function with def that calls it"
        )
    for one in parameters:
        if _takes_many(one):
            raise ToolDefinitionError(f"{tool_name} takes {one}, which has no schema; name each argument")
        if one.kind == one.POSITIONAL_ONLY:
            raise ToolDefinitionError(
                f"{tool_name} takes {one.name} by position only; remove the / from its parameters"
            )
        if one.name not in hints:
            raise ToolDefinitionError(f"{tool_name} does not annotate {one.name}; write {one.name}: str, say")
    return _define(
        tool_name, summary, called, {one.name: (hints[one.name], one.default) for one in parameters}, receiver
    )


# The argument of a function whose parameter has no name that a call could use.
_TEXT = "input"


def _define_untyped(
    name: str, summary: str, function: Function, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> Definition:
    required = [one.name for one in parameters if one.default is one.empty and not _takes_many(one)]
    if len(required) > 1:
        raise ToolDefinitionError(
            f"{name} takes {', '.join(required)}, and without annotations a tool takes one string; annotate "
            f"{' and '.join(one for one in required if one not in hints) or 'its other parameters'}"
        )
    # The one that must be passed, or else the first.
    only = next((one for one in parameters if one.name in required), next(iter(parameters), None))
    if only is not None and _takes_keyword(only) and not only.name.startswith("_"):
        return _define(name, summary, function, {only.name: (hints.get(only.name, str), only.default)})
    if only is not None and only.kind == only.VAR_KEYWORD:
        raise ToolDefinitionError(f"{name} takes {only}, which has no schema; name each argument")

    def call(*values: object, **arguments: object) -> Any:
        return function(*values, *arguments.values())

    defined = _define(name, summary, call, {_TEXT: (str, inspect.Parameter.empty)})
    return defined._replace(is_async=is_async(function))


def rename_arguments(other: Definition, first: Definition) -> Function:
    """Return the function of `other` with the names of the arguments of `first`, whose order they have.

    Raises `ToolDefinitionError` if one takes more arguments.
    """
    names, wanted = list(other.parameters["properties"]), list(first.parameters["properties"])
    if len(names) != len(wanted):
        raise ToolDefinitionError(
            f"{first.name} has a func that takes {', '.join(wanted) or 'nothing'}, and a coroutine that takes "
            f"{', '.join(names) or 'nothing'}; give both the same parameters"
        )
    if names == wanted:
        return other.function
    renamed = dict(zip(wanted, names, strict=True))

    async def call(**arguments: object) -> Any:
        return await other.function(**{renamed[key]: value for key, value in arguments.items()})

    return call


def define_model_tool(
    function: Function, name: str | None, description: str | None, model: type[BaseModel]
) -> Definition:
    """Return the definition of a tool whose arguments are the fields of a pydantic model, passed by name.

    Raises `ToolDefinitionError` for anything but a model of pydantic 2 that has a JSON schema.
    """
    tool_name, summary = describe(function, name, description or model.__doc__)
    # Users without a type checker may pass a model of pydantic 1, or a JSON schema.
    if not (isinstance(model, type) and issubclass(model, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(
            f"{tool_name} has args_schema={format_value(model)}, which is not a model of pydantic 2; write class "
            "Arguments(pydantic.BaseModel), or tool_from_schema(name, description, schema, function) for a JSON schema"
        )
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise _without_schema(tool_name, error) from error
    defined = Definition(tool_name, summary, _without_titles(schema), function, TypeAdapter(model), is_async(function))
    return fill_parameters(defined, model.model_fields, model.model_fields)


def fill_parameters(defined: Definition, names: Collection[str], always: Collection[str]) -> Definition:
    """Return the definition with the parameters of its function that receive the run and the call.

    `names` are those of its arguments, of which some are passed `always`. Raises `ToolDefinitionError` if another
    parameter has one of them, and unless the function can be called with what the schema of the arguments allows.
    """
    filled_fields = _find_filled_parameters(read_hints(defined.function, defined.name))
    filled = {*filled_fields["run_parameters"], filled_fields["call_parameter"]}
    faults = [
        f"the function receives the run or the call as {key}, the name of an argument; rename the parameter"
        for key in names
        if key in filled
    ]
    faults += _misfits(defined.function, names, {*always, *filled})
    if faults:
        raise ToolDefinitionError(f"{defined.name} has a function that does not fit its schema: {'; '.join(faults)}")
    return defined._replace(**filled_fields)


def _find_filled_parameters(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition about the parameters that receive the run and the call."""
    call_parameter, context_type = find_call_parameter(hints)
    return {
        "run_parameters": tuple(key for key, kind in hints.items() if is_run(kind)),
        "call_parameter": call_parameter,
        "context_types": () if context_type is None else (context_type,),
    }


def _misfits(function: Function, names: Collection[str], passed: Collection[str | None]) -> Iterator[str]:
    try:
        known = inspect.signature(function).parameters.values()
    except ValueError:
        # A function in C does not say what it takes.
        return
    by_name = {one.name for one in known if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    missing = [key for key in names if key not in by_name]
    if missing and not takes_more(function):
        yield f"the function does not take {', '.join(missing)}; add it, or **arguments"
    needed = [one.name for one in known if one.name in by_name and one.default is one.empty]
    if required := [key for key in needed if key not in passed]:
        yield (
            f"the function requires {', '.join(required)}, which the schema does not; add it to the schema's required, "
            "or give the parameter a default"
        )


def takes_more(function: Function) -> bool:
    """Return whether a function takes arguments of any name, or does not say what it takes."""
    try:
        return any(one.kind == one.VAR_KEYWORD for one in inspect.signature(function).parameters.values())
    except ValueError:
        return True


def _without_schema(name: str, error: PydanticUserError) -> ToolDefinitionError:
    return ToolDefinitionError(f"{name} has an argument without a JSON schema: {str(error).splitlines()[0]}")


def describe(function: Function, name: str | None, description: str | None) -> tuple[str, str]:
    """Return the name and the description of a tool, by default those of its function.

    Raises `ToolDefinitionError` for a coroutine, a nameless function, and a missing description.
    """
    if inspect.iscoroutine(function):
        function.close()
        raise ToolDefinitionError(
            f"a tool is a coroutine, the result of a call of {function.__name__}; pass the function itself"
        )
    if not callable(function):
        raise ToolDefinitionError(f"tool was given {format_value(function)}; write @tool above a function, with def")
    named = _function_of(function)
    tool_name = name or str(getattr(named, "__name__", type(named).__name__))
    if tool_name == "<lambda>":
        raise ToolDefinitionError(
            "a lambda has no name; write Tool(name=..., func=..., description=...), or a function with def"
        )
    summary = description or _docstring(named)
    if not summary:
        raise ToolDefinitionError(f"{tool_name} has no docstring, so no model knows what it does; write one line")
    return tool_name, summary


def read_hints(function: Function, name: str) -> Mapping[str, Any]:
    """Return the resolved annotations of the parameters. Raises `ToolDefinitionError` if one cannot be resolved."""
    read = _function_of(function)
    try:
        if isinstance(read, type):
            # The fields of a dataclass or a pydantic model; its constructor may take `**data`.
            of_fields: dict[str, Any] = {}
            with contextlib.suppress(NameError):
                of_fields = typing.get_type_hints(read, include_extras=True)
            made = getattr(read, "__init__")  # noqa: B009 - not of the class
            hints = of_fields | typing.get_type_hints(made, include_extras=True)
        else:
            called = read if inspect.isroutine(read) else getattr(read, "__call__")  # noqa: B004, B009
            hints = typing.get_type_hints(called, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"{name} has an annotation that cannot be resolved: {error}; import or define it"
        ) from error
    return {key: hint for key, hint in hints.items() if key != "return"}


# Any: the parameters of a partial object are unknown.
def _function_of(function: Function) -> Any:
    """Return the function of a `functools.partial`, or the function itself."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return inner


def _docstring(function: Function) -> str:
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    if isinstance(function, type):
        # Not the docstring of a base class.
        return inspect.cleandoc(function.__doc__ or "")
    return inspect.getdoc(type(function).__call__) or inspect.cleandoc(type(function).__doc__ or "")


def is_async(function: Function) -> bool:
    """Return whether a call of the function returns at once what has to be awaited."""
    if isinstance(function, type):
        return False
    # Any: a function, or an object with one.
    functions: tuple[Any, Any] = function, getattr(function, "__call__")  # noqa: B004, B009
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in functions)


def _split_receiver(function: Any) -> tuple[Function, Receiver | None]:
    """Return the function of a method, and what the method is bound to when it is taken from an object."""
    # Any: the function within is unknown.
    inner: Any = getattr(function, "__func__", None)
    if isinstance(function, staticmethod):
        return inner, None
    if isinstance(function, classmethod):
        return inner, "class"
    if inspect.isfunction(function):
        outer = function.__qualname__.rpartition(".")[0]
        first = next(iter(inspect.signature(function).parameters.values()), None)
        is_method = bool(outer) and not outer.endswith("<locals>") and first is not None
        if is_method and first is not None and first.name in ("self", "cls") and first.annotation is first.empty:
            return function, "object"
    return function, None


def _read_parameters(function: Function, receiver: Receiver | None) -> list[inspect.Parameter] | None:
    """Return the parameters that a call may pass, without the receiver; `None` for a function in C without them."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    # Any: the parameters of a partial object are unknown.
    bound: Any = getattr(function, "keywords", {}) if type(function) is functools.partial else {}
    known = [one for one in signature.parameters.values() if one.name not in bound]
    return known if receiver is None else known[1:]


def _takes_keyword(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _takes_many(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _define(
    name: str,
    summary: str,
    function: Function,
    parameters: Mapping[str, tuple[Any, Any]],
    receiver: Receiver | None = None,
) -> Definition:
    """Return the definition of a tool from its parameters: the annotation and the default of each."""
    fields: dict[str, Any] = {}
    filled_fields = _find_filled_parameters({key: kind for key, (kind, _) in parameters.items()})
    for key, (annotated, default) in parameters.items():
        kind = annotated
        if key in filled_fields["run_parameters"] or key == filled_fields["call_parameter"]:
            continue
        if isinstance(default, FieldInfo):
            text = f"the default of {key} in {name} is Field(...), so the function would receive that object"
            raise ToolDefinitionError(f"{text}; write {key}: Annotated[..., Field(...)]")
        if default is not inspect.Parameter.empty:
            shown: dict[str, Any] = {}
            if isinstance(default, (str, int, float, bool, NoneType)):
                shown["default"] = default
            kind = NotRequired[Annotated[kind, Field(json_schema_extra=shown)]]
        fields[key] = kind
    # The typed dict is built at run time, which type checkers cannot follow.
    make: Any = TypedDict
    arguments = with_config(ConfigDict(extra="forbid"))(make(name, fields))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(arguments)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise _without_schema(name, error) from error
    schema, awaited = _without_titles(schema), is_async(function)
    return Definition(name, summary, schema, function, adapter, awaited, receiver=receiver, **filled_fields)


def is_run(kind: object) -> bool:
    """Return whether a parameter with this annotation receives the run so far."""
    if get_origin(kind) is Annotated:
        return is_run(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return all(one is NoneType or is_run(one) for one in get_args(kind))
    return kind is Run


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for argument in schema["properties"].values():
        argument.pop("title", None)
    return schema
