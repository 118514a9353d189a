"""Run the table on the real engine: along a witness, or as an adversary chooses."""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from itertools import chain, cycle, islice
from typing import Any

from graphexec.kernel import Answered, Asked, Entered, Graph, Limits, Moved, Snapshot
from graphexec.kernel.effects import OuterRuns
from graphexec.kernel.events import EVENT_TYPES
from graphexec.kernel.execution import Execution
from graphexec.kernel.node import Edge
from graphexec.kernel.program import Proof
from graphexec.testing.explorer.stepping import Over
from graphexec.testing.explorer.stub_nodes import Instruction, StubMachine, StubStep
from graphexec.verify.proof.findings import Witness
from graphexec.verify.proof.flow import Transition


def execute(graph: Graph[Any, Any], witness: Witness, steps: int) -> int:
    """Make the engine follow the witness, its stem and then its loop repeatedly, for at most so many transitions.

    Returns the number taken: `steps`, if the loop is one. Where it is in the states that it was in a round before, it
    repeats forever, and is not followed further. Raises `AssertionError` if the engine goes another way.
    """
    machine = StubMachine(graph, witness.limits)
    places: list[Snapshot | Over] = [machine.start_run()]
    seen: set[Hashable] = set()
    for taken, transition in enumerate(islice(chain(witness.stem, cycle(witness.loop)), steps)):
        rounds = taken - len(witness.stem)
        if rounds >= 0 and not rounds % len(witness.loop):
            states = frozenset(machine.state_key(place) for place in places if not isinstance(place, Over))
            if states in seen:
                break
            seen.add(states)
        found = _next_steps(machine, places)
        following = [one.then for one in found if _is(one, transition)]
        if not following:
            ways = ", ".join(f"{one.kind} {one.moved and one.moved.target}" for one in found if one.kind)
            raise AssertionError(
                f"{transition} ({transition.kind}) was to be step {taken + 1}; at {_where(places[0])} the engine can "
                f"only go: {ways or 'nowhere'}"
            )
        places = following
    return steps if witness.loop else min(steps, len(witness.stem))


def _next_steps(machine: StubMachine, places: Iterable[Snapshot | Over]) -> list[StubStep]:
    """Return every step from these places, and from their crashes."""
    seen: dict[Hashable, Snapshot] = {}
    found: list[StubStep] = []
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if isinstance(place, Over) or seen.setdefault(machine.state_key(place), place) is not place:
            continue
        steps = [step for _, step in machine.steps(place)]
        found += steps
        waiting += [step.then for step in steps if step.kind is None]
    return found


def _where(snapshot: Snapshot | Over) -> str:
    # Bare values have no usable repr.
    return "the end" if isinstance(snapshot, Over) else f"{snapshot.node} with {snapshot.spent}"


def _is(step: StubStep, transition: Transition) -> bool:
    moved = step.moved
    return (
        moved is not None
        and step.kind == transition.kind
        and (moved.node, type(moved.outcome).__name__, moved.target)
        == (transition.source, transition.outcome, transition.target)
    )


def adversary(
    graph: Graph[Any, Any],
    limits: Limits,
    choose: Callable[[Sequence[Instruction]], Instruction],
    most: int,
    *,
    proof: Proof | None = None,
) -> tuple[Edge, ...]:
    """Return the edges of a run of stub nodes, whose instructions `choose` selects, up to `most` transitions."""
    edges = {(edge.source, edge.outcome): edge for edge in graph.edges}
    machine = StubMachine(graph, limits, proof)
    snapshot: Snapshot | Over = machine.start_run()
    trace: list[Edge] = []
    while len(trace) < most and not isinstance(snapshot, Over):
        step = machine.run_step(snapshot, choose(list(machine.instructions(snapshot))))
        snapshot = step.then
        if step.moved is not None:
            trace.append(edges[step.moved.node, type(step.moved.outcome)])
    return tuple(trace)


class VisitingMachine(StubMachine):
    """A machine whose runs go on in one piece, within outer runs."""

    def visits(
        self, snapshot: Snapshot, choose: Callable[[Sequence[Instruction]], Instruction], outer: OuterRuns | None = None
    ) -> Iterator[Snapshot]:
        """Run the engine in one piece, within `outer` runs; yield each entry after the first.

        `choose` selects the instruction for each visit. Raises `CertificateError` where the proof does not hold.
        """
        execution = Execution(self.graph, snapshot, self._limits, self._proof, outer=outer)
        # Any: an event, a call or a batch.
        path: Generator[Any, Any, Any] = execution.run(observed=EVENT_TYPES)
        item: Any

        def begin_visit() -> None:
            waiting = [one for one in self.instructions(execution.snapshot()) if not one.pace.startswith("crash")]
            self._instruction, self._returned = choose(waiting), False

        begin_visit()
        try:
            first = item = next(path)
            while True:
                answer: Any = None
                if not isinstance(item, (Entered, Asked, Answered, Moved)):
                    answer = self._answer(item, execution.seconds, execution.deadline)
                elif type(item) is Entered and item is not first:
                    yield execution.snapshot()
                    begin_visit()
                item = path.send(answer)
        except StopIteration:
            return
        finally:
            path.close()
