"""Make a tool of an executor. Each call starts a run nested in the run that makes the call."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from graphexec._arguments import DESCRIPTION, NAME, validate
from graphexec.effects import TOOL_CALLS
from graphexec.errors import ToolDefinitionError
from graphexec.executor.inputs import to_outputs
from graphexec.executor.result import RunResult
from graphexec.kernel.effects import CallContext, NestedRuns
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
        return answer_of(nested.run(inputs, context=call.context, host=call))

    async def arun(call: CallContext[Any], **inputs: str) -> Any:
        return answer_of(await nested.arun(inputs, context=call.context, host=call))

    for function in (run, arun):
        # `tool` derives the schema from the annotations and the signature.
        function.__annotations__ = {_CALL: CallContext[Any], **dict.fromkeys(keys, str), "return": Any}
        kind = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(key, kind) for key in (_CALL, *keys)])
        setattr(function, "__signature__", signature)  # noqa: B010 - a function has no such attribute to a checker
    made = tool(name=name, description=description, async_function=arun)(run)
    return dataclasses.replace(
        made,
        context_types=context_types_of(executor),
        nested=executor.verify().nested_runs(name, TOOL_CALLS.name),
        check_access=executor.check_access,
    )


def context_types_of(executor: AgentExecutor) -> tuple[type, ...]:
    """Return the classes of context of a run, which the outer run checks before its first step."""
    of_nodes = [one.context_type for one in executor.graph if one.context_type is not None]
    answering = (executor.run_context.handlers, *executor.run_context.handlers_of(executor.graph).values())
    of_handlers = [kind for handlers in answering for one in handlers.values() for kind in one.context_types]
    return tuple(dict.fromkeys([*of_nodes, *of_handlers]))


def nested_runs(tools: Iterable[AnyTool]) -> tuple[NestedRuns, ...]:
    """Return what the nested runs of these tools charge."""
    found = [
        dataclasses.replace(one.nested, attempts=1 if one.retry is None else one.retry.attempts)
        for one in tools
        if one.nested is not None
    ]
    return NestedRuns.merge(found)


def answer_of(result: RunResult) -> Any:
    """Return the answer of a nested run, or its outputs by name if it has several."""
    outputs = to_outputs(result.ending)
    return outputs["output"] if list(outputs) == ["output"] else outputs
