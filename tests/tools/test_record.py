"""What a tool is given of its run is its own: no tool changes the record, and no caller's list does."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Optional

import pytest
from pydantic import Field

from graphexec import CallContext, effects, tool
from graphexec.actions import Run
from graphexec.kernel import Asked
from graphexec.messages import ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.runtime import current_call
from graphexec.tools.calling import make_tool_handler
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor import actors
from tests.executor.actors import WAYS, AnyTool, act, answer, caller_of, echo, make_executor
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
    actors.run_by(way, executor, given, observers=[events.append])
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


def summed_up(run: Run) -> str:
    return f"{run.inputs.get('input')}: {', '.join(str(step.observation) for step in run.steps)}"


@tool
def note(text: str, run: Run) -> str:
    """Note it down."""
    return f"{text} for {summed_up(run)}"


@tool
async def anote(so_far: Run, text: str) -> str:
    """Note it down."""
    return f"{text} for {summed_up(so_far)}"


@tool(timeout=20)
def noted_in_time(text: str, ctx: Annotated[Run, Field(description="The run.")]) -> str:
    """Note it down."""
    return f"{text} for {summed_up(ctx)}"


@tool
def noted_twice(a: Run, text: str, b: Run | None = None) -> str:
    """Note it down."""
    assert a is b
    return f"{text} for {summed_up(a)}"


# The spelling of older programs.
def optionally(text: str, run: Optional[Run] = None) -> str:  # noqa: UP045
    """Note it down."""
    return "without" if run is None else f"{text} for {summed_up(run)}"


def traced(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return function(*args, **kwargs)

    return wrapper


wrapped = tool(name="wrapped")(traced(note.function))
TOOLS: list[AnyTool] = [note, anote, noted_in_time, noted_twice, tool(optionally), wrapped]
EACH = cases("one", *TOOLS)


@pytest.mark.medium
@EACH
def test_tool_receives_the_run_at_its_call(one: AnyTool) -> None:
    turns = act("echo", text="first"), [act(one.name, text="a"), act(one.name, text="b")], answer()
    result = actors.run_executor(lambda: make_executor(*turns, tools=[one, echo]))
    assert actors.observations(result) == ["first", "a for q: first", "b for q: first"]


@EACH
def test_run_is_not_in_the_schema(one: AnyTool) -> None:
    assert one.names == ("text",)
    assert one.signature == f"{one.name}(text: string)"
    assert one.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }


@EACH
def test_model_cannot_pass_a_run(one: AnyTool) -> None:
    for name in one.run_parameters:
        with pytest.raises(InvalidArgumentsError, match=f"{name}: Extra inputs are not permitted"):
            one.read({"text": "a", name: {"inputs": {"input": "forged"}}})


@EACH
@cases(("run", "observed"), (Run({"input": "q"}), "a for q: "), (None, "a for None: "))
def test_string_is_the_only_argument_from_the_model(one: AnyTool, run: Run | None, observed: str) -> None:
    """Outside a run, the tool receives an empty one."""
    assert (
        actors.reply_of(make_tool_handler({one.name: one}), effects.CallTool(one.name, "a", run)).observation
        == observed
    )


def test_direct_call_passes_the_run() -> None:
    assert note("a", Run({"input": "mine"})) == "a for mine: "
    assert optionally("a") == "without"


def test_tool_may_take_only_the_run() -> None:
    @tool
    def steps(run: Run) -> int:
        """Count the steps."""
        return len(run.steps)

    result = actors.run_executor(lambda: make_executor(act("steps"), act("steps"), answer(), tools=[steps]))
    assert actors.observations(result) == [0, 1]


def test_method_may_take_the_run() -> None:
    class Notes(list[str]):
        def add(self, text: str, run: Run) -> str:
            """Add a note."""
            self.append(text)
            return f"{text} for {summed_up(run)}"

    notes = Notes()
    one = tool(notes.add)
    # `self` is no argument.
    assert (one.names, one.run_parameters) == (("text",), ("run",))
    call = effects.CallTool("add", "a", Run({"input": "q"}))
    assert actors.reply_of(make_tool_handler({"add": one}), call).observation == "a for q: "
    assert notes == ["a"]
