"""Defects of the prover, and of the checker that should find them."""

from tests.defects.defect import Change, Defect

_VERIFY = "tests/verify/test_"
_TAMPERED = f"{_VERIFY}tampered_certificates.py::test_tampered_certificate_is_refused"
_CHECKER, _NUMBERS = "verify/checker/check.py", "verify/checker/numbers.py"
_POTENTIALS = "verify/checker/potentials.py"

PROVING = (
    Defect(
        "forged number accepted",
        f"{_VERIFY}numbers.py::test_forged_number_is_refused",
        Change(_NUMBERS, "if bound.number != most:", "if bound.number > most:"),
    ),
    Defect(
        "potential not compared at gates",
        f"{_VERIFY}tampered_certificates.py::test_gate_may_open_with_any_amount_left",
        Change(
            _POTENTIALS,
            "    for one, weight in possible:\n        there =",
            '    for one, weight in possible:\n        if one.kind == "gate":\n            continue\n        there =',
        ),
    ),
    # The potential of a table of states.
    Defect(
        "potential of states not compared",
        _TAMPERED,
        Change(_POTENTIALS, "if behind is None or weight + behind > value:", "if behind is None:"),
    ),
    Defect(
        "resets forgotten by the prover's potential",
        f"{_VERIFY}numbers.py::test_nested_resets_are_bounded",
        Change("verify/proof/potential.py", "base = base + slope * self._caps[name]", "pass"),
    ),
    Defect(
        "resets forgotten by the checker's potential",
        f"{_VERIFY}tampered_certificates.py::test_loop_that_resets_its_budget_has_no_potential",
        Change(_POTENTIALS, "slope * (cap if name in one.resets else left - amount)", "slope * (left - amount)"),
    ),
    Defect(
        "resets forgotten in a table of states",
        f"{_VERIFY}tampered_certificates.py::test_a_certificate_of_another_machine_is_refused",
        Change(_POTENTIALS, "                    after[place[name]] = caps[name]\n", "                    pass\n"),
    ),
    Defect(
        "gate shut by a counter that is missing",
        f"{_VERIFY}tampered_certificates.py::test_gate_may_open_with_any_amount_left",
        Change(_POTENTIALS, "name in place and left[place[name]] for", "name not in place or left[place[name]] for"),
    ),
    Defect(
        "reserved calls not counted",
        _TAMPERED,
        Change(_POTENTIALS, "(potential.limits and not one.reserved)", "potential.limits"),
    ),
    Defect(
        "seconds without grace",
        _TAMPERED,
        Change(_NUMBERS, "beyond = certificate.flow.grace + GRACE", "beyond = GRACE"),
    ),
    Defect(
        "seconds without their assumption",
        _TAMPERED,
        Change(_NUMBERS, "bound.exact or bound.assuming != TIMELY", "bound.exact"),
    ),
    Defect(
        "closed form not compared",
        f"{_VERIFY}numbers.py::test_a_form_without_its_value_is_refused",
        Change(_NUMBERS, "        if total == bound.value and total >= (bound.number or 0)\n", "        if True\n"),
    ),
    Defect(
        "calls after crashes not counted by the prover",
        f"{_VERIFY}bounds.py::test_repeated_effects_after_crash_are_counted",
        Change("verify/proof/potential.py", "    if not limits.restarts:\n", "    if True:\n"),
    ),
    Defect(
        "meter mistaken for the transitions",
        f"{_VERIFY}tampered_certificates.py::test_a_meter_may_be_named_transitions",
        Change(_NUMBERS, "((None, bounds.transitions), *own", '(("transitions", bounds.transitions), *own'),
    ),
    Defect(
        "limits of a certificate not compared",
        f"{_VERIFY}tampered_certificates.py::test_checker_also_validates_limits",
        Change(_CHECKER, "    faults = list(_invalid_limits(certificate))\n", "    faults: list[str] = []\n"),
    ),
    Defect(
        "digits in a string read as a number",
        _TAMPERED,
        Change(
            "verify/proof/certificate.py", "_read_string(name), _read_whole(amount)", "_read_string(name), int(amount)"
        ),
    ),
    Defect(
        "reset within a rank",
        f"{_VERIFY}prover_details.py::test_checker_refuses_level_that_may_not_fall",
        Change(_CHECKER, " or not {*budgets}.isdisjoint(one.resets)", ""),
    ),
    Defect(
        "reset budgets counted as running out",
        f"{_VERIFY}prover_details.py::test_exhaustible_budgets_are_spent_limited_not_reset",
        Change("verify/proof/ranking.py", "sorted((spent & limited) - reset)", "sorted(spent & limited)"),
    ),
    Defect(
        "gate not required for every entry cost",
        f"{_VERIFY}prover_details.py::test_checker_requires_gate_for_every_entry_cost",
        Change(_CHECKER, "entry <= {*one.causes} for", "entry & {*one.causes} for"),
    ),
)
