"""Manual stepping: pure functions from a snapshot and a reply to the next request, or to the end.

`begin(graph, value)` returns the first snapshot. `advance(graph, snapshot, limits)` returns `Done`, or a
`PendingEffect` whose `reply(value, at=seconds)` returns the next snapshot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypeVar, final

from graphexec.errors import InputError, an, format_value
from graphexec.kernel.counters import add_amounts
from graphexec.kernel.effects import All, Batch, CallContext, Effect, Request, RunScope
from graphexec.kernel.events import (
    EVENT_TYPES,
    Answered,
    Asked,
    ChargedReply,
    Cut,
    Done,
    Entered,
    Event,
    Journal,
    JournalEntry,
    MemberReply,
    Moved,
    Restarted,
)
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits, is_measure
from graphexec.kernel.program import Proof
from graphexec.kernel.signatures import read_reply, reply_classes
from graphexec.kernel.snapshot import PAID, UNPAID, Snapshot

S = TypeVar("S")
F = TypeVar("F")


class EngineCode(Protocol):
    """Code of a run that is in none of its calls: pure nodes, policies, guards, measures and observers."""

    caller: CallContext[Any] | EngineCode | None
    """What the run was started by."""


# What this code belongs to; threads and tasks started within it get a copy.
current: ContextVar[CallContext[Any] | EngineCode | None] = ContextVar("graphexec_call", default=None)


@dataclass(slots=True)
class _Stepping:
    caller: CallContext[Any] | EngineCode | None


def _engine_context() -> Context:
    """Return a copy of the context variables for the code of an engine that no run drives."""
    context = copy_context()
    context.run(current.set, _Stepping(current.get()))
    return context


@final
@dataclass(frozen=True, slots=True)
class PendingEffect:
    """A run that waits for the reply to `effect`, which is charged already.

    `calls` are the members without a reply. `deadline` is the second of the run's clock at which to cut the effect;
    `None` without one. `snapshot` is the run at this point: `advance` from it asks for the same effect and charges
    nothing, and `snapshot.retried()` charges the calls without a reply again.
    """

    effect: Request
    calls: tuple[CallContext[Any], ...]
    snapshot: Snapshot
    deadline: float | None
    _graph: Graph[Any, Any]
    _limits: Limits

    def _answered(self, answer: object, at: float | None) -> Snapshot:
        if at is not None and not at >= 0:
            raise InputError(f"the reply has at={at}; give the seconds since the start of the run, 0 or more")
        execution = Execution(self._graph, self.snapshot, self._limits)
        second = self.snapshot.spent.seconds if at is None else at
        return _engine_context().run(execution.apply_answer, self.effect, answer, second)

    def _require_reply(self, effect: Effect[Any], value: object) -> None:
        """Raise `InputError` for a value of another class than the effect's reply, which a caller has to make."""
        # mypy does not take a class for hashable.
        kind: Any = type(effect)
        classes = reply_classes(kind)
        # The last three stand in the place of a reply; `apply_answer` checks these.
        if classes and not isinstance(value, (*classes, Cut, ChargedReply, Exhausted)):
            (wanted,) = read_reply(kind)
            given = f"{self.snapshot.node} asked for {kind.__name__} and was answered with {format_value(value)}"
            raise InputError(f"{given}; reply with {an(wanted.__name__) if isinstance(wanted, type) else wanted}")

    def reply(self, value: object, *, at: float | None = None) -> Snapshot:
        """Return the run after a reply at the second `at` of the run's clock (by default, without delay).

        A batch is answered with a list of replies, or a `Cut()` for each member that the deadline cut; of one effect,
        its reply is enough. The clock starts at 0 and does not advance during a pause. Raises `InputError` for a
        negative time, and for a value that is not a reply to the effect.
        """
        # Any: a reply, or a list of them.
        answer: Any = value
        if isinstance(self.effect, All):
            asked = self.effect.effects
            answer = tuple(answer) if issubclass(type(answer), (tuple, list)) else (answer,)
            if len(answer) != len(asked):
                raise InputError(
                    f"a batch of {len(asked)} effects was answered with {value!r}; give a tuple with a reply to each"
                )
            for effect, reply in zip(asked, answer, strict=True):
                self._require_reply(effect, reply)
        else:
            self._require_reply(self.effect, answer)
        return self._answered(answer, at)

    def reply_member(self, member: int, value: object, *, at: float | None = None) -> Snapshot:
        """Return the run after the reply to one call of a batch; the others stay pending. `Cut()` cuts the call.

        Raises `InputError` if the effect is not a batch, and for a member that has its reply or does not exist.
        """
        if not isinstance(self.effect, All):
            raise InputError(f"{type(self.effect).__name__} is not a batch; answer it with reply(value)")
        pending = [call.member for call in self.calls]
        if member not in pending:
            raise InputError(f"the batch waits for the members {pending}, not for {member!r}; answer one of them")
        self._require_reply(self.effect.effects[member], value)
        return self._answered(MemberReply(member, value), at)

    def cut(self, *, at: float) -> Snapshot:
        """Return the run after the deadline cut the effect. Raises `InputError` if the run has no deadline."""
        return self._answered(Cut(), at)


def begin(graph: Graph[S, Any], value: S, *, run_id: str = "") -> Snapshot:
    """Return the first snapshot, of a run with this id. Raises `InputError` for a value of another class."""
    takes = graph.nodes[graph.start].takes
    if not isinstance(value, takes):
        names = " | ".join(kind.__name__ for kind in takes)
        raise InputError(f"{graph.start} takes {names}, not {type(value).__name__}; start the run with one")
    return Snapshot(graph.start, value, run_id=run_id)


def advance(
    graph: Graph[Any, F], snapshot: Snapshot, limits: Limits, *, proof: Proof | None = None
) -> PendingEffect | Done[F]:
    """Run the machine from `snapshot` to the next effect, or to the end.

    With the `proof` of a verdict, it raises `CertificateError` at a step that this does not allow. It runs the
    pure nodes on the way, and replays the current visit's replies. Raises `UndeclaredOutcomeError`,
    `UndeclaredEffectError` or `UndeclaredCountError` before anything undeclared happens, and any exception of a node.
    """
    execution = Execution(graph, snapshot, limits, proof)
    path, context = execution.run(), _engine_context()
    try:
        item: CallContext[Any] | Batch = context.run(next, path)
    except StopIteration as end:
        return Done(end.value, execution.snapshot(), call=execution.call())
    finally:
        context.run(path.close)
    calls = tuple(item.calls[member] for member in item.open) if isinstance(item, Batch) else (item,)
    assert item.request is not None, "a yielded call belongs to a request"
    return PendingEffect(item.request, calls, execution.snapshot(), execution.deadline, graph, limits)


def restart(snapshot: Snapshot, restarted: Restarted, at: float) -> Snapshot:
    """Return a run whose process has ended, for another one, in which it begins at the second `at` of its clock."""
    unpaid, spent = restarted.unpaid, snapshot.spent
    states = tuple(
        UNPAID if state is PAID and member in unpaid else state for member, state in enumerate(snapshot.open)
    )
    return dataclasses.replace(
        snapshot,
        open=states if any(state is not UNPAID for state in states) else (),
        spent=dataclasses.replace(
            spent,
            seconds=max(spent.seconds, at),
            restarts=spent.restarts + restarted.counts,
            meters=add_amounts(spent.meters, restarted.charged),
        ),
    )


# The next entry of a journal, for the call or the batch that waits; `None` at its end.
NextEntry: TypeAlias = Callable[[Any], JournalEntry | None]


@final
class Replay:
    """A run that is driven by what was recorded of it, over all its restarts; pure nodes are called again.

    Iterating over it yields the events of the `observed` classes. Then `execution` is where the run stands: it has
    `ended` with the `outcome`, or waits for the reply to `waiting`, a call or a batch. If `is_stopped` says that the
    process ended before the next entry, an observed reply is the last thing that happens in it: what the run asks for
    next is charged within the limits of the next process.
    """

    def __init__(
        self,
        graph: Graph[Any, Any],
        start: Snapshot,
        limits: Limits,
        next_entry: NextEntry,
        *,
        scope: RunScope | None = None,
        observed: Collection[type[Any]] = (),
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.execution = Execution(graph, start, limits, scope=scope)
        self._is_stopped = is_stopped
        self.ended = False
        self.outcome: Any = None
        self.waiting: CallContext[Any] | Batch | None = None
        self._next_entry = next_entry
        self._observed = observed

    def __iter__(self) -> Iterator[Any]:
        while (entry := (yield from self._drive())) is not None:
            execution, (restarted, at, _) = self.execution, entry
            snapshot = restart(execution.snapshot(), restarted, at)
            self.execution = Execution(execution.graph, snapshot, restarted.limits, scope=execution.scope)

    def _drive(self) -> Generator[Any, None, Any]:
        """Replay until the run's process ended; return the entry of its restart, or `None` at the journal's end."""
        if self._has_stopped():
            return self._next_entry(None)
        execution = self.execution
        path, context = execution.run(observed=self._observed, by_member=True), _engine_context()
        try:
            answer = None  # Before the loop; see `RunLoop.follow`.
            while True:
                # A new generator, and one that yielded an event, is sent `None`.
                item: Any = context.run(path.send, answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
                if kind is not CallContext and kind is not Batch:
                    answer = None
                    yield item
                    if kind is Answered and self._has_stopped():
                        return self._next_entry(None)
                    continue
                entry = self._next_entry(item)
                if entry is None:
                    self.waiting = item
                    return None
                if type(entry[0]) is Restarted:
                    return entry
                answer = (restore_charges(execution, item, entry[0]), *entry[1:])
        except StopIteration as end:
            self.ended, self.outcome = True, end.value
            return None
        finally:
            context.run(path.close)

    def _has_stopped(self) -> bool:
        return self._is_stopped() and not self.execution.is_waiting


class _Entries:
    """The entries of a journal, for a `Replay`. A restart without unpaid calls comes before the next request."""

    def __init__(self, entries: Iterable[JournalEntry]) -> None:
        self._left = iter(entries)
        self._next = next(self._left, None)

    def __call__(self, item: object) -> JournalEntry | None:
        del item
        entry, self._next = self._next, next(self._left, None)
        return entry

    def is_stopped(self) -> bool:
        return self._next is not None and type(self._next[0]) is Restarted and not self._next[0].unpaid


def replay(journal: Journal, until: Snapshot | None = None) -> Iterator[Event[Any]]:
    """Replay a run from its journal and yield its events, except `Reported`; pure nodes are called again.

    A run that an exception ended may have got no further than its last reply, or to some node behind it: `until` is the
    snapshot that the exception carries, and ends the events where the run stood.
    """
    entries = _Entries(journal)
    run = Replay(
        journal.graph,
        journal.start,
        journal.limits,
        entries,
        scope=journal.scope,
        observed=EVENT_TYPES,
        is_stopped=entries.is_stopped,
    )
    for item in run:
        if until is not None and _is_beyond(item, run.execution, until):
            return
        yield item
    if run.ended and until is None:
        yield Done(run.outcome, run.execution.snapshot(), journal, call=run.execution.call())


def replay_to(graph: Graph[Any, Any], start: Snapshot, entries: Iterable[JournalEntry], limits: Limits) -> Snapshot:
    """Return the run from `start` after these entries of its journal: `graph.run` goes on from there.

    The replies of an open batch are kept, and the charges of nested runs and of further attempts (`Restarted`) are
    counted. Calls that wait for a reply are charged; a resume makes them again, and charges them again. It takes time
    in proportion to the number of entries. Raises what `advance` raises.
    """
    given = _Entries(entries)
    run = Replay(graph, start, limits, given, observed=(Answered,), is_stopped=given.is_stopped)
    for _ in run:
        pass
    return run.execution.snapshot()


def fork(journal: Journal, at: int) -> Snapshot:
    """Return the run of a journal after its first `at` entries, to run it from there once more.

    Raises `InputError` unless `at` is between 0 and `len(journal)`.
    """
    if not 0 <= at <= len(journal):
        raise InputError(f"the journal has {len(journal)} entries, so at={at} is none; give 0 to {len(journal)}")
    return replay_to(journal.graph, journal.start, islice(journal, at), journal.limits)


def _is_beyond(event: Entered | Asked | Answered | Moved, execution: Execution, until: Snapshot) -> bool:
    """Return whether a replayed event is one that the run had not reached at the snapshot."""
    if isinstance(event, Answered):
        return False
    now = execution.snapshot()
    if isinstance(event, Asked):
        return now.sequence == until.sequence and not until.open
    if now.sequence < until.sequence or event.node != until.node:
        return False
    # A node may have been visited before, without a request since: then it had spent less of an iteration or a meter,
    # or its measure was greater.
    spent, most = now.spent, until.spent
    reached = spent.iterations >= most.iterations and all(
        0 < spent[name] <= most[name] if is_measure(name) and most[name] else spent[name] >= most[name]
        for name in execution.program.own
    )
    return reached and not (isinstance(event, Entered) and until.entered)


def restore_charges(execution: Execution, asked: CallContext[Any] | Batch, answer: object) -> object:
    """Charge what the recorded call's nested runs charged; return the answer without it."""
    if isinstance(asked, Batch):
        if isinstance(answer, MemberReply):
            call = asked.calls[answer.member]
            return MemberReply(answer.member, restore_charges(execution, call, answer.reply))
    elif isinstance(answer, ChargedReply):
        asked.charged = answer.charged
        execution.charge(answer.charged)
        return answer.reply
    return answer
