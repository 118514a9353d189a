"""The engine: pure, from a snapshot and a reply to the next effect or to the end.

`begin` and `advance` are the contract: no clock, no I/O, no randomness, and nothing but plain data between two calls.
`begin(graph, value)` is the first snapshot; `advance(graph, snapshot, limits)` is `Done`, or an `Asking` whose
`reply(value, at=seconds)` is the next snapshot. The live drivers follow the same `Walk`, and keep it between replies
instead of replaying it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeVar, final

from graphexec.edge import END
from graphexec.effects import All, Effect, Perform, Request
from graphexec.errors import InputError, NodeError, SnapshotError, UndeclaredEffect, UndeclaredOutcome, an
from graphexec.events import Answered, Asked, Done, Entered, Moved
from graphexec.graph import Graph, Step
from graphexec.limits import Exhausted, LimitName, Limits, Spent
from graphexec.snapshot import Snapshot, Stored

S = TypeVar("S")
F = TypeVar("F")


# A set, because a checker that narrowed a node to the class would forget what it yields.
_GENERATORS = frozenset({GeneratorType})


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """The answer to an effect that the deadline cut.

    For `All` it holds the replies of those that had finished, in the order asked, and a `Cut` for each that had not.
    """

    finished: tuple[object, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Asking:
    """The run waits for a reply to `effect`, which is charged already.

    `deadline` is the second of the run's clock at which the effect is to be cut, if there is one. `snapshot` is the
    run at this point: resumed from it, the effect is asked for, and charged, again.
    """

    effect: Request
    snapshot: Snapshot
    deadline: float | None
    _answered: Callable[[Any, float], Snapshot]

    def reply(self, value: object, *, at: float | None = None) -> Snapshot:
        """Return the run with the effect answered.

        `at` is the second of the run's clock, which began at 0 with the run and stands still in a pause; without it,
        the answer took no time. Raises `InputError` for a time before the run.
        """
        if isinstance(self.effect, All):
            # The replies of a batch are a sequence of unknown things.
            replies: Any = value
            count = len(replies) if isinstance(value, (tuple, list)) else None
            if count != len(self.effect.effects):
                asked = len(self.effect.effects)
                raise InputError(f"a batch of {asked} is answered by {value!r}; give a tuple with a reply to each")
            value = tuple(replies)
        return self._answered(value, self.snapshot.spent.seconds if at is None else _not_before_the_run(at))

    def cut(self, *, at: float, finished: tuple[object, ...] = ()) -> Snapshot:
        """Return the run with the effect cut by the deadline; `finished` is as in `Cut`."""
        return self._answered(Cut(finished), _not_before_the_run(at))


def _not_before_the_run(at: float) -> float:
    if not at >= 0:
        raise InputError(f"the reply came at {at} seconds; give the seconds since the run began, 0 or more")
    return at


def begin(graph: Graph[S, Any], value: S) -> Snapshot:
    """Return the run at its start.

    Raises `InputError` if the first node does not take such a value, or if a node lacks a setting.
    """
    for node in graph.nodes.values():
        for name, kinds in node.settings.items():
            wanted = an(" | ".join(kind.__name__ for kind in kinds))
            raise InputError(f"{node.name} needs {wanted} for {name}; run bind(machine, ...) with one")
    takes = graph.nodes[graph.start].takes
    if not isinstance(value, takes):
        names = " | ".join(kind.__name__ for kind in takes)
        raise InputError(f"{graph.start} takes {names}, not {type(value).__name__}; start the run with one")
    return Snapshot(graph.start, value)


def advance(graph: Graph[Any, F], snapshot: Snapshot, limits: Limits) -> Asking | Done[F]:
    """Run the machine from `snapshot` to the next effect that needs an answer, or to the end.

    Costs the pure nodes on the way, and one pass over the replies that the current node has had.
    Raises `UndeclaredOutcome` or `UndeclaredEffect` before anything undeclared is followed or carried out, and
    whatever a node raises.
    """
    walk = Walk(graph, snapshot, limits)
    path = walk.path()
    try:
        effect = next(path)
    except StopIteration as end:
        return Done(end.value, walk.snapshot())
    finally:
        path.close()
    asked = walk.snapshot()

    def answered(value: object, at: float) -> Snapshot:
        return Walk(graph, asked, limits).answered(effect, value, at)

    return Asking(effect, asked, limits.seconds, answered)


@final
class Walk:
    """One run on its way through a graph: the counters, and the path as a generator.

    `path()` yields the effects to be answered (and, if watched, events); it is sent the reply, the second at which it
    came and how many it took, and returns the last outcome. The walk is exactly as far as the path was driven.
    """

    __slots__ = (
        "_completion_tokens",
        "_entered",
        "_iterations",
        "_limits",
        "_model_calls",
        "_prompt_tokens",
        "_replies",
        "_step",
        "_tool_calls",
        "_value",
        "graph",
        "seconds",
    )

    def __init__(self, graph: Graph[Any, Any], snapshot: Snapshot, limits: Limits) -> None:
        self.graph = graph
        self._limits = limits
        if snapshot.node not in graph.steps:
            text = f"the snapshot is at {snapshot.node}, which this graph does not have; resume it with its own"
            raise SnapshotError(text)
        self._step: Step = graph.steps[snapshot.node]
        self._value = snapshot.value
        self._replies = list(snapshot.replies)
        self._entered = snapshot.entered or bool(snapshot.replies)
        spent = snapshot.spent
        self._iterations = spent.iterations
        self._model_calls = spent.model_calls
        self._tool_calls = spent.tool_calls
        self._prompt_tokens = spent.prompt_tokens
        self._completion_tokens = spent.completion_tokens
        self.seconds = spent.seconds

    def spent(self) -> Spent:
        """What is spent so far."""
        return Spent(
            iterations=self._iterations,
            seconds=self.seconds,
            model_calls=self._model_calls,
            tool_calls=self._tool_calls,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
        )

    def snapshot(self) -> Snapshot:
        """The run as it stands."""
        return Snapshot(self._step.name, self._value, tuple(self._replies), self.spent(), self._entered)

    def path(self, *, watched: bool = False) -> Generator[Any, tuple[Any, float, float], Any]:
        """The run from here to its end. What is yielded is an effect, or an `Event` (answered with anything)."""
        step, value = self._step, self._value
        while True:
            outcome: Any = None
            exhausted = None
            # A resumed run may be in the middle of a node, whose entry is paid for.
            if not self._entered:
                if watched:
                    yield Entered(step.name, value, self.spent())
                if step.metered:
                    exhausted = self._enter()
                # A node that its gate did not let in is not entered: a resumed run stands before the gate again.
                self._entered = exhausted is None
            if exhausted is None:
                if step.asks:
                    outcome = yield from self._asked(step, value, watched=watched)
                    if type(outcome) is Exhausted:
                        exhausted = outcome
                else:
                    outcome = step.function(value)
            if exhausted is not None:
                assert step.when_spent is not None, "a graph is not built without it"
                outcome = step.when_spent(value, exhausted)
            declared = step.returns if exhausted is None else step.spent_outcomes
            if type(outcome) not in declared:
                raise _undeclared(step, outcome, declared)
            following = step.following[type(outcome)]
            if watched:
                yield Moved(step.name, outcome, END.name if following is None else following.name)
            if following is None:
                return outcome
            self._step = step = following
            self._value = value = outcome
            self._entered = False
            if self._replies:
                self._replies = []

    def answered(self, effect: Request, answer: object, at: float) -> Snapshot:
        """The run with `effect`, for which it stands waiting, answered."""
        # An `Exhausted` in the place of a reply is where the deadline cut the node; `path` takes the edge.
        self._replies.append(self._settled(effect, answer, at))
        return self.snapshot()

    def _enter(self) -> Exhausted | None:
        """Charge the entry into a metered node, or say what does not allow it."""
        limits = self._limits
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return Exhausted("seconds", limits.seconds, self.seconds)
        if limits.iterations is not None and self._iterations >= limits.iterations:
            return Exhausted("iterations", limits.iterations, self._iterations)
        self._iterations += 1
        return None

    def _asked(self, step: Step, value: Any, *, watched: bool) -> Generator[Any, tuple[Any, float, float], Any]:
        """Drive a node that asks: charge, yield and answer its effects; return its outcome, or what is exhausted."""
        node: Generator[Any, Any, Any] = step.generator(value)
        if type(node) not in _GENERATORS:
            given = an(type(node).__name__)
            raise NodeError(f"{step.name} is to ask and returned {given} at once; write reply = yield from ask(...)")
        replay = iter(self._replies) if self._replies else None
        try:
            effect: Request = next(node)
            while True:
                if type(effect) not in step.effects and not _declared(step, effect):
                    raise UndeclaredEffect(step.name, effect, [asked.__name__ for asked in step.effects])
                stored = next(replay, self) if replay is not None else self
                if stored is not self:
                    reply = stored.read(effect, self.graph.outcomes) if type(stored) is Stored else stored
                    if type(reply) is Exhausted:
                        return reply
                else:
                    replay = None
                    exhausted = self._charge(effect)
                    if exhausted is not None:
                        return exhausted
                    if watched:
                        yield Asked(step.name, effect)
                    answer, at, took = yield effect
                    reply = self._settled(effect, answer, at)
                    if watched:
                        yield Answered(step.name, effect, reply, took, self.spent())
                    if type(reply) is Exhausted:
                        return reply
                    self._replies.append(reply)
                effect = node.send(reply)
        except StopIteration as end:
            if type(end.value) is Exhausted:
                # Only the engine says that a limit is spent.
                raise _undeclared(step, end.value, step.returns) from None
            return end.value
        finally:
            node.close()

    def _charge(self, effect: Request) -> Exhausted | None:
        """Charge an effect before it is carried out, a batch as a whole, or say what does not allow it."""
        limits = self._limits
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return Exhausted("seconds", limits.seconds, self.seconds)
        members = effect.effects if isinstance(effect, All) else (effect,)
        models = tools = 0
        for member in members:
            budget = member.budget
            if budget == "model_calls":
                models += 1
            elif budget == "tool_calls":
                tools += 1
        if models:
            tokens = self._prompt_tokens + self._completion_tokens
            if limits.tokens is not None and tokens >= limits.tokens:
                return Exhausted("tokens", limits.tokens, tokens)
            if limits.model_calls is not None and self._model_calls + models > limits.model_calls:
                return Exhausted("model_calls", limits.model_calls, self._model_calls, wanted=models)
        if tools and limits.tool_calls is not None and self._tool_calls + tools > limits.tool_calls:
            return Exhausted("tool_calls", limits.tool_calls, self._tool_calls, wanted=tools)
        self._model_calls += models
        self._tool_calls += tools
        return None

    def _settled(self, effect: Request, answer: object, at: float) -> Any:
        """Take in an answer: the clock, the tokens, what the deadline cut. Return the reply, or what is exhausted."""
        # A clock that seems to go backwards, as after a resume, does not give time back.
        self.seconds = max(self.seconds, at)
        if type(answer) is Cut:
            limit: LimitName = "seconds"
            exhausted = Exhausted(limit, self._limits.seconds or 0.0, self.seconds)
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
                    if member.budget == "model_calls":
                        self._measure(member, one)
            return exhausted if left else tuple(settled)
        if type(effect) is Perform and type(answer) not in self._step.returns:
            raise _undeclared(self._step, answer, self._step.returns)
        if isinstance(effect, All):
            # The driver answers a batch with a tuple of as many replies.
            replies: Any = answer
            for member, reply in zip(effect.effects, replies, strict=True):
                if member.budget == "model_calls":
                    self._measure(member, reply)
        elif effect.budget == "model_calls":
            self._measure(effect, answer)
        return answer

    def _measure(self, effect: Effect[Any], reply: object) -> None:
        prompt, completion = effect.tokens(reply)
        self._prompt_tokens += prompt
        self._completion_tokens += completion


def _undeclared(step: Step, outcome: object, declared: tuple[type, ...]) -> UndeclaredOutcome:
    return UndeclaredOutcome(step.name, outcome, [kind.__name__ for kind in declared])


def _declared(step: Step, effect: Request) -> bool:
    if not isinstance(effect, All):
        return False
    for member in effect.effects:  # noqa: SIM110 - a generator for `all` costs more than the loop
        if type(member) not in step.effects:
            return False
    return True
