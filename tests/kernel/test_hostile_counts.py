"""Counts from effects, JSON and callers are finite, at least 0 and of any size; others raise our own error."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Asks, Effect, Exhausted, Limits, Meter, Snapshot, Spent, ask, errors, kernel
from graphexec.kernel.meters import add_counts
from graphexec.kernel.serialization import format_json, parse_json
from tests.executor.actors import snapshot_after
from tests.kernel import machines as m
from tests.parameters import cases

COINS, GRAMS = Meter("coins"), Meter("grams", whole=False)
HUGE = 10**5000


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@dataclass(frozen=True)
class Weigh(Effect[Any]):
    charges: ClassVar[Any] = {COINS: 1}
    measures: ClassVar[Any] = (COINS, GRAMS)

    def measure(self, reply: Any) -> Any:
        return reply


@kernel.node(when_spent=m.Stopped, asks=1)
def weigh(left: m.Left) -> Asks[Weigh, m.Left | m.Total]:
    yield from ask(Weigh())
    return m.Left(left.steps - 1) if left.steps else m.Total("")


SCALES = m.machine_of(weigh)
COINS_ONLY = Limits({COINS: 5})


def run_scales(reply: Any, count: int = 9, limits: Limits = COINS_ONLY) -> Any:
    return SCALES.run(m.Left(count), handlers={Weigh: lambda effect: reply}, limits=limits)


INVALID = [-1, 0.5, 1.0, math.nan, math.inf, -math.inf, True, False, "1", b"1", [1], 1j]


@cases("amount", *INVALID)
def test_invalid_amount_of_a_whole_meter_is_refused(amount: Any) -> None:
    message = r"weigh asked for Weigh, .*; return a whole number of coins"
    snapshot = snapshot_after(errors.InputError, lambda: run_scales((amount, 0.0)), message)
    resumed = SCALES.run(snapshot, handlers={Weigh: lambda effect: (0, 0)}, limits=Limits({COINS: 50}))
    assert resumed.spent[COINS] == 1 + 10


GRAMS_WANTED = "; return a finite number of grams, 0 or more"
EACH_WANTED = "return an amount, or None, for each of coins, grams"


@cases(
    ("amounts", "remedy"),
    *(((1, amount), GRAMS_WANTED) for amount in (-1, -0.5, math.nan, math.inf, True, "1", HUGE)),
    *((amounts, EACH_WANTED) for amounts in (None, 3, "ab", (), (1,), (1, 2.0, 3), {1, 2}, {"coins": 1})),
)
def test_other_measured_amounts_are_refused(amounts: Any, remedy: str) -> None:
    message = m.error_message(errors.InputError, run_scales, amounts)
    assert "whose measure returned" in message
    assert remedy in message


def test_amounts_beyond_what_is_prepaid_are_counted() -> None:
    done = run_scales((2, 0.5), count=1)
    assert (done.spent[COINS], done.spent[GRAMS]) == (4, 1.0)
    assert run_scales((0, 0), count=1).spent.meters == {"coins": 2}
    done = run_scales((0, 1.7e308), count=3)
    assert done.spent[GRAMS] == add_counts(1.7e308, 1.7e308) < math.inf
    assert math.isfinite(json.loads(done.snapshot.to_json())["spent"]["meters"]["grams"])


@given(
    amounts=st.lists(
        st.sampled_from([*INVALID, None, 0, 1, 3]) | st.just(1).map(HUGE.__mul__) | st.floats() | st.integers(),
        min_size=2,
        max_size=2,
    )
)
def test_no_reported_amount_makes_a_run_exceed_its_bound(amounts: list[Any]) -> None:
    bounds = SCALES.verify(COINS_ONLY).bounds
    assert bounds is not None
    assert bounds.transitions.number is not None
    calls = 0

    def answer(effect: Weigh) -> Any:
        nonlocal calls
        calls += 1
        return amounts

    with suppress(errors.InputError):
        SCALES.run(m.Left(1000), handlers={Weigh: answer}, limits=COINS_ONLY)
    assert calls <= 5


LIMIT = {"limit": "coins", "value": 1, "reached": 1, "wanted": 1, "outer": False}


def test_spent_is_a_copy_and_its_amounts_fit_their_meters() -> None:
    meters = {"coins": 2}
    spent = Spent(meters=meters)
    meters["coins"] = -5
    assert spent[COINS] == 2
    at = Snapshot("weigh", m.Left(1), spent=Spent(meters={"coins": 0.5}))
    assert "meters['coins']=0.5; give a whole number, 0 or more" in snapshot_error(at.to_json(), SCALES)


GOOD = json.loads(Snapshot("interview", m.Topic("tea")).to_json())


def snapshot_error(text: str, machine: Any = m.INTERVIEW) -> str:
    return m.error_message(errors.SnapshotError, Snapshot.from_json, text, machine)


def stored_with(text: str, **fields: Any) -> str:
    """Return a stored snapshot with other fields, in which "#" is a text of JSON."""
    return json.dumps({**GOOD, **fields}).replace('"#"', text)


NO_COUNTS = ["-50", "true", "1e400", "NaN", "-Infinity", "null", '"3"', "[]", "{}", format_json(-HUGE)]


@cases("text", *NO_COUNTS, "0.5", "-0.5")
@cases("name", "iterations", "seconds", "restarts", "meters", "sequence", "value", "reached", "wanted")
def test_stored_counts_that_are_invalid_are_refused(name: str, text: str) -> None:
    if name in LIMIT:
        stored = stored_with(text, replies=[{"exhausted": {**LIMIT, name: "#"}}])
    elif name == "sequence":
        stored = stored_with(text, sequence="#")
    else:
        stored = stored_with(text, spent={**GOOD["spent"], name: {"coins": "#"} if name == "meters" else "#"})
    # Seconds, limits and the counts of some meters are fractions.
    if text != "0.5" or name in ("iterations", "restarts", "sequence", "wanted"):
        shown = "meters['coins']" if name == "meters" else name
        assert snapshot_error(stored).startswith(f"the snapshot has {shown}=")


@cases(
    "fields",
    *({"spent": {**GOOD["spent"], "meters": one}} for one in (None, 3, [["coins", 1]])),
    *({"replies": [{"exhausted": {**LIMIT, "limit": one}}]} for one in (3, None)),
    {"replies": [{"exhausted": {**LIMIT, "outer": 1}}]},
)
def test_stored_counts_of_another_form_are_refused(fields: dict[str, object]) -> None:
    assert "does not fit this graph" in snapshot_error(stored_with("", **fields))


@m.value
class Weighed:
    count: int
    weight: float
    limit: Exhausted | None = None
    notes: tuple[str, ...] = ()


@kernel.node
def note_weight(weighed: Weighed) -> m.Total:
    return m.Total(str(weighed))


NOTES = m.machine_of(note_weight)


def stored_value(field: str, text: str, notes: tuple[str, ...] = ()) -> str:
    """Return a stored value with `text` in the place of one of its numbers."""
    whole = json.loads(Snapshot("note_weight", Weighed(1, 0.5, Exhausted("coins", 1, 1), notes)).to_json())
    data = whole["value"]["data"]
    (data["limit"] if field in LIMIT else data)[field] = "#"
    return json.dumps(whole).replace('"#"', text)


NUMBERS, NO_NUMBERS = ["count", "weight", "value", "reached", "wanted"], ["true", "false", '"3"', "null", "[]", "{}"]


@cases(("field", "text"), *itertools.product(NUMBERS, NO_NUMBERS), ("count", "1.0"), ("count", "1.5"))
@cases("notes", (), ("\ud800",))
def test_number_within_a_stored_value_is_not_converted(field: str, text: str, notes: tuple[str, ...]) -> None:
    assert "does not fit this graph" in snapshot_error(stored_value(field, text, notes), NOTES)


@cases("count", HUGE, -HUGE, 0)
@cases("note", "\ud800", "é", "")
def test_value_is_read_as_it_was_stored(count: int, note: str) -> None:
    at = Snapshot("note_weight", Weighed(count, math.inf, Exhausted("coins", abs(count), 0), (note,)))
    assert Snapshot.from_json(at.to_json(), NOTES) == at


@cases("field", "version", "node", "value", "replies", "spent", "entered", "open", "sequence", "run")
@cases("text", "true", "-1", "1e400", "NaN", format_json(HUGE), "[" * 100_000 + "]" * 100_000, "[" * 900 + "]" * 900)
def test_any_snapshot_field_is_read_or_refused(field: str, text: str) -> None:
    whole = stored_with(text, **{field: "#"})
    if (field, text) in [("entered", "true"), ("sequence", format_json(HUGE))]:
        assert Snapshot.from_json(whole, m.INTERVIEW).node == "interview"
    else:
        assert snapshot_error(whole)


def test_integers_of_any_size_are_stored_and_resumed() -> None:
    spent = Spent(iterations=HUGE, restarts=3 * HUGE + 7, meters={"coins": HUGE - 1, "#0": 1, "##": 2})
    at = Snapshot("weigh", m.Left(1), (Exhausted("coins", HUGE, HUGE, wanted=HUGE),), spent, sequence=HUGE)
    read = Snapshot.from_json(at.to_json(), SCALES)
    assert read == at
    assert (read.spent.iterations, read.sequence) == (HUGE, HUGE)
    at = Snapshot("tick", m.Tick(), spent=Spent(iterations=HUGE))
    done = m.CLOCK.run(at, handlers={}, limits=Limits(iterations=HUGE + 2), allow_nonterminating=True)
    assert done.spent.iterations == HUGE + 2
    assert str(done.outcome.limit) == "the limit of 1.0e+5000 iterations was reached (1.0e+5000 spent)"
    with pytest.raises(ValueError, match="4300 digits"):
        parse_json(f"[{'1234567890' * 800}]")


@cases("limits", {"iterations": HUGE}, {"fan_out": HUGE}, {"restarts": HUGE}, {"meters": {COINS: HUGE}})
def test_limits_of_any_size_are_limits(limits: Any) -> None:
    assert m.SELF_LOOP.verify(as_limits(**{"iterations": HUGE, **limits})).proved


# Any: type checkers refuse most of these.
as_limits: Any = Limits
TOO_MUCH = "is 1.0e+5000, more than a float can hold; give None for no limit"


@cases(
    ("make", "text"),
    (lambda: as_limits(seconds=HUGE), TOO_MUCH),
    (lambda: as_limits(meters={GRAMS: HUGE}), TOO_MUCH),
    (lambda: as_limits(iterations=-HUGE), "the limit iterations is -1.0e+5000; give 0 or more"),
    # Values whose repr fails are shown by their classes.
    (lambda: as_limits(iterations=_Unprintable()), "the limit iterations is <_Unprintable that cannot be shown>"),
    (lambda: as_limits(iterations=(HUGE,)), "the limit iterations is <tuple that cannot be shown>"),
)
def test_invalid_limit_is_shown_shortly(make: Callable[[], object], text: str) -> None:
    assert text in m.error_message(errors.LimitsError, make)


@given(
    st.recursive(
        st.none()
        | st.text()
        | st.integers()
        | st.sampled_from(["#0", "##1"])
        | st.sampled_from([1, -3]).map(HUGE.__mul__)
        | st.floats(allow_nan=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_holds_integers_of_any_size(data: Any) -> None:
    assert parse_json(format_json(data)) == data


@cases("text", "[" * 100_000, '{"a":' * 100_000, "", "nul", "[1")
def test_text_that_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)


@cases(
    ("number", "spec", "text"),
    (1234, ",", "1,234"),
    (10**30 - 1, "", "9" * 30),
    (10**30, "", "1.0e+30"),
    (-(10**30), ",", "-1.0e+30"),
    (HUGE, "", "1.0e+5000"),
    (HUGE - 1, "", "1.0e+5000"),
    (26 * 10**4999, "", "2.6e+5000"),
    (10**400_000, "", "1.0e+400000"),
)
def test_long_integers_are_shortened(number: int, spec: str, text: str) -> None:
    assert errors.format_integer(number, spec) == text
