"""Measures of nodes in proofs: random flows, loops that reset them, embedded graphs, forged certificates."""

import dataclasses
import re
from typing import Any

from hypothesis import example, given, settings

import graphexec as gx
from graphexec import effects, kernel
from graphexec.kernel.meters import is_measure
from graphexec.kernel.node import END
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.export.promela import promela
from graphexec.verify.proof.certificate import Bound, Certificate
from graphexec.verify.proof.flow import Flow, Transition
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.prove import prove_flow
from tests.kernel.machines import machine_of, value
from tests.parameters import cases, examples
from tests.verify.flows import MODEL_CALL, calling, end, flow_with, flows, gate, limits, product_of, way, within
from tests.verify.proofs import certificate_of, prove, refuse, require, with_bound, witness_of

NO_LIMIT = kernel.Limits(iterations=None)

# The most states of a random flow that are searched.
_STATES = 5_000


def measured(flow: Flow) -> Flow:
    """Return the flow with measures in place of its own budgets: no gate, and no limit."""

    def rewrite(one: Transition) -> Transition:
        spends = tuple((_named(name), amount) for name, amount in one.spends)
        causes = tuple(name for name in one.causes if not is_measure(_named(name)))
        return dataclasses.replace(one, spends=spends, resets=tuple(map(_named, one.resets)), causes=causes)

    paid = {one.source for one in flow.transitions if one.kind != "gate" and rewrite(one).is_paid}
    ways = (rewrite(one) for one in flow.transitions if one.kind != "gate" or one.source in paid)
    return dataclasses.replace(flow, transitions=tuple(ways), budgets=())


def _named(name: str) -> str:
    return f"measure({name})" if name in ("drafts", "questions") else name


def value_of(form: str, values: dict[str, float | None], first: int) -> int:
    """Return the value of a closed form for first visits with this measure."""
    text = re.sub(r"measure\(\w+\)", str(first), form)
    return int(eval(re.sub(r"[a-z_]+", lambda name: str(values[name[0]]), text)))


# Without any iteration, the bound on model calls is a number, though one iteration more for each draft is not.
NOTHING_LEFT = flow_with(
    way("plan", "plan", "iterations", **calling(models=1)),
    gate("plan", "iterations", "parse"),
    within("plan", "model_calls", "parse", "iterations", **calling(models=1)),
    *(way("parse", "plan", "drafts", "iterations"), gate("parse", "drafts")),
    drafts=1,
    questions=2,
)


# A form in the limits has a product of the measures, though what is proved is linear in them.
PRODUCT = flow_with(
    way("plan", "plan", "questions", **calling(models=1)),
    within("plan", "model_calls", "parse", "questions", **calling(models=1)),
    *(way("parse", "plan", "drafts iterations", **calling(models=1)), gate("parse", "drafts iterations", "inner")),
    within("parse", "model_calls", "inner", "drafts iterations", **calling(models=1)),
    *(way("inner", "plan", "iterations", "drafts iterations"), gate("inner", "iterations", "last")),
    *(way("last", "plan", "drafts iterations model_calls", **calling(models=1)), gate("last", "drafts iterations")),
    within("last", "model_calls", spends="drafts iterations", **calling(models=1)),
    drafts=1,
    questions=2,
)


@settings(max_examples=examples(300))
@example(flow=PRODUCT, given_limits=effects.agent_limits(iterations=0, model_calls=0))
@example(flow=NOTHING_LEFT, given_limits=effects.agent_limits(iterations=0, model_calls=0))
@given(flow=flows(), given_limits=limits())
def test_random_flow_with_measures_ends_within_its_closed_form(flow: Flow, given_limits: kernel.Limits) -> None:
    """A third opinion: the flow with the first measures 0, 1 and 3 as limits, and each of its states."""
    flow = measured(flow)
    certificate, cores = prove_flow(flow, given_limits)
    if certificate is None:
        for finding in (one for core in cores for one in find_loops(flow, core, given_limits)):
            if finding.witness is not None:
                assert not product_of(flow.with_measures(1), finding.witness.limits).is_finite(_STATES)
        return
    check_certificate(certificate)
    assert Certificate.from_json(certificate.to_json()) == certificate
    counted = any(is_measure(one) for rank in (certificate.ranks or {}).values() for _, names in rank for one in names)
    for first in (0, 2):
        product = product_of(flow.with_measures(first), given_limits)
        if product.size() > _STATES:
            continue
        assert product.is_finite(_STATES)
        for name, bound in (("", certificate.bounds.transitions), *certificate.bounds.meters.items()):
            most = product.most(lambda move, name=name: (move.transition.calls(name) or 0) if name else 1)  # type: ignore[misc]
            # The limit on a meter stops visits that the product does not.
            assert name or bound.number is None or most[product.begin] <= bound.number
            if bound.number is None and bound.form is not None:
                assert counted
                value = value_of(bound.form, dict(certificate.limits), first)
                assert most[product.begin] <= value, (name, bound)
                refuse(with_bound(certificate, name or "transitions", form="0"), "closed form")


# ---- resets


@value
class Plan:
    steps: tuple[str, ...]


@value
class Done:
    left: int = 1


@value
class Over:
    """The end."""


@gx.node(decreases=lambda plan: len(plan.steps))
def work(plan: Plan) -> Plan | Done:
    # A plan with one step is the last.
    return Plan(plan.steps[1:]) if plan.steps[1:] else Done(1 - len(plan.steps))


@gx.node(decreases=lambda done: done.left)
def judge(done: Done) -> Plan | Over:
    return Plan(("a", "b"))


def replanning(back: Any) -> gx.Graph[Plan, Over]:
    return gx.graph(
        gx.edges(work, gx.on(Plan, work) | gx.on(Done, judge)) | gx.edges(judge, back | gx.on(Over, gx.END)), start=work
    )


def test_a_reset_measure_needs_an_outer_one() -> None:
    """Each new plan may have any length, and a plan is judged again and again: only the inner loop ends by itself."""
    reset = gx.on(Plan, work, resets=[work.measure])
    certificate = certificate_of(replanning(reset), NO_LIMIT)
    assert certificate.bounds.transitions == Bound(None, None)
    judging = kernel.node(name="judge")(gx.node(judge.function))
    endless = gx.graph(
        gx.edges(work, gx.on(Plan, work) | gx.on(Done, judging)) | gx.edges(judging, reset | gx.on(Over, gx.END)),
        start=work,
    )
    (finding,) = endless.verify(NO_LIMIT).findings
    assert (finding.code, finding.node) == ("GX015", "work")
    assert "it spends measure(work), which judge --Plan--> resets" in finding.fact
    assert explore_table(endless, witness_of(finding).limits).endless is not None


WORKING = gx.graph(gx.edges(work, gx.on(Plan, work) | gx.on(Done, gx.END)), start=work)
_job: Any = gx.embed(WORKING, "job")
ONE_JOB = gx.graph(gx.edges(_job, gx.on(Done, gx.END)), start=_job)


@gx.node
def again(done: Done) -> Plan | Over:
    return Plan(("a",)) if done.left else Over()


def test_entry_into_an_embedded_graph_resets_its_measures() -> None:
    jobs = machine_of(_job, again)
    (finding,) = jobs.verify(NO_LIMIT).findings
    assert (finding.code, "which each entry into job resets" in finding.fact) == ("GX014", True)
    # The first entry sets nothing back.
    assert certificate_of(ONE_JOB, NO_LIMIT).bounds.transitions.form == "job.measure(work) + 1"
    assert ONE_JOB.run(Plan(("a", "b"))).snapshot.spent.meters == {"job.measure(work)": 2}
    # It enters the graph again, with a plan that is no shorter.
    counting = kernel.node(name="again")(gx.node(decreases=lambda done: done.left)(again.function))
    entering = machine_of(_job, counting)
    assert certificate_of(entering, NO_LIMIT).ranks is not None
    assert isinstance(entering.run(Plan(())).outcome, Over)


# ---- limits and measures together


def test_a_limit_gives_a_number_where_it_suffices() -> None:
    both = flow_with(
        way("a", "a", "iterations measure(a)"),
        end("a", "iterations measure(a)"),
        Transition("a", "No", "END", "gate", causes=("iterations", "seconds")),
    )
    assert str(prove(both, kernel.Limits(iterations=3)).bounds.transitions) == "iterations + 1 = 4 (exact)"
    assert prove(both, NO_LIMIT).bounds.transitions.form == "measure(a) + 1"


def test_measure_behind_a_limit_of_zero_is_exported() -> None:
    flow = flow_with(way("a", "a"), way("a", "b"), way("b", "b", "x measure(b)"), gate("b", "x"), x=0)
    assert "int left_measure_b_ = 3;" in promela(flow, gx.Limits())


# ---- forged certificates

COUNTS = prove(flow_with(way("s", "a"), way("a", "a", "measure(a)"), end("a", "measure(a)")), NO_LIMIT)


@cases(
    ("changes", "fault"),
    ({"form": "measure(a) + 1"}, "closed form is too low"),
    ({"form": "3"}, "closed form is too low"),
    ({"form": "measure(a)*measure(a) + 9"}, "is not a limit"),
    ({"form": "measure(b) + 9"}, "is not a limit"),
    ({"number": 3}, "it has a number, but depends on a measure"),
    ({"value": 3}, "closed form"),
    ({"exact": True}, "closed form"),
    ({"potential": None}, "no potential"),
)
def test_forged_form_is_refused(changes: dict[str, Any], fault: str) -> None:
    assert COUNTS.bounds.transitions.form == "measure(a) + 2"
    refuse(with_bound(COUNTS, "transitions", **changes), fault)


def test_rank_may_not_count_a_measure_that_is_reset() -> None:
    flow = flow_with(way("a", "a", "measure(a)", "measure(a)"), end("a", "measure(a)"))
    refuse(
        dataclasses.replace(COUNTS, flow=flow, ranks={"a": ((1, ("measure(a)",)), (1, ()))}), "does not lower the rank"
    )


def test_potential_may_not_rise_with_a_measure() -> None:
    """Any amount may be left of one, so no number makes up for it."""
    potential = require(COUNTS.bounds.transitions.potential)
    base, slopes = potential.lines["s"]
    steep = dataclasses.replace(potential, lines={**potential.lines, "s": (base + 99, ())})
    assert slopes == (("measure(a)", 1),)
    refuse(with_bound(COUNTS, "transitions", potential=steep), "counts more than the potential falls")


def test_reserved_calls_of_a_measured_loop_have_no_number() -> None:
    asks: dict[str, Any] = {"asks": 1, "most": 1, "effect_charges": (MODEL_CALL,), "grace": 1.0}
    flow = flow_with(way("a", "a", "measure(a)", **asks), end("a", "measure(a)", **asks))
    assert prove(flow, effects.agent_limits(iterations=None, model_calls=3)).bounds.meters["model_calls"].number is None


def test_a_crash_repeats_the_visit_that_charges_most() -> None:
    """One visit charges 1 and another one up to the fan-out, of which a crash repeats one, and not their sum."""
    flow = flow_with(
        way("plan", "act", "iterations", **calling(models=1)),
        *(gate("plan", "iterations"), within("plan", "model_calls", END.name, "iterations", **calling(models=1))),
        way("act", "plan", **calling(models=None)),
        within("act", "fan_out model_calls", **calling(models=None)),
    )
    assert prove(flow, gx.Limits(iterations=1, fan_out=2, restarts=1)).bounds.model_calls.number == 1 + 2 + 2
