"""The engine: one run through a graph. It charges, asks, takes in replies, and follows the edges.

Pure: no clock, no I/O, no randomness. The runner keeps an `Execution`; `stepping` makes one of each snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, final

from graphexec.errors import (
    CertificateError,
    InputError,
    NodeError,
    SnapshotError,
    UndeclaredCountError,
    UndeclaredOutcomeError,
    UnhandledOutcomeError,
    an,
)
from graphexec.kernel.counters import HIGHEST, Counters, Ranks
from graphexec.kernel.effects import (
    All,
    Batch,
    CallContext,
    DetachedScope,
    Effect,
    OuterRuns,
    Perform,
    Request,
    RunScope,
    members_of,
)
from graphexec.kernel.events import Answered, Asked, ChargedReply, Entered, MemberReply, MemberStarted, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits
from graphexec.kernel.node import END, close_asking
from graphexec.kernel.program import Step, check_request
from graphexec.kernel.snapshot import PAID, UNPAID, Snapshot, StoredReply

# A set, because a checker that narrowed a node to the class would forget what it yields.
_GENERATORS = frozenset({GeneratorType})


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """The answer to an effect that the deadline cut; for `All`, `finished` has a reply or a `Cut` for each."""

    finished: tuple[object, ...] = ()


# The state of a request with one member, which is being carried out.
_ONE_PAID = (PAID,)


@final
class Execution(Counters):
    """One run: its counters, and its path, which is sent each reply with the second it came at and those it took.

    `scope` is what its calls know of it. `around` are the runs that it is within: what it charges they are charged too.
    """

    __slots__ = (
        "_by_member",
        "_entered",
        "_notify",
        "_observed",
        "_open",
        "_replies",
        "_sequence",
        "_value",
        "graph",
        "scope",
    )

    def __init__(
        self,
        graph: Graph[Any, Any],
        snapshot: Snapshot,
        limits: Limits,
        ranks: Ranks | None = None,
        *,
        scope: RunScope | None = None,
        outer: OuterRuns | None = None,
    ) -> None:
        self.graph = graph
        self.scope = DetachedScope(snapshot.run_id) if scope is None else scope
        super().__init__(graph, snapshot.spent, limits, ranks, outer)
        if snapshot.node not in self._program.steps:
            raise SnapshotError(
                f"the snapshot is at {snapshot.node}, which this graph does not have; resume it with its own"
            )
        self._step = self._program.steps[snapshot.node]
        self._value = snapshot.value
        self._replies = list(snapshot.replies)
        # Of the open request, for each member its reply, PAID or UNPAID.
        self._open: Sequence[object] = snapshot.open
        # How many requests were answered.
        self._sequence = snapshot.sequence
        self._observed = self._by_member = False
        self._notify: Callable[[Any], object] | None = None
        self._entered = snapshot.entered or bool(snapshot.replies or snapshot.open)

    def snapshot(self) -> Snapshot:
        """Return the run as it stands."""
        return Snapshot(
            self._step.name,
            self._value,
            tuple(self._replies),
            self.spent(),
            self._entered,
            tuple(self._open),
            self._sequence,
            self.scope.run_id,
        )

    @property
    def context_types(self) -> tuple[type, ...]:
        """The classes that nodes want the run's context to be of."""
        return self._program.context_types

    def call(self) -> CallContext[Any]:
        """Return the context of the visit: the id is that of its first request, in a resumed visit, too."""
        return CallContext(self.scope, self._step.name, None, None, self._sequence - len(self._replies) + 1, 0)

    def run(
        self, *, observed: bool = False, by_member: bool = False, notify: Callable[[Any], object] | None = None
    ) -> Generator[Any, tuple[Any, float, float], Any]:
        """Follow the run from here to its end.

        What is yielded is a call, a `Batch`, or, `observed`, an `Event` (answered with anything). A batch is yielded
        until it is answered: `by_member` with `MemberStarted` and `MemberReply`, else as a whole. With a `notify`, that
        is called with the events instead, and none is yielded.
        """
        self._observed, self._by_member, self._notify = observed, by_member, notify
        step, value = self._step, self._value
        ranks, lines, counts = self._ranks, self._lines, self._counts
        # What is about no call is about the run.
        whole: CallContext[Any] | None = CallContext(self.scope, "", None, None, 0, 0) if observed else None
        # In the middle of a node the rank at its entry is not known any more.
        before = HIGHEST if ranks is None or self._entered else self._rank(step.name)
        while True:
            outcome: Any = None
            exhausted = None
            # A resumed run may be in the middle of a node, whose entry is paid for.
            if not self._entered:
                if observed:
                    event: Any = Entered(step.name, value, self.spent(), whole)
                    (yield event) if notify is None else notify(event)
                if step.entry:
                    exhausted = self._enter(step)
                # A refused entry is not recorded: a resumed run tries it again.
                self._entered = exhausted is None
            if exhausted is None:
                if step.asks:
                    outcome = yield from self._drive_asking(step, value)
                    if type(outcome) is Exhausted:
                        exhausted = outcome
                else:
                    outcome = step.function(value) if step.call_parameter is None else self._call_node(step, value)
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
                event = Moved(step.name, outcome, END.name if following is None else following.name, whole)
                (yield event) if notify is None else notify(event)
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
                        f"is of another machine or of other limits, or a run around this one has a limit that the "
                        f"machine was proved without: prove it again, with that limit"
                    )
                before = rank
            self._step = step = following
            self._value = value = outcome
            self._entered = False
            # Of a resumed batch whose other calls a limit has refused.
            if self._open:
                self._open = ()
            if self._replies:
                self._replies = []

    def apply_answer(self, effect: Request, answer: object, at: float) -> Snapshot:
        """Return the run with `effect`, for which it stands waiting, answered."""
        # An `Exhausted` in the place of a reply is where the deadline cut the node; `path` takes the edge.
        if isinstance(effect, All):
            self._open = self._settle_all(effect, self._states(effect), answer, at)
            self._close_batch()
        else:
            self._close(self._settle(effect, answer, at))
        return self.snapshot()

    def apply_member_answer(self, request: All[Effect[Any]], member: int, answer: object, at: float) -> Snapshot:
        """Return the run with one member of the batch `request` answered, for which it stands waiting."""
        states = self._open = self._states(request)
        states[member] = self._settle(request.effects[member], answer, at)
        if not any(state is PAID for state in states):
            self._close_batch()
        return self.snapshot()

    def _states(self, request: All[Effect[Any]]) -> list[object]:
        """Return the replies to the members of the open batch, and which are open."""
        return [
            state.read(effect, self.graph.outcomes) if type(state) is StoredReply else state
            for state, effect in zip(self._open or (PAID,) * len(request.effects), request.effects, strict=True)
        ]

    def _close(self, reply: object) -> None:
        """Take in the reply to the open request."""
        # In this order no interrupt comes in between: Python looks for one after a call.
        self._open = ()
        self._sequence += 1
        self._replies.append(reply)
        if self._within:
            self._fold()

    def _close_batch(self) -> object:
        """Take in the replies to the open batch; return them, or what is exhausted where the node must be left."""
        states = self._open
        cut = next((state for state in states if type(state) is Exhausted), None)
        reply: object = tuple(states) if cut is None else cut
        self._close(reply)
        return reply

    def _call_node(self, step: Step, value: Any) -> Any:
        return step.function(value, **{str(step.call_parameter): self.call()})

    def _drive_asking(self, step: Step, value: Any) -> Generator[Any, tuple[Any, float, float], Any]:
        """Drive a node that asks: charge, yield and answer its effects; return its outcome, or what is exhausted."""
        node: GeneratorType[Any, Any, Any]
        node = step.generator(value) if step.call_parameter is None else self._call_node(step, value)
        if type(node) not in _GENERATORS:
            given = an(type(node).__name__)
            raise NodeError(f"{step.name} is to ask and returned {given} at once; write reply = yield from ask(...)")
        replay = iter(self._replies) if self._replies else None
        observed, notify = self._observed, self._notify
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
                wanted, single, tariff = check_request(step, effect, asked)
                if not wanted:
                    # To ask for nothing is no effect: it is answered at once, and no limit stops it.
                    reply = ()
                    continue
                asked += wanted
                stored = next(replay, self) if replay is not None else self
                if stored is not self:
                    reply = stored.read(effect, self.graph.outcomes) if type(stored) is StoredReply else stored
                else:
                    replay = None
                    exhausted = (
                        self._charge_unpaid(step, effect, asked)
                        if self._open
                        else self._charge(step, effect, tariff, asked)
                    )
                    if exhausted is not None:
                        return exhausted
                    if wanted > 1:
                        reply = yield from self._drive_batch(step, effect)
                    else:
                        call: CallContext[Any] = CallContext(
                            self.scope, step.name, single, effect, self._sequence + 1, 0
                        )
                        self._open = _ONE_PAID
                        if observed:
                            event: Any = Asked(step.name, single, call)
                            (yield event) if notify is None else notify(event)
                        answer, at, took = yield call
                        settled = self._settle(single, answer, at)
                        reply = settled if single is effect or type(settled) is Exhausted else (settled,)
                        # Before the event: an observer may raise, and a consumer close the stream.
                        self._close(reply)
                        if observed:
                            event = Answered(step.name, single, settled, took, self.spent(), call)
                            (yield event) if notify is None else notify(event)
                if type(reply) is Exhausted:
                    return reply
        finally:
            # One that has ended needs no call.
            if node.gi_frame is not None:
                close_asking(node)

    def _drive_batch(self, step: Step, request: All[Effect[Any]]) -> Generator[Any, tuple[Any, float, float], Any]:
        """Yield a batch until each member is answered, one by one or as a whole; return the replies."""
        sequence = self._sequence + 1
        observed, notify = self._observed, self._notify
        calls: tuple[CallContext[Any], ...] = tuple(
            CallContext(self.scope, step.name, effect, request, sequence, member)
            for member, effect in enumerate(request.effects)
        )
        states = self._open = self._states(request)
        batch = Batch(request, calls, {member: state for member, state in enumerate(states) if state is PAID})
        if observed and not self._by_member:
            for member in batch.open:
                event: Any = Asked(step.name, request.effects[member], calls[member])
                (yield event) if notify is None else notify(event)
        while batch.open:
            answer, at, took = yield batch
            if type(answer) is MemberStarted:
                if observed:
                    event = Asked(step.name, request.effects[answer.member], calls[answer.member])
                    (yield event) if notify is None else notify(event)
                continue
            if type(answer) is MemberReply:
                states[answer.member] = self._settle(request.effects[answer.member], answer.reply, at)
                answered = [answer.member]
                del batch.open[answer.member]
            else:
                answered, batch.open = list(batch.open), {}
                states[:] = self._settle_all(request, states, answer, at)
            if observed:
                for member in answered:
                    effect, call = request.effects[member], calls[member]
                    event = Answered(step.name, effect, states[member], took, self.spent(), call)
                    (yield event) if notify is None else notify(event)
        return self._close_batch()

    def _charge_unpaid(self, step: Step, effect: Request, asked: int) -> Exhausted | None:
        """Charge the members of a resumed request that are not paid; return what does not allow it."""
        members = members_of(effect)
        if len(members) != len(self._open):
            raise SnapshotError(
                f"the snapshot has {len(self._open)} open calls, and {step.name} asks for {len(members)}; resume it "
                "with its own graph"
            )
        unpaid = tuple(one for one, state in zip(members, self._open, strict=True) if state is UNPAID)
        if not unpaid:
            return None
        exhausted = self._charge(step, All(unpaid), None, asked)
        if exhausted is None:
            self._open = [PAID if state is UNPAID else state for state in self._open]
        return exhausted

    def _settle(self, effect: Effect[Any], answer: Any, at: float) -> Any:
        """Apply an answer (clock, measures, a cut); return the reply, or what is exhausted."""
        self._spent = None
        # A clock that seems to go backwards, as after a resume, does not give time back.
        if at > self.seconds:  # noqa: PLR1730 - `max` would be a call at each step
            self.seconds = at
        # Not what it was narrowed to, here and below.
        kind: type[Any] = type(answer)  # pyright: ignore[reportUnknownVariableType]
        if kind is ChargedReply:
            self.charge(answer.charged)
            answer = answer.reply
            kind = type(answer)  # pyright: ignore[reportUnknownVariableType]
        if kind is Exhausted:
            raise _not_a_reply(self._step, effect, "only the engine says that a limit is spent")
        if kind is Cut:
            return self._cut(effect)
        if type(effect) is Perform:
            if kind not in self._step.returns:
                raise _undeclared(self._step, answer, self._step.returns)
        elif self._step.tariffs[type(effect)].is_measured:
            self._measure(effect, answer)
        return answer

    def _settle_all(self, request: All[Effect[Any]], states: list[object], answer: Any, at: float) -> list[object]:
        """Apply an answer to a whole batch: a tuple of replies, or a `Cut`, perhaps with those that have finished."""
        answers: Any = answer
        if type(answer) is Cut:
            answers = answer.finished or (answer,) * len(request.effects)
        # The members that a resumed run has replies of keep them.
        return [
            self._settle(effect, one, at) if state is PAID else state
            for effect, one, state in zip(request.effects, answers, states, strict=True)
        ]

    def _cut(self, effect: Effect[Any]) -> Any:
        """Return the reply to what the deadline cut, or what is exhausted where the node must be left."""
        deadline = self.deadline
        if deadline is None:
            raise _not_a_reply(self._step, effect, "there is no deadline that could cut it")
        # A cut call used all remaining time, even if the clock lags slightly.
        self.seconds = max(self.seconds, deadline)
        limit, outer = self._limits.seconds, self._outer_seconds
        if limit is None or (outer is not None and deadline == outer):
            exhausted = Exhausted("seconds", deadline, self.seconds, outer=True)
        else:
            exhausted = Exhausted("seconds", limit, self.seconds)
        reply = effect.cut(exhausted)
        return exhausted if reply is None else reply


def _not_a_reply(step: Step, effect: Request, why: str) -> InputError:
    asked = type(effect).__name__
    return InputError(f"{step.name} asked for {asked}, and the answer says it was stopped: {why}; give a reply to it")


def _undeclared(step: Step, outcome: object, declared: tuple[type, ...]) -> UndeclaredOutcomeError:
    return UndeclaredOutcomeError(step.name, outcome, [kind.__name__ for kind in declared])
