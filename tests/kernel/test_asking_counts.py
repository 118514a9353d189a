"""The number of effects per visit: the engine enforces `asks=`, and otherwise the limit `fan_out`."""

from typing import Any

import pytest

import graphexec as gx
from graphexec import errors, kernel
from graphexec.effects import AskHuman, CallTool, ToolResult, agent_limits
from graphexec.kernel.node import Count
from graphexec.runtime.handlers import RunContext
from tests.drivers import LIVE, Driver, DriverResult, Script, drive_sync, make_run_context, run_script
from tests.kernel import machines as m
from tests.parameters import cases


@m.value
class Plan:
    """The sizes of the batches of each visit; a batch of 1 is a single effect."""

    batches: tuple[int, ...]
    visits: int = 1


@m.value
class Fetched:
    replies: int


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


def fetch_graph(asks: Count | None = None) -> gx.Graph[Plan, Fetched | m.Halted]:
    return m.machine_of(gx.node(when_spent=m.Halted, asks=asks)(fetch))


def tools(**limits: Any) -> RunContext:
    return make_run_context({CallTool: lambda call: ToolResult(call.name)}, limits=agent_limits(**limits))


def fetch_all(asks: Count | None, *batches: int, visits: int = 1, **limits: Any) -> DriverResult[Any]:
    return m.run_machine(fetch_graph(asks), Plan(batches, visits), tools(**limits))


def cut(*batches: int, limit: str, most: float, reached: float) -> m.Halted:
    return m.Halted(Plan(batches), gx.Exhausted(limit, most, reached))


@cases(
    ("asks", "batches", "visits", "limits"),
    *((3, batches, 1, {}) for batches in ((3,), (1, 2), (1, 1, 1), (2, 0, 1))),
    *(((0, 2), batches, 1, {}) for batches in ((), (2,))),
    *(((3, 4), batches, 1, {}) for batches in ((3,), (1, 1, 1, 1))),
    # Each visit is counted separately, and `fan_out` does not limit a declared count.
    (2, (1, 1), 5, {}),
    (3, (3,), 1, {"fan_out": 1}),
    ((0, 5), (1, 1, 1), 1, {"fan_out": 1}),
)
def test_node_asks_for_its_declared_number_of_effects(asks: Count, batches: Any, visits: int, limits: Any) -> None:
    assert fetch_all(asks, *batches, visits=visits, **limits).outcome == Fetched(sum(batches))


@cases(
    ("asks", "batches", "asked"),
    (2, (3,), 3),
    (2, (2, 1), 3),
    ((0, 2), (1, 2), 3),
    (0, (1,), 1),
    # Too few.
    (3, (2,), 2),
    ((1, 4), (), 0),
    ((1, 4), (0,), 0),
    ((1, 2), (), 0),
)
def test_undeclared_count_is_an_error(asks: Count, batches: tuple[int, ...], asked: int) -> None:
    called: list[str] = []

    def call(effect: CallTool) -> ToolResult:
        called.append(effect.name)
        return ToolResult("")

    def script() -> Script[Any, Any]:
        called.clear()
        return Script(fetch_graph(asks), Plan(batches), make_run_context({CallTool: call}))

    with pytest.raises(errors.UndeclaredCountError) as caught:
        run_script(script)
    least, most = asks if isinstance(asks, tuple) else (asks, asks)
    error = caught.value
    assert (error.node, error.asked, error.least, error.most) == ("fetch", asked, least, most)
    declared = f"exactly {most}" if least == most else f"{least} to {most}"
    assert str(error) == (
        f"fetch asked for {asked} effects in one visit but declares {declared}; ask for that many, or write "
        f"asks=({min(least, asked)}, {max(most, asked)})"
    )
    # An excess batch is refused as a whole.
    assert len(called) == sum(batches[:-1] if asked > most else batches)


@cases(
    ("limit", "batches", "stopped"),
    (3, (3,), None),
    (3, (1, 1, 1), None),
    (3, (1, 2), None),
    (3, (4,), (0, 4)),
    (3, (2, 2), (2, 2)),
    (2, (1, 1, 1), (2, 1)),
    (0, (), None),
    (0, (1,), (0, 1)),
)
def test_visit_may_ask_for_fan_out_effects(limit: int, batches: Any, stopped: tuple[int, int] | None) -> None:
    result = fetch_all(None, *batches, fan_out=limit)
    reached, wanted = stopped or (sum(batches), 0)
    if stopped:
        assert result.outcome == cut(*batches, limit="fan_out", most=limit, reached=reached)
        assert result.outcome.limit.wanted == wanted
    else:
        assert result.outcome == Fetched(reached)
    # A refused effect is not charged.
    assert result.spent["tool_calls"] == reached


def test_visit_is_counted_by_itself() -> None:
    result = fetch_all(None, 1, 1, visits=10, fan_out=2)
    assert (result.outcome, result.spent["tool_calls"]) == (Fetched(2), 20)
    context = m.without_handlers(gx.Limits(fan_out=0))
    looking = m.machine_of(gx.node(when_spent=m.Stopped)(look))
    assert m.run_machine(looking, m.Left(1), context).outcome == m.Landed()
    expected = cut(1, 1, 1, limit="tool_calls", most=2, reached=2)
    assert fetch_all(3, 1, 1, 1, tool_calls=2).outcome == expected
    answered = m.reload(m.pending(fetch_graph(2), Plan((1, 2))).reply(ToolResult("")), fetch_graph(2))
    assert "asked for 3 effects" in m.error_message(errors.UndeclaredCountError, m.finish, fetch_graph(2), answered)
    state = m.pending(fetch_graph(3), answered)
    assert m.finish(fetch_graph(3), state.reply([ToolResult(""), ToolResult("")])).outcome == Fetched(3)


ENDLESS = m.GaveUp(m.Asking("ok?"), gx.Exhausted("fan_out", 1_000, 1_000))


@pytest.mark.medium
@cases("drive", *LIVE)
def test_endless_asking_is_stopped(drive: Driver) -> None:
    """The default limit on the effects of a visit is finite."""
    asked: list[str] = []

    def refuse(effect: AskHuman) -> str:
        asked.append(effect.question)
        return "no"

    result = drive(Script(m.INSISTENT, m.Asking("ok?"), make_run_context({AskHuman: refuse})))
    assert (len(asked), result.outcome) == (1_000, ENDLESS)


@pytest.mark.medium
def test_endless_asking_is_stopped_in_manual_stepping() -> None:
    state = gx.advance(m.INSISTENT, gx.begin(m.INSISTENT, m.Asking("ok?")), gx.Limits())
    asked = 0
    while isinstance(state, kernel.PendingEffect):
        asked += 1
        state = gx.advance(m.INSISTENT, state.reply("no"), gx.Limits())
    assert (asked, state.outcome) == (1_000, ENDLESS)


@pytest.mark.medium
@cases("drive", *LIVE)
@cases(("batches", "reached"), ((1_001,), 0), ((1, 1_000), 1), ((1_000, 1), 1_000))
def test_wide_batch_is_refused_by_default(batches: tuple[int, ...], reached: int, drive: Driver) -> None:
    result = drive(Script(fetch_graph(), Plan(batches), tools()))
    assert result.outcome == cut(*batches, limit="fan_out", most=1_000, reached=reached)
    assert (result.outcome.limit.wanted, result.spent["tool_calls"]) == (batches[-1], reached)


@pytest.mark.medium
@cases(("size", "limits"), (1_000, {}), (1_001, {"fan_out": None}))
def test_visit_without_fan_out_has_only_other_limits(size: int, limits: Any) -> None:
    assert drive_sync(Script(fetch_graph(), Plan((size,)), tools(**limits))).outcome == Fetched(size)


@cases(
    ("limits", "reported"),
    ({"fan_out": 1, "tool_calls": 1, "restarts": 0}, "fan_out"),
    ({"fan_out": 1, "tool_calls": 1, "seconds": 0}, "seconds"),
    ({"fan_out": 2, "tool_calls": 1}, "tool_calls"),
)
def test_fan_out_is_reported_before_other_limits(limits: dict[str, int], reported: str) -> None:
    assert fetch_all(None, 2, **limits).outcome.limit.limit == reported


def test_resumed_or_retried_visit_keeps_its_fan_out() -> None:
    machine, limits = fetch_graph(), gx.Limits(fan_out=3)
    state = m.pending(machine, Plan((2, 2)), limits)
    done = m.finish(machine, m.reload(state.reply([ToolResult(""), ToolResult("")]), machine), limits)
    assert done.outcome == cut(2, 2, limit="fan_out", most=3, reached=2)
    assert done.spent == gx.Spent(meters={"tool_calls": 2})
    machine = fetch_graph()
    state = m.pending(machine, Plan((3,)), gx.Limits(fan_out=3))
    interrupted = state.reply_member(0, ToolResult("")).restarted()
    outcome = m.finish(machine, interrupted, gx.Limits(fan_out=2)).outcome
    assert (outcome, outcome.limit.wanted) == (cut(3, limit="fan_out", most=2, reached=1), 2)
    assert len(m.pending(machine, interrupted, gx.Limits(fan_out=3)).calls) == 2


@gx.node
def land(left: m.Left) -> m.Landed:
    return m.Landed()


@gx.node(opaque=True)
def look(left: m.Left) -> m.Landed:
    return m.Landed()


COUNTED = gx.node(when_spent=m.Halted, asks=(1, 3))(fetch)


@cases(
    ("one", "count"),
    (fetch, (0, None)),
    (gx.node(when_spent=m.Halted)(fetch), (0, None)),
    (gx.node(when_spent=m.Halted, asks=2)(fetch), (2, 2)),
    (gx.node(when_spent=m.Halted, meters=[gx.ITERATIONS], asks=(1, 3))(fetch), (1, 3)),
    # Another declaration keeps the count.
    (gx.node(when_spent=m.Halted, meters=[gx.ITERATIONS])(COUNTED), (1, 3)),
    # Pure and opaque nodes have fixed counts.
    (land, (0, 0)),
    (look, (1, 1)),
    (m.leave, (1, 1)),
)
def test_node_has_its_declared_count(one: kernel.Node[Any, Any], count: tuple[int, int | None]) -> None:
    assert (one.least, one.most) == count


GIVE = "fetch has asks={!r}; give a number of effects, or (least, most)"
NO_EFFECTS = "{} does not yield effects, so asks= does not apply; write it with Asks[...], or leave out asks="


@cases(
    ("one", "asks", "text"),
    *((fetch, asks, GIVE.format(asks)) for asks in (-1, (2, 1), (-1, 2), (-2, -1), "many", [1, 16], True, (1, 2, 3))),
    *((one, 1, NO_EFFECTS.format(one.name)) for one in (land, look)),
)
def test_invalid_count_is_refused(one: Any, asks: Any, text: str) -> None:
    assert m.error_message(errors.NodeError, lambda: gx.node(when_spent=m.Halted, asks=asks)(one)) == text


@cases("steps", 0, 1, 2)
def test_effects_without_charges_are_counted(steps: int) -> None:
    @gx.node(when_spent=m.Stopped, asks=1)
    def wonder(left: m.Left) -> gx.Asks[m.Question, m.Landed]:
        for number in range(left.steps):
            yield from gx.ask(m.Question(str(number)))
        return m.Landed()

    arguments = m.machine_of(wonder), m.Left(steps), m.reporter()
    if steps == 1:
        assert m.run_machine(*arguments).outcome == m.Landed()
    else:
        assert m.error_message(errors.UndeclaredCountError, m.run_machine, *arguments)
