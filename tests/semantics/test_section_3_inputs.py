"""Sections 3.1 and 3.2 of docs/semantics.md: how an executor is made, what a run is given, and what it returns."""

import asyncio
import inspect
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, create_react_agent, tool
from graphexec.errors import InputError, LimitsError, ToolDefinitionError
from graphexec.models import ScriptedModel
from tests.executor.actors import HOW, Running, act, answer, echo, scripted
from tests.executor.test_memory_nodes import Diary
from tests.parameters import cases
from tests.semantics.endings import A, B, raising

PROMPT = "{tools}{tool_names}{agent_scratchpad}"


def finishing(**options: Any) -> AgentExecutor:
    options = {"agent": scripted(answer()), "tools": [], **options}
    return AgentExecutor(**options)


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


@cases(
    ("options", "error", "fact"),
    [
        *(({"max_iterations": limit}, LimitsError, "give a whole number") for limit in ("3", True, 1.5)),
        *(({"handle_parsing_errors": policy}, InputError, "; give") for policy in (None, 3)),
        ({"early_stopping_method": "never"}, InputError, "; give"),
        ({"trim_intermediate_steps": "last"}, InputError, "; give"),
        ({"return_direct": "all"}, InputError, "; give"),
        ({"max_iteration": 3}, TypeError, "max_iteration"),
        ({"agent": "gpt"}, InputError, "agent is 'gpt'"),
        ({"tools": [len]}, ToolDefinitionError, "len is not a tool"),
        ({"tools": [echo, echo]}, ToolDefinitionError, "two tools are named echo"),
        (
            {"agent": create_react_agent(ScriptedModel([]), [echo])},
            InputError,
            "different tools: only the agent has ec",
        ),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], error: type[Exception], fact: str) -> None:
    with pytest.raises(error, match=fact):
        finishing(**options)


def test_string_policy_is_used_unchanged() -> None:
    executor = finishing(agent=scripted([], answer()), handle_parsing_errors="true")
    assert [step.observation for step in executor.run("q").steps] == ["true"]
    # An agent may be any function.
    assert AgentExecutor(agent=lambda steps, inputs: answer(42), tools=[]).run("q").output == 42


def test_tools_sequence_is_copied() -> None:
    tools = [echo]
    executor = AgentExecutor(agent=scripted(A, answer()), tools=tools)
    tools.clear()
    assert [step.observation for step in executor.run("q").steps] == ["a"]
    assert [*finishing(tools=(echo,)).tools] == ["echo"]


def test_tools_are_looked_up_by_exact_name() -> None:
    executor = finishing(tools=[echo])
    assert executor.tools == {"echo": echo}
    assert executor.tools["echo"] is echo
    with pytest.raises(KeyError):
        executor.tools["Echo"]


@cases("keys", [("place", "day"), ("question",)])
def test_input_keys_are_prompt_variables(keys: tuple[str, ...]) -> None:
    agent = create_react_agent(ScriptedModel([]), [], prompt=PROMPT + "".join(f"{{{key}}}" for key in keys))
    assert agent.input_keys == AgentExecutor(agent=agent, tools=[]).input_keys == keys
    assert finishing().agent.input_keys == finishing().input_keys == ()


# ---- 3.2 Inputs and outputs


@HOW
def test_memory_failure_precedes_the_first_plan(run: Running) -> None:
    events: list[Any] = []
    executor = finishing(memory=Diary(raising(OSError("gone"))), observers=[events.append])
    with pytest.raises(OSError, match="gone"):
        run(executor)
    assert [type(event).__name__ for event in events] == ["Entered", "Asked", "Failed"]
    assert {event.node for event in events[:2]} == {"load_memory"}


def test_string_becomes_the_only_input() -> None:
    model = ScriptedModel(["Final Answer: 42"], repeat_last=True)
    agent = create_react_agent(model, [], prompt=PROMPT + "{question}")
    executor = AgentExecutor(agent=agent, tools=[])
    assert invoke(executor, "why?") == {"question": "why?", "output": "42"}
    nothing: Any = None
    with pytest.raises(InputError, match="the inputs are None"):
        invoke(executor, nothing)
    # A missing key is named.
    executor = AgentExecutor(agent=create_react_agent(ScriptedModel([]), []), tools=[])
    with pytest.raises(InputError) as raised:
        invoke(executor, {"question": "q"})
    assert raised.value.missing == ("input",)


def test_result_merges_inputs_and_outputs() -> None:
    executor = AgentExecutor(agent=lambda steps, inputs: answer(inputs["callbacks"]), tools=[])
    given = {"input": "q", "callbacks": 1, "intermediate_steps": 2}
    assert invoke(executor, given) == {**given, "output": 1}
    # Outputs replace inputs of their names.
    executor = AgentExecutor(agent=scripted(AgentFinish({"output": "42", "why": "so"})), tools=[])
    assert invoke(executor, {"input": "q", "output": "mine"}) == {"input": "q", "output": "42", "why": "so"}


def test_return_only_outputs_leaves_the_inputs_out() -> None:
    executor = AgentExecutor(agent=scripted(A, answer("42")), tools=[echo], return_intermediate_steps=True)
    assert invoke(executor, "q", return_only_outputs=True) == {"output": "42", "intermediate_steps": [(A, "a")]}


def test_return_values_may_have_any_names() -> None:
    @tool(return_direct=True)
    def direct() -> str:
        """Answer."""
        return "42"

    assert invoke(AgentExecutor(agent=scripted(AgentFinish({"answer": 1})), tools=[]), {}) == {"answer": 1}
    assert invoke(AgentExecutor(agent=scripted(AgentFinish({})), tools=[]), {}) == {}
    assert invoke(AgentExecutor(agent=scripted(act("direct")), tools=[direct]), {}) == {"output": "42"}


def test_intermediate_steps_are_untrimmed_pairs() -> None:
    turns = [A, B, answer()]
    executor = AgentExecutor(
        agent=lambda steps, inputs: turns[len(inputs["seen"].append(1) or inputs["seen"]) - 1],
        tools=[echo],
        return_intermediate_steps=True,
        trim_intermediate_steps=1,
    )
    steps = executor.invoke({"seen": []})["intermediate_steps"]
    assert steps == [(A, "a"), (B, "b")]
    steps.clear()
    assert len(executor.invoke({"seen": []})["intermediate_steps"]) == 2
