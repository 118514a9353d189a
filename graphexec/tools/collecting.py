"""Collect tools: by name, those of an object, a class or a module, and functions among tools."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeGuard

from graphexec._arguments import NAME, Constraint, is_executor, validate
from graphexec.errors import ToolDefinitionError, format_value
from graphexec.kernel.effects import CallContext
from graphexec.tools.json_schema import tool_from_schema
from graphexec.tools.options import ReportedError
from graphexec.tools.tool import AnyTool, Tool, tool

TOOLS = Constraint(
    "a list of tools, [] for none",
    lambda value: isinstance(value, Iterable) and not isinstance(value, (str, Mapping)),
)


def is_tool(value: object) -> TypeGuard[AnyTool]:
    """Return whether a value is a tool; isinstance alone does not give type checkers the type parameters."""
    return isinstance(value, Tool)


# Any: a value of a user's.
def unwrap_method(value: Any) -> Any:
    """Return the tool of a class method: since Python 3.13 that is a bound method whose function is the tool."""
    inner: object = getattr(value, "__func__", None)
    return inner.__get__(value.__self__) if is_tool(inner) else value


# Any: a value of a user's.
def remedy_for(given: Any) -> str:
    """Return how to make a tool of what is not one, such as what other libraries take for one."""
    if isinstance(given, str):
        return "pass the function itself, without quotes"
    if is_executor(given):
        return "write executor.as_tool(name, description)"
    if isinstance(given, Mapping):
        return "write tool_from_schema(name, description, schema, function), of graphexec.tools"
    return "decorate the function with @tool"


def tools_by_name(tools: Iterable[AnyTool]) -> Mapping[str, AnyTool]:
    """Return the tools by name; tools of LangChain are made tools.

    Raises `ToolDefinitionError` if an item is not a tool, or if two have the same name.
    """
    if isinstance(tools, Tool):
        raise ToolDefinitionError(f"tools is the tool {tools.name} itself; pass a list of tools")
    validate("", ("tools", tools, TOOLS), error=ToolDefinitionError)
    by_name: dict[str, AnyTool] = {}
    for given in tools:
        one = unwrap_method(given)
        if not is_tool(one) and _is_runnable(one):
            # LangChain's executor takes its tools, too.
            one = _wrap_runnable(one)
        # Users may pass plain functions.
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolDefinitionError(f"{getattr(one, '__name__', format_value(one))} is not a tool; {remedy_for(one)}")
        if one.receiver is not None:
            raise ToolDefinitionError(
                f"{one.name} is a method that belongs to no object yet; take it from one, as in Shop().{one.name}"
            )
        if one.name in by_name:
            raise ToolDefinitionError(f"two tools are named {one.name}; rename one with @tool(name=...)")
        by_name[one.name] = one
    return by_name


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
            yield name, unwrap_method(getattr(source, name))


def to_tools(values: Iterable[object]) -> tuple[AnyTool, ...]:
    """Return tools; functions and other callables among the values are made tools, as by `@tool`.

    So are LangChain's tools: objects with `invoke`, a name and a description. Raises `ToolDefinitionError` for a
    function that cannot be a tool, for a value that is not callable, and for an object or a module with tools of its
    own.
    """
    validate("", ("tools", values, TOOLS), error=ToolDefinitionError)
    return tuple(_to_tool(value) for value in values)


def _to_tool(given: Any) -> AnyTool:
    value: Any = unwrap_method(given)
    if is_tool(value):
        return value
    if _is_runnable(value):
        return _wrap_runnable(value)
    if any(_members(value)):
        what = _describe(value)
        raise ToolDefinitionError(f"{what} has tools, and is none; write *tools_of({what}) instead of it")
    if not callable(value) and not inspect.iscoroutine(value):
        raise ToolDefinitionError(f"{format_value(value)} is not a tool; {remedy_for(value)}")
    return tool(given)


def _is_runnable(value: Any) -> bool:
    # A user's class of executors may have these attributes, too.
    if isinstance(value, type) or is_executor(value):
        return False
    texts = (getattr(value, key, None) for key in ("name", "description"))
    return callable(getattr(value, "invoke", None)) and all(map(NAME.fits, texts))


# Any: an object of another library, which has these attributes.
def _wrap_runnable(runnable: Any) -> AnyTool:
    """Return a tool that invokes a tool of LangChain: with a dict of the arguments in its schema, or with a string.

    It validates the arguments itself, and handles the errors that its `handle_tool_error` names. What it injects itself
    is neither offered to the model nor taken from it.
    """
    whole: Any = getattr(runnable, "args_schema", None)
    schema = whole
    if schema is not None or {*getattr(runnable, "args", ())} - {"tool_input"}:
        schema = getattr(runnable, "tool_call_schema", schema)
        whole = runnable.get_input_schema() if whole is None else whole
    direct = getattr(runnable, "return_direct", False) is True
    fields: Mapping[str, Any] = getattr(whole, "model_fields", {})
    injected = {*fields} - {*getattr(schema, "model_fields", ())}
    _require_injected(runnable.name, {name: fields[name] for name in fields if name in injected})

    def call(*, graphexec_call: CallContext[Any] | None = None, **arguments: Any) -> Any:
        return _result(runnable.invoke(_to_input(runnable, arguments, injected, graphexec_call)))

    async def acall(*, graphexec_call: CallContext[Any] | None = None, **arguments: Any) -> Any:
        return _result(await runnable.ainvoke(_to_input(runnable, arguments, injected, graphexec_call)))

    def ask(tool_input: str) -> Any:
        return runnable.invoke(tool_input)

    async def aask(tool_input: str) -> Any:
        return await runnable.ainvoke(tool_input)

    # A tool that has only a coroutine, as those of an MCP server, cannot be invoked.
    only_async = getattr(runnable, "func", runnable) is None
    function, ask_once = (acall, aask) if only_async else (call, ask)
    has_second = hasattr(runnable, "ainvoke") and not only_async
    awaited = acall if has_second else None
    if isinstance(schema, type) and not hasattr(schema, "model_json_schema") and hasattr(schema, "schema"):
        # Any: a model of pydantic 1, which has this method.
        model: Any = schema
        schema = model.schema()
    if schema is not None and not isinstance(schema, type):
        return tool_from_schema(
            runnable.name, runnable.description, schema, function, async_function=awaited, return_direct=direct
        )
    if schema is not None:
        # Loads pydantic.
        from graphexec.tools.arguments import define_model_tool, reading_aliases, takes_more

        defined = define_model_tool(function, runnable.name, runnable.description, schema)
        # LangChain passes what it has no model for to `_run`, as it is.
        run: Any = getattr(runnable, "_run", None)
        closed = getattr(runnable, "args_schema", None) is None and run is not None and not takes_more(run)
        adapter = reading_aliases(schema, injected, closed=closed)
        values = defined._replace(arguments=adapter)._asdict()
        return Tool(**values, async_function=awaited, return_direct=direct)

    second = aask if has_second else None
    return Tool(runnable.name, ask_once, runnable.description, coroutine=second, return_direct=direct)


# Any: a field of pydantic.
def _require_injected(name: str, injected: Mapping[str, Any]) -> None:
    """Raise `ToolDefinitionError` for an argument that nobody would inject: LangChain's tools know only a call's id."""
    for argument, field in injected.items():
        marks = [one if isinstance(one, type) else type(one) for one in field.metadata]
        known = any(kind.__name__ == "InjectedToolCallId" for mark in marks for kind in mark.__mro__)
        if field.is_required() and not known:
            raise ToolDefinitionError(
                f"{name} has the injected argument {argument}, which an executor does not inject; give it a default, "
                "or write a tool with a parameter of the type CallContext[...]"
            )


def _to_input(
    runnable: Any, arguments: dict[str, Any], injected: Collection[str], call: CallContext[Any] | None
) -> dict[str, Any]:
    """Return the arguments without those that the tool injects, in a whole call where it needs one.

    That is to get the call's id, or to say that it failed.
    """
    own = {name: value for name, value in arguments.items() if name not in injected}
    handlers = ("handle_tool_error", "handle_validation_error")
    reports = hasattr(runnable, "tool_call_schema") and any(getattr(runnable, name, False) for name in handlers)
    if not injected and not reports:
        return own
    call_id = "" if call is None else call.provider_id or str(call.id)
    return {"type": "tool_call", "id": call_id, "name": runnable.name, "args": own}


def _result(returned: Any) -> Any:
    """Return the content of LangChain's message with a result. Raises `ReportedError` if it reports an error."""
    if not (hasattr(returned, "tool_call_id") and hasattr(returned, "content")):
        return returned
    if getattr(returned, "status", "") == "error":
        raise ReportedError(returned.content)
    return returned.content


def _describe(source: object) -> str:
    name: object = getattr(source, "__name__", None)
    return name if isinstance(name, str) else type(source).__name__.lower()
