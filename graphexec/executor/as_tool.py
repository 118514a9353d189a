"""Make a tool, or an effect, of an executor. Each call starts a run nested in the run that makes the call."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, NamedTuple

from graphexec._arguments import DESCRIPTION, NAME, validate
from graphexec.effects import TOOL_CALLS, GraphResult, RunGraph
from graphexec.errors import AbandonedError, InputError, ToolDefinitionError, described
from graphexec.executor.inputs import to_outputs
from graphexec.executor.result import RunResult
from graphexec.kernel.effects import CallContext, NestedRuns
from graphexec.kernel.events import Answered, Asked, Event
from graphexec.kernel.meters import Meter
from graphexec.kernel.snapshot import NestedRun, Snapshot
from graphexec.runtime.calls import scope_of
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.tools import AnyTool
from graphexec.tools.tool import tool

if TYPE_CHECKING:
    from graphexec.executor.executor import AgentExecutor


# The parameter that receives the `CallContext`.
_CALL = "call"


def executor_tool(
    executor: AgentExecutor, nested: AgentExecutor, keys: Sequence[str], name: str, description: str
) -> AnyTool:
    """Return a tool that runs `nested`, a copy of the executor, with the inputs `keys`; see `AgentExecutor.as_tool`."""
    validate("as_tool", ("name", name, NAME), ("description", description, DESCRIPTION), error=ToolDefinitionError)
    wrong = [key for key in keys if not key.isidentifier() or iskeyword(key) or key == _CALL]
    if wrong:
        raise ToolDefinitionError(f"the agent has the input {wrong[0]!r}, an invalid argument name; rename the input")

    def run(call: CallContext[Any], **inputs: str) -> Any:
        return _answer(nested.run(inputs, context=call.context, host=call))

    async def arun(call: CallContext[Any], **inputs: str) -> Any:
        return _answer(await nested.arun(inputs, context=call.context, host=call))

    for function in (run, arun):
        # `tool` derives the schema from the annotations and the signature.
        function.__annotations__ = {_CALL: CallContext[Any], **dict.fromkeys(keys, str), "return": Any}
        kind = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(key, kind) for key in (_CALL, *keys)])
        setattr(function, "__signature__", signature)  # noqa: B010 - a function has no such attribute to a checker
    kinds = _context_types(executor)
    made = tool(name=name, description=description, async_function=arun)(run)
    return dataclasses.replace(
        made,
        context_types=kinds,
        nested=executor.verify().nested_runs(name, TOOL_CALLS.name),
        check_access=executor.check_access,
    )


def _context_types(executor: AgentExecutor) -> tuple[type, ...]:
    """Return the classes of context of a run, which the outer run checks before its first step."""
    of_nodes = [one.context_type for one in executor.graph if one.context_type is not None]
    answering = (executor.run_context.handlers, *executor.run_context.handlers_of(executor.graph).values())
    of_handlers = [kind for handlers in answering for one in handlers.values() for kind in one.context_types]
    return tuple(dict.fromkeys([*of_nodes, *of_handlers]))


class NestedGraph(NamedTuple):
    """The class of the effects that run an executor, and their handler."""

    effect: type[RunGraph]
    handler: Handler


def executor_effect(executor: AgentExecutor, nested: AgentExecutor, name: str) -> NestedGraph:
    """Return the effect that runs `nested`, a copy of the executor; see `AgentExecutor.as_effect`."""
    validate("as_effect", ("name", name, NAME))
    verdict = executor.verify()
    verdict.require_proof()
    assert verdict.bounds is not None, "a proof has bounds"
    bounds = verdict.bounds.meters
    unbounded = [meter for meter, bound in bounds.items() if bound.number is None]
    if unbounded:
        names = " and ".join(meter.replace("_", " ") for meter in unbounded)
        raise InputError(
            f"as_effect: nothing bounds the {names} of a run of the executor, so nothing can be reserved for it; "
            f"set {' and '.join(f'max_{meter}' for meter in unbounded)}"
        )
    meters = {**executor.graph.meters, **{one: Meter(one) for one in bounds if one not in executor.graph.meters}}
    reserves = {meter: int(bounds[one].number or 0) if one in bounds else None for one, meter in meters.items()}
    # The class has no fields of its own, so it stays a frozen dataclass.
    kind: type[RunGraph] = type(name, (RunGraph,), {"__slots__": (), "reserves": reserves, "__module__": __name__})

    async def answer(effect: RunGraph, call: CallContext[Any], io: IO) -> GraphResult:
        given: Mapping[str, Any] | Snapshot = effect.inputs
        if call.nested is not None:
            given = call.nested.read(nested.graph)

        def keep_state(event: Event[Any]) -> None:
            if isinstance(event, (Asked, Answered)) and event.call is not None:
                scope = scope_of(event.call)
                began = scope.began if scope.clock is scope_of(call).clock else None
                call.nested = NestedRun(scope.execution.snapshot(), began)

        try:
            result = await nested.follow_nested(given, io, call, keep_state)
        except AbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - the failure of one run is no failure of the others
            return GraphResult(described(error), "failed", f"{type(error).__module__}.{type(error).__qualname__}")
        return GraphResult(_answer(result), result.reason)

    return NestedGraph(
        kind, Handler(answer, context_types=_context_types(executor), check_access=executor.check_access)
    )


def nested_runs(tools: Iterable[AnyTool]) -> NestedRuns | None:
    """Return what the nested runs of these tools charge; `None` if none of the tools is made of an executor."""
    found = [
        dataclasses.replace(one.nested, attempts=1 if one.retry is None else one.retry.attempts)
        for one in tools
        if one.nested is not None
    ]
    return NestedRuns.merge(found)


def _answer(result: RunResult) -> Any:
    outputs = to_outputs(result.ending)
    return outputs["output"] if list(outputs) == ["output"] else outputs
