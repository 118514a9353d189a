"""Certificates with one part exchanged, and sums that fit: each is refused with a word on what is wrong."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import Limits, errors
from graphexec.kernel.meters import FrozenMapping
from graphexec.verify import Certificate, check
from graphexec.verify.proof.certificate import Potential
from graphexec.verify.proof.prove import prove_flow
from tests.parameters import cases
from tests.verify.flows import end, flow_with, gate, way
from tests.verify.proofs import certificate_of, prove, refuse, with_bound
from tests.verify.tampering import (
    CHANGES,
    COUNTING,
    GONE,
    HUGE,
    JSON,
    MACHINES,
    TIDYING,
    Path,
    Tampering,
    backwards,
    changed,
    doubled,
    exchange,
    less,
    more,
    paths,
    proof_data,
    sealed,
    shorter,
)

TRANSITIONS: Path = ("bounds", "transitions")
MODELS: Path = ("bounds", "meters", "model_calls")
TOOLS: Path = ("bounds", "meters", "tool_calls")
SECONDS: Path = ("bounds", "seconds")
LINES: Path = (*TRANSITIONS, "potential", "lines")
TOOL_LIMIT: Path = (*TOOLS, "potential", "limits")
STATES: Path = (*TRANSITIONS, "potential", "states")
# Of the agent: plan --Replied--> parse.
FIRST: Path = ("flow", "transitions", 0)
FORM: Path = (*TRANSITIONS, "form")


def other(value: str) -> str:
    return f"{value}s"


def without_the_first(value: Any) -> Any:
    return value[1:]


# Any: JSON data.
def with_cents(meters: Any) -> Any:
    return {**meters, "cents": meters["tool_calls"]}


def with_thirteen(bound: Any) -> Any:
    return {**bound, "number": 13, "value": 13, "form": "13"}


def without_slopes(line: Any) -> Any:
    return [line[0], []]


def one(machine: str, message: str, path: Path, *values: Any) -> list[Tampering]:
    """A change of one place for each of some values."""
    return [Tampering(machine, ((path, value),), message) for value in values]


PLACES_OF_NUMBERS: list[Path] = [
    (*TRANSITIONS, "number"),
    (*MODELS, "value"),
    (*LINES, "plan", 0),
    (*LINES, "plan", 1, 0, 1),
    ("ranks", "plan", 0, 0),
    ("limits", "iterations"),
    (*FIRST, "asks"),
    (*FIRST, "spends", 0, 1),
    (*FIRST, "grace"),
]
NO_RUNS: dict[str, Any] = {"meter": "a", "attempts": 1, "charges": [], "unproved": []}
NO_NUMBER: list[Any] = [True, "14", [], {}, float("nan"), float("inf")]

NUMBERS = [
    *one("agent", "bound on transitions is not proved", (*TRANSITIONS, "number"), less, more, 0, -1, 14.0, HUGE, None),
    *one("agent", "bound on model calls is not proved", (*MODELS, "number"), less, more, 0, None),
    *one("agent", "bound on tool calls is not proved", (*TOOLS, "number"), less, more, 0, None),
    *one("agent", "a run can take 9.05 seconds", (*SECONDS, "number"), 9, 0, -1),
    *one("generating", "a run can take 40.05 seconds", (*SECONDS, "number"), 30.05, less),
    *one("strict", "closed form of the seconds is 5", (*SECONDS, "form"), "5"),
    *one("strict", "a run can take inf seconds", (*SECONDS, "number"), 5),
    *one("agent", "does not state the assumption", (*SECONDS, "assuming"), None, "nothing"),
    *one("agent", "does not state the assumption", (*SECONDS, "exact"), True),
    *one("agent", "closed form of the seconds is", (*SECONDS, "form"), "seconds", "1"),
    *one("agent", "closed form of the seconds is", (*SECONDS, "value"), 1, None),
    *one("agent", "in its closed form is not a limit", FORM, "4*rounds + 2", "", f"1{'0' * 5000}", "model_calls"),
    *one("agent", "closed form has the value", FORM, "4*iterations", "2", "4*iterations - 2"),
    *one("agent", "closed form has the value", (*TRANSITIONS, "value"), less, more, None),
    *one("agent", "it has a value, but no closed form", FORM, None),
    *one("agent", "meters that it bounds are not those", ("bounds", "meters", "model_calls"), GONE),
    *one("agent", "meters that it bounds are not those", ("bounds", "meters"), with_cents, {}),
    *one("resetting", "bound on transitions is not proved", (*TRANSITIONS, "number"), less, more),
    *one("embedding", "bound on tool calls is not proved", (*TOOLS, "number"), less, more),
    *one("agent", "the potential proves 14, but the bound says 13", TRANSITIONS, with_thirteen),
]

POTENTIALS = [
    *one("agent", "no potential", (*TRANSITIONS, "potential"), None),
    *one("agent", "counts more than the potential", (*LINES, "parse", 0), less, 0, -HUGE),
    *one("agent", "counts more than the potential", (*LINES, "dispatch_tools"), without_slopes, GONE),
    *one("agent", "counts more than the potential", (*LINES, "stopped_response", 0), 0),
    *one("agent", "has a negative slope", (*LINES, "plan", 1, 0, 1), -4),
    *one("agent", "counts more than the potential", (*LINES, "plan"), GONE),
    *one("agent", "counts more than the potential", (*LINES, "plan", 0), more, less),
    *one("agent", "plan has no potential", LINES, {}),
    *one("agent", "depends on something that has no limit", (*LINES, "plan", 1, 0, 0), "model_calls", "rounds"),
    *one("agent", "limits do not bound it", TOOL_LIMIT, [["tool_calls", 0]], [["model_calls", 1]]),
    *one("agent", "limits do not bound it", TOOL_LIMIT, [["iterations", 1]], [["rounds", 1]]),
    *one("agent", "is not proved", TOOL_LIMIT, [], [["tool_calls", HUGE]]),
    *one("agent", "limits do not bound it", (*TRANSITIONS, "potential", "limits"), [["iterations", 4]]),
    *one("generating", "is not proved", (*MODELS, "potential", "lines", "stopped_response", 0), 0),
    *one("embedding", "counts more than the potential", (*LINES, "deliver", 1, 0, 1), less),
    *one("embedding", "counts more than the potential", (*LINES, "take_on", 0), less),
    *one("resetting", "counts more than the potential", (*STATES, 0, 2), 0, -HUGE),
    *one("resetting", "counts more than the potential", STATES, without_the_first),
    *one("resetting", "counts more than the potential", (*TRANSITIONS, "potential", "counters"), backwards),
    *one("states", "does not have a value for each counter", (*STATES, 0, 1), [], [0, 0]),
    *one("states", "does not have a value for each counter", (*TRANSITIONS, "potential", "counters"), [], doubled),
    *one("states", "potential does not reach the start", STATES, shorter),
    *one("states", "counts more than the potential", STATES, without_the_first),
    *one("states", "the potential proves", (*STATES, 1, 2), more),
    *one("states", "depends on something that has no limit", (*TRANSITIONS, "potential", "counters"), ["seconds"]),
]

RANKS = [
    *one("agent", "does not lower the rank", ("ranks", "plan", 1, 0), 9),
    *one("agent", "does not lower the rank", ("ranks", "plan", 0, 0), more, -1),
    *one("agent", "does not lower the rank", ("ranks", "plan", 0, 1), [], ["tool_calls"], ["model_calls"], ["rounds"]),
    *one("agent", "does not lower the rank", ("ranks", "stopped_response", 0, 0), more),
    *one("agent", "plan has no rank", ("ranks", "plan"), GONE),
    *one("agent", "does not lower the rank", ("ranks", "parse"), shorter, []),
    *one("agent", "does not lower the rank", ("ranks", "dispatch_tools"), shorter, []),
    *one("agent", "does not lower the rank", ("ranks", "dispatch_tools", 0, 1), []),
    *one("agent", "does not lower the rank", ("ranks", "check_return_direct"), shorter, []),
    *one("agent", "does not lower the rank", ("ranks", "check_return_direct", 0, 1), []),
    *one("resetting", "does not lower the rank", ("ranks", "write", 0, 1), ["revisions"]),
    *one("embedding", "does not lower the rank", ("ranks", "deliver", 0, 1), ["research.iterations"]),
]

LIMITS = [
    *one("agent", "does not lower the rank", ("limits", "iterations"), -1, 1.5, 2.5, None),
    *one("agent", "invalid limits", ("limits", "restarts"), -1, 0.5),
    *one("agent", "invalid limits", ("limits", "seconds"), -9, HUGE),
    *one("agent", "invalid limits", ("limits", "fan_out"), -2, 1e300),
    *one("agent", "invalid limits", ("limits", "model_calls"), -2),
    *one("agent", "is not proved", ("limits", "iterations"), more, HUGE),
    *one("agent", "the certificate proves nothing", ("limits", "iterations"), GONE),
    *one("agent", "is not proved", ("limits", "restarts"), more),
    *one("agent", "is not proved", ("limits", "tool_calls"), more, None, GONE),
    *one("agent", "a run can take", ("limits", "seconds"), more, None),
    *one("strict", "is not proved", ("limits", "fan_out"), None),
    *one("resetting", "the certificate proves nothing", ("limits", "revisions"), None),
]

OF_ANOTHER = [
    *one("agent", "is for another machine", ("flow", "transitions"), shorter, doubled, backwards),
    *one("agent", "is for another machine", ("flow", "start"), "parse", other),
    *one("agent", "is for another machine", ("flow", "nodes"), shorter, doubled),
    *one("agent", "is for another machine", ("flow", "measured"), [], ["model_calls"]),
    *one("resetting", "is for another machine", ("flow", "budgets", 0, 1), more, None),
    *one("agent", "is for another machine", (*FIRST, "source"), "parse"),
    *one("agent", "is for another machine", (*FIRST, "target"), "END", "plan"),
    *one("agent", "is for another machine", (*FIRST, "outcome"), other),
    *one("agent", "is for another machine", (*FIRST, "kind"), "gate", "within"),
    *one("agent", "is for another machine", (*FIRST, "spends"), [], [["iterations", 2]]),
    *one("agent", "is for another machine", (*FIRST, "resets"), ["iterations"]),
    *one("agent", "is for another machine", (*FIRST, "causes"), ["seconds"]),
    *one("agent", "is for another machine", (*FIRST, "most"), 0, None, HUGE),
    *one("agent", "is for another machine", (*FIRST, "asks"), 0, -1),
    *one("agent", "is for another machine", (*FIRST, "effect_charges"), []),
    *one("agent", "is for another machine", (*FIRST, "grace"), 0, 5.5),
    *one("agent", "is for another machine", ("flow",), proof_data("strict")["flow"]),
]

INVALID = [
    *[row for path in PLACES_OF_NUMBERS for row in one("agent", "this certificate is broken", path, *NO_NUMBER)],
    *one("agent", "this certificate is broken", (*LINES, "plan", 0), 2.0, "2", None),
    *one("agent", "this certificate is broken", (*TRANSITIONS, "exact"), 1, 0, None, "true"),
    *one("agent", "this certificate is broken", FORM, 14, [], True),
    *one("agent", "this certificate is broken", (*SECONDS, "assuming"), 1, {}),
    *one("agent", "this certificate is broken", ("ranks", "plan", 0, 0), 2.0),
    *one("agent", "this certificate is broken", ("ranks", "plan", 0, 1), "iterations", [1], None),
    *one("agent", "this certificate is broken", ("flow", "nodes"), "plan", [None], [["plan"]]),
    *one("agent", "this certificate is broken", ("flow", "start"), 1, None, ["plan"]),
    *one("agent", "this certificate is broken", (*FIRST, "kind"), "jump", 1, []),
    *one("agent", "this certificate is broken", (*FIRST, "spends", 0, 1), -1.5, "1", 1.0),
    *one("agent", "this certificate is broken", (*FIRST, "asks"), 1.0),
    *one("agent", "this certificate is broken", ("flow",), None, [], GONE),
    *one("agent", "this certificate is broken", ("limits",), None, [], GONE),
    *one("agent", "this certificate is broken", ("ranks",), [], GONE),
    *one("strict", "it claims to hold within other runs, but has neither ranks", ("ranks",), None),
    *one("agent", "are not those of the certificate", ("nested",), [NO_RUNS]),
    *one("agent", "this certificate is broken", ("bounds",), None, [], GONE),
    *one("agent", "this certificate is broken", (*TRANSITIONS, "potential"), [], "none", 3),
    *one("agent", "this certificate is broken", (*TRANSITIONS, "potential", "lines"), [], None),
    *one("resetting", "this certificate is broken", (*STATES, 0), [], ["revise"], ["revise", "20", 1]),
    *one("resetting", "this certificate is broken", (*STATES, 0), [["revise"], [2, 0], 1]),
    *one("agent", "this graphexec reads version 3", ("graphexec_certificate",), 2, 4, "3", None, [], HUGE),
    *one("agent", "this is not a certificate", ("graphexec_certificate",), GONE),
]


@pytest.mark.medium
@cases("tampering", *NUMBERS, *POTENTIALS, *RANKS, *LIMITS, *OF_ANOTHER, *INVALID)
def test_tampered_certificate_is_refused(tampering: Tampering) -> None:
    machine, _ = MACHINES[tampering.machine]
    with pytest.raises(errors.CertificateError, match=tampering.message):
        check(Certificate.from_json(tampering.apply()), machine)


@cases("name", *MACHINES)
def test_a_certificate_of_another_machine_is_refused(name: str) -> None:
    certificate = Certificate.from_json(sealed(proof_data(name)))
    check(certificate, MACHINES[name][0])
    for machine in (machine for machine, _ in MACHINES.values() if machine is not MACHINES[name][0]):
        refuse(certificate, "is for another machine", machine)


@pytest.mark.medium
@cases("text", "[" * 100_000 + "]" * 100_000, '{"a": ' * 900 + "1" + "}" * 900)
def test_certificate_with_deep_json_is_refused(text: str) -> None:
    data = proof_data("agent")
    for path in dict.fromkeys(path[:4] for path in paths(data)):
        if path[0] not in ("digest", "sha256"):
            with pytest.raises(errors.CertificateError):
                Certificate.from_json(sealed(changed(data, path, "#here"), **{"#here": text}))


def claiming(certificate: Certificate, number: int, potential: Potential) -> Certificate:
    """Return the certificate with another number of transitions and its potential."""
    return with_bound(certificate, "transitions", number=number, form=None, value=None, potential=potential)


# A table of states without the iterations does not know that some are left, so that no gate is taken; a gate may be
# taken with any amount left.
@cases(
    ("iterations", "potential"),
    *((left, Potential({}, states=(("write", (), left),))) for left in (0, 1)),
    (1, Potential({"write": (1, ())})),
)
def test_gate_may_open_with_any_amount_left(iterations: int, potential: Potential) -> None:
    forged = claiming(certificate_of(TIDYING, Limits(iterations=iterations)), iterations, potential)
    refuse(forged, "write --GivenUp--> tidy counts more than the potential falls", TIDYING)


@cases("potential", Potential({"a": (1, (("y", 1),))}), Potential({}, states=(("a", (), 3),)))
def test_loop_that_resets_its_budget_has_no_potential(potential: Potential) -> None:
    """Its rank is another budget's, and its potential is that of the one that is full again after each round."""
    flow = flow_with(way("a", "a", "x y", "y"), end("a", "x y"), gate("a", "x y"), x=9, y=2)
    forged = claiming(prove(flow, Limits(iterations=None)), 3, potential)
    refuse(forged, "a --Toa--> a counts more than the potential falls")


def test_a_meter_may_be_named_transitions() -> None:
    certificate = certificate_of(COUNTING)
    bounds = certificate.bounds
    assert (bounds.transitions.number, bounds.meters["transitions"].number) == (2, 1)
    forged = dataclasses.replace(bounds, transitions=bounds.meters["transitions"])
    refuse(dataclasses.replace(certificate, bounds=forged), "the bound on transitions is not proved", COUNTING)


@given(data=JSON)
def test_any_json_is_a_certificate_or_refused(data: Any) -> None:
    with pytest.raises(errors.CertificateError):
        Certificate.from_json(json.dumps(data))


@pytest.mark.medium
@settings(max_examples=10 * settings().max_examples)
@given(name=st.sampled_from(sorted(MACHINES)), data=st.data())
def test_a_changed_value_is_refused_or_proved(name: str, data: st.DataObject) -> None:
    """With another value, one of another place, or one that is a little more or less."""
    machine, _ = MACHINES[name]
    proof = proof_data(name)
    places = paths(proof)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(places))
        proof = exchange(proof, path, data.draw(st.sampled_from(CHANGES)), data.draw(JSON))
    try:
        certificate = Certificate.from_json(sealed(proof))
        check(certificate, machine)
    except errors.CertificateError:
        return
    true, _ = prove_flow(certificate.flow, limits_of(certificate))
    assert true is not None
    for (_, bound), (_, found) in zip(certificate.bounds.rows(), true.bounds.rows(), strict=True):
        if bound.number is not None and found.exact:
            assert found.number is not None
            assert bound.number >= found.number


def limits_of(certificate: Certificate) -> Limits:
    known = dict(certificate.limits)
    named: Any = {name: known.pop(name, None) for name in ("iterations", "seconds", "fan_out", "restarts")}
    own = {name for name, _ in certificate.flow.budgets}
    meters = {name: limit for name, limit in known.items() if limit is not None or name in own}
    return Limits(FrozenMapping(meters), **named)


@cases("limit", True, -1, "3", float("nan"))
def test_checker_also_validates_limits(limit: Any) -> None:
    certificate = Certificate.from_json(sealed(proof_data("agent")))
    limits = {**certificate.limits, "tool_calls": limit}
    refuse(dataclasses.replace(certificate, limits=limits), "invalid limits: 'tool_calls' is ")
