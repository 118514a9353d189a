"""Meters, limits and counts are validated, immutable, hashable and picklable values."""

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Effect, Exhausted, Limits, Meter, Spent, begin, errors
from graphexec.effects import TOKENS, agent_limits
from graphexec.kernel.events import Cut
from graphexec.kernel.execution import Execution
from graphexec.kernel.meters import ITERATIONS, FrozenMapping
from tests.kernel.machines import INTERVIEW, Stopped, Topic, check_refusal, error_message
from tests.parameters import cases

PAYMENTS = Meter("payments")
REVISIONS = Meter("revisions", 2)
FEES = Meter("fees", whole=False, unit="an amount of money")

names = st.sampled_from(["payments", "fees", "parcels"])
amounts = st.dictionaries(names, st.integers(0, 3))


def test_meters_and_effects_have_defaults() -> None:
    assert (str(PAYMENTS), PAYMENTS.whole, FEES.whole) == ("payments", True, False)
    assert Meter("payments", unit="payments", remedy="count them") == PAYMENTS
    assert Meter("payments", whole=False) != PAYMENTS
    assert repr(Meter("fees", 3, whole=False)) == "Meter('fees', 3.0, whole=False)"

    class Pay(Effect[bool]):
        charges: ClassVar[Mapping[Meter, int]] = {PAYMENTS: 2}

    assert Pay().measure(True) == ()
    assert (Pay.charges, Pay.measures) == ({PAYMENTS: 2}, ())


@cases("name", "", "two words", "9lives", "a-b", "a.", ".a", "a..b", "a.2", 5, None, ["payments"])
def test_name_must_be_an_identifier(name: Any) -> None:
    text = f"a meter cannot be named {name!r}; give it a name that a variable could have"
    assert error_message(errors.LimitsError, Meter, name) == text


@cases(
    ("make", "text"),
    *(
        (partial(Meter, name), f"{name} is a limit already; find another name for the meter")
        for name in ("seconds", "fan_out", "restarts")
    ),
    (lambda: Limits({ITERATIONS: 5}), "iterations is a limit of its own; write Limits(iterations=...)"),
    (lambda: agent_limits({TOKENS: 2}), "tokens is a limit of its own; write agent_limits(tokens=...)"),
    (lambda: Meter("revisions", -1), "the limit revisions is -1; give 0 or more, or None for no limit"),
    *((partial(Meter, "revisions", one), "the limit revisions is ") for one in (1.5, math.inf)),
    (lambda: Meter("fees", 0, whole=False), "the limit fees is 0, but what an effect consumes is only known"),
    (lambda: dataclasses.replace(Limits({PAYMENTS: 3}), seconds=-1), "the limit seconds is -1"),
)
def test_name_of_a_limit_is_refused(make: Callable[[], object], text: str) -> None:
    """So are names that no budget can have."""
    assert error_message(errors.LimitsError, make).startswith(text)


WHOLE = "the meter must count in whole numbers, and the charge be 1 or more: "
DIFFER = "Pay has {} that differ from effect to effect, but limits count by class"
ONE_CLASS = (
    'write charges: ClassVar[Mapping[Meter, int]] = {Meter("pages"): 1} in the class, and one class for each amount'
)


@cases(
    ("attributes", "facts"),
    *(
        ({"charges": {PAYMENTS: charge}}, [f'Pay has charges={{{PAYMENTS!r}: {charge}}}; {WHOLE}{{Meter("pages"): 1}}'])
        for charge in (0, -1, 1.5, True)
    ),
    ({"charges": {FEES: 1}}, [WHOLE]),
    (
        {"measures": (FEES, PAYMENTS)},
        ["Pay measures fees, payments but defines no measure method; define measure(self, reply)"],
    ),
    # Proofs and the engine count by class, so they would miss a property or a field.
    ({"charges": property(lambda self: {PAYMENTS: 3})}, [DIFFER.format("charges"), ONE_CLASS]),
    ({"measures": property(lambda self: {PAYMENTS: 3})}, [DIFFER.format("measures")]),
    ({"charges": {PAYMENTS: 3}, "__annotations__": {"charges": Mapping}}, [DIFFER.format("charges"), ONE_CLASS]),
    ({"measures": (PAYMENTS,), "__annotations__": {"measures": "tuple[Meter]"}}, [DIFFER.format("measures")]),
)
def test_invalid_charges_are_refused(attributes: Any, facts: list[str]) -> None:
    check_refusal(errors.NodeError, facts, type, "Pay", (Effect,), attributes)


def test_limits_are_values() -> None:
    limits = Limits({PAYMENTS: 3, FEES: 2})
    assert (limits[PAYMENTS], limits["payments"], limits[FEES]) == (3, 3, 2.0)
    assert isinstance(limits[FEES], float)
    assert Limits({PAYMENTS: None})[PAYMENTS] is limits["parcels"] is None
    one = Limits({PAYMENTS: 3, FEES: 2, REVISIONS: None})
    other = Limits({REVISIONS: None, FEES: 2.0, PAYMENTS: 3})
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, Limits({PAYMENTS: 3}), Limits({PAYMENTS: 4})}) == 3
    limits = Limits({PAYMENTS: 3, FEES: 2}, iterations=4)
    later = dataclasses.replace(limits, seconds=60)
    assert later == Limits({PAYMENTS: 3, FEES: 2}, iterations=4, seconds=60)
    replaced: Any = {PAYMENTS: 5}
    assert dataclasses.replace(limits, meters=replaced).meters == {"payments": 5}
    # They copy their arguments.
    given: dict[Meter, float | None] = {PAYMENTS: 3}
    limits = Limits(given)
    given[PAYMENTS] = 9
    assert limits == Limits({PAYMENTS: 3}) != Limits(given)
    # A meter has its own limit, unless another one is set.
    for given_limit, limit in (({}, 2), ({REVISIONS: None}, None), ({REVISIONS: 5}, 5)):
        assert Limits(given_limit)[REVISIONS] == limit
    assert hash(Spent(meters={"revisions": 1})) == hash(Spent(meters={"revisions": 1}))
    assert Exhausted("tool_calls", 3, 2, wanted=2) == Exhausted("tool_calls", 3, 2, wanted=5)
    assert Exhausted("tool_calls", 3, 2) != Exhausted("tool_calls", 3, 3)
    immutable: Any = limits
    with pytest.raises(dataclasses.FrozenInstanceError):
        immutable.iterations = 3
    with pytest.raises(TypeError):
        immutable.meters["payments"] = 4


@cases(
    ("meters", "text"),
    ({"payments": 3}, "the limits have 'payments', which is not a meter; give {Meter('payments'): 5}"),
    (PAYMENTS, f"the limits are {PAYMENTS!r}; give a dict of meters and limits: {{METER: 5}}"),
    (3, "the limits are 3; give a dict of meters and limits: {METER: 5}"),
    ({PAYMENTS: 1.5}, "the limit payments is 1.5; give a whole number, or None for no limit"),
    ({PAYMENTS: -1}, "the limit payments is -1; give 0 or more, or None for no limit"),
    ({FEES: "3"}, "the limit fees is '3'; give an amount of money, or None for no limit"),
    ({FEES: float("inf")}, "the limit fees is infinite; give None for no limit"),
    ({FEES: 0}, "the limit fees is 0, but what an effect consumes is only known afterwards; give more than 0"),
    (
        {PAYMENTS: -1, FEES: -2},
        "the limit payments is -1; give 0 or more, or None for no limit; "
        "the limit fees is -2; give 0 or more, or None for no limit",
    ),
)
def test_invalid_limits_on_meters_are_refused(meters: Any, text: str) -> None:
    assert error_message(errors.LimitsError, Limits, meters) == text


def test_spent_amounts_default_to_zero() -> None:
    spent = Spent(meters={"payments": 2, "parcels": 0})
    assert (spent[PAYMENTS], spent["payments"], spent["fees"], spent[FEES]) == (2, 2, 0, 0)
    assert (spent.meters, Spent(meters={"payments": 0})) == ({"payments": 2}, Spent())
    with pytest.raises(KeyError, match="fees"):
        FrozenMapping({"payments": 3})["fees"]


@given(amounts, amounts)
def test_spending_is_compared_without_zeros(one: dict[str, int], other: dict[str, int]) -> None:
    def nonzero(counts: dict[str, int]) -> dict[str, int]:
        return {name: count for name, count in counts.items() if count}

    equal = nonzero(one) == nonzero(other)
    assert (Spent(meters=one) == Spent(meters=other)) is equal
    assert not equal or hash(Spent(meters=one)) == hash(Spent(meters=other))


@given(amounts)
def test_mapping_shows_its_items_and_copies_are_equal(given: dict[str, int]) -> None:
    mapping = FrozenMapping(given)
    assert mapping == given
    assert (list(mapping), len(mapping), repr(mapping)) == (list(given), len(given), repr(given))
    assert hash(mapping) == hash(FrozenMapping(dict(reversed(given.items()))))
    spent = Spent(meters=given)
    limits = Limits({Meter(name): amount for name, amount in given.items()})
    for value in (mapping, spent, limits, PAYMENTS):
        for copied in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
            assert copied == value
            assert type(copied) is type(value)
            assert hash(copied) == hash(value)


@dataclass
class Outer:
    """Outer runs that allow a nested run everything but more seconds."""

    seconds: float | None
    refusal: Exhausted | None = None
    limits: Collection[str] = ()

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        return None

    def settle(self, amounts: Mapping[str, float]) -> None:
        raise AssertionError("no reply reports more")


@cases("own", None, 9.0)
@cases(("answer", "at"), (Cut(), 5.0), ("an answer after the deadline", 6.0))
def test_deadline_of_an_outer_run_ends_a_nested_run(own: float | None, answer: object, at: float) -> None:
    execution = Execution(INTERVIEW, begin(INTERVIEW, Topic("the sea")), Limits(seconds=own), outer=Outer(5.0))
    path = execution.run()
    next(path)
    with pytest.raises(StopIteration) as ended:
        path.send((answer, at, at))
    assert ended.value.value == Stopped(Topic("the sea"), Exhausted("seconds", 5.0, at, outer=True))
