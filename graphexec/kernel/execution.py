"""The engine: it runs a graph. It charges each request, yields its calls, records the reply, and follows the edges.

The engine is pure: it has no clock, no I/O and no randomness. The runner keeps one `Execution` for a whole run; manual
stepping creates one from each snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from types import GeneratorType
from typing import Any, final

from graphexec.errors import (
    CertificateError,
    NodeError,
    SnapshotError,
    UndeclaredCountError,
    UnhandledOutcomeError,
    an,
)
from graphexec.kernel.counters import Counters
from graphexec.kernel.effects import All, Batch, CallContext, DetachedScope, Effect, OuterRuns, Request, RunScope
from graphexec.kernel.events import Answered, Asked, ChargedReply, Cut, Entered, MemberReply, MemberStarted, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits
from graphexec.kernel.node import END
from graphexec.kernel.program import HIGHEST, Proof, Step, Tariff, read_request, undeclared_outcome, unfrozen
from graphexec.kernel.signatures import close_asking
from graphexec.kernel.snapshot import (
    NO_FRAMES,
    PAID,
    UNPAID,
    Replies,
    Snapshot,
    begin_again,
    is_open,
    keep_frames,
    read_frame,
    read_recorded,
    read_states,
    states_of,
)

# A set of one class: after `type(generator) is not GeneratorType`, a type checker forgets what the generator yields.
_GENERATORS = frozenset({GeneratorType})

_UnfrozenSnapshot, _UnfrozenEntered = unfrozen(Snapshot), unfrozen(Entered)
_UnfrozenAnswered, _UnfrozenMoved = unfrozen(Answered), unfrozen(Moved)

# The answers that are no replies.
_EXCEPTIONAL = frozenset[type]({ChargedReply, Cut, Exhausted})

# The member states of a request for one effect that is charged and has no reply yet.
_ONE_PAID = (PAID,)


@final
class Execution(Counters):
    """One run of a graph: its position, its counters, and the replies of the current visit.

    `scope` holds what all calls of the run share: its id, its context and its deadline. A nested run has `outer`, the
    runs that contain it: what it charges is charged to them, too.
    """

    __slots__ = (
        "_by_member",
        "_current",
        "_entered",
        "_frames",
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
        proof: Proof | None = None,
        *,
        scope: RunScope | None = None,
        outer: OuterRuns | None = None,
    ) -> None:
        self.graph = graph
        self.scope = DetachedScope(snapshot.run_id) if scope is None else scope
        super().__init__(graph, snapshot, limits, proof, outer)
        if snapshot.node not in self.program.steps:
            raise SnapshotError(
                f"the snapshot is at {snapshot.node}, which is not a node of this graph; resume it with its own graph"
            )
        self._step = self.program.steps[snapshot.node]
        self._value = snapshot.value
        self._frames = snapshot.frames
        self._replies = list(snapshot.replies)
        # The state of each member of the open request: its reply, PAID or UNPAID.
        self._open: Sequence[object] = snapshot.open
        # The call of the open request, or its batch, unless a caller steps the run.
        self._current: CallContext[Any] | Batch | None = None
        # The number of answered requests.
        self._sequence = snapshot.sequence
        self._observed = self._by_member = False
        self._notify: Callable[[Any], object] | None = None
        self._entered = snapshot.entered or bool(snapshot.replies or snapshot.open)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current state."""
        snapshot = _UnfrozenSnapshot(
            self._step.name,
            self._value,
            tuple(self._replies),
            self.spent(),
            self._entered,
            states_of(self._open, self._current),
            self._sequence,
            self.scope.run_id,
            self._frames,
            self._step.effects,
        )
        snapshot.__class__ = Snapshot
        return snapshot

    def call(self) -> CallContext[Any]:
        """Return a `CallContext` that stands for the current visit; its id is that of the visit's first request."""
        return CallContext(self.scope, self._step.name, None, None, self._sequence - len(self._replies) + 1, 0)

    def run(
        self, *, observed: bool = False, by_member: bool = False, notify: Callable[[Any], object] | None = None
    ) -> Generator[Any, tuple[Any, float, float], Any]:
        """Run from the current position to the end; return the outcome.

        The generator yields calls: a `CallContext` for one effect, a `Batch` for an `All`. It receives `(answer, at,
        seconds)`: the answer, the time at which it arrived (in seconds since the run began), and how many seconds it
        took. A batch is answered as a whole. With `by_member`, the generator receives a `MemberStarted` when a member
        starts, and a `MemberReply` with its reply; it yields the batch again after each, until every member has its
        reply.

        If the run is `observed`, the generator yields the events, too, or calls `notify` with each, if it has one.
        """
        self._observed, self._by_member, self._notify = observed, by_member, notify
        step, value = self._step, self._value
        proof, counts = self._proof, self._counts
        # Where steps are counted, too, `_rank` does both.
        lines = self._lines if self._steps_left is None else None
        # The `CallContext` of the events that concern no effect.
        run_call: CallContext[Any] | None = CallContext(self.scope, "", None, None, 0, 0) if observed else None
        known: Mapping[str, object] = NO_FRAMES
        # A run that is resumed inside a node no longer knows its rank at the entry.
        # Any: a number where the ranks are linear, or else a tuple of numbers.
        rank: Any
        previous_rank: Any = HIGHEST if proof is not None and proof.ranks and self._lines is None else math.inf
        if proof is not None:
            rank = self._rank(step.name)
            previous_rank = previous_rank if self._entered else rank
        while True:
            outcome: Any = None
            exhausted = None
            following = step.following
            # A run that is resumed inside a node has paid for the entry already.
            if not self._entered:
                if observed:
                    if known is not self._frames:
                        # Events that were emitted before keep their own call.
                        run_call, known = CallContext(self.scope, "", None, None, 0, 0), self._frames
                        run_call.frames = known
                    event: Any = _UnfrozenEntered(step.name, value, self._spent or self.spent(), run_call)
                    event.__class__ = Entered
                    (yield event) if notify is None else notify(event)
                if step.counts:
                    exhausted = self._enter(step, value)
                # A refused entry is not recorded, so a resumed run tries it again.
                self._entered = exhausted is None
            if exhausted is None:
                if step.asks:
                    outcome = yield from self._run_asking_node(step, value)
                    if type(outcome) is Exhausted:
                        exhausted = outcome
                else:
                    # Read apart from the call, which Python cannot make faster if both are one expression.
                    function = step.function
                    outcome = function(value) if step.takes_value_only else self._call_node(step, value)
            if exhausted is not None:
                assert step.when_spent is not None, f"{step.name} was stopped by a limit, and has no when_spent"
                outcome = step.when_spent(value, exhausted)
                following = step.following_limit
            # Annotated, because pyright has narrowed the outcome to an unknown type.
            kind: type[Any] = type(outcome)  # pyright: ignore[reportUnknownVariableType]
            try:
                next_step = following[kind]
            except KeyError:
                declared = step.returns if exhausted is None else step.limit_outcomes
                if kind not in declared:
                    raise undeclared_outcome(step, outcome, declared) from None
                # Only a graph made by draft(), which is not validated, can lack an edge.
                raise UnhandledOutcomeError(step.name, outcome) from None
            if observed:
                target = END.name if next_step is None else next_step.name
                event = _UnfrozenMoved(step.name, outcome, target, run_call)
                event.__class__ = Moved
                (yield event) if notify is None else notify(event)
            if next_step is None:
                return outcome
            # Reset meters only after the `Moved` event: if an observer raises there, a run that is resumed at this
            # node must not find them refilled.
            if step.resets:
                for slot in step.resets.get(kind, ()):
                    counts[slot] = 0
                self._spent = None
            if proof is not None:
                if lines is not None:
                    # `_rank` written out here: the call would take three times as long. Slot 0 counts the iterations.
                    height, slope, iterations = lines[next_step.name]
                    left = iterations - counts[0]
                    # After a resume with lower limits, the run may have spent more than they allow.
                    rank = height + slope * left if left > 0 else height
                else:
                    rank = self._rank(next_step.name)
                if not rank < previous_rank:
                    raise CertificateError(
                        f"the rank does not fall from {step.name} {previous_rank} to {next_step.name} {rank}; the "
                        f"certificate belongs to another machine or to other limits, or an outer run has a limit that "
                        f"the proof did not include; prove this machine again, with these limits and the outer ones"
                    )
                previous_rank = rank
            frames = self._frames
            if next_step.frames is not None:
                frames = keep_frames(frames, next_step.frames, step.saves, value)
            # No call separates these lines, so that no KeyboardInterrupt finds a node without its frame.
            self._step = step = next_step
            self._value = value = outcome
            self._frames = frames
            self._entered = False
            # The batch of a resumed run is still open if a limit refused its unpaid calls.
            if self._open:
                self._open = ()
            if self._replies:
                self._replies = []

    def apply_answer(self, request: Request, answer: object, at: float) -> Snapshot:
        """Answer the open request; return the snapshot after it."""
        # If the deadline cut the node, the reply is an `Exhausted`; `run` then takes the edge for it.
        if isinstance(request, All):
            self._open = self._apply_to_batch(
                request, read_states(self._open, request, self.graph.outcomes), answer, at
            )
            self._record_batch()
        else:
            self._record_reply(self._apply(request, answer, at))
        return self.snapshot()

    def apply_member_answer(self, request: All[Effect[Any]], member: int, answer: object, at: float) -> Snapshot:
        """Answer one member of the open batch; return the snapshot after it."""
        states = self._open = read_states(self._open, request, self.graph.outcomes)
        states[member] = self._apply(request.effects[member], answer, at)
        if not any(map(is_open, states)):
            self._record_batch()
        return self.snapshot()

    def _record_reply(self, reply: object) -> None:
        """Record the reply to the open request, and close the request."""
        # Python handles signals only after a call, so no KeyboardInterrupt can separate these three lines.
        self._open = ()
        self._sequence += 1
        self._replies.append(reply)
        if self._nested_charges:
            self._add_nested_charges()

    def _record_batch(self) -> object:
        """Record the replies to the open batch; return them, or the `Exhausted` with which the run leaves the node."""
        states = self._open
        exhausted = next((state for state in states if type(state) is Exhausted), None)
        reply: object = tuple(states) if exhausted is None else exhausted
        self._record_reply(Replies(states) if exhausted is None else reply)
        return reply

    def _call_node(self, step: Step, value: Any) -> Any:
        arguments: dict[str, object] = {} if step.call_parameter is None else {step.call_parameter: self.call()}
        if step.receives:
            arguments[step.frame_parameter] = read_frame(self._frames, step.name, step.receives)
        return step.function(value, **arguments)

    def _run_asking_node(self, step: Step, value: Any) -> Generator[Any, tuple[Any, float, float], Any]:
        """Charge and yield the effects of an asking node; return its outcome, or the `Exhausted` that stops it."""
        generator: GeneratorType[Any, Any, Any]
        function = step.function
        generator = function(value) if step.call_parameter is None else self._call_node(step, value)
        if type(generator) not in _GENERATORS:
            raise NodeError(
                f"{step.name} is declared as Asks[...] but returned {an(type(generator).__name__)} without asking; "
                f"write reply = yield from ask(...)"
            )
        # The recorded replies bring a resumed node back to where it was.
        replay = iter(self._replies) if self._replies else None
        observed, notify, simple, counts = self._observed, self._notify, self._simple, self._counts
        tariffs, most = step.tariffs, step.most
        reply: Any = None
        try:
            asked = 0  # Before the loop; see `RunLoop.follow`.
            while True:
                try:
                    request: Any = generator.send(reply)
                except StopIteration as end:
                    # An `Exhausted` comes from the engine alone: no node may return one.
                    if type(end.value) is Exhausted:
                        raise undeclared_outcome(step, end.value, step.returns) from None
                    if asked < step.least:
                        raise UndeclaredCountError(step.name, asked, step.least, step.most) from None
                    return end.value
                count, effect = 1, request
                try:
                    tariff: Tariff | None = tariffs[type(request)]
                except KeyError:
                    tariff = None
                # The usual request, one effect, needs no further call.
                if tariff is None or (most is not None and asked >= most):
                    count, effect, tariff = read_request(step, request, asked)
                if not count:
                    # An empty batch contains no effect: it costs nothing, and its reply is empty.
                    reply = ()
                    continue
                asked += count
                # `self` stands for "no recorded reply", because a reply may be `None`.
                stored = next(replay, self) if replay is not None else self
                if stored is not self:
                    reply = read_recorded(stored, request, self.graph.outcomes)
                else:
                    replay = None
                    if self._open:
                        exhausted = self._charge_unpaid(step, request, asked, self._open)
                        if exhausted is None:
                            self._open = [PAID if state is UNPAID else state for state in self._open]
                    elif simple and tariff is not None and tariff.simple and asked <= step.fan_out:
                        # The usual charge, written out: nothing but its own limits can refuse it.
                        exhausted = None
                        for slot, amount, limit in tariff.charges:
                            charged = counts[slot] + amount
                            if charged > limit:
                                exhausted = self._refund(tariff.charges, slot, limit, amount)
                                break
                            counts[slot] = charged
                        self._spent = None
                    else:
                        exhausted = self._charge(step, request, tariff, asked)
                    if exhausted is not None:
                        return exhausted
                    if tariff is None:
                        reply = yield from self._run_batch(step, request)
                    else:
                        call: CallContext[Any] = CallContext(
                            self.scope, step.name, effect, request, self._sequence + 1, 0
                        )
                        if self._open and self._open[0] is not PAID:
                            call.nested = self._open[0]
                        self._open, self._current = _ONE_PAID, call
                        if observed:
                            event: Any = Asked(step.name, effect, call)
                            (yield event) if notify is None else notify(event)
                        answer, at, seconds = yield call
                        if tariff.reported or type(answer) in _EXCEPTIONAL:
                            effect_reply = self._apply(effect, answer, at)
                        else:
                            # `_apply` written out.
                            self._spent = None
                            if at > self.seconds:  # noqa: PLR1730 - `max` is a call
                                self.seconds = at
                            effect_reply = answer
                        # A batch with one member gets its reply in a tuple; an `Exhausted` is passed on as it is.
                        recorded = reply = effect_reply
                        if effect is not request and type(reply) is not Exhausted:
                            reply = (reply,)
                            recorded = Replies(reply)
                        # `_record_reply` written out, as each effect needs it: before the event, since an observer may
                        # raise, and a consumer may close the stream.
                        self._open = ()
                        self._sequence += 1
                        self._replies.append(recorded)
                        if self._nested_charges:
                            self._add_nested_charges()
                        if observed:
                            event = _UnfrozenAnswered(step.name, effect, effect_reply, seconds, self.spent(), call)
                            event.__class__ = Answered
                            (yield event) if notify is None else notify(event)
                if type(reply) is Exhausted:
                    return reply
        finally:
            # A node that has ended needs no closing.
            if generator.gi_frame is not None:
                close_asking(generator)

    def _run_batch(self, step: Step, request: All[Effect[Any]]) -> Generator[Any, tuple[Any, float, float], Any]:
        """Yield a batch until every member has its reply; return the replies."""
        sequence = self._sequence + 1
        observed, notify = self._observed, self._notify
        calls: tuple[CallContext[Any], ...] = tuple(
            CallContext(self.scope, step.name, effect, request, sequence, member)
            for member, effect in enumerate(request.effects)
        )
        states = read_states(self._open, request, self.graph.outcomes)
        begin_again(calls, states)
        batch = Batch(request, calls, {member: PAID for member, state in enumerate(states) if state is PAID})
        # Together, so that no KeyboardInterrupt finds the states of a batch with the call before it.
        self._open, self._current = states, batch
        if observed and not self._by_member:
            for member in batch.open:
                event: Any = Asked(step.name, request.effects[member], calls[member])
                (yield event) if notify is None else notify(event)
        while batch.open:
            answer, at, seconds = yield batch
            if type(answer) is MemberStarted:
                if observed:
                    event = Asked(step.name, request.effects[answer.member], calls[answer.member])
                    (yield event) if notify is None else notify(event)
                continue
            if type(answer) is MemberReply:
                states[answer.member] = self._apply(request.effects[answer.member], answer.reply, at)
                answered = [answer.member]
                del batch.open[answer.member]
            else:
                answered, batch.open = list(batch.open), {}
                states[:] = self._apply_to_batch(request, states, answer, at)
            if observed:
                for member in answered:
                    effect, call = request.effects[member], calls[member]
                    event = Answered(step.name, effect, states[member], seconds, self.spent(), call)
                    (yield event) if notify is None else notify(event)
        return self._record_batch()

    def _apply_to_batch(self, request: All[Effect[Any]], states: list[object], answer: Any, at: float) -> list[object]:
        """Apply the answer to a whole batch, a tuple of replies or a `Cut`; return the state of each member."""
        answers: Any = answer
        if type(answer) is Cut:
            answers = answer.answers or (answer,) * len(request.effects)
        # In a resumed run, some members may have a reply already.
        return [
            self._apply(effect, one, at) if is_open(state) else state
            for effect, one, state in zip(request.effects, answers, states, strict=True)
        ]
