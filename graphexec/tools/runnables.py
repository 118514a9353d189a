"""Tools of LangChain as tools of this package. They are read by their attributes; LangChain is not imported."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, TypeAdapter

from graphexec.errors import InputError, ToolDefinitionError
from graphexec.kernel.effects import CallContext
from graphexec.messages import Image
from graphexec.tools.arguments import define_model_tool, takes_more
from graphexec.tools.json_schema import tool_from_schema
from graphexec.tools.options import ReportedError
from graphexec.tools.tool import AnyTool, Tool


# Any: an object of another library, which has the attributes that are read; so in this module.
def wrap_runnable(runnable: Any) -> AnyTool:
    """Return a tool that invokes a tool of LangChain: with a dict of the arguments in its schema, or with a string.

    It validates the arguments itself, and handles the errors that its `handle_tool_error` names. What it injects itself
    is neither offered to the model nor taken from it. Content blocks become text and images, and a tool without a
    blocking form is awaited in sync runs, too. Raises `ToolDefinitionError` for an argument that nobody would inject.
    """
    whole: Any = getattr(runnable, "args_schema", None)
    schema = whole
    if schema is not None or {*getattr(runnable, "args", ())} - {"tool_input"}:
        schema = getattr(runnable, "tool_call_schema", schema)
        whole = runnable.get_input_schema() if whole is None else whole
    direct = getattr(runnable, "return_direct", False) is True
    fields: Mapping[str, Any] = getattr(whole, "model_fields", {})
    injected = {*fields} - {*getattr(schema, "model_fields", ())}
    # Of a JSON schema, LangChain reads them in the signature.
    hidden = {*getattr(runnable, "_injected_args_keys", ())} - {*fields}
    _require_injected(runnable, {name: fields[name] for name in fields if name in injected}, hidden)
    injected |= hidden

    # LangChain offers a field by its name, and reads it by its alias.
    aliases = {name: one.validation_alias for name, one in fields.items() if isinstance(one.validation_alias, str)}

    def to_input(arguments: dict[str, Any], call: CallContext[Any] | None) -> Any:
        read = {aliases.get(name, name): value for name, value in arguments.items() if name not in injected}
        return _to_input(runnable, read, injected, call)

    def call(*, graphexec_call: CallContext[Any] | None = None, **arguments: Any) -> Any:
        return invoke(to_input(arguments, graphexec_call))

    async def acall(*, graphexec_call: CallContext[Any] | None = None, **arguments: Any) -> Any:
        return await ainvoke(to_input(arguments, graphexec_call))

    # The input is also a dict, or a call.
    def invoke(tool_input: str) -> Any:
        try:
            return _result(runnable, runnable.invoke(tool_input))
        except NotImplementedError as error:
            if not _has_only_coroutine(type(runnable), error):
                raise
            # A coroutine is awaited as any result is.
            return ainvoke(tool_input)

    async def ainvoke(tool_input: str) -> Any:
        return _result(runnable, await runnable.ainvoke(tool_input))

    # A tool that has only a coroutine, as those of an MCP server, cannot be invoked.
    only_async = getattr(runnable, "func", runnable) is None
    function, ask_once = (acall, ainvoke) if only_async else (call, invoke)
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
        handles = bool(getattr(runnable, "handle_validation_error", False))
        # What the tool says of arguments that do not fit is the observation.
        adapter = TypeAdapter(dict[str, Any]) if handles else _reading_aliases(schema, injected, closed=closed)
        values = defined._replace(arguments=adapter)._asdict()
        return Tool(**values, async_function=awaited, return_direct=direct)

    second = ainvoke if has_second else None
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


def _require_injected(runnable: Any, fields: Mapping[str, Any], hidden: Collection[str]) -> None:
    """Raise `ToolDefinitionError` for an argument that nobody would inject: LangChain's tools know only a call's id.

    The arguments are `fields` of the schema, or are `hidden` in the signature.
    """
    missing: list[str] = []
    for argument, field in fields.items():
        marks = [one if isinstance(one, type) else type(one) for one in field.metadata]
        known = any(kind.__name__ == "InjectedToolCallId" for mark in marks for kind in mark.__mro__)
        missing += [argument] if field.is_required() and not known else []
    functions = [getattr(runnable, name, None) for name in ("func", "coroutine", "_run")]
    for function in filter(None, functions if hidden else ()):
        required = [name for name, one in inspect.signature(function).parameters.items() if one.default is one.empty]
        missing += [name for name in required if name in hidden]
    for argument in missing:
        raise ToolDefinitionError(
            f"{runnable.name} has the injected argument {argument}, which an executor does not inject; give it a "
            "default, or write a tool with a parameter of the type CallContext[...]"
        )


def _has_only_coroutine(kind: Any, error: NotImplementedError) -> bool:
    """Return whether the `_run` of a class of tools raised this, and its `_arun` is not LangChain's, which calls it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    awaits, code = getattr(kind, "_arun", None), getattr(getattr(kind, "_run", None), "__code__", None)
    is_own = not getattr(awaits, "__module__", "langchain_core").startswith("langchain_core.")
    return frame is not None and is_own and frame.tb_frame.f_code is code


def _to_input(runnable: Any, own: dict[str, Any], injected: Collection[str], call: CallContext[Any] | None) -> Any:
    """Return the arguments of a tool, in a whole call where it needs one.

    That is to get the call's id, or to say that it failed.
    """
    handlers = ("handle_tool_error", "handle_validation_error")
    reports = hasattr(runnable, "tool_call_schema") and any(getattr(runnable, name, False) for name in handlers)
    if not injected and not reports:
        return own
    call_id = "" if call is None else call.provider_id or str(call.id)
    return {"type": "tool_call", "id": call_id, "name": runnable.name, "args": own}


def _result(runnable: Any, returned: Any) -> Any:
    """Return the content of what LangChain's tool returns: messages with results, or the result.

    Raises `ReportedError` if it reports an error, and `ToolDefinitionError` for a command that needs a graph.
    """
    held: Any = returned
    if isinstance(returned, list) and held and all(map(_is_output, held)):
        contents = [_result(runnable, one) for one in held]
        return "\n".join(contents) if all(isinstance(one, str) for one in contents) else contents
    if _is_message(held):
        if getattr(held, "status", "") == "error":
            raise ReportedError(held.content)
        held = held.content
    elif _is_output(held):
        return _read_command(runnable.name, held)
    return _read_content(held)


def _is_message(value: Any) -> bool:
    return hasattr(value, "tool_call_id") and hasattr(value, "content")


def _is_output(value: Any) -> bool:
    """Return whether a value is a message with a result, or a command of LangGraph."""
    return _is_message(value) or (type(value).__name__ == "Command" and hasattr(value, "goto"))


def _read_command(name: str, command: Any) -> Any:
    """Return the messages in a command of LangGraph. Raises `ToolDefinitionError` if there is more in it."""
    update: Any = command.update or {}
    # An update may also be a list of pairs, or an object.
    names: list[str] = [*update] if isinstance(command.update or {}, dict) else ["an update"]
    wants = [*(["goto"] if command.goto else []), *(name for name in names if name != "messages")]
    if wants or not names:
        raise ToolDefinitionError(
            f"{name} returned a Command with {', '.join(wants) or 'no messages'}, which only a graph of LangGraph can "
            "follow; return the text for the model"
        )
    return "\n".join(str(getattr(one, "text", one)) for one in update["messages"])


def _read_content(content: Any) -> Any:
    """Return content blocks, as tools of MCP servers return them, as a string, or as strings and images."""
    blocks: Any = content
    if not isinstance(content, list) or not blocks or not all(map(_is_block, blocks)):
        return blocks
    parts = [_read_block(one) for one in blocks]
    return "\n".join(parts) if all(isinstance(one, str) for one in parts) else parts


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("type")) in _BLOCKS  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


# The types of blocks that are read.
_BLOCKS = frozenset({"text", "image", "image_url"})


def _read_block(block: Any) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"image_url": {"url": url}} | {"image_url": url} | {"url": url}:
            pass
        case {"base64": data, "mime_type": kind} | {"data": data, "mime_type": kind} | {"data": data, "mimeType": kind}:
            url = f"data:{kind};base64,{data}"
        case _:
            return block
    try:
        return Image(url)
    except InputError:
        # It stays data.
        return block
