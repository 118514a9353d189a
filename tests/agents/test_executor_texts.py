"""The exact texts of an executor: errors, its `repr`, and observations for the model."""

from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.actions import Run
from graphexec.effects import ToolResult, agent_limits
from graphexec.errors import InputError
from graphexec.executor import STRICT_AGENT_EXECUTOR, Acted, LimitReached, Observed, Ready, limit_reached
from graphexec.kernel import Exhausted, Limits, rename
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from graphexec.verify import UnprovedError
from tests.executor.actors import act, answer, echo, fail, run_async, run_sync, scripted
from tests.executor.test_mistakes import judged
from tests.parameters import cases


def executor(**options: Any) -> gx.AgentExecutor:
    given: dict[str, Any] = {"agent": scripted(answer()), "tools": [], **options}
    return gx.AgentExecutor(**given)


def test_invalid_final_state_is_named() -> None:
    with pytest.raises(InputError, match=r"judge --Verdict--> END .*; only AgentFinish and StoppedResponse may lead"):
        executor().with_graph(judged())


@cases("run", [run_sync, run_async])
def test_each_limit_sets_its_meter(run: Callable[[gx.AgentExecutor], Any]) -> None:
    limits = executor(
        max_iterations=1, max_execution_time=2, max_model_calls=3, max_tool_calls=4, max_tokens=5, max_fan_out=6
    ).limits
    assert limits == agent_limits(iterations=1, seconds=2, model_calls=3, tool_calls=4, tokens=5, fan_out=6)
    assert executor().limits == Limits(iterations=15)
    assert run(executor(max_iterations=3)).limits == Limits(iterations=3)


def test_tools_and_concurrency_are_as_passed() -> None:
    one = executor(tools=[echo], tool_concurrency=1, return_intermediate_steps=True)
    assert (one.run_context.at_once, list(one.tools), one.return_intermediate_steps) == (1, ["echo"], True)
    assert executor(tool_concurrency=7).run_context.at_once == 7
    assert executor().run_context.at_once == 64
    with pytest.raises(InputError, match=r"tool_concurrency is 2\.5; give a whole number, 1 or more"):
        executor(tool_concurrency=2.5)
    both = executor(tools=[echo, fail])
    assert repr(both) == f"<AgentExecutor with echo, fail (function): {both.graph!r}>"
    assert repr(executor()).startswith("<AgentExecutor with no tools (function): ")


# ---- proved and unproved machines


def test_allow_nonterminating_is_kept_in_copies() -> None:
    forever = executor(max_iterations=None, allow_nonterminating=True)
    assert not forever.verify().proved
    assert forever.run_context.ranks is None
    assert not forever.with_limits(Limits(iterations=None)).verify().proved
    assert not forever.with_graph(forever.graph).verify().proved
    bounded = forever.with_limits(Limits(iterations=3))
    assert bounded.verify().proved
    assert bounded.run_context.ranks is not None
    assert bounded.run_context.limits == bounded.limits == Limits(iterations=3)
    # Without it, an unproved machine is rejected with its verdict.
    with pytest.raises(UnprovedError) as caught:
        executor(max_iterations=None)
    assert not caught.value.verdict.proved
    with pytest.raises(UnprovedError):
        executor().with_limits(Limits(iterations=None))


def test_each_machine_needs_its_own_proof() -> None:
    @gx.node
    def hurry(reached: LimitReached) -> gx.StoppedResponse:
        return gx.StoppedResponse("hurried", reached.limit, reached.run)

    one = executor(max_iterations=1, agent=scripted(act("echo", text="a")), tools=[echo])
    other = one.with_graph(gx.replace(one.graph, rename(hurry, "stopped_response")))
    certificate = other.verify().certificate
    assert certificate is not None
    assert other.run_context.ranks == certificate.ranks
    assert other.run("q").output == "hurried"
    assert one.run("q").output == "Agent stopped due to iteration limit or time limit."


# ---- the five nodes


RETRY = "; pass handle_parsing_errors=True to send the error to the model and let it try again"


def test_final_parse_error_has_reason_and_model_output() -> None:
    def read(reply: Any) -> Any:
        raise gx.ParseError("no sense in it", observation="Say it again.", llm_output="gibberish")

    agent = gx.create_react_agent(ScriptedModel(["gibberish"]), [])
    with pytest.raises(gx.ParseError) as caught:
        executor(agent=gx.Agent(agent.ask, read, model=agent.model)).run("q")
    assert str(caught.value) == f"no sense in it{RETRY}"
    assert (caught.value.observation, caught.value.llm_output) == ("Say it again.", "gibberish")
    assert isinstance(caught.value.__cause__, gx.ParseError)
    # An empty list of actions is named.
    with pytest.raises(gx.ParseError) as caught:
        executor(agent=scripted([])).run("q")
    assert str(caught.value) == f"the agent returned an empty list of actions{RETRY}"
    assert (caught.value.observation, caught.value.llm_output) == ("Decide on an action, or finish.", "")


def test_finish_keeps_its_log_and_values() -> None:
    finish = executor(agent=scripted(gx.AgentFinish({"output": "42"}, "thought so"))).run("q").ending
    assert finish == gx.AgentFinish({"output": "42"}, "thought so", Run({"input": "q"}))
    # The answer of a tool has no log.
    direct = gx.tool(return_direct=True)(echo.function)
    ending = executor(agent=scripted(act("echo", text="a")), tools=[direct]).run("q").ending
    assert isinstance(ending, gx.AgentFinish)
    assert (ending.return_values, ending.log, ending.return_direct) == ({"output": "a"}, "", True)
    assert len(ending.steps) == 1


@cases(
    ("limit", "text"),
    [
        ("iterations", "Agent stopped due to iteration limit or time limit."),
        ("seconds", "Agent stopped due to iteration limit or time limit."),
        ("model_calls", "Agent stopped due to model call limit."),
        ("tokens", "Agent stopped due to token limit."),
        ("fan_out", "Agent stopped due to fan out limit."),
        ("restarts", "Agent stopped due to restart limit."),
        ("new_sources_read", "Agent stopped due to new sources read limit."),
    ],
)
def test_stop_names_its_limit(limit: str, text: str) -> None:
    stopped: Any = executor().graph["stopped_response"].function
    run = Run({"input": "q"})
    reached = limit_reached(Ready(run), Exhausted(limit, 1, 1))
    assert reached == LimitReached(run, Exhausted(limit, 1, 1))
    assert stopped(reached) == gx.StoppedResponse(text, Exhausted(limit, 1, 1), run)


@cases("results", [(), (ToolResult("a"),), (ToolResult("a"), ToolResult("b"), ToolResult("c"))])
def test_custom_dispatch_that_loses_results_is_rejected(results: tuple[ToolResult, ...]) -> None:
    check: Any = executor().graph["check_return_direct"].function
    with pytest.raises(ValueError, match=r"is (shorter|longer)"):
        check(Observed(Run({"input": "q"}), (act("echo"), act("fail")), results))


def test_nodes_use_the_agents_ask_and_read() -> None:
    read: list[Any] = []
    agent = gx.create_react_agent(ScriptedModel(["Final Answer: 42"]), [])

    def reading(reply: Any) -> Any:
        read.append(reply)
        return agent.read(reply)

    result = executor(agent=gx.Agent(agent.ask, reading, model=agent.model)).run("q")
    assert result.output == "42"
    assert [type(one) for one in read] == [ModelReply]
    # The strict machine does not retry parse errors.
    edges = [str(edge) for edge in STRICT_AGENT_EXECUTOR.edges if edge.source == "parse"]
    assert edges == ["parse --Acted--> dispatch_tools", "parse --AgentFinish--> END"]
    assert Acted in STRICT_AGENT_EXECUTOR["parse"].returns
