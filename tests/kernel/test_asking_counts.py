"""The number of effects per visit: the engine enforces `asks=`, and otherwise the limit `fan_out`."""

from dataclasses import dataclass
from typing import Any, final

import pytest

from graphexec import (
    END,
    Asks,
    Done,
    Exhausted,
    Graph,
    Limits,
    Snapshot,
    Spent,
    advance,
    ask,
    ask_all,
    begin,
    charged,
    edges,
    graph,
    metered,
    node,
    on,
    opaque,
)
from graphexec.effects import AskHuman, CallTool, ToolResult, agent_limits
from graphexec.errors import NodeError, UndeclaredCountError
from graphexec.kernel import Node, PendingEffect
from graphexec.kernel.node import Count
from graphexec.runtime import RunContext, make_run_context
from tests.drivers import Driver, Script, drive_astream, drive_async, drive_stream, drive_sync, run_script
from tests.kernel.machines import (
    INSISTENT,
    Asking,
    GaveUp,
    Landed,
    Left,
    Number,
    Question,
    Stopped,
    Total,
    leave,
    without_handlers,
)
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
    limit: Exhausted


@node
def fetch(plan: Plan) -> Asks[CallTool, Fetched | Plan]:
    replies = 0
    for number, batch in enumerate(plan.batches):
        if batch == 1:
            yield from ask(CallTool(f"{number}", ""))
            replies += 1
        else:
            replies += len((yield from ask_all([CallTool(f"{number}.{one}", "") for one in range(batch)])))
    return Plan(plan.batches, plan.visits - 1) if plan.visits > 1 else Fetched(replies)


def fetch_graph(asks: Count | None = None) -> Graph[Plan, Fetched | Cut]:
    counted = charged(when_spent=Cut, asks=asks)(fetch)
    return graph(edges(counted, on(Fetched, END) | on(Plan, counted) | on(Cut, END)), start=counted)


def tools(**limits: Any) -> RunContext:
    return make_run_context({CallTool: lambda call: ToolResult(call.name)}, limits=agent_limits(**limits))


def outcome(machine: Graph[Plan, Any], plan: Plan, within: RunContext) -> Any:
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
    assert result.outcome == Cut(Plan((1, 1, 1)), Exhausted("tool_calls", 2, 2))


def test_resumed_visit_keeps_its_count() -> None:
    machine = fetch_graph(2)
    state = advance(machine, begin(machine, Plan((1, 2))), Limits())
    assert isinstance(state, PendingEffect)
    answered = Snapshot.from_json(state.reply(ToolResult("")).to_json(), machine)
    with pytest.raises(UndeclaredCountError, match="asked for 3 effects"):
        advance(machine, answered, Limits())
    machine = fetch_graph(3)
    state = advance(machine, answered, Limits())
    assert isinstance(state, PendingEffect)
    assert isinstance(advance(machine, state.reply([ToolResult(""), ToolResult("")]), Limits()), Done)


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
        assert result.outcome == Cut(Plan(batches), Exhausted("fan_out", limit, reached))
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

    result = drive(Script(INSISTENT, Asking("ok?"), make_run_context({AskHuman: refuse})))
    assert result.outcome == GaveUp(Asking("ok?"), Exhausted("fan_out", 1_000, 1_000))
    assert len(asked) == 1_000


def test_endless_asking_is_stopped_in_manual_stepping() -> None:
    state = advance(INSISTENT, begin(INSISTENT, Asking("ok?")), Limits())
    asked = 0
    while isinstance(state, PendingEffect):
        asked += 1
        state = advance(INSISTENT, state.reply("no"), Limits())
    assert (asked, state.outcome) == (1_000, GaveUp(Asking("ok?"), Exhausted("fan_out", 1_000, 1_000)))


@cases(("batches", "reached"), [((1_001,), 0), ((1, 1_000), 1), ((1_000, 1), 1_000)])
def test_wide_batch_is_refused_by_default(batches: tuple[int, ...], reached: int) -> None:
    wanted = batches[-1]
    for drive in (drive_sync, drive_async, drive_stream, drive_astream):
        result = drive(Script(fetch_graph(), Plan(batches), tools()))
        assert isinstance(result.outcome, Cut)
        assert (result.outcome.limit, result.outcome.limit.wanted) == (Exhausted("fan_out", 1_000, reached), wanted)
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
        limit: Exhausted = outcome(machine, Plan((2,)), tools(**limits)).limit
        return limit.limit

    assert reported_limit(fan_out=1, tool_calls=1, restarts=0) == "fan_out"
    assert reported_limit(fan_out=1, tool_calls=1, seconds=0) == "seconds"
    assert reported_limit(fan_out=2, tool_calls=1) == "tool_calls"


def test_resumed_visit_keeps_its_fan_out() -> None:
    machine = fetch_graph()
    state = advance(machine, begin(machine, Plan((2, 2))), Limits(fan_out=3))
    assert isinstance(state, PendingEffect)
    answered = Snapshot.from_json(state.reply([ToolResult(""), ToolResult("")]).to_json(), machine)
    done = advance(machine, answered, Limits(fan_out=3))
    assert isinstance(done, Done)
    assert done.outcome == Cut(Plan((2, 2)), Exhausted("fan_out", 3, 2))
    assert done.spent == Spent(meters={"tool_calls": 2})


def test_retried_batch_counts_toward_fan_out() -> None:
    """One call of three is answered before the crash; the other two are asked for again under a lower limit."""
    machine = fetch_graph()
    state = advance(machine, begin(machine, Plan((3,))), Limits(fan_out=3))
    assert isinstance(state, PendingEffect)
    interrupted = state.reply_member(0, ToolResult("")).restarted()
    done = advance(machine, interrupted, Limits(fan_out=2))
    assert isinstance(done, Done)
    assert isinstance(done.outcome, Cut)
    assert done.outcome == Cut(Plan((3,)), Exhausted("fan_out", 2, 1))
    assert done.outcome.limit.wanted == 2
    assert isinstance(advance(machine, interrupted, Limits(fan_out=3)), PendingEffect)


# ---- declarations


def test_node_has_its_declared_count() -> None:
    def counts(counted: Node[Any, Any]) -> tuple[int, int | None]:
        return counted.least, counted.most

    assert counts(fetch) == (0, None)
    assert counts(charged(when_spent=Cut)(fetch)) == (0, None)
    assert counts(charged(when_spent=Cut, asks=2)(fetch)) == (2, 2)
    assert counts(metered(when_spent=Cut, asks=(1, 3))(fetch)) == (1, 3)
    # Decorators above keep the count.
    assert counts(metered(when_spent=Cut)(charged(when_spent=Cut, asks=(1, 3))(fetch))) == (1, 3)


def test_pure_and_opaque_nodes_have_fixed_counts() -> None:
    @node
    def halve(number: Number) -> Total:
        return Total(str(number.value))

    @opaque
    def look(number: Number) -> Total:
        return Total(str(number.value))

    assert [(one.least, one.most) for one in (halve, look, leave)] == [(0, 0), (1, 1), (1, 1)]


@cases("asks", [-1, (2, 1), (-1, 2), (-2, -1)])
def test_invalid_count_is_refused(asks: Any) -> None:
    with pytest.raises(NodeError) as caught:
        charged(when_spent=Cut, asks=asks)(fetch)
    assert str(caught.value) == f"fetch has asks={asks!r}; give a number of effects, or (least, most)"


def test_count_of_a_node_without_effects_is_refused() -> None:
    @node
    def land(left: Left) -> Landed:
        return Landed()

    @opaque
    def look(left: Left) -> Landed:
        return Landed()

    for one in (land, look):
        with pytest.raises(NodeError) as caught:
            metered(when_spent=Stopped, asks=1)(one)
        assert str(caught.value) == (
            f"{one.name} does not yield effects, so asks= does not apply; write it with Asks[...], or leave out asks="
        )


def test_effects_without_charges_are_counted() -> None:
    @charged(when_spent=Stopped, asks=1)
    @node
    def wonder(left: Left) -> Asks[Question, Landed]:
        for number in range(left.steps):
            yield from ask(Question(str(number)))
        return Landed()

    machine = graph(edges(wonder, on(Landed, END) | on(Stopped, END)), start=wonder)
    answering = make_run_context({Question: lambda question: question.text})
    assert run_script(lambda: Script(machine, Left(1), answering)).outcome == Landed()
    for steps in (0, 2):
        with pytest.raises(UndeclaredCountError):
            run_script(lambda steps=steps: Script(machine, Left(steps), answering))  # type: ignore[misc]


def test_opaque_node_ignores_a_fan_out_of_zero() -> None:
    looking = charged(when_spent=Stopped)(opaque(_look))
    machine = graph(edges(looking, on(Landed, END) | on(Stopped, END)), start=looking)
    assert run_script(lambda: Script(machine, Left(1), without_handlers(Limits(fan_out=0)))).outcome == Landed()


def _look(left: Left) -> Landed:
    return Landed()
