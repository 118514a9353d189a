"""Drawn values have the promised form, are readable, and can be run."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from graphexec import Limits, messages, runtime
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits
from graphexec.kernel import Meter
from graphexec.testing.adversary import Attack, Move
from graphexec.testing.strategies import attacks, limits
from tests.checks.random_graphs import DrawnEdge, DrawnGraph, DrawnNode, errand_class
from tests.checks.scripts import AgentScript, Call, ScriptedTurn
from tests.checks.strategies import agent_scripts, drawn_graphs
from tests.drivers import make_run_context, options_of
from tests.parameters import cases

NEVER_BACK = ScriptedTurn("act", (Call("echo", 1), Call("unknown")), math.inf, stubborn=True)
GARBAGE = ScriptedTurn("garbage", (), 2.5)
SCRIPT = AgentScript((ScriptedTurn("act", (Call("unknown", "x"),)), GARBAGE, NEVER_BACK))
ATTACK = Attack({"turns": (Move(1), Move(None, 0.5)), "results": (Move(0, math.inf, stubborn=True),)})
NODE = DrawnNode((DrawnEdge("Red", 0, ("alpha",)), DrawnEdge("Blue", None)), ("alpha",), "tools", 1, 2, None)
LOOP = DrawnGraph((NODE,))


@cases(
    ("value", "text"),
    (SCRIPT, "(act unknown('x'), garbage after 2.5 s, act echo(1), unknown() never, stubborn)"),
    (ATTACK, "turns=(1, raises after 0.5 s), results=(0 never, stubborn)"),
    (LOOP, "{n0: (Red -> n0 resets alpha, Blue -> END; costs alpha; asks 1..2 tools; spent -> END)}"),
)
def test_drawn_values_have_a_readable_repr(value: object, text: str) -> None:
    assert repr(value) == text


@pytest.mark.medium
def test_counterexample_shrinks_to_readable_form() -> None:
    found = find(agent_scripts(["echo"]), lambda script: any(call.tool == "unknown" for call in script.turns[0].calls))
    assert repr(found) == "(act unknown())"


@given(within=limits(agent_limits(iterations=3, tool_calls=2, seconds=7.0, meters={Meter("alpha"): 1})))
def test_drawn_limits_stay_within_given_limits(within: Limits) -> None:
    assert within.iterations is not None
    assert within.iterations <= 3
    tool_calls = within["tool_calls"]
    assert tool_calls is not None
    assert tool_calls <= 2
    assert (within.seconds, within["alpha"] in (0, 1)) == (7.0, True)


@given(attack=attacks({"turns": range(1), "results": range(-1, 2)}))
def test_attack_has_moves_for_asked_effects_only(attack: Attack) -> None:
    turns, results = attack.moves["turns"], attack.moves["results"]
    assert {move.number for move in turns} <= {0, None}
    assert {move.number for move in results} <= {0, 1, -1, None}
    assert attack.at_once().seconds == 0


@given(drawn=drawn_graphs())
def test_every_random_machine_can_be_built(drawn: DrawnGraph) -> None:
    assert len(drawn.graph) == sum(len(one.inner) or 1 for one in drawn.nodes)
    assert drawn.graph.start.partition(".")[0] == "n0"


@given(drawn=drawn_graphs(loops=False), choices=st.lists(st.integers(0, 3), max_size=8))
def test_a_random_machine_runs_by_its_choices(drawn: DrawnGraph, choices: list[int]) -> None:
    nodes = [one for drawn_node in drawn.nodes for one in (drawn_node, *drawn_node.inner)]
    errands = {kind for one in nodes for kind in map(errand_class, one.errands)}
    model, result = messages.ModelReply("so"), ToolResult("so")
    standard: dict[Any, Callable[[Any], object]] = {CallModel: lambda _: model, CallTool: lambda _: result}
    answers = make_run_context({**standard, **dict.fromkeys(errands, lambda _: 1)})
    first, second = (runtime.run(drawn.graph, drawn.value(choices), **options_of(answers)) for _ in range(2))
    assert first.outcome == second.outcome
