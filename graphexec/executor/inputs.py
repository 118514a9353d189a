"""The inputs of a run by name: those that the caller passes, and those that a memory adds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec._arguments import is_executor
from graphexec.actions import AgentFinish
from graphexec.agents import Agent
from graphexec.errors import InputError, format_value
from graphexec.executor.result import Ending, RunResult

if TYPE_CHECKING:
    from graphexec.memory import Memory
    from graphexec.runs.questions import Waiting

Inputs: TypeAlias = Mapping[str, Any] | str


def name_inputs(inputs: Inputs, keys: Sequence[str]) -> dict[str, Any]:
    """Return inputs by name; a string is the value of the only key. Raises `InputError` for any other type."""
    # A string first, because an abstract class is slow to ask.
    if isinstance(inputs, str):
        match keys:
            case ():
                return {"input": inputs}
            case (key,):
                return {key: inputs}
            case _:
                raise InputError(
                    f"the agent has several inputs; pass a dict with {', '.join(keys)} instead of a string"
                )
    # Callers without a type checker may pass a list of messages or None.
    if isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return dict(inputs)
    remedy = "pass a dict of inputs by name, or the only input as a string"
    # Messages of any library.
    if isinstance(inputs, (list, tuple)) and any(isinstance(one, Mapping) or hasattr(one, "content") for one in inputs):
        key = keys[0] if keys else "input"
        remedy = f"pass the question and the messages before it: {{{key!r}: question, 'chat_history': messages}}"
    raise InputError(f"the inputs are {format_value(inputs)}; {remedy}")


# Any: an input.
def _copy(value: Any) -> Any:
    """Return a list, a dict or a set with a copy of what it holds of these, and any other value as it is."""
    if not isinstance(value, (list, dict, set)):
        return value
    # Any: of a class of the caller's, perhaps.
    copied: Any = copy.copy(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, list):
        copied[:] = map(_copy, copied)
    elif isinstance(value, dict):
        for key, part in [*copied.items()]:
            copied[key] = _copy(part)
    return copied


def single_input_key(executor: Any, owner: str) -> str:
    """Return the name of the only input of an executor. Raises `InputError` for several, and for another object."""
    # Users without a type checker pass an agent or a model.
    if not is_executor(executor):
        raise InputError(f"{owner} is {format_value(executor)}; pass an executor: create_agent(model, tools)")
    # A callable agent declares no inputs.
    key, *others = executor.input_keys or ("input",)
    if others:
        raise InputError(f"{owner} has the inputs {', '.join([key, *others])}; pass one whose agent has one input")
    return str(key)


@final
@dataclass(frozen=True, slots=True)
class InputKeys:
    """The names of the inputs that an agent needs (`needed`), and of those that the caller passes (`passed`)."""

    needed: tuple[str, ...]
    passed: tuple[str, ...]

    def name(self, inputs: Inputs, loaded: Sequence[str]) -> dict[str, Any]:
        """Return the inputs by name, with lists of their own, which the caller does not change during the run.

        Raises `InputError` if one is missing that is not `loaded` later, when it is checked.
        """
        named = {name: _copy(value) for name, value in name_inputs(inputs, self.passed).items()}
        self.require(*named, *loaded)
        return named

    def require(self, *names: str) -> None:
        """Raise `InputError` unless `names` contains every needed input."""
        missing = [key for key in self.needed if key not in names]
        if missing:
            wanted = ", ".join(f"{key!r}: ..." for key in dict.fromkeys([*self.passed, *missing]))
            other = ", and earlier messages as 'chat_history'" if "messages" in names else ""
            raise InputError(f"the inputs lack {', '.join(missing)}; pass {{{wanted}}}{other}", missing=missing)


def make_input_keys(agent: Agent, memory: Memory | None) -> InputKeys:
    """Return the inputs that a run needs; a memory may provide some. Raises `InputError` for one that does not fit."""
    if memory is None:
        return InputKeys(agent.input_keys, agent.input_keys)
    messages = [key for key in memory.keys if key in agent.optional_keys]
    if messages and getattr(memory, "as_messages", True) is False:
        raise InputError(
            f"the memory provides {messages[0]} as text, but the agent reads messages; make it with as_messages=True"
        )
    read = {*agent.input_keys, *agent.optional_keys}
    if agent.function is None and read.isdisjoint(memory.keys):
        keys = ", ".join(memory.keys)
        other = f", or make the memory with key={agent.optional_keys[0]!r}" if agent.optional_keys else ""
        raise InputError(
            f"the memory provides {keys}, which the agent does not read; write {{{keys}}} into its prompt{other}"
        )
    passed = tuple(key for key in agent.input_keys if key not in memory.keys)
    saved: object = getattr(memory, "input_key", None)
    if passed and isinstance(saved, str) and saved not in passed:
        raise InputError(
            f"the memory saves the input {saved}, and those of the agent are {', '.join(passed)}; make the memory with "
            f"input_key={passed[0]!r}"
        )
    return InputKeys(agent.input_keys, passed)


def to_outputs(ending: Ending) -> dict[str, Any]:
    """Return the outputs of a run by name."""
    return dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}


def answer_of(result: RunResult | Waiting) -> Any:
    """Return the answer of a nested run, or its outputs by name if it has several.

    Raises `RunStoreError` for one that waits in a store of its own, where the run around it has none.
    """
    if not isinstance(result, RunResult):
        raise result.to_error()
    outputs = to_outputs(result.ending)
    return outputs["output"] if list(outputs) == ["output"] else outputs
