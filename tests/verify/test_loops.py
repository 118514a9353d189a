"""Findings and bounds for small flows: the loop that can run forever with its remedy, or the length of runs."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from graphexec.effects import agent_limits
from graphexec.kernel import END, Limits
from graphexec.verify.proof.bounds import bounds_of
from graphexec.verify.proof.certificate import Bound, Bounds
from graphexec.verify.proof.findings import Finding
from graphexec.verify.proof.flow import Flow, Transition, caps_of, is_enabled, limits_of
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.ranking import rank_nodes
from tests.parameters import cases
from tests.verify.flows import calling, longest_run

NO_LIMIT = Limits(iterations=None)


def way(source: str, target: str, spends: str = "", resets: str = "", **more: Any) -> Transition:
    """Return a transition that spends one of each budget in `spends` ("x y") and resets those in `resets`."""
    one_of_each = tuple((name, 1) for name in spends.split())
    return Transition(source, f"To{target}", target, spends=one_of_each, resets=tuple(resets.split()), **more)


def gate(source: str, target: str, spent: str) -> Transition:
    return way(source, target, kind="gate", causes=(*spent.split(), "seconds", "restarts"))


def within(source: str, target: str, spent: str = "", **more: Any) -> Transition:
    return way(source, target, kind="within", causes=(*spent.split(), "seconds", "restarts"), **more)


def flow_with(*ways: Transition, **budgets: int | None) -> Flow:
    nodes = tuple(dict.fromkeys(one.source for one in ways))
    return Flow(ways[0].source, nodes, ways, tuple(budgets.items()), ("tokens",))


def bounds_or_findings(flow: Flow, limits: Limits) -> Bounds | list[Finding]:
    caps = caps_of(flow, limits)
    transitions = [one for one in flow.transitions if is_enabled(one, limits_of(flow, limits))]
    ranks = rank_nodes(flow.nodes, transitions, [name for name, cap in caps.items() if cap is not None])
    if isinstance(ranks, list):
        return [finding for core in ranks for finding in find_loops(flow, core, limits)]
    return bounds_of(flow, transitions, limits)


def only_finding(flow: Flow, limits: Limits = NO_LIMIT) -> Finding:
    findings = bounds_or_findings(flow, limits)
    assert isinstance(findings, list)
    (finding,) = findings
    assert finding.severity == "error"
    return finding


def bound_texts(flow: Flow, limits: Limits = NO_LIMIT) -> tuple[str, str, str]:
    bounds = bounds_or_findings(flow, limits)
    assert isinstance(bounds, Bounds)
    assert bounds_or_findings(flow, limits) == bounds
    if bounds.transitions.exact:
        assert bounds.transitions.number == longest_run(flow, limits)
    return str(bounds.transitions), str(bounds.model_calls), str(bounds.tool_calls)


# ---- loops


def matches(text: str, pattern: str) -> bool:
    """Return whether a text matches the pattern, in which `~` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("~"))), text) is not None


SELF = flow_with(way("a", "a"), way("a", END.name))
TWO = flow_with(way("a", "b"), way("b", "a"), way("b", END.name))
COUNTED = flow_with(way("a", "a", "x"), way("a", END.name), gate("a", END.name, "x"), x=None)
TOOLS = flow_with(
    way("a", "a", "tool_calls", asks=1, **calling(tools=1)),
    way("a", END.name),
    within("a", END.name, "tool_calls", **calling(tools=1)),
)
MODELS = flow_with(
    way("a", "a", "model_calls tokens", asks=1, **calling(models=1)),
    way("a", END.name),
    within("a", END.name, "model_calls tokens", **calling(models=1)),
)
RESETS_ITSELF = flow_with(way("a", "a", "x", "x"), way("a", END.name), gate("a", END.name, "x"), x=3)
RESET_LATER = flow_with(
    way("s", "a"), way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "", "x"), way("b", END.name), x=3
)
EACH_OTHER = flow_with(
    way("a", "c", "x", "y"),
    gate("a", END.name, "x"),
    way("c", "a"),
    way("c", "b"),
    way("b", "c", "y", "x"),
    gate("b", END.name, "y"),
    x=2,
    y=2,
)
REENTERED = flow_with(
    way("w.p", "w.q", "w.x"),
    gate("w.p", END.name, "w.x"),
    way("w.q", "e"),
    way("e", "w.p", "", "w.x"),
    way("e", END.name),
    **{"w.x": 3},
)
LOOPS_WHEN_STOPPED = flow_with(
    way("a", "a", "iterations"),
    gate("a", "g", "iterations"),
    way("g", END.name, "iterations"),
    gate("g", "g", "iterations"),
)


@cases(
    ("flow", "text"),
    [
        (
            SELF,
            "GX010 at a: this loop can run forever: a --Toa--> a; it spends no budget. Meter a: @metered(~",
        ),
        (
            TWO,
            "GX010 at a: this loop can run forever: a --Tob--> b, b --Toa--> a; it spends no budget. Meter b: "
            "@metered(~",
        ),
        (
            COUNTED,
            "GX016 at a: this loop can run forever: a --Toa--> a; it spends only x, without a limit. Give the budget x "
            'a limit: Budget("x", 3), or Limits(budgets={"x": 3}).',
        ),
        (
            TOOLS,
            "GX016 at a: this loop can run forever: a --Toa--> a; it spends only tool_calls, without a limit. Set "
            "max_tool_calls, or agent_limits(tool_calls=...).",
        ),
        (
            MODELS,
            "GX016 at a: this loop can run forever: a --Toa--> a; it spends only model_calls and tokens, without a "
            "limit. Set max_model_calls, or agent_limits(model_calls=...).",
        ),
        (
            RESETS_ITSELF,
            "GX015 at a: this loop can run forever: a --Toa--> a; it spends x, which a --Toa--> resets. Meter a with "
            "a budget that nothing resets: @metered(~; or remove resets= from a "
            "--Toa--> a.",
        ),
        (
            RESET_LATER,
            "GX015 at a: this loop can run forever: a --Tob--> b, b --Toa--> a; it spends x, which b --Toa--> "
            "resets. Reached by start -> s -> a. Meter b with a budget that nothing resets: "
            "@metered(~; or remove resets= from b --Toa--> a.",
        ),
        (
            EACH_OTHER,
            "GX015 at c: this loop can run forever: c --Tob--> b, b --Toc--> c, c --Toa--> a, a --Toc--> c; it spends "
            "x and y, which b --Toc--> resets. Reached by start -> a -> c. Meter b with a budget that nothing resets: "
            "@metered(~; or remove resets= from b --Toc--> c.",
        ),
        (
            REENTERED,
            "GX014 at w.p: this loop can run forever: w.p --Tow.q--> w.q, w.q --Toe--> e, e --Tow.p--> w.p; it spends "
            "w.x, which each entry into w resets. Meter e with a budget that nothing resets: "
            "@metered(~; or let it share the budgets of the outer graph (own=).",
        ),
    ],
)
def test_finding_names_loop_path_and_remedy(flow: Flow, text: str) -> None:
    finding = only_finding(flow)
    assert matches(str(finding), text)
    assert finding.witness is not None
    assert finding.outcome == (finding.witness.loop[0].outcome if len(finding.witness.loop) == 1 else None)
    assert longest_run(flow, finding.witness.limits) is None


def loop_text(flow: Flow, limits: Limits = NO_LIMIT) -> str:
    return str(only_finding(flow, limits)).partition("forever: ")[2]


def test_finding_lists_all_unlimited_budgets() -> None:
    flow = flow_with(way("a", "a", "x y z"), gate("a", END.name, "x y z"), x=None, y=None, z=None)
    assert loop_text(flow) == (
        'a --Toa--> a; it spends only x, y and z, without a limit. Give the budget x a limit: Budget("x", 3), or '
        'Limits(budgets={"x": 3}).'
    )


def test_entry_resets_budgets_of_nested_embedded_graphs() -> None:
    flow = flow_with(
        way("v.w.p", "v.w.q", "v.w.x"),
        gate("v.w.p", END.name, "v.w.x"),
        way("v.w.q", "v.e"),
        way("v.e", "v.w.p", "", "v.w.x"),
        way("v.e", END.name),
        **{"v.w.x": 3},
    )
    assert only_finding(flow).code == "GX014"
    assert "it spends v.w.x, which each entry into v.w resets" in loop_text(flow)


def test_edge_into_graph_resets_shared_budget() -> None:
    flow = flow_with(
        way("w.p", "w.q", "x"),
        gate("w.p", END.name, "x"),
        way("w.q", "e"),
        way("e", "w.p", "", "x"),
        way("e", END.name),
        x=3,
    )
    assert only_finding(flow).code == "GX015"
    assert "it spends x, which e --Tow.p--> resets" in loop_text(flow)


def test_remedy_ends_every_loop_of_the_core() -> None:
    # A meter on `a` would leave the loop of `b` and `c`, which a reached limit enters.
    stopped = Transition("b", "Halted", "c", "within", causes=("restarts",))
    flow = flow_with(way("b", "a"), way("a", "b"), stopped, way("c", "b"), way("b", END.name))
    finding = only_finding(flow, Limits(iterations=None, restarts=1))
    assert matches(finding.remedy, "meter b: @metered(~) above its @node, and route its Halted out of the loop")


ANOTHER = 'a budget that nothing resets: @metered(when_spent=ToEND, budget=Budget("rounds", 2))'
STOPPED_ELSEWHERE = Transition("s", "LimitReached", "t", "gate", causes=("iterations", "seconds"))


@cases(
    ("flow", "remedy"),
    [
        (
            SELF,
            "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row; "
            "write the class Stopped with two fields: a value, an Exhausted",
        ),
        (
            # The outcome of another node is reused.
            flow_with(way("s", "a", "iterations"), STOPPED_ELSEWHERE, way("t", END.name), *SELF.transitions),
            "meter a: @metered(when_spent=limit_reached) above its @node, and on(LimitReached, t) in its row",
        ),
        (
            # An edge cannot lead to a node of an embedded graph,
            flow_with(way("s", "a", "x"), gate("s", "w.t", "x"), way("w.t", END.name), *SELF.transitions, x=1),
            "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row; "
            "write the class Stopped with two fields: a value, an Exhausted",
        ),
        (
            # and its nodes are not an example.
            flow_with(way("w.s", "a", "x"), gate("w.s", END.name, "x"), *SELF.transitions, x=1),
            "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row; "
            "write the class Stopped with two fields: a value, an Exhausted",
        ),
        (
            flow_with(*SELF.transitions, within("a", END.name, "model_calls", **calling(models=None))),
            "meter a: @metered(when_spent=ToEND) above its @node, in the place of its @charged",
        ),
        (
            RESETS_ITSELF,
            f"meter a with {ANOTHER} above its @metered; or remove resets= from a --Toa--> a",
        ),
        (
            RESET_LATER,
            f"meter b with {ANOTHER} above its @node, and on(ToEND, END) in its row; or remove resets= from b --Toa--> "
            "a",
        ),
        (
            flow_with(way("w.a", "w.a", "w.x"), gate("w.a", END.name, "w.x"), **{"w.x": None}),
            'give the budget w.x a limit: embed(..., own=[Budget("x", 3)]) for w, or Limits(budgets={"w.x": 3})',
        ),
        (
            flow_with(
                way("a", "a", "tokens", asks=1, most=1, effect_charges=((("tokens", 1),),)),
                way("a", END.name),
                within("a", END.name, "tokens"),
            ),
            "set max_tokens, or agent_limits(tokens=...)",
        ),
        (
            # A limit on x would leave the other loop.
            flow_with(
                way("a", "a", "x"), gate("a", END.name, "x"), way("a", "b"), way("b", "a"), way("b", END.name), x=None
            ),
            f"meter a with {ANOTHER} above its @metered",
        ),
        (
            # The resetting node is metered, even where a limit on calls would do.
            flow_with(
                way("a", "a", "x tool_calls", "x", asks=1, **calling(tools=1)),
                gate("a", END.name, "x"),
                within("a", END.name, "tool_calls", **calling(tools=1)),
                x=3,
            ),
            f"meter a with {ANOTHER} above its @metered; or remove resets= from a --Toa--> a",
        ),
        (
            # A meter on one node would leave the loop of the other.
            flow_with(way("a", "a"), way("a", "b"), way("b", "a"), way("b", "b"), way("b", END.name)),
            "meter each of its nodes with a budget that nothing in the loop resets",
        ),
        (
            # Another edge resets it too.
            flow_with(
                way("a", "a", "x", "x"), gate("a", END.name, "x"), way("a", "b", "x"), way("b", "a", "", "x"), x=3
            ),
            f"meter a with {ANOTHER} above its @metered",
        ),
    ],
)
def test_remedy_uses_names_of_the_machine(flow: Flow, remedy: str) -> None:
    assert only_finding(flow, agent_limits(iterations=None, model_calls=3, restarts=0)).remedy == remedy


def test_remedy_for_free_extension_meters_extensions() -> None:
    flow = flow_with(
        way("plan", "plan", "iterations"),
        gate("plan", "extend", "iterations"),
        way("plan", END.name),
        way("extend", "plan", "", "iterations"),
        way("extend", END.name),
    )
    finding = only_finding(flow, Limits(iterations=1))
    assert finding.code == "GX015"
    assert 'Budget("extensions", 2)' in finding.remedy


def test_missing_limit_is_reported_before_reset() -> None:
    flow = flow_with(
        way("a", "b", "iterations x"), way("b", "a", resets="x"), way("b", END.name), gate("a", END.name, "x"), x=2
    )
    finding = only_finding(flow)
    assert finding.code == "GX016"
    assert "it spends only iterations, without a limit" in finding.fact
    limited = only_finding(flow_with(way("a", "b", "x y"), way("b", "a", resets="x"), way("b", END.name), x=2, y=None))
    assert (limited.code, "it spends only y, without a limit" in limited.fact) == ("GX016", True)


def test_loop_of_stopped_visits_has_its_own_code() -> None:
    finding = only_finding(LOOPS_WHEN_STOPPED, Limits(iterations=1))
    assert str(finding) == (
        "GX009 at g: this loop can run forever: g --Tog--> g; it is taken when a limit is reached, and spends nothing "
        "that could end it. Reached by start -> a -> g. Route Tog of g out of the loop; if g must run when the limit "
        "is reached, give it its own budget."
    )
    assert finding.witness is not None
    assert len(finding.witness.stem) == 2


@cases(
    ("flow", "limits", "text"),
    [
        (
            flow_with(way("a", "a", asks=1), way("a", END.name), within("a", END.name)),
            Limits(iterations=None, seconds=60),
            "GX012 at a: only the 60 seconds end this loop: a --Toa--> a; no counted limit does. Add a counted limit: "
            "meter a: @metered(~",
        ),
        (
            flow_with(way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a"), way("b", END.name), x=None),
            Limits(iterations=None, seconds=1.5),
            "GX012 at a: only the 1.5 seconds end this loop: a --Tob--> b, b --Toa--> a; no counted limit does. Add a "
            'counted limit: give the budget x a limit: Budget("x", 3), or Limits(budgets={"x": 3}).',
        ),
    ],
)
def test_time_limited_loop_is_reported_as_such(flow: Flow, limits: Limits, text: str) -> None:
    assert matches(str(only_finding(flow, limits)), text)
    witness = only_finding(flow, limits).witness
    assert witness is not None
    assert witness.loop


def test_time_limited_loop_is_reported_at_its_entry() -> None:
    flow = flow_with(way("s", "b"), way("a", "b", asks=1), within("a", END.name), way("b", "a"), way("b", END.name))
    finding = only_finding(flow, Limits(iterations=None, seconds=60))
    assert (finding.code, finding.node) == ("GX012", "b")


def test_time_limit_does_not_end_pure_loop() -> None:
    assert only_finding(TWO, Limits(iterations=None, seconds=1)).code == "GX010"


def test_loop_without_endless_run_is_undecided() -> None:
    flow = flow_with(
        way("a", "b", **calling(models=1), asks=1), within("a", END.name, "model_calls"), way("b", "a", "x"), x=None
    )
    finding = only_finding(flow, agent_limits(iterations=None, model_calls=0))
    assert str(finding) == (
        "GX017 at a: found neither a budget that runs out in every loop through a, b nor a run that never ends. "
        "Meter a node of these loops with a budget that nothing in them resets."
    )
    assert finding.witness is None


def test_each_separate_loop_is_reported() -> None:
    flow = flow_with(way("a", "a"), way("a", "b"), way("b", "b"), way("b", END.name))
    findings = bounds_or_findings(flow, NO_LIMIT)
    assert isinstance(findings, list)
    assert sorted(str(one.node) for one in findings) == ["a", "b"]


def test_witness_shows_a_shortest_loop() -> None:
    flow = flow_with(way("a", "b"), way("b", "c"), way("c", "a"), way("c", "c"), way("b", END.name))
    witness = only_finding(flow).witness
    assert witness is not None
    assert [str(one) for one in witness.loop] == ["c --Toc--> c"]
    assert [str(one) for one in witness.stem] == ["a --Tob--> b", "b --Toc--> c"]


def test_witness_stays_short_under_large_limits() -> None:
    many = 10**6
    flow = flow_with(way("a", "a", "x"), gate("a", "b", "x"), way("b", "b"), way("b", END.name), x=many)
    finding = only_finding(flow)
    assert finding.witness is not None
    assert finding.witness.limits == Limits(iterations=None, budgets={"x": 2})
    assert len(finding.witness.stem) == 3
    counted = flow_with(way("a", "a", "iterations"), gate("a", "b", "iterations"), way("b", "b"), way("b", END.name))
    witness = only_finding(counted, agent_limits(iterations=many, model_calls=many)).witness
    assert witness is not None
    assert witness.limits == agent_limits(iterations=2, model_calls=2)


# ---- bounds


@cases(
    ("flow", "limits", "texts"),
    [
        (
            flow_with(way("a", "b"), way("b", "c"), way("c", END.name)),
            NO_LIMIT,
            ("3 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            flow_with(
                way("a", "b", "iterations"),
                gate("a", "s", "iterations"),
                way("b", "a"),
                way("b", END.name),
                way("s", END.name),
            ),
            Limits(iterations=7),
            ("2*iterations + 2 = 16 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # The inner loop spends y; the outer loop spends x and resets y.
            flow_with(
                way("o", "i", "x", "y"),
                gate("o", END.name, "x"),
                way("i", "i", "y"),
                gate("i", "o", "y"),
                way("i", END.name),
                x=3,
                y=2,
            ),
            NO_LIMIT,
            ("x*y + 2*x + 1 = 13 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # The tighter of two budgets bounds the loop.
            flow_with(
                way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "y"), gate("b", END.name, "y"), x=5, y=2
            ),
            NO_LIMIT,
            ("2*y + 2 = 6 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # A round spends two at once, so an odd one is left.
            flow_with(Transition("a", "Tob", "b", spends=(("x", 2),)), way("b", "a"), way("a", END.name), x=5),
            NO_LIMIT,
            ("at most x + 1, here 5 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # More states than the search visits.
            flow_with(
                way("a", "a", "x"), gate("a", "b", "x"), way("b", "b", "y"), gate("b", END.name, "y"), x=500, y=500
            ),
            NO_LIMIT,
            ("x + y + 2 = 1,002 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # A run takes one branch, not both.
            flow_with(
                way("a", "b"), way("a", "c"), way("b", "b", "x"), gate("b", END.name, "x"), way("c", END.name), x=4
            ),
            NO_LIMIT,
            ("x + 2 = 6 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            flow_with(way("a", END.name, "x", **calling(models=1, tools=1)), gate("a", END.name, "x"), x=10_000),
            Limits(iterations=None, seconds=9),
            ("1 (exact)", "1 (exact)", "1 (exact)"),
        ),
        (
            # Only a crash leads to the longest path, and no crash is certain.
            flow_with(way("a", END.name), within("a", "b"), way("b", "c"), way("c", END.name)),
            Limits(iterations=None, restarts=0),
            ("3 (at most)", "0 (exact)", "0 (exact)"),
        ),
        (
            # A visit that is stopped at the deadline may have called nothing.
            flow_with(
                way("a", END.name, **calling(models=1, tools=1)),
                within("a", "b", **calling(models=1, tools=1)),
                way("b", END.name, **calling(models=1, tools=1)),
            ),
            Limits(iterations=None, seconds=9),
            ("2 (exact)", "2 (at most)", "2 (at most)"),
        ),
    ],
)
def test_transition_bound_has_form_and_number(flow: Flow, limits: Limits, texts: tuple[str, ...]) -> None:
    assert bound_texts(flow, limits) == texts


@cases(
    ("most", "limits", "text"),
    [
        (199, NO_LIMIT, "x + 1 = 200 (exact)"),
        # More states than the search visits one by one.
        (2_500, NO_LIMIT, "x + 1 = 2,501 (exact)"),
        (2_500, Limits(iterations=None, seconds=9), "x + 1 = 2,501 (exact)"),
    ],
)
def test_repeated_rounds_are_searched_once(most: int, limits: Limits, text: str) -> None:
    transitions, *_ = bound_texts(flow_with(way("a", "a", "x"), gate("a", END.name, "x"), x=most), limits)
    assert transitions == text


def test_long_loop_is_found_in_few_states_though_its_way_out_needs_a_spent_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphexec.verify.proof.attained._STATES", 12)
    ways = (way("a", "b", "x"), way("b", "a"), gate("a", "s", "x"), way("s", END.name))
    transitions, *_ = bound_texts(flow_with(*ways, x=1_000), NO_LIMIT)
    assert transitions == "2*x + 2 = 2,002 (exact)"


def test_search_stops_at_its_state_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphexec.verify.proof.attained._STATES", 3)
    monkeypatch.setattr("graphexec.verify.proof.bounds._STATES", 3)
    chain = [way(here, there) for here, there in itertools.pairwise("abcdef")]
    transitions, *_ = bound_texts(flow_with(*chain, way("f", END.name)), NO_LIMIT)
    assert transitions == "6 (at most)"


@cases("budgets", [6, 7, 20])
def test_closed_form_of_many_budgets_is_a_sum(budgets: int) -> None:
    others = [str(number) for number in range(budgets - 2)]
    chain = [one for here, there in itertools.pairwise([*others, "a"]) for one in (way(here, there, here),)]
    loop = (way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "y"), gate("b", END.name, "y"))
    closed = [gate(name, END.name, name) for name in others]
    bounds = bounds_or_findings(flow_with(*chain, *closed, *loop, x=5, y=2, **dict.fromkeys(others, 1)), NO_LIMIT)
    assert isinstance(bounds, Bounds)
    assert bounds.transitions.form is not None
    assert "y" in bounds.transitions.form
    assert bounds.transitions.value is not None


CALLING = flow_with(
    way("a", "b", "iterations", **calling(models=1)),
    gate("a", "s", "iterations"),
    way("b", "a", **calling(tools=None)),
    way("b", END.name),
    way("s", END.name),
)


@cases(
    ("limits", "models", "tools"),
    [
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
    ],
)
def test_calls_are_bounded_by_smaller_limit(limits: Limits, models: str, tools: str) -> None:
    assert bound_texts(CALLING, limits)[1:] == (models, tools)


@cases(
    ("flow", "limits", "tools"),
    [
        (CALLING, Limits(), Bound("fan_out*iterations", 15_000, exact=True, value=15_000)),
        (CALLING, Limits(fan_out=None), Bound(None, None)),
        (CALLING, agent_limits(tool_calls=7), Bound("tool_calls", 7, value=7)),
        (CALLING, Limits(restarts=1), Bound("fan_out*iterations + fan_out*restarts", 16_000, value=16_000)),
        (CALLING, agent_limits(fan_out=3, tool_calls=50), Bound("fan_out*iterations", 45, exact=False, value=45)),
        (flow_with(way("a", END.name)), Limits(), Bound("0", 0, exact=True, value=0)),
    ],
)
def test_bound_has_form_and_value_or_neither(flow: Flow, limits: Limits, tools: Bound) -> None:
    bounds = bounds_or_findings(flow, limits)
    assert isinstance(bounds, Bounds)
    assert bounds.tool_calls == tools


# ---- the product


def test_product_state_is_node_and_remaining_budgets() -> None:
    flow = flow_with(way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "", "x"), way("b", END.name), x=2)
    product = Product(flow, NO_LIMIT)
    assert (product.begin, product.size()) == (("a", (2,)), 6)
    assert list(product.steps(("a", (2,)))) == [(way("a", "b", "x"), ("b", (1,)))]
    assert list(product.steps(("a", (0,)))) == [(gate("a", END.name, "x"), (END.name, (0,)))]
    assert list(product.steps(("b", (1,)))) == [
        (way("b", "a", "", "x"), ("a", (2,))),
        (way("b", END.name), (END.name, (1,))),
    ]
    assert list(product.steps((END.name, (1,)))) == []


def test_product_ignores_unspent_and_unlimited_budgets() -> None:
    flow = flow_with(way("a", "a", "x y"), way("a", END.name), x=None, y=1, z=4)
    assert Product(flow, Limits()).begin == ("a", (1,))


def test_lasso_has_loop_and_path_to_it() -> None:
    product = Product(TWO, NO_LIMIT)
    assert product.lasso(10, within=TWO.transitions) == ([], [way("a", "b"), way("b", "a")])
    # No loop is found if one of its transitions is excluded.
    assert product.lasso(10, within=[way("a", "b")]) is None
    assert Product(flow_with(way("a", "b"), way("b", END.name)), NO_LIMIT).lasso(10, within=TWO.transitions) is None


def test_lasso_search_stops_at_its_state_limit() -> None:
    chain = [way(str(number), str(number + 1)) for number in range(9)]
    flow = flow_with(*chain, way("9", "9"))
    found_far = Product(flow, NO_LIMIT).lasso(20, within=flow.transitions)
    assert found_far == (chain, [way("9", "9")])
    assert Product(flow, NO_LIMIT).lasso(5, within=flow.transitions) is None
    assert Product(flow, NO_LIMIT).lasso(10, within=flow.transitions) == found_far
    assert Product(flow, NO_LIMIT).lasso(9, within=flow.transitions) is None


def test_terminal_edge_does_not_hide_a_loop() -> None:
    flow = flow_with(way("a", END.name), way("a", "b"), way("b", END.name), way("b", "b"))
    assert Product(flow, NO_LIMIT).lasso(2, within=[way("b", "b")]) == ([way("a", "b")], [way("b", "b")])
