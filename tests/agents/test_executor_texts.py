"""The exact texts of an executor: errors, its `repr`, and observations for the model."""

from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, effects, errors, kernel
from graphexec.executor import Acted, Observed, Stopped, agent_graph
from graphexec.executor.nodes import Policies
from tests.executor.actors import act, answer, echo, fail, run_async, scripted
from tests.executor.test_mistakes import judged
from tests.parameters import cases

STOPPED = "Agent stopped due to {} limit."


def executor(**options: Any) -> gx.AgentExecutor:
    given: dict[str, Any] = {"agent": scripted(answer()), "tools": [], **options}
    return gx.AgentExecutor(**given)


def test_options_are_as_passed() -> None:
    limits: dict[str, Any] = {"iterations": 1, "model_calls": 3, "tool_calls": 4, "tokens": 5, "fan_out": 6}
    limited = executor(**{f"max_{name}": limit for name, limit in limits.items()}, max_execution_time=2)
    assert limited.limits == effects.agent_limits(seconds=2, **limits)
    assert executor().limits == kernel.Limits(iterations=15)
    three = executor(max_iterations=3)
    assert three.run("q").limits == run_async(three).limits == kernel.Limits(iterations=3)
    one = executor(tools=[echo], tool_concurrency=1, return_intermediate_steps=True)
    assert (one.run_context.at_once, list(one.tools), one.return_intermediate_steps) == (1, ["echo"], True)
    assert [executor(**more).run_context.at_once for more in ({"tool_concurrency": 7}, {})] == [7, 64]
    with pytest.raises(errors.InputError, match=r"tool_concurrency is 2\.5; give a whole number, 1 or more"):
        executor(tool_concurrency=2.5)
    both = executor(tools=[echo, fail])
    assert repr(both) == f"<AgentExecutor with echo, fail (function): {both.graph!r}>"
    assert repr(executor()).startswith("<AgentExecutor with no tools (function): ")


# ---- proved and unproved machines


def test_allow_nonterminating_is_kept_in_copies() -> None:
    forever = executor(max_iterations=None, allow_nonterminating=True)
    for unproved in (forever, forever.with_limits(kernel.Limits(iterations=None)), forever.with_graph(forever.graph)):
        assert not unproved.verify().proved
        assert unproved.run_context.proof is None
    bounded = forever.with_limits(kernel.Limits(iterations=3))
    assert bounded.verify().proved
    assert bounded.run_context.proof is not None
    assert bounded.run_context.limits == bounded.limits == kernel.Limits(iterations=3)
    # Without it, an unproved machine is rejected with its verdict.
    with pytest.raises(gx.UnprovedError) as caught:
        executor(max_iterations=None)
    assert not caught.value.verdict.proved
    with pytest.raises(gx.UnprovedError):
        executor().with_limits(kernel.Limits(iterations=None))


def test_each_machine_needs_its_own_proof() -> None:
    @gx.node
    def hurry(reached: Stopped) -> gx.StoppedResponse:
        return gx.StoppedResponse("hurried", reached.cause, reached.run)

    one = executor(max_iterations=1, agent=scripted(act("echo", text="a")), tools=[echo])
    other = one.with_graph(gx.replace(one.graph, kernel.node(name="stopped_response")(hurry)))
    certificate = other.verify().certificate
    assert certificate is not None
    assert other.run_context.proof == certificate.proof
    assert [made.run("q").output for made in (other, one)] == ["hurried", STOPPED.format("iteration limit or time")]
    with pytest.raises(
        errors.InputError, match=r"judge --Verdict--> END .*; only AgentFinish and StoppedResponse may lead"
    ):
        executor().with_graph(judged())
    # The strict machine does not retry parse errors.
    edges = [str(edge) for edge in agent_graph(strict=True).edges if edge.source == "parse"]
    assert edges == ["parse --Acted--> dispatch_tools", "parse --AgentFinish--> END"]
    assert Acted in agent_graph(strict=True)["parse"].returns


# ---- the five nodes


def test_final_parse_error_has_reason_and_remedy() -> None:
    with pytest.raises(
        gx.ParseError, match=r"^the agent returned an empty list of actions; pass handle_parsing"
    ) as caught:
        executor(agent=scripted([])).run("q")
    assert caught.value.observation == "Decide on an action, or finish."
    assert isinstance(caught.value.__cause__, gx.ParseError)


def test_finish_keeps_its_log_and_values() -> None:
    finish = executor(agent=scripted(gx.AgentFinish({"output": "42"}, "thought so"))).run("q").ending
    assert finish == gx.AgentFinish({"output": "42"}, "thought so", actions.Run({"input": "q"}))
    # The answer of a tool has no log.
    direct = gx.tool(return_direct=True)(echo.function)
    ending = executor(agent=scripted(act("echo", text="a")), tools=[direct]).run("q").ending
    assert isinstance(ending, gx.AgentFinish)
    assert (ending.return_values, ending.log, ending.return_direct) == ({"output": "a"}, "", True)
    assert len(ending.steps) == 1


@cases("results", 1, 0, 3)
def test_custom_dispatch_that_loses_results_is_rejected(results: int) -> None:
    check: Any = executor().graph["check_return_direct"].function
    observed = Observed(actions.Run({"input": "q"}), (act("echo"), act("fail")), (effects.ToolResult("a"),) * results)
    with pytest.raises(ValueError, match=r"is (shorter|longer)"):
        check(observed, Policies())
