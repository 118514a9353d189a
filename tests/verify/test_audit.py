"""Audits of traces: traces of real runs conform, and changed traces do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, Graph, Limits, Snapshot
from graphexec.draw import Recorder
from graphexec.verify import Bound, Certificate, verify
from graphexec.verify.audit.audit import Audit, audit
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.stub_nodes import Instruction, StubMachine
from tests.parameters import cases
from tests.traces import read_trace
from tests.verify import machines
from tests.verify.traces import Trace, acting, proof_of, trace_of, written
from tests.verify.writing import WRITER

calls = st.lists(st.integers(1, 3), max_size=4)
bounds = st.one_of(st.none(), st.integers(0, 5))


def facts(found: Audit) -> list[str]:
    return [violation.fact for violation in found.violations]


def writer_proof(limits: Limits) -> Certificate:
    proof = verify(WRITER, limits).certificate
    assert proof is not None
    return proof


def two_steps() -> tuple[Trace, Certificate]:
    executor = acting([1, 1])
    return trace_of(executor), proof_of(executor)


def index(trace: Trace, event: str, node: str) -> int:
    return next(i for i, record in enumerate(trace) if (record["event"], record.get("node")) == (event, node))


def call_at(trace: Trace, sequence: int, member: int = 0) -> dict[str, Any]:
    """Return the record fields of another call of the run."""
    return {"call": {**trace[index(trace, "asked", "plan")]["call"], "sequence": sequence, "member": member}}


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
    found = audit(written(wishes, limits), writer_proof(limits))
    assert found.violations == ()


@given(script=calls, data=st.data(), event=st.sampled_from(["moved", "entered"]))
def test_trace_without_transition_or_node_does_not_conform(script: list[int], data: st.DataObject, event: str) -> None:
    executor = acting(script)
    trace = trace_of(executor)
    moves = [i for i, record in enumerate(trace) if record["event"] == event]
    lost = data.draw(st.sampled_from(moves))
    assert not audit([*trace[:lost], *trace[lost + 1 :]], proof_of(executor)).conforms


@given(wishes=st.text("pm", min_size=1, max_size=8), data=st.data())
def test_changed_counter_does_not_conform(wishes: str, data: st.DataObject) -> None:
    limits = Limits(iterations=4)
    trace = written(wishes, limits)
    record = data.draw(st.sampled_from([record for record in trace if "spent" in record]))
    name = data.draw(st.sampled_from(["iterations", "revisions"]))
    counters = record["spent"] if name == "iterations" else record["spent"]["budgets"]
    counters[name] += data.draw(st.sampled_from([-1, 1]))
    assert not audit(trace, writer_proof(limits)).conforms


def test_budget_is_full_after_a_reset() -> None:
    limits = Limits(iterations=4)
    found_facts: set[str] = set()
    for at in range(len(written("mpmp", limits))):
        trace = written("mpmp", limits)
        if "spent" in trace[at]:
            trace[at]["spent"]["budgets"]["revisions"] += 1
            found_facts |= {
                fact.split(" resets ")[-1] for fact in facts(audit(trace, writer_proof(limits))) if " resets " in fact
            }
    assert found_facts == {"revisions, but 1 is spent after it"}


def test_run_needs_limits_of_the_proof() -> None:
    found = audit(trace_of(acting([1], max_iterations=3)), proof_of(acting([1], max_iterations=4)))
    assert facts(found) == ["the limit iterations is 3 for the run and 4 for the proof"]
    assert str(found.violations[0]).startswith("line 1: ")


def test_difference_compares_limits_of_own_budgets() -> None:
    found = audit(written("", Limits(budgets={"revisions": 1})), writer_proof(Limits()))
    assert facts(found) == ["the limit revisions is 1 for the run and 2 for the proof"]


def test_another_machine_does_not_conform() -> None:
    trace, _ = two_steps()
    found = audit(trace, writer_proof(Limits()))
    assert "the run starts at plan and the proof at write" in facts(found)
    assert "plan --Replied--> parse is not a transition of the proved machine" in facts(found)


def test_unknown_transition_is_reported_with_line() -> None:
    trace, proof = two_steps()
    line = index(trace, "moved", "parse")
    trace[line]["target"] = "plan"
    found = audit(trace, proof)
    assert found.violations[0].line == line + 1
    assert facts(found)[0] == "parse --Acted--> plan is not a transition of the proved machine"


def test_limit_edge_is_taken_only_at_a_limit() -> None:
    trace, proof = two_steps()
    line = index(trace, "moved", "plan")
    trace[line] |= {"outcome": "LimitReached", "target": "stopped_response"}
    spent = trace[1]["spent"]
    stopped = [
        *trace[: line - 2],
        trace[line],
        {"event": "entered", "node": "stopped_response", "spent": spent},
        {"event": "moved", "node": "stopped_response", "outcome": "StoppedResponse", "target": "END"},
        {"event": "result", "status": "stopped", "spent": spent, "seconds": 0.0},
    ]
    assert facts(audit(stopped, proof)) == [
        "plan --LimitReached--> stopped_response is taken when a limit is reached, but none of iterations, seconds, "
        "restarts is"
    ]


def test_exceeded_bound_is_reported() -> None:
    trace, _ = two_steps()
    # The trace claims to be a run of the same machine within lower limits.
    proof = proof_of(acting([1, 1], max_iterations=1, max_tool_calls=1))
    trace[0]["limits"] |= {"iterations": 1, "tool_calls": 1}
    found = facts(audit(trace, proof))
    assert "the run takes more than the 6 proved transitions" in found
    assert "the run takes 2 tool calls, but at most 1 is proved" in found


def test_wrong_status_is_reported() -> None:
    trace, proof = two_steps()
    trace[-1]["status"] = "stopped"
    assert facts(audit(trace, proof)) == ["the run ended with AgentFinish, but its status is stopped"]
    stopped = acting([1, 1], max_iterations=1)
    trace = trace_of(stopped)
    trace[-1]["status"] = "answered"
    assert facts(audit(trace, proof_of(stopped))) == ["the run ended with StoppedResponse, but its status is answered"]


def test_records_of_another_run_are_reported() -> None:
    trace, proof = two_steps()
    assert "another run begins here, but a trace has one run" in facts(audit([trace[0], *trace], proof))
    again = facts(audit([*trace, trace[-1]], proof))
    assert again == ["result comes after the result, which is the last record of a run"]


def test_seconds_may_slightly_exceed_bound() -> None:
    executor = acting([1], max_execution_time=60)
    trace, proof = trace_of(executor), proof_of(executor)
    trace[-1]["seconds"] = 60.4
    assert audit(trace, proof).conforms
    trace[-1]["seconds"] = 65.0
    assert facts(audit(trace, proof)) == ["the run takes 65 seconds, but at most 60.05 is proved"]


def test_missing_token_reports_do_not_break_trace() -> None:
    trace, proof = two_steps()
    # The first call is reported with tokens, the others with none.
    for record in trace[2:]:
        if "spent" in record:
            record["spent"] |= {"prompt_tokens": 90, "completion_tokens": 10, "tokens": 100}
    assert audit(trace, proof).conforms


def test_truncated_trace_has_one_violation() -> None:
    trace, proof = two_steps()
    for end in range(1, len(trace)):
        assert facts(audit(trace[:end], proof)) == ["the trace ends before the run does"]


def test_failed_run_conforms() -> None:
    trace, proof = two_steps()
    asked = index(trace, "asked", "dispatch_tools")
    result = trace[-1] | {"status": "error", "spent": trace[asked - 1]["spent"]}
    found = audit([*trace[: asked + 1], result], proof)
    assert (found.conforms, found.status) == (True, "error")


def test_answered_run_must_reach_the_end() -> None:
    trace, proof = two_steps()
    end = index(trace, "entered", "parse")
    result = trace[-1] | {"spent": trace[end]["spent"]}
    assert facts(audit([*trace[:end], result], proof)) == ["the run is answered and did not reach END"]
    assert facts(audit([*trace[:-1], trace[-1] | {"status": "error"}], proof)) == [
        "the run reached END, but its status is error"
    ]


def test_invalid_certificate_is_reported_first() -> None:
    trace, proof = two_steps()
    found = audit(trace, replace(proof, ranks=dict.fromkeys(proof.ranks or (), ((1, ()),))))
    assert [violation.line for violation in found.violations] == [0]
    assert str(found.violations[0]).startswith("the certificate proves nothing: ")


def test_invalid_trace_is_one_violation() -> None:
    _, proof = two_steps()
    traces: list[Trace] = [[], [{"event": "result"}], [{"event": "start"}], [{"event": "start", "limits": []}]]
    for broken in traces:
        assert len(audit(broken, proof).violations) == 1


# ---- effects


def test_unset_limit_stops_nothing() -> None:
    trace, proof = two_steps()
    asked = index(trace, "asked", "dispatch_tools")
    spent = trace[asked - 1]["spent"]
    # The limit on the effects of a visit is finite by default.
    trace[0]["limits"]["fan_out"] = None
    meters = {**proof.bounds.meters, "tool_calls": Bound(None, None)}
    bounds = replace(proof.bounds, meters=meters)
    proof = replace(proof, limits={**proof.limits, "fan_out": None}, bounds=bounds)
    stopped = [
        *trace[:asked],
        {"event": "moved", "node": "dispatch_tools", "outcome": "LimitReached", "target": "stopped_response"},
        {"event": "entered", "node": "stopped_response", "spent": spent},
        {"event": "moved", "node": "stopped_response", "outcome": "StoppedResponse", "target": "END"},
        {"event": "result", "status": "stopped", "spent": spent, "seconds": 0.0},
    ]
    assert facts(audit(stopped, proof)) == [
        "dispatch_tools --LimitReached--> stopped_response is taken when a limit stops an effect, but none of "
        "tool_calls, fan_out, seconds, restarts can have"
    ]
    # With this limit, the transition is possible.
    limited = acting([1, 1], max_tool_calls=5)
    stopped[0] = trace_of(limited)[0]
    assert audit(stopped, proof_of(limited)).conforms


def test_only_reserve_may_exceed_limit() -> None:
    executor = acting([1, 1], max_model_calls=2, early_stopping_method="generate")
    trace, proof = trace_of(executor), proof_of(executor)
    assert audit(trace, proof).conforms
    assert trace[-1]["spent"]["model_calls"] == 3
    trace[-1]["spent"]["model_calls"] = 4
    assert "4 of model_calls is spent, but the limit is 2, with 1 reserved beyond it" in facts(audit(trace, proof))
    bare = acting([1], max_model_calls=5)
    trace, proof = trace_of(bare), proof_of(bare)
    trace[-1]["spent"]["model_calls"] = 6
    assert "6 of model_calls is spent, but the limit is 5" in facts(audit(trace, proof))


def test_unreached_limit_stops_nothing() -> None:
    executor = acting([1], max_model_calls=5, max_execution_time=60)
    trace, proof = trace_of(executor), proof_of(executor)
    moved = index(trace, "moved", "plan")
    spent = trace[moved + 1]["spent"]
    stopped = [
        *trace[:moved],
        {"event": "moved", "node": "plan", "outcome": "LimitReached", "target": "stopped_response"},
        {"event": "entered", "node": "stopped_response", "spent": spent},
        {"event": "moved", "node": "stopped_response", "outcome": "StoppedResponse", "target": "END"},
        {"event": "result", "status": "stopped", "spent": spent, "seconds": 0.0},
    ]
    assert len(facts(audit(stopped, proof))) == 1


@given(script=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
def test_every_request_is_counted_and_answered(script: list[int], data: st.DataObject) -> None:
    executor = acting(script)
    trace, proof = trace_of(executor), proof_of(executor)
    several = [i for i, record in enumerate(trace) if record["event"] in ("asked", "answered")]
    one = data.draw(st.sampled_from(several))
    assert not audit([*trace[:one], *trace[one + 1 :]], proof).conforms
    assert not audit([*trace[:one], trace[one], *trace[one:]], proof).conforms
    # An effect and its answer at another node.
    place = data.draw(st.integers(1, len(trace) - 1))
    pair = trace[one : one + 2] if trace[one]["event"] == "asked" else trace[one - 1 : one + 1]
    assert not audit([*trace[:place], *pair, *trace[place:]], proof).conforms


def test_asking_without_entry_is_reported() -> None:
    trace, proof = two_steps()
    nowhere = {**call_at(trace, 1), "event": "asked", "node": "nowhere", "effects": [{"effect": "CallTool"}]}
    line = index(trace, "asked", "plan")
    assert facts(audit([*trace[:line], nowhere, *trace[line:]], proof)) == [
        "nowhere asks for CallTool, but the run is not at this node"
    ]
    parse = index(trace, "entered", "parse")
    spent = trace[parse]["spent"]
    human = [{**call_at(trace, 2), "event": "asked", "node": "parse", "effects": [{"effect": "AskHuman"}]}]
    human += [{**human[0], "event": "answered", "replies": [{"effect": "AskHuman"}], "spent": spent}]
    for record in trace[parse + 1 :]:
        if "call" in record:
            record["call"]["sequence"] += 1
    assert facts(audit([*trace[: parse + 1], *human, *trace[parse + 1 :]], proof)) == [
        "parse asks for AskHuman, but the proved node never asks"
    ]


def test_run_stopped_by_fan_out_conforms() -> None:
    executor = acting([1, 1_001])
    trace = trace_of(executor)
    assert trace[-1]["reason"] == "fan_out"
    assert audit(trace, proof_of(executor)).conforms
    assert audit(trace_of(acting([1_000])), proof_of(acting([1_000]))).conforms


def test_visit_beyond_fan_out_is_reported() -> None:
    trace, proof = trace_of(acting([2])), proof_of(acting([2], max_fan_out=1))
    trace[0]["limits"]["fan_out"] = 1
    assert "dispatch_tools asks for 2 effects in one visit, but the limit fan_out is 1" in facts(audit(trace, proof))


def test_undeclared_number_of_effects_is_reported() -> None:
    """Also those that charge nothing."""
    trace, proof = two_steps()
    after = index(trace, "answered", "plan") + 1
    question = {**call_at(trace, 2), "node": "plan"}
    asked = {**question, "event": "asked", "effects": [{"effect": "AskHuman"}]}
    answered = {
        **question,
        "event": "answered",
        "replies": [{"effect": "AskHuman"}],
        "spent": trace[after - 1]["spent"],
    }
    for record in trace[after:]:
        if "call" in record:
            record["call"]["sequence"] += 1
    assert facts(audit([*trace[:after], asked, answered, *trace[after:]], proof)) == [
        "plan asks for 2 effects in one visit, more than the proved node"
    ]


def test_earlier_gate_does_not_stop_run_later() -> None:
    trace, proof = two_steps()
    spent = trace[1]["spent"]
    stopped = [
        *trace[:2],
        {**call_at(trace, 1), "event": "asked", "node": "plan", "effects": [{"effect": "AskHuman"}]},
        {**call_at(trace, 1), "event": "answered", "node": "plan", "replies": [{"effect": "AskHuman"}], "spent": spent},
        {"event": "moved", "node": "plan", "outcome": "LimitReached", "target": "stopped_response"},
        {"event": "entered", "node": "stopped_response", "spent": spent},
        {"event": "moved", "node": "stopped_response", "outcome": "StoppedResponse", "target": "END"},
        {"event": "result", "status": "stopped", "spent": spent, "seconds": 0.0},
    ]
    assert facts(audit(stopped, proof))[0] == (
        "plan --LimitReached--> stopped_response is taken before any effect, but AskHuman is recorded"
    )


def test_only_current_node_can_be_left() -> None:
    trace, proof = two_steps()
    line = index(trace, "moved", "plan")
    assert facts(audit([*trace[: line + 1], *trace[line:]], proof)) == ["plan is left, but the run is not at this node"]


@cases("status", ["error", "interrupted"])
def test_run_that_ended_before_first_node_conforms(status: str) -> None:
    trace, proof = two_steps()
    found = audit([trace[0], trace[-1] | {"status": status, "spent": trace[1]["spent"]}], proof)
    assert (found.violations, found.transitions, found.status) == ((), 0, status)


def test_custom_effects_may_be_free_or_charged() -> None:
    trace, proof = two_steps()
    for record in trace:
        for one in (*record.get("effects", ()), *record.get("replies", ())):
            one["effect"] = "Fetch"
    assert audit(trace, proof).conforms
    trace[-1]["spent"]["tool_calls"] += 1
    assert not audit(trace, proof).conforms
    # It may be charged as one call, not as two.
    answered = index(trace, "answered", "plan")
    for record in trace[answered:]:
        if "spent" in record:
            record["spent"]["tool_calls"] += 1
    assert "plan asked for 1 effects, but more calls are counted" in facts(audit(trace, proof))


def test_uncounted_calls_are_reported() -> None:
    trace, proof = two_steps()
    for record in trace:
        if "spent" in record:
            record["spent"]["tool_calls"] = 0
    assert facts(audit(trace, proof))[0] == "dispatch_tools asked for 1 tool calls, but 0 are counted"


# ---- counts


@given(script=calls, data=st.data(), seconds=st.sampled_from([-5.0, -0.1, float("nan"), float("inf")]))
def test_no_time_is_below_0(script: list[int], data: st.DataObject, seconds: float) -> None:
    executor = acting(script)
    trace = trace_of(executor)
    record = data.draw(st.sampled_from([record for record in trace if "spent" in record]))
    where = record["spent"] if data.draw(st.booleans()) or "seconds" not in record else record
    where["seconds"] = seconds
    found = audit(trace, proof_of(executor))
    assert facts(found) == [f"the seconds are {seconds!r}; they must be at least 0"]


def test_the_clock_does_not_go_back() -> None:
    trace, proof = two_steps()
    trace[index(trace, "answered", "dispatch_tools")]["spent"]["seconds"] = 7.0
    found_facts = facts(audit(trace, proof))
    assert found_facts[0].startswith("seconds goes back from 7 to 0")


@cases("count", [-1, 1.5, None, "1", True])
def test_invalid_count_is_reported(count: object) -> None:
    trace, proof = two_steps()
    trace[-1]["spent"]["model_calls"] = count
    assert facts(audit(trace, proof)) == [f"model_calls is {count!r}; counts are whole numbers of at least 0"]


def test_run_must_begin_with_zero_counts() -> None:
    trace, proof = two_steps()
    for record in trace:
        if "spent" in record:
            record["spent"]["tool_calls"] += 3
    assert facts(audit(trace, proof)) == ["the run begins with 3 of tool_calls spent"]


def test_whole_numbers_are_formatted_whole() -> None:
    executor = acting([1], max_iterations=1_500_000)
    assert str(audit(trace_of(executor), proof_of(executor))) == (
        "CONFORMS  6 transitions of at most 6,000,002; answered"
    )


# ---- right traces of every kind


def ending_with(error: type[BaseException], at: int) -> AgentExecutor:
    def decide(steps: Sequence[object], inputs: object) -> list[AgentAction] | AgentFinish:
        if len(steps) == at:
            raise error("enough")
        return [AgentAction("nothing", "", "")] * 2

    return AgentExecutor(agent=decide, tools=[])


@cases("at", [0, 2, 4])
@cases(("error", "status"), [(ValueError, "error"), (KeyboardInterrupt, "interrupted")])
def test_interrupted_run_conforms(error: type[BaseException], status: str, at: int) -> None:
    executor = ending_with(error, at)
    found = audit(trace_of(executor), proof_of(executor))
    assert (found.violations, found.status) == ((), status)


def test_an_interrupt_between_two_records_conforms() -> None:
    trace, proof = two_steps()
    for end in range(2, len(trace) - 1):
        # The result has the amounts of the last entry.
        spent = next(record["spent"] for record in reversed(trace[:end]) if record["event"] == "entered")
        assert audit([*trace[:end], trace[-1] | {"status": "interrupted", "spent": spent}], proof).conforms


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(machine=machines.graphs(), limits=machines.limits(), seed=st.integers(0, 99))
def test_traces_of_stub_nodes_conform(machine: Graph[Any, Any], limits: Limits, seed: int) -> None:
    proof = verify(machine, limits).certificate
    assume(proof is not None)
    assert proof is not None
    trace = stub_trace(machine, limits, random.Random(seed).choice)
    # The stub trace has no result record.
    assert facts(audit(trace, proof)) == ["the trace ends before the run does"]


def stub_trace(machine: Graph[Any, Any], limits: Limits, choose: Callable[[list[Instruction]], Instruction]) -> Trace:
    """Return the trace of a run with stub nodes, without the result."""
    recorder = Recorder(machine, limits=limits)
    stubs = StubMachine(machine, limits)
    place: Snapshot | Over = stubs.start_run()
    while isinstance(place, Snapshot):
        instructions = [one for one in stubs.instructions(place) if "crash" not in one.pace]
        step = stubs.run_step(place, choose(instructions))
        for event in step.events:
            recorder(event)
        place = step.then
    names = {"_OfModel": "CallModel", "_OfTool": "CallTool", "_OfOther": "AskHuman"}
    text = recorder.recording.to_json_lines()
    for stub, real in names.items():
        text = text.replace(stub, real)
    return read_trace(text)
