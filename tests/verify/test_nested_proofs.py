"""Proofs of runs with nested runs: the charges of tools that run executors are added to the bounds."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import errors, memory
from graphexec.kernel.effects import NestedRuns
from tests.executor.actors import Caller, act, answer, caller_of, echo, scripted
from tests.kernel.machines import Halted, machine_of, pure, stub, value
from tests.parameters import cases, examples
from tests.verify.proofs import bounds_of, certificate_of, meters_of, refuse, require


def bounds_on(executor: gx.AgentExecutor) -> tuple[str, str]:
    """Return the bounds on model and tool calls."""
    meters = meters_of(executor.graph, executor.limits)
    return meters["model_calls"], meters["tool_calls"]


def calling(**options: Any) -> gx.AgentExecutor:
    return caller_of(Caller(), echo, **options)


def delegating(
    *inner: gx.AgentExecutor, at_once: int = 1, answers_after: int | None = None, **options: Any
) -> gx.AgentExecutor:
    """Return an executor whose model calls the first of the tools, which runs the first of the others."""
    tools = [one.as_tool(f"delegate_{number}", "Let another agent do it.") for number, one in enumerate(inner)]
    return caller_of(Caller(at_once, answers_after=answers_after, argument="input"), *tools, **options)


# ---- machines that fetch pages


PAGES = gx.Meter("pages")


@value
class Fetch(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}


@value
class Address:
    number: int


@value
class Missed:
    number: int


@value
class Page:
    text: str


def missed(address: Address, limit: gx.Exhausted) -> Missed:
    return Missed(address.number)


@gx.node(when_spent=missed, asks=1)
def fetch(address: Address) -> gx.Asks[Fetch, Page]:
    return Page((yield Fetch()))


try_again = pure("try_again", Missed, Address, lambda given: Address(given.number + 1))


FETCHING: gx.Machine[Address, Page] = machine_of(fetch, try_again)


@value
class Survey(gx.Effect[int]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}
    measures: ClassVar[tuple[gx.Meter, ...]] = (PAGES,)

    def measure(self, reply: int) -> tuple[float, ...]:
        return (reply,)


survey = stub("survey", Address, Page, asks=Survey)
REPORTING = machine_of(gx.node(when_spent=missed, asks=1)(survey), stub("give_up", Missed, Page))


# ---- bounds


@gx.tool(retries=2)
def trying() -> None:
    """Try it."""


INNER = calling(max_iterations=5, max_fan_out=2)
INNERMOST = calling(max_iterations=5, max_fan_out=1)
MIDDLE = delegating(INNERMOST, max_iterations=2, max_fan_out=1)
AGAIN = dataclasses.replace(INNER.as_tool("delegate", "Try it."), retry=trying.retry)


@cases(
    ("executor", "models", "tools"),
    (INNER, "iterations = 5 (exact)", "fan_out*iterations = 10 (exact)"),
    # Each outer call is an inner run, as far as the limit on these runs allows.
    (delegating(INNER, max_tool_calls=3), "30 (at most)", "tool_calls = 3 (at most)"),
    (delegating(INNER, max_iterations=4, max_fan_out=1), "24 (at most)", "44 (at most)"),
    (
        delegating(INNER, max_nested_runs=2),
        "iterations + 5*nested_runs = 25 (at most)",
        "fan_out*iterations + 10*nested_runs = 15,020 (at most)",
    ),
    # A limit on the meter itself is one for all of them together.
    (delegating(INNER, max_model_calls=7), "model_calls = 7 (at most)", None),
    # By itself 2 calls and two runs of 5.
    (MIDDLE, "12 (at most)", None),
    (delegating(MIDDLE, max_iterations=3, max_fan_out=1), "39 (at most)", None),
    # Of at most 4 runs at any level, each makes up to 5.
    (delegating(MIDDLE, max_iterations=3, max_nested_runs=4), "iterations + 5*nested_runs = 23 (at most)", None),
    (delegating(INNERMOST, MIDDLE, max_iterations=1, max_fan_out=1), "13 (at most)", None),
    # Each attempt of a tool is a run.
    (caller_of(Caller(argument="input"), AGAIN, max_tool_calls=3), "60 (at most)", None),
)
def test_bound_includes_tool_that_runs_executor(executor: gx.AgentExecutor, models: str, tools: str | None) -> None:
    found = bounds_on(executor)
    assert found == (models, found[1] if tools is None else tools)


def test_unproved_nested_executor_prevents_proof() -> None:
    inner = calling(max_iterations=None, allow_nonterminating=True)
    verdict = delegating(inner, allow_nonterminating=True).verify()
    assert verdict.status == "unproved"
    assert verdict.why == (
        "GX018 at dispatch_tools: the tool delegate_0 runs an executor that is not proved to end. "
        "Make delegate_0 from a proved executor, without allow_nonterminating."
    )


def test_nested_charges_are_assumptions_without_limits() -> None:
    linked, included, outer = delegating(calling()).verify().assumptions[4:]
    for fact in ("run(..., host=call)", "a run starts at most 1,000, to a depth of 8"):
        assert fact in linked
    for fact in (
        "the bounds on model calls and tool calls include",
        "map_agents, but not other nested runs",
        "a memory",
    ):
        assert fact in included
    assert "it takes at most bounds.transitions_when_nested" in outer
    limited: Any = {"max_model_calls": 9, "max_tool_calls": 9, "max_depth": None, "max_nested_runs": None}
    (linked,) = delegating(calling(), **limited).verify().assumptions[4:]
    assert linked.endswith("a run starts any number, at any depth")


@cases(
    ("limits", "others"),
    (gx.Limits(nested_runs=2), "4*nested_runs = 8 (at most)"),
    (gx.Limits(nested_runs=None), "no bound"),
    (gx.Limits(depth=0), "0 (exact)"),
)
def test_unbounded_calls_start_unbounded_runs(limits: gx.Limits, others: str) -> None:
    """Their replies may report more of them than they were charged."""
    assert meters_of(REPORTING.with_settings(NestedRuns("pages", 1, (("others", 4, 4),))), limits) == {"others": others}


def test_reports_of_nested_runs_are_not_bounded() -> None:
    """The machine around them charges the same meter, and reports no more of it."""
    inner = REPORTING.verify().nested_runs("reporting", "pages")
    assert inner.charges == (("pages", None, None),)
    bounds = bounds_of(FETCHING.with_settings(inner))
    assert (str(bounds.meters["pages"]), str(bounds.alone["pages"])) == ("no bound", "1 (exact)")
    assert meters_of(FETCHING.with_settings(inner), gx.Limits(depth=0)) == {"pages": "1 (exact)"}


@pytest.mark.medium
@settings(max_examples=examples(60), deadline=None)
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
    bounds = bounds_of(executor.graph, executor.limits)
    result = asyncio.run(executor.arun("q")) if data.draw(st.booleans(), label="async") else executor.run("q")
    for name in ("model_calls", "tool_calls"):
        bound = bounds.meters[name].number
        assert bound is None or result.spent[name] <= bound, f"{name}: {result.spent[name]} of {bound}"
    assert result.spent["nested_runs"] <= (bounds.nested_runs.number or 0)


# ---- certificates


def test_a_certificate_of_other_inner_executors_is_refused() -> None:
    one, other = (delegating(calling(max_iterations=most)) for most in (2, 3))
    fault = "are not those of the certificate; prove the machine again"
    refuse(certificate_of(one.graph, one.limits), fault, other.graph)


DELEGATING = delegating(calling(max_iterations=5), max_nested_runs=2)
CERTIFICATE = certificate_of(DELEGATING.graph, DELEGATING.limits)


@cases("meter", "model_calls", "tool_calls")
@cases("change", -1, 1)
@cases("where", "meters", "alone")
def test_numbers_that_include_nested_runs_are_checked(where: str, change: int, meter: str) -> None:
    bounds = getattr(CERTIFICATE.bounds, where)
    forged: Any = {where: {**bounds, meter: dataclasses.replace(bounds[meter], number=bounds[meter].number + change)}}
    changed = dataclasses.replace(CERTIFICATE, bounds=dataclasses.replace(CERTIFICATE.bounds, **forged))
    refuse(changed, f"the bound on {meter.replace('_', ' ')}.* is not proved", DELEGATING.graph)


DEPTH, TRANSITIONS, NESTED = CERTIFICATE.bounds.depth, CERTIFICATE.bounds.transitions, CERTIFICATE.nested


@cases(
    ("changes", "fault"),
    ({"alone": {}}, "the bounds on its own effects are for other meters than its bounds"),
    ({"nested_runs": DEPTH}, "the bound on nested runs is not its limit"),
    ({"depth": dataclasses.replace(DEPTH, number=7)}, "on depth is not its limit"),
    # Only the bound on seconds assumes anything.
    (
        {"transitions": dataclasses.replace(TRANSITIONS, assuming="the moon is full")},
        "which only the bound on seconds may have",
    ),
)
def test_meters_and_limits_of_nested_runs_are_checked(changes: dict[str, Any], fault: str) -> None:
    bounds = dataclasses.replace(CERTIFICATE.bounds, **changes)
    refuse(dataclasses.replace(CERTIFICATE, bounds=bounds), fault, DELEGATING.graph)


def charged_twice(charges: Any) -> Any:
    return (*charges, charges[0])


def unknown_charges(charges: Any) -> Any:
    return tuple((name, None, None) for name, *_ in charges)


@cases(
    ("change", "fault"),
    (charged_twice, "the charges of nested runs have two rows for one meter"),
    (unknown_charges, "the meters that it bounds are not those|nothing bounds the charges of nested runs"),
)
def test_charges_of_nested_runs_are_checked(change: Callable[[Any], Any], fault: str) -> None:
    (known,) = NESTED
    nested = dataclasses.replace(known, charges=change(known.charges))
    refuse(dataclasses.replace(CERTIFICATE, nested=(nested,)), fault)


# ---- meters of the runs within alone


@cases(
    ("others", "limits", "bound"),
    (4, gx.Limits(), "4 (at most)"),
    (4, gx.Limits(nested_runs=0), "0 (exact)"),
    (4, gx.Limits({gx.Meter("others"): 3}), "others = 3 (at most)"),
    # Without a bound there is no claim.
    (None, gx.Limits(), None),
)
def test_meters_of_nested_runs_are_bounded(others: int | None, limits: gx.Limits, bound: str | None) -> None:
    machine = FETCHING.with_settings(NestedRuns("pages", 1, (("others", others, others), ("pages", 0, 0))))
    expected = {"pages": "1 (exact)"} | ({} if bound is None else {"others": bound})
    assert meters_of(machine, limits) == expected


def test_machine_may_loop_at_an_outer_limit() -> None:
    """An outer limit that the machine lacks makes it loop; its certificate does not claim to hold within other runs."""
    certificate = certificate_of(FETCHING)
    assert not certificate.holds_when_nested
    last = FETCHING.verify().assumptions[-1]
    assert last == "the run is not nested in a run with a limit that this machine does not have (else it is refused)"
    claimed = dataclasses.replace(certificate, holds_when_nested=True)
    refuse(claimed, "fetch --Missed--> try_again does not lower the rank", FETCHING)

    @gx.tool
    def delegate(text: str, call: gx.CallContext[Any]) -> str:
        """Fetch it."""
        return FETCHING.run(Address(0), handlers={Fetch: lambda effect: text}).outcome.text

    def observed(limits: gx.Limits) -> str:
        executor = gx.AgentExecutor(agent=scripted(act("delegate", text="it"), answer()), tools=[delegate])
        return str(executor.with_limits(limits).run("q").steps[0].observation)

    assert observed(gx.Limits()) == "it"
    assert "nested in one that limits pages, which may stop it anywhere, and its proof" in observed(
        gx.Limits({PAGES: 0})
    )


@value
class Addresses:
    left: tuple[Address, ...]


def test_closed_form_with_a_measure_does_not_include_nested_runs() -> None:
    fetch_next = stub("fetch_next", Addresses, Addresses | Page, asks=Fetch)
    measured = gx.node(when_spent=Halted, asks=1, decreases=lambda addresses: len(addresses.left))(fetch_next)
    bounds = bounds_of(machine_of(measured).with_settings(NestedRuns("pages", 1, (("pages", 1, 1),))))
    assert (bounds.alone["pages"].form, bounds.meters["pages"].form) == ("measure(fetch_next) + 1", None)


# ---- a machine whose end only a search of its states proves


@value
class Todo: ...


@value
class Worked: ...


def again(todo: Todo, exhausted: gx.Exhausted) -> Todo:
    """A loop, if a limit may stop the node before anything was spent."""
    return todo


work = gx.node(when_spent=again, meters=[gx.ITERATIONS])(pure("work", Todo, Worked, lambda todo: Worked()))


WORKING = gx.graph(gx.edges(work, gx.on(Worked, gx.END) | gx.on(Todo, work)), start=work)


@cases("limits", {"depth": 0}, {"nested_runs": 0}, {"seconds": 60})
@cases("is_async", False, True)
def test_proof_by_states_does_not_hold_within_limits(limits: dict[str, Any], is_async: bool) -> None:
    @gx.tool
    async def look() -> str:
        """Look."""
        WORKING.run(Todo())
        return "ended"

    executor = gx.AgentExecutor(agent=scripted(act("look"), answer()), tools=[look])
    bounded = executor.with_limits(dataclasses.replace(executor.limits, **limits))
    result = asyncio.run(bounded.arun("q")) if is_async else bounded.run("q")
    assert "its proof does not include that" in str(result.steps[0].observation)
    assert WORKING.run(Todo()).outcome == Worked()


@cases(
    ("spent", "fact"),
    (1, "the run goes on to work after the last step that its certificate allows"),
    (2, "the snapshot has spent 2 iterations, and the proof is only for runs within the limit of 1"),
)
def test_proof_by_states_does_not_hold_after_more_was_spent(spent: int, fact: str) -> None:
    """A gate that a run within these limits never meets leads back to itself."""
    within = gx.Limits(iterations=1)
    assert str(bounds_of(WORKING, within).transitions) == "1 (exact)"
    snapshot = gx.Snapshot("work", Todo(), spent=gx.Spent(iterations=spent))
    with pytest.raises(errors.CertificateError, match=fact):
        WORKING.run(snapshot, limits=within)
    with pytest.raises(errors.CertificateError, match=fact):
        gx.advance(WORKING, snapshot, within, proof=certificate_of(WORKING, within).proof)
    assert WORKING.run(snapshot, limits=gx.Limits(iterations=3)).outcome == Worked()


ONCE = gx.Meter("once", 1)


@value
class Rest: ...


def skip(todo: Todo, exhausted: gx.Exhausted) -> Rest:
    return Rest()


def finish(rest: Rest, exhausted: gx.Exhausted) -> Worked:
    return Worked()


first = gx.node(when_spent=skip, meters=[ONCE])(pure("first", Todo, Rest, lambda todo: Rest()))
loop = gx.node(when_spent=finish, meters=[ONCE])(pure("loop", Rest, Todo, lambda rest: Todo()))
back = pure("back", Todo, Rest, lambda todo: Rest())
SKIPPING = gx.graph(
    gx.edges(first, gx.on(Rest, loop))
    | gx.edges(loop, gx.on(Todo, back) | gx.on(Worked, gx.END))
    | gx.edges(back, gx.on(Rest, loop)),
    start=first,
)


def test_run_resumed_with_other_limits_has_a_bound_of_its_own() -> None:
    """Without time, the budget of the first node is left for the loop behind it."""
    timeless, bounds = bounds_of(SKIPPING, gx.Limits(seconds=0)), bounds_of(SKIPPING, gx.Limits())
    assert (timeless.transitions.number, bounds.transitions.number) == (2, 2)
    assert bounds.transitions_when_resumed.number == 5
    stopped = gx.Snapshot("loop", Rest(), spent=gx.Spent(seconds=1.0))
    moves = [one for one in SKIPPING.stream(stopped, limits=gx.Limits()) if isinstance(one, gx.Moved)]
    assert [one.node for one in moves] == ["loop", "back", "loop"]
    certificate = certificate_of(SKIPPING)
    lower = dataclasses.replace(bounds.transitions_when_resumed, number=4)
    claimed = dataclasses.replace(bounds, transitions_when_resumed=lower)
    fault = "the bound on transitions when resumed is not proved: the potential proves 5, but the bound says 4"
    refuse(dataclasses.replace(certificate, bounds=claimed), fault, SKIPPING)
    (rest,) = [one for one in SKIPPING.verify().assumptions if "other limits" in one]
    assert "it takes at most bounds.transitions_when_resumed from there on" in rest
    (rest,) = [one for one in WORKING.verify().assumptions if "other limits" in one]
    assert "it takes at most bounds.transitions from there on" in rest


def test_bound_of_nested_run_has_the_steps_of_outer_limits() -> None:
    """Only an outer deadline keeps the memory from saving the ending, which is one step more."""
    bounds = require(calling(memory=memory.BufferMemory(as_messages=True)).verify().bounds)
    assert bounds.transitions_when_nested.number == (bounds.transitions.number or 0) + 1
