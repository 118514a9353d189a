"""The states of a flow with its counters: the possible steps in each, and the sure ones."""

from __future__ import annotations

from typing import Any

from graphexec.effects import agent_limits
from graphexec.kernel import END, Limits
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.proof.flow import Flow, Transition
from graphexec.verify.proof.moves import CountedMove
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.prove import prove_flow
from tests.parameters import cases
from tests.verify.flows import calling

NO_LIMIT = Limits(iterations=None)


def way(source: str, target: str, spends: str = "", resets: str = "", **more: Any) -> Transition:
    """Return a transition that spends one of each budget in `spends` ("x y") and resets those in `resets`."""
    one_of_each = tuple((name, 1) for name in spends.split())
    return Transition(source, f"To{target}", target, spends=one_of_each, resets=tuple(resets.split()), **more)


def gate(source: str, spent: str) -> Transition:
    return way(source, END.name, kind="gate", causes=(*spent.split(), "seconds", "restarts"))


def within(source: str, spent: str = "", spends: str = "", **more: Any) -> Transition:
    return way(source, END.name, spends, kind="within", causes=(*spent.split(), "seconds", "restarts"), **more)


def flow_with(*ways: Transition, **budgets: int | None) -> Flow:
    return Flow(ways[0].source, tuple(dict.fromkeys(one.source for one in ways)), ways, tuple(budgets.items()))


def steps(product: Product, node: str, *left: int) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return the steps in a state: the outcome (or the kind), the target and the amounts left."""
    return [
        (one.kind if one.kind != "move" else one.outcome, target, rest)
        for one, (target, rest) in product.steps((node, left))
    ]


# ---- possible steps


ENTRY = flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a"), way("b", END.name), x=2)


def test_gate_opens_when_entry_budget_is_spent() -> None:
    product = Product(ENTRY, NO_LIMIT)
    assert product.begin == ("a", (2,))
    assert steps(product, "a", 2) == [("Tob", "b", (1,))]
    assert steps(product, "a", 0) == [("gate", "END", (0,))]
    assert steps(product, "b", 0) == [("Toa", "a", (0,)), ("ToEND", "END", (0,))]


@cases("limits", [Limits(iterations=None, seconds=9), Limits(iterations=None, restarts=0)])
def test_time_or_crash_may_open_gate_anytime(limits: Limits) -> None:
    assert steps(Product(ENTRY, limits), "a", 2) == [("Tob", "b", (1,)), ("gate", "END", (2,))]


def test_visit_may_be_stopped_with_any_amount_left() -> None:
    flow = flow_with(
        way("a", "a", "model_calls", **calling(models=2)),
        within("a", "model_calls", **calling(models=2)),
        way("a", END.name),
    )
    product = Product(flow, agent_limits(model_calls=3))
    assert steps(product, "a", 3) == [("Toa", "a", (2,)), ("within", "END", (3,)), ("ToEND", "END", (3,))]
    assert steps(product, "a", 0) == [("within", "END", (0,)), ("ToEND", "END", (0,))]


def test_visit_needs_all_it_spends() -> None:
    flow = flow_with(
        Transition("a", "Toa", "a", spends=(("x", 2), ("y", 1)), resets=("y",)),
        gate("a", "x y"),
        x=3,
        y=1,
    )
    product = Product(flow, NO_LIMIT)
    assert steps(product, "a", 3, 1) == [("Toa", "a", (1, 1))]
    assert steps(product, "a", 2, 1) == [("Toa", "a", (0, 1))]
    assert steps(product, "a", 1, 1) == []
    assert steps(product, "a", 2, 0) == [("gate", "END", (2, 0))]


def test_visit_beyond_fan_out_does_not_return() -> None:
    flow = flow_with(way("a", "b", asks=2), within("a", "fan_out"), way("b", END.name))
    assert steps(Product(flow, Limits(fan_out=1)), "a") == [("within", "END", ())]
    assert steps(Product(flow, Limits(fan_out=2)), "a") == [("Tob", "b", ()), ("within", "END", ())]
    one = flow_with(way("a", "b", asks=1), within("a", "fan_out"), way("b", END.name))
    assert steps(Product(one, Limits(fan_out=0)), "a") == [("within", "END", ())]
    # A declared count is independent of the fan-out.
    declared = flow_with(way("a", "b", asks=2), within("a"), way("b", END.name))
    assert steps(Product(declared, Limits(fan_out=1)), "a") == [("Tob", "b", ())]


# ---- sure steps without a clock


def sure(flow: Flow, limits: Limits) -> Product:
    return Product(flow, limits, sure=True)


def test_limit_surely_stops_visit_that_wants_more() -> None:
    flow = flow_with(
        way("a", "a", "tool_calls", **calling(tools=2), asks=1),
        within("a", "tool_calls", **calling(tools=2)),
        way("a", END.name),
    )
    product = sure(flow, agent_limits(tool_calls=3))
    # It spends the least or the most.
    assert steps(product, "a", 3) == [("Toa", "a", (2,)), ("Toa", "a", (1,)), ("ToEND", "END", (3,))]
    assert steps(product, "a", 2) == [("Toa", "a", (1,)), ("Toa", "a", (0,)), ("ToEND", "END", (2,))]
    # It is stopped when it asks for both at once or one after the other.
    stopped = [("within", "END", (1,)), ("within", "END", (0,))]
    assert steps(product, "a", 1) == [("Toa", "a", (0,)), *stopped, ("ToEND", "END", (1,))]
    # With any number of effects it can be stopped at any time.
    anything = flow_with(
        way("a", "a", "tool_calls", **calling(tools=None), asks=1),
        within("a", "tool_calls", **calling(tools=None)),
        way("a", END.name),
    )
    assert ("within", "END", (3,)) in steps(sure(anything, agent_limits(tool_calls=3)), "a", 3)


def test_each_model_call_needs_a_token() -> None:
    flow = flow_with(
        way("a", "a", "model_calls tokens", **calling(models=2), asks=1),
        within("a", "model_calls tokens", **calling(models=2)),
        way("a", END.name),
    )
    product = sure(flow, agent_limits(tokens=3))
    assert product.begin == ("a", (3,))
    assert [name for name, _, _ in steps(product, "a", 2)] == ["Toa", "Toa", "ToEND"]
    assert [name for name, _, _ in steps(product, "a", 1)] == ["Toa", "within", "within", "ToEND"]


def test_limit_stops_visit_that_may_ask_for_more() -> None:
    flow = flow_with(way("a", END.name), within("a", "tool_calls", **calling(tools=2)))
    one, two = (sure(flow, agent_limits(tool_calls=most)) for most in (1, 2))
    assert steps(one, "a", 1) == [("ToEND", "END", (1,)), ("within", "END", (1,)), ("within", "END", (0,))]
    assert steps(two, "a", 2) == [("ToEND", "END", (2,))]


def test_time_and_crashes_surely_stop_nothing() -> None:
    flow = flow_with(way("a", "a"), within("a"), way("a", END.name))
    assert [name for name, _, _ in steps(sure(flow, Limits(restarts=0)), "a")] == ["Toa", "ToEND"]


def test_required_effects_spend_one_of_their_kinds() -> None:
    flow = flow_with(
        way("a", "b", asks=1, **calling(models=1, tools=1)),
        within("a", "model_calls tool_calls", **calling(models=1, tools=1)),
        way("b", END.name),
    )
    limits = agent_limits(model_calls=2, tool_calls=1)
    assert steps(sure(flow, limits), "a", 2, 1) == [("Tob", "b", (1, 1)), ("Tob", "b", (2, 0))]
    assert steps(sure(flow, limits), "a", 2, 0) == [("Tob", "b", (1, 0)), ("within", "END", (2, 0))]
    assert steps(Product(flow, limits), "a", 2, 1)[:2] == [("Tob", "b", (1, 1)), ("Tob", "b", (2, 0))]
    # A visit without calls spends none.
    free = flow_with(way("a", "b", asks=1, **calling(others=1)), within("a", **calling(others=1)), way("b", END.name))
    assert steps(sure(free, limits), "a") == [("Tob", "b", ())]


def test_visit_may_mix_kinds_when_limits_are_low() -> None:
    either = calling(models=2, tools=2)
    flow = flow_with(
        way("a", "b", asks=2, **either), within("a", "model_calls tool_calls", **either), way("b", END.name)
    )
    product = sure(flow, agent_limits(model_calls=1, tool_calls=1))
    assert ("Tob", "b", (0, 0)) in steps(product, "a", 1, 1)


def test_visit_asks_until_its_limit_is_reached() -> None:
    any_number = calling(tools=None)
    flow = flow_with(way("a", END.name), within("a", "fan_out tool_calls", **any_number))
    stopped = [left for kind, _, left in steps(sure(flow, agent_limits(tool_calls=2)), "a", 2) if kind == "within"]
    assert stopped == [(2,), (0,)]
    # A second effect is too many.
    stopped = [
        left for kind, _, left in steps(sure(flow, agent_limits(tool_calls=2, fan_out=1)), "a", 2) if kind == "within"
    ]
    assert stopped == [(2,), (1,)]


def test_returning_visit_may_use_up_limit() -> None:
    any_number, up_to_nine = calling(tools=None), calling(tools=9)
    for asking in (any_number, up_to_nine):
        flow = flow_with(way("a", "b", **asking), within("a", "tool_calls", **asking), way("b", END.name))
        product = sure(flow, agent_limits(tool_calls=4, fan_out=None))
        # All four if four are left, or one or two if any number is allowed, but not three.
        lefts = {left for kind, _, left in steps(product, "a", 4) if kind == "Tob"}
        assert lefts == ({(4,), (3,), (2,), (0,)} if asking is any_number else {(4,), (0,)})
        assert ("Tob", "b", (0,)) in steps(product, "a", 3)


def test_kinds_wait_independently() -> None:
    either: Any = calling(tools=1, others=1)
    flow = flow_with(way("a", "b", **either), within("a", "tool_calls", **either), way("b", END.name))
    product = sure(flow, agent_limits(iterations=None, seconds=5, tool_calls=0))
    assert {("Tob", "b", (0, 0)), ("within", "END", (0, 0))} <= set(steps(product, "a", 0, 1))


def test_optional_effects_may_be_skipped() -> None:
    flow = flow_with(
        way("a", "a", "x", **calling(models=1)),
        gate("a", "x"),
        within("a", "model_calls tokens", **calling(models=1)),
        x=2,
    )
    product = sure(flow, agent_limits(iterations=None, model_calls=1))
    assert steps(product, "a", 1, 2) == [("Toa", "a", (1, 1)), ("Toa", "a", (0, 1))]
    assert steps(product, "a", 0, 2) == [("Toa", "a", (0, 1)), ("within", "END", (0, 2))]


# ---- sure steps with a clock: the last counter is 1 while time is left

FIVE = Limits(iterations=None, seconds=5)
FREE = calling(others=1)
CLOCKED = flow_with(
    way("a", "b", "x", asks=1, **FREE),
    gate("a", "x"),
    within("a", spends="x", **FREE),
    way("b", "a"),
    way("b", END.name),
    x=2,
)


@cases(("seconds", "begin", "possible"), [(5, (2, 1), (2,)), (0.5, (2, 1), (2,)), (0, (0,), ())])
def test_time_is_left_or_not(seconds: float, begin: tuple[int, ...], possible: tuple[int, ...]) -> None:
    assert sure(CLOCKED, Limits(iterations=None, seconds=seconds)).begin == ("a", begin)
    assert Product(CLOCKED, Limits(iterations=None, seconds=seconds)).begin == ("a", possible)
    assert sure(CLOCKED, NO_LIMIT).begin == ("a", (2,))


def test_without_time_no_visit_that_costs_is_possible() -> None:
    flow = flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a", asks=1, **FREE), within("b", **FREE))
    limits = Limits(iterations=None, seconds=0)
    product = Product(flow, limits)
    assert steps(product, "a") == [("gate", "END", ())]
    assert steps(product, "b") == [("within", "END", ())]
    certificate, _ = prove_flow(flow, limits)
    assert certificate is not None
    check_certificate(certificate)
    assert (certificate.bounds.transitions.number, certificate.bounds.transitions.exact) == (1, True)


def test_effects_may_take_all_remaining_time() -> None:
    assert steps(sure(CLOCKED, FIVE), "a", 2, 1) == [
        ("Tob", "b", (1, 1)),
        # It is answered late, or cut off.
        ("Tob", "b", (1, 0)),
        ("within", "END", (1, 0)),
    ]


def test_run_without_restarts_may_wait() -> None:
    product = sure(CLOCKED, Limits(iterations=None, seconds=5, restarts=0))
    assert ("Tob", "b", (1, 0)) in steps(product, "a", 2, 1)


def test_after_deadline_no_entry_costs_anything() -> None:
    product = sure(CLOCKED, FIVE)
    assert steps(product, "a", 2, 0) == [("gate", "END", (2, 0))]
    assert steps(product, "a", 0, 1) == [("gate", "END", (0, 1))]
    assert steps(product, "b", 1, 0) == [("Toa", "a", (1, 0)), ("ToEND", "END", (1, 0))]


def test_free_visit_is_stopped_when_it_asks() -> None:
    flow = flow_with(way("a", "a", asks=1, **FREE), within("a", **FREE), way("a", END.name, asks=1, **FREE))
    product = sure(flow, FIVE)
    assert steps(product, "a", 1) == [
        ("Toa", "a", (1,)),
        ("Toa", "a", (0,)),
        ("within", "END", (0,)),
        ("ToEND", "END", (1,)),
        ("ToEND", "END", (0,)),
    ]
    assert steps(product, "a", 0) == [("within", "END", (0,))]


def test_visit_that_may_skip_effects_can_return() -> None:
    any_number = calling(tools=None)
    flow = flow_with(way("a", "a", **any_number), within("a", "tool_calls", **any_number), way("a", END.name))
    product = sure(flow, FIVE)
    assert ("Toa", "a", (0,)) in steps(product, "a", 0)
    assert ("Toa", "a", (0,)) in steps(product, "a", 1)
    # With a limit of 0 no effect is left to wait for.
    nothing = sure(flow, agent_limits(iterations=None, seconds=5, tool_calls=0))
    assert steps(nothing, "a", 0, 1) == [("Toa", "a", (0, 1)), ("within", "END", (0, 1)), ("ToEND", "END", (0, 1))]


def test_waiting_needs_amount_left_to_ask() -> None:
    for answered in (False, True):
        asking: Any = calling(tools=1) | {"answered": answered}
        flow = flow_with(
            way("a", "a", "tool_calls", **asking, asks=1), within("a", "tool_calls", **asking), way("a", END.name)
        )
        product = sure(flow, agent_limits(iterations=None, seconds=5, tool_calls=1))
        # An effect with a reply for the cut does not leave the node.
        assert (("within", "END", (0, 0)) in steps(product, "a", 1, 1)) is not answered
        assert steps(product, "a", 0, 1) == [("within", "END", (0, 1)), ("ToEND", "END", (0, 1))]


def test_node_continues_if_its_effects_reply_to_a_cut() -> None:
    asking: Any = calling(tools=1) | {"answered": True, "grace": 10.0}
    flow = flow_with(way("a", "b", asks=1, **asking), within("a", **asking), way("b", END.name))
    product = sure(flow, FIVE)
    assert product.begin == ("a", (2,))
    # Answered in time; after the run's deadline; after that and the node's grace.
    assert steps(product, "a", 2) == [("Tob", "b", (2,)), ("Tob", "b", (1,)), ("Tob", "b", (0,))]


def test_edge_taken_at_deadline_resets_budgets() -> None:
    flow = flow_with(
        way("a", "b", "x", "x", asks=1, **FREE),
        gate("a", "x"),
        within("a", spends="x", **FREE),
        way("b", "a"),
        way("b", END.name),
        x=2,
    )
    assert ("Tob", "b", (2, 0)) in steps(sure(flow, FIVE), "a", 1, 1)


# ---- the longest run


def _step(move: CountedMove) -> int:
    return 1


def _spends(move: CountedMove) -> int:
    return len(move.transition.spends)


def _shut(move: CountedMove) -> int:
    return int(move.transition.kind == "gate")


def _calls(move: CountedMove) -> int:
    return move.transition.calls("model_calls") or 0


def _nothing(move: CountedMove) -> int:
    return 0


@cases(("limit", "longest"), [(0, 1), (1, 3), (5, 11)])
def test_the_longest_run_is_counted_by_each_weight(limit: int, longest: int) -> None:
    product = Product(ENTRY, Limits(iterations=None, budgets={"x": limit}))
    most = [product.most(weight)[product.begin] for weight in (_step, _spends, _shut, _nothing)]
    assert most == [longest, limit, 1, 0]


def test_longer_path_counts_for_each_weight() -> None:
    flow = flow_with(
        way("a", "b", **calling(models=5)), way("b", END.name), way("a", "c"), way("c", "d"), way("d", END.name)
    )
    product = Product(flow, NO_LIMIT)
    assert [product.most(weight)[product.begin] for weight in (_step, _calls)] == [3, 5]


def test_size_bounds_number_of_states() -> None:
    assert Product(ENTRY, NO_LIMIT).size() == 2 * 3
    assert sure(ENTRY, FIVE).size() == 2 * 3 * 2
    assert Product(flow_with(way("a", END.name)), NO_LIMIT).size() == 1


# ---- reserved visits


def test_reserved_visit_may_ask_after_deadline() -> None:
    flow = flow_with(
        way("a", "b", asks=1, **calling(models=1), grace=1.0),
        within("a", **calling(models=1), grace=1.0),
        way("b", END.name),
    )
    # The remaining deadlines: the run's and the node's, then the node's, then none.
    product = Product(flow, Limits(iterations=None, seconds=5), sure=True)
    cut = ("within", "END", (0,))
    assert steps(product, "a", 2) == [("Tob", "b", (2,)), ("Tob", "b", (1,)), cut]
    assert steps(product, "a", 1) == [("Tob", "b", (1,)), cut]
    assert steps(product, "a", 0) == [cut]


def test_visit_after_longer_grace_asks_for_nothing() -> None:
    flow = flow_with(
        way("a", END.name, asks=1, **calling(models=1), grace=2.0),
        Transition("a", "Cut", "b", "within", causes=("seconds",), **calling(models=1), grace=2.0),
        way("b", END.name, asks=1, **calling(models=1), grace=1.0),
        within("b", **calling(models=1), grace=1.0),
    )
    product = Product(flow, Limits(iterations=None, seconds=5), sure=True)
    assert product.begin == ("a", (3,))
    assert ("within", "b", (0,)) in steps(product, "a", 3)
    assert steps(product, "b", 2) == [("ToEND", "END", (2,)), ("within", "END", (1,))]
    assert steps(product, "b", 1) == [("within", "END", (1,))]
    assert Product(flow, Limits(iterations=None, seconds=0), sure=True).begin == ("a", (2,))


def test_visit_is_not_surely_stopped_by_crash() -> None:
    flow = flow_with(
        way("a", END.name, asks=1, **calling(models=1), grace=1.0), within("a", **calling(models=1), grace=1.0)
    )
    limits = Limits(iterations=None, restarts=0)
    assert steps(Product(flow, limits, sure=True), "a") == [("ToEND", "END", ())]
    assert steps(Product(flow, limits), "a") == [("ToEND", "END", ()), ("within", "END", ())]


def test_cost_limit_does_not_surely_stop_visit() -> None:
    flow = flow_with(way("a", END.name, asks=1, **calling(models=1)), within("a", "cost", **calling(models=1)))
    limits = agent_limits(iterations=None, cost=0.5)
    assert steps(Product(flow, limits, sure=True), "a") == [("ToEND", "END", ())]
    assert steps(Product(flow, limits), "a") == [("ToEND", "END", ()), ("within", "END", ())]


@cases("least", [1, 2, 3])
def test_sure_visit_asks_for_no_fewer_effects_than_its_node(least: int) -> None:
    kinds = ((("model_calls", 1),),)
    spends = (("model_calls", least),)
    again = Transition("a", "Again", "a", spends=spends, asks=least, most=None, effect_charges=kinds)
    flow = Flow("a", ("a",), (again, Transition("a", "Done", END.name)), (), ())
    limits = agent_limits(iterations=None, model_calls=least, fan_out=None)
    moves = [move for move, _ in Product(flow, limits, sure=True).moves(Product(flow, limits, sure=True).begin)]
    asked = [amount for move in moves if move.transition.target == "a" for _, amount in move.spends]
    assert min(asked) == least
