"""What a run begins with: the caller's inputs by name, and what a memory adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec.actions import AgentFinish
from graphexec.agents import Agent
from graphexec.errors import InputError
from graphexec.executor.result import Ending

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


@final
@dataclass(frozen=True, slots=True)
class InputKeys:
    """The names of the inputs that an agent needs, and of those among them that a caller passes."""

    needed: tuple[str, ...]
    passed: tuple[str, ...]

    def require(self, *names: str) -> None:
        """Raise `InputError` unless all that is needed is among the names."""
        missing = [key for key in self.needed if key not in names]
        if missing:
            wanted = ", ".join(f"{key!r}: ..." for key in dict.fromkeys([*self.passed, *missing]))
            raise InputError(f"the inputs lack {', '.join(missing)}; pass {{{wanted}}}", missing=missing)


def keys_of(agent: Agent, memory: Memory | None) -> InputKeys:
    """Return the inputs that a run needs: a memory provides some. Raises `InputError` for an invalid memory."""
    if memory is None:
        return InputKeys(agent.input_keys, agent.input_keys)
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
    return InputKeys(agent.input_keys, tuple(key for key in agent.input_keys if key not in memory.keys))


def outputs_of(ending: Ending) -> dict[str, Any]:
    """What a run returns by name."""
    return dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
