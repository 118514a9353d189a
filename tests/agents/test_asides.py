"""A run's aside changes what the model is shown, and never the record."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from graphexec import Agent, AgentAction, AgentFinish, AgentStep, InputError, callable_agent, create_react_agent
from graphexec.actions import NO_ASIDE, Aside, Run, Steps
from graphexec.agents import create_structured_agent, create_tool_calling_agent
from graphexec.agents.agent import remakeable
from graphexec.effects import CallAgent, CallModel
from graphexec.executor.nodes import Policies
from graphexec.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage
from graphexec.models import ScriptedModel
from graphexec.testing import scripted_tool
from graphexec.tools import AnyTool
from tests.parameters import cases

RUNS = TypeAdapter(Run)
TOOLS = [scripted_tool(name, []) for name in ("search", "add", "mail")]
MODEL = ScriptedModel([])
CREATE: dict[str, Callable[[Sequence[AnyTool]], Agent]] = {
    "react": lambda tools: create_react_agent(MODEL, tools),
    "completion": lambda tools: create_react_agent(MODEL, tools, protocol="completion"),
    "structured": lambda tools: create_structured_agent(MODEL, tools),
    "tool_calling": lambda tools: create_tool_calling_agent(MODEL, tools),
}
AGENTS = {kind: create(TOOLS) for kind, create in CREATE.items()}


def turn(number: int, *tools: str) -> list[AgentStep]:
    calls = tuple(ToolCall(f"call{number}.{place}", tool, "{}") for place, tool in enumerate(tools))
    message = AssistantMessage("", calls)
    return [
        AgentStep(AgentAction(call.name, {}, f"log {number}", call.id, message), f"result {number} of {call.name}")
        for call in calls
    ]


RUN = Run({"input": "What?"}, Steps([*turn(1, "search"), *turn(2, "add", "mail"), *turn(3, "search")]))


def ask(agent: Agent, run: Run) -> CallModel | CallAgent:
    return agent.ask(run)


def request(run: Run, agent: Agent = AGENTS["tool_calling"]) -> Any:
    effect = Policies().request(agent, run, ask)
    assert isinstance(effect, CallModel)
    return effect.request


def text_of(run: Run, kind: str) -> str:
    asked = request(run, AGENTS[kind])
    return str(asked.prompt if kind == "completion" else "\n".join(one.content for one in asked.messages))


class TestRecord:
    def test_steps_and_json_keep_the_aside(self) -> None:
        run = RUN.with_aside(notes={"clock": "Monday"}).with_steps(turn(4, "add"))
        assert run.aside.notes == {"clock": "Monday"}
        assert len(run.steps) == 5
        assert "Monday" in repr(run)
        run = RUN.with_aside(notes={"a": "b"}, tools=("add",), hidden=1, summary="s", state={"list": ["x"]})
        assert RUNS.validate_json(RUNS.dump_json(run)) == run
        # Old data have none.
        data = json.loads(RUNS.dump_json(RUN))
        del data["aside"]
        assert RUNS.validate_python(data).aside == NO_ASIDE
        assert "aside" not in repr(RUN)
        with pytest.raises(InputError, match="hidden=-1 is invalid; pass the number"):
            Aside(hidden=-1)


class TestShown:
    @cases("kind", *AGENTS)
    def test_no_aside_changes_nothing(self, kind: str) -> None:
        agent = AGENTS[kind]
        assert Policies().request(agent, RUN, lambda _, run: CallAgent(run)) == CallAgent(RUN)
        assert Policies().request(agent, RUN, ask) == agent.ask(RUN)

    @cases("kind", *AGENTS)
    def test_summary_and_notes_are_shown(self, kind: str) -> None:
        text = text_of(RUN.with_aside(hidden=3, summary="Nothing found so far."), kind)
        assert text.count("Nothing found so far.") == 1
        assert "result 1" not in text
        assert "result 2" not in text
        assert text.count("result 3 of search") == 1
        text = text_of(RUN.with_aside(notes={"clock": "It is Monday.", "empty": "", "todo": "Buy milk."}), kind)
        assert "It is Monday.\n\nBuy milk." in text

    @given(st.integers(0, 6))
    def test_notes_end_the_system_message_and_every_result_has_its_call(self, hidden: int) -> None:
        asked = request(RUN.with_aside(notes={"clock": "It is Monday."}))
        assert isinstance(asked.messages[0], SystemMessage)
        assert asked.messages[0].content.endswith("\n\nIt is Monday.")
        assert len(asked.messages) == len(request(RUN).messages)
        calls: set[str] = set()
        for message in request(RUN.with_aside(hidden=hidden, summary="S")).messages:
            if isinstance(message, AssistantMessage):
                calls |= {call.id for call in message.tool_calls}
            elif isinstance(message, ToolMessage):
                calls.remove(message.call_id)
        assert not calls

    def test_trimming_and_functions_keep_the_summary(self) -> None:
        policies = Policies(select_steps=lambda steps: steps[-1:])
        steps = policies.trim(RUN.with_aside(hidden=2, summary="S")).steps
        assert [step.observation for step in steps] == ["S", "result 3 of search"]
        agent = callable_agent(lambda steps, inputs: AgentFinish({"output": ""}))
        effect = Policies().request(agent, RUN.with_aside(hidden=3, summary="S", notes={"a": "b"}, tools=("add",)), ask)
        assert isinstance(effect, CallAgent)
        assert [step.observation for step in effect.run.steps] == ["S", "result 3 of search"]
        assert effect.run.aside == Aside(notes={"a": "b"}, tools=("add",))


class TestTools:
    @cases(
        ("agent", "tools", "names"),
        (AGENTS["tool_calling"], ("mail", "unknown"), ["mail"]),
        (create_tool_calling_agent(MODEL, TOOLS, tool_choice="search"), ("add",), ["search", "add"]),
    )
    def test_native_tools_are_those_on_offer(self, agent: Agent, tools: tuple[str, ...], names: list[str]) -> None:
        asked = request(Run({"input": "q"}).with_aside(tools=tools), agent)
        assert [tool.name for tool in asked.tools] == names

    def test_prompt_and_schema_have_the_tools_on_offer(self) -> None:
        asked = request(RUN.with_aside(tools=()))
        assert (asked.tool_choice, len(asked.tools)) == ("none", 3)
        asked = request(RUN.with_aside(tools=("add",)), AGENTS["structured"])
        assert asked.schema is not None
        assert [one["properties"]["action"]["const"] for one in asked.schema["anyOf"]] == ["add", "final_answer"]
        assert "search" not in asked.messages[0].content
        assert "The names of the tools are: mail\n" in text_of(Run({"input": "q"}).with_aside(tools=("mail",)), "react")

    def test_agent_that_cannot_be_remade_is_refused(self) -> None:
        own = dataclasses.replace(AGENTS["react"], remake=None)
        changed = dataclasses.replace(AGENTS["react"], ask=AGENTS["structured"].ask)
        with pytest.raises(InputError, match=r"has a list of tools.*; give it remake"):
            own.with_tools(TOOLS[:1])
        with pytest.raises(InputError, match=r"its functions were replaced after that.*; give it remake"):
            changed.with_tools(TOOLS[:1])
        with pytest.raises(InputError, match=r"offers all of its tools in each request; give it remake"):
            request(RUN.with_aside(tools=("add",)), own)


class TestWithTools:
    @cases("kind", *AGENTS)
    @given(names=st.sets(st.sampled_from(["search", "add", "mail"])))
    def test_remade_agent_asks_as_a_new_one(self, kind: str, names: set[str]) -> None:
        tools = [tool for tool in TOOLS if tool.name in names]
        remade = AGENTS[kind].with_tools(tools)
        assert remade.ask(RUN) == CREATE[kind](tools).ask(RUN)
        assert remade.with_tools(TOOLS).ask(RUN) == AGENTS[kind].ask(RUN)

    def test_same_agent_has_its_model_and_rules(self) -> None:
        assert AGENTS["react"].with_tools(TOOLS) is AGENTS["react"]
        other = ScriptedModel([])
        agent = dataclasses.replace(AGENTS["react"], rules=("no_repeats",), model=other).with_tools(TOOLS[:1])
        assert agent.rules == ("no_repeats",)
        assert agent.model is other
        function = callable_agent(lambda steps, inputs: AgentFinish({"output": ""}))
        assert function.with_tools(TOOLS) is function

        # A factory of the user can be marked.
        @remakeable
        def create_terse_agent(tools: Sequence[AnyTool]) -> Agent:
            return create_react_agent(MODEL, tools, prompt="{tools}{tool_names}{input}{agent_scratchpad}")

        agent = create_terse_agent(TOOLS).with_tools(TOOLS[:1])
        assert agent.tools == (TOOLS[0],)
