"""Typical mistakes of users of other libraries raise an error at once, with the remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec import kernel, memory, models
from graphexec.actions import AgentAction, AgentFinish
from graphexec.errors import InputError, MissingHandlerError, ParseError, ToolDefinitionError
from graphexec.executor import parse
from tests.executor.actors import answer, echo, scripted, snapshot_after
from tests.executor.test_with_graph import APPROVED
from tests.parameters import cases

MODEL = models.ScriptedModel([])
# Any: type checkers report these mistakes, too.
AGENT: Any = gx.create_react_agent(MODEL, [])
ACTION: Any = AgentAction
FINISH: Any = AgentFinish


@final
@dataclass(frozen=True)
class Verdict:
    text: str


@gx.node
def judge(finish: AgentFinish) -> Verdict:
    return Verdict(finish.output)


def executor(**options: Any) -> Any:
    return gx.AgentExecutor(**({"agent": AGENT, "tools": []} | options))


def judged() -> Any:
    return gx.splice(executor().graph, gx.edges(judge, gx.on(Verdict, gx.END)), after=parse, on=AgentFinish)


def trimmed_to(steps: Any) -> object:
    return executor(agent=scripted(answer()), trim_intermediate_steps=lambda _: steps).run("q")


NO_START = "does not start with Ready; make it from executor.graph"
JUDGING: Any = gx.graph(gx.edges(judge, gx.on(Verdict, gx.END)), start=judge)
# A mistake, and two facts of the error.
MISTAKES: list[tuple[Callable[[], object], str, str]] = [
    (lambda: executor().with_graph(JUDGING), NO_START, ""),
    (lambda: executor().with_graph(5), NO_START, ""),
    (lambda: executor().with_graph(judged()), "judge --Verdict--> END ends a run of an agent", ""),
    (lambda: executor().with_limits(3), "the limits are 3", "give a Limits, for example Limits(iterations="),
    (lambda: trimmed_to(None), "trim_intermediate_steps returned None", "return the steps to show"),
    (lambda: trimmed_to([("a", "b")]), "trim_intermediate_steps returned a sequence with ('a', 'b')", ""),
    (lambda: FINISH("no"), "AgentFinish: return_values='no' is invalid", "write AgentFinish({'output': ...})"),
    (lambda: FINISH(None), "AgentFinish: return_values=None is invalid", "write AgentFinish"),
    (lambda: ACTION(echo, "a"), "AgentAction: tool=<tool echo", " is invalid; pass the tool's name"),
    (lambda: ACTION("echo", ["a"]), "AgentAction: tool_input=['a'] is invalid", "pass a string"),
]


@cases(("make", "fact", "remedy"), MISTAKES)
def test_mistake_is_refused_with_the_remedy(make: Any, fact: str, remedy: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert fact in str(raised.value)
    assert remedy in str(raised.value)


class Awaited:
    """An observer with an async `__call__`, whose coroutine would not be awaited."""

    async def __call__(self, event: object) -> None: ...


# Invalid options of the executor, and the facts of the error beside their names.
OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"agent": gx.create_react_agent}, "is the function create_react_agent", "call it: create_react_agent("),
    ({"agent": AgentFinish}, "is AgentFinish, a class", "make one with create_react_agent, say, or give a function"),
    *(
        ({"agent": one}, "is ", "make one with create_react_agent, say, or give a function")
        for one in (None, 42, "gpt", MODEL)
    ),
    ({"early_stopping_method": "guess"}, "is 'guess'", "give 'force' or 'generate'"),
    ({"early_stopping_method": ["generate"]}, "is ['generate']", "give 'force'"),
    ({"handlers": [print]}, "is [", "give a dict, for example {AskHuman: function}"),
    ({"verbose": "no"}, "is 'no'", "give True or False"),
    ({"allow_nonterminating": "no"}, "is 'no'", "give True or False"),
    ({"return_intermediate_steps": 1}, "is 1", "give True or False"),
    *(
        ({"trim_intermediate_steps": one}, f"is {one!r}", "give the number of steps to show, or a func")
        for one in (2.5, "last", None, 1.5, [1])
    ),
    *(({"return_direct": one}, f"is {one!r}", "give 'single' or 'any'") for one in (["any"], "perhaps", None, 1)),
    *(({"observers": one}, "", "; pass") for one in ([1], "print", [asyncio.sleep], [Awaited()])),
    ({"observers": print}, "is ", "pass a list of functions that take an event"),
    ({"tool_concurrency": "2"}, "is '2'", "give a whole number, 1 or more"),
    ({"tool_concurrency": 0}, "is 0", "give a whole number, 1 or more"),
    ({"tool_concurrency": -1}, "is -1", "give a whole number, 1 or more"),
    ({"tool_concurrency": True}, "is True", "give a whole number, 1 or more"),
    ({"handle_parsing_errors": asyncio.sleep}, "is ", "a function (def) of the error"),
    ({"trim_intermediate_steps": asyncio.sleep}, "is ", "a function (def) of the steps"),
    *(
        ({"handle_parsing_errors": one}, f"is {one!r}", "give True, False, a string, or a function")
        for one in (None, 0, 1, 3, [True])
    ),
    ({"memory": []}, "is []", "make one, for example with BufferMemory"),
]


@cases(("options", "fact", "remedy"), OPTIONS)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], fact: str, remedy: str) -> None:
    with pytest.raises(InputError) as raised:
        executor(**options)
    (name,) = options
    assert str(raised.value).startswith(f"{name} {fact}")
    assert remedy in str(raised.value)


def test_one_tool_is_not_a_list_of_tools() -> None:
    with pytest.raises(ToolDefinitionError, match="tools is the tool echo itself; pass a list of tools"):
        executor(tools=echo)


def test_text_memory_is_refused_where_messages_are_read() -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel(["so"]), [])
    with pytest.raises(InputError, match=r"the memory provides chat_history as text, .*; make it with as_"):
        executor(agent=agent, memory=memory.BufferMemory())
    assert executor(agent=agent, memory=memory.BufferMemory(as_messages=True)).run("q").output == "so"


def test_executor_resumes_a_paused_run() -> None:
    model = models.ScriptedModel(["Action: echo\nAction Input: hello", "Final Answer: done"])
    asking = executor(agent=gx.create_react_agent(model, [echo]), tools=[echo])
    asking = asking.splice(APPROVED, after=parse, on=APPROVED.rows[0][0].takes[0])
    paused = snapshot_after(MissingHandlerError, lambda: asking.run("Say hello."))
    state = gx.advance(asking.graph, paused, asking.limits)
    assert isinstance(state, kernel.PendingEffect)
    assert isinstance(state.effect, gx.AskHuman)
    result = asking.run(state.reply("yes"))
    assert (result.output, result.spent["model_calls"], result.spent["tool_calls"]) == ("done", 2, 1)


def test_a_callable_agent_may_raise_a_parse_error() -> None:
    def agent(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        if not steps:
            raise ParseError("no sense in it", observation="Say it again.", llm_output="gibberish")
        return answer(steps[0].observation)

    result = executor(agent=agent, handle_parsing_errors=True).run("?")
    (step,) = result.steps
    assert (result.output, step.status, step.action.log) == ("Say it again.", "parse_error", "gibberish")
    with pytest.raises(ParseError, match="handle_parsing_errors=True"):
        executor(agent=agent).run("?")
