"""The number of effects per visit: the engine enforces `asks=`, and otherwise the limit `fan_out`."""

from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import AskHuman, CallTool, ToolResult, agent_limits
from graphexec.errors import NodeError, UndeclaredCountError
from graphexec.kernel import Node, PendingEffect
from graphexec.kernel.node import Count
from graphexec.runtime import RunContext, make_run_context
from tests.drivers import Driver, Script, drive_astream, drive_async, drive_stream, drive_sync, run_script
from tests.kernel import machines
from tests.parameters import cases


@final
@dataclass(frozen=True)
class Plan:
    """The sizes of the batches of each visit; a batch of 1 is a single effect."""

    batches: tuple[int, ...]
    visits: int = 1


@final
@dataclass(frozen=True)
class Fetched:
    replies: int


@final
@dataclass(frozen=True)
class Cut:
    at: Plan
    limit: gx.Exhausted


@gx.node
def fetch(plan: Plan) -> gx.Asks[CallTool, Fetched | Plan]:
    replies = 0
    for number, batch in enumerate(plan.batches):
        if batch == 1:
            yield from gx.ask(CallTool(f"{number}", ""))
            replies += 1
        else:
            replies += len((yield from gx.ask_all([CallTool(f"{number}.{one}", "") for one in range(batch)])))
    return Plan(plan.batches, plan.visits - 1) if plan.visits > 1 else Fetched(replies)


def fetch_graph(asks: Count | None = None) -> gx.Graph[Plan, Fetched | Cut]:
    counted = gx.charged(when_spent=Cut, asks=asks)(fetch)
    return gx.graph(
        gx.edges(counted, gx.on(Fetched, gx.END) | gx.on(Plan, counted) | gx.on(Cut, gx.END)), start=counted
    )


def tools(**limits: Any) -> RunContext:
    return make_run_context({CallTool: lambda call: ToolResult(call.name)}, limits=agent_limits(**limits))


def outcome(machine: gx.Graph[Plan, Any], plan: Plan, within: RunContext) -> Any:
    return run_script(lambda: Script(machine, plan, within)).outcome


# ---- declared counts


@cases("batches", [(3,), (1, 2), (1, 1, 1), (2, 0, 1)])
def test_node_asks_for_its_declared_number_of_effects(batches: tuple[int, ...]) -> None:
    assert outcome(fetch_graph(3), Plan(batches), tools()) == Fetched(3)


@cases("batches", [(), (2,), (3,), (1, 1, 1, 1)])
def test_node_may_declare_a_range_of_counts(batches: tuple[int, ...]) -> None:
    least, most = (0, 2) if sum(batches) < 3 else (3, 4)
    assert outcome(fetch_graph((least, most)), Plan(batches), tools()) == Fetched(sum(batches))


@cases(("asks", "batches", "asked"), [(2, (3,), 3), (2, (2, 1), 3), ((0, 2), (1, 2), 3), (0, (1,), 1)])
def test_excess_effects_are_not_carried_out(asks: Count, batches: tuple[int, ...], asked: int) -> None:
    called: list[str] = []

    def call(effect: CallTool) -> ToolResult:
        called.append(effect.name)
        return ToolResult("")

    def script() -> Script[Any, Any]:
        called.clear()
        return Script(fetch_graph(asks), Plan(batches), make_run_context({CallTool: call}))

    with pytest.raises(UndeclaredCountError) as caught:
        run_script(script)
    least, most = asks if isinstance(asks, tuple) else (asks, asks)
    error = caught.value
    assert (error.node, error.asked, error.least, error.most) == ("fetch", asked, least, most)
    # An excess batch is refused as a whole.
    assert len(called) == sum(batches[:-1])


@cases(("asks", "batches"), [(3, (2,)), ((1, 4), ()), ((1, 4), (0,))])
def test_outcome_after_too_few_effects_is_not_followed(asks: Count, batches: tuple[int, ...]) -> None:
    with pytest.raises(UndeclaredCountError) as caught:
        run_script(lambda: Script(fetch_graph(asks), Plan(batches), tools()))
    least, most = asks if isinstance(asks, tuple) else (asks, asks)
    error = caught.value
    assert (error.node, error.asked, error.least, error.most) == ("fetch", sum(batches), least, most)


def test_error_reports_asked_and_declared_counts() -> None:
    def text(asks: Count, *batches: int) -> str:
        with pytest.raises(UndeclaredCountError) as caught:
            run_script(lambda: Script(fetch_graph(asks), Plan(batches), tools()))
        return str(caught.value)

    assert text(2, 3) == (
        "fetch asked for 3 effects in one visit but declares exactly 2; ask for that many, or write asks=(2, 3)"
    )
    assert text((1, 2)) == (
        "fetch asked for 0 effects in one visit but declares 1 to 2; ask for that many, or write asks=(0, 2)"
    )


def test_each_visit_is_counted_separately() -> None:
    assert outcome(fetch_graph(2), Plan((1, 1), visits=5), tools()) == Fetched(2)


def test_stopped_visit_may_ask_for_fewer_effects() -> None:
    result = run_script(lambda: Script(fetch_graph(3), Plan((1, 1, 1)), tools(tool_calls=2)))
    assert result.outcome == Cut(Plan((1, 1, 1)), gx.Exhausted("tool_calls", 2, 2))


def test_resumed_visit_keeps_its_count() -> None:
    machine = fetch_graph(2)
    state = gx.advance(machine, gx.begin(machine, Plan((1, 2))), gx.Limits())
    assert isinstance(state, PendingEffect)
    answered = gx.Snapshot.from_json(state.reply(ToolResult("")).to_json(), machine)
    with pytest.raises(UndeclaredCountError, match="asked for 3 effects"):
        gx.advance(machine, answered, gx.Limits())
    machine = fetch_graph(3)
    state = gx.advance(machine, answered, gx.Limits())
    assert isinstance(state, PendingEffect)
    assert isinstance(gx.advance(machine, state.reply([ToolResult(""), ToolResult("")]), gx.Limits()), gx.Done)


# ---- fan_out, for nodes without a declared count


@cases(
    ("limit", "batches", "cut"),
    [
        (3, (3,), None),
        (3, (1, 1, 1), None),
        (3, (1, 2), None),
        (3, (4,), (0, 4)),
        (3, (2, 2), (2, 2)),
        (2, (1, 1, 1), (2, 1)),
        (0, (), None),
        (0, (1,), (0, 1)),
    ],
)
def test_visit_may_ask_for_fan_out_effects(limit: int, batches: tuple[int, ...], cut: tuple[int, int] | None) -> None:
    result = run_script(lambda: Script(fetch_graph(), Plan(batches), tools(fan_out=limit)))
    if cut is None:
        assert result.outcome == Fetched(sum(batches))
    else:
        reached, wanted = cut
        assert isinstance(result.outcome, Cut)
        assert result.outcome == Cut(Plan(batches), gx.Exhausted("fan_out", limit, reached))
        assert result.outcome.limit.wanted == wanted
    # A refused effect is not charged.
    assert result.spent["tool_calls"] == (sum(batches) if cut is None else cut[0])


def test_fan_out_limits_each_visit() -> None:
    result = run_script(lambda: Script(fetch_graph(), Plan((1, 1), visits=10), tools(fan_out=2)))
    assert (result.outcome, result.spent["tool_calls"]) == (Fetched(2), 20)


@cases("drive", [drive_sync, drive_async, drive_stream, drive_astream])
def test_endless_asking_is_stopped(drive: Driver) -> None:
    """The default limit on the effects of a visit is finite."""
    asked: list[str] = []

    def refuse(effect: AskHuman) -> str:
        asked.append(effect.question)
        return "no"

    result = drive(Script(machines.INSISTENT, machines.Asking("ok?"), make_run_context({AskHuman: refuse})))
    assert result.outcome == machines.GaveUp(machines.Asking("ok?"), gx.Exhausted("fan_out", 1_000, 1_000))
    assert len(asked) == 1_000


def test_endless_asking_is_stopped_in_manual_stepping() -> None:
    state = gx.advance(machines.INSISTENT, gx.begin(machines.INSISTENT, machines.Asking("ok?")), gx.Limits())
    asked = 0
    while isinstance(state, PendingEffect):
        asked += 1
        state = gx.advance(machines.INSISTENT, state.reply("no"), gx.Limits())
    assert (asked, state.outcome) == (
        1_000,
        machines.GaveUp(machines.Asking("ok?"), gx.Exhausted("fan_out", 1_000, 1_000)),
    )


@cases(("batches", "reached"), [((1_001,), 0), ((1, 1_000), 1), ((1_000, 1), 1_000)])
def test_wide_batch_is_refused_by_default(batches: tuple[int, ...], reached: int) -> None:
    wanted = batches[-1]
    for drive in (drive_sync, drive_async, drive_stream, drive_astream):
        result = drive(Script(fetch_graph(), Plan(batches), tools()))
        assert isinstance(result.outcome, Cut)
        assert (result.outcome.limit, result.outcome.limit.wanted) == (gx.Exhausted("fan_out", 1_000, reached), wanted)
        assert result.spent["tool_calls"] == reached
    assert drive_sync(Script(fetch_graph(), Plan((1_000,)), tools())).outcome == Fetched(1_000)


def test_visit_without_fan_out_has_only_other_limits() -> None:
    result = drive_sync(Script(fetch_graph(), Plan((1_001,)), tools(fan_out=None)))
    assert result.outcome == Fetched(1_001)


def test_fan_out_does_not_limit_a_declared_count() -> None:
    assert outcome(fetch_graph(3), Plan((3,)), tools(fan_out=1)) == Fetched(3)
    assert outcome(fetch_graph((0, 5)), Plan((1, 1, 1)), tools(fan_out=1)) == Fetched(3)


def test_fan_out_is_reported_before_other_limits() -> None:
    machine = fetch_graph()

    def reported_limit(**limits: int) -> str:
        limit: gx.Exhausted = outcome(machine, Plan((2,)), tools(**limits)).limit
        return limit.limit

    assert reported_limit(fan_out=1, tool_calls=1, restarts=0) == "fan_out"
    assert reported_limit(fan_out=1, tool_calls=1, seconds=0) == "seconds"
    assert reported_limit(fan_out=2, tool_calls=1) == "tool_calls"


def test_resumed_visit_keeps_its_fan_out() -> None:
    machine = fetch_graph()
    state = gx.advance(machine, gx.begin(machine, Plan((2, 2))), gx.Limits(fan_out=3))
    assert isinstance(state, PendingEffect)
    answered = gx.Snapshot.from_json(state.reply([ToolResult(""), ToolResult("")]).to_json(), machine)
    done = gx.advance(machine, answered, gx.Limits(fan_out=3))
    assert isinstance(done, gx.Done)
    assert done.outcome == Cut(Plan((2, 2)), gx.Exhausted("fan_out", 3, 2))
    assert done.spent == gx.Spent(meters={"tool_calls": 2})


def test_retried_batch_counts_toward_fan_out() -> None:
    """One call of three is answered before the crash; the other two are asked for again under a lower limit."""
    machine = fetch_graph()
    state = gx.advance(machine, gx.begin(machine, Plan((3,))), gx.Limits(fan_out=3))
    assert isinstance(state, PendingEffect)
    interrupted = state.reply_member(0, ToolResult("")).restarted()
    done = gx.advance(machine, interrupted, gx.Limits(fan_out=2))
    assert isinstance(done, gx.Done)
    assert isinstance(done.outcome, Cut)
    assert done.outcome == Cut(Plan((3,)), gx.Exhausted("fan_out", 2, 1))
    assert done.outcome.limit.wanted == 2
    assert isinstance(gx.advance(machine, interrupted, gx.Limits(fan_out=3)), PendingEffect)


# ---- declarations


def test_node_has_its_declared_count() -> None:
    def counts(counted: Node[Any, Any]) -> tuple[int, int | None]:
        return counted.least, counted.most

    assert counts(fetch) == (0, None)
    assert counts(gx.charged(when_spent=Cut)(fetch)) == (0, None)
    assert counts(gx.charged(when_spent=Cut, asks=2)(fetch)) == (2, 2)
    assert counts(gx.metered(when_spent=Cut, asks=(1, 3))(fetch)) == (1, 3)
    # Decorators above keep the count.
    assert counts(gx.metered(when_spent=Cut)(gx.charged(when_spent=Cut, asks=(1, 3))(fetch))) == (1, 3)


def test_pure_and_opaque_nodes_have_fixed_counts() -> None:
    @gx.node
    def halve(number: machines.Number) -> machines.Total:
        return machines.Total(str(number.value))

    @gx.opaque
    def look(number: machines.Number) -> machines.Total:
        return machines.Total(str(number.value))

    assert [(one.least, one.most) for one in (halve, look, machines.leave)] == [(0, 0), (1, 1), (1, 1)]


@cases("asks", [-1, (2, 1), (-1, 2), (-2, -1)])
def test_invalid_count_is_refused(asks: Any) -> None:
    with pytest.raises(NodeError) as caught:
        gx.charged(when_spent=Cut, asks=asks)(fetch)
    assert str(caught.value) == f"fetch has asks={asks!r}; give a number of effects, or (least, most)"


def test_count_of_a_node_without_effects_is_refused() -> None:
    @gx.node
    def land(left: machines.Left) -> machines.Landed:
        return machines.Landed()

    @gx.opaque
    def look(left: machines.Left) -> machines.Landed:
        return machines.Landed()

    for one in (land, look):
        with pytest.raises(NodeError) as caught:
            gx.metered(when_spent=machines.Stopped, asks=1)(one)
        assert str(caught.value) == (
            f"{one.name} does not yield effects, so asks= does not apply; write it with Asks[...], or leave out asks="
        )


def test_effects_without_charges_are_counted() -> None:
    @gx.charged(when_spent=machines.Stopped, asks=1)
    @gx.node
    def wonder(left: machines.Left) -> gx.Asks[machines.Question, machines.Landed]:
        for number in range(left.steps):
            yield from gx.ask(machines.Question(str(number)))
        return machines.Landed()

    machine = gx.graph(gx.edges(wonder, gx.on(machines.Landed, gx.END) | gx.on(machines.Stopped, gx.END)), start=wonder)
    answering = make_run_context({machines.Question: lambda question: question.text})
    assert run_script(lambda: Script(machine, machines.Left(1), answering)).outcome == machines.Landed()
    for steps in (0, 2):
        with pytest.raises(UndeclaredCountError):
            run_script(lambda steps=steps: Script(machine, machines.Left(steps), answering))  # type: ignore[misc]


def test_opaque_node_ignores_a_fan_out_of_zero() -> None:
    looking = gx.charged(when_spent=machines.Stopped)(gx.opaque(_look))
    machine = gx.graph(
        gx.edges(looking, gx.on(machines.Landed, gx.END) | gx.on(machines.Stopped, gx.END)), start=looking
    )
    assert (
        run_script(lambda: Script(machine, machines.Left(1), machines.without_handlers(gx.Limits(fan_out=0)))).outcome
        == machines.Landed()
    )


def _look(left: machines.Left) -> machines.Landed:
    return machines.Landed()
