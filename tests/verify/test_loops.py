"""Findings and bounds for small flows: the loop that the table does not end, with its remedy, or the length of runs."""

import itertools
import re
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import agent_limits
from graphexec.kernel import END, Limits
from graphexec.verify.proof.bounds import bounds_of
from graphexec.verify.proof.certificate import Bound, Bounds
from graphexec.verify.proof.findings import Finding
from graphexec.verify.proof.flow import Flow, Transition, caps_of, is_enabled, limits_of
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.ranking import rank_nodes
from tests.parameters import cases
from tests.verify.flows import calling, end, flow_with, gate, longest_run, product_of, way, within
from tests.verify.proofs import prove, witness_of

NO_LIMIT = Limits(iterations=None)
SIXTY, NO_RESTART = Limits(iterations=None, seconds=60), Limits(iterations=None, restarts=0)
MODEL, TOOL, ANY_TOOLS = calling(models=1), calling(tools=1), calling(tools=None)
BOTH = calling(models=1, tools=1)


def bounds_or_findings(flow: Flow, limits: Limits) -> Bounds | list[Finding]:
    known = limits_of(flow, limits)
    transitions = [one for one in flow.transitions if is_enabled(one, known)]
    ranks = rank_nodes(flow.nodes, transitions, [name for name, cap in caps_of(flow, known).items() if cap is not None])
    if isinstance(ranks, list):
        return [finding for core in ranks for finding in find_loops(flow, core, limits)]
    return bounds_of(flow, transitions, known)


def findings_of(flow: Flow, limits: Limits = NO_LIMIT) -> list[Finding]:
    findings = bounds_or_findings(flow, limits)
    assert isinstance(findings, list)
    return findings


def only_finding(flow: Flow, limits: Limits = NO_LIMIT) -> Finding:
    (finding,) = findings_of(flow, limits)
    assert finding.severity == "error"
    return finding


def only_bounds(flow: Flow, limits: Limits = NO_LIMIT) -> Bounds:
    bounds = bounds_or_findings(flow, limits)
    assert isinstance(bounds, Bounds)
    assert bounds_or_findings(flow, limits) == bounds
    if bounds.transitions.exact:
        assert bounds.transitions.number == longest_run(flow, limits)
    return bounds


# ---- loops


def matches(text: str, pattern: str) -> bool:
    """Return whether a text matches the pattern, in which `~` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("~"))), text) is not None


SELF = flow_with(way("a", "a"), end("a"))
TWO = flow_with(way("a", "b"), way("b", "a"), end("b"))
COUNTED = flow_with(way("a", "a", "x"), end("a"), gate("a", "x"), x=None)
TOOLS = flow_with(way("a", "a", "tool_calls", asks=1, **TOOL), end("a"), within("a", "tool_calls", **TOOL))
MODELS = flow_with(
    way("a", "a", "model_calls tokens", asks=1, **MODEL), end("a"), within("a", "model_calls tokens", **MODEL)
)
RESETS_ITSELF = flow_with(way("a", "a", "x", "x"), end("a"), gate("a", "x"), x=3)
RESET_LATER = flow_with(way("s", "a"), way("a", "b", "x"), gate("a", "x"), way("b", "a", "", "x"), end("b"), x=3)
_FIRST, _SECOND = (way("a", "c", "x", "y"), gate("a", "x")), (way("b", "c", "y", "x"), gate("b", "y"))
EACH_OTHER = flow_with(*_FIRST, way("c", "a"), way("c", "b"), *_SECOND, x=2, y=2)
FIRST_UNLIMITED = flow_with(way("a", "b", "iterations x"), way("b", "a", "", "x"), end("b"), gate("a", "x"), x=2)
SECOND_UNLIMITED = flow_with(way("a", "b", "x y"), way("b", "a", "", "x"), end("b"), x=2, y=None)
LOOPS_WHEN_STOPPED = flow_with(
    way("a", "a", "iterations"), gate("a", "iterations", "g"), end("g", "iterations"), gate("g", "iterations", "g")
)


def entering(node: str, budget: str, entry: str = "e") -> Flow:
    """A loop within an embedded graph and a node outside, which resets the budget of the loop."""
    inner = f"{node.rpartition('.')[0]}.q"
    ways = (way(node, inner, budget), gate(node, budget), way(inner, entry), way(entry, node, "", budget), end(entry))
    return flow_with(*ways, **{budget: 3})


@cases(
    ("flow", "text"),
    (SELF, "GX010 at a: the table alone does not end this loop: a --Toa--> a; it spends no budget. Meter a: add~"),
    (TWO, "GX010 at a: ~ a --Tob--> b, b --Toa--> a; it spends no budget. Meter b: add ~"),
    (COUNTED, "GX016 at a: ~ a --Toa--> a; it spends only x, without a limit. Give the meter x a limit: ~"),
    (TOOLS, "GX016 at a: ~; it spends only tool_calls, ~. Set a limit on tool_calls: Limits({TOOL_CALLS: 5})."),
    (MODELS, "GX016 at a: ~ only model_calls and tokens, ~. Set a limit on model_calls: ~"),
    (RESETS_ITSELF, "GX015 at a: ~ a --Toa--> a; it spends x, which a --Toa--> resets. Meter a with a meter ~"),
    (
        RESET_LATER,
        "GX015 at a: ~ a --Tob--> b, b --Toa--> a; it spends x, which b --Toa--> resets. Reached by start -> s -> "
        "a. Meter b with ~; or remove resets= from b --Toa--> a.",
    ),
    (
        EACH_OTHER,
        "GX015 at c: ~ c --Tob--> b, b --Toc--> c, c --Toa--> a, a --Toc--> c; it spends x and y, which b --Toc--> "
        "resets. Reached by start -> a -> c. Meter b with ~; or remove resets= from b --Toc--> c.",
    ),
    (
        entering("w.p", "w.x"),
        "GX014 at w.p: ~ w.p --Tow.q--> w.q, w.q --Toe--> e, e --Tow.p--> w.p; it spends w.x, which each entry "
        "into w resets. Meter e with ~; or let it share the meters of the outer graph (own=).",
    ),
    (entering("v.w.p", "v.w.x", "v.e"), "GX014 at v.w.p: ~ it spends v.w.x, which each entry into v.w resets. ~"),
    # The edge into the graph resets a budget that is not the graph's own.
    (entering("w.p", "x"), "GX015 at w.p: ~ it spends x, which e --Tow.p--> resets. ~"),
    (
        flow_with(way("a", "a", "x y z"), gate("a", "x y z"), x=None, y=None, z=None),
        "GX016 at a: ~ it spends only x, y and z, without a limit. Give the meter x a limit: "
        'Meter("x", 3), or Limits({Meter("x"): 3}).',
    ),
    # A missing limit is reported before a reset.
    (FIRST_UNLIMITED, "GX016 at a: ~ it spends only iterations, without a limit. Set Limits(iterations=...)."),
    (SECOND_UNLIMITED, "GX016 at a: ~ it spends only y, without a limit. ~"),
)
def test_finding_names_loop_path_and_remedy(flow: Flow, text: str) -> None:
    finding = only_finding(flow)
    assert matches(str(finding), text), finding
    witness = witness_of(finding)
    assert finding.outcome == (witness.loop[0].outcome if len(witness.loop) == 1 else None)
    assert longest_run(flow, witness.limits) is None


@final
@dataclass(frozen=True)
class Unresolved:
    left: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


@gx.node
def go_on(one: Unresolved) -> Unresolved | gx.StoppedResponse:
    return one


def test_value_whose_annotations_cannot_be_resolved_has_no_measure() -> None:
    machine = gx.graph(gx.edges(go_on, gx.on(Unresolved, go_on) | gx.on(gx.StoppedResponse, gx.END)), start=go_on)
    text = str(machine.verify())
    assert "add when_spent=Stopped, meters=[ITERATIONS] to its @node" in text
    assert "decreases" not in text


ANOTHER = 'a meter that nothing resets: add meters=[Meter("rounds", 10)] to its @node'
NEW_OUTCOME = (
    'meter a: add when_spent=Stopped, meters=[Meter("rounds", 10)] to its @node, and on(Stopped, END) in its '
    "row; write the class Stopped with two fields: a value, an Exhausted"
)
STOPPED_ELSEWHERE = Transition("s", "Spent", "t", "gate", causes=("iterations", "seconds"))
TOKENS: Any = {"asks": 1, "most": 1, "effect_charges": ((("tokens", 1),),)}


@cases(
    ("flow", "remedy"),
    (SELF, NEW_OUTCOME),
    # The outcome of another node is reused.
    (
        flow_with(way("s", "a", "iterations"), STOPPED_ELSEWHERE, end("t"), *SELF.transitions),
        'meter a: add when_spent=Spent, meters=[Meter("rounds", 10)] to its @node, and on(Spent, t) in its row',
    ),
    # An edge cannot lead to a node of an embedded graph,
    (flow_with(way("s", "a", "x"), gate("s", "x", "w.t"), end("w.t"), *SELF.transitions, x=1), NEW_OUTCOME),
    # and its nodes are not an example.
    (flow_with(way("w.s", "a", "x"), gate("w.s", "x"), *SELF.transitions, x=1), NEW_OUTCOME),
    (
        flow_with(*SELF.transitions, within("a", "model_calls", **calling(models=None))),
        'meter a: add meters=[Meter("rounds", 10)] to its @node',
    ),
    (RESETS_ITSELF, f"meter a with {ANOTHER}; or remove resets= from a --Toa--> a"),
    (
        RESET_LATER,
        f"meter b with {ANOTHER.replace('add', 'add when_spent=ToEND,')}, and on(ToEND, END) in its row; "
        "or remove resets= from b --Toa--> a",
    ),
    (
        flow_with(way("w.a", "w.a", "w.x"), gate("w.a", "w.x"), **{"w.x": None}),
        'give the meter w.x a limit: embed(..., own=[Meter("x", 3)]) for w, or Limits({Meter("w.x"): 3})',
    ),
    (
        flow_with(way("a", "a", "tokens", **TOKENS), end("a"), within("a", "tokens")),
        # A machine's meters have options.
        "set a limit on tokens: Limits({TOKENS: 5})",
    ),
    # A limit on x would leave the other loop.
    (
        flow_with(way("a", "a", "x"), gate("a", "x"), way("a", "b"), way("b", "a"), end("b"), x=None),
        f"meter a with {ANOTHER}",
    ),
    # The resetting node is metered, even where a limit on calls would do.
    (
        flow_with(way("a", "a", "x tool_calls", "x", asks=1, **TOOL), gate("a", "x"), within("a", "tool_calls"), x=3),
        f"meter a with {ANOTHER}; or remove resets= from a --Toa--> a",
    ),
    # A meter on one node would leave the loop of the other.
    (
        flow_with(way("a", "a"), way("a", "b"), way("b", "a"), way("b", "b"), end("b")),
        "meter each of its nodes with a meter that nothing in the loop resets",
    ),
    # Another edge resets it too.
    (
        flow_with(way("a", "a", "x", "x"), gate("a", "x"), way("a", "b", "x"), way("b", "a", "", "x"), x=3),
        f"meter a with {ANOTHER}",
    ),
)
def test_remedy_uses_names_of_the_machine(flow: Flow, remedy: str) -> None:
    assert only_finding(flow, agent_limits(iterations=None, model_calls=3, restarts=0)).remedy == remedy


_PLAN = (way("plan", "plan", "iterations"), gate("plan", "iterations", "extend"), end("plan"))
_EXTEND = (way("extend", "plan", "", "iterations"), end("extend"))
_HALTED = Transition("b", "Halted", "c", "within", causes=("restarts",))
NO_CALLS = agent_limits(iterations=None, model_calls=0)


@cases(
    ("flow", "limits", "text"),
    (
        LOOPS_WHEN_STOPPED,
        Limits(iterations=1),
        "GX009 at g: the table alone does not end this loop: g --Tog--> g; it is taken when a limit is reached, and "
        "spends nothing that could end it. Reached by start -> a -> g. Route Tog of g out of the loop; if g must run "
        "when the limit is reached, give it its own meter.",
    ),
    (flow_with(*_PLAN, *_EXTEND), Limits(iterations=1), 'GX015 at ~Meter("extensions", 2)~'),
    # A meter on `a` would leave the loop of `b` and `c`, which a reached limit enters.
    (
        flow_with(way("b", "a"), way("a", "b"), _HALTED, way("c", "b"), end("b")),
        Limits(iterations=None, restarts=1),
        "GX~ Meter b: add meters=[~] to its @node, and route its Halted out of the loop.",
    ),
    # There is no endless run without a call.
    (
        flow_with(way("a", "b", **MODEL, asks=1), within("a", "model_calls"), way("b", "a", "x"), x=None),
        NO_CALLS,
        "GX017 at a: found neither a budget that runs out in every loop through a, b nor a run that never ends. "
        "Meter a node of these loops with a meter that nothing in them resets.",
    ),
    # Only time ends the loop.
    (
        flow_with(way("a", "a", asks=1), end("a"), within("a")),
        SIXTY,
        "GX012 at a: only the 60 seconds end this loop: a --Toa--> a; no counted limit does. Add a counted limit: "
        "meter a: add ~",
    ),
    (
        flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a"), end("b"), x=None),
        Limits(iterations=None, seconds=1.5),
        "GX012 at a: only the 1.5 seconds ~: a --Tob--> b, b --Toa--> a; ~ give the meter x a limit: ~",
    ),
    # It is reported at its entry.
    (flow_with(way("s", "b"), way("a", "b", asks=1), within("a"), way("b", "a"), end("b")), SIXTY, "GX012 at b: ~"),
    # A loop of pure nodes does not look at the clock.
    (TWO, Limits(iterations=None, seconds=1), "GX010 at a: ~"),
)
def test_finding_depends_on_the_limits(flow: Flow, limits: Limits, text: str) -> None:
    finding = only_finding(flow, limits)
    assert matches(str(finding), text), finding
    assert finding.witness is None if finding.code == "GX017" else witness_of(finding).loop


def test_separate_loops_and_shortest_ones_are_reported() -> None:
    flow = flow_with(way("a", "a"), way("a", "b"), way("b", "b"), end("b"))
    assert sorted(str(one.node) for one in findings_of(flow)) == ["a", "b"]
    flow = flow_with(way("a", "b"), way("b", "c"), way("c", "a"), way("c", "c"), end("b"))
    witness = witness_of(only_finding(flow))
    assert [str(one) for one in witness.loop] == ["c --Toc--> c"]
    assert [str(one) for one in witness.stem] == ["a --Tob--> b", "b --Toc--> c"]


@pytest.mark.medium
def test_witness_stays_short_under_large_limits() -> None:
    many = 10**6
    path = witness_of(only_finding(flow_with(way("a", "a", "x"), gate("a", "x", "b"), way("b", "b"), end("b"), x=many)))
    assert path.limits == Limits({gx.Meter("x"): 2}, iterations=None)
    assert len(path.stem) == 3
    counted = flow_with(way("a", "a", "iterations"), gate("a", "iterations", "b"), way("b", "b"), end("b"))
    path = witness_of(only_finding(counted, agent_limits(iterations=many, model_calls=many)))
    assert path.limits == agent_limits(iterations=2, model_calls=2)


# ---- bounds

TWO_AT_ONCE = Transition("a", "Tob", "b", spends=(("x", 2),))
AGENT = flow_with(way("a", "b", "iterations"), gate("a", "iterations", "s"), way("b", "a"), end("b"), end("s"))
_OUTER, _INNER = (way("o", "i", "x", "y"), gate("o", "x")), (way("i", "i", "y"), gate("i", "y", "o"), end("i"))
_BY_TWO_BUDGETS = (way("a", "b", "x"), gate("a", "x"), way("b", "a", "y"), gate("b", "y"))
_IN_TURN = (way("a", "a", "x"), gate("a", "x", "b"), way("b", "b", "y"), gate("b", "y"))
_BRANCHES = (way("a", "b"), way("a", "c"), way("b", "b", "x"), gate("b", "x"), end("c"))


@pytest.mark.medium
@cases(
    ("flow", "limits", "transitions", "calls"),
    (flow_with(way("a", "b"), way("b", "c"), end("c")), NO_LIMIT, "3 (exact)", "0 (exact)"),
    (AGENT, Limits(iterations=7), "2*iterations + 2 = 16 (exact)", "0 (exact)"),
    # The inner loop spends y; the outer loop spends x and resets y.
    (flow_with(*_OUTER, *_INNER, x=3, y=2), NO_LIMIT, "x*y + 2*x + 1 = 13 (exact)", "0 (exact)"),
    # The tighter of two budgets bounds the loop.
    (flow_with(*_BY_TWO_BUDGETS, x=5, y=2), NO_LIMIT, "2*y + 2 = 6 (exact)", "0 (exact)"),
    # A round spends two at once, so an odd one is left.
    (flow_with(TWO_AT_ONCE, way("b", "a"), end("a"), x=5), NO_LIMIT, "at most x + 1, here 5 (exact)", "0 (exact)"),
    # More states than the search visits.
    (flow_with(*_IN_TURN, x=500, y=500), NO_LIMIT, "x + y + 2 = 1,002 (exact)", "0 (exact)"),
    # A run takes one branch, not both.
    (flow_with(*_BRANCHES, x=4), NO_LIMIT, "x + 2 = 6 (exact)", "0 (exact)"),
    (flow_with(end("a", "x", **BOTH), gate("a", "x"), x=10_000), SIXTY, "1 (exact)", "1 (exact)"),
    # Only a crash leads to the longest path, and no crash is certain.
    (flow_with(end("a"), within("a", "", "b"), way("b", "c"), end("c")), NO_RESTART, "3 (at most)", "0 (exact)"),
    # A visit that is stopped at the deadline may have called nothing.
    (flow_with(end("a", **BOTH), within("a", "", "b", **BOTH), end("b", **BOTH)), SIXTY, "2 (exact)", "2 (at most)"),
    # Repeated rounds are searched once,
    (flow_with(way("a", "a", "x"), gate("a", "x"), x=199), NO_LIMIT, "x + 1 = 200 (exact)", "0 (exact)"),
    # also where they have more states than the search visits one by one.
    (flow_with(way("a", "a", "x"), gate("a", "x"), x=2_500), NO_LIMIT, "x + 1 = 2,501 (exact)", "0 (exact)"),
    (flow_with(way("a", "a", "x"), gate("a", "x"), x=2_500), SIXTY, "x + 1 = 2,501 (exact)", "0 (exact)"),
)
def test_transition_bound_has_form_and_number(flow: Flow, limits: Limits, transitions: str, calls: str) -> None:
    bounds = only_bounds(flow, limits)
    assert (str(bounds.transitions), str(bounds.model_calls), str(bounds.tool_calls)) == (transitions, calls, calls)


_CHAIN = [way(here, there) for here, there in itertools.pairwise("abcdef")]
_LONG_LOOP = (way("a", "b", "x"), way("b", "a"), gate("a", "x", "s"), end("s"))


@cases(
    ("states", "flow", "bound"),
    # A long loop is found in a few.
    (12, flow_with(*_LONG_LOOP, x=1_000), "2*x + 2 = 2,002 (exact)"),
    (3, flow_with(*_CHAIN, end("f")), "6 (at most)"),
)
def test_search_stops_at_its_state_limit(states: int, flow: Flow, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphexec.verify.proof.bounds.STATES", states)
    assert str(only_bounds(flow).transitions) == bound


@cases("budgets", 6, 7, 20)
def test_closed_form_of_many_budgets_is_a_sum(budgets: int) -> None:
    others = [str(number) for number in range(budgets - 2)]
    chain = [way(here, there, here) for here, there in itertools.pairwise([*others, "a"])]
    closed = [gate(name, name) for name in others]
    bounds = bounds_or_findings(
        flow_with(*chain, *closed, *_BY_TWO_BUDGETS, x=5, y=2, **dict.fromkeys(others, 1)), NO_LIMIT
    )
    assert isinstance(bounds, Bounds)
    assert "y" in (bounds.transitions.form or "")
    assert bounds.transitions.value is not None


def side_loops(count: int) -> Flow:
    """A loop that spends iterations, with so many loops beside it that lead back into it and reset nothing."""
    ways = [way("n", "n", "iterations"), end("n"), gate("n", "iterations")]
    for side, budget in ((f"side{number}", f"rounds{number}") for number in range(count)):
        ways += [way("n", side), way(side, "n", budget), gate(side, budget)]
    return flow_with(*ways, **{f"rounds{number}": 2 for number in range(count)})


_RESETTING = (way("o", "i", "x", "y"), gate("o", "x"), end("o"), way("i", "i", "y"), gate("i", "y"), way("i", "o"))


@cases(
    ("flow", "iterations", "bound"),
    (side_loops(3), 4, "iterations + 2*rounds0 + 2*rounds1 + 2*rounds2 + 2 = 18 (exact)"),
    (side_loops(12), 4, f" = {4 + 12 * 2 * 2 + 2} ("),
    # An inner budget that is reset costs its limit.
    (flow_with(*_RESETTING, x=3, y=5), None, f" {3 * (2 + 5) + 1} ("),
)
def test_potential_has_one_slope_for_each_budget(flow: Flow, iterations: int | None, bound: str) -> None:
    transitions = prove(flow, Limits(iterations=iterations)).bounds.transitions
    assert bound in str(transitions)
    assert transitions.form is not None


CALLING = flow_with(
    way("a", "b", "iterations", **MODEL), gate("a", "iterations", "s"), way("b", "a", **ANY_TOOLS), end("b"), end("s")
)


@cases(
    ("limits", "models", "tools"),
    (Limits(), "iterations = 15 (exact)", "fan_out*iterations = 15,000 (exact)"),
    (Limits(fan_out=None), "iterations = 15 (exact)", "no bound"),
    (Limits(fan_out=0), "iterations = 15 (exact)", "fan_out*iterations = 0 (exact)"),
    (Limits(fan_out=3), "iterations = 15 (exact)", "fan_out*iterations = 45 (exact)"),
    (agent_limits(fan_out=3, tool_calls=50), "iterations = 15 (exact)", "fan_out*iterations = 45 (at most)"),
    (agent_limits(fan_out=3, tool_calls=45), "iterations = 15 (exact)", "fan_out*iterations = 45 (at most)"),
    (agent_limits(fan_out=3, tool_calls=44), "iterations = 15 (exact)", "tool_calls = 44 (at most)"),
    (agent_limits(tool_calls=7), "iterations = 15 (exact)", "tool_calls = 7 (at most)"),
    (agent_limits(tokens=5), "tokens = 5 (at most)", "fan_out*iterations = 15,000 (exact)"),
    (agent_limits(tokens=5, model_calls=4), "model_calls = 4 (at most)", "fan_out*iterations = 15,000 (exact)"),
    (agent_limits(tokens=4, model_calls=5), "tokens = 4 (at most)", "fan_out*iterations = 15,000 (exact)"),
    (agent_limits(tokens=4, model_calls=4), "model_calls = 4 (at most)", "fan_out*iterations = 15,000 (exact)"),
    (agent_limits(tokens=20), "iterations = 15 (at most)", "fan_out*iterations = 15,000 (exact)"),
    (Limits(iterations=0), "iterations = 0 (exact)", "fan_out*iterations = 0 (exact)"),
    (Limits(iterations=0, fan_out=None), "iterations = 0 (exact)", "no bound"),
    (
        Limits(restarts=1),
        "iterations + restarts = 16 (at most)",
        "fan_out*iterations + fan_out*restarts = 16,000 (at most)",
    ),
)
def test_calls_are_bounded_by_smaller_limit(limits: Limits, models: str, tools: str) -> None:
    bounds = only_bounds(CALLING, limits)
    assert (str(bounds.model_calls), str(bounds.tool_calls)) == (models, tools)
    # Each has a closed form, which has its number as value, or none.
    for bound in (bounds.model_calls, bounds.tool_calls):
        assert bound.value == bound.number
        assert bound.form is not None or bound == Bound(None, None)


def test_bound_on_calls_that_no_node_makes_has_a_form() -> None:
    assert only_bounds(flow_with(end("a")), Limits()).tool_calls == Bound("0", 0, exact=True, value=0)


# ---- the product


def test_product_state_is_node_and_remaining_budgets() -> None:
    flow = flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a", "", "x"), end("b"), x=2)
    product = product_of(flow, NO_LIMIT)
    assert (product.begin, product.size()) == (("a", (2,)), 6)
    for state, after in (
        (("a", (2,)), [(way("a", "b", "x"), ("b", (1,)))]),
        (("a", (0,)), [(gate("a", "x"), (END.name, (0,)))]),
        (("b", (1,)), [(way("b", "a", "", "x"), ("a", (2,))), (end("b"), (END.name, (1,)))]),
        ((END.name, (1,)), []),
    ):
        assert [(move.transition, target) for move, target in product.moves(state)] == after
    # Budgets that are not spent, or not limited, are not counted.
    flow = flow_with(way("a", "a", "x y"), end("a"), x=None, y=1, z=4)
    assert product_of(flow, Limits()).begin == ("a", (1,))


def test_lasso_has_loop_and_path_to_it() -> None:
    product = product_of(TWO, NO_LIMIT)
    assert product.lasso(10, within=TWO.transitions) == ([], [way("a", "b"), way("b", "a")])
    # No loop is found if one of its transitions is excluded.
    assert product.lasso(10, within=[way("a", "b")]) is None
    assert product_of(flow_with(way("a", "b"), end("b")), NO_LIMIT).lasso(10, within=TWO.transitions) is None
    flow = flow_with(end("a"), way("a", "b"), end("b"), way("b", "b"))
    assert product_of(flow, NO_LIMIT).lasso(2, within=[way("b", "b")]) == ([way("a", "b")], [way("b", "b")])
    # The search stops at its limit on states.
    chain = [way(str(number), str(number + 1)) for number in range(9)]
    flow = flow_with(*chain, way("9", "9"))
    found_far = product_of(flow, NO_LIMIT).lasso(20, within=flow.transitions)
    assert found_far == (chain, [way("9", "9")])
    assert product_of(flow, NO_LIMIT).lasso(5, within=flow.transitions) is None
    assert product_of(flow, NO_LIMIT).lasso(10, within=flow.transitions) == found_far
    assert product_of(flow, NO_LIMIT).lasso(9, within=flow.transitions) is None
