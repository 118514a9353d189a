"""Agents with `invoke`, such as LangChain's runnables: their inputs and the conversion of their decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import graphexec
from graphexec import AgentExecutor, AgentFinish, ParseError, callable_agent
from graphexec.errors import AgentError, InputError
from tests.executor.actors import echo, run_async, run_sync

RUNS = pytest.mark.parametrize("run", [run_sync, run_async])


@dataclass
class AgentAction:
    """An action of another library."""

    tool: str
    tool_input: Any
    log: str
    message_log: tuple[str, ...] = ()


@dataclass
class Finish:
    """An answer of another library."""

    return_values: dict[str, Any]
    log: str = ""


class OutputParserException(ValueError):
    """A parse error of another library."""

    def __init__(self, text: str, observation: str | None = None, llm_output: str | None = None) -> None:
        super().__init__(text)
        self.observation = observation
        self.llm_output = llm_output


class Chain:
    """A runnable that returns its decisions in order."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)
        self.given: list[dict[str, Any]] = []

    def invoke(self, inputs: dict[str, Any], config: Any = None) -> Any:
        assert config is None
        self.given.append(inputs)
        decision = self.decisions.pop(0)
        if isinstance(decision, Exception):
            raise decision
        return decision


def executor(chain: Chain, **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=callable_agent(chain), tools=[echo], **settings)


ACT = AgentAction("echo", "a", "I look.")
OURS = graphexec.AgentAction("echo", "a", "I look.")


@RUNS
@pytest.mark.parametrize("decision", [ACT, OURS, [ACT], (OURS,)])
def test_runnable_decides_from_inputs_and_steps(run: Callable[..., Any], decision: Any) -> None:
    chain = Chain(decision, Finish({"output": "done"}, "I know."))
    finish = run(executor(chain)).ending
    assert isinstance(finish, AgentFinish)
    assert (finish.output, finish.log) == ("done", "I know.")
    first, second = chain.given
    assert first.pop("intermediate_steps") == []
    ((action, observation),) = second.pop("intermediate_steps")
    assert (action, observation) == (OURS, "a")
    assert first == second


@RUNS
def test_output_parser_exception_is_a_parse_error(run: Callable[..., Any]) -> None:
    chain = Chain(
        OutputParserException("what?", "Say it again.", "hm"), OutputParserException("?"), Finish({"output": 1})
    )
    ended = run(executor(chain, handle_parsing_errors=True))
    assert [step.status for step in ended.steps] == ["parse_error", "parse_error"]
    assert ended.steps[0].observation == "Say it again."


def test_other_errors_are_raised_unchanged() -> None:
    for error in (ValueError("no"), OSError("no"), ParseError("no")):
        with pytest.raises(type(error), match="no") as raised:
            executor(Chain(error)).run("q")
        assert raised.value is error or isinstance(error, ParseError)


def test_native_tool_calls_are_rejected() -> None:
    chain = Chain([AgentAction("echo", "a", "", ("a message",))])
    with pytest.raises(AgentError, match=r"^Chain decided by native tool calls, AgentAction; make .* create_tool_call"):
        executor(chain).run("q")


@pytest.mark.parametrize("decision", [None, 3, {"output": "x"}, [3]])
def test_invalid_decision_names_the_runnable(decision: Any) -> None:
    with pytest.raises(AgentError, match=r"^the agent Chain returned "):
        executor(Chain(decision)).run("q")


def test_class_of_runnables_is_rejected() -> None:
    wrong: Any = Chain
    with pytest.raises(InputError, match=r"^agent is Chain, a class; make one with create_react_agent, say, or give"):
        callable_agent(wrong)
