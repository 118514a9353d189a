"""What a run begins with: the caller's inputs by name, and what a memory adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from graphexec.actions import AgentFinish, Run, run_of
from graphexec.agents import Agent
from graphexec.errors import InputError
from graphexec.executor.result import Ending
from graphexec.executor.table import Ready
from graphexec.kernel.snapshot import Snapshot

if TYPE_CHECKING:
    from graphexec.memory import Memory

Inputs: TypeAlias = Mapping[str, Any] | str


def name_inputs(inputs: Inputs, keys: Sequence[str]) -> dict[str, Any]:
    """Return inputs by name: a text is the only one that `keys` name. Raises `InputError` if it cannot be."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    # Users without a type checker pass lists of messages, and None.
    if not isinstance(inputs, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"the inputs are {inputs!r}; pass a dict of them by name, or the text of the only one")
    match keys:
        case ():
            return {"input": inputs}
        case (key,):
            return {key: inputs}
        case _:
            raise InputError(f"the agent has several inputs; pass a dict with {', '.join(keys)} instead of a text")


def ready(every: Mapping[str, Any], agent: Agent, keys: Sequence[str]) -> Ready:
    """Return the beginning of a run. Raises `InputError` for missing inputs; `keys` are those that a caller passes."""
    missing = [key for key in agent.input_keys if key not in every]
    if missing:
        wanted = ", ".join(f"{key!r}: ..." for key in dict.fromkeys([*keys, *missing]))
        raise InputError(f"the inputs lack {', '.join(missing)}; pass {{{wanted}}}", missing=missing)
    return Ready(Run(every))


def keys_of(agent: Agent, memory: Memory | None) -> tuple[str, ...]:
    """Return the inputs that no memory provides. Raises `InputError` for an invalid memory."""
    if memory is None:
        return agent.input_keys
    # Users without a type checker pass classes, and histories.
    absent = [name for name in ("keys", "load", "save", "aload", "asave") if not hasattr(memory, name)]
    if isinstance(memory, type) or absent:
        lacks = f", which has no {', '.join(absent)}" if absent else ""
        raise InputError(f"memory is {memory!r}{lacks}; make one with BufferMemory(), say")
    messages = [key for key in memory.keys if key in agent.optional_keys]
    if messages and getattr(memory, "as_messages", True) is False:
        raise InputError(
            f"the memory provides {messages[0]} as text, and the agent reads messages; make it with as_messages=True"
        )
    read = {*agent.input_keys, *agent.optional_keys}
    if agent.function is None and read.isdisjoint(memory.keys):
        keys = ", ".join(memory.keys)
        other = f", or make the memory with key={agent.optional_keys[0]!r}" if agent.optional_keys else ""
        raise InputError(
            f"the memory provides {keys}, which the agent does not read; write {{{keys}}} into its prompt{other}"
        )
    return tuple(key for key in agent.input_keys if key not in memory.keys)


def inputs_of(start: Ready | Snapshot) -> Mapping[str, Any]:
    """The inputs that a run began with; where a node of the user's own carries no run, there are none."""
    run = run_of(start.value if isinstance(start, Snapshot) else start)
    return {} if run is None else run.inputs


def outputs_of(ending: Ending) -> dict[str, Any]:
    """What a run returns by name."""
    return dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
