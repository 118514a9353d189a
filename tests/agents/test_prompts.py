"""Prompts: variables are validated when the agent is made, and values are never parsed as templates."""

import pytest

from graphexec import Agent, AgentExecutor, create_react_agent, create_structured_agent, create_tool_calling_agent
from graphexec.agents.prompt import parse_template
from graphexec.errors import InputError
from graphexec.messages import ModelReply, UserMessage
from graphexec.models import ScriptedModel
from tests.executor.actors import echo, messages, prompt
from tests.parameters import cases

FINISHED = {
    "react": "Final Answer: done",
    "structured": '{"action": "final_answer", "answer": "done"}',
    "tool calling": "done",
}


BRACES = ["{", "}", "{}", "{0}", "{a b}", "{a.b}", "{a[0]}", "{input!r}", "{input:>10}", "{input: x}", "{{{"]


@cases("text", [*BRACES, '{"action": "x"}'])
def test_single_braces_are_rejected_and_double_ones_literal(text: str) -> None:
    with pytest.raises(InputError, match=r"write \{\{ and \}\} for braces"):
        parse_template(text, required=())
    # Double braces are literal, and values stay unchanged.
    filled = parse_template("{{x}} {a} {b} {a}", required=("a",))
    assert filled.variables == ("a", "b")
    assert filled.render({"a": "{b}", "b": "{{tools}}", "c": 3}) == "{x} {b} {{tools}} {b}"


def travelling(model: ScriptedModel, kind: str) -> Agent:
    if kind == "react":
        return create_react_agent(model, [echo], prompt="{tools}{tool_names}{agent_scratchpad}{city} {day}")
    if kind == "structured":
        return create_structured_agent(model, [echo], question="{city} {day}")
    return create_tool_calling_agent(model, [echo], prompt="{city} {day}")


@cases("kind", FINISHED)
def test_other_variables_are_inputs_of_the_run(kind: str) -> None:
    model = ScriptedModel([FINISHED[kind]])
    executor = AgentExecutor(agent=travelling(model, kind), tools=[echo])
    assert executor.agent.input_keys == ("city", "day")
    with pytest.raises(InputError, match=r"the inputs lack day; pass \{'city': \.\.\., 'day': \.\.\.\}") as raised:
        executor.invoke({"city": "Oslo"})
    assert raised.value.missing == ("day",)
    with pytest.raises(InputError, match="the inputs lack city, day; pass") as raised:
        executor.invoke({})
    assert raised.value.missing == ("city", "day")
    with pytest.raises(InputError, match="several inputs; pass a dict with city, day instead of a string"):
        executor.invoke("Oslo")
    assert not model.requests
    returned = executor.invoke({"city": "{Oslo}", "day": 3, "extra": None})
    assert returned == {"city": "{Oslo}", "day": 3, "extra": None, "output": "done"}
    (request,) = model.requests
    last = messages(request)[-1]
    assert isinstance(last, UserMessage)
    assert last.content.endswith("{Oslo} 3")


def test_input_cannot_replace_tools_or_scratchpad() -> None:
    model = ScriptedModel(["Final Answer: a"])
    agent = create_react_agent(model, [echo], prompt="{tool_names}|{tools}|{agent_scratchpad}|{input}")
    AgentExecutor(agent=agent, tools=[echo]).run({"input": "q", "tool_names": "x", "agent_scratchpad": "y"})
    assert prompt(model.requests[0]) == "echo|echo(text: string) - Say it again.||q"


@cases("text", ["x" * 1_000_000, "\ud800 ☃ {} %s \x00"])
def test_huge_and_unusual_inputs_are_passed_unchanged(text: str) -> None:
    model = ScriptedModel([ModelReply("a")])
    AgentExecutor(agent=create_tool_calling_agent(model, []), tools=[]).run(text)
    assert messages(model.requests[-1])[-1] == UserMessage(text)
