"""Executors of the user: those that a target of the command line names."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, cast

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.targets import format_place, is_module_reference, load_object, machines_at
from graphexec.errors import an
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.graph import Graph

_EXAMPLE = "my_agent.py:executor"


def load_executor(reference: str) -> AgentExecutor:
    """Return the named executor, or that of a function without parameters, or the only one of a module or a file.

    Raises `UsageError` for anything else, and for a function that raises.
    """
    if is_module_reference(reference):
        return _only_executor(reference)
    _, found = load_object(reference, _EXAMPLE)
    if isinstance(found, AgentExecutor):
        # Of any output type, which an object that is loaded does not tell.
        return found  # pyright: ignore[reportUnknownVariableType]
    if inspect.isfunction(found) or inspect.ismethod(found) or inspect.isbuiltin(found):
        return _call_factory(reference, found)
    raise _refuse(reference, found)


def _only_executor(reference: str) -> AgentExecutor:
    machines = machines_at(reference)
    executors = [one for one in machines if isinstance(one.value, AgentExecutor)]
    match executors:
        case [only]:
            return cast("AgentExecutor", only.value)
        case []:
            raise _refuse(machines[0].name, machines[0].value)
        case _:
            names = " or ".join(one.name for one in executors)
            raise UsageError(f"{reference} has {len(executors)} executors; name {names}")


# Any: a function of the user.
def _call_factory(reference: str, factory: Callable[..., Any]) -> AgentExecutor:
    remedy = "name an executor, or a function (def) without parameters that returns one"
    if inspect.iscoroutinefunction(factory):
        raise UsageError(f"{reference} is a coroutine function; {remedy}")
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{reference} has parameters ({error}); {remedy}") from error
    try:
        # Its output must not mix with the answer.
        with redirect_stdout(sys.stderr):
            made = factory()
    except KeyboardInterrupt:
        raise
    # A user's function may raise anything, even SystemExit.
    except BaseException as error:
        raise UsageError(f"{reference}() raised {type(error).__name__}: {error}{format_place(error)}") from error
    if isinstance(made, AgentExecutor):
        # As above.
        return made  # pyright: ignore[reportUnknownVariableType]
    raise _refuse(f"{reference}()", made)


def _refuse(reference: str, found: object) -> UsageError:
    """Return the error for an object that is not an executor, with what to do."""
    file = reference.rpartition(":")[0]
    if isinstance(found, Graph):
        bare = reference.removesuffix("()")
        return UsageError(
            f"{reference} is a graph, which has no agent to answer; name an executor, such as {file}:executor, or look "
            f"at the graph with graphexec check {bare} or graphexec draw {bare}"
        )
    kind = f"the class {found.__name__}" if isinstance(found, type) else an(type(found).__name__)
    return UsageError(f"{reference} is {kind}, not an executor; name an AgentExecutor in {file}")
