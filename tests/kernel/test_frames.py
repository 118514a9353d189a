"""An embedded graph with `enter` and `leave`: its outer value is saved in a frame until it has ended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import kernel, testing
from graphexec.errors import NodeError, SnapshotError
from graphexec.kernel.events import Done
from tests.kernel.machines import Question, error_message, machine_of, pure, reporter, run_machine, value
from tests.parameters import cases, examples


@value
class Job:
    """A list of subjects, and the notes about them so far."""

    subjects: tuple[str, ...]
    notes: tuple[str, ...] = ()


@value
class Subject:
    name: str


@value
class Known:
    fact: str


@value
class Unknown:
    limit: gx.Exhausted


@value
class Minutes:
    notes: tuple[str, ...]


def give_up(subject: Subject, limit: gx.Exhausted) -> Unknown:
    return Unknown(limit)


@gx.node(when_spent=give_up, asks=1)
def inquire(subject: Subject) -> gx.Asks[Question, Known | Unknown]:
    reply = yield from gx.ask(Question(subject.name))
    return Known(reply)


INQUIRY: gx.Graph[Subject, Known | Unknown] = machine_of(inquire)


def limited_inquiry(tries: gx.Meter) -> gx.Graph[Subject, Known | Unknown]:
    return machine_of(gx.node(when_spent=give_up, meters=[tries])(inquire))


def take_first(job: Job) -> Subject | Minutes:
    return Subject(job.subjects[0]) if job.subjects else Minutes(job.notes)


def write_down(known: Known, job: Job) -> Job | Minutes:
    noted = Job(job.subjects[1:], (*job.notes, known.fact))
    return noted if noted.subjects else Minutes(noted.notes)


def stop_early(job: Job, limit: gx.Exhausted) -> Minutes:
    return Minutes((*job.notes, f"stopped by {limit.limit}"))


ROUNDS, TRY = gx.Meter("rounds", 3), gx.Meter("tries", 1)


file_unknown = pure("file_unknown", Unknown, Minutes, lambda unknown: Minutes((f"no more: {unknown.limit.limit}",)))


def survey(name: str = "look", *, own: tuple[gx.Meter, ...] = (ROUNDS,), child: Any = INQUIRY) -> gx.Node[Job, Any]:
    """Return a node that asks about each subject, at most three."""
    return gx.embed(child, name, own=own, enter=take_first, leave=write_down, each=ROUNDS, when_spent=stop_early)


def office(each: gx.Node[Job, Any]) -> gx.Machine[Job, Minutes]:
    return machine_of(each, file_unknown)


def minutes_of(machine: gx.Graph[Job, Minutes], *subjects: str) -> tuple[str, ...]:
    notes: tuple[str, ...] = run_machine(machine, Job(subjects), reporter()).outcome.notes
    return notes


def pauses_of(machine: gx.Graph[Any, Any], value: Any) -> list[gx.Snapshot]:
    """Return the run at each request, each read from JSON."""
    found: list[gx.Snapshot] = []
    snapshot = gx.begin(machine, value)
    while isinstance(state := gx.advance(machine, snapshot, gx.Limits()), kernel.PendingEffect):
        found.append(gx.Snapshot.from_json(state.snapshot.to_json(), machine))
        effect: Any = state.effect
        snapshot = gx.Snapshot.from_json(state.reply(f"re: {effect.text}").to_json(), machine)
    assert isinstance(state, Done)
    return found


class TestFrame:
    @cases(("job", "notes"), (Job(("elms", "oaks")), ("re: elms", "re: oaks")), (Job((), ("done",)), ("done",)))
    def test_leave_receives_the_outer_value(self, job: Job, notes: tuple[str, ...]) -> None:
        """Other outcomes of `enter` leave at once."""
        assert run_machine(office(survey()), job, reporter()).outcome == Minutes(notes)

    def test_other_endings_leave_unchanged(self) -> None:
        machine = office(survey(child=limited_inquiry(gx.Meter("tries", 1))))
        result = run_machine(machine, Job(("a", "b")), reporter())
        assert result.outcome == Minutes(("no more: tries",))
        assert result.done.snapshot.frames == {}

    def test_rows_show_the_nodes(self) -> None:
        assert str(office(survey())).splitlines() == [
            "look.enter --Subject--> look.inquire",
            "look.enter --Minutes--> END",
            "look.inquire --Known--> look.leave",
            "look.inquire --Unknown--> file_unknown",
            "look.leave --Job--> look.enter",
            "look.leave --Minutes--> END",
            "file_unknown --Minutes--> END",
        ]

    def test_frame_is_stored_and_dropped(self) -> None:
        job = Job(("elms", "oaks"))
        first, second = pauses_of(office(survey()), job)
        assert first.frames == {"look": job}
        assert second.frames == {"look": Job(("oaks",), ("re: elms",))}
        assert json.loads(first.to_json())["frames"] == {
            "look": {"class": "Job", "data": {"subjects": ["elms", "oaks"], "notes": []}}
        }
        machine = office(survey())
        elms = Job(("elms",))
        assert run_machine(machine, elms, reporter()).done.snapshot.frames == {"look": elms}
        table: Any = gx.edges(file_minutes, gx.on(Filed, gx.END))
        filed = gx.splice(machine, table, after=machine["look.leave"], on=Minutes)
        assert run_machine(filed, elms, reporter()).done.snapshot.frames == {}
        stored = gx.Snapshot("look.enter", Job(())).to_json()
        assert "frames" not in json.loads(stored)
        assert gx.Snapshot.from_json(stored, office(survey())).frames == {}

    def test_missing_frame_is_refused(self) -> None:
        machine = office(survey())
        stored = json.loads(pauses_of(machine, Job(("elms",)))[0].to_json())
        del stored["frames"]
        paused = gx.Snapshot.from_json(json.dumps(stored), machine)
        match = "look.leave needs the value with which the run entered look, and the snapshot does not have it"
        with pytest.raises(SnapshotError, match=match):
            run_machine(machine, paused.retried(), reporter())

    @cases("frames", 3, ["look"], {"look": 3}, {"look": {"class": "Nothing", "data": {}}})
    def test_invalid_frames_are_refused(self, frames: object) -> None:
        machine = office(survey())
        stored = json.loads(gx.Snapshot("look.enter", Job(())).to_json()) | {"frames": frames}
        with pytest.raises(SnapshotError):
            gx.Snapshot.from_json(json.dumps(stored), machine)

    def test_surgery_keeps_the_frame(self) -> None:
        machine = office(survey())
        loosely: Any = gx.edges(underline, gx.on(Known, machine["look.leave"]))
        changed = gx.splice(machine, loosely, after=machine["look.inquire"], on=Known)
        assert minutes_of(changed, "elms", "oaks") == ("re: elms!", "re: oaks!")
        wrapped = gx.wrap(machine, machine["look.leave"], before=lambda known: Known(known.fact.upper()))
        assert minutes_of(wrapped, "elms") == ("RE: ELMS",)
        forgetful = dataclasses.replace(forget, name="look.leave")
        changed = gx.replace(office(survey()), forgetful, narrowed=True)
        assert minutes_of(changed, "elms", "oaks") == ("re: elms",)

    def test_enter_alone_saves_nothing(self) -> None:
        one: Any = gx.embed(INQUIRY, "one", enter=take_first)
        machine: gx.Machine[Job, Any] = machine_of(one)
        assert run_machine(machine, Job(("elms",)), reporter()).outcome == Known("re: elms")
        assert pauses_of(machine, Job(("elms",)))[0].frames == {}


@value
class Filed:
    notes: tuple[str, ...]


file_minutes = pure("file_minutes", Minutes, Filed, lambda minutes: Filed(minutes.notes))
forget = pure("forget", Known, Minutes, lambda known: Minutes((known.fact,)))
underline = pure("underline", Known, Known, lambda known: Known(f"{known.fact}!"))


class TestEach:
    @cases(
        ("make", "subjects", "notes"),
        (lambda: office(survey()), "abcde", ("re: a", "re: b", "re: c", "stopped by look.rounds")),
        # An own budget is refilled at each entry, and another one counts for the whole run.
        (lambda: two_surveys(survey(own=(ROUNDS,))), "ab", ("re: a", "re: b")),
        (lambda: two_surveys(survey(own=())), "ab", ("re: a", "stopped by rounds")),
        # Own budgets of the child are refilled in each round.
        (lambda: office(survey(own=(ROUNDS, TRY), child=limited_inquiry(TRY))), "ab", ("re: a", "re: b")),
        (lambda: office(survey(child=limited_inquiry(TRY))), "ab", ("no more: tries",)),
    )
    def test_loop_ends_with_its_budget(self, make: Callable[[], Any], subjects: str, notes: tuple[str, ...]) -> None:
        assert minutes_of(make(), *subjects) == notes

    @pytest.mark.medium
    def test_loop_is_proved(self) -> None:
        verdict = office(survey()).verify()
        assert verdict.proved
        assert verdict.certificate is not None
        testing.verify_termination(office(survey()), start=Job(("a", "b")), replies={Question: ["so"]}, examples=20)


def two_surveys(first: gx.Node[Job, Any]) -> gx.Graph[Job, Any]:
    """Return a machine that enters a survey twice: its outer loop repeats the subjects once."""

    @gx.node(when_spent=stop_again, meters=[gx.Meter("again", 1)])
    def again(minutes: Minutes) -> Job:
        return Job(("a", "b"))

    # The last minutes are those of the second survey.
    return machine_of(first, again, file_unknown)


def stop_again(minutes: Minutes, limit: gx.Exhausted) -> Filed:
    return Filed(minutes.notes)


class TestNesting:
    def test_nested_frames_have_their_own_names(self) -> None:
        first, second = survey("first"), survey("second")
        table: Any = (
            gx.edges(first, gx.on(Minutes, reopen) | gx.on(Unknown, file_unknown))
            | gx.edges(reopen, gx.on(Job, second))
            | gx.edges(second, gx.on(Minutes, gx.END) | gx.on(Unknown, file_unknown))
            | gx.edges(file_unknown, gx.on(Minutes, gx.END))
        )
        machine: gx.Machine[Job, Minutes] = gx.graph(table, start=first)
        assert minutes_of(machine, "a") == ("re: re: a",)
        assert [{*one.frames} for one in pauses_of(machine, Job(("a",)))] == [{"first"}, {"second"}]
        nested, agenda = department(office(survey())), Agenda((("a", "b"), ("c",)))
        paused = pauses_of(nested, agenda)
        assert [{*one.frames} for one in paused] == [{"team", "team.look"}] * 3
        assert paused[2].frames["team"] == Agenda((("c",),), ("re: a", "re: b"))
        assert run_machine(nested, agenda, reporter()).outcome == Minutes(("re: a", "re: b", "re: c"))


@value
class Agenda:
    lists: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


reopen = pure("reopen", Minutes, Job, lambda minutes: Job(minutes.notes))


def department(inner: gx.Graph[Job, Minutes]) -> gx.Graph[Agenda, Minutes]:
    """Return a graph that embeds a graph with a frame."""

    def take_list(agenda: Agenda) -> Job:
        return Job(agenda.lists[0])

    def gather(minutes: Minutes, agenda: Agenda) -> Agenda | Minutes:
        notes = (*agenda.notes, *minutes.notes)
        return Agenda(agenda.lists[1:], notes) if agenda.lists[1:] else Minutes(notes)

    def stop(agenda: Agenda, limit: gx.Exhausted) -> Minutes:
        return Minutes((*agenda.notes, "stopped"))

    # The inner graph starts with a graph of its own, so no edge of its table refills that one's rounds.
    lists, rounds = gx.Meter("lists", 3), gx.Meter("look.rounds", 3)
    team: Any = gx.embed(inner, "team", own=[lists, rounds], enter=take_list, leave=gather, each=lists, when_spent=stop)
    return machine_of(team)


subjects = st.lists(st.sampled_from("abcde"), min_size=0, max_size=4).map(tuple)


@pytest.mark.medium
@settings(max_examples=examples(40), deadline=None)
@given(lists=st.lists(subjects, min_size=1, max_size=4).map(tuple))
def test_amnesiac_run_equals_plain_run(lists: tuple[tuple[str, ...], ...]) -> None:
    """One of five drivers reads the run from JSON before each effect and each reply."""
    expected: list[str] = []
    for wanted in lists[:3]:
        expected += [f"re: {one}" for one in wanted[:3]] + ["stopped by team.look.rounds"] * (len(wanted) > 3)
    result = run_machine(department(office(survey())), Agenda(lists), reporter())
    assert result.outcome == Minutes((*expected, *(["stopped"] if len(lists) > 3 else [])))


def leave_of_jobs(job: Job, outer: Job) -> Minutes:
    return Minutes(job.notes)


def strange_outer(known: Known, outer: Agenda) -> Minutes:
    return Minutes((known.fact,))


def one_way(known: Known, outer: Job) -> Minutes:
    return Minutes((known.fact,))


def start_again(job: Job, limit: gx.Exhausted) -> Subject:
    return Subject("again")


def asking_enter(job: Job) -> gx.Asks[Question, Subject]:
    reply = yield from gx.ask(Question("which?"))
    return Subject(reply)


WITH_LEAVE: dict[str, Any] = {"enter": take_first, "leave": write_down}
WHOLE: dict[str, Any] = {**WITH_LEAVE, "each": ROUNDS, "when_spent": stop_early}


class TestRefusals:
    @cases(
        ("options", "message"),
        ({"leave": write_down}, "has leave= without enter=; pass enter, a function that starts the graph"),
        ({"each": ROUNDS}, "has each= without enter=; pass enter"),
        ({"enter": take_first, "each": ROUNDS}, "has each=rounds without when_spent=; pass a function"),
        ({"enter": take_first, "when_spent": stop_early}, "has when_spent= without each=; pass each"),
        (WHOLE | {"each": gx.Meter("rounds")}, 'has each=rounds, which has no limit; write Meter("rounds", 3)'),
        ({"enter": reopen}, "starts with Subject, but its enter returns Job; return Subject"),
        (WITH_LEAVE | {"leave": leave_of_jobs}, "ends with Known | Unknown, but its leave takes Job; take Known |"),
        (WITH_LEAVE | {"leave": underline}, "has a leave that takes one value; write def leave"),
        (
            WITH_LEAVE | {"leave": strange_outer},
            "is entered with Job, but the parameter outer of its leave takes Agenda; widen the annotation",
        ),
        ({"enter": asking_enter}, "has enter=, which asks for effects; give a pure function"),
        (WHOLE | {"leave": one_way}, "has each=rounds, but its leave never returns Job, which enters it again"),
        (
            WHOLE | {"when_spent": start_again},
            "is entered with Subject, and when_spent returns that, too; return another class",
        ),
        ({"enter": take_first, "own": [TRY]}, "cannot own tries, which meters none"),
    )
    def test_unfitting_functions(self, options: dict[str, Any], message: str) -> None:
        assert error_message(NodeError, lambda: gx.embed(INQUIRY, "look", **options)).startswith(f"look {message}")

    def test_names_and_budget_are_checked(self) -> None:
        child = machine_of(kernel.node(name="leave")(inquire))
        with pytest.raises(NodeError, match="look has a node of its own that is named enter or leave; rename it"):
            gx.embed(child, "look", enter=take_first, leave=write_down)
        machine = machine_of(gx.embed(INQUIRY, "look", enter=take_first, leave=write_down))
        assert not machine.verify().proved
        with pytest.raises(gx.UnprovedError):
            machine.run(Job(()))
