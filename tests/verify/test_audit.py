"""Audits of traces: traces of real runs conform, and changed traces do not."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, Graph, Limits, Snapshot, draw
from graphexec.verify import Bound, Certificate, verify
from graphexec.verify.audit.audit import audit
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.stub_nodes import Instruction, StubMachine
from tests.parameters import cases
from tests.traces import read_trace
from tests.verify import machines
from tests.verify.proofs import certificate_of
from tests.verify.traces import Trace, acting, facts_of, line_of, proof_of, trace_of, written
from tests.verify.writing import WRITER

calls = st.lists(st.integers(1, 3), max_size=4)
bounds = st.one_of(st.none(), st.integers(0, 5))
ONE_REVISION = Limits(budgets={"revisions": 1})


def two_steps(**options: Any) -> tuple[Trace, Certificate]:
    executor = acting([1, 1], **options)
    return trace_of(executor), proof_of(executor)


def spendings(trace: Trace) -> list[dict[str, Any]]:
    """Return the amounts of all records that have them."""
    return [record["spent"] for record in trace if "spent" in record]


def call_at(trace: Trace, sequence: int, member: int = 0) -> dict[str, Any]:
    """Return the record fields of another call of the run."""
    return {"call": {**trace[line_of(trace, "asked", "plan")]["call"], "sequence": sequence, "member": member}}


def human(trace: Trace, node: str, sequence: int, spent: Any) -> Trace:
    """Return the records of a question to a person and of its answer."""
    call = {**call_at(trace, sequence), "node": node}
    asked = {**call, "event": "asked", "effects": [{"effect": "AskHuman"}]}
    return [asked, {**call, "event": "answered", "replies": [{"effect": "AskHuman"}], "spent": spent}]


def ask_between(trace: Trace, line: int, node: str) -> Trace:
    """Return the trace with such a question before a line."""
    for record in trace[line:]:
        if "call" in record:
            record["call"]["sequence"] += 1
    return [*trace[:line], *human(trace, node, 2, trace[line - 1]["spent"]), *trace[line:]]


def stopped(records: Trace, node: str, spent: Any) -> Trace:
    """Return the records of a run that a limit stops at the node."""
    return [
        *records,
        {"event": "moved", "node": node, "outcome": "LimitReached", "target": "stopped_response"},
        {"event": "entered", "node": "stopped_response", "spent": spent},
        {"event": "moved", "node": "stopped_response", "outcome": "StoppedResponse", "target": "END"},
        {"event": "result", "status": "stopped", "spent": spent, "seconds": 0.0},
    ]


@example(script=[1, 1], iterations=4, model_calls=None, tool_calls=None, tokens=1)
@given(script=calls, iterations=st.integers(0, 4), model_calls=bounds, tool_calls=bounds, tokens=bounds)
def test_every_run_conforms_to_its_proof(script: list[int], iterations: int, **limits: Any) -> None:
    named = {f"max_{name}": value for name, value in limits.items()}
    executor = acting(script, max_iterations=iterations, **named)
    trace = trace_of(executor)
    found = audit(trace, proof_of(executor))
    assert found.violations == ()
    assert found.transitions == sum(record["event"] == "moved" for record in trace)
    assert found.status == trace[-1]["status"]


@given(wishes=st.text("pm", max_size=12), iterations=st.integers(0, 4), revisions=st.integers(0, 3))
def test_run_that_resets_own_budgets_conforms(wishes: str, iterations: int, revisions: int) -> None:
    limits = Limits(iterations=iterations, budgets={"revisions": revisions})
    assert facts_of(written(wishes, limits), certificate_of(WRITER, limits)) == []


@given(script=calls, data=st.data(), event=st.sampled_from(["moved", "entered"]))
def test_trace_without_transition_or_node_does_not_conform(script: list[int], data: st.DataObject, event: str) -> None:
    executor = acting(script)
    trace = trace_of(executor)
    moves = [i for i, record in enumerate(trace) if record["event"] == event]
    lost = data.draw(st.sampled_from(moves))
    assert facts_of([*trace[:lost], *trace[lost + 1 :]], proof_of(executor))


@given(wishes=st.text("pm", min_size=1, max_size=8), data=st.data())
def test_changed_counter_does_not_conform(wishes: str, data: st.DataObject) -> None:
    limits = Limits(iterations=4)
    trace = written(wishes, limits)
    spent = data.draw(st.sampled_from(spendings(trace)))
    name = data.draw(st.sampled_from(["iterations", "revisions"]))
    counters = spent if name == "iterations" else spent["budgets"]
    counters[name] += data.draw(st.sampled_from([-1, 1]))
    assert facts_of(trace, certificate_of(WRITER, limits))


def test_budget_is_full_after_a_reset() -> None:
    limits = Limits(iterations=4)
    proof, found = certificate_of(WRITER, limits), set[str]()
    for at in range(len(written("mpmp", limits))):
        trace = written("mpmp", limits)
        if "spent" in trace[at]:
            trace[at]["spent"]["budgets"]["revisions"] += 1
            found |= {fact.split(" resets ")[-1] for fact in facts_of(trace, proof) if " resets " in fact}
    assert found == {"revisions, but 1 is spent after it"}


def test_run_needs_limits_of_the_proof() -> None:
    # Also on budgets of the machine's own.
    for found, fact in (
        (audit(two_steps(max_iterations=3)[0], two_steps(max_iterations=4)[1]), "iterations is 3 for the run and 4"),
        (audit(written("", ONE_REVISION), certificate_of(WRITER)), "revisions is 1 for the run and 2"),
    ):
        (violation,) = found.violations
        assert str(violation).startswith(f"line 1: the limit {fact} for the proof")


def test_node_of_no_transition_is_reported_with_line() -> None:
    found = facts_of(two_steps()[0], certificate_of(WRITER))
    assert "the run starts at plan and the proof at write" in found
    assert "plan --Replied--> parse is not a transition of the proved machine" in found
    trace, proof = two_steps()
    line = line_of(trace, "moved", "parse")
    trace[line]["target"] = "plan"
    violation = audit(trace, proof).violations[0]
    assert violation.line == line + 1
    assert violation.fact == "parse --Acted--> plan is not a transition of the proved machine"


def test_exceeded_bound_or_fan_out_is_reported() -> None:
    trace, _ = two_steps()
    # The trace claims to be a run of the same machine within lower limits.
    proof = proof_of(acting([1, 1], max_iterations=1, max_tool_calls=1))
    trace[0]["limits"] |= {"iterations": 1, "tool_calls": 1}
    found = facts_of(trace, proof)
    assert "the run takes more than the 6 proved transitions" in found
    assert "the run takes 2 tool calls, but at most 1 is proved" in found
    trace, proof = trace_of(acting([2])), proof_of(acting([2], max_fan_out=1))
    trace[0]["limits"]["fan_out"] = 1
    assert "dispatch_tools asks for 2 effects in one visit, but the limit fan_out is 1" in facts_of(trace, proof)


def test_result_must_be_that_of_the_last_transition() -> None:
    trace, proof = two_steps(max_iterations=1, max_execution_time=60)
    # The clean-up may take some time.
    assert facts_of([*trace[:-1], trace[-1] | {"seconds": 60.4}], proof) == []
    assert facts_of([*trace[:-1], trace[-1] | {"status": "answered"}], proof) == [
        "the run ended with StoppedResponse, but its status is answered"
    ]


def answered_before_parse(trace: Trace) -> Trace:
    end = line_of(trace, "entered", "parse")
    return [*trace[:end], trace[-1] | {"spent": trace[end]["spent"]}]


def asked_nowhere(trace: Trace) -> Trace:
    line = line_of(trace, "asked", "plan")
    nowhere = {"event": "asked", "node": "nowhere", "effects": [{"effect": "CallTool"}]}
    return [*trace[:line], nowhere | call_at(trace, 1), *trace[line:]]


def asked_at_parse(trace: Trace) -> Trace:
    return ask_between(trace, line_of(trace, "entered", "parse") + 1, "parse")


def asked_again(trace: Trace) -> Trace:
    return ask_between(trace, line_of(trace, "answered", "plan") + 1, "plan")


def left_twice(trace: Trace) -> Trace:
    line = line_of(trace, "moved", "plan")
    return [*trace[: line + 1], *trace[line:]]


def stopped_too_early(trace: Trace) -> Trace:
    return stopped(trace[: line_of(trace, "moved", "plan") - 2], "plan", trace[1]["spent"])


@cases(
    ("change", "fact"),
    (answered_before_parse, "the run is answered and did not reach END"),
    (asked_nowhere, "nowhere asks for CallTool, but the run is not at this node"),
    (asked_at_parse, "parse asks for AskHuman, but the proved node never asks"),
    # Effects that charge nothing are counted, too.
    (asked_again, "plan asks for 2 effects in one visit, more than the proved node"),
    (left_twice, "plan is left, but the run is not at this node"),
    (
        stopped_too_early,
        "plan --LimitReached--> stopped_response is taken when a limit is reached, but none of iterations, "
        "seconds, restarts is",
    ),
)
def test_changed_order_is_the_violation(change: Callable[[Trace], Trace], fact: str) -> None:
    trace, proof = two_steps()
    assert facts_of(change(trace), proof) == [fact]


def test_truncated_trace_has_one_violation() -> None:
    trace, proof = two_steps()
    # The first call is reported with tokens, the others with none.
    for spent in spendings(trace[2:]):
        spent |= {"prompt_tokens": 90, "completion_tokens": 10, "tokens": 100}
    assert facts_of(trace, proof) == []
    for end in range(1, len(trace)):
        assert facts_of(trace[:end], proof) == ["the trace ends before the run does"]


def test_failed_and_interrupted_runs_conform() -> None:
    trace, proof = two_steps()
    asked = line_of(trace, "asked", "dispatch_tools")
    result = trace[-1] | {"status": "error", "spent": trace[asked - 1]["spent"]}
    found = audit([*trace[: asked + 1], result], proof)
    assert (found.violations, found.status) == ((), "error")
    # A run may be interrupted between two records.
    for end in range(2, len(trace) - 1):
        # The result has the amounts of the last entry.
        spent = next(record["spent"] for record in reversed(trace[:end]) if record["event"] == "entered")
        assert facts_of([*trace[:end], trace[-1] | {"status": "interrupted", "spent": spent}], proof) == []


def test_invalid_certificate_is_reported_first() -> None:
    trace, proof = two_steps()
    found = audit(trace, replace(proof, ranks=dict.fromkeys(proof.ranks or (), ((1, ()),))))
    assert [violation.line for violation in found.violations] == [0]
    assert str(found.violations[0]).startswith("the certificate proves nothing: ")


@cases("trace", [], [{"event": "result"}], [{"event": "start"}], [{"event": "start", "limits": []}])
def test_invalid_trace_is_one_violation(trace: Trace) -> None:
    assert len(facts_of(trace, two_steps()[1])) == 1


# ---- effects


def test_unset_limit_stops_nothing() -> None:
    trace, proof = two_steps()
    asked = line_of(trace, "asked", "dispatch_tools")
    # The limit on the effects of a visit is finite by default.
    trace[0]["limits"]["fan_out"] = None
    bounds = replace(proof.bounds, meters={**proof.bounds.meters, "tool_calls": Bound(None, None)})
    proof = replace(proof, limits={**proof.limits, "fan_out": None}, bounds=bounds)
    records = stopped(trace[:asked], "dispatch_tools", trace[asked - 1]["spent"])
    assert facts_of(records, proof) == [
        "dispatch_tools --LimitReached--> stopped_response is taken when a limit stops an effect, but none of "
        "tool_calls, fan_out, seconds, restarts can have"
    ]
    # With this limit, the transition is possible.
    limited, proof = two_steps(max_tool_calls=5)
    assert facts_of([limited[0], *records[1:]], proof) == []


@cases(
    ("options", "spent", "amounts"),
    ({"max_model_calls": 2, "early_stopping_method": "generate"}, 3, "2, with 1 reserved beyond it"),
    ({"max_model_calls": 5}, 3, "5"),
)
def test_only_reserve_may_exceed_limit(options: dict[str, Any], spent: int, amounts: str) -> None:
    trace, proof = two_steps(**options)
    assert facts_of(trace, proof) == []
    assert trace[-1]["spent"]["model_calls"] == spent
    excess = max(spent, options["max_model_calls"]) + 1
    trace[-1]["spent"]["model_calls"] = excess
    assert f"{excess} of model_calls is spent, but the limit is {amounts}" in facts_of(trace, proof)


def test_unreached_limit_stops_nothing() -> None:
    trace, proof = two_steps(max_model_calls=5, max_execution_time=60)
    moved = line_of(trace, "moved", "plan")
    assert len(facts_of(stopped(trace[:moved], "plan", trace[moved + 1]["spent"]), proof)) == 1


@given(script=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
def test_every_request_is_counted_and_answered(script: list[int], data: st.DataObject) -> None:
    executor = acting(script)
    trace, proof = trace_of(executor), proof_of(executor)
    several = [i for i, record in enumerate(trace) if record["event"] in ("asked", "answered")]
    one = data.draw(st.sampled_from(several))
    assert facts_of([*trace[:one], *trace[one + 1 :]], proof)
    assert facts_of([*trace[:one], trace[one], *trace[one:]], proof)
    # An effect and its answer at another node.
    place = data.draw(st.integers(1, len(trace) - 1))
    pair = trace[one : one + 2] if trace[one]["event"] == "asked" else trace[one - 1 : one + 1]
    assert facts_of([*trace[:place], *pair, *trace[place:]], proof)


@pytest.mark.medium
@cases(("script", "reason"), ([1, 1_001], "fan_out"), ([1_000], "finished"))
def test_run_stopped_by_fan_out_conforms(script: list[int], reason: str) -> None:
    executor = acting(script)
    trace = trace_of(executor)
    assert trace[-1]["reason"] == reason
    assert facts_of(trace, proof_of(executor)) == []


def test_earlier_gate_does_not_stop_run_later() -> None:
    trace, proof = two_steps()
    spent = trace[1]["spent"]
    assert facts_of(stopped([*trace[:2], *human(trace, "plan", 1, spent)], "plan", spent), proof)[0] == (
        "plan --LimitReached--> stopped_response is taken before any effect, but AskHuman is recorded"
    )


@cases("status", "error", "interrupted")
def test_run_that_ended_before_first_node_conforms(status: str) -> None:
    trace, proof = two_steps()
    found = audit([trace[0], trace[-1] | {"status": status, "spent": trace[1]["spent"]}], proof)
    assert (found.violations, found.transitions, found.status) == ((), 0, status)


def test_custom_effects_may_be_free_or_charged() -> None:
    trace, proof = two_steps()
    for record in trace:
        for one in (*record.get("effects", ()), *record.get("replies", ())):
            one["effect"] = "Fetch"
    assert facts_of(trace, proof) == []
    trace[-1]["spent"]["tool_calls"] += 1
    assert facts_of(trace, proof)
    # It may be charged as one call, not as two.
    for spent in spendings(trace[line_of(trace, "answered", "plan") :]):
        spent["tool_calls"] += 1
    assert "plan asked for 1 effects, but more calls are counted" in facts_of(trace, proof)


# ---- counts


COUNTS: list[tuple[Callable[[int], int], str]] = [
    (lambda calls: 0, "dispatch_tools asked for 1 tool calls, but 0 are counted"),
    (lambda calls: calls + 3, "the run begins with 3 of tool_calls spent"),
]


@cases(("count", "expected"), *COUNTS)
def test_calls_are_counted_from_zero(count: Callable[[int], int], expected: str) -> None:
    trace, proof = two_steps()
    for spent in spendings(trace):
        spent["tool_calls"] = count(spent["tool_calls"])
    assert facts_of(trace, proof)[0] == expected


@given(script=calls, data=st.data(), seconds=st.sampled_from([-5.0, -0.1, float("nan"), float("inf")]))
def test_no_time_is_below_0(script: list[int], data: st.DataObject, seconds: float) -> None:
    executor = acting(script)
    trace = trace_of(executor)
    record = data.draw(st.sampled_from([record for record in trace if "spent" in record]))
    where = record["spent"] if data.draw(st.booleans()) or "seconds" not in record else record
    where["seconds"] = seconds
    assert facts_of(trace, proof_of(executor)) == [f"the seconds are {seconds!r}; they must be at least 0"]


def test_whole_numbers_are_formatted_whole() -> None:
    executor = acting([1], max_iterations=1_500_000)
    conforms = "CONFORMS  6 transitions of at most 6,000,002; answered"
    assert str(audit(trace_of(executor), proof_of(executor))) == conforms


# ---- right traces of every kind


def ending_with(error: type[BaseException], at: int) -> AgentExecutor:
    def decide(steps: Sequence[object], inputs: object) -> list[AgentAction] | AgentFinish:
        if len(steps) == at:
            raise error("enough")
        return [AgentAction("nothing", "", "")] * 2

    return AgentExecutor(agent=decide, tools=[])


@cases("at", 0, 2, 4)
@cases(("error", "status"), (ValueError, "error"), (KeyboardInterrupt, "interrupted"))
def test_interrupted_run_conforms(error: type[BaseException], status: str, at: int) -> None:
    executor = ending_with(error, at)
    found = audit(trace_of(executor), proof_of(executor))
    assert (found.violations, found.status) == ((), status)


@pytest.mark.medium
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(machine=machines.graphs(), limits=machines.limits(), seed=st.integers(0, 99))
def test_traces_of_stub_nodes_conform(machine: Graph[Any, Any], limits: Limits, seed: int) -> None:
    proof = verify(machine, limits).certificate
    assume(proof is not None)
    assert proof is not None
    trace = stub_trace(machine, limits, random.Random(seed).choice)
    # The stub trace has no result record.
    assert facts_of(trace, proof) == ["the trace ends before the run does"]


def stub_trace(machine: Graph[Any, Any], limits: Limits, choose: Callable[[list[Instruction]], Instruction]) -> Trace:
    """Return the trace of a run with stub nodes, without the result."""
    recorder = draw.Recorder(machine, limits=limits)
    stubs = StubMachine(machine, limits)
    place: Snapshot | Over = stubs.start_run()
    while isinstance(place, Snapshot):
        instructions = [one for one in stubs.instructions(place) if "crash" not in one.pace]
        step = stubs.run_step(place, choose(instructions))
        for event in step.events:
            recorder(event)
        place = step.then
    text = recorder.recording.to_json_lines()
    for stub, real in (("_OfModel", "CallModel"), ("_OfTool", "CallTool"), ("_OfOther", "AskHuman")):
        text = text.replace(stub, real)
    return read_trace(text)
