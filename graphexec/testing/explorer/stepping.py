"""One step of the real engine: from one request to the next, or to the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product
from typing import Any, Literal, TypeAlias, final

from graphexec.effects import COST, TOKENS
from graphexec.errors import SnapshotError
from graphexec.kernel.effects import All, Batch, CallContext, DetachedScope, Effect, Request, members_of
from graphexec.kernel.events import EVENT_TYPES, Answered, Asked, Cut, Done, Entered, Event, Moved
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.messages import ModelReply, Usage
from graphexec.testing.explorer.oracle import Oracle, Reply

# replies: the reply comes in time. replies late: it comes after the deadline, from a handler that cannot be cut off.
# cuts: the deadline cuts the effect off. crashes: the process crashes, and the run is resumed. The exception of a
# handler and a cancellation end a run without a further step of the engine.
Continuation: TypeAlias = Literal["replies", "replies late", "cuts", "crashes"]

# A run that emits so many events without asking for an effect counts as endless. It takes milliseconds.
_ENDLESS = 10_000

# Batches with more combinations of replies than this vary one member at a time.
_COMBINATIONS = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """An event that happens to a request: its kind, the name of the class of replies, and the reply."""

    kind: Continuation
    name: str = ""
    value: object = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Asking:
    """A run that waits for the reply to `effect`; `had` are the classes of earlier replies in this visit."""

    snapshot: Snapshot
    effect: Request
    had: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Over:
    """A run that is over; `name` is the class of its outcome, or of the exception of a node.

    An `endless` run emitted very many events without asking for an effect, and was abandoned.
    """

    how: Literal["done", "raised", "endless"]
    name: str
    # The exception of a node.
    error: Exception | None = field(default=None, compare=False)


# The events of a step, and the next request or the end.
Stepped: TypeAlias = tuple[tuple[Event[Any], ...], Asking | Over]


@dataclass(frozen=True, slots=True)
class Stepping:
    """Steps of one machine within limits; a run may crash if the limits have `restarts`."""

    graph: Graph[Any, Any]
    limits: Limits
    # The context of the run.
    context: object = None

    def start_run(self, value: object) -> Stepped:
        """Run up to the first request."""
        return self._on(self._execution(begin(self.graph, value)), [], ())

    def _execution(self, snapshot: Snapshot) -> Execution:
        scope = DetachedScope(snapshot.run_id, self.context)
        return Execution(self.graph, snapshot, self.limits, scope=scope)

    def advance(self, waiting: Asking, choice: Choice) -> Stepped:
        """Run from one request to the next. Takes the steps in between and a replay of the node."""
        snapshot, effect = waiting.snapshot, waiting.effect
        match choice.kind:
            case "crashes":
                return self._on(self._execution(_resume(snapshot, self.graph)), [], waiting.had)
            case "replies" | "replies late" | "cuts":
                execution = self._execution(snapshot)
                at = snapshot.spent.seconds if choice.kind == "replies" else execution.deadline or 0.0
                settled = execution.apply_answer(effect, choice.value, at)
                # The engine emits an event for each reply, but not for one that it is resumed with.
                took = at - snapshot.spent.seconds
                reply: Any = settled.replies[-1]
                # If the node is left at the deadline, every member of a batch has the same reply.
                batch = isinstance(effect, All) and not isinstance(reply, Exhausted)
                replies: Any = reply if batch else (reply,) * len(members_of(effect))
                answers: list[Event[Any]] = [
                    Answered(snapshot.node, one, each, took, settled.spent)
                    for one, each in zip(members_of(effect), replies, strict=True)
                ]
                return self._on(self._execution(settled), answers, (*waiting.had, str(choice)))

    def choices(self, waiting: Asking, oracle: Oracle) -> Iterator[Choice]:
        """Yield everything that can happen to the request."""
        limited = self.limits.seconds is not None
        replies = _replies(waiting.effect, partial(self._candidate_replies, oracle))
        for reply in replies:
            yield Choice("replies", reply.name, reply.value)
        if limited:
            for reply in replies:
                yield Choice("replies late", reply.name, reply.value)
            yield from _cuts(waiting.effect, replies)
        if self.limits.restarts is not None:
            yield Choice("crashes")

    def unusual_choices(self, waiting: Asking, oracle: Oracle) -> Iterator[Choice]:
        """Yield the unusual replies to the request; in a batch, one member has an unusual reply."""
        if not isinstance(waiting.effect, All):
            yield from (Choice("replies", reply.name, reply.value) for reply in oracle.unusual(waiting.effect))
            return
        members = waiting.effect.effects
        usual = [replies[0].value for one in members if (replies := oracle(one))]
        for place, member in enumerate(members if len(usual) == len(members) else ()):
            for reply in oracle.unusual(member):
                yield Choice("replies", reply.name, (*usual[:place], reply.value, *usual[place + 1 :]))

    def _candidate_replies(self, oracle: Oracle, effect: Effect[Any]) -> list[Reply]:
        """Return the replies and, if tokens or cost are limited, model replies that use up the limit."""
        tokens, money = self.limits[TOKENS], self.limits[COST]
        known = [*oracle(effect)]
        models = [(reply.name, reply.value) for reply in known if isinstance(reply.value, ModelReply)]
        if tokens is not None:
            usage = Usage(completion_tokens=int(tokens))
            known += [Reply(f"{name}, for all the tokens", replace(value, usage=usage)) for name, value in models]
        if money is not None:
            known += [Reply(f"{name}, for all the money", replace(value, cost=money)) for name, value in models]
        return known

    def _on(self, execution: Execution, events: list[Event[Any]], had: tuple[str, ...]) -> Stepped:
        path = execution.run(observed=EVENT_TYPES)
        try:
            while len(events) < _ENDLESS:
                item: Any = next(path)
                if isinstance(item, (CallContext, Batch)):
                    assert item.request is not None, "a call is asked for"
                    return tuple(events), Asking(execution.snapshot(), item.request, had)
                if type(item) is Moved:
                    had = ()
                assert isinstance(item, (Entered, Asked, Moved)), "an effect is preceded by its event"
                events.append(item)
            return tuple(events), Over("endless", "")
        except StopIteration as end:
            events.append(Done(end.value, execution.snapshot()))
            return tuple(events), Over("done", type(end.value).__name__)
        except Exception as error:  # noqa: BLE001 - a node may raise anything
            return tuple(events), Over("raised", type(error).__name__, error)
        finally:
            path.close()


def _resume(snapshot: Snapshot, graph: Graph[Any, Any]) -> Snapshot:
    """Return the run as resumed after a crash; a snapshot that cannot be serialized is used as it is."""
    restarted = snapshot.restarted()
    try:
        return Snapshot.from_json(restarted.to_json(), graph)
    except SnapshotError:
        return restarted


def _replies(effect: Request, known: Callable[[Effect[Any]], list[Reply]]) -> list[Reply]:
    """Return the replies to an effect; for a batch all combinations, or those that vary one member."""
    if not isinstance(effect, All):
        return known(effect)
    each = [known(member) for member in effect.effects]
    every = list(islice(product(*each), _COMBINATIONS + 1))
    if len(every) > _COMBINATIONS:
        first = tuple(replies[0] for replies in each)
        every = [first] + [
            (*first[:place], reply, *first[place + 1 :]) for place, replies in enumerate(each) for reply in replies[1:]
        ]
    return [Reply(", ".join(one.name for one in many), tuple(one.value for one in many)) for many in every]


def _cuts(effect: Request, replies: Sequence[Reply]) -> Iterator[Choice]:
    yield Choice("cuts", "", Cut())
    if isinstance(effect, All) and len(effect.effects) > 1 and replies:
        # Some members of a batch may have finished.
        values: Any = replies[0].value
        yield Choice("cuts", "all but the first", (values[0], *(Cut() for _ in values[1:])))
