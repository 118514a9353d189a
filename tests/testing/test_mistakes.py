"""Beginners' mistakes in tests of machines are refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.errors import InputError
from graphexec.testing import ScriptedModel, verify_termination
from tests.parameters import cases


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    raise AssertionError(f"the real tool was called with {city}")


agent = create_tool_calling_agent(ScriptedModel(["done"]), [population])
executor = AgentExecutor(agent=agent, tools=[population])

# Wrong on purpose, and so beyond what types allow.
held: Any = verify_termination


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a number of examples in quotes": (
        lambda: held(executor, examples="5"),
        "examples is '5'; give a whole number, 1 or more",
    ),
    "no examples": (lambda: held(executor, examples=0), "examples is 0; give a whole number, 1 or more"),
}


@cases("mistake", MISTAKES)
def test_mistake_is_refused_with_remedy(mistake: str) -> None:
    make, text = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text
