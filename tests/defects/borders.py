"""Defects in the validation of counts: from replies, snapshots, limits and asking nodes."""

from tests.defects.defect import Change, Defect

_KERNEL = "tests/kernel/test_"

BORDERS = (
    Defect(
        "fan-out not enforced",
        f"{_KERNEL}asking_counts.py::test_visit_may_ask_for_fan_out_effects",
        Change("kernel/counters.py", "if asked > step.fan_out:", "if False:"),
    ),
    # Only the first member of a batch is counted.
    Defect(
        "members of a batch not in the fan-out",
        f"{_KERNEL}asking_counts.py::test_wide_batch_is_refused_by_default",
        Change("kernel/execution.py", "asked += count", "asked += 1"),
    ),
    Defect(
        "usage that is not whole accepted",
        f"{_KERNEL}hostile_counts.py::test_invalid_amount_of_a_whole_meter_is_refused",
        Change("kernel/effects.py", "is_count(amount, whole=meter.whole)", "is_count(amount, whole=False)"),
    ),
    Defect(
        "negative spending accepted",
        f"{_KERNEL}hostile_counts.py::test_spent_refuses_invalid_counts",
        Change("kernel/meters.py", "(is_whole(value) and value >= 0 if whole", "(is_whole(value) if whole"),
    ),
    Defect(
        "true taken for 1",
        f"{_KERNEL}hostile_counts.py::test_stored_counts_that_are_invalid_are_refused",
        Change("kernel/meters.py", "isinstance(value, int) and not isinstance(value, bool)", "isinstance(value, int)"),
    ),
    Defect(
        "budgets mutable",
        f"{_KERNEL}limits.py::test_limits_are_values",
        Change("kernel/meters.py", '("budgets", own),', '("budgets", budgets or {}),'),
        raises="TypeError: unhashable type: 'dict'",
    ),
    Defect(
        "deep JSON not refused",
        f"{_KERNEL}hostile_counts.py::test_text_that_is_not_json_is_a_value_error",
        Change("kernel/serialization.py", "except RecursionError:", "except ZeroDivisionError:"),
        raises="RecursionError",
    ),
    Defect(
        "reserved calls stopped by the limit",
        f"{_KERNEL}reserved.py::test_reserved_calls_are_counted_but_never_stopped",
        Change("kernel/program.py", "amount, math.inf if reserved else _limit", "amount, _limit"),
    ),
    Defect(
        "surgery with default limits",
        "tests/executor/test_surgery.py::test_loop_within_the_executors_limits_is_accepted",
        Change(
            "executor/executor.py",
            "_prove(graph, context)",
            "_prove(graph, dataclasses.replace(context, limits=Limits()))",
        ),
        raises="graphexec.verify.proof.findings.UnprovedError",
    ),
    Defect(
        "watchdog does not name the node",
        "tests/testing/test_user_bugs.py::test_a_bug_is_reported_with_its_node",
        Change("testing/own_code/watchdog.py", "return engine.snapshot().node", 'return "the machine"'),
    ),
)
