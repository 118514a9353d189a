"""The options of `run` that select an executor, for other commands that run one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from graphexec.cli.runs.building import AgentOptions
from graphexec.cli.runs.running import run


# Any: the signature is that of the command line.
def with_agent_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of `run` that select an executor; it receives them as `options`."""
    names = [field.name for field in fields(AgentOptions)]
    of_run = inspect.signature(run, eval_str=True).parameters
    shared = [of_run[name] for name in names if name in of_run]
    own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "options"]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        options = AgentOptions(**{one.name: arguments.pop(one.name) for one in shared})
        command(options=options, **arguments)

    first = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    last = [one for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY]
    wrapper.__dict__["__signature__"] = inspect.Signature([*first, *shared, *last])
    return wrapper
