"""Undeclared outcomes are not followed and undeclared effects not carried out, with any driver."""

from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec import errors
from graphexec.effects import CallTool, ToolResult
from graphexec.kernel import Cut, PendingEffect, advance, begin, metered, snapshot_of
from graphexec.kernel.snapshot import PAID
from graphexec.runtime import make_run_context, run
from tests.drivers import ALL_DRIVERS, LIVE, Driver, Script, run_script
from tests.kernel.machines import (
    INTERVIEW,
    Left,
    Number,
    Question,
    Stopped,
    Topic,
    Total,
    interview,
    limited,
    without_handlers,
)
from tests.parameters import cases


@final
@dataclass(frozen=True)
class Honest:
    pass


@final
@dataclass(frozen=True)
class Lie:
    pass


class Child(Total):  # type: ignore[misc] # pyright: ignore[reportGeneralTypeIssues]
    """A subclass of an outcome; type checkers refuse it."""


# Any: type checkers do not let a node return these.
_anything: Any = Lie()
LIE: Honest = _anything

CONSUMED: list[object] = []


@gx.node
def consume(lie: Lie) -> Total:
    CONSUMED.append(lie)
    return Total("consumed")


@gx.node
def consume_honest(honest: Honest) -> Honest | Lie:
    return honest


@gx.node
def purely(left: Left) -> Honest:
    return LIE


@gx.charged(when_spent=Stopped)
@gx.node
def asking(left: Left) -> gx.Asks[Question, Honest]:
    yield from gx.ask(Question("true?"))
    return LIE


@gx.charged(when_spent=Stopped)
@gx.node
async def asynchronously(left: Left) -> Honest:
    return LIE


@gx.charged(when_spent=Stopped)
@gx.opaque
def opaquely(left: Left) -> Honest:
    return LIE


@pytest.fixture(autouse=True)
def _nothing_consumed() -> None:
    CONSUMED.clear()


@cases("driver", ALL_DRIVERS)
@cases("liar", [purely, asking, asynchronously, opaquely])
def test_undeclared_outcome_is_not_followed(liar: Any, driver: Driver) -> None:
    row: Any = gx.edges
    routes: Any = gx.on(Honest, consume_honest)
    if liar.when_spent:
        routes = routes | gx.on(Stopped, gx.END)
    # The table has a node that takes the undeclared outcome, but only another node has an edge to it.
    machine: Any = gx.graph(
        row(liar, routes)
        | gx.edges(consume_honest, gx.on(Honest, gx.END) | gx.on(Lie, consume))
        | gx.edges(consume, gx.on(Total, gx.END)),
        start=liar,
    )
    with pytest.raises(errors.UndeclaredOutcomeError) as caught:
        driver(Script(machine, Left(1), make_run_context({Question: lambda question: "yes"})))
    assert CONSUMED == []
    assert (caught.value.node, caught.value.outcome) == (liar.name, Lie())
    declared = ("Honest",)
    assert caught.value.declared == declared
    assert str(caught.value) == (
        f"{liar.name} returned a Lie, which its annotation does not declare; it was not followed; return one of "
        f"{', '.join(declared)}, or add the class to the annotation and to the table"
    )


@cases("lie", [Child("child"), None, "text", gx.Exhausted("seconds", 1, 1)])
def test_outcomes_are_matched_by_exact_class(lie: Any) -> None:
    @gx.node
    def lying(left: Left) -> Total:
        result: Total = lie
        return result

    machine = gx.graph(gx.edges(lying, gx.on(Total, gx.END)), start=lying)
    with pytest.raises(errors.UndeclaredOutcomeError, match=f"lying returned an? {type(lie).__name__}, which"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_pure_node_cannot_return_exhausted() -> None:
    @metered(when_spent=Stopped)
    @gx.node
    def pretending(left: Left) -> Total:
        lie: Any = gx.Exhausted("tokens", 1, 1)
        result: Total = lie
        return result

    machine = gx.graph(gx.edges(pretending, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=pretending)
    with pytest.raises(errors.UndeclaredOutcomeError, match="pretending returned an Exhausted"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_asking_node_cannot_return_exhausted() -> None:
    @gx.charged(when_spent=Stopped)
    @gx.node
    def pretending(left: Left) -> gx.Asks[Question, Total]:
        yield from gx.ask(Question("may I?"))
        lie: Any = gx.Exhausted("tokens", 1, 1)
        result: Total = lie
        return result

    machine = gx.graph(gx.edges(pretending, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=pretending)
    with pytest.raises(errors.UndeclaredOutcomeError, match="pretending returned an Exhausted"):
        run_script(lambda: Script(machine, Left(1), answering([])))


# ---- effects


def answering(calls: list[object]) -> Any:
    def answer_call(effect: object) -> str:
        calls.append(effect)
        return "yes"

    return make_run_context({Question: answer_call, CallTool: answer_call})


@gx.charged(when_spent=Stopped)
@gx.node
def sneaking(left: Left) -> gx.Asks[Question, Total]:
    yield from gx.ask(Question("may I?"))
    sneak: Any = gx.ask(CallTool("rm", "everything"))
    yield from sneak
    return Total("done")


@gx.charged(when_spent=Stopped)
@gx.node
def sneaking_in_a_batch(left: Left) -> gx.Asks[Question, Total]:
    yield from gx.ask(Question("may I?"))
    sneak: Any = gx.ask_all([Question("and?"), CallTool("rm", "everything")])
    yield from sneak
    return Total("done")


@gx.charged(when_spent=Stopped)
@gx.node
def yielding_anything(left: Left) -> gx.Asks[Question, Total]:
    yield from gx.ask(Question("may I?"))
    anything: Any = "rm everything"
    yield anything
    return Total("done")


def test_yield_without_from_is_reported() -> None:
    @gx.charged(when_spent=Stopped)
    @gx.node
    def forgetful(left: Left) -> gx.Asks[Question, Total]:
        answer: Any = yield gx.ask(Question("may I?"))  # type: ignore[misc]  # pyright: ignore[reportReturnType]
        return Total(answer)

    machine = gx.graph(gx.edges(forgetful, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=forgetful)
    with pytest.raises(
        errors.UndeclaredEffectError,
        match="forgetful yielded a generator instead of an effect; write reply = yield from",
    ):
        run(machine, Left(1), answering([]))


@cases("driver", ALL_DRIVERS)
@cases(
    ("sneak", "asked"),
    [(sneaking, "a CallTool"), (sneaking_in_a_batch, "an All"), (yielding_anything, "a str")],
)
def test_undeclared_effect_is_not_carried_out(sneak: Any, asked: str, driver: Driver) -> None:
    machine = gx.graph(gx.edges(sneak, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=sneak)
    calls: list[object] = []
    with pytest.raises(errors.UndeclaredEffectError) as caught:
        driver(Script(machine, Left(1), answering(calls)))
    assert calls == [Question("may I?")]
    assert caught.value.node == sneak.name
    assert caught.value.declared == ("Question",)
    assert str(caught.value) == (
        f"{sneak.name} asked for {asked}, which its annotation does not declare; it was not carried out; ask for one "
        f"of Question, or add the effect to Asks[...]"
    )


class Louder(Question):
    pass


def test_effects_are_matched_by_exact_class() -> None:
    @gx.charged(when_spent=Stopped)
    @gx.node
    def loud(left: Left) -> gx.Asks[Question, Total]:
        return Total((yield from gx.ask(Louder("hey"))))

    machine = gx.graph(gx.edges(loud, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=loud)
    with pytest.raises(errors.UndeclaredEffectError, match="loud asked for a Louder"):
        run_script(lambda: Script(machine, Left(1), answering([])))


def test_missing_handler_is_reported_with_a_remedy() -> None:
    with pytest.raises(errors.MissingHandlerError) as caught:
        run_script(lambda: Script(INTERVIEW, Topic("tea"), without_handlers()))
    assert caught.value.effect == Question("tea 0 0")
    assert str(caught.value) == (
        "no handler answers Question; pass handlers={Question: a function from Question to its reply}"
    )


@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    pass


@gx.charged(when_spent=Stopped)
@gx.node
def both(left: Left) -> gx.Asks[Question | Fetch, Total]:
    # Not ask_all, for which mypy infers that both effects are an Effect[str].
    answers: tuple[str, str] = yield gx.All((Question("?"), Fetch()))
    return Total(", ".join(answers))


BOTH = gx.graph(gx.edges(both, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=both)


def test_batch_with_a_missing_handler_does_not_start() -> None:
    calls: list[object] = []
    with pytest.raises(errors.MissingHandlerError, match="no handler answers Fetch"):
        run_script(lambda: Script(BOTH, Left(1), answering(calls)))
    assert calls == []


def test_cut_batch_of_mixed_effects_leaves_the_node() -> None:
    state = advance(BOTH, begin(BOTH, Left(1)), gx.Limits(seconds=5))
    assert isinstance(state, PendingEffect)
    done = advance(BOTH, state.cut(at=5.0, answers=("yes", Cut())), gx.Limits(seconds=5))
    assert isinstance(done, gx.Done)
    assert done.outcome == Stopped(Left(1), gx.Exhausted("seconds", 5, 5))


def test_batch_may_mix_effects() -> None:
    def answers() -> Any:
        return make_run_context({Question: lambda _: "yes", Fetch: lambda _: "page"})

    assert run_script(lambda: Script(BOTH, Left(1), answers())).outcome == Total("yes, page")


# ---- exceptions


def test_node_exception_carries_the_snapshot() -> None:
    @gx.node
    def failing(left: Left) -> Total:
        raise ValueError("no more")

    machine = gx.graph(gx.edges(failing, gx.on(Total, gx.END)), start=failing)
    for driver in LIVE:
        with pytest.raises(ValueError, match="no more") as caught:
            driver(Script(machine, Left(3), without_handlers()))
        assert snapshot_of(caught.value) == gx.Snapshot("failing", Left(3), entered=True)
        (note,) = caught.value.__notes__
        assert note == ("graphexec: the run was at the node failing (iterations: 0); snapshot_of(error) is its state")


def test_run_resumes_after_a_handler_exception() -> None:
    def once_well(question: Question) -> str:
        if len(asked) == 1:
            asked.append(question)
            raise OSError("the line is dead")
        asked.append(question)
        return "fine"

    for driver in LIVE:
        asked: list[Question] = []
        with pytest.raises(OSError, match="the line is dead") as caught:
            driver(Script(INTERVIEW, Topic("tea"), make_run_context({Question: once_well})))
        snapshot = snapshot_of(caught.value)
        assert (
            snapshot
            == gx.Snapshot("interview", Topic("tea"), ("fine",), snapshot.spent, entered=True, open=(PAID,), sequence=1)
            if snapshot
            else False
        )
        assert snapshot is not None
        done = run(INTERVIEW, snapshot, make_run_context({Question: once_well}))
        assert [question.text for question in asked] == ["tea 0 0", "tea 1 1", "tea 1 1", "tea 2 2"]
        assert len(done.outcome.answers if not isinstance(done.outcome, Stopped) else ()) == 3


def test_exception_outside_a_run_has_no_snapshot() -> None:
    assert snapshot_of(ValueError("elsewhere")) is None


def test_failing_run_closes_its_node() -> None:
    closed: list[str] = []

    @gx.charged(when_spent=Stopped)
    @gx.node
    def careful(left: Left) -> gx.Asks[Question, Total]:
        try:
            return Total((yield from gx.ask(Question("?"))))
        finally:
            closed.append("careful")

    machine = gx.graph(gx.edges(careful, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=careful)

    def failing(_: Question) -> str:
        raise OSError("the line is dead")

    for driver in LIVE:
        closed.clear()
        with pytest.raises(OSError, match="the line is dead"):
            driver(Script(machine, Left(1), make_run_context({Question: failing})))
        assert closed == ["careful"]


# ---- starting a run


def test_run_refuses_a_value_of_another_class() -> None:
    start: Any = Number(3)
    with pytest.raises(errors.InputError) as caught:
        run_script(lambda: Script(INTERVIEW, start, without_handlers()))
    assert str(caught.value) == "interview takes Topic, not Number; start the run with one"


def test_run_refuses_an_unbound_setting() -> None:
    @gx.node
    def greet(left: Left, name: Total) -> Total:
        return name

    machine = gx.graph(gx.edges(greet, gx.on(Total, gx.END)), start=greet)
    with pytest.raises(errors.InputError) as caught:
        begin(machine, Left(1))
    assert str(caught.value) == "greet needs a Total for name; run bind(machine, ...) with one"


def test_advance_raises_before_the_step() -> None:
    machine = gx.graph(gx.edges(sneaking, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=sneaking)
    state = advance(machine, begin(machine, Left(1)), gx.Limits())
    assert isinstance(state, PendingEffect)
    after = state.reply("yes", at=0.0)
    with pytest.raises(errors.UndeclaredEffectError):
        advance(machine, after, gx.Limits())
    assert after.spent["tool_calls"] == 0


def test_tool_call_replies_with_a_tool_result() -> None:
    # The fakes above return strings for a CallTool, which no test may reach.
    assert ToolResult("x").status == "ok"
    assert interview.name == "interview"


def test_node_cannot_return_its_when_spent_outcome() -> None:
    @metered(when_spent=Stopped)
    @gx.node
    def pretending(left: Left) -> Total:
        lie: Any = Stopped(left, gx.Exhausted("tokens", 1, 1))
        result: Total = lie
        return result

    machine = gx.graph(gx.edges(pretending, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=pretending)
    with pytest.raises(errors.UndeclaredOutcomeError, match="pretending returned a Stopped"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_snapshot_at_an_unknown_node_is_refused() -> None:
    with pytest.raises(errors.SnapshotError, match="the snapshot is at nowhere"):
        run(INTERVIEW, gx.Snapshot("nowhere", Left(1)), without_handlers())


def test_undeclared_when_spent_outcome_is_refused() -> None:
    def lying(given: Left, limit: gx.Exhausted) -> Stopped:
        lie: Any = Total(str(limit))
        result: Stopped = lie
        return result

    @metered(when_spent=lying)
    @gx.node
    def honest(left: Left) -> Total:
        return Total("")

    machine = gx.graph(gx.edges(honest, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=honest)
    with pytest.raises(errors.UndeclaredOutcomeError, match=r"honest returned a Total.*return one of Stopped"):
        run_script(lambda: Script(machine, Left(1), limited(iterations=0)))


def test_failure_at_an_entry_resumes_before_it() -> None:
    def failing(given: Left, limit: gx.Exhausted) -> Stopped:
        raise OSError("no words for it")

    @metered(when_spent=failing)
    @gx.node
    def gated(left: Left) -> Total:
        return Total("")

    machine = gx.graph(gx.edges(gated, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=gated)
    state: Any = Left(1)
    for _ in range(2):
        with pytest.raises(OSError, match="no words") as caught:
            run(machine, state, limited(iterations=0))
        state = snapshot_of(caught.value)
        assert (state.entered, state.spent.iterations) == (False, 0)
