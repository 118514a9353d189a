"""Tools of LangChain as tools of this package. They are read by their attributes; LangChain is not imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, TypeAdapter

from graphexec.errors import ToolDefinitionError
from graphexec.kernel.effects import CallContext
from graphexec.tools.arguments import define_model_tool, takes_more
from graphexec.tools.json_schema import tool_from_schema
from graphexec.tools.options import ReportedError
from graphexec.tools.tool import AnyTool, Tool


# Any: an object of another library, which has the attributes that are read; so in this module.
def wrap_runnable(runnable: Any) -> AnyTool:
    """Return a tool that invokes a tool of LangChain: with a dict of the arguments in its schema, or with a string.

    It validates the arguments itself, and handles the errors that its `handle_tool_error` names. What it injects itself
    is neither offered to the model nor taken from it. Raises `ToolDefinitionError` for an argument that nobody would
    inject.
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
        # A model of pydantic 1, which has this method.
        model: Any = schema
        schema = model.schema()
    if schema is not None and not isinstance(schema, type):
        return tool_from_schema(
            runnable.name, runnable.description, schema, function, async_function=awaited, return_direct=direct
        )
    if schema is not None:
        defined = define_model_tool(function, runnable.name, runnable.description, schema)
        # LangChain passes what it has no model for to `_run`, as it is.
        run: Any = getattr(runnable, "_run", None)
        closed = getattr(runnable, "args_schema", None) is None and run is not None and not takes_more(run)
        adapter = _reading_aliases(schema, injected, closed=closed)
        values = defined._replace(arguments=adapter)._asdict()
        return Tool(**values, async_function=awaited, return_direct=direct)

    second = aask if has_second else None
    return Tool(runnable.name, ask_once, runnable.description, coroutine=second, return_direct=direct)


def _reading_aliases(model: type[BaseModel], injected: Collection[str], *, closed: bool) -> TypeAdapter[Any]:
    """Return an adapter that validates by a model, and returns the arguments as the model reads them.

    Fields with an alias have it, the defaults of the others are added, and the `injected` ones are left out. If the
    arguments are `closed`, no others are valid.
    """
    checked = model
    if closed:
        # The class is built at run time, which type checkers cannot follow.
        make: Any = type(model)
        checked = make(model.__name__, (model,), {"model_config": {"extra": "forbid"}, "__module__": __name__})

    def read(given: dict[str, Any]) -> dict[str, Any]:
        arguments = {name: value for name, value in given.items() if name not in injected}
        valid = checked.model_validate(arguments)
        unset = [
            name
            for name, field in model.model_fields.items()
            if name not in valid.model_fields_set and field.validation_alias is None
        ]
        return {**arguments, **{name: getattr(valid, name) for name in unset}}

    return TypeAdapter(Annotated[dict[str, Any], AfterValidator(read)])


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
