"""Bounds of runs: closed forms and numbers."""

from typing import Any

import pytest

from graphexec import END, AgentExecutor, Limits, Machine, Meter, create_react_agent, edges, graph, node, on
from graphexec.effects import agent_limits
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from graphexec.models import ScriptedModel
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify import CODES, UnprovedError
from graphexec.verify.export.guarded import to_guarded_program
from tests.kernel.machines import Halted
from tests.parameters import cases
from tests.verify import bad_machines as bad
from tests.verify.flows import MISSING_CALLS
from tests.verify.proofs import bounds_of


def test_seconds_bound_is_limit_plus_cleanup() -> None:
    bounds = bounds_of(AGENT_EXECUTOR, Limits(seconds=2.5))
    seconds = bounds.seconds
    assert (seconds.form, seconds.number, seconds.value) == ("seconds + 0.05", 2.55, 2.55)
    assert str(bounds_of(AGENT_EXECUTOR).seconds) == "no bound"
    assumed = "nodes, policies and observers return at once and the event loop is not blocked"
    assert seconds.assuming == assumed
    assert str(seconds) == f"seconds + 0.05 = 2.55 (at most, if {assumed})"
    assert bounds.transitions.assuming is None


def test_executor_bounds_models_and_tools_by_default() -> None:
    react = AgentExecutor(agent=create_react_agent(ScriptedModel([]), []), tools=[]).verify()
    assert str(react.bounds and react.bounds.tool_calls) == "iterations = 15 (exact)"
    executor = AgentExecutor(agent=lambda steps, inputs: [], tools=[])
    verdict = executor.verify()
    assert verdict.findings == ()
    assert str(verdict).partition("\n  assuming: ")[0] == (
        "PROVED\n  transitions: 4*iterations + 2 = 62 (exact)\n  model calls: iterations = 15 (exact)\n"
        "  tool calls: fan_out*iterations = 15,000 (exact)\n  seconds: no bound\n"
        "  3 exits: AgentFinish, StoppedResponse, ParseError raised by parse"
    )
    with pytest.raises(UnprovedError, match=r"^GX013 at dispatch_tools: nothing limits how often one visit asks"):
        AgentExecutor(agent=executor.agent, tools=[], max_fan_out=None)
    limited = AgentExecutor(agent=executor.agent, tools=[], max_fan_out=None, max_tool_calls=50).verify()
    assert limited.findings == ()
    assert str(limited.bounds and limited.bounds.tool_calls) == "tool_calls = 50 (at most)"


@cases(
    ("limits", "transitions", "models", "tools"),
    (
        Limits(iterations=10**6, fan_out=2),
        "4*iterations + 2 = 4,000,002 (exact)",
        "iterations = 1,000,000 (exact)",
        "fan_out*iterations = 2,000,000 (exact)",
    ),
    (
        Limits(iterations=3, restarts=2, fan_out=4),
        "4*iterations + 2 = 14 (exact)",
        "iterations + restarts = 5 (at most)",
        "fan_out*iterations + fan_out*restarts = 20 (at most)",
    ),
    (
        Limits(iterations=3, restarts=2),
        "4*iterations + 2 = 14 (exact)",
        "iterations + restarts = 5 (at most)",
        "fan_out*iterations + fan_out*restarts = 5,000 (at most)",
    ),
)
def test_repeated_effects_after_crash_are_counted(limits: Limits, transitions: str, models: str, tools: str) -> None:
    bounds = bounds_of(AGENT_EXECUTOR, limits)
    assert (str(bounds.transitions), str(bounds.model_calls), str(bounds.tool_calls)) == (transitions, models, tools)
    assert bounds.transitions.value == bounds.transitions.number


TWICE: Any = node(when_spent=Halted, meters=[Meter("left", 2)])(bad.tick)
BACK: Any = edges(bad.tock_ending, on(bad.A, TWICE) | on(bad.Over, END))
TWO_METERS = graph(edges(TWICE, on(bad.B, bad.tock_ending) | on(Halted, END)) | BACK, start=TWICE)


@cases(
    ("machine", "limits", "form"),
    (AGENT_EXECUTOR, agent_limits(iterations=9, model_calls=3), "4*model_calls + 2 = 14 (exact)"),
    (AGENT_EXECUTOR, agent_limits(iterations=3, model_calls=9), "4*iterations + 2 = 14 (exact)"),
    (AGENT_EXECUTOR, agent_limits(iterations=9, model_calls=8, tokens=2), "4*tokens + 2 = 10 (exact)"),
    (AGENT_EXECUTOR, agent_limits(iterations=None, model_calls=4), "4*model_calls + 2 = 18 (exact)"),
    (AGENT_EXECUTOR, agent_limits(iterations=None, tokens=4), "4*tokens + 2 = 18 (exact)"),
    # parse --Ready--> plan calls no tool.
    (AGENT_EXECUTOR, agent_limits(iterations=None, tool_calls=4), None),
    (agent_graph(strict=True), agent_limits(iterations=None, tool_calls=4), None),
    (
        bad.PAID_EXTENSION,
        Limits({Meter("extensions"): 1}, iterations=3),
        "4*extensions*iterations + 2*extensions + 4*iterations + 3 = 29 (exact)",
    ),
    (TWO_METERS, Limits(iterations=5), "2*left + 1 = 5 (exact)"),
    (TWO_METERS, Limits(iterations=1), "2*iterations + 1 = 3 (exact)"),
)
def test_tightest_limit_gives_closed_form(machine: Machine[Any, Any], limits: Limits, form: str | None) -> None:
    proved = machine.verify(limits).proved
    assert (str(bounds_of(machine, limits).transitions) if proved else None) == form


@pytest.mark.medium
@cases("iterations", 0, 1, 2)
@cases("own", 0, 1, 3)
def test_embedded_graph_resets_own_budget_at_entry(iterations: int, own: int) -> None:
    limits = Limits({Meter("research.iterations"): own, Meter("tasks"): iterations})
    bounds = bounds_of(bad.CHILD_COUNTED, limits)
    assert bounds.transitions.number == explore_table(bad.CHILD_COUNTED, limits).longest
    assert bounds.transitions.exact
    # A child without any plan gives up, so there is no second task; the closed form does not cover this.
    assert (bounds.transitions.number == bounds.transitions.value) == (own > 0 or iterations == 0)


def test_bound_of_graphs_sharing_a_budget_is_attained() -> None:
    machine, limits = bad.SHARES_WITH_ITS_PARENT, Limits(iterations=4)
    assert str(bounds_of(machine, limits).transitions) == "4*iterations + 2 = 18 (exact)"
    assert explore_table(machine, limits).longest == 18


def test_unaffordable_transition_is_disabled() -> None:
    costly = to_guarded_program(MISSING_CALLS, agent_limits(model_calls=0))
    commands = [command for row in costly.nodes.values() for command in row]
    assert all(command.transition.kind != "move" or not command.takes for command in commands)


def test_every_finding_and_verdict_has_text() -> None:
    verdict = AGENT_EXECUTOR.verify(Limits(iterations=None, fan_out=None))
    assert [finding.title for finding in verdict.findings] == [CODES["GX016"], CODES["GX013"]]
    assert str(verdict).startswith("REFUTED\n  GX016 at plan: ")


def test_counted_things_are_not_assumed() -> None:
    loose, strict = AGENT_EXECUTOR.verify(Limits()), AGENT_EXECUTOR.verify(Limits(restarts=0, fan_out=1))
    # Without restarts and with a limit on fan-out, no outer limit can stop it elsewhere.
    facts = (
        "no run is resumed after a crash (a resume charges an unanswered effect again; to include resumes, set "
        "Limits(restarts=...))",
        "the bounds are for a run that is not nested: inside a run with a limit that this machine does not have, it "
        "takes at most bounds.transitions_when_nested",
    )
    assert strict.assumptions == tuple(one for one in loose.assumptions if one not in facts)
    assert {*facts} < {*loose.assumptions}


@cases(("restarts", "number"), (None, 5), (0, 5), (1, 6), (3, 8))
def test_reserved_calls_exceed_limit_and_repeat_after_crash(restarts: int | None, number: int) -> None:
    limits = agent_limits(iterations=None, model_calls=4, restarts=restarts)
    assert bounds_of(agent_graph(generate=True), limits).model_calls.number == number
    # They are no tool calls.
    bounds = bounds_of(agent_graph(generate=True), agent_limits(tool_calls=2, restarts=restarts))
    assert str(bounds.tool_calls) == "tool_calls = 2 (at most)"
