"""Collect tools: by name, those of an object, a class or a module, and functions and toolsets among tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Protocol, TypeGuard

from graphexec._arguments import NAME, Constraint, LangChainObject, is_executor, validate
from graphexec.errors import ToolDefinitionError, format_value
from graphexec.tools.tool import AnyTool, Tool, tool


class Toolset(Protocol):
    """An object whose tools take its place in a list of tools, such as an `MCPServer` of `graphexec.integrations`."""

    def tools(self) -> Iterable[AnyTool]:
        """Return the tools, in order; it may be called more than once."""
        ...


TOOLS = Constraint(
    "a list of tools, [] for none",
    lambda value: isinstance(value, Iterable) and not isinstance(value, (str, Mapping)),
)


def is_tool(value: object) -> TypeGuard[AnyTool]:
    """Return whether a value is a tool; isinstance alone does not give type checkers the type parameters."""
    return isinstance(value, Tool)


# Any: a value of a user's.
def _unwrap_method(value: Any) -> Any:
    """Return the tool of a class method: since Python 3.13 that is a bound method whose function is the tool."""
    inner: object = getattr(value, "__func__", None)
    return inner.__get__(value.__self__) if is_tool(inner) else value


# Any: a value of a user's.
def _remedy_for(given: Any) -> str:
    """Return how to make a tool of what is not one, such as what other libraries take for one."""
    if isinstance(given, str):
        return "pass the function itself, without quotes"
    if is_executor(given):
        return "write executor.as_tool(name, description)"
    if isinstance(given, Mapping):
        return "write tool_from_schema(name, description, schema, function), of graphexec.tools"
    return "decorate the function with @tool"


def tools_by_name(tools: Iterable[AnyTool | Toolset | LangChainObject]) -> Mapping[str, AnyTool]:
    """Return the tools by name; tools of LangChain are made tools, and a `Toolset` stands for its tools.

    Raises `ToolDefinitionError` if an item is not a tool, or if two have the same name.
    """
    by_name: dict[str, AnyTool] = {}
    for one in _collect(tools, _require_tool):
        if one.receiver is not None:
            raise ToolDefinitionError(
                f"{one.name} is a method that belongs to no object yet; take it from one, as in Shop().{one.name}"
            )
        if one.name in by_name:
            raise ToolDefinitionError(f"two tools are named {one.name}; rename one with @tool(name=...)")
        by_name[one.name] = one
    return by_name


def _require_tool(given: Any) -> AnyTool:
    one = _read_tool(given)
    # Users may pass plain functions.
    if one is None:
        name = getattr(given, "__name__", format_value(given))
        raise ToolDefinitionError(f"{name} is not a tool; {_remedy_for(given)}")
    return one


def _collect(values: Iterable[object], read: Callable[[Any], AnyTool]) -> list[AnyTool]:
    """Return the tools that `read` makes of values, with those of a toolset in its place.

    Raises `ToolDefinitionError` for a tool of a toolset whose name another one has.
    """
    validate("", ("tools", values, TOOLS), error=ToolDefinitionError)
    collected: list[AnyTool] = []
    owners: dict[str, object] = {}
    for value in values:
        found: Iterable[AnyTool] = ()
        if is_toolset := _is_toolset(value):
            found = value.tools()
            validate(format_value(value), ("tools()", found, TOOLS), error=ToolDefinitionError)
        for one in map(_require_tool, found) if is_toolset else [read(value)]:
            owner = owners.setdefault(one.name, value)
            if owner is not value and (_is_toolset(owner) or _is_toolset(value)):
                both = f"one of {format_value(owner)}, and one of {format_value(value)}"
                raise ToolDefinitionError(
                    f"two tools are named {one.name}: {both}; pass prefix=... to the server, or rename yours with "
                    "@tool(name=...)"
                )
            collected.append(one)
    return collected


def _is_toolset(value: object) -> TypeGuard[Toolset]:
    # A class has tools only when an object is made of it, and a tool of a user may be named so.
    method = getattr(value, "tools", None)
    return callable(method) and not is_tool(method) and not isinstance(value, (type, ModuleType))


def tools_of(source: object) -> tuple[AnyTool, ...]:
    """Return the tools of an object, a class or a module, in the order of their definitions.

    They are what `@tool` has made under a public name: methods, which are bound to the object, static methods and class
    methods, attributes, and the functions of a module, also imported ones. Raises `ToolDefinitionError` if there are
    none, and for a class with a method that needs an object.
    """
    found: dict[str, AnyTool] = {name: one for name, one in _members(source) if not name.startswith("_")}
    what = _describe(source)
    if not found:
        raise ToolDefinitionError(f"{what} has no tools; write @tool above the functions that a model may call")
    unbound = [one.name for one in found.values() if one.receiver is not None]
    if unbound:
        raise ToolDefinitionError(f"{what} has the method {unbound[0]}, which needs an object; pass tools_of({what}())")
    # A tool may have two names.
    return tuple({id(one): one for one in found.values()}.values())


def _members(source: object) -> Iterator[tuple[str, AnyTool]]:
    if isinstance(source, ModuleType):
        yield from ((name, value) for name, value in vars(source).items() if is_tool(value))
        return
    kinds = source.__mro__ if isinstance(source, type) else type(source).__mro__
    # Names in the order of their first definition. `vars` does not evaluate properties.
    names = dict.fromkeys(name for kind in reversed(kinds) for name in vars(kind))
    own: Mapping[str, Any] = {} if isinstance(source, type) else getattr(source, "__dict__", {})
    for name in dict.fromkeys([*names, *own]):
        static = inspect.getattr_static(source, name)
        # A static method and a class method hold their function.
        inner: Any = getattr(static, "__func__", None) if type(static) in (staticmethod, classmethod) else static
        if isinstance(inner, Tool):
            yield name, _unwrap_method(getattr(source, name))


def to_tools(values: Iterable[object]) -> tuple[AnyTool, ...]:
    """Return tools; functions and other callables among the values are made tools, as by `@tool`.

    So are LangChain's tools: objects with `invoke`, a name and a description. A `Toolset` stands for its tools. Raises
    `ToolDefinitionError` for a function that cannot be a tool, for a value that is not callable, and for an object or a
    module with tools of its own.
    """
    return tuple(_collect(values, _to_tool))


def _to_tool(given: Any) -> AnyTool:
    if (one := _read_tool(given)) is not None:
        return one
    if any(_members(given)):
        what = _describe(given)
        raise ToolDefinitionError(f"{what} has tools, and is none; write *tools_of({what}) instead of it")
    if not callable(given) and not inspect.iscoroutine(given):
        raise ToolDefinitionError(f"{format_value(given)} is not a tool; {_remedy_for(given)}")
    # Any: `tool` refuses a coroutine, with the remedy.
    function: Any = given
    return tool(function)


def _read_tool(given: Any) -> AnyTool | None:
    """Return a tool, also one that is made of LangChain's; `None` for any other value."""
    value: Any = _unwrap_method(given)
    if is_tool(value):
        return value
    # A user's class of executors may have these attributes, too.
    if isinstance(value, type) or is_executor(value):
        return None
    texts = (getattr(value, key, None) for key in ("name", "description"))
    if not callable(getattr(value, "invoke", None)) or not all(map(NAME.fits, texts)):
        return None
    # Loads pydantic.
    from graphexec.tools.runnables import wrap_runnable

    return wrap_runnable(value)


def _describe(source: object) -> str:
    name: object = getattr(source, "__name__", None)
    return name if isinstance(name, str) else type(source).__name__.lower()
