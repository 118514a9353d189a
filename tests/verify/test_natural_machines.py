"""Fifteen machines of usual shapes: each is proved at once, or refuted with a true sentence and useful remedies."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import pytest

import graphexec as gx
from graphexec import END, ITERATIONS, Asks, Exhausted, ask, edges, graph, node, on
from graphexec.effects import CallModel
from graphexec.kernel import Moved, PendingEffect, Snapshot, advance, begin
from graphexec.messages import CompletionRequest, ModelReply
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify import verify
from graphexec.verify.export.promela import promela
from graphexec.verify.export.tla import tla
from graphexec.verify.proof.flow import flow_of
from tests.kernel.machines import Halted, machine_of, stub, value
from tests.parameters import cases
from tests.verify.checkers import spin
from tests.verify.proofs import certificate_of, require
from tests.verify.remedies import follow


def words(prompt: str) -> Asks[CallModel, str]:
    """Ask the model."""
    reply = yield from ask(CallModel(CompletionRequest(prompt)))
    return str(reply.content)


def plan_or_say(effect: CallModel) -> ModelReply:
    """Return a plan for the goal, and a word for all else."""
    return ModelReply("a,b,c" if effect.request == CompletionRequest("a,b,c") else "x")


@value
class Goal:
    text: str


@value
class Answer:
    text: str


# ---- four that end by what they count


@value
class Todo:
    rest: tuple[str, ...]
    done: tuple[str, ...] = ()


@node(when_spent=Halted, asks=1)
def make_todo(goal: Goal) -> Asks[CallModel, Todo]:
    return Todo(tuple((yield from words(goal.text)).split(",")))


@node(when_spent=Halted, asks=(0, 1))
def do_next(todo: Todo) -> Asks[CallModel, Todo | Answer]:
    if not todo.rest:
        return Answer(" ".join(todo.done))
    return Todo(todo.rest[1:], (*todo.done, (yield from words(todo.rest[0]))))


PLAN_AND_EXECUTE = machine_of(make_todo, do_next)


@value
class Debate:
    turns_left: int
    said: tuple[str, ...] = ()


@value
class Reply:
    debate: Debate


@node(when_spent=Halted, asks=1)
def argue(debate: Debate) -> Asks[CallModel, Reply]:
    said = yield from words("for")
    return Reply(Debate(debate.turns_left, (*debate.said, said)))


@node(when_spent=Halted, asks=1)
def object_to(reply: Reply) -> Asks[CallModel, Debate | Answer]:
    said = yield from words("against")
    debate = Debate(reply.debate.turns_left - 1, (*reply.debate.said, said))
    return debate if debate.turns_left > 0 else Answer(" ".join(debate.said))


DEBATE = machine_of(argue, object_to)


@value
class Chunks:
    pending: list[str]
    parts: tuple[str, ...] = ()


@value
class Mapped:
    parts: tuple[str, ...]


@node
def split_up(goal: Goal) -> Chunks:
    return Chunks(goal.text.split())


@node(when_spent=Halted, asks=1)
def map_chunk(chunks: Chunks) -> Asks[CallModel, Chunks | Mapped]:
    parts = (*chunks.parts, (yield from words(chunks.pending[0])))
    return Chunks(chunks.pending[1:], parts) if len(chunks.pending) > 1 else Mapped(parts)


@node
def reduce_all(mapped: Mapped) -> Answer:
    return Answer(" ".join(mapped.parts))


MAP_REDUCE = machine_of(split_up, map_chunk, reduce_all)


@value
class Bracket:
    players: tuple[str, ...]


@value
class Winner:
    player: str
    others: tuple[str, ...]


@node(when_spent=Halted, asks=1)
def play(bracket: Bracket) -> Asks[CallModel, Winner]:
    return Winner((yield from words("who?")), bracket.players[2:])


@node
def pair(winner: Winner) -> Bracket | Answer:
    return Bracket((*winner.others, winner.player)) if winner.others else Answer(winner.player)


TOURNAMENT = machine_of(play, pair)

# ---- others


@value
class Beams:
    beams: tuple[str, ...]
    depth: int = 0


def best_so_far(beams: Beams, limit: Exhausted) -> Answer:
    return Answer(beams.beams[0])


@node(when_spent=best_so_far)
def expand(beams: Beams) -> Asks[CallModel, Beams | Answer]:
    said = yield from words("go on")
    return Beams((said, *beams.beams)[:3], beams.depth + 1) if beams.depth < 3 else Answer(said)


BEAM_SEARCH = machine_of(expand)


@value
class Draft:
    text: str


# Any: a decorator of stubs, of which the prover reads the types.
asking_once: Any = node(when_spent=Halted, asks=1)
REFLECTION = machine_of(
    asking_once(stub("write", Goal, Draft, asks=CallModel)),
    asking_once(stub("criticise", Draft, Goal | Answer, asks=CallModel)),
)
review: Any = stub("review", Draft, Answer | Draft, asks=gx.AskHuman)
APPROVAL = machine_of(node(when_spent=Halted, meters=[ITERATIONS])(review))


@value
class Failed:
    goal: Goal
    attempts: int


@gx.node(opaque=True)
def attempt(goal: Goal) -> Answer | Failed:
    return Failed(goal, 1)


@node
def back_off(failed: Failed) -> Goal | Answer:
    return failed.goal if failed.attempts < 3 else Answer("no")


_attempting: Any = node(when_spent=Halted)(attempt)
RETRIES = machine_of(_attempting, back_off)


@value
class Stopped:
    """A class of the machine's own, with the name that remedies use first."""

    why: str


SUPERVISOR = machine_of(stub("route", Goal, Draft | Stopped), stub("work_on", Draft, Goal))


@node
def rewrite(failed: Failed) -> Goal:
    return failed.goal


RETRIEVAL = machine_of(
    stub("retrieve", Goal, Draft), asking_once(stub("grade", Draft, Answer | Failed, asks=CallModel)), rewrite
)

PAGES = gx.Meter("pages", 20)


@value
class Frontier:
    urls: tuple[str, ...]


@node(when_spent=Halted, meters=[PAGES])
async def crawl(frontier: Frontier) -> Frontier | Answer:
    return Frontier(frontier.urls[1:]) if frontier.urls else Answer("all")


BOUNDED_CRAWLER = machine_of(crawl)
crawl_on: Any = node(when_spent=Halted, meters=[gx.Meter("pages")])(crawl.function)
CRAWLER = machine_of(crawl_on)


CHAT = machine_of(
    asking_once(stub("listen", Draft, Goal | Answer, asks=gx.AskHuman)),
    asking_once(stub("respond", Goal, Draft, asks=CallModel)),
)

REVISIONS = gx.Meter("rounds", 3)
# Any: their rows are written out.
revise: Any = node(when_spent=Halted, meters=[REVISIONS])(stub("revise", Draft, Draft | Goal))
next_chapter: Any = stub("next_chapter", Goal, Draft | Answer)
WRITER = graph(
    edges(revise, on(Draft, revise) | on(Goal, next_chapter) | on(Halted, END))
    | edges(next_chapter, on(Draft, revise, resets=[REVISIONS]) | on(Answer, END)),
    start=revise,
)

_child: Any = gx.embed(BOUNDED_CRAWLER, "site", own=[PAGES])
SITES = machine_of(_child, stub("next_site", Answer, Frontier | Draft))

FIFTEEN: Mapping[str, tuple[gx.Graph[Any, Any], gx.Limits, str]] = {
    "plan and execute": (PLAN_AND_EXECUTE, gx.Limits(), "todo.rest"),
    "debate": (DEBATE, gx.Limits(), "debate.turns_left"),
    "map-reduce": (MAP_REDUCE, gx.Limits(iterations=None), "chunks.pending"),
    "tournament": (TOURNAMENT, gx.Limits(), "winner.others"),
    # The condition of the second remedy does not hold for these three, and so no machine follows it.
    "beam search": (BEAM_SEARCH, gx.Limits(), "beams.beams"),
    "retries": (RETRIES, gx.Limits(iterations=None), "failed.attempts"),
    "retrieval": (RETRIEVAL, gx.Limits(seconds=60), "failed.attempts"),
    "reflection": (REFLECTION, gx.Limits(seconds=60), ""),
    "approval": (APPROVAL, gx.Limits(), ""),
    "endless approval": (APPROVAL, gx.Limits(iterations=None), ""),
    "supervisor": (SUPERVISOR, gx.Limits(), ""),
    "crawler": (CRAWLER, gx.Limits(), ""),
    "chat": (CHAT, gx.Limits(), ""),
    "chapters": (WRITER, gx.Limits(), ""),
    "sites": (SITES, gx.Limits(), ""),
}


@cases("name", *FIFTEEN)
def test_natural_machine_is_proved_or_every_remedy_proves(name: str) -> None:
    machine, limits, counted = FIFTEEN[name]
    verdict = verify(machine, limits)
    assert verdict.proved == (name == "approval")
    for finding in verdict.findings:
        assert finding.fact.startswith(
            ("the table alone does not end this loop: ", "only the 60 seconds end this loop")
        )
        # A budget of rounds comes first where the value of the loop counts.
        assert finding.remedy.removeprefix("add a counted limit: ").startswith("meter ") or not counted
        assert (f"{counted} falls" in finding.remedy or f"len({counted}) falls" in finding.remedy) == bool(counted)
        followed = follow(finding, verdict, globals())
        assert len(followed) > bool(counted)
        for one in followed:
            assert one.proved, (finding.remedy, one.why)
            certificate_of(one.graph, one.limits)


def test_function_without_annotations_is_not_proposed_to_another_node() -> None:
    # A node that was not made by its decorator.
    bare: Any = dataclasses.replace(WRITER["revise"], when_spent=print)
    nodes: list[gx.Node[Any, Any]] = [bare, WRITER["next_chapter"]]
    machine: gx.Machine[Any, Any] = gx.Machine(nodes, WRITER.edges, WRITER.start)
    (finding,), (own,) = (verify(one, gx.Limits()).findings for one in (machine, WRITER))
    assert "add when_spent=Halted, meters=[Meter(" in own.remedy
    assert "add when_spent=Stopped, meters=[Meter(" in finding.remedy


def measured(name: str) -> gx.Machine[Any, Any]:
    """Return one of the machines with the measure that its remedy names."""
    machine, limits, _ = FIFTEEN[name]
    verdict = verify(machine, limits)
    graph = follow(verdict.findings[0], verdict, globals())[-1].graph
    return gx.Machine(graph, graph.edges, graph.start)


COUNTING: Mapping[str, tuple[object, str, int, int]] = {
    # What the run starts with, the closed form, its value for the first visit, and the transitions of the run.
    "plan and execute": (Goal("a,b,c"), "measure(do_next) + 2", 5, 5),
    "debate": (Debate(3), "2*measure(argue) + 2", 8, 6),
    "map-reduce": (Goal("a b c"), "measure(map_chunk) + 3", 6, 5),
    "tournament": (Bracket(tuple("abcdefgh")), "2*measure(pair) + 3", 15, 14),
}


@cases("name", *COUNTING)
def test_machine_that_counts_is_proved_by_its_measure(name: str) -> None:
    start, form, most, taken = COUNTING[name]
    machine = measured(name)
    bounds = require(verify(machine, gx.Limits(iterations=None)).bounds)
    assert (bounds.transitions.form, bounds.transitions.number, bounds.transitions.exact) == (form, None, False)
    assert bounds.model_calls.form is not None
    handlers: Any = {CallModel: plan_or_say}
    moves = [one for one in machine.stream(start, handlers=handlers) if isinstance(one, Moved)]
    assert len(moves) == taken <= most


@cases("name", *COUNTING)
def test_measure_survives_a_resume_at_each_effect(name: str) -> None:
    """The counts are in the stored snapshot: a run that is resumed with a greater value is refused."""
    machine, (start, *_) = measured(name), COUNTING[name]
    paused = begin(machine, start)
    whole = 0
    while isinstance(pending := advance(machine, paused, gx.Limits()), PendingEffect):
        paused = Snapshot.from_json(pending.reply(ModelReply("a,b,c" if not whole else "x")).to_json(), machine)
        assert paused.to_json() == Snapshot.from_json(paused.to_json(), machine).to_json()
        whole += 1
    assert whole >= 3
    (measure,) = flow_of(machine).measures
    assert 0 < pending.snapshot.spent[measure] <= 4


@pytest.mark.medium
@cases("name", *COUNTING)
def test_other_checkers_agree_about_measures(name: str) -> None:
    """SPIN and TLC count from a first measure of 2; the engine takes every outcome of the stubs, and the ranks fall."""
    machine, limits = measured(name), gx.Limits(iterations=None)
    flow, certificate = flow_of(machine), certificate_of(machine, limits)
    found = explore_table(machine, limits, proof=certificate.proof)
    form = certificate.bounds.transitions.form or ""
    assert (found.endless, found.longest) == (None, eval(re.sub(r"measure\(\w+\)", "2", form)))
    assert "MeasureError" in found.exceptions
    assert spin(promela(flow, limits))
    assert "MeasureError" in tla(flow, limits)
