"""The engine: one run through a graph. It charges, asks, takes in replies, and follows the edges.

Pure: no clock, no I/O, no randomness. The runner keeps an `Execution`; `stepping` makes one of each snapshot.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import takewhile
from types import GeneratorType
from typing import Any, final

from graphexec.errors import (
    CertificateError,
    InputError,
    NodeError,
    SnapshotError,
    UndeclaredCountError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
    UnhandledOutcomeError,
    an,
)
from graphexec.kernel.effects import All, Effect, Perform, Request, members_of
from graphexec.kernel.events import Answered, Asked, Entered, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import NOTHING, Counts, Exhausted, Limits, Spent
from graphexec.kernel.node import END
from graphexec.kernel.program import Charge, Step, Tariff, compiled
from graphexec.kernel.ranks import HIGHEST, Ranks, lines_of
from graphexec.kernel.snapshot import Snapshot, Stored

# A set, because a checker that narrowed a node to the class would forget what it yields.
_GENERATORS = frozenset({GeneratorType})


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """The answer to an effect that the deadline cut; for `All`, `finished` has a reply or a `Cut` for each."""

    finished: tuple[object, ...] = ()


@final
class Execution:
    """One run: its counters, and its path, which is sent each reply with the second it came at and those it took."""

    def __init__(self, graph: Graph[Any, Any], snapshot: Snapshot, limits: Limits, ranks: Ranks | None = None) -> None:
        self.graph = graph
        self._limits = limits
        program = self._program = compiled(graph, limits)
        if snapshot.node not in program.steps:
            raise SnapshotError(
                f"the snapshot is at {snapshot.node}, which this graph does not have; resume it with its own"
            )
        self._step: Step = program.steps[snapshot.node]
        self._value = snapshot.value
        self._replies = list(snapshot.replies)
        self._entered = snapshot.entered or bool(snapshot.replies)
        spent = snapshot.spent
        self._counts: list[float] = [
            spent.iterations,
            *(spent.budgets.get(name, 0) for name in program.budgets),
            *(spent.meters.get(name, 0) for name in program.meters),
        ]
        self.seconds = spent.seconds
        # Read more often than it changes.
        self._spent: Spent | None = None
        # A restart is allowed or not before anything else is.
        self._restarts = spent.restarts
        over = limits.restarts is not None and spent.restarts > limits.restarts
        self._over = Exhausted("restarts", limits.restarts or 0, spent.restarts) if over else None
        self._ranks = ranks
        self._lines = None if ranks is None else lines_of(ranks, limits.iterations)

    def spent(self) -> Spent:
        """Return what is spent so far."""
        if self._spent is None:
            counts, program, own = self._counts, self._program, self._program.own
            self._spent = Spent(
                iterations=int(counts[0]),
                seconds=self.seconds,
                restarts=self._restarts,
                budgets=Counts(program.budgets, tuple(counts[1:own])) if own > 1 else NOTHING,
                meters=Counts(program.meters, tuple(counts[own:])),
            )
        return self._spent

    def snapshot(self) -> Snapshot:
        """Return the run as it stands."""
        return Snapshot(self._step.name, self._value, tuple(self._replies), self.spent(), self._entered)

    @property
    def node(self) -> str:
        """The node that the run is at."""
        return self._step.name

    @property
    def grace(self) -> float:
        """How many seconds beyond the run's limit the node's effects may take."""
        return self._step.grace

    @property
    def deadline(self) -> float | None:
        """The second of the run's clock at which what the node asks for is cut, if there is one."""
        seconds = self._limits.seconds
        return None if seconds is None else seconds + self._step.grace

    def path(self, *, observed: bool = False) -> Generator[Any, tuple[Any, float, float], Any]:
        """Follow the run from here to its end. What is yielded is an effect, or an `Event` (answered with anything)."""
        step, value = self._step, self._value
        ranks, lines, counts = self._ranks, self._lines, self._counts
        # In the middle of a node the rank at its entry is not known any more.
        before = HIGHEST if ranks is None or self._entered else self._rank(step.name)
        while True:
            outcome: Any = None
            exhausted = None
            # A resumed run may be in the middle of a node, whose entry is paid for.
            if not self._entered:
                if observed:
                    yield Entered(step.name, value, self.spent())
                if step.entry:
                    exhausted = self._enter(step)
                # A refused entry is not recorded: a resumed run tries it again.
                self._entered = exhausted is None
            if exhausted is None:
                if step.asks:
                    outcome = yield from self._drive_asking(step, value, observed=observed)
                    if type(outcome) is Exhausted:
                        exhausted = outcome
                else:
                    outcome = step.function(value)
            if exhausted is not None:
                assert step.when_spent is not None, "a graph is not built without it"
                outcome = step.when_spent(value, exhausted)
            declared = step.returns if exhausted is None else step.spent_outcomes
            # Not what it was narrowed to.
            kind: type[Any] = type(outcome)  # pyright: ignore[reportUnknownVariableType]
            if kind not in declared:
                raise _undeclared(step, outcome, declared)
            try:
                following = step.following[kind]
            except KeyError:
                # Only a draft lacks an edge.
                raise UnhandledOutcomeError(step.name, outcome) from None
            if observed:
                yield Moved(step.name, outcome, END.name if following is None else following.name)
            if following is None:
                return outcome
            # Not before the move is made: a run that is resumed at this node has refilled nothing.
            if step.resets:
                for slot in step.resets.get(kind, ()):
                    counts[slot] = 0
                self._spent = None
            if ranks is not None:
                if lines is not None:
                    # As in `_rank`, which would cost three times as much.
                    height, slope, most = lines[following.name]
                    left = most - counts[0]
                    # After a resume with lower limits, more may be spent than they allow.
                    rank: tuple[float, ...] = (height + slope * left if left > 0 else height,)
                else:
                    rank = self._rank(following.name)
                if not rank < before:
                    raise CertificateError(
                        f"the rank does not fall from {step.name} {before} to {following.name} {rank}; the certificate "
                        f"is of another machine or of other limits: prove it anew"
                    )
                before = rank
            self._step = step = following
            self._value = value = outcome
            self._entered = False
            if self._replies:
                self._replies = []

    def answered(self, effect: Request, answer: object, at: float) -> Snapshot:
        """Return the run with `effect`, for which it stands waiting, answered."""
        # An `Exhausted` in the place of a reply is where the deadline cut the node; `path` takes the edge.
        self._replies.append(self._settle(effect, answer, at))
        return self.snapshot()

    def _enter(self, step: Step) -> Exhausted | None:
        seconds, counts = self._limits.seconds, self._counts
        if seconds is not None and self.seconds >= seconds:
            return Exhausted("seconds", seconds, self.seconds)
        if self._over is not None:
            return self._over
        for slot, amount, limit in step.entry:
            if counts[slot] + amount > limit:
                return self._refund(step.entry, slot, limit, amount)
            counts[slot] += amount
        self._spent = None
        return None

    def _rank(self, node: str) -> tuple[float, ...]:
        assert self._ranks is not None, "asked for where there are ranks"
        if self._lines is not None:
            height, slope, most = self._lines[node]
            return (height + slope * max(0, most - self._counts[0]),)
        value: list[float] = []
        for component, budgets in self._ranks[node]:
            value.append(component)
            value.extend([self._remaining(name) for name in budgets])
        return tuple(value)

    def _remaining(self, name: str) -> float:
        """Return what is left of a counter: 0 where more is spent, by a measured call, or under lower limits."""
        limit = self._program.caps.get(name)
        if limit is None:
            raise CertificateError(f"the rank counts {name}, which has no limit; prove the machine for these limits")
        return max(0, limit - self._counts[self._program.slots[name]])

    def _drive_asking(self, step: Step, value: Any, *, observed: bool) -> Generator[Any, tuple[Any, float, float], Any]:
        """Drive a node that asks: charge, yield and answer its effects; return its outcome, or what is exhausted."""
        node: Generator[Any, Any, Any] = step.generator(value)
        if type(node) not in _GENERATORS:
            given = an(type(node).__name__)
            raise NodeError(f"{step.name} is to ask and returned {given} at once; write reply = yield from ask(...)")
        replay = iter(self._replies) if self._replies else None
        asked = 0
        reply: Any = None
        try:
            while True:
                try:
                    effect: Any = node.send(reply)
                except StopIteration as end:
                    # Only the engine returns an `Exhausted`.
                    if type(end.value) is Exhausted:
                        raise _undeclared(step, end.value, step.returns) from None
                    if asked < step.least:
                        raise UndeclaredCountError(step.name, asked, step.least, step.most) from None
                    return end.value
                wanted, tariff = _request(step, effect, asked)
                if not wanted:
                    # To ask for nothing is no effect: it is answered at once, and no limit stops it.
                    reply = ()
                    continue
                asked += wanted
                stored = next(replay, self) if replay is not None else self
                if stored is not self:
                    reply = stored.read(effect, self.graph.outcomes) if type(stored) is Stored else stored
                else:
                    replay = None
                    exhausted = self._charge(step, effect, tariff, asked - wanted)
                    if exhausted is not None:
                        return exhausted
                    if observed:
                        yield Asked(step.name, effect)
                    answer, at, took = yield effect
                    reply = self._settle(effect, answer, at)
                    if observed:
                        yield Answered(step.name, effect, reply, took, self.spent())
                    if type(reply) is not Exhausted:
                        self._replies.append(reply)
                if type(reply) is Exhausted:
                    return reply
        finally:
            node.close()

    def _charge(self, step: Step, effect: Request, tariff: Tariff | None, asked: int) -> Exhausted | None:
        """Charge an effect, or a batch (without `tariff`) as a whole; return what does not allow it.

        `asked` is how many effects this visit has asked for before.
        """
        limits, counts = self._limits, self._counts
        if limits.seconds is not None and self.seconds >= limits.seconds + step.grace:
            return Exhausted("seconds", limits.seconds, self.seconds)
        if self._over is not None:
            return self._over
        if limits.fan_out is not None and step.most is None:
            wanted = len(members_of(effect))
            if asked + wanted > limits.fan_out:
                return Exhausted("fan_out", limits.fan_out, asked, wanted=wanted)
        if tariff is None or tariff.stops:
            return self._charge_together(step, members_of(effect))
        for slot, amount, limit in tariff.charges:
            if counts[slot] + amount > limit:
                return self._refund(tariff.charges, slot, limit, amount)
            counts[slot] += amount
        self._spent = None
        return None

    def _charge_together(self, step: Step, members: tuple[Effect[Any], ...]) -> Exhausted | None:
        """Charge several effects, all or none."""
        counts = self._counts
        wanted: dict[int, int] = {}
        limits: dict[int, float] = {}
        stops: dict[int, float] = {}
        for member in members:
            tariff = step.tariffs[type(member)]
            stops.update(tariff.stops)
            for slot, amount, limit in tariff.charges:
                wanted[slot] = wanted.get(slot, 0) + amount
                limits[slot] = limit
        for slot, total in wanted.items():
            if counts[slot] + total > limits[slot]:
                return self._exhaust(slot, limits[slot], total)
        for slot, limit in stops.items():
            if counts[slot] >= limit:
                return self._exhaust(slot, limit, 1)
        for slot, total in wanted.items():
            counts[slot] += total
        self._spent = None
        return None

    def _refund(self, charges: tuple[Charge, ...], slot: int, limit: float, amount: int) -> Exhausted:
        """Give back what was paid of the charges before that of `slot`, and return what is exhausted."""
        for paid, given, _ in takewhile(lambda charge: charge[0] != slot, charges):
            self._counts[paid] -= given
        return self._exhaust(slot, limit, amount)

    def _exhaust(self, slot: int, limit: float, wanted: int) -> Exhausted:
        return Exhausted(self._program.names[slot], limit, self._counts[slot], wanted=wanted)

    def _settle(self, effect: Request, answer: object, at: float) -> Any:
        """Apply an answer (clock, measures, cuts); return the reply, or what is exhausted."""
        self._spent = None
        # A clock that seems to go backwards, as after a resume, does not give time back.
        if at > self.seconds:  # noqa: PLR1730 - `max` would be a call at each step
            self.seconds = at
        kind = type(answer)
        if kind is Exhausted:
            raise _not_a_reply(self._step, effect, "only the engine says that a limit is spent")
        if kind is Cut:
            return self._cut(effect, answer)
        if type(effect) is Perform:
            if kind not in self._step.returns:
                raise _undeclared(self._step, answer, self._step.returns)
        elif type(effect) is All:
            # The runner answers a batch with a tuple of as many replies.
            replies: Any = answer
            for member, reply in zip(effect.effects, replies, strict=True):
                self._measure(member, reply)
        elif self._step.tariffs[type(effect)].measure is not None:
            self._measure(effect, answer)
        return answer

    # Any: it is a Cut, and its replies are those of whatever effects.
    def _cut(self, effect: Request, answer: Any) -> Any:
        """Return the reply to what the deadline cut, or what is exhausted where the node must be left."""
        limit = self._limits.seconds
        if limit is None:
            raise _not_a_reply(self._step, effect, "there is no deadline that could cut it")
        # A cut call used all remaining time, even if the clock lags slightly.
        self.seconds = max(self.seconds, limit + self._step.grace)
        exhausted = Exhausted("seconds", limit, self.seconds)
        if not isinstance(effect, All):
            reply = effect.cut(exhausted)
            return exhausted if reply is None else reply
        settled: list[object] = []
        left = False
        for member, one in zip(effect.effects, answer.finished or (answer,) * len(effect.effects), strict=True):
            if type(one) is Cut:
                settled.append(reply := member.cut(exhausted))
                left = left or reply is None
            else:
                settled.append(one)
                # What has finished is paid for, also where the node is left.
                self._measure(member, one)
        return exhausted if left else tuple(settled)

    def _measure(self, effect: Effect[Any], reply: object) -> None:
        """Count what a reply reports beyond what was prepaid."""
        tariff = self._step.tariffs[type(effect)]
        if tariff.measure is None:
            return
        counts = self._counts
        for (slot, prepaid, meter), amount in zip(tariff.measures, tariff.measure(effect, reply), strict=True):
            if amount is None:
                if meter is not None:
                    asked = f"{self._step.name} asked for {type(effect).__name__}"
                    raise InputError(
                        f"{asked}, and the reply does not say its {meter}, which is limited; {meter.remedy}"
                    )
            elif amount > prepaid:
                counts[slot] += amount - prepaid


def _not_a_reply(step: Step, effect: Request, why: str) -> InputError:
    asked = type(effect).__name__
    return InputError(f"{step.name} asked for {asked}, and the answer says it was stopped: {why}; give a reply to it")


def _undeclared(step: Step, outcome: object, declared: tuple[type, ...]) -> UndeclaredOutcomeError:
    return UndeclaredOutcomeError(step.name, outcome, [kind.__name__ for kind in declared])


def _request(step: Step, effect: Request, asked: int) -> tuple[int, Tariff | None]:
    """Return how many effects a node asks for, and the tariff of a single one; refuse what it does not declare."""
    tariffs = step.tariffs
    # As `members_of`, without a call for each effect.
    members = effect.effects if isinstance(effect, All) else (effect,)
    for member in members:
        if type(member) not in tariffs:
            raise UndeclaredEffectError(step.name, effect, [kind.__name__ for kind in step.effects])
    wanted = len(members)
    if step.most is not None and asked + wanted > step.most:
        raise UndeclaredCountError(step.name, asked + wanted, step.least, step.most)
    return wanted, tariffs[type(members[0])] if wanted == 1 else None
