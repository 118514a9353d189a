"""LangChain's own tools: what they inject is theirs, and so are the errors that they report."""

from importlib.util import find_spec
from typing import Annotated, Any

import pytest

from graphexec.errors import ToolDefinitionError
from graphexec.tools.collecting import to_tools
from tests.executor.actors import Running, act, answer, make_executor
from tests.parameters import cases
from tests.tools.actors import HOW, call_tool

if find_spec("langchain_core") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import Tool as SimpleTool
from langchain_core.tools import tool as langchain_tool


@langchain_tool
def note(text: str, user_id: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Note it."""
    return f"{text} by {user_id}"


@langchain_tool
def identified(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Note it."""
    return f"{text} {bool(call_id)}"


class Noting(BaseTool):
    name: str = "noting"
    description: str = "Note it."

    def _run(self, text: str, user_id: Annotated[str, InjectedToolArg] = "nobody") -> str:
        return f"{text} by {user_id}"


@cases(
    ("given", "written", "observed"),
    (note, {"text": "hi"}, "hi by nobody"),
    (note, {"text": "hi", "user_id": "root"}, "hi by nobody"),
    (Noting(), {"text": "hi", "user_id": "root"}, "hi by nobody"),
    (identified, {"text": "hi"}, "hi True"),
    (identified, {"text": "hi", "call_id": "mine"}, "hi True"),
)
def test_injected_argument_is_neither_offered_nor_taken(given: Any, written: Any, observed: str) -> None:
    (one,) = to_tools([given])
    assert one.names == ("text",)
    assert call_tool(one, written).observation == observed


class Copying(BaseTool):
    name: str = "copying"
    description: str = "Copy it."

    def _run(self, text: str, count: int = 1, run_manager: CallbackManagerForToolRun | None = None) -> str:
        return text * count


class Taking(BaseTool):
    name: str = "taking"
    description: str = "Take it."

    def _run(self, text: str, **more: Any) -> str:
        return f"{text} {sorted(more)}"


def shout_at(text: str) -> str:
    """Shout."""
    return text.upper()


# What LangChain's own methods take beside the arguments, and a name that nothing takes.
UNKNOWN = ("config", "run_manager", "callbacks", "run_id", "tool_call_id", "self", "whatever")


@HOW
@pytest.mark.parametrize("given", [Noting(), Copying(), SimpleTool("shout", shout_at, "Shout.")])
def test_unknown_argument_is_a_bad_one(run: Running, given: Any) -> None:
    (one,) = to_tools([given])
    actions = [act(one.name, **{one.names[0]: "hi"}, **{name: None}) for name in UNKNOWN]
    steps = run(make_executor(*([action] for action in actions), answer(), tools=[one])).steps
    assert [step.status for step in steps] == ["bad_arguments"] * len(UNKNOWN)
    assert [name in step.text for name, step in zip(UNKNOWN, steps, strict=True)] == [True] * len(UNKNOWN)


def test_tool_that_takes_any_argument_gets_it() -> None:
    (one,) = to_tools([Taking()])
    assert call_tool(one, {"text": "hi", "whatever": 1}).status == "ok"


@HOW
def test_error_that_a_tool_of_langchain_reports_is_one(run: Running) -> None:
    def closed(x: int) -> str:
        """Try it."""
        raise ToolException("it is closed")

    given: Any = StructuredTool.from_function(closed, handle_tool_error=True)
    (step,) = run(make_executor(act("closed", x=1), answer(), tools=to_tools([given]))).steps
    assert (step.status, step.observation) == ("error", "it is closed")


@HOW
def test_what_a_tool_of_langchain_says_of_unfit_arguments_is_observed(run: Running) -> None:
    def half(x: int) -> int:
        """Halve it."""
        return x // 2

    given: Any = StructuredTool.from_function(half, handle_validation_error="Give a whole number.")
    acts = act("half", x="a lot"), act("half", x=6)
    steps = run(make_executor(*acts, answer(), tools=to_tools([given]))).steps
    assert [(step.status, step.observation) for step in steps] == [("error", "Give a whole number."), ("ok", "3")]


async def double(x: int) -> tuple[int, str]:
    """Double it."""
    return 2 * x, "an artifact"


async def shout(text: str) -> str:
    return text.upper()


@HOW
@cases(
    ("given", "written", "observed"),
    (StructuredTool.from_function(coroutine=double, response_format="content_and_artifact"), {"x": "2"}, 4),
    (
        StructuredTool(
            name="one", description="Do it.", args_schema={"type": "object", "properties": {}}, coroutine=shout
        ),
        {"text": "hi"},
        "HI",
    ),
    (SimpleTool("shout", None, "Shout.", coroutine=shout), {"tool_input": "hi"}, "HI"),
)
def test_tool_that_has_only_a_coroutine_is_awaited(run: Running, given: Any, written: Any, observed: Any) -> None:
    (step,) = run(make_executor(act(given.name, **written), answer(), tools=to_tools([given]))).steps
    assert (step.status, step.observation) == ("ok", observed)


def test_argument_that_nobody_would_inject_is_refused() -> None:
    @langchain_tool
    def owned(text: str, owner: Annotated[str, InjectedToolArg]) -> str:
        """Note it."""
        return text

    with pytest.raises(ToolDefinitionError, match=r"owned .* owner"):
        to_tools([owned])
