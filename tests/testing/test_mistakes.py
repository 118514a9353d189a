"""What people pass to tests of machines on their first day is refused with what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, AskHuman, create_tool_calling_agent, tool
from graphexec.errors import InputError
from graphexec.testing import ScriptedModel, executor_machine, scripted_tool, verify_termination


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    raise AssertionError(f"the real tool was called with {city}")


agent = create_tool_calling_agent(ScriptedModel(["done"]), [population])
executor = AgentExecutor(agent=agent, tools=[population])

# Wrong on purpose, and so beyond what types allow.
held: Any = verify_termination
driven: Any = executor_machine
proved: Any = executor.graph.verify
scripted: Any = scripted_tool


def made() -> AgentExecutor:
    raise AssertionError("it is refused before it is called")


LIMITS = "give Limits, such as Limits(iterations=3), or None for the machine's own"
REPLIES = "give a list of replies to each class of effects, such as {AskHuman: ['yes', 'no']}, or None for none"
RESULTS = "give a list of results, such as ['3 hits']"

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a number as limits": (lambda: held(executor, limits=3), f"limits is 3; {LIMITS}"),
    "a number as limits of runs by hand": (lambda: driven(executor, limits=3), f"limits is 3; {LIMITS}"),
    "a text as limits of a graph": (lambda: proved("x"), "the limits are 'x'; give Limits(iterations=...), say"),
    "a list of exceptions": (
        lambda: held(executor, raises=[ValueError]),
        "raises is [<class 'ValueError'>]; give a tuple of exceptions, such as (ValueError,)",
    ),
    "a number of examples in quotes": (
        lambda: held(executor, examples="5"),
        "examples is '5'; give a whole number, 1 or more",
    ),
    "one reply instead of several": (
        lambda: held(executor, replies={AskHuman: "yes"}),
        f"replies is {{{AskHuman!r}: 'yes'}}; {REPLIES}",
    ),
    "replies to a name": (
        lambda: held(executor, replies={"AskHuman": ["yes"]}),
        f"replies is {{'AskHuman': ['yes']}}; {REPLIES}",
    ),
    "several at once": (
        lambda: held(executor, limits=3, examples=0),
        f"limits is 3; {LIMITS}; examples is 0; give a whole number, 1 or more",
    ),
    "a function that makes the machine": (
        lambda: held(made),
        f"the machine is {made!r}; give what it returns, an executor or a graph",
    ),
    "the class of machines": (
        lambda: held(AgentExecutor),
        "the machine is AgentExecutor, a class; give an executor or a graph",
    ),
    "a text as results": (
        lambda: scripted(population, "x"),
        f"scripted_tool has results='x'; {RESULTS}",
    ),
    "a number as results": (lambda: scripted("lookup", 5), f"scripted_tool has results=5; {RESULTS}"),
    "one result with names": (
        lambda: scripted("lookup", {"hits": 3}),
        f"scripted_tool has results={{'hits': 3}}; {RESULTS}",
    ),
    "a function as a tool": (
        lambda: scripted(made, ["x"]),
        f"scripted_tool has tool={made!r}; give a tool made by @tool, or a name",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_refused_with_what_to_pass(mistake: str) -> None:
    make, text = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text
