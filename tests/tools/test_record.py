"""The record of a run belongs to the run: no tool changes it, whatever it is given, and no caller's list does."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from graphexec import CallContext, tool
from graphexec.actions import Run
from graphexec.kernel import Asked
from graphexec.messages import ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.runtime import current_call
from tests.executor.actors import WAYS, AnyTool, caller_of, run_by
from tests.parameters import cases, mark_except


# Any: values of all kinds, by their methods.
def parts_of(value: Any) -> list[Any]:
    if hasattr(value, "effect"):
        return [one.tool_input for one in (value.effect, *getattr(value.request, "effects", [value.request]))]
    if hasattr(value, "values"):
        return [*value.values()]
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return [*value]
    return [getattr(value, name) for name in getattr(value, "__dataclass_fields__", ())]


def spoil(value: Any, seen: set[int]) -> None:
    """Change all that can be changed in a value, which may contain itself."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for part in parts_of(value):
        spoil(part, seen)
    for name, arguments in (("update", {"spoilt": True}), ("append", "spoilt"), ("add", "spoilt")):
        if hasattr(value, name):
            getattr(value, name)(arguments)
            break


def spoil_all(*values: Any) -> str:
    for value in values:
        spoil(value, set())
    return "done"


def take_nothing(order: dict[str, Any]) -> str:
    """Spoil it."""
    return "done"


def take_arguments(order: dict[str, Any]) -> str:
    """Spoil it."""
    return spoil_all(order)


def take_call(order: dict[str, Any], call: CallContext[Any]) -> str:
    """Spoil it."""
    # What the call is linked by stays its own.
    assert call is current_call()
    return spoil_all(order, call)


def take_run(order: dict[str, Any], run: Run) -> str:
    """Spoil it."""
    assert run.inputs["filter"] == {"tags": ["a"], "of": {"x"}}
    assert all("spoilt" not in str(step) for step in run.steps)
    return spoil_all(order, run)


async def take_both(order: dict[str, Any], call: CallContext[Any], run: Run) -> str:
    """Spoil it."""
    return spoil_all(order, call, run)


@tool
def numbers(count: int) -> dict[str, list[int]]:
    """Count."""
    return {"numbers": [*range(count)]}


def make_inputs() -> dict[str, Any]:
    history = [UserMessage("old"), {"role": "user", "content": "older"}]
    return {"input": "q", "chat_history": history, "filter": {"tags": ["a"], "of": {"x"}}}


def record(way: str, one: AnyTool, inputs: dict[str, Any]) -> object:
    """Return what is recorded of a run that calls the tool alone and among others, and what its model is sent."""
    number = 0

    def calling(name: str, arguments: Mapping[str, Any]) -> ToolCall:
        nonlocal number
        number += 1
        return ToolCall(f"call_{number}", name, json.dumps(arguments))

    counted: tuple[str, Any] = ("numbers", {"count": 2})
    spoilt: tuple[str, Any] = ("spoil", {"order": {"id": 1, "lines": [{"of": [0]}]}})
    turns: list[list[tuple[str, Any]]] = [[counted], [spoilt], [counted, spoilt, counted], [spoilt]]
    model = ScriptedModel([*([calling(*each) for each in turn] for turn in turns), "end"])
    executor = caller_of(model, numbers, one, return_intermediate_steps=True)
    events: list[Any] = []
    given = [inputs] if way.endswith("batch") else inputs
    run_by(way, executor, given, observers=[events.append])
    asked = [event.effect for event in events if isinstance(event, Asked)]
    last: Any = events[-1].outcome
    return repr(model.requests), repr(asked), repr(last.steps), repr(last.run.inputs)


SPOILING: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (take_arguments, {}),
    (take_call, {}),
    (take_run, {}),
    (take_both, {}),
    (take_call, {"timeout": 60.0}),
    (take_run, {"retries": 1}),
    (take_both, {"timeout": 60.0, "retries": 1}),
]


@pytest.mark.parametrize("way", mark_except(WAYS, "run", "astream"))
@cases(("function", "options"), *SPOILING)
def test_tool_does_not_change_the_record(way: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
    peaceful = record(way, tool(name="spoil")(take_nothing), make_inputs())
    assert "spoilt" not in repr(peaceful)
    assert record(way, tool(name="spoil", **options)(function), make_inputs()) == peaceful


@pytest.mark.parametrize("way", WAYS)
def test_inputs_are_those_of_the_beginning(way: str) -> None:
    """Not those that the caller's lists have grown to."""
    inputs = make_inputs()

    @tool(name="spoil")
    def grow(order: dict[str, Any]) -> str:
        """Spoil it."""
        return spoil_all(inputs)

    assert record(way, grow, inputs) == record(way, tool(name="spoil")(take_nothing), make_inputs())
    assert "spoilt" in inputs["chat_history"]


@cases("way", "run", "arun")
def test_each_attempt_gets_its_own(way: str) -> None:
    given: list[Any] = []

    @tool(name="spoil", retries=2)
    def fail_twice(order: dict[str, Any], run: Run, call: CallContext[Any]) -> str:
        """Spoil it."""
        given.append((repr(order), repr(run), repr(call.effect)))
        spoil_all(order, run, call)
        if len(given) % 3:
            raise OSError
        return "done"

    recorded = record(way, fail_twice, make_inputs())
    assert [given[0]] * 3 == given[:3]
    assert "spoilt" not in repr((recorded, given))
