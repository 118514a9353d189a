"""A tool may take the run so far as an argument; the model neither sees nor sets this argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest
from pydantic import Field

from graphexec import effects, tool
from graphexec.actions import Run
from graphexec.tools.calling import make_tool_handler
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, act, answer, echo, make_executor, observations, reply_of, run_executor
from tests.parameters import cases


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
    result = run_executor(lambda: make_executor(*turns, tools=[one, echo]))
    assert observations(result) == ["first", "a for q: first", "b for q: first"]


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
    assert reply_of(make_tool_handler({one.name: one}), effects.CallTool(one.name, "a", run)).observation == observed


def test_direct_call_passes_the_run() -> None:
    assert note("a", Run({"input": "mine"})) == "a for mine: "
    assert optionally("a") == "without"


def test_tool_may_take_only_the_run() -> None:
    @tool
    def steps(run: Run) -> int:
        """Count the steps."""
        return len(run.steps)

    result = run_executor(lambda: make_executor(act("steps"), act("steps"), answer(), tools=[steps]))
    assert observations(result) == [0, 1]


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
    assert reply_of(make_tool_handler({"add": one}), call).observation == "a for q: "
    assert notes == ["a"]
