"""The objects that the engine and the executor make at each step are frozen, and equal to others of their class."""

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, Done, tool
from graphexec.effects import CallTool, ToolResult
from graphexec.kernel import Answered, Asked, Moved
from graphexec.kernel.program import unfrozen
from tests.parameters import cases


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def decide(done: Any, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
    del inputs
    return AgentAction("double", {"x": 21}) if not done else AgentFinish({"output": "done"})


@functools.cache
def made_in_a_run() -> dict[str, Any]:
    """Return one object of each class that a run makes, by the name of the class."""
    found: list[Any] = []
    for event in AgentExecutor(agent=decide, tools=[double]).stream("Go on."):
        found.append(event)
        match event:
            case Asked(effect=value) | Answered(reply=value) | Moved(outcome=value):
                found.append(value)
            case Done():
                found += [event.snapshot, event.spent]
            case _:
                pass
    result = AgentExecutor(agent=decide, tools=[double]).run("Go on.")
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
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, first, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(made, first)
    assert not hasattr(made, "__dict__")


@cases("copied", [copy.copy, dataclasses.replace])
@cases("name", NAMES)
def test_object_of_a_run_is_of_its_class(name: str, copied: Callable[[Any], Any]) -> None:
    made = made_in_a_run()[name]
    other = copied(made)
    assert type(other) is type(made)
    assert type(made).__module__.startswith("graphexec.")
    assert other == made
    assert repr(other) == repr(made)


def test_unfrozen_class_has_the_defaults() -> None:
    made = unfrozen(ToolResult)("found")
    made.__class__ = ToolResult
    assert made == ToolResult("found")
    assert hash(made) == hash(ToolResult("found"))
    call: Any = unfrozen(CallTool)("double", "21")
    call.__class__ = CallTool
    assert call == CallTool("double", "21")
    assert pickle.loads(pickle.dumps(call)) == call


def test_unfrozen_class_requires_what_its_class_requires() -> None:
    create: Any = unfrozen(CallTool)
    with pytest.raises(TypeError, match="tool_input"):
        create("double")
