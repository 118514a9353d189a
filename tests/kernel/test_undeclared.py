"""Undeclared outcomes are not followed and undeclared effects not carried out, with any driver."""

from dataclasses import dataclass
from typing import Any, final

import pytest

from graphexec import (
    END,
    All,
    Asks,
    Done,
    Effect,
    Exhausted,
    Limits,
    Snapshot,
    ask,
    ask_all,
    charged,
    edges,
    graph,
    node,
    on,
    opaque,
)
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import (
    InputError,
    MissingHandlerError,
    SnapshotError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
)
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


@node
def consume(lie: Lie) -> Total:
    CONSUMED.append(lie)
    return Total("consumed")


@node
def consume_honest(honest: Honest) -> Honest | Lie:
    return honest


@node
def purely(left: Left) -> Honest:
    return LIE


@charged(when_spent=Stopped)
@node
def asking(left: Left) -> Asks[Question, Honest]:
    yield from ask(Question("true?"))
    return LIE


@charged(when_spent=Stopped)
@node
async def asynchronously(left: Left) -> Honest:
    return LIE


@charged(when_spent=Stopped)
@opaque
def opaquely(left: Left) -> Honest:
    return LIE


@pytest.fixture(autouse=True)
def _nothing_consumed() -> None:
    CONSUMED.clear()


@cases("driver", ALL_DRIVERS)
@cases("liar", [purely, asking, asynchronously, opaquely])
def test_undeclared_outcome_is_not_followed(liar: Any, driver: Driver) -> None:
    row: Any = edges
    routes: Any = on(Honest, consume_honest)
    if liar.when_spent:
        routes = routes | on(Stopped, END)
    # The table has a node that takes the undeclared outcome, but only another node has an edge to it.
    machine: Any = graph(
        row(liar, routes) | edges(consume_honest, on(Honest, END) | on(Lie, consume)) | edges(consume, on(Total, END)),
        start=liar,
    )
    with pytest.raises(UndeclaredOutcomeError) as caught:
        driver(Script(machine, Left(1), make_run_context({Question: lambda question: "yes"})))
    assert CONSUMED == []
    assert (caught.value.node, caught.value.outcome) == (liar.name, Lie())
    declared = ("Honest",)
    assert caught.value.declared == declared
    assert str(caught.value) == (
        f"{liar.name} returned a Lie, which its annotation does not declare; it was not followed; return one of "
        f"{', '.join(declared)}, or add the class to the annotation and to the table"
    )


@cases("lie", [Child("child"), None, "text", Exhausted("seconds", 1, 1)])
def test_outcomes_are_matched_by_exact_class(lie: Any) -> None:
    @node
    def lying(left: Left) -> Total:
        result: Total = lie
        return result

    machine = graph(edges(lying, on(Total, END)), start=lying)
    with pytest.raises(UndeclaredOutcomeError, match=f"lying returned an? {type(lie).__name__}, which"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_pure_node_cannot_return_exhausted() -> None:
    @metered(when_spent=Stopped)
    @node
    def pretending(left: Left) -> Total:
        lie: Any = Exhausted("tokens", 1, 1)
        result: Total = lie
        return result

    machine = graph(edges(pretending, on(Total, END) | on(Stopped, END)), start=pretending)
    with pytest.raises(UndeclaredOutcomeError, match="pretending returned an Exhausted"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_asking_node_cannot_return_exhausted() -> None:
    @charged(when_spent=Stopped)
    @node
    def pretending(left: Left) -> Asks[Question, Total]:
        yield from ask(Question("may I?"))
        lie: Any = Exhausted("tokens", 1, 1)
        result: Total = lie
        return result

    machine = graph(edges(pretending, on(Total, END) | on(Stopped, END)), start=pretending)
    with pytest.raises(UndeclaredOutcomeError, match="pretending returned an Exhausted"):
        run_script(lambda: Script(machine, Left(1), answering([])))


# ---- effects


def answering(calls: list[object]) -> Any:
    def answer_call(effect: object) -> str:
        calls.append(effect)
        return "yes"

    return make_run_context({Question: answer_call, CallTool: answer_call})


@charged(when_spent=Stopped)
@node
def sneaking(left: Left) -> Asks[Question, Total]:
    yield from ask(Question("may I?"))
    sneak: Any = ask(CallTool("rm", "everything"))
    yield from sneak
    return Total("done")


@charged(when_spent=Stopped)
@node
def sneaking_in_a_batch(left: Left) -> Asks[Question, Total]:
    yield from ask(Question("may I?"))
    sneak: Any = ask_all([Question("and?"), CallTool("rm", "everything")])
    yield from sneak
    return Total("done")


@charged(when_spent=Stopped)
@node
def yielding_anything(left: Left) -> Asks[Question, Total]:
    yield from ask(Question("may I?"))
    anything: Any = "rm everything"
    yield anything
    return Total("done")


def test_yield_without_from_is_reported() -> None:
    @charged(when_spent=Stopped)
    @node
    def forgetful(left: Left) -> Asks[Question, Total]:
        answer: Any = yield ask(Question("may I?"))  # type: ignore[misc]  # pyright: ignore[reportReturnType]
        return Total(answer)

    machine = graph(edges(forgetful, on(Total, END) | on(Stopped, END)), start=forgetful)
    with pytest.raises(
        UndeclaredEffectError, match="forgetful yielded a generator instead of an effect; write reply = yield from"
    ):
        run(machine, Left(1), answering([]))


@cases("driver", ALL_DRIVERS)
@cases(
    ("sneak", "asked"),
    [(sneaking, "a CallTool"), (sneaking_in_a_batch, "an All"), (yielding_anything, "a str")],
)
def test_undeclared_effect_is_not_carried_out(sneak: Any, asked: str, driver: Driver) -> None:
    machine = graph(edges(sneak, on(Total, END) | on(Stopped, END)), start=sneak)
    calls: list[object] = []
    with pytest.raises(UndeclaredEffectError) as caught:
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
    @charged(when_spent=Stopped)
    @node
    def loud(left: Left) -> Asks[Question, Total]:
        return Total((yield from ask(Louder("hey"))))

    machine = graph(edges(loud, on(Total, END) | on(Stopped, END)), start=loud)
    with pytest.raises(UndeclaredEffectError, match="loud asked for a Louder"):
        run_script(lambda: Script(machine, Left(1), answering([])))


def test_missing_handler_is_reported_with_a_remedy() -> None:
    with pytest.raises(MissingHandlerError) as caught:
        run_script(lambda: Script(INTERVIEW, Topic("tea"), without_handlers()))
    assert caught.value.effect == Question("tea 0 0")
    assert str(caught.value) == (
        "no handler answers Question; pass handlers={Question: a function from Question to its reply}"
    )


@dataclass(frozen=True)
class Fetch(Effect[str]):
    pass


@charged(when_spent=Stopped)
@node
def both(left: Left) -> Asks[Question | Fetch, Total]:
    # Not ask_all, for which mypy infers that both effects are an Effect[str].
    answers: tuple[str, str] = yield All((Question("?"), Fetch()))
    return Total(", ".join(answers))


BOTH = graph(edges(both, on(Total, END) | on(Stopped, END)), start=both)


def test_batch_with_a_missing_handler_does_not_start() -> None:
    calls: list[object] = []
    with pytest.raises(MissingHandlerError, match="no handler answers Fetch"):
        run_script(lambda: Script(BOTH, Left(1), answering(calls)))
    assert calls == []


def test_cut_batch_of_mixed_effects_leaves_the_node() -> None:
    state = advance(BOTH, begin(BOTH, Left(1)), Limits(seconds=5))
    assert isinstance(state, PendingEffect)
    done = advance(BOTH, state.cut(at=5.0, answers=("yes", Cut())), Limits(seconds=5))
    assert isinstance(done, Done)
    assert done.outcome == Stopped(Left(1), Exhausted("seconds", 5, 5))


def test_batch_may_mix_effects() -> None:
    def answers() -> Any:
        return make_run_context({Question: lambda _: "yes", Fetch: lambda _: "page"})

    assert run_script(lambda: Script(BOTH, Left(1), answers())).outcome == Total("yes, page")


# ---- exceptions


def test_node_exception_carries_the_snapshot() -> None:
    @node
    def failing(left: Left) -> Total:
        raise ValueError("no more")

    machine = graph(edges(failing, on(Total, END)), start=failing)
    for driver in LIVE:
        with pytest.raises(ValueError, match="no more") as caught:
            driver(Script(machine, Left(3), without_handlers()))
        assert snapshot_of(caught.value) == Snapshot("failing", Left(3), entered=True)
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
            == Snapshot("interview", Topic("tea"), ("fine",), snapshot.spent, entered=True, open=(PAID,), sequence=1)
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

    @charged(when_spent=Stopped)
    @node
    def careful(left: Left) -> Asks[Question, Total]:
        try:
            return Total((yield from ask(Question("?"))))
        finally:
            closed.append("careful")

    machine = graph(edges(careful, on(Total, END) | on(Stopped, END)), start=careful)

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
    with pytest.raises(InputError) as caught:
        run_script(lambda: Script(INTERVIEW, start, without_handlers()))
    assert str(caught.value) == "interview takes Topic, not Number; start the run with one"


def test_run_refuses_an_unbound_setting() -> None:
    @node
    def greet(left: Left, name: Total) -> Total:
        return name

    machine = graph(edges(greet, on(Total, END)), start=greet)
    with pytest.raises(InputError) as caught:
        begin(machine, Left(1))
    assert str(caught.value) == "greet needs a Total for name; run bind(machine, ...) with one"


def test_advance_raises_before_the_step() -> None:
    machine = graph(edges(sneaking, on(Total, END) | on(Stopped, END)), start=sneaking)
    state = advance(machine, begin(machine, Left(1)), Limits())
    assert isinstance(state, PendingEffect)
    after = state.reply("yes", at=0.0)
    with pytest.raises(UndeclaredEffectError):
        advance(machine, after, Limits())
    assert after.spent["tool_calls"] == 0


def test_tool_call_replies_with_a_tool_result() -> None:
    # The fakes above return strings for a CallTool, which no test may reach.
    assert ToolResult("x").status == "ok"
    assert interview.name == "interview"


def test_node_cannot_return_its_when_spent_outcome() -> None:
    @metered(when_spent=Stopped)
    @node
    def pretending(left: Left) -> Total:
        lie: Any = Stopped(left, Exhausted("tokens", 1, 1))
        result: Total = lie
        return result

    machine = graph(edges(pretending, on(Total, END) | on(Stopped, END)), start=pretending)
    with pytest.raises(UndeclaredOutcomeError, match="pretending returned a Stopped"):
        run_script(lambda: Script(machine, Left(1), without_handlers()))


def test_snapshot_at_an_unknown_node_is_refused() -> None:
    with pytest.raises(SnapshotError, match="the snapshot is at nowhere"):
        run(INTERVIEW, Snapshot("nowhere", Left(1)), without_handlers())


def test_undeclared_when_spent_outcome_is_refused() -> None:
    def lying(given: Left, limit: Exhausted) -> Stopped:
        lie: Any = Total(str(limit))
        result: Stopped = lie
        return result

    @metered(when_spent=lying)
    @node
    def honest(left: Left) -> Total:
        return Total("")

    machine = graph(edges(honest, on(Total, END) | on(Stopped, END)), start=honest)
    with pytest.raises(UndeclaredOutcomeError, match=r"honest returned a Total.*return one of Stopped"):
        run_script(lambda: Script(machine, Left(1), limited(iterations=0)))


def test_failure_at_an_entry_resumes_before_it() -> None:
    def failing(given: Left, limit: Exhausted) -> Stopped:
        raise OSError("no words for it")

    @metered(when_spent=failing)
    @node
    def gated(left: Left) -> Total:
        return Total("")

    machine = graph(edges(gated, on(Total, END) | on(Stopped, END)), start=gated)
    state: Any = Left(1)
    for _ in range(2):
        with pytest.raises(OSError, match="no words") as caught:
            run(machine, state, limited(iterations=0))
        state = snapshot_of(caught.value)
        assert (state.entered, state.spent.iterations) == (False, 0)
