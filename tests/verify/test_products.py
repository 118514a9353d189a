"""The states of a flow with its counters: the possible steps in each, and the sure ones."""

from collections.abc import Callable
from typing import Any

from graphexec.effects import agent_limits
from graphexec.kernel import END, Limits, Meter
from graphexec.verify.proof.flow import Flow, Transition
from graphexec.verify.proof.moves import CountedMove
from graphexec.verify.proof.product import Product
from tests.parameters import cases
from tests.verify.flows import calling, end, flow_with, gate, product_of, way, within
from tests.verify.proofs import prove

NO_LIMIT = Limits(iterations=None)


def sure(flow: Flow, limits: Limits) -> Product:
    return product_of(flow, limits, sure=True)


def steps(product: Product, state: str) -> str:
    """Return the steps in a state ("a 2": a node and the amounts left): each outcome or kind, and what is left then."""
    node, *left = state.split()
    found: list[str] = []
    for move, (target, rest) in product.moves((node, tuple(map(int, left)))):
        one = move.transition
        assert target == one.target
        name = one.outcome if one.kind == "move" else one.kind
        found.append(" ".join([name if target in (END.name, name[2:]) else f"{name}>{target}", *map(str, rest)]))
    return ", ".join(found)


MODEL, TWO_MODELS, TOOL, TWO_TOOLS = calling(models=1), calling(models=2), calling(tools=1), calling(tools=2)
ANY_TOOLS, NINE_TOOLS = calling(tools=None), calling(tools=9)
EITHER, TWO_OF_EITHER, FREE = calling(models=1, tools=1), calling(models=2, tools=2), calling(others=1)
TIMED: Any = calling(tools=1, others=1)
FIVE = Limits(iterations=None, seconds=5)

# ---- possible steps

ENTRY = flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a"), end("b"), x=2)
CALLS = flow_with(way("a", "a", "model_calls", **TWO_MODELS), within("a", "model_calls", **TWO_MODELS), end("a"))
COSTLY = flow_with(Transition("a", "Toa", "a", spends=(("x", 2), ("y", 1)), resets=("y",)), gate("a", "x y"), x=3, y=1)
WIDE = flow_with(way("a", "b", asks=2), within("a", "fan_out"), end("b"))
SINGLE = flow_with(way("a", "b", asks=1), within("a", "fan_out"), end("b"))
DECLARED = flow_with(way("a", "b", asks=2), within("a"), end("b"))
ONE_OF_TWO = flow_with(way("a", "b", asks=1, **EITHER), within("a", "model_calls tool_calls", **EITHER), end("b"))
TIMELESS = flow_with(way("a", "b", "x"), gate("a", "x"), way("b", "a", asks=1, **FREE), within("b", **FREE))
NO_TIME = Limits(iterations=None, seconds=0)


def test_without_time_a_run_takes_one_transition() -> None:
    bound = prove(TIMELESS, NO_TIME).bounds.transitions
    assert (bound.number, bound.exact) == (1, True)


# ---- steps without a clock

TWO_AT_ONCE = flow_with(
    way("a", "a", "tool_calls", **TWO_TOOLS, asks=1), within("a", "tool_calls", **TWO_TOOLS), end("a")
)
WITH_TOKENS = flow_with(
    way("a", "a", "model_calls tokens", **TWO_MODELS, asks=1), within("a", "model_calls tokens", **TWO_MODELS), end("a")
)
MORE = flow_with(end("a"), within("a", "tool_calls", **TWO_TOOLS))
IDLE = flow_with(way("a", "a"), within("a"), end("a"))
NO_CALLS = flow_with(way("a", "b", asks=1, **FREE), within("a", **FREE), end("b"))
MIXED = flow_with(
    way("a", "b", asks=2, **TWO_OF_EITHER), within("a", "model_calls tool_calls", **TWO_OF_EITHER), end("b")
)
INSISTENT = flow_with(end("a"), within("a", "fan_out tool_calls", **ANY_TOOLS))
WAITING = flow_with(way("a", "b", **TIMED), within("a", "tool_calls", **TIMED), end("b"))
OPTIONAL = flow_with(way("a", "a", "x", **MODEL), gate("a", "x"), within("a", "model_calls tokens", **MODEL), x=2)
COST = flow_with(end("a", asks=1, **MODEL), within("a", "cost", **MODEL))
ONE_OF_EACH = agent_limits(model_calls=2, tool_calls=1)


@cases(
    ("product", "flow", "limits", "state", "possible"),
    (product_of, ENTRY, NO_LIMIT, "a 2", "Tob 1"),
    (product_of, ENTRY, NO_LIMIT, "a 0", "gate 0"),
    (product_of, ENTRY, NO_LIMIT, "b 0", "Toa 0, ToEND 0"),
    # Time or a crash may open a gate anytime.
    (product_of, ENTRY, Limits(iterations=None, seconds=9), "a 2", "Tob 1, gate 2"),
    (product_of, ENTRY, Limits(iterations=None, restarts=0), "a 2", "Tob 1, gate 2"),
    # A visit may be stopped with any amount left.
    (product_of, CALLS, agent_limits(model_calls=3), "a 3", "Toa 2, within 3, ToEND 3"),
    (product_of, CALLS, agent_limits(model_calls=3), "a 0", "within 0, ToEND 0"),
    # It needs all that it spends.
    (product_of, COSTLY, NO_LIMIT, "a 3 1", "Toa 1 1"),
    (product_of, COSTLY, NO_LIMIT, "a 2 1", "Toa 0 1"),
    (product_of, COSTLY, NO_LIMIT, "a 1 1", ""),
    (product_of, COSTLY, NO_LIMIT, "a 2 0", "gate 2 0"),
    # A visit beyond the fan-out does not return; a declared count is independent of it.
    (product_of, WIDE, Limits(fan_out=1), "a", "within"),
    (product_of, WIDE, Limits(fan_out=2), "a", "Tob, within"),
    (product_of, SINGLE, Limits(fan_out=0), "a", "within"),
    (product_of, DECLARED, Limits(fan_out=1), "a", "Tob"),
    # Required effects spend one of their kinds.
    (product_of, ONE_OF_TWO, agent_limits(model_calls=2, tool_calls=1), "a 2 1", "Tob 1 1, Tob 2 0, within 2 1"),
    # Without time, no visit that costs anything is possible.
    (product_of, TIMELESS, NO_TIME, "a", "gate"),
    (product_of, TIMELESS, NO_TIME, "b", "within"),
    # What is sure: a visit spends the least or the most.
    (sure, TWO_AT_ONCE, agent_limits(tool_calls=3), "a 3", "Toa 2, Toa 1, ToEND 3"),
    (sure, TWO_AT_ONCE, agent_limits(tool_calls=3), "a 2", "Toa 1, Toa 0, ToEND 2"),
    # It is stopped when it asks for both at once or one after the other.
    (sure, TWO_AT_ONCE, agent_limits(tool_calls=3), "a 1", "Toa 0, within 1, within 0, ToEND 1"),
    # Each model call needs a token.
    (sure, WITH_TOKENS, agent_limits(tokens=3), "a 2", "Toa 1, Toa 0, ToEND 2"),
    (sure, WITH_TOKENS, agent_limits(tokens=3), "a 1", "Toa 0, within 1, within 0, ToEND 1"),
    # A limit stops a visit that may ask for more.
    (sure, MORE, agent_limits(tool_calls=1), "a 1", "ToEND 1, within 1, within 0"),
    (sure, MORE, agent_limits(tool_calls=2), "a 2", "ToEND 2"),
    # Time and crashes surely stop nothing.
    (sure, IDLE, Limits(restarts=0), "a", "Toa, ToEND"),
    # Required effects spend one of their kinds; a visit without calls spends none.
    (sure, ONE_OF_TWO, ONE_OF_EACH, "a 2 1", "Tob 1 1, Tob 2 0"),
    (sure, ONE_OF_TWO, ONE_OF_EACH, "a 2 0", "Tob 1 0, within 2 0"),
    (sure, NO_CALLS, ONE_OF_EACH, "a", "Tob"),
    # A visit asks until its limit is reached; a second effect is too many for the fan-out.
    (sure, INSISTENT, agent_limits(tool_calls=2), "a 2", "ToEND 2, within 2, within 0"),
    (sure, INSISTENT, agent_limits(tool_calls=2, fan_out=1), "a 2", "ToEND 2, within 2, within 1"),
    # Optional effects may be skipped.
    (sure, OPTIONAL, agent_limits(iterations=None, model_calls=1), "a 1 2", "Toa 1 1, Toa 0 1"),
    (sure, OPTIONAL, agent_limits(iterations=None, model_calls=1), "a 0 2", "Toa 0 1, within 0 2"),
    # A limit on the cost surely stops no visit.
    (sure, COST, agent_limits(iterations=None, cost=0.5), "a", "ToEND"),
)
def test_steps_in_a_state(product: Any, flow: Flow, limits: Limits, state: str, possible: str) -> None:
    assert steps(product(flow, limits), state) == possible


def test_steps_that_are_possible_but_not_sure() -> None:
    assert steps(product_of(COST, agent_limits(iterations=None, cost=0.5)), "a") == "ToEND, within"
    flow = flow_with(end("a", asks=1, **MODEL, grace=1.0), within("a", **MODEL, grace=1.0))
    limits = Limits(iterations=None, restarts=0)
    assert (steps(sure(flow, limits), "a"), steps(product_of(flow, limits), "a")) == ("ToEND", "ToEND, within")
    nothing = sure(SKIPPING, agent_limits(iterations=None, seconds=5, tool_calls=0))
    assert steps(nothing, "a 0 1") == "Toa 0 1, within 0 1, ToEND 0 1"
    assert sure(GRACES, NO_TIME).begin == ("a", (2,))


@cases(("asking", "left"), (ANY_TOOLS, {"4", "3", "2", "0"}), (NINE_TOOLS, {"4", "0"}))
def test_returning_visit_may_use_up_limit(asking: dict[str, Any], left: set[str]) -> None:
    flow = flow_with(way("a", "b", **asking), within("a", "tool_calls", **asking), end("b"))
    product = sure(flow, agent_limits(tool_calls=4, fan_out=None))
    # All four if four are left, or one or two if any number is allowed, but not three.
    assert {one.removeprefix("Tob ") for one in steps(product, "a 4").split(", ") if one.startswith("Tob")} == left
    assert "Tob 0" in steps(product, "a 3").split(", ")


# ---- sure steps with a clock: the last counter is 1 while time is left

_BACK = (way("b", "a"), end("b"))
CLOCKED = flow_with(way("a", "b", "x", asks=1, **FREE), gate("a", "x"), within("a", spends="x", **FREE), *_BACK, x=2)
RESETTING = flow_with(
    way("a", "b", "x", "x", asks=1, **FREE), gate("a", "x"), within("a", spends="x", **FREE), *_BACK, x=2
)
FREE_VISIT = flow_with(way("a", "a", asks=1, **FREE), within("a", **FREE), end("a", asks=1, **FREE))
SKIPPING = flow_with(way("a", "a", **ANY_TOOLS), within("a", "tool_calls", **ANY_TOOLS), end("a"))
CUT_REPLY: Any = TOOL | {"answered": True, "grace": 10.0}
REPLYING = flow_with(way("a", "b", asks=1, **CUT_REPLY), within("a", **CUT_REPLY), end("b"))
RESERVED = flow_with(way("a", "b", asks=1, **MODEL, grace=1.0), within("a", **MODEL, grace=1.0), end("b"))
GRACES = flow_with(
    end("a", asks=1, **MODEL, grace=2.0),
    Transition("a", "Cut", "b", "within", causes=("seconds",), **MODEL, grace=2.0),
    end("b", asks=1, **MODEL, grace=1.0),
    within("b", **MODEL, grace=1.0),
)


@cases(("seconds", "begin", "possible"), (5, (2, 1), (2,)), (0.5, (2, 1), (2,)), (0, (0,), ()))
def test_time_is_left_or_not(seconds: float, begin: tuple[int, ...], possible: tuple[int, ...]) -> None:
    assert sure(CLOCKED, Limits(iterations=None, seconds=seconds)).begin == ("a", begin)
    assert product_of(CLOCKED, Limits(iterations=None, seconds=seconds)).begin == ("a", possible)
    assert sure(CLOCKED, NO_LIMIT).begin == ("a", (2,))


@cases(
    ("flow", "begin", "state", "sure_steps"),
    # Effects may take all remaining time: they are answered late, or cut off.
    (CLOCKED, (2, 1), "a 2 1", "Tob 1 1, Tob 1 0, within 1 0"),
    # After the deadline no entry costs anything.
    (CLOCKED, (2, 1), "a 2 0", "gate 2 0"),
    (CLOCKED, (2, 1), "a 0 1", "gate 0 1"),
    (CLOCKED, (2, 1), "b 1 0", "Toa 1 0, ToEND 1 0"),
    # The edge that is taken at the deadline resets budgets.
    (RESETTING, (2, 1), "a 1 1", "Tob 2 1, Tob 2 0, within 0 0"),
    # A free visit is stopped when it asks.
    (FREE_VISIT, (1,), "a 1", "Toa 1, Toa 0, within 0, ToEND 1, ToEND 0"),
    (FREE_VISIT, (1,), "a 0", "within 0"),
    # Answered in time; after the run's deadline; after that and the node's grace.
    (REPLYING, (2,), "a 2", "Tob 2, Tob 1, Tob 0"),
    # The remaining deadlines of a reserved visit: the run's and the node's, then the node's, then none.
    (RESERVED, (2,), "a 2", "Tob 2, Tob 1, within 0"),
    (RESERVED, (2,), "a 1", "Tob 1, within 0"),
    (RESERVED, (2,), "a 0", "within 0"),
    # A visit after a longer grace asks for nothing.
    (GRACES, (3,), "b 2", "ToEND 2, within 1"),
    (GRACES, (3,), "b 1", "within 1"),
)
def test_sure_steps_with_a_clock(flow: Flow, begin: tuple[int, ...], state: str, sure_steps: str) -> None:
    assert sure(flow, FIVE).begin == ("a", begin)
    assert steps(sure(flow, FIVE), state) == sure_steps


@cases(
    ("flow", "limits", "state", "among"),
    # With any number of effects a visit can be stopped at any time.
    (
        flow_with(way("a", "a", "tool_calls", **ANY_TOOLS, asks=1), within("a", "tool_calls", **ANY_TOOLS), end("a")),
        agent_limits(tool_calls=3),
        "a 3",
        {"within 3"},
    ),
    # It may mix kinds where limits are low.
    (MIXED, agent_limits(model_calls=1, tool_calls=1), "a 1 1", {"Tob 0 0"}),
    # Kinds wait independently.
    (WAITING, agent_limits(iterations=None, seconds=5, tool_calls=0), "a 0 1", {"Tob 0 0", "within 0 0"}),
    (CLOCKED, Limits(iterations=None, seconds=5, restarts=0), "a 2 1", {"Tob 1 0"}),
    # A visit that may skip its effects can return.
    (SKIPPING, FIVE, "a 0", {"Toa 0"}),
    (SKIPPING, FIVE, "a 1", {"Toa 0"}),
    (GRACES, FIVE, "a 3", {"within>b 0"}),
)
def test_sure_steps_are_among_others(flow: Flow, limits: Limits, state: str, among: set[str]) -> None:
    assert among <= set(steps(sure(flow, limits), state).split(", "))


@cases("answered", False, True)
def test_waiting_needs_amount_left_to_ask(answered: bool) -> None:
    asking: Any = TOOL | {"answered": answered}
    flow = flow_with(way("a", "a", "tool_calls", **asking, asks=1), within("a", "tool_calls", **asking), end("a"))
    product = sure(flow, agent_limits(iterations=None, seconds=5, tool_calls=1))
    # An effect with a reply for the cut does not leave the node.
    assert ("within 0 0" in steps(product, "a 1 1").split(", ")) is not answered
    assert steps(product, "a 0 1") == "within 0 1, ToEND 0 1"


# ---- the longest run


WEIGHTS: dict[str, Callable[[CountedMove], int]] = {
    "steps": lambda move: 1,
    "spends": lambda move: len(move.transition.spends),
    "shut": lambda move: int(move.transition.kind == "gate"),
    "calls": lambda move: move.transition.calls("model_calls") or 0,
    "nothing": lambda move: 0,
}


@cases(("limit", "longest"), (0, 1), (1, 3), (5, 11))
def test_the_longest_run_is_counted_by_each_weight(limit: int, longest: int) -> None:
    product = product_of(ENTRY, Limits({Meter("x"): limit}, iterations=None))
    most = [product.most(WEIGHTS[name])[product.begin] for name in ("steps", "spends", "shut", "nothing")]
    assert most == [longest, limit, 1, 0]


def test_longest_path_and_number_of_states() -> None:
    flow = flow_with(way("a", "b", **calling(models=5)), end("b"), way("a", "c"), way("c", "d"), end("d"))
    product = product_of(flow, NO_LIMIT)
    assert [product.most(weight)[product.begin] for weight in (WEIGHTS["steps"], WEIGHTS["calls"])] == [3, 5]
    assert product_of(ENTRY, NO_LIMIT).size() == 2 * 3
    assert sure(ENTRY, FIVE).size() == 2 * 3 * 2
    assert product_of(flow_with(end("a")), NO_LIMIT).size() == 1


@cases("least", 1, 2, 3)
def test_sure_visit_asks_for_no_fewer_effects_than_its_node(least: int) -> None:
    kinds = ((("model_calls", 1),),)
    spends = (("model_calls", least),)
    again = Transition("a", "Again", "a", spends=spends, asks=least, most=None, effect_charges=kinds)
    flow = Flow("a", ("a",), (again, Transition("a", "Done", END.name)), (), ())
    limits = agent_limits(iterations=None, model_calls=least, fan_out=None)
    moves = [move for move, _ in product_of(flow, limits, sure=True).moves(product_of(flow, limits, sure=True).begin)]
    asked = [amount for move in moves if move.transition.target == "a" for _, amount in move.spends]
    assert min(asked) == least
