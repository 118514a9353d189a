"""Property tests: every run stays within its proved bounds, whatever its tools, observers and policies do."""

from dataclasses import replace

import pytest
from hypothesis import event, given, settings

from graphexec import GraphexecError, RunResult, StoppedResponse, effects, errors, kernel, snapshot_of
from graphexec.kernel.meters import GRACE
from graphexec.testing.scripted import ScriptedError
from tests.drivers import limit_of
from tests.executor.hostile_executors import make_world
from tests.executor.hostile_runs import LONG, Plan, Spending, Trail, World, plans
from tests.parameters import examples

# The expected errors of a run: those of its model, tools and observers, and ours except for those of the engine.
RAISES = (GraphexecError, ScriptedError)
NEVER_RAISES = (errors.CertificateError, errors.SnapshotError, AssertionError)

SLACK = 1e-6


def check_run(world: World, trail: Trail) -> None:
    """Check one run against its proof and the documented guarantees."""
    executor = world.executors[trail.number]
    limits = executor.limits
    nested = limits.nested_runs
    # A resumed run has begun twice.
    assert nested is None or trail.restarts or trail.spent["nested_runs"] <= nested
    # The outer run may stop a nested run wherever a deadline may, so its proof is one with a deadline.
    seconds = LONG if trail.depth and limits.seconds is None else limits.seconds
    certificate = executor.graph.verify(replace(limits, seconds=seconds)).certificate
    assert certificate is not None
    bounds = certificate.bounds
    assert bounds.transitions.number is not None
    assert trail.moves <= bounds.transitions.number
    # Resuming after a crash without a limit on restarts is not covered by the proof.
    if limits.restarts is not None or not trail.restarts:
        for name, bound in bounds.meters.items():
            assert bound.number is None or trail.asked[name] <= bound.number, name
    if limits.fan_out is not None:
        assert trail.widest <= limits.fan_out * (1 + trail.restarts)
    assert limits.iterations is None or trail.spent.iterations <= limits.iterations
    for meter in (effects.MODEL_CALLS, effects.TOOL_CALLS):
        limit = limits[meter]
        assert limit is None or trail.spent[meter] <= limit + trail.reserved[meter.name], meter.name
    within = [one for one in world.spendings if trail.path[0] in one.path]
    assert len({one.key for one in within}) <= trail.spent[effects.MODEL_CALLS] or trail.end is None
    if trail.end is not None:
        check_charges(world, trail)
    for meter, calls in ((effects.TOKENS, within), (effects.COST, [one for one in within if one.has_price])):
        limit = limits[meter]
        if limit is not None:
            # A reserved call may be charged, and then lost in a crash before it is made.
            paid = trail.reserved[meter.name]
            assert trail.spent[meter] <= limit + in_flight(trail, calls) + paid, meter.name
    assert all(one.depth <= trail.deepest for one in within if one.path[0] == trail.path[0])


def in_flight(trail: Trail, calls: list[Spending]) -> int:
    """Return the tokens of calls that were unknown to a limit when it admitted the last call.

    Reserved calls are always admitted.
    """
    reserved = [one for one in calls if one.reserved and one.path[0] == trail.path[0]]
    last = max((one.since for one in calls if one not in reserved), default=0)
    return sum(one.tokens for one in calls if one.until > last or one in reserved)


def check_charges(world: World, trail: Trail) -> None:
    """Check that a run is charged exactly for the effects of itself and its nested runs."""
    inside = [one for one in world.trails.values() if trail.path[0] in one.path]
    for meter in (effects.MODEL_CALLS, effects.TOOL_CALLS):
        asked = sum(one.asked[meter.name] for one in inside)
        assert trail.spent[meter] >= asked, meter.name
        if all(isinstance(one.end, kernel.Done) and not one.restarts for one in inside):
            assert trail.spent[meter] == asked, meter.name


def check(plan: Plan) -> World:
    world = make_world(plan)
    end = world.drive()
    if isinstance(end, Exception):
        if isinstance(end, NEVER_RAISES) or not isinstance(end, RAISES):
            raise end
        assert snapshot_of(end) is not None
    else:
        assert isinstance(end, (RunResult, kernel.Done))
    for trail in world.trails.values():
        check_run(world, trail)
        if isinstance(trail.end, kernel.Failed) and isinstance(trail.end.error, NEVER_RAISES):
            raise trail.end.error
    for one in world.durations:
        certificate = world.executors[one.number].verify().certificate
        assert certificate is not None
        most = certificate.bounds.seconds.number
        assert most is None or one.seconds <= most + one.blocked + SLACK
        # A call that the outer run's deadline cuts may need time to clean up, too.
        assert one.left is None or one.seconds <= one.left + GRACE + one.blocked + SLACK
    return world


def edge_cases(world: World) -> list[str]:
    """Return the names of the edge cases that the runs of a world have reached."""
    found = [f"entry_point {world.plan.entry_point}"]
    trails = list(world.trails.values())
    first = next(iter(trails), None)
    if first is not None and first.restarts:
        found.append("resumed")
    if any(one.depth for one in trails):
        found.append("run within a run")
    found += [f"depth {max((one.depth for one in trails), default=0)}"]
    for one in trails:
        outcome: object = one.end.outcome if isinstance(one.end, kernel.Done) else None
        if isinstance(one.end, kernel.Failed):
            found.append(f"failed with {type(one.end.error).__name__}")
        if isinstance(outcome, StoppedResponse):
            stop = limit_of(outcome)
            found.append(f"stopped by {'outer ' * stop.outer}{stop.limit}")
        elif outcome is not None:
            found.append("answered")
        limit = world.executors[one.number].limits[effects.TOKENS]
        if limit is not None and one.spent[effects.TOKENS] > limit:
            found.append("tokens beyond the limit, in flight")
        if any(one.reserved.values()):
            found.append("asked beyond the limits")
    if world.blocked:
        found.append("blocked the loop")
    found += world.events
    return sorted(set(found))


@pytest.mark.medium
@settings(max_examples=examples(60))
@given(plan=plans())
def test_runs_keep_their_bounds(plan: Plan) -> None:
    for fact in edge_cases(check(plan)):
        event(fact)


# Edge cases that some runs must reach; otherwise the property is weak.
EDGE_CASES = frozenset(
    {
        *("answered", "resumed", "run within a run", "depth 9", "blocked the loop", "asked beyond the limits"),
        *(f"stopped by {limit}" for limit in ("iterations", "model_calls", "tool_calls", "tokens", "cost", "seconds")),
        *("stopped by fan_out", "stopped by restarts", "tokens beyond the limit, in flight"),
        *(f"stopped by outer {limit}" for limit in ("depth", "nested_runs", "model_calls", "tool_calls")),
        *(f"stopped by outer {limit}" for limit in ("tokens", "cost", "seconds")),
        *(f"failed with {error}" for error in ("ScriptedError", "ModelError", "InvalidReplyError")),
    }
)


@pytest.mark.slow
@pytest.mark.slowest
def test_thousands_of_runs_keep_their_bounds() -> None:
    found: set[str] = set()
    number = examples(3000)

    @settings(max_examples=number)
    @given(plan=plans())
    def thousands(plan: Plan) -> None:
        found.update(edge_cases(check(plan)))

    thousands()
    # A tenth of the runs reaches nearly all of them.
    assert len(EDGE_CASES - found) <= (0 if number == 3000 else 4), EDGE_CASES - found
