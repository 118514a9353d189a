"""The prover's parts by themselves: ranks, the checker, certificates, and sums of products of limits."""

import dataclasses
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Limits, executor
from graphexec.errors import CertificateError
from graphexec.kernel.program import Rank, Ranks
from graphexec.verify.checker.check import check, check_ranks
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.certificate import Bound, Bounds, Certificate
from graphexec.verify.proof.flow import Flow, Transition, caps_of, flow_of, is_enabled, limits_of
from graphexec.verify.proof.polynomial import Polynomial, most
from graphexec.verify.proof.ranking import Core, exhaustible_budgets, rank_nodes
from tests.kernel.machines import error_message
from tests.parameters import cases
from tests.verify.flows import calling, end, flow_with, flows, gate, limits, longest_run, way
from tests.verify.proofs import certificate_of

# ---- ranks


@cases(
    ("ways", "limited", "found"),
    ([], "x", ()),
    ([way("a", "a", "x")], "x", ("x",)),
    ([way("a", "a", "x")], "y", ()),
    ([way("a", "a", "x"), way("a", "b", "", "x")], "x", ()),
    ([way("a", "a", "y x"), way("a", "b", "z")], "x y z", ("x", "y", "z")),
    ([way("a", "a", "y x", "z"), way("a", "b", "z")], "x z", ("x",)),
    ([Transition("a", "A", "a", spends=(("x", 0),))], "x", ()),
)
def test_exhaustible_budgets_are_limited_not_reset(ways: Any, limited: str, found: tuple[str, ...]) -> None:
    assert exhaustible_budgets(ways, frozenset(limited.split())) == found


@cases(
    ("ways", "ranks"),
    ([way("a", "b"), way("b", "c"), end("c")], {"a": ((3, ()),), "b": ((2, ()),), "c": ((1, ()),)}),
    # The rank of a loop recurses after its budgets.
    (
        [way("a", "b", "x"), way("b", "a"), way("b", "c"), end("c")],
        {"a": ((2, ("x",)), (1, ())), "b": ((2, ("x",)), (2, ())), "c": ((1, ()),)},
    ),
    # The inner loop spends y; the outer loop spends x and resets y.
    (
        [way("a", "b", "x", "y"), way("b", "b", "y"), way("b", "a"), end("a")],
        {"a": ((1, ("x",)), (1, ())), "b": ((1, ("x",)), (2, ("y",)), (1, ()))},
    ),
    # A component without a budget that runs out is a core,
    ([way("a", "b"), way("b", "a"), end("a")], [Core((way("a", "b"), way("b", "a")))]),
    # as is `a` to itself, which spends nothing, though the loop around it does.
    ([way("a", "b", "x"), way("b", "a"), way("a", "a")], [Core((way("a", "a"),))]),
)
def test_ranks_are_found_level_by_level(ways: list[Transition], ranks: object) -> None:
    assert rank_nodes(sorted({one.source for one in ways}), ways, ["x", "y"]) == ranks


def test_levels_and_cores_of_several_loops() -> None:
    ways = [way("a", "b", "x"), way("b", "a", "y"), way("b", "b", "z")]
    ranks = rank_nodes("ab", ways, ["x", "y", "z"])
    assert isinstance(ranks, dict)
    assert [ranks[name][0] for name in "ab"] == [(1, ("x", "y", "z"))] * 2
    # Nothing is left between them, so either may come first.
    assert sorted(ranks[name][1:] for name in "ab") == [((1, ()),), ((2, ()),)]
    ways = [way("a", "a"), way("a", "b"), way("b", "b", "x"), way("b", "c"), way("c", "c")]
    cores = rank_nodes("abc", ways, ["x"])
    assert isinstance(cores, list)
    assert {core.transitions for core in cores} == {(way("a", "a"),), (way("c", "c"),)}


def test_machine_may_be_deeper_than_python_stack() -> None:
    names = [str(number) for number in range(3_000)]
    ways = [way(here, there) for here, there in itertools.pairwise(names)]
    ranks = rank_nodes(names, [*ways, end(names[-1])], [])
    assert isinstance(ranks, dict)
    assert [ranks[name] for name in names] == [((number, ()),) for number in range(3_000, 0, -1)]


# ---- the checker: what it accepts, ends


NONE = Bound(None, None)


def certificate(ways: list[Transition], ranks: Mapping[str, Rank], **given: float | None) -> Certificate:
    """A certificate of the flow that starts with the first of the transitions."""
    return Certificate(flow_with(*ways), given, ranks, Bounds(NONE, {}, NONE))


def refusal(ways: list[Transition], ranks: Mapping[str, Rank], **given: float | None) -> str:
    with pytest.raises(CertificateError, match=r"^the certificate proves nothing: ") as caught:
        check_ranks(certificate(ways, ranks, **given))
    return str(caught.value).removeprefix("the certificate proves nothing: ")


LOOP = [way("a", "b", "x"), gate("a", "x"), way("b", "a"), end("b")]
LOOPED: Ranks = {"a": ((1, ("x",)), (1, ())), "b": ((1, ("x",)), (2, ()))}


SHORT = [way("a", "b"), end("b")]
FELL = "a --Tob--> b does not lower the rank"


@cases(
    ("ways", "ranks", "given"),
    (LOOP, LOOPED, {"x": 3}),
    (LOOP, LOOPED, {"x": 0}),
    (SHORT, {"a": ((1, ()),), "b": ((0, ()),)}, {}),
    # What comes behind the level that falls is not looked at.
    (SHORT, {"a": ((2, ()),), "b": ((1, ("y",)), (9, ("z",)))}, {}),
    (LOOP, {"a": ((5, ("x",)), (3, ())), "b": ((5, ("x",)), (4, ()), (7, ()))}, {"x": 3}),
)
def test_checker_accepts_falling_rank(ways: list[Transition], ranks: Ranks, given: dict[str, float | None]) -> None:
    check_ranks(certificate(ways, ranks, **given))


@cases(
    ("a", "b"),
    (((1, ()),), ((1, ()),)),
    (((1, ()),), ((2, ()),)),
    (((0, ()),), ((-1, ()),)),
    (((1, ()),), ((1, ()), (0, ()))),
    (((1, ()), (1, ())), ((1, ()),)),
)
def test_checker_refuses_constant_or_negative_rank(a: Rank, b: Rank) -> None:
    assert refusal(SHORT, {"a": a, "b": b}) == FELL


def spent_once(rank_a: Rank, rank_b: Rank, **given: float | None) -> Certificate:
    """A step that spends x and resets y, with ranks of its two ends."""
    return certificate([way("a", "b", "x", "y"), gate("a", "x"), end("b")], {"a": rank_a, "b": rank_b}, **given)


@cases("left", ("x",), ("x", "z"), ("z", "x"))
def test_checker_counts_whole_limits(left: tuple[str, ...]) -> None:
    check_ranks(spent_once(((1, left),), ((1, left),), x=1, z=0))


@cases(
    ("left", "left_then", "given"),
    # Not the same sum of the same budgets.
    (("x",), ("x", "z"), {"x": 1, "z": 1}),
    (("x",), (), {"x": 1}),
    ((), ("x",), {"x": 1}),
    # Not counted, or not in whole numbers, or not at all.
    (("x",), ("x",), {}),
    (("x",), ("x",), {"x": None}),
    (("x",), ("x",), {"x": -1}),
    (("x",), ("x",), {"x": 1.5}),
    (("x", "z"), ("x", "z"), {"x": 1}),
    # Reset, though another budget of the level is spent.
    (("x", "y"), ("x", "y"), {"x": 1, "y": 1}),
    # Not spent.
    (("z",), ("z",), {"x": 1, "z": 1}),
)
def test_checker_refuses_level_that_may_not_fall(
    left: tuple[str, ...], left_then: tuple[str, ...], given: dict[str, float | None]
) -> None:
    with pytest.raises(CertificateError, match=FELL):
        check_ranks(spent_once(((1, left),), ((1, left_then),), **given))


def test_constant_sums_and_zero_amounts_lower_no_rank() -> None:
    check_ranks(spent_once(((1, ("z",)), (2, ())), ((1, ("z",)), (1, ())), z=1))
    with pytest.raises(CertificateError):
        check_ranks(spent_once(((1, ("y",)), (2, ())), ((1, ("y",)), (1, ())), y=1))
    nothing, more = (Transition("a", "Tob", "b", spends=(("x", amount),)) for amount in (0, 2))
    ranks: Ranks = {"a": ((1, ("x",)),), "b": ((1, ("x",)),)}
    assert refusal([nothing, gate("a", "x"), end("b")], ranks, x=3) == FELL
    check_ranks(certificate([more, gate("a", "x"), end("b")], ranks, x=3))


def test_limit_transitions_lower_rank() -> None:
    ways = [way("a", "a", "x"), gate("a", "x", "b"), end("b")]
    ranks: Ranks = {"a": ((1, ("x",)),), "b": ((1, ()),)}
    assert refusal(ways, ranks, x=2) == FELL
    check_ranks(certificate(ways, {"a": ((1, ("x",)),), "b": ((0, ()),)}, x=2))
    within = [end("a"), way("a", "a", kind="within", causes=("seconds",))]
    check_ranks(certificate(within, {"a": ((1, ()),)}))
    assert refusal(within, {"a": ((1, ()),)}, seconds=0.5) == "a --Toa--> a does not lower the rank"


def test_checker_requires_rank_and_transition() -> None:
    assert "b has no rank, or no transition" in refusal(SHORT, {"a": ((1, ()),)})
    assert "a has no rank, or no transition" in refusal(SHORT, {"b": ((1, ()),)})
    assert refusal([way("a", "b")], {"a": ((1, ()),), "b": ((0, ()),)}) == "b has no rank, or no transition"
    bad = certificate(SHORT, {"a": ((1, ()),), "b": ((0, ()),)})
    for flow in (dataclasses.replace(bad.flow, start="c"), dataclasses.replace(bad.flow, nodes=(*bad.flow.nodes, "c"))):
        with pytest.raises(CertificateError, match=r": c has no rank, or no transition$"):
            check_ranks(dataclasses.replace(bad, flow=flow))
    # END may have any rank.
    assert "c has no rank, or no transition" in refusal([end("a"), way("a", "c")], {"a": ((1, ()),)})


def test_checker_requires_gate_for_every_entry_cost() -> None:
    ranks: Ranks = {"a": ((1, ()),)}
    both = end("a", "x y")
    assert refusal([both], ranks, x=1, y=1) in ("a has no gate for x, y", "a has no gate for y, x")
    assert "has no gate for" in refusal([both, gate("a", "x")], ranks, x=1, y=1)
    check_ranks(certificate([both, gate("a", "x y")], ranks, x=1, y=1))
    # What stands at a gate is no cost of the entry.
    costly = end("a", "y", kind="gate", causes=("x",))
    check_ranks(certificate([end("a", "x"), costly], ranks, x=1, y=1))
    # What an effect costs leaves by another way.
    asking = end("a", "model_calls tool_calls tokens", **calling(models=1, tools=1))
    check_ranks(certificate([asking], ranks, model_calls=1))
    # Of two ways that are no gates, each may cost something.
    inside = end("a", "x", kind="within", causes=("seconds",))
    assert refusal([end("a"), inside], ranks, x=1) == "a has no gate for x"


def test_all_faults_are_reported_together() -> None:
    text = refusal([way("a", "b"), way("b", "a"), way("b", "c")], {"a": ((1, ()),), "b": ((1, ()),)})
    assert text.split("; ") == [
        "c has no rank, or no transition",
        "a --Tob--> b does not lower the rank",
        "b --Toa--> a does not lower the rank",
        "b --Toc--> c does not lower the rank",
    ]


@given(flow=flows(), given_limits=limits(), data=st.data())
def test_accepted_ranks_imply_termination(flow: Flow, given_limits: Limits, data: Any) -> None:
    known = limits_of(flow, given_limits)
    caps = caps_of(flow, known)
    transitions = [one for one in flow.transitions if is_enabled(one, known)]
    found = rank_nodes(flow.nodes, transitions, [name for name, cap in caps.items() if cap is not None])
    levels = st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([(), ("iterations",), ("drafts",), ("drafts", "questions")])),
        max_size=3,
    ).map(tuple)
    ranks: dict[str, Rank] = {name: data.draw(levels) for name in flow.nodes}
    if isinstance(found, dict):
        # The prover's own, with one node's changed at most.
        changed = data.draw(st.sampled_from([None, *flow.nodes]))
        ranks = {name: ranks[name] if name == changed else rank for name, rank in found.items()}
    made = Certificate(flow, {**caps, "seconds": given_limits.seconds}, ranks, Bounds(NONE, {}, NONE))
    try:
        check_ranks(made)
    except CertificateError:
        # What the prover finds is accepted.
        assert not isinstance(found, dict) or ranks != found
    else:
        assert longest_run(flow, given_limits) is not None


def test_wrong_certificate_message_names_both_digests() -> None:
    proved = certificate_of(executor.AGENT_EXECUTOR)
    other = dataclasses.replace(proved, flow=dataclasses.replace(proved.flow, start="parse"))
    assert proved.digest == flow_of(executor.AGENT_EXECUTOR).digest
    digests = f"{other.digest[:12]}, not {proved.digest[:12]}"
    fault = f"the certificate is for another machine ({digests}); prove this one again"
    assert error_message(CertificateError, check, other, executor.AGENT_EXECUTOR) == fault
    assert len(proved.digest) == 64


# ---- certificates as text

STRANGE = Certificate(
    flow_with(
        way("a", "b", "x", "y", causes=("z",), kind="within", **calling(models=None, tools=3)), end("b"), x=3, y=None
    ),
    {"x": 3, "seconds": 1.5, "y": None},
    {"a": ((2, ("x", "y")), (1, ())), "b": ((1, ()),)},
    Bounds(
        Bound("x + 1", 4, exact=True, value=5),
        {"model_calls": Bound(None, None), "pages": Bound("0", 0)},
        Bound("seconds", 1.5, value=1.5),
    ),
)


def test_certificate_round_trips_through_json() -> None:
    text = STRANGE.to_json()
    assert Certificate.from_json(text) == STRANGE
    assert text.startswith('{\n  "graphexec_certificate": 3,\n  "digest": "')
    assert json.loads(text)["digest"] == STRANGE.flow.digest
    again = Certificate.from_json(text)
    assert hash(again.flow) == hash(STRANGE.flow)
    assert again.ranks is not None
    assert [type(one) for one in (again.flow.nodes, again.ranks["a"], again.ranks["a"][0][1])] == [tuple] * 3
    certificate = certificate_of(executor.AGENT_EXECUTOR)
    data = json.loads(certificate.to_json())
    assert Certificate.from_json(json.dumps(dict(reversed(data.items())))) == certificate


def changed(*gone: str, **changes: Any) -> str:
    """Return the text of the certificate without some parts, and with some replaced."""
    data = {**json.loads(STRANGE.to_json()), **changes}
    return json.dumps({name: part for name, part in data.items() if name not in gone})


NOT_ONE, CHANGED = "^this is not a certificate: ", "was changed since it was made; prove the machine again$"
UNDECODABLE: list[Any] = [b"\xff\xfe", b'{"graphexec_certificate": "\xc3"}', b"\x00", b""]
TOO_MUCH = ["[" * 100_000 + "]" * 100_000, "1e400", f'{{"graphexec_certificate": 1{"0" * 5000}}}']


@cases(
    ("text", "fault"),
    ("{", rf"{NOT_ONE}JSONDecodeError\(.*; pass what to_json wrote$"),
    *((text, NOT_ONE) for text in ("", "[]", "{}")),
    *((text, "certificate") for text in (*UNDECODABLE, *TOO_MUCH)),
    ('{"graphexec_certificate": 3, "flow": {}}', "is broken: .*; prove the machine again$"),
    (changed(graphexec_certificate=1), "has version 1.* graphexec reads version 3; prove the machine again$"),
    (STRANGE.to_json().replace('"outcome": "Tob"', '"outcome": "Toc"'), CHANGED),
    (STRANGE.to_json().replace('"number": 4', '"number": 5'), CHANGED),
    *((changed(**{name: None}), CHANGED) for name in ("ranks", "digest", "sha256")),
    *((changed(**{name: "0"}), CHANGED) for name in ("digest", "sha256")),
    *((changed(name), CHANGED) for name in ("digest", "sha256")),
    (changed(limits={"iterations": 3}), CHANGED),
)
def test_text_that_is_no_certificate_is_refused_with_remedy(text: Any, fault: str) -> None:
    with pytest.raises(CertificateError, match=fault) as caught:
        Certificate.from_json(text)
    assert caught.value.__suppress_context__ or not fault.startswith(NOT_ONE)


@cases(
    ("bound", "text"),
    (Bound(None, None), "no bound"),
    (Bound("measure(a) + 1", None), "measure(a) + 1 (at most, with the measure of the first visit)"),
    (Bound(None, 12), "12 (at most)"),
    (Bound(None, 1234567, exact=True), "1,234,567 (exact)"),
    (Bound("0", 0, exact=True, value=0), "0 (exact)"),
    (Bound("12", 12, value=12), "12 (at most)"),
    (Bound("4*x + 2", 14, exact=True, value=14), "4*x + 2 = 14 (exact)"),
    (Bound("4*x + 2", 14), "4*x + 2 = 14 (at most)"),
    (Bound("4*x + 2", 12, exact=True, value=14), "at most 4*x + 2, here 12 (exact)"),
    (Bound("4*x + 2", 12, value=14), "at most 4*x + 2, here 12 (at most)"),
    (Bound("seconds", 1.5, value=1.5), "seconds = 1.5 (at most)"),
    (Bound("seconds", 60.0, value=60.0), "seconds = 60 (at most)"),
    (Bound("seconds", 1234.5, value=1234.5), "seconds = 1,234.5 (at most)"),
)
def test_a_bound_can_be_read(bound: Bound, text: str) -> None:
    assert str(bound) == text


# ---- sums of products

NAMES = ("x", "y", "z")
X, Y, Z = map(polynomial.name, NAMES)
ONE = polynomial.number(1)


def number(value: int) -> Polynomial:
    return polynomial.number(value)


@cases(
    ("made", "text"),
    (number(0), "0"),
    (number(7), "7"),
    (number(-7), "-7"),
    (ONE, "1"),
    (number(-1), "-1"),
    (X, "x"),
    (number(4) * X + number(2), "4*x + 2"),
    (X * X * Y - X - ONE, "x*x*y - x - 1"),
    (number(-2) * X + Y, "-2*x + y"),
    (number(-1) * X, "-x"),
    (Y * X + Z + X + number(3), "x*y + x + z + 3"),
    (X - X, "0"),
    (X + X, "2*x"),
    (X * number(0), "0"),
    ((X + ONE) * (X - ONE), "x*x - 1"),
    # A maximum is taken term by term.
    ((X * number(2) + ONE).or_more(X + number(5)), "2*x + 5"),
    ((X - ONE).or_more(Y), "x + y"),
    (number(-3).or_more(number(-2)), "-2"),
    (most([]), "0"),
    (most([X]), "x"),
    (most(iter([X, number(2) * X, Y])), "2*x + y"),
    (most([X, number(0)]), "x"),
)
def test_sum_of_products_has_usual_notation(made: Polynomial, text: str) -> None:
    assert str(made) == text


@st.composite
def polynomials(draw: st.DrawFn) -> Polynomial:
    made = number(0)
    for coefficient, factors in draw(
        st.lists(st.tuples(st.integers(-4, 4), st.lists(st.sampled_from((X, Y, Z)), max_size=3)), max_size=4)
    ):
        term = number(coefficient)
        for factor in factors:
            term = term * factor
        made = made + term
    return made


POINTS = st.fixed_dictionaries({name: st.integers(0, 6) for name in NAMES})


@given(polynomials(), polynomials(), POINTS)
def test_sums_and_products_have_correct_values(one: Polynomial, other: Polynomial, point: dict[str, int]) -> None:
    assert (one + other).at(point) == one.at(point) + other.at(point)
    assert (one - other).at(point) == one.at(point) - other.at(point)
    assert (one * other).at(point) == one.at(point) * other.at(point)
    assert (one * other, one + other, one - one) == (other * one, other + one, number(0))


@given(polynomials(), polynomials(), POINTS)
def test_maximum_is_at_least_both(one: Polynomial, other: Polynomial, point: dict[str, int]) -> None:
    more = one.or_more(other)
    assert more.at(point) >= max(one.at(point), other.at(point))
    assert more == other.or_more(one)
    assert one.or_more(one) == one
