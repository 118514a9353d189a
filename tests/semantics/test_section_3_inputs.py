"""Sections 3.1 and 3.2 of docs/semantics.md: how an executor is made, what a run is given, and what it returns."""

import asyncio
import inspect
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, create_react_agent, errors, models
from tests.executor.actors import HOW, Running, act, answer, direct, echo, scripted
from tests.executor.test_memory_nodes import Diary
from tests.semantics.endings import A, raising


def invoke(executor: AgentExecutor, inputs: Any, **settings: Any) -> dict[str, Any]:
    """Invoke in both ways, which return the same."""
    returned = executor.invoke(inputs, **settings)
    assert asyncio.run(executor.ainvoke(inputs, **settings)) == returned
    return returned


# ---- 3.1 Construction


LANGCHAINS_DEFAULTS: dict[str, Any] = {
    "return_intermediate_steps": False,
    "max_iterations": 15,
    "max_execution_time": None,
    "early_stopping_method": "force",
    "handle_parsing_errors": False,
    "trim_intermediate_steps": -1,
    "memory": None,
    "verbose": False,
}


def test_own_fields_have_langchains_defaults() -> None:
    parameters = inspect.signature(AgentExecutor).parameters
    defaults = {name: one.default for name, one in parameters.items()}
    assert {name: defaults[name] for name in LANGCHAINS_DEFAULTS} == LANGCHAINS_DEFAULTS
    assert [name for name, default in defaults.items() if default is inspect.Parameter.empty] == ["agent", "tools"]


def test_tools_are_copied_and_looked_up_by_exact_name() -> None:
    tools = [echo]
    executor = AgentExecutor(agent=scripted(A, answer()), tools=tools)
    tools.clear()
    assert [step.observation for step in executor.run("q").steps] == ["a"]
    assert executor.tools == {"echo": echo}
    assert executor.tools["echo"] is echo
    with pytest.raises(KeyError):
        executor.tools["Echo"]


# ---- 3.2 Inputs and outputs


@HOW
def test_memory_failure_precedes_the_first_plan(run: Running) -> None:
    events: list[Any] = []
    memory = Diary(raising(OSError("gone")))
    executor = AgentExecutor(agent=scripted(answer()), tools=[], memory=memory, observers=[events.append])
    with pytest.raises(OSError, match="gone"):
        run(executor)
    assert [type(event).__name__ for event in events] == ["Entered", "Asked", "Failed"]
    assert {event.node for event in events[:2]} == {"load_memory"}


def test_string_becomes_the_only_input() -> None:
    model = models.ScriptedModel(["Final Answer: 42"], repeat_last=True)
    agent = create_react_agent(model, [], prompt="{tools}{tool_names}{agent_scratchpad}{question}")
    executor = AgentExecutor(agent=agent, tools=[])
    assert invoke(executor, "why?") == {"question": "why?", "output": "42"}
    # A missing key is named.
    executor = AgentExecutor(agent=create_react_agent(models.ScriptedModel([]), []), tools=[])
    with pytest.raises(errors.InputError) as raised:
        invoke(executor, {"question": "q"})
    assert raised.value.missing == ("input",)


def test_outputs_may_be_without_the_inputs_and_have_any_names() -> None:
    executor = AgentExecutor(agent=scripted(A, answer("42")), tools=[echo], return_intermediate_steps=True)
    assert invoke(executor, "q", return_only_outputs=True) == {"output": "42", "intermediate_steps": [(A, "a")]}
    assert invoke(AgentExecutor(agent=scripted(AgentFinish({})), tools=[]), {}) == {}
    executor = AgentExecutor(agent=scripted(act("direct", text="42")), tools=[direct])
    assert invoke(executor, {}) == {"output": "42"}
