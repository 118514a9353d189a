"""Proofs of runs with nested runs: the charges of tools that run executors are added to the bounds."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.errors import CertificateError
from graphexec.kernel import bind
from graphexec.kernel.effects import NestedRuns
from graphexec.verify import Certificate, Verdict, check
from graphexec.verify.checker.check import check_certificate
from tests.executor.actors import Caller, act, answer, caller_of, echo, scripted
from tests.parameters import cases


def proof(executor: gx.AgentExecutor) -> Verdict:
    """Return the verdict on an executor, of which the certificate is checked, also when it is read again."""
    verdict = executor.verify()
    assert verdict.certificate is not None
    again = Certificate.from_json(verdict.certificate.to_json())
    assert again == verdict.certificate
    check(again, executor.graph)
    return verdict


def bounds_of(executor: gx.AgentExecutor) -> dict[str, str]:
    bounds = proof(executor).bounds
    assert bounds is not None
    return {name: str(bound) for name, bound in bounds.meters.items()}


def delegating(
    *inner: gx.AgentExecutor, at_once: int = 1, answers_after: int | None = None, **options: Any
) -> gx.AgentExecutor:
    """Return an executor whose model calls the first of the tools, which runs the first of the others."""
    tools = [one.as_tool(f"delegate_{number}", "Let another agent do it.") for number, one in enumerate(inner)]
    return caller_of(Caller(at_once, answers_after=answers_after, argument="input"), *tools, **options)


# ---- bounds


def test_bound_includes_tool_that_runs_executor() -> None:
    inner = caller_of(Caller(), echo, max_iterations=5, max_fan_out=2)
    assert bounds_of(inner) == {
        "model_calls": "iterations = 5 (exact)",
        "tool_calls": "fan_out*iterations = 10 (exact)",
    }
    # Each outer call is an inner run, as far as the limit on these runs allows.
    assert bounds_of(delegating(inner, max_tool_calls=3)) == {
        "model_calls": "30 (at most)",
        "tool_calls": "tool_calls = 3 (at most)",
    }
    assert bounds_of(delegating(inner, max_iterations=4, max_fan_out=1)) == {
        "model_calls": "24 (at most)",
        "tool_calls": "44 (at most)",
    }
    assert bounds_of(delegating(inner, max_nested_runs=2)) == {
        "model_calls": "iterations + 5*nested_runs = 25 (at most)",
        "tool_calls": "fan_out*iterations + 10*nested_runs = 15,020 (at most)",
    }
    # A limit on the meter itself is one for all of them together.
    assert bounds_of(delegating(inner, max_model_calls=7))["model_calls"] == "model_calls = 7 (at most)"


def test_nested_runs_obey_outermost_limit() -> None:
    innermost = caller_of(Caller(), echo, max_iterations=5, max_fan_out=1)
    middle = delegating(innermost, max_iterations=2, max_fan_out=1)
    # By itself 2 calls and two runs of 5.
    assert bounds_of(middle)["model_calls"] == "12 (at most)"
    assert bounds_of(delegating(middle, max_iterations=3, max_fan_out=1))["model_calls"] == "39 (at most)"
    # Of at most 4 runs at any level, each makes up to 5.
    assert bounds_of(delegating(middle, max_iterations=3, max_nested_runs=4))["model_calls"] == (
        "iterations + 5*nested_runs = 23 (at most)"
    )
    assert bounds_of(delegating(innermost, middle, max_iterations=1, max_fan_out=1))["model_calls"] == "13 (at most)"


def test_each_attempt_of_a_tool_is_a_run() -> None:
    inner = caller_of(Caller(), echo, max_iterations=5)

    @gx.tool(retries=2)
    def trying() -> None:
        """Try it."""

    again = dataclasses.replace(inner.as_tool("delegate", "Try it."), retry=trying.retry)
    assert bounds_of(caller_of(Caller(argument="input"), again, max_tool_calls=3))["model_calls"] == "60 (at most)"


def test_unproved_nested_executor_prevents_proof() -> None:
    inner = caller_of(Caller(), echo, max_iterations=None, allow_nonterminating=True)
    verdict = delegating(inner, allow_nonterminating=True).verify()
    assert verdict.status == "unproved"
    assert verdict.why == (
        "GX018 at dispatch_tools: the tool delegate_0 runs an executor that is not proved to end. "
        "Make delegate_0 from a proved executor, without allow_nonterminating."
    )


def test_nested_charges_are_assumptions_without_limits() -> None:
    inner = caller_of(Caller(), echo)
    assert proof(delegating(inner)).assumptions[3:] == (
        "each nested run ends, and is linked to the call that started it (in a thread of your own: "
        "run(..., host=call)); a run starts at most 1,000, to a depth of 8",
        "the bounds on model calls and tool calls include the nested runs of tools made by as_tool, but not other "
        "nested runs and not the model calls of a memory; limits on model calls and tool calls would include them",
        "the bound on transitions is for a run that is not nested: inside a run with a limit that this machine does "
        "not have, it still ends, but may take more",
    )
    limited = delegating(inner, max_model_calls=9, max_tool_calls=9, max_depth=None, max_nested_runs=None)
    assert proof(limited).assumptions[3:] == (
        "each nested run ends, and is linked to the call that started it (in a thread of your own: "
        "run(..., host=call)); a run starts any number, at any depth",
    )


def test_unbounded_calls_start_unbounded_runs() -> None:
    """Their replies may report more of them than they were charged."""
    nested = NestedRuns("pages", 1, (("others", 4, 4),))
    machine = bind(REPORTING, nested)
    for limits, expected in (
        (gx.Limits(nested_runs=2), "4*nested_runs = 8 (at most)"),
        (gx.Limits(nested_runs=None), "no bound"),
        (gx.Limits(depth=0), "0 (exact)"),
    ):
        certificate = machine.verify(limits).certificate
        assert certificate is not None
        check(certificate, machine)
        assert {name: str(bound) for name, bound in certificate.bounds.meters.items()} == {"others": expected}


def test_reports_of_nested_runs_are_not_bounded() -> None:
    """The machine around them charges the same meter, and reports no more of it."""
    inner = REPORTING.verify().nested_runs("reporting", "pages")
    assert inner.charges == (("pages", None, None),)
    certificate = bind(FETCHING, inner).verify(gx.Limits()).certificate
    assert certificate is not None
    assert str(certificate.bounds.meters["pages"]) == "no bound"
    assert str(certificate.bounds.alone["pages"]) == "1 (exact)"
    limited = bind(FETCHING, inner).verify(gx.Limits(depth=0)).certificate
    assert limited is not None
    assert str(limited.bounds.meters["pages"]) == "1 (exact)"


@pytest.mark.medium
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nested_runs_stay_within_proved_charges(data: st.DataObject) -> None:
    """Executors of up to three levels, with tools that call as often as they may."""
    small = st.integers(0, 3)
    limit = st.none() | st.integers(0, 12)

    def options(level: int) -> dict[str, Any]:
        return {
            "max_iterations": data.draw(small, label=f"iterations {level}"),
            "max_fan_out": data.draw(st.integers(1, 3), label=f"fan-out {level}"),
            "max_model_calls": data.draw(limit, label=f"model calls {level}"),
            "max_tool_calls": data.draw(limit, label=f"tool calls {level}"),
            "max_depth": data.draw(st.sampled_from([8, 2, 1, 0]), label=f"depth {level}"),
            "max_nested_runs": data.draw(st.sampled_from([1_000, 5, 2, 0]), label=f"runs {level}"),
            "early_stopping_method": data.draw(st.sampled_from(["force", "generate"]), label=f"stops {level}"),
        }

    executor = caller_of(Caller(2), echo, **options(0))
    for level in range(1, data.draw(st.integers(1, 2), label="levels") + 1):
        executor = delegating(executor, at_once=data.draw(st.integers(1, 3), label="at once"), **options(level))
    bounds = proof(executor).bounds
    assert bounds is not None
    result = asyncio.run(executor.arun("q")) if data.draw(st.booleans(), label="async") else executor.run("q")
    for name in ("model_calls", "tool_calls"):
        bound = bounds.meters[name].number
        assert bound is None or result.spent[name] <= bound, f"{name}: {result.spent[name]} of {bound}"
    assert result.spent["nested_runs"] <= (bounds.nested_runs.number or 0)


# ---- certificates


def test_a_certificate_of_other_inner_executors_is_refused() -> None:
    one, other = (delegating(caller_of(Caller(), echo, max_iterations=most)) for most in (2, 3))
    certificate = proof(one).certificate
    assert certificate is not None
    with pytest.raises(CertificateError, match="are not those of the certificate; prove the machine again"):
        check(certificate, other.graph)


@cases("meter", ["model_calls", "tool_calls"])
@cases("change", [-1, 1])
@cases("where", ["meters", "alone"])
def test_numbers_that_include_nested_runs_are_checked(where: str, change: int, meter: str) -> None:
    executor = delegating(caller_of(Caller(), echo, max_iterations=5), max_nested_runs=2)
    certificate = proof(executor).certificate
    assert certificate is not None
    bounds = getattr(certificate.bounds, where)
    forged = dataclasses.replace(bounds[meter], number=bounds[meter].number + change)
    change_of: dict[str, Any] = {where: {**bounds, meter: forged}}
    changed = dataclasses.replace(certificate.bounds, **change_of)
    with pytest.raises(CertificateError, match=f"the bound on {meter.replace('_', ' ')}.* is not proved"):
        check(dataclasses.replace(certificate, bounds=changed), executor.graph)


def test_meters_and_limits_of_nested_runs_are_checked() -> None:
    executor = delegating(caller_of(Caller(), echo, max_iterations=5), max_nested_runs=2)
    certificate = proof(executor).certificate
    assert certificate is not None
    bounds = certificate.bounds
    for changed, text in (
        (dataclasses.replace(bounds, alone={}), "the bounds on its own effects are for other meters than its bounds"),
        (dataclasses.replace(bounds, nested_runs=bounds.depth), "the bound on nested runs is not its limit"),
        (dataclasses.replace(bounds, depth=dataclasses.replace(bounds.depth, number=7)), "on depth is not its limit"),
    ):
        with pytest.raises(CertificateError, match=text):
            check(dataclasses.replace(certificate, bounds=changed), executor.graph)


def test_charges_of_nested_runs_are_checked() -> None:
    executor = delegating(caller_of(Caller(), echo, max_iterations=5), max_nested_runs=2)
    certificate = proof(executor).certificate
    assert certificate is not None
    nested = certificate.nested
    assert nested is not None
    twice = dataclasses.replace(nested, charges=(*nested.charges, nested.charges[0]))
    unknown = dataclasses.replace(nested, charges=tuple((name, None, None) for name, *_ in nested.charges))
    for changed, text in (
        (twice, "the charges of nested runs have two rows for one meter"),
        (unknown, "the meters that it bounds are not those of its flow|nothing bounds the charges of nested runs"),
    ):
        with pytest.raises(CertificateError, match=text):
            check_certificate(dataclasses.replace(certificate, nested=changed))


def test_only_seconds_assume_anything() -> None:
    certificate = proof(caller_of(Caller(), echo)).certificate
    assert certificate is not None
    transitions = dataclasses.replace(certificate.bounds.transitions, assuming="the moon is full")
    changed = dataclasses.replace(certificate.bounds, transitions=transitions)
    with pytest.raises(CertificateError, match="which only the bound on seconds may have"):
        check_certificate(dataclasses.replace(certificate, bounds=changed))


# ---- meters of the runs within alone


PAGES = gx.Meter("pages")


@final
@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}


@final
@dataclass(frozen=True)
class Address:
    number: int


@final
@dataclass(frozen=True)
class Missed:
    number: int


@final
@dataclass(frozen=True)
class Page:
    text: str


def missed(address: Address, limit: gx.Exhausted) -> Missed:
    return Missed(address.number)


@gx.charged(when_spent=missed, asks=1)
@gx.node
def fetch(address: Address) -> gx.Asks[Fetch, Page]:
    return Page((yield Fetch()))


@gx.node
def try_again(given: Missed) -> Address:
    return Address(given.number + 1)


FETCHING: gx.Graph[Address, Page] = gx.graph(
    gx.edges(fetch, gx.on(Page, gx.END) | gx.on(Missed, try_again)) | gx.edges(try_again, gx.on(Address, fetch)),
    start=fetch,
)


@final
@dataclass(frozen=True)
class Survey(gx.Effect[int]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}
    measures: ClassVar[tuple[gx.Meter, ...]] = (PAGES,)

    def measure(self, reply: int) -> tuple[float, ...]:
        return (reply,)


@gx.charged(when_spent=missed, asks=1)
@gx.node
def survey(address: Address) -> gx.Asks[Survey, Page]:
    return Page(str((yield Survey())))


@gx.node
def give_up(given: Missed) -> Page:
    return Page(str(given.number))


REPORTING: gx.Graph[Address, Page] = gx.graph(
    gx.edges(survey, gx.on(Page, gx.END) | gx.on(Missed, give_up)) | gx.edges(give_up, gx.on(Page, gx.END)),
    start=survey,
)


def test_meters_of_nested_runs_are_bounded() -> None:
    def bounds(others: int | None, limits: gx.Limits) -> dict[str, str]:
        machine = bind(FETCHING, NestedRuns("pages", 1, (("others", others, others), ("pages", 0, 0))))
        certificate = machine.verify(limits).certificate
        assert certificate is not None
        check(certificate, machine)
        return {name: str(bound) for name, bound in certificate.bounds.meters.items()}

    assert bounds(4, gx.Limits()) == {"pages": "1 (exact)", "others": "4 (at most)"}
    assert bounds(4, gx.Limits(nested_runs=0)) == {"pages": "1 (exact)", "others": "0 (exact)"}
    assert bounds(4, gx.Limits({gx.Meter("others"): 3})) == {"pages": "1 (exact)", "others": "others = 3 (at most)"}
    # Without a bound there is no claim.
    assert bounds(None, gx.Limits()) == {"pages": "1 (exact)"}


def test_machine_may_loop_at_an_outer_limit() -> None:
    """An outer limit that the machine lacks makes it loop; its certificate does not claim to hold within other runs."""
    verdict = FETCHING.verify()
    assert verdict.certificate is not None
    assert not verdict.certificate.holds_when_nested
    assert verdict.assumptions[-1] == "the run is not nested in a run with a limit that this machine does not have"
    claimed = dataclasses.replace(verdict.certificate, holds_when_nested=True)
    with pytest.raises(CertificateError, match="fetch --Missed--> try_again does not lower the rank"):
        check(claimed, FETCHING)

    @gx.tool
    def delegate(text: str, call: gx.CallContext[Any]) -> str:
        """Fetch it."""
        return FETCHING.run(Address(0), handlers={Fetch: lambda effect: text}).outcome.text

    def observed(limits: gx.Limits) -> str:
        executor = gx.AgentExecutor(agent=scripted(act("delegate", text="it"), answer()), tools=[delegate])
        return str(executor.with_limits(limits).run("q").steps[0].observation)

    assert observed(gx.Limits()) == "it"
    assert "has a limit that the proof did not include" in observed(gx.Limits({PAGES: 0}))
