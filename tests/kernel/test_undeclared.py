"""Undeclared outcomes are not followed and undeclared effects not carried out, with any driver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, errors, runtime
from graphexec.kernel import ITERATIONS, advance, begin, node, snapshot_of
from graphexec.kernel.snapshot import PAID
from tests.drivers import ALL_DRIVERS, LIVE, Driver, Script, make_run_context, options_of
from tests.executor.actors import snapshot_after
from tests.kernel import machines as m
from tests.parameters import cases


class Child(m.Total):  # pyright: ignore[reportGeneralTypeIssues]
    """A subclass of an outcome; type checkers refuse it."""


# Any: type checkers do not let a node return these.
_anything: Any = m.Agreed()
LIE: m.Landed = _anything


consume_honest = m.pure("consume_honest", m.Landed, m.Landed | m.Agreed, lambda honest: honest)
purely = m.pure("purely", m.Left, m.Landed, lambda left: LIE)


@gx.node(when_spent=m.Stopped)
def asking(left: m.Left) -> gx.Asks[m.Question, m.Landed]:
    yield from gx.ask(m.Question("true?"))
    return LIE


@gx.node(when_spent=m.Stopped)
async def asynchronously(left: m.Left) -> m.Landed:
    return LIE


@gx.node(when_spent=m.Stopped, opaque=True)
def opaquely(left: m.Left) -> m.Landed:
    return LIE


@cases("driver", *ALL_DRIVERS)
@cases("liar", purely, asking, asynchronously, opaquely)
def test_undeclared_outcome_is_not_followed(liar: Any, driver: Driver) -> None:
    consumed: list[object] = []

    @gx.node
    def consume(lie: m.Agreed) -> m.Total:
        consumed.append(lie)
        return m.Total("consumed")

    row: Any = gx.edges
    routes: Any = gx.on(m.Landed, consume_honest)
    if liar.when_spent:
        routes = routes | gx.on(m.Stopped, gx.END)
    # The table has a node that takes the undeclared outcome, but only another node has an edge to it.
    machine: Any = gx.graph(
        row(liar, routes)
        | gx.edges(consume_honest, gx.on(m.Landed, gx.END) | gx.on(m.Agreed, consume))
        | gx.edges(consume, gx.on(m.Total, gx.END)),
        start=liar,
    )
    with pytest.raises(errors.UndeclaredOutcomeError) as caught:
        driver(Script(machine, m.Left(1), make_run_context({m.Question: lambda question: "yes"})))
    assert consumed == []
    assert (caught.value.node, caught.value.outcome) == (liar.name, m.Agreed())
    assert caught.value.declared == ("Landed",)
    assert str(caught.value) == (
        f"{liar.name} returned an Agreed, which its annotation does not declare; it was not followed; return one of "
        "Landed, or add the class to the annotation and to the table"
    )


def lying(lie: Any, kind: str) -> gx.Graph[m.Left, Any]:
    """Return a graph whose node is declared to return a `Total`, and returns something else."""

    @gx.node
    def pretend(left: m.Left) -> m.Total:
        result: m.Total = lie
        return result

    @gx.node(when_spent=m.Stopped)
    def inquire(left: m.Left) -> gx.Asks[m.Question, m.Total]:
        yield from gx.ask(m.Question("may I?"))
        result: m.Total = lie
        return result

    costly = gx.node(when_spent=m.Stopped, meters=[gx.ITERATIONS])(pretend)
    return m.machine_of({"pure": pretend, "metered": costly, "asks": inquire}[kind])


SPENT = gx.Exhausted("tokens", 1, 1)


@cases(
    ("kind", "lie"),
    ("pure", Child("child")),
    ("pure", None),
    ("pure", "text"),
    ("pure", SPENT),
    ("metered", SPENT),
    ("metered", m.Stopped(m.Left(1), SPENT)),
    ("asks", SPENT),
)
def test_outcomes_are_matched_by_exact_class(kind: str, lie: Any) -> None:
    with pytest.raises(errors.UndeclaredOutcomeError, match=f"returned an? {type(lie).__name__}, which"):
        m.run_machine(lying(lie, kind), m.Left(1), answering([]))


def answering(calls: list[object]) -> Any:
    def answer_call(effect: object) -> str:
        calls.append(effect)
        return "yes"

    return make_run_context({m.Question: answer_call, effects.CallTool: answer_call})


class Louder(m.Question):
    pass


def sneak(effect: Any) -> gx.Graph[m.Left, Any]:
    """Return a graph whose node is declared to ask a question, and then asks for something else."""

    @gx.node(when_spent=m.Stopped)
    def sneaking(left: m.Left) -> gx.Asks[m.Question, m.Total]:
        yield from gx.ask(m.Question("may I?"))
        yield effect
        return m.Total("done")

    return m.machine_of(sneaking)


@cases("driver", *ALL_DRIVERS)
@cases(
    ("effect", "asked"),
    (effects.CallTool("rm", "everything"), "a CallTool"),
    (gx.All((m.Question("and?"), effects.CallTool("rm", "everything"))), "an All"),
    ("rm everything", "a str"),
    (Louder("hey"), "a Louder"),
)
def test_undeclared_effect_is_not_carried_out(effect: Any, asked: str, driver: Driver) -> None:
    calls: list[object] = []
    with pytest.raises(errors.UndeclaredEffectError) as caught:
        driver(Script(sneak(effect), m.Left(1), answering(calls)))
    assert calls == [m.Question("may I?")]
    assert (caught.value.node, caught.value.declared) == ("sneaking", ("Question",))
    assert str(caught.value) == (
        f"sneaking asked for {asked}, which its annotation does not declare; it was not carried out; ask for one "
        f"of Question, or add the effect to Asks[...]"
    )


def test_missing_handler_is_reported_before_any_call() -> None:
    with pytest.raises(errors.MissingHandlerError) as caught:
        m.run_machine(m.INTERVIEW, m.Topic("tea"))
    assert caught.value.effect == m.Question("tea 0 0")
    assert str(caught.value).startswith(
        "no handler answers Question; pass handlers={Question: a function from Question to its reply}, or store the run"
    )
    assert "runs=SQLiteRuns(" in str(caught.value)
    calls: list[object] = []
    with pytest.raises(errors.MissingHandlerError, match="no handler answers Fetch"):
        m.run_machine(BOTH, m.Left(1), answering(calls))
    assert calls == []


@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    pass


@gx.node(when_spent=m.Stopped)
def both(left: m.Left) -> gx.Asks[m.Question | Fetch, m.Total]:
    # Not ask_all, for which mypy infers that both effects are an Effect[str].
    answers: tuple[str, str] = yield gx.All((m.Question("?"), Fetch()))
    return m.Total(", ".join(answers))


BOTH = m.machine_of(both)


@cases("driver", *LIVE)
def test_node_exception_carries_the_snapshot(driver: Driver) -> None:
    @gx.node
    def failing(left: m.Left) -> m.Total:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as caught:
        driver(Script(m.machine_of(failing), m.Left(3), m.without_handlers()))
    found = snapshot_of(caught.value)
    assert found is not None
    assert found == gx.Snapshot("failing", m.Left(3), spent=gx.Spent(seconds=found.spent.seconds), entered=True)
    (note,) = caught.value.__notes__
    assert note == "graphexec: the run was at the node failing (iterations: 0); snapshot_of(error) is its state"


@cases("driver", *LIVE)
def test_run_resumes_after_a_handler_exception(driver: Driver) -> None:
    asked: list[str] = []

    def fail_once(question: m.Question) -> str:
        asked.append(question.text)
        if len(asked) == 2:
            raise OSError("the line is dead")
        return "fine"

    context = make_run_context({m.Question: fail_once})
    script = Script(m.INTERVIEW, m.Topic("tea"), context)
    snapshot = snapshot_after(OSError, lambda: driver(script), "the line is dead")
    failed = gx.Snapshot("interview", m.Topic("tea"), ("fine",), snapshot.spent, entered=True, open=(PAID,), sequence=1)
    assert snapshot == failed
    assert runtime.run(m.INTERVIEW, snapshot, **options_of(context)).outcome == m.Interview(("fine",) * 3)
    assert asked == ["tea 0 0", "tea 1 1", "tea 1 1", "tea 2 2"]


@gx.node
def greet(number: m.Even | m.Odd, name: m.Total | m.Landed) -> m.Total:
    return m.Total(f"{number.value} {type(name).__name__}")


GREET = m.machine_of(greet)
INPUT, NOWHERE = errors.InputError, gx.Snapshot("nowhere", m.Left(1))


@cases(
    ("kind", "start", "text"),
    (INPUT, lambda: m.run_machine(m.INTERVIEW, m.Number(3)), "interview takes Topic, not Number; start"),
    (INPUT, lambda: m.run_machine(m.DIAMOND, m.Even(3)), "split takes Number, not Even; start the run with one"),
    (INPUT, lambda: begin(GREET.with_settings(m.Landed()), m.Number(3)), "greet takes Even | Odd, not Number"),
    (
        gx.GraphError,
        lambda: advance(GREET, begin(GREET, m.Odd(1)), gx.Limits()),
        "greet needs one Total | Landed for name, and none was given; pass it to machine.with_settings(...)",
    ),
    (errors.SnapshotError, lambda: m.run_machine(m.INTERVIEW, NOWHERE, drivers=LIVE), "the snapshot is at nowhere"),
)
def test_run_refuses_an_invalid_start(kind: type[Exception], start: Callable[[], object], text: str) -> None:
    assert text in m.error_message(kind, start)
    assert begin(m.DIAMOND, m.Number(3)) == gx.Snapshot("split", m.Number(3))
    assert begin(GREET.with_settings(m.Landed()), m.Odd(3)).value == m.Odd(3)


def test_undeclared_effect_stops_before_its_step() -> None:
    machine = sneak(effects.CallTool("rm", "everything"))
    after = m.pending(machine, m.Left(1)).reply("yes", at=0.0)
    assert "a CallTool" in m.error_message(errors.UndeclaredEffectError, m.finish, machine, after)
    assert after.spent["tool_calls"] == 0
    message = m.error_message(
        errors.UndeclaredEffectError, m.run_machine, sneak(gx.ask(m.Question("?"))), m.Left(1), answering([]), LIVE[:1]
    )
    assert "sneaking yielded a generator instead of an effect; write reply = yield from" in message


gated = m.pure("gated", m.Left, m.Total, lambda left: m.Total(""))


def test_failure_at_an_entry_resumes_before_it() -> None:
    def lie(given: m.Left, limit: gx.Exhausted) -> m.Stopped:
        told: Any = m.Total(str(limit))
        result: m.Stopped = told
        return result

    machine = m.machine_of(node(when_spent=lie, meters=[ITERATIONS])(gated))
    with pytest.raises(errors.UndeclaredOutcomeError, match=r"gated returned a Total.*return one of Stopped"):
        m.run_machine(machine, m.Left(1), m.limited(iterations=0))

    def failing(given: m.Left, limit: gx.Exhausted) -> m.Stopped:
        raise OSError("no words for it")

    machine = m.machine_of(node(when_spent=failing, meters=[ITERATIONS])(gated))
    state: Any = m.Left(1)
    for _ in range(2):
        with pytest.raises(OSError, match="no words") as caught:
            runtime.run(machine, state, **options_of(m.limited(iterations=0)))
        state = snapshot_of(caught.value)
        assert (state.entered, state.spent.iterations) == (False, 0)
    assert snapshot_of(ValueError("elsewhere")) is None
