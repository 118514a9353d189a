"""Calls of LangChain's tools as `BaseTool.run` and `arun` make them, without what these read anew for each call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from types import MethodType
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager, Callbacks
from langchain_core.runnables import RunnableConfig, run_in_executor
from langchain_core.runnables.config import patch_config, set_config_context
from langchain_core.runnables.utils import coro_with_context
from langchain_core.tools import BaseTool, StructuredTool, Tool

from graphexec.runtime.io import IO

# Any: what its classes override are methods that have a type checker's protection; so for each `tool` below.
_BASE: Any = BaseTool
# What an agent's `tool_run_logging_kwargs` may set of a call, beside what it adds to the callbacks.
_RUN_OPTIONS = signature(BaseTool.run).parameters.keys()


class _Extras(NamedTuple):
    """The parameters that LangChain fills beside the arguments: whether there are managers, and that for a config."""

    callbacks: bool
    run_manager: bool
    config: str | None


# Tools may be made for each run, with functions that hold what is large; none is kept alive here.
_EXTRAS = WeakKeyDictionary[Callable[..., Any], _Extras]()


def _extras_of(function: Callable[..., Any]) -> _Extras:
    """Return the extras of a function, whose type hints take most of the time of LangChain's own call."""
    # A bound method is made anew whenever it is read.
    function = function.__func__ if isinstance(function, MethodType) else function
    if (extras := _EXTRAS.get(function)) is not None:
        return extras
    names = signature(function).parameters
    try:
        hints = get_type_hints(function.func if isinstance(function, partial) else function)
    except Exception:  # noqa: BLE001 - a hint is any code; LangChain ignores what it raises, too
        hints = {}
    config = next((name for name, hint in hints.items() if hint is RunnableConfig), None)
    extras = _EXTRAS[function] = _Extras("callbacks" in names, "run_manager" in names, config)
    return extras


def _own_function(tool: Any, io: IO) -> Callable[..., Any] | None:
    """Return the function from which a tool is made, if it takes arguments only; else the tool's method is called."""
    if type(tool) is not StructuredTool and type(tool) is not Tool:
        return None
    function = tool.func if io.blocking else tool.coroutine or tool.func
    try:
        extras = None if function is None else _extras_of(function)
    except (TypeError, ValueError):
        # It cannot be hashed or referred to weakly, or has no signature.
        return None
    return None if extras is None or extras.callbacks or extras.config else function


# Any: the input, the options and the result of a tool of the user's.
async def call_tool(
    tool: Any, tool_input: Any, io: IO, callbacks: Callbacks, *, verbose: bool, color: str | None, **options: Any
) -> Any:
    """Return the observation of a tool."""
    kind: Any = tool.__class__
    handles = tool.handle_tool_error or tool.handle_validation_error
    is_own = kind.run is not _BASE.run or kind.arun is not _BASE.arun
    # What handles errors, returns more than an observation or has options of its own is left to LangChain.
    if is_own or handles or tool.response_format != "content" or not _RUN_OPTIONS.isdisjoint(options):
        options |= {"verbose": verbose, "color": color, "callbacks": callbacks}
        return tool.run(tool_input, **options) if io.blocking else await tool.arun(tool_input, **options)
    configure = CallbackManager.configure if io.blocking else AsyncCallbackManager.configure
    of_tool = (tool.callbacks, tool.verbose or verbose, None, tool.tags, None, tool.metadata)
    manager: Any = configure(callbacks, *of_tool)
    given: Any = None
    # Verbose, debugging, tracing and the hooks of other packages add handlers, too.
    if manager.handlers and not isinstance(tool_input, str):
        given = tool._filter_injected_args(tool_input)
    text = tool_input if given is None else str(given)
    about = {"name": tool.name, "description": tool.description}
    run = manager.on_tool_start(about, text, color="green", name=None, inputs=given, tool_call_id=None, **options)
    if not io.blocking:
        run = await run
    try:
        observation = await _call(tool, tool_input, io, run)
    except BaseException as error:
        failed = run.on_tool_error(error, tool_call_id=None)
        if not io.blocking:
            await failed
        raise
    ended = run.on_tool_end(observation, color=color, name=tool.name, **options)
    if not io.blocking:
        await ended
    return observation


async def _call(tool: Any, tool_input: Any, io: IO, run: Any) -> Any:
    """Call a tool's function or method, with the callbacks of its run as those of the runnables that it calls."""
    arguments, named = tool._to_args_and_kwargs(tool_input, None)
    # LangChain's methods keep arguments of these names from the function.
    function = None if named.keys() & {"config", "run_manager"} else _own_function(tool, io)
    if function is None:
        kind: Any = tool.__class__
        # As in LangChain, `_arun` passes its own arguments on to `_run`, if it is not overridden.
        extras = _extras_of(kind._run if io.blocking or kind._arun is _BASE._arun else kind._arun)
        named |= {"run_manager": run} if extras.run_manager else {}
        named |= {extras.config: None} if extras.config else {}
        function = tool._run if io.blocking else tool._arun
    elif not io.blocking and tool.coroutine is None:
        function = partial(run_in_executor, None, function)
    with set_config_context(patch_config(None, callbacks=run.get_child())) as context:
        if io.blocking:
            return context.run(function, *arguments, **named)
        return await coro_with_context(function(*arguments, **named), context)
