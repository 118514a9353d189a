"""What is said of a small flow: the loop that may go on for ever and what would mend it, or how far its runs may go."""

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
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of, possible
from graphexec.verify.proof.loops import loops_found
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.ranking import rank_nodes
from tests.verify.flows import calling, longest_run

NO_LIMIT = Limits(iterations=None)


def way(source: str, target: str, spends: str = "", resets: str = "", **more: Any) -> Transition:
    """A transition that spends one of each budget named, as `x y`, and resets others."""
    one_of_each = tuple((name, 1) for name in spends.split())
    return Transition(source, f"To{target}", target, spends=one_of_each, resets=tuple(resets.split()), **more)


def gate(source: str, target: str, spent: str) -> Transition:
    return way(source, target, kind="gate", causes=(*spent.split(), "seconds", "restarts"))


def within(source: str, target: str, spent: str = "", **more: Any) -> Transition:
    return way(source, target, kind="within", causes=(*spent.split(), "seconds", "restarts"), **more)


def flow_with(*ways: Transition, **budgets: int | None) -> Flow:
    nodes = tuple(dict.fromkeys(one.source for one in ways))
    return Flow(ways[0].source, nodes, ways, tuple(budgets.items()), ("tokens",))


def judged(flow: Flow, limits: Limits) -> Bounds | list[Finding]:
    caps = caps_of(flow, limits)
    transitions = [one for one in flow.transitions if possible(one, limits_of(flow, limits))]
    ranks = rank_nodes(flow.nodes, transitions, [name for name, cap in caps.items() if cap is not None])
    if isinstance(ranks, list):
        return [finding for core in ranks for finding in loops_found(flow, core, limits)]
    return bounds_of(flow, transitions, limits)


def found(flow: Flow, limits: Limits = NO_LIMIT) -> Finding:
    findings = judged(flow, limits)
    assert isinstance(findings, list)
    (finding,) = findings
    assert finding.severity == "error"
    return finding


def bounded(flow: Flow, limits: Limits = NO_LIMIT) -> tuple[str, str, str]:
    bounds = judged(flow, limits)
    assert isinstance(bounds, Bounds)
    assert judged(flow, limits) == bounds
    if bounds.transitions.exact:
        assert bounds.transitions.number == longest_run(flow, limits)
    return str(bounds.transitions), str(bounds.model_calls), str(bounds.tool_calls)


# ---- loops


def like(text: str, pattern: str) -> bool:
    """Whether a text is as the pattern, in which `~` is what is to be written and may be anything."""
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
REFILLS_ITSELF = flow_with(way("a", "a", "x", "x"), way("a", END.name), gate("a", END.name, "x"), x=3)
REFILLED_LATER = flow_with(
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
ENTERED_AGAIN = flow_with(
    way("w.p", "w.q", "w.x"),
    gate("w.p", END.name, "w.x"),
    way("w.q", "e"),
    way("e", "w.p", "", "w.x"),
    way("e", END.name),
    **{"w.x": 3},
)
STOPS_BY_WHAT_IS_SPENT = flow_with(
    way("a", "a", "iterations"),
    gate("a", "g", "iterations"),
    way("g", END.name, "iterations"),
    gate("g", "g", "iterations"),
)


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (
            SELF,
            "GX010 at a: this loop can run for ever: a --Toa--> a; it spends no budget. Meter a: @metered(~",
        ),
        (
            TWO,
            "GX010 at a: this loop can run for ever: a --Tob--> b, b --Toa--> a; it spends no budget. Meter b: "
            "@metered(~",
        ),
        (
            COUNTED,
            "GX016 at a: this loop can run for ever: a --Toa--> a; it spends x, which has no limit. Give the budget x "
            'a limit: Budget("x", 3), or Limits(budgets={"x": 3}).',
        ),
        (
            TOOLS,
            "GX016 at a: this loop can run for ever: a --Toa--> a; it spends tool_calls, which has no limit. Set "
            "max_tool_calls (agent_limits(tool_calls=...)).",
        ),
        (
            MODELS,
            "GX016 at a: this loop can run for ever: a --Toa--> a; it spends model_calls and tokens, which have no "
            "limit. Set max_model_calls (agent_limits(model_calls=...)).",
        ),
        (
            REFILLS_ITSELF,
            "GX015 at a: this loop can run for ever: a --Toa--> a; it spends x, which a --Toa--> refills. Meter a by a "
            "budget that nothing refills: @metered(~; or leave out resets= on a "
            "--Toa--> a.",
        ),
        (
            REFILLED_LATER,
            "GX015 at a: this loop can run for ever: a --Tob--> b, b --Toa--> a; it spends x, which b --Toa--> "
            "refills. Reached by start -> s -> a. Meter b by a budget that nothing refills: "
            "@metered(~; or leave out resets= on b --Toa--> a.",
        ),
        (
            EACH_OTHER,
            "GX015 at c: this loop can run for ever: c --Tob--> b, b --Toc--> c, c --Toa--> a, a --Toc--> c; it spends "
            "x and y, which b --Toc--> refills. Reached by start -> a -> c. Meter b by a budget that nothing refills: "
            "@metered(~; or leave out resets= on b --Toc--> c.",
        ),
        (
            ENTERED_AGAIN,
            "GX014 at w.p: this loop can run for ever: w.p --Tow.q--> w.q, w.q --Toe--> e, e --Tow.p--> w.p; it spends "
            "w.x, which w has anew at each entry. Meter e by a budget that nothing refills: "
            "@metered(~; or let it share the budgets around it (own=).",
        ),
    ],
)
def test_a_loop_is_told_with_the_way_to_it_and_what_would_mend_it(flow: Flow, text: str) -> None:
    finding = found(flow)
    assert like(str(finding), text)
    assert finding.witness is not None
    assert finding.outcome == (finding.witness.loop[0].outcome if len(finding.witness.loop) == 1 else None)
    assert longest_run(flow, finding.witness.limits) is None


def said(flow: Flow, limits: Limits = NO_LIMIT) -> str:
    return str(found(flow, limits)).partition("for ever: ")[2]


def test_all_that_a_loop_spends_without_a_limit_is_told() -> None:
    flow = flow_with(way("a", "a", "x y z"), gate("a", END.name, "x y z"), x=None, y=None, z=None)
    assert said(flow) == (
        'a --Toa--> a; it spends x, y and z, which have no limit. Give the budget x a limit: Budget("x", 3), or '
        'Limits(budgets={"x": 3}).'
    )


def test_a_graph_within_a_graph_within_a_graph_has_its_budgets_anew_too() -> None:
    flow = flow_with(
        way("v.w.p", "v.w.q", "v.w.x"),
        gate("v.w.p", END.name, "v.w.x"),
        way("v.w.q", "v.e"),
        way("v.e", "v.w.p", "", "v.w.x"),
        way("v.e", END.name),
        **{"v.w.x": 3},
    )
    assert found(flow).code == "GX014"
    assert "it spends v.w.x, which v.w has anew at each entry" in said(flow)


def test_what_a_graph_shares_and_an_edge_into_it_refills_is_refilled() -> None:
    flow = flow_with(
        way("w.p", "w.q", "x"),
        gate("w.p", END.name, "x"),
        way("w.q", "e"),
        way("e", "w.p", "", "x"),
        way("e", END.name),
        x=3,
    )
    assert found(flow).code == "GX015"
    assert "it spends x, which e --Tow.p--> refills" in said(flow)


def test_the_node_that_is_to_be_metered_ends_every_loop_and_not_the_shown_one_alone() -> None:
    # To meter `a` would leave the loop of `b` and `c`, into which a spent limit leads.
    stopped = Transition("b", "Halted", "c", "within", causes=("restarts",))
    flow = flow_with(way("b", "a"), way("a", "b"), stopped, way("c", "b"), way("b", END.name))
    finding = found(flow, Limits(iterations=None, restarts=1))
    assert like(finding.remedy, "meter b: @metered(~) above its @node, and lead its Halted out of the loop")


ANOTHER = 'a budget that nothing refills: @metered(when_spent=ToEND, budget=Budget("rounds", 2))'
STOPPED_ELSEWHERE = Transition("s", "LimitReached", "t", "gate", causes=("iterations", "seconds"))


@pytest.mark.parametrize(
    ("flow", "remedy"),
    [
        (SELF, "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row"),
        (
            # As it is written elsewhere.
            flow_with(way("s", "a", "iterations"), STOPPED_ELSEWHERE, way("t", END.name), *SELF.transitions),
            "meter a: @metered(when_spent=limit_reached) above its @node, and on(LimitReached, t) in its row",
        ),
        (
            # A nested graph's nodes cannot be led to,
            flow_with(way("s", "a", "x"), gate("s", "w.t", "x"), way("w.t", END.name), *SELF.transitions, x=1),
            "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row",
        ),
        (
            # and are written elsewhere.
            flow_with(way("w.s", "a", "x"), gate("w.s", END.name, "x"), *SELF.transitions, x=1),
            "meter a: @metered(when_spent=Stopped) above its @node, and on(Stopped, END) in its row",
        ),
        (
            flow_with(*SELF.transitions, within("a", END.name, "model_calls", **calling(models=None))),
            "meter a: @metered(when_spent=ToEND) above its @node, in the place of its @charged",
        ),
        (
            REFILLS_ITSELF,
            f"meter a by {ANOTHER} above its @metered; or leave out resets= on a --Toa--> a",
        ),
        (
            REFILLED_LATER,
            f"meter b by {ANOTHER} above its @node, and on(ToEND, END) in its row; or leave out resets= on b --Toa--> "
            "a",
        ),
        (
            flow_with(way("w.a", "w.a", "w.x"), gate("w.a", END.name, "w.x"), **{"w.x": None}),
            'give the budget w.x a limit: embed(..., own=[Budget("x", 3)]) for w, or Limits(budgets={"w.x": 3})',
        ),
        (
            flow_with(
                way("a", "a", "tokens", asks=1, most=1, kinds=((("tokens", 1),),)),
                way("a", END.name),
                within("a", END.name, "tokens"),
            ),
            "set max_tokens (agent_limits(tokens=...))",
        ),
        (
            # A limit of x would leave the other loop.
            flow_with(
                way("a", "a", "x"), gate("a", END.name, "x"), way("a", "b"), way("b", "a"), way("b", END.name), x=None
            ),
            f"meter a by {ANOTHER} above its @metered",
        ),
        (
            # What refills is to be counted, even where a limit of the calls would do.
            flow_with(
                way("a", "a", "x tool_calls", "x", asks=1, **calling(tools=1)),
                gate("a", END.name, "x"),
                within("a", END.name, "tool_calls", **calling(tools=1)),
                x=3,
            ),
            f"meter a by {ANOTHER} above its @metered; or leave out resets= on a --Toa--> a",
        ),
        (
            # To meter one of them would leave the loop of the other.
            flow_with(way("a", "a"), way("a", "b"), way("b", "a"), way("b", "b"), way("b", END.name)),
            "meter each of its nodes by a budget that nothing in the loop refills",
        ),
        (
            # It is refilled by others too.
            flow_with(
                way("a", "a", "x", "x"), gate("a", END.name, "x"), way("a", "b", "x"), way("b", "a", "", "x"), x=3
            ),
            f"meter a by {ANOTHER} above its @metered",
        ),
    ],
)
def test_how_to_meter_a_node_is_said_in_the_words_of_the_machine(flow: Flow, remedy: str) -> None:
    assert found(flow, agent_limits(iterations=None, model_calls=3, restarts=0)).remedy == remedy


def test_an_extension_that_costs_nothing_is_to_be_metered_as_one() -> None:
    flow = flow_with(
        way("plan", "plan", "iterations"),
        gate("plan", "extend", "iterations"),
        way("plan", END.name),
        way("extend", "plan", "", "iterations"),
        way("extend", END.name),
    )
    finding = found(flow, Limits(iterations=1))
    assert finding.code == "GX015"
    assert 'Budget("extensions", 2)' in finding.remedy


def test_what_has_no_limit_counts_before_what_is_refilled() -> None:
    flow = flow_with(
        way("a", "b", "iterations x"), way("b", "a", resets="x"), way("b", END.name), gate("a", END.name, "x"), x=2
    )
    finding = found(flow)
    assert finding.code == "GX016"
    assert "it spends iterations, which has no limit" in finding.fact
    limited = found(flow_with(way("a", "b", "x y"), way("b", "a", resets="x"), way("b", END.name), x=2, y=None))
    assert (limited.code, "it spends y, which has no limit" in limited.fact) == ("GX016", True)


def test_a_spent_limit_that_leads_back_is_told_apart() -> None:
    finding = found(STOPS_BY_WHAT_IS_SPENT, Limits(iterations=1))
    assert str(finding) == (
        "GX009 at g: this loop can run for ever: g --Tog--> g; it is taken when a limit is spent, and spends nothing "
        "that could end it. Reached by start -> a -> g. Lead Tog of g out of the loop; if g is to run when the limit "
        "is spent, give it a budget of its own."
    )
    assert finding.witness is not None
    assert len(finding.witness.stem) == 2


@pytest.mark.parametrize(
    ("flow", "limits", "text"),
    [
        (
            flow_with(way("a", "a", asks=1), way("a", END.name), within("a", END.name)),
            Limits(iterations=None, seconds=60),
            "GX012 at a: only the 60 seconds end this loop: a --Toa--> a; no count does. Give it a limit that is "
            "counted: meter a: @metered(~",
        ),
        (
            flow_with(way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a"), way("b", END.name), x=None),
            Limits(iterations=None, seconds=1.5),
            "GX012 at a: only the 1.5 seconds end this loop: a --Tob--> b, b --Toa--> a; no count does. Give it a "
            'limit that is counted: give the budget x a limit: Budget("x", 3), or Limits(budgets={"x": 3}).',
        ),
    ],
)
def test_a_loop_that_only_the_clock_ends_is_not_one_that_runs_for_ever(flow: Flow, limits: Limits, text: str) -> None:
    assert like(str(found(flow, limits)), text)
    witness = found(flow, limits).witness
    assert witness is not None
    assert witness.loop


def test_a_loop_that_only_the_clock_ends_is_told_from_where_it_is_reached() -> None:
    flow = flow_with(way("s", "b"), way("a", "b", asks=1), within("a", END.name), way("b", "a"), way("b", END.name))
    finding = found(flow, Limits(iterations=None, seconds=60))
    assert (finding.code, finding.node) == ("GX012", "b")


def test_a_loop_that_looks_at_no_clock_runs_for_ever_however_little_time_there_is() -> None:
    assert found(TWO, Limits(iterations=None, seconds=1)).code == "GX010"


def test_a_loop_of_which_no_run_is_found_is_one_of_which_nothing_is_known() -> None:
    flow = flow_with(
        way("a", "b", **calling(models=1), asks=1), within("a", END.name, "model_calls"), way("b", "a", "x"), x=None
    )
    finding = found(flow, agent_limits(iterations=None, model_calls=0))
    assert str(finding) == (
        "GX017 at a: no budget is seen to run out in the loops through a, b, and no run that never ends was found. "
        "Meter a node in them by a budget that nothing in them resets."
    )
    assert finding.witness is None


def test_each_loop_by_itself_is_told() -> None:
    flow = flow_with(way("a", "a"), way("a", "b"), way("b", "b"), way("b", END.name))
    findings = judged(flow, NO_LIMIT)
    assert isinstance(findings, list)
    assert sorted(str(one.node) for one in findings) == ["a", "b"]


def test_the_loop_that_is_shown_is_a_shortest() -> None:
    flow = flow_with(way("a", "b"), way("b", "c"), way("c", "a"), way("c", "c"), way("b", END.name))
    witness = found(flow).witness
    assert witness is not None
    assert [str(one) for one in witness.loop] == ["c --Toc--> c"]
    assert [str(one) for one in witness.stem] == ["a --Tob--> b", "b --Toc--> c"]


def test_large_limits_do_not_make_the_run_that_is_shown_long() -> None:
    many = 10**6
    flow = flow_with(way("a", "a", "x"), gate("a", "b", "x"), way("b", "b"), way("b", END.name), x=many)
    finding = found(flow)
    assert finding.witness is not None
    assert finding.witness.limits == Limits(iterations=None, budgets={"x": 2})
    assert len(finding.witness.stem) == 3
    counted = flow_with(way("a", "a", "iterations"), gate("a", "b", "iterations"), way("b", "b"), way("b", END.name))
    witness = found(counted, agent_limits(iterations=many, model_calls=many)).witness
    assert witness is not None
    assert witness.limits == agent_limits(iterations=2, model_calls=2)


# ---- bounds


@pytest.mark.parametrize(
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
            # The inner loop spends y, the outer one x, and fills y again.
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
            # Of two budgets the one that bounds the loop better.
            flow_with(
                way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "y"), gate("b", END.name, "y"), x=5, y=2
            ),
            NO_LIMIT,
            ("2*y + 2 = 6 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # More states than are looked at.
            flow_with(
                way("a", "a", "x"), gate("a", "b", "x"), way("b", "b", "y"), gate("b", END.name, "y"), x=500, y=500
            ),
            NO_LIMIT,
            ("x + y + 2 = 1,002 (exact)", "0 (exact)", "0 (exact)"),
        ),
        (
            # A run may take either way, but not both.
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
            # Only a crash leads the longest way, and that there is one is not sure.
            flow_with(way("a", END.name), within("a", "b"), way("b", "c"), way("c", END.name)),
            Limits(iterations=None, restarts=0),
            ("3 (at most)", "0 (exact)", "0 (exact)"),
        ),
        (
            # What is stopped when time is up may have called nothing.
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
def test_the_bound_on_transitions_has_a_form_and_a_number(flow: Flow, limits: Limits, texts: tuple[str, ...]) -> None:
    assert bounded(flow, limits) == texts


@pytest.mark.parametrize(
    ("most", "limits", "text"),
    [
        (199, NO_LIMIT, "x + 1 = 200 (exact)"),
        # More states than are looked at one by one.
        (2_500, NO_LIMIT, "x + 1 = 2,501 (exact)"),
        (2_500, Limits(iterations=None, seconds=9), "x + 1 = 2,501 (exact)"),
    ],
)
def test_rounds_that_are_made_many_times_are_looked_at_once(most: int, limits: Limits, text: str) -> None:
    transitions, *_ = bounded(flow_with(way("a", "a", "x"), gate("a", END.name, "x"), x=most), limits)
    assert transitions == text


def test_no_more_states_are_looked_at_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphexec.verify.proof.bounds._LOOKED_AT", 3)
    monkeypatch.setattr("graphexec.verify.proof.bounds._STATES", 3)
    chain = [way(here, there) for here, there in itertools.pairwise("abcdef")]
    transitions, *_ = bounded(flow_with(*chain, way("f", END.name)), NO_LIMIT)
    assert transitions == "6 (at most)"


@pytest.mark.parametrize(("budgets", "form"), [(6, "2*y + 2"), (7, None)])
def test_a_flow_of_many_budgets_has_no_closed_form(budgets: int, form: str | None) -> None:
    others = [str(number) for number in range(budgets - 2)]
    chain = [one for here, there in itertools.pairwise([*others, "a"]) for one in (way(here, there, here),)]
    loop = (way("a", "b", "x"), gate("a", END.name, "x"), way("b", "a", "y"), gate("b", END.name, "y"))
    closed = [gate(name, END.name, name) for name in others]
    bounds = judged(flow_with(*chain, *closed, *loop, x=5, y=2, **dict.fromkeys(others, 1)), NO_LIMIT)
    assert isinstance(bounds, Bounds)
    assert (bounds.transitions.form is None) == (form is None)


CALLING = flow_with(
    way("a", "b", "iterations", **calling(models=1)),
    gate("a", "s", "iterations"),
    way("b", "a", **calling(tools=None)),
    way("b", END.name),
    way("s", END.name),
)


@pytest.mark.parametrize(
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
def test_calls_are_bounded_by_the_loop_or_by_their_own_limit_whichever_is_less(
    limits: Limits, models: str, tools: str
) -> None:
    assert bounded(CALLING, limits)[1:] == (models, tools)


@pytest.mark.parametrize(
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
def test_a_bound_has_a_form_with_its_value_or_nothing_at_all(flow: Flow, limits: Limits, tools: Bound) -> None:
    bounds = judged(flow, limits)
    assert isinstance(bounds, Bounds)
    assert bounds.tool_calls == tools


# ---- the product


def test_the_product_has_a_state_for_each_node_and_what_is_left() -> None:
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


def test_what_is_never_spent_or_has_no_limit_is_not_counted() -> None:
    flow = flow_with(way("a", "a", "x y"), way("a", END.name), x=None, y=1, z=4)
    assert Product(flow, Limits()).begin == ("a", (1,))


def test_a_loop_is_found_with_the_way_to_it() -> None:
    product = Product(TWO, NO_LIMIT)
    assert product.lasso(10, within=TWO.transitions) == ([], [way("a", "b"), way("b", "a")])
    # Where not all of it may be taken, there is none.
    assert product.lasso(10, within=[way("a", "b")]) is None
    assert Product(flow_with(way("a", "b"), way("b", END.name)), NO_LIMIT).lasso(10, within=TWO.transitions) is None


def test_a_loop_that_is_too_far_off_is_not_found() -> None:
    chain = [way(str(number), str(number + 1)) for number in range(9)]
    flow = flow_with(*chain, way("9", "9"))
    found_far = Product(flow, NO_LIMIT).lasso(20, within=flow.transitions)
    assert found_far == (chain, [way("9", "9")])
    assert Product(flow, NO_LIMIT).lasso(5, within=flow.transitions) is None
    assert Product(flow, NO_LIMIT).lasso(10, within=flow.transitions) == found_far
    assert Product(flow, NO_LIMIT).lasso(9, within=flow.transitions) is None


def test_the_end_is_no_state_and_what_leads_there_first_hides_no_loop() -> None:
    flow = flow_with(way("a", END.name), way("a", "b"), way("b", END.name), way("b", "b"))
    assert Product(flow, NO_LIMIT).lasso(2, within=[way("b", "b")]) == ([way("a", "b")], [way("b", "b")])
