"""The objects that the engine and the executor make at each step are frozen, and equal to others of their class."""

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, Done, kernel
from graphexec.effects import CallTool, ToolResult
from graphexec.kernel.program import unfrozen
from tests.executor.actors import act, answer, echo, scripted
from tests.parameters import cases


@functools.cache
def made_in_a_run() -> dict[str, Any]:
    """Return one object of each class that a run makes, by the name of the class."""
    found: list[Any] = []
    executor = AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo])
    for event in executor.stream("Go on."):
        found.append(event)
        match event:
            case kernel.Asked(effect=value) | kernel.Answered(reply=value) | kernel.Moved(outcome=value):
                found.append(value)
            case Done():
                found += [event.snapshot, event.spent]
            case _:
                pass
    result = executor.run("Go on.")
    run = next(one.run for one in reversed(found) if isinstance(one, AgentFinish))
    return {type(one).__name__: one for one in (*found, result, run, *run.steps)}


NAMES = [
    *("Entered", "Asked", "Answered", "Moved", "Done", "Snapshot", "Spent", "RunResult"),
    *("CallTool", "ToolResult", "Acted", "Observed", "AgentStep", "Run"),
]


@cases("name", NAMES)
def test_object_of_a_run_is_frozen(name: str) -> None:
    made = made_in_a_run()[name]
    first = dataclasses.fields(made)[0].name
    for change in (functools.partial(setattr, made, first, None), functools.partial(delattr, made, first)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert not hasattr(made, "__dict__")


@cases("copied", [copy.copy, dataclasses.replace])
@cases("name", NAMES)
def test_object_of_a_run_is_of_its_class(name: str, copied: Callable[[Any], Any]) -> None:
    made = made_in_a_run()[name]
    other = copied(made)
    assert type(made).__module__.startswith("graphexec.")
    assert (type(other), other, repr(other)) == (type(made), made, repr(made))


def test_unfrozen_class_has_the_parameters_of_its_class() -> None:
    made = unfrozen(ToolResult)("found")
    made.__class__ = ToolResult
    assert (made, hash(made)) == (ToolResult("found"), hash(ToolResult("found")))
    call: Any = unfrozen(CallTool)("double", "21")
    call.__class__ = CallTool
    assert call == CallTool("double", "21")
    assert pickle.loads(pickle.dumps(call)) == call
    create: Any = unfrozen(CallTool)
    with pytest.raises(TypeError, match="tool_input"):
        create("double")
