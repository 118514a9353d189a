"""Call tools: the handler of `CallTool`. Failures become observations that help the model to correct its call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Literal, TypeAlias, cast, get_args

from graphexec._arguments import Constraint, optional, validate
from graphexec._parsing import compile_lazily
from graphexec.actions import Run
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import GraphexecError, InputError, ToolDefinitionError, close_names, described, qualified_name
from graphexec.kernel.effects import CallContext, InDoubt
from graphexec.messages import check_access
from graphexec.messages.observations import WHOLE, Excerpt
from graphexec.runtime.calls import report
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import BLOCKING, IO, retry, run_sync
from graphexec.runtime.threads import NotDone
from graphexec.tools.options import LENGTH, POLICY, ErrorPolicy, ReportedError, ToolRaisedError
from graphexec.tools.reading import PLAIN
from graphexec.tools.tool import AnyTool, InvalidArgumentsError, ToolRetried

# A set, because a type checker that narrows to the class would not know its type arguments.
_COROUTINES = frozenset[type]({CoroutineType})


# How a called name is matched with the names of the tools.
Lookup: TypeAlias = Literal["exact", "case_insensitive"]
_LOOKUP = Constraint("'exact' or 'case_insensitive'", lambda value: value in get_args(Lookup))


def make_tool_handler(
    tools: Mapping[str, AnyTool],
    *,
    on_error: ErrorPolicy = "observe",
    lookup: Lookup = "exact",
    max_observation: int | None = None,
    max_tool_input: int | None = None,
) -> Handler:
    """Make the handler that calls these tools: unknown names, bad arguments and exceptions become observations.

    `on_error`, `max_observation` and `max_tool_input` (characters) are defaults for the tools. In an async run a
    blocking tool runs in a thread; in a sync run an async tool runs in an event loop. Raises `InputError` for an
    invalid option, and `ToolDefinitionError` if the lookup ignores case and two names differ only in case.
    """
    # These are the names of the executor's options.
    validate(
        "",
        ("handle_tool_errors", on_error, POLICY),
        ("tool_lookup", lookup, _LOOKUP),
        ("max_observation", max_observation, optional(LENGTH, "no limit")),
        ("max_tool_input", max_tool_input, optional(LENGTH, "no limit")),
    )
    exact = lookup == "exact"
    with_defaults = [
        dataclasses.replace(
            one,
            on_error=on_error if one.on_error is None else one.on_error,
            max_observation=max_observation if one.max_observation is None else one.max_observation,
            max_tool_input=max_tool_input if one.max_tool_input is None else one.max_tool_input,
        )
        for one in tools.values()
    ]
    known: dict[str, AnyTool] = {}
    for one in with_defaults:
        other = known.setdefault(one.name if exact else one.name.casefold(), one)
        if other is not one:
            raise ToolDefinitionError(
                f"two tools are named {other.name} and {one.name}, which differ only in case; "
                f"rename one with @tool(name=...)"
            )

    # One function, because every further function call would be paid at each step of a run.
    async def answer(effect: CallTool, call: CallContext[Any], io: IO) -> ToolResult:
        name = effect.name if exact else effect.name.casefold()
        if name not in known:
            return ToolResult(describe_unknown(effect.name, tools), "unknown_tool")
        tool = known[name]
        try:
            arguments = tool.read(effect.tool_input)
        except InvalidArgumentsError as error:
            return ToolResult(str(error), "bad_arguments")
        except Exception as error:  # noqa: BLE001 - a user's validator may raise any exception, as a tool may
            return _handle_error(tool, error)
        if tool.run_parameters or tool.call_parameter is not None:
            arguments |= _fill(tool, effect, call)
        try:
            if tool.timeout is None and tool.retry is None:
                return _call_tool(tool, arguments) if io.blocking else await _call(tool, arguments, io)
            # Each attempt has its own, which it may change.
            return await _retry(tool, lambda: {**tool.read(effect.tool_input), **_fill(tool, effect, call)}, io)
        except ToolRaisedError as raised:
            caught = raised.error
        try:
            return _handle_error(tool, caught)
        finally:
            # The traceback of the error refers to this frame; this avoids a reference cycle.
            del caught

    def check_tools() -> None:
        for one in tools.values():
            check_access(one)

    def in_doubt(effect: CallTool) -> InDoubt:
        called = known.get(effect.name if exact else effect.name.casefold())
        return "tell" if called is None else called.in_doubt

    context_types = {kind for one in with_defaults for kind in one.context_types}
    return Handler(answer, context_types=tuple(context_types), check_access=check_tools, in_doubt=in_doubt)


def _fill(tool: AnyTool, effect: CallTool, call: CallContext[Any]) -> dict[str, Any]:
    """Return what the function receives beside the arguments: copies of the run and the call."""
    if not tool.run_parameters and tool.call_parameter is None:
        return {}
    from graphexec.tools.results import copy_run, give_copies

    filled: dict[str, Any] = {}
    if tool.run_parameters:
        filled = dict.fromkeys(tool.run_parameters, Run({}) if effect.run is None else copy_run(effect.run))
    if tool.call_parameter is not None:
        filled[tool.call_parameter] = give_copies(call, effect)
    return filled


# The characters of a tool's name.
_WORD = compile_lazily(r"[\w-]+")


# Characters of a name that no tool has, of which a model may write any number.
_LONGEST_NAME = 200


def describe_unknown(requested: str, names: Iterable[str]) -> str:
    """Return what the model observes of a call of a tool that is none of these names, with the name it may mean."""
    if len(requested) > _LONGEST_NAME:
        requested = f"{requested[:_LONGEST_NAME]}..."
    text = f"{requested} is not a valid tool, try one of [{', '.join(names)}]."
    folded = {name.casefold(): name for name in names}
    # Models write a call in the place of the name: `weather(city: "Oslo")`, `weather city=Oslo`, `functions.weather`.
    written = requested.casefold()
    words = _WORD().findall(written)
    called = [word for word in dict.fromkeys(words) if word in folded]
    if written not in folded and called and (called[0] == words[0] or len(called) == 1):
        return f"{text} Did you mean {folded[called[0]]}? Write its name alone; the arguments belong in the input."
    closest = close_names(written, folded) or close_names("".join(words[:1]), folded)
    return f"{text} Did you mean {folded[closest[0]]}?" if closest else text


async def _retry(tool: AnyTool, read: Callable[[], dict[str, Any]], io: IO) -> ToolResult:
    if tool.retry is None:
        return await _attempt(tool, read(), io)

    def announce(raised: Exception, attempt: int, wait: float) -> None:
        assert isinstance(raised, ToolRaisedError), "no other error is retried"
        assert isinstance(raised.error, Exception), "retry_on has subclasses of Exception only"
        report(ToolRetried(tool.name, raised.error, attempt, wait))

    return await retry(lambda: _attempt(tool, read(), io), tool.retry, io, announce=announce)


async def _attempt(tool: AnyTool, arguments: dict[str, Any], io: IO) -> ToolResult:
    if tool.timeout is None:
        return await _call(tool, arguments, io)
    result = await io.within(partial(_call, tool, arguments, io), tool.timeout)
    if isinstance(result, NotDone):
        observation = f"{tool.name} timed out: it did not answer within {tool.timeout:g} seconds."
        return ToolResult(observation, "timed_out", error=qualified_name(TimeoutError))
    return result


def _call(tool: AnyTool, arguments: dict[str, Any], io: IO) -> Coroutine[Any, Any, ToolResult]:
    if not io.blocking and (tool.is_async or tool.async_function is not None):
        # `io.either` would keep another coroutine for each waiting call.
        return _await_tool(tool, arguments, io)
    return io.call(_call_tool, tool, arguments)


def _call_tool(tool: AnyTool, arguments: dict[str, Any]) -> ToolResult:
    try:
        returned: Any
        if tool.is_async:
            # Loads asyncio, which most sync runs never need.
            from graphexec.runtime.tasks import run_on_own_loop

            returned = run_on_own_loop(partial(_begin, tool, arguments))
        else:
            returned = tool.function(**arguments)
        if type(returned) not in PLAIN:
            from graphexec.tools.results import settle

            returned = run_sync(settle(returned, tool.max_observation, BLOCKING))
        excerpt = WHOLE if tool.max_observation is None else Excerpt(tool.max_observation)
        return ToolResult(returned, "ok", tool.return_direct, excerpt)
    except BaseException as error:
        from asyncio import CancelledError

        # Blocking calls are not cancelled, so a CancelledError comes from the tool's own code.
        if not isinstance(error, (Exception, CancelledError)):
            raise
        raise _raised(tool, error) from None


async def _begin(tool: AnyTool, arguments: dict[str, Any]) -> Any:
    from graphexec.tools.results import read_async

    # Called here, so that a cancelled call leaves no coroutine that nobody awaits.
    return await read_async(tool.function(**arguments), tool.max_observation)


def _raised(tool: AnyTool, error: BaseException) -> ToolRaisedError:
    from graphexec._mistakes.user_errors import explain_loop_error

    return ToolRaisedError(explain_loop_error(error, f"the tool {tool.name}"))


async def _await_tool(tool: AnyTool, arguments: dict[str, Any], io: IO) -> ToolResult:
    try:
        returned: Any = (tool.async_function or tool.function)(**arguments)
        if type(returned) in _COROUTINES:
            # Written out, as it is what most async tools return.
            returned = await returned
        if type(returned) not in PLAIN:
            from graphexec.tools.results import settle

            returned = await settle(returned, tool.max_observation, io)
        excerpt = WHOLE if tool.max_observation is None else Excerpt(tool.max_observation)
        return ToolResult(returned, "ok", tool.return_direct, excerpt)
    except BaseException as error:
        from asyncio import CancelledError, current_task

        from graphexec.runtime.tasks import has_event_loop

        if isinstance(error, GeneratorExit) or not has_event_loop():
            # The coroutine is being closed, perhaps after its event loop.
            raise
        # The run's own cancellation is passed on; a CancelledError from the tool's own code is a failure of the tool.
        task = current_task()
        is_from_tool = isinstance(error, CancelledError) and task is not None and not task.cancelling()
        if not isinstance(error, Exception) and not is_from_tool:
            raise
        raise _raised(tool, error) from None


# So many exceptions of a group are told, on so many levels, and then those that are no groups; and of causes, so many.
_TOLD, _LEVELS = 5, 3


def _explain(error: BaseException, levels: int = _LEVELS) -> str:
    """Return an exception as text with its notes, those in its group, and its causes unless it has their messages."""
    # Any: the class of what is in a group.
    text, group = described(error), cast("Any", error)
    notes: Any = getattr(error, "__notes__", ())
    # A user may have set anything.
    if isinstance(notes, list):
        text = "; ".join([text, *map(str, cast("list[object]", notes))])
    inner = () if not isinstance(error, BaseExceptionGroup) else group.exceptions if levels else _innermost(group)
    if inner:
        more = [f"and {len(inner) - _TOLD:,} more"] if len(inner) > _TOLD else []
        text = f"{text}: {'; '.join([*(_explain(one, max(levels - 1, 0)) for one in inner[:_TOLD]), *more])}"
    # The library's own errors say what to do.
    cause = None if isinstance(error, GraphexecError) else error.__cause__
    if cause is None or not levels or described(cause).partition(": ")[2] in text:
        return text
    return f"{text} (because of {_explain(cause, levels - 1)})"


def _innermost(error: Any) -> Sequence[BaseException]:
    """Return the exceptions in a group, and in the groups in it, that are no groups."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(cast("Any", one).exceptions)
        else:
            found.append(one)
    return found


def _handle_error(tool: AnyTool, error: BaseException) -> ToolResult:
    policy, excerpt = tool.on_error, Excerpt(tool.max_observation)
    if isinstance(error, ReportedError):
        return ToolResult(error.observation, "error", excerpt=excerpt)
    if policy == "raise":
        raise error
    observation: object = f"{tool.name} failed: {_explain(error)}"
    # CancelledError is not an Exception, so it is not passed to the function.
    if callable(policy) and isinstance(error, Exception):
        observation = policy(error)
        if not isinstance(observation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"on_error of {tool.name} returned {observation!r}; return the observation for the model as a string"
            )
    # Imported here, because most runs raise nothing.
    from graphexec._mistakes.user_errors import format_traceback

    name, frames = qualified_name(type(error)), format_traceback(error)
    return ToolResult(observation, "error", excerpt=excerpt, error=name, traceback=frames)
