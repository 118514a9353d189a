"""The engine: it runs a graph. It charges each request, yields its calls, records the reply, and follows the edges.

The engine is pure: it has no clock, no I/O and no randomness. The runner keeps one `Execution` for a whole run; manual
stepping creates one from each snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from types import GeneratorType
from typing import Any, final

from graphexec.errors import (
    NodeError,
    SnapshotError,
    UndeclaredCountError,
    an,
)
from graphexec.kernel.counters import HIGHEST, Counters
from graphexec.kernel.effects import All, Batch, CallContext, DetachedScope, Effect, OuterRuns, Request, RunScope
from graphexec.kernel.events import Answered, Asked, Cut, Entered, MemberReply, MemberStarted, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, FrozenMapping, Limits
from graphexec.kernel.node import END
from graphexec.kernel.program import Proof, Step, check_request, undeclared_outcome
from graphexec.kernel.signatures import close_asking
from graphexec.kernel.snapshot import (
    PAID,
    Replies,
    Snapshot,
    read_recorded,
    read_states,
)

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
        "_entered",
        "_frames",
        "_notify",
        "_observed",
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
        self._frames: Mapping[str, object] = snapshot.frames
        self._replies = list(snapshot.replies)
        # The number of answered requests.
        self._sequence = snapshot.sequence
        self._observed: Collection[type[Any]] = ()
        self._by_member = False
        self._notify: Callable[[Any], object] | None = None
        self._entered = snapshot.entered or bool(snapshot.replies or snapshot.open)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current state."""
        return Snapshot(
            self._step.name,
            self._value,
            tuple(self._replies),
            self.spent(),
            self._entered,
            tuple(self._open),
            self._sequence,
            self.scope.run_id,
            self._frames,
            self._step.effects,
        )

    @property
    def is_waiting(self) -> bool:
        """Return whether a call is charged and has no reply."""
        return any(state is PAID for state in self._open)

    def call(self) -> CallContext[Any]:
        """Return a `CallContext` that stands for the current visit; its id is that of the visit's first request."""
        return CallContext(self.scope, self._step.name, None, None, self._sequence - len(self._replies) + 1, 0)

    def run(
        self,
        *,
        observed: Collection[type[Any]] = (),
        by_member: bool = False,
        notify: Callable[[Any], object] | None = None,
    ) -> Generator[Any, tuple[Any, float, float], Any]:
        """Run from the current position to the end; return the outcome.

        The generator yields calls: a `CallContext` for one effect, a `Batch` for an `All`. It receives `(answer, at,
        seconds)`: the answer, the time at which it arrived (in seconds since the run began), and how many seconds it
        took. A batch is answered as a whole. With `by_member`, the generator receives a `MemberStarted` when a member
        starts, and a `MemberReply` with its reply; it yields the batch again after each, until every member has its
        reply.

        The generator yields the events of the `observed` classes, too, or calls `notify` with each, if it has one.
        """
        self._observed, self._by_member, self._notify = observed, by_member, notify
        step, value = self._step, self._value
        # The `CallContext` of the events that concern no effect.
        enters, moves = Entered in observed, Moved in observed
        run_call = self._make_run_call() if enters or moves else None
        self._last_rank = HIGHEST
        if self._proof is not None:
            self._lower_rank(step.name, step.name)
            if self._entered:
                # A run that is resumed inside a node no longer knows its rank at the entry.
                self._last_rank = HIGHEST
        while True:
            outcome: Any = None
            exhausted = None
            # A run that is resumed inside a node has paid for the entry already.
            if not self._entered:
                if (enters or moves) and (run_call is None or run_call.frames is not self._frames):
                    # Events that were emitted before keep their own call.
                    run_call = self._make_run_call()
                if enters:
                    event: Any = Entered(step.name, value, self.spent(), run_call)
                    (yield event) if notify is None else notify(event)
                if step.counts:
                    exhausted = self._enter(step, value)
                # A refused entry is not recorded, so a resumed run tries it again.
                self._entered = exhausted is None
            if exhausted is None:
                if step.asks:
                    outcome = yield from self._run_asking_node(step, value)
                    exhausted = outcome if type(outcome) is Exhausted else None
                else:
                    outcome = step.function(value) if step.takes_value_only else self._call_node(step, value)
            declared = step.returns
            if exhausted is not None:
                assert step.when_spent is not None, f"{step.name} was stopped by a limit, and has no when_spent"
                outcome, declared = step.when_spent(value, exhausted), step.limit_outcomes
            # Annotated, because pyright has narrowed the outcome to an unknown type.
            kind: type[Any] = type(outcome)  # pyright: ignore[reportUnknownVariableType]
            if kind not in declared:
                raise undeclared_outcome(step, outcome, declared)
            next_step = step.following[kind]
            if moves:
                event = Moved(step.name, outcome, END.name if next_step is None else next_step.name, run_call)
                (yield event) if notify is None else notify(event)
            if next_step is None:
                return outcome
            # Reset meters only after the `Moved` event: if an observer raises there, a run that is resumed at this
            # node must not find them refilled.
            if kind in step.resets:
                for name in step.resets[kind]:
                    self._counts[name] = 0
                self._spent = None
            if self._proof is not None:
                self._lower_rank(next_step.name, step.name)
            frames: Mapping[str, object] = self._frames
            if next_step.frames is not None:
                kept: dict[str, object] = {name: one for name, one in frames.items() if name in next_step.frames}
                if step.saves in next_step.frames:
                    kept[step.saves] = value
                frames = FrozenMapping(kept)
            # No call separates these lines, so that no KeyboardInterrupt finds a node without its frame.
            self._step = step = next_step
            self._value = value = outcome
            self._frames = frames
            self._entered = False
            # The batch of a resumed run is still open if a limit refused its unpaid calls.
            self._open = ()
            self._replies = []

    def _make_run_call(self) -> CallContext[Any]:
        call: CallContext[Any] = CallContext(self.scope, "", None, None, 0, 0)
        call.frames = self._frames
        return call

    def apply_answer(self, request: Request, answer: object, at: float) -> Snapshot:
        """Answer the open request, or a member of it with a `MemberReply`; return the snapshot after it."""
        # If the deadline cut the node, the reply is an `Exhausted`; `run` then takes the edge for it.
        if isinstance(request, All):
            states = self._open = read_states(self._open, request, self.graph.outcomes)
            self._answer_members(request, states, answer, at)
            if not any(state is PAID for state in states):
                self._record_batch()
        else:
            self._record_reply(self._apply(request, answer, at))
        return self.snapshot()

    def _answer_members(
        self, request: All[Effect[Any]], states: list[object], answer: Any, at: float
    ) -> Mapping[int, object]:
        """Apply an answer to an open batch: a `MemberReply`, a tuple of replies and cuts, or a `Cut` of all.

        Return what each member was answered with that had no reply; in a resumed run, some may have one already.
        """
        if type(answer) is MemberReply:
            answers = {answer.member: answer.reply}
        else:
            each = (answer,) * len(states) if type(answer) is Cut else answer
            answers = {member: each[member] for member, state in enumerate(states) if state is PAID}
        for member, reply in answers.items():
            states[member] = self._apply(request.effects[member], reply, at)
        return answers

    def _record_reply(self, reply: object) -> None:
        """Record the reply to the open request, and close the request."""
        # Python handles signals only after a call, so no KeyboardInterrupt can separate these three lines.
        self._open = ()
        self._sequence += 1
        self._replies += (reply,)
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
            if step.receives not in self._frames:
                raise SnapshotError(
                    f"{step.name} needs the value with which the run entered {step.receives}, and the snapshot does "
                    "not have it; resume a snapshot of this graph"
                )
            arguments[step.frame_parameter] = self._frames[step.receives]
        return step.function(value, **arguments)

    def _run_asking_node(self, step: Step, value: Any) -> Generator[Any, tuple[Any, float, float], Any]:
        """Charge and yield the effects of an asking node; return its outcome, or the `Exhausted` that stops it."""
        generator: GeneratorType[Any, Any, Any]
        generator = step.function(value) if step.call_parameter is None else self._call_node(step, value)
        # Annotated, because a type checker that narrows the class forgets what the generator yields.
        kind: Any = type(generator)
        if kind is not GeneratorType:
            raise NodeError(
                f"{step.name} is declared as Asks[...] but returned {an(kind.__name__)} without asking; "
                f"write reply = yield from ask(...)"
            )
        asks, answers = Asked in self._observed, Answered in self._observed
        notify, outcomes = self._notify, self.graph.outcomes
        # The recorded replies, the last one first, bring a resumed node back to where it was.
        recorded = self._replies[::-1] if self._replies else None
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
                count: int = 1
                effect: Any = request
                if type(request) not in step.tariffs:
                    members = check_request(step, request)
                    count, effect = len(members), next(iter(members), None)
                asked += count
                if step.most is not None and asked > step.most:
                    raise UndeclaredCountError(step.name, asked, step.least, step.most)
                if not count:
                    # An empty batch contains no effect: it costs nothing, and its reply is empty.
                    reply = ()
                elif recorded:
                    reply = read_recorded(recorded.pop(), request, outcomes)
                else:
                    exhausted = (self._charge_unpaid if self._open else self._charge)(step, request, asked)
                    if exhausted is not None:
                        return exhausted
                    if count == 1:
                        call: CallContext[Any] = CallContext(
                            self.scope, step.name, effect, request, self._sequence + 1, 0
                        )
                        self._open = _ONE_PAID
                        if asks:
                            event: Any = Asked(step.name, effect, call)
                            (yield event) if notify is None else notify(event)
                        answer, at, seconds = yield call
                        effect_reply: object = self._apply(effect, answer, at)
                        kept = reply = effect_reply
                        # A batch with one member gets its reply in a tuple.
                        if effect is not request and type(effect_reply) is not Exhausted:
                            reply = (effect_reply,)
                            kept = Replies(reply)
                        # Before the event: an observer may raise, and a consumer may close the stream.
                        self._record_reply(kept)
                        if answers:
                            event = Answered(step.name, effect, effect_reply, seconds, self.spent(), call)
                            (yield event) if notify is None else notify(event)
                    else:
                        # pyright does not know the class of a reply that the loop sends on; nor below.
                        reply = yield from self._run_batch(step, request)  # pyright: ignore[reportUnknownVariableType]
                if type(reply) is Exhausted:  # pyright: ignore[reportUnknownArgumentType]
                    return reply
        finally:
            # A node that has ended needs no closing.
            if generator.gi_frame is not None:
                close_asking(generator)

    def _run_batch(self, step: Step, request: All[Effect[Any]]) -> Generator[Any, tuple[Any, float, float], object]:
        """Yield a batch until every member has its reply; return the replies."""
        sequence = self._sequence + 1
        asks, answers, notify = Asked in self._observed, Answered in self._observed, self._notify
        calls: tuple[CallContext[Any], ...] = tuple(
            CallContext(self.scope, step.name, effect, request, sequence, member)
            for member, effect in enumerate(request.effects)
        )
        states = read_states(self._open, request, self.graph.outcomes)
        batch = Batch(request, calls, {member: PAID for member, state in enumerate(states) if state is PAID})
        self._open = states
        if asks and not self._by_member:
            for member in batch.open:
                event: Any = Asked(step.name, request.effects[member], calls[member])
                (yield event) if notify is None else notify(event)
        while batch.open:
            answer, at, seconds = yield batch
            if type(answer) is MemberStarted:
                if asks:
                    event = Asked(step.name, request.effects[answer.member], calls[answer.member])
                    (yield event) if notify is None else notify(event)
                continue
            for member in self._answer_members(request, states, answer, at):
                del batch.open[member]
                if answers:
                    effect, call = request.effects[member], calls[member]
                    event = Answered(step.name, effect, states[member], seconds, self.spent(), call)
                    (yield event) if notify is None else notify(event)
        return self._record_batch()
