"""The engine: a walk through the table. It charges, asks, takes in replies, and follows the edges.

It is pure: no clock, no I/O, no randomness. The live drivers follow a `Walk` and keep it between replies; `by_hand`
makes one anew of a snapshot for each, and nothing but plain data is left between two calls.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeVar, final

from graphexec.edge import END
from graphexec.effects import All, Effect, Perform, Request
from graphexec.errors import (
    CertificateError,
    InputError,
    NodeError,
    SnapshotError,
    UndeclaredCount,
    UndeclaredEffect,
    UndeclaredOutcome,
    UnhandledOutcome,
    an,
)
from graphexec.events import Answered, Asked, Entered, Moved
from graphexec.graph import Graph, Step
from graphexec.limits import ITERATIONS, NO_BUDGETS, Exhausted, Limits, Spent
from graphexec.rank import HIGHEST, Ranks, lines_of
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
class Walk:
    """One run on its way through a graph: the counters, and the path as a generator.

    `path()` yields the effects to be answered (and, if watched, events); it is sent the reply, the second at which it
    came and how many it took, and returns the last outcome. The walk is exactly as far as the path was driven.
    """

    __slots__ = (
        "_completion_tokens",
        "_cost",
        "_entered",
        "_iterations",
        "_limits",
        "_lines",
        "_model_calls",
        "_over",
        "_own",
        "_own_limits",
        "_prompt_tokens",
        "_ranks",
        "_replies",
        "_restarts",
        "_silent_calls",
        "_step",
        "_tool_calls",
        "_value",
        "graph",
        "seconds",
    )

    def __init__(self, graph: Graph[Any, Any], snapshot: Snapshot, limits: Limits, ranks: Ranks | None = None) -> None:
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
        self._silent_calls = spent.silent_calls
        self._cost = spent.cost
        self.seconds = spent.seconds
        # A restart is allowed or not before anything else is.
        self._restarts = spent.restarts
        over = limits.restarts is not None and spent.restarts > limits.restarts
        self._over = Exhausted("restarts", limits.restarts or 0, spent.restarts) if over else None
        self._own = {name: spent.budgets.get(name, 0) for name in graph.budgets}
        self._own_limits = {name: limits.budgets.get(name, limit) for name, limit in graph.budgets.items()}
        self._ranks = ranks
        self._lines = None if ranks is None else lines_of(ranks, limits.iterations)

    def spent(self) -> Spent:
        """What is spent so far."""
        return Spent(
            iterations=self._iterations,
            seconds=self.seconds,
            model_calls=self._model_calls,
            tool_calls=self._tool_calls,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            silent_calls=self._silent_calls,
            restarts=self._restarts,
            cost=self._cost,
            budgets=dict(self._own) if self._own else NO_BUDGETS,
        )

    def snapshot(self) -> Snapshot:
        """The run as it stands."""
        return Snapshot(self._step.name, self._value, tuple(self._replies), self.spent(), self._entered)

    @property
    def node(self) -> str:
        """The node that the run is at."""
        return self._step.name

    @property
    def deadline(self) -> float | None:
        """The second of the run's clock at which what the node asks for is cut, if there is one."""
        seconds = self._limits.seconds
        return None if seconds is None else seconds + self._step.grace

    def path(self, *, watched: bool = False) -> Generator[Any, tuple[Any, float, float], Any]:
        """The run from here to its end. What is yielded is an effect, or an `Event` (answered with anything)."""
        step, value = self._step, self._value
        ranks, lines = self._ranks, self._lines
        # In the middle of a node the rank at its entry is not known any more.
        before = HIGHEST if ranks is None or self._entered else self._rank(step.name)
        while True:
            outcome: Any = None
            exhausted = None
            # A resumed run may be in the middle of a node, whose entry is paid for.
            if not self._entered:
                if watched:
                    yield Entered(step.name, value, self.spent())
                if step.metered:
                    exhausted = self._enter(step)
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
            # Not what it was narrowed to.
            kind: type[Any] = type(outcome)  # pyright: ignore[reportUnknownVariableType]
            try:
                following = step.following[kind]
            except KeyError:
                # Only a draft lacks an edge.
                raise UnhandledOutcome(step.name, outcome) from None
            if watched:
                yield Moved(step.name, outcome, END.name if following is None else following.name)
            if following is None:
                return outcome
            # Not before the move is made: a run that is taken up again at this node has refilled nothing.
            if step.resets:
                self._reset(step.resets.get(kind, ()))
            if lines is not None:
                # As in `_rank`, which would cost three times as much.
                height, slope, most = lines[following.name]
                left = most - self._iterations
                # A run that is taken up with lower limits may have spent more than they allow.
                rank: tuple[int, ...] = (height + slope * left if left > 0 else height,)
                if not rank < before:
                    raise _rising(step, following, before, rank)
                before = rank
            elif ranks is not None:
                rank = self._rank(following.name)
                if not rank < before:
                    raise _rising(step, following, before, rank)
                before = rank
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

    def _enter(self, step: Step) -> Exhausted | None:
        """Charge the entry into a metered node, or say what does not allow it."""
        limits = self._limits
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return Exhausted("seconds", limits.seconds, self.seconds)
        if self._over is not None:
            return self._over
        if step.iterates and limits.iterations is not None and self._iterations >= limits.iterations:
            return Exhausted("iterations", limits.iterations, self._iterations)
        for name in step.meters:
            limit = self._own_limits[name]
            if limit is not None and self._own[name] >= limit:
                return Exhausted(name, limit, self._own[name])
        self._iterations += step.iterates
        for name in step.meters:
            self._own[name] += 1
        return None

    def _reset(self, names: tuple[str, ...]) -> None:
        """Make budgets full again, as the edge that is taken says."""
        for name in names:
            if name == ITERATIONS.name:
                self._iterations = 0
            else:
                self._own[name] = 0

    def _rank(self, node: str) -> tuple[int, ...]:
        """The value of a node's rank with what is left now."""
        assert self._ranks is not None, "asked for where there are ranks"
        if self._lines is not None:
            height, slope, most = self._lines[node]
            return (height + slope * max(0, most - self._iterations),)
        value: list[int] = []
        for component, budgets in self._ranks[node]:
            value.append(component)
            value.extend([self._left(name) for name in budgets])
        return tuple(value)

    def _left(self, name: str) -> int:
        """What is left of a budget that a rank counts, which has a limit.

        Nothing, where more is spent: the last call may exceed the tokens, and a run be taken up with lower limits.
        """
        match name:
            case "iterations":
                limit, spent = self._limits.iterations, self._iterations
            case "model_calls":
                limit, spent = self._limits.model_calls, self._model_calls
            case "tool_calls":
                limit, spent = self._limits.tool_calls, self._tool_calls
            case "tokens":
                limit, spent = self._limits.tokens, self._tokens()
            case _:
                limit, spent = self._own_limits.get(name), self._own.get(name, 0)
        if limit is None:
            raise CertificateError(f"the rank counts {name}, which has no limit; prove the machine for these limits")
        return max(0, limit - spent)

    def _tokens(self) -> int:
        """The tokens as they are charged: a call takes one at least, whatever its provider reports."""
        return self._prompt_tokens + self._completion_tokens + self._silent_calls

    def _asked(self, step: Step, value: Any, *, watched: bool) -> Generator[Any, tuple[Any, float, float], Any]:
        """Drive a node that asks: charge, yield and answer its effects; return its outcome, or what is exhausted."""
        node: Generator[Any, Any, Any] = step.generator(value)
        if type(node) not in _GENERATORS:
            given = an(type(node).__name__)
            raise NodeError(f"{step.name} is to ask and returned {given} at once; write reply = yield from ask(...)")
        replay = iter(self._replies) if self._replies else None
        asked = 0
        try:
            effect: Request = next(node)
            while True:
                if type(effect) not in step.effects and not _declared(step, effect):
                    raise UndeclaredEffect(step.name, effect, [kind.__name__ for kind in step.effects])
                wanted = len(effect.effects) if isinstance(effect, All) else 1
                if not wanted:
                    # To ask for nothing is no effect: it is answered at once, and no limit stops it.
                    effect = node.send(())
                    continue
                asked += wanted
                if step.most is not None and asked > step.most:
                    raise UndeclaredCount(step.name, asked, step.least, step.most)
                stored = next(replay, self) if replay is not None else self
                if stored is not self:
                    reply = stored.read(effect, self.graph.outcomes) if type(stored) is Stored else stored
                    if type(reply) is Exhausted:
                        return reply
                else:
                    replay = None
                    exhausted = self._charge(step, effect, asked - wanted)
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
            if asked < step.least:
                raise UndeclaredCount(step.name, asked, step.least, step.most) from None
            return end.value
        finally:
            node.close()

    def _charge(self, step: Step, effect: Request, asked: int) -> Exhausted | None:
        """Charge an effect before it is carried out, a batch as a whole, or say what does not allow it.

        `asked` is how many effects this visit has asked for before.
        """
        limits = self._limits
        if limits.seconds is not None and self.seconds >= limits.seconds + step.grace:
            return Exhausted("seconds", limits.seconds, self.seconds)
        if self._over is not None:
            return self._over
        members = effect.effects if isinstance(effect, All) else (effect,)
        if limits.fan_out is not None and step.most is None and asked + len(members) > limits.fan_out:
            return Exhausted("fan_out", limits.fan_out, asked, wanted=len(members))
        models = tools = 0
        for member in members:
            budget = member.budget
            if budget == "model_calls":
                models += 1
            elif budget == "tool_calls":
                tools += 1
        if models and not step.reserved:
            if limits.tokens is not None and (tokens := self._tokens()) + models > limits.tokens:
                return Exhausted("tokens", limits.tokens, tokens, wanted=models)
            if limits.model_calls is not None and self._model_calls + models > limits.model_calls:
                return Exhausted("model_calls", limits.model_calls, self._model_calls, wanted=models)
            if limits.cost is not None and self._cost >= limits.cost:
                return Exhausted("cost", limits.cost, self._cost)
        limit = None if step.reserved else limits.tool_calls
        if tools and limit is not None and self._tool_calls + tools > limit:
            return Exhausted("tool_calls", limit, self._tool_calls, wanted=tools)
        self._model_calls += models
        self._silent_calls += models
        self._tool_calls += tools
        return None

    def _settled(self, effect: Request, answer: object, at: float) -> Any:
        """Take in an answer: the clock, the tokens, what the deadline cut. Return the reply, or what is exhausted."""
        # A clock that seems to go backwards, as after a resume, does not give time back.
        self.seconds = max(self.seconds, at)
        if type(answer) is Exhausted:
            raise _not_a_reply(self._step, effect, "only the engine says that a limit is spent")
        if type(answer) is Cut:
            limit = self._limits.seconds
            if limit is None:
                raise _not_a_reply(self._step, effect, "there is no deadline that could cut it")
            # What is cut has had all the time there was, also where the clock is a little behind.
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
        # Fewer than none are none: nothing gives tokens or money back.
        self._prompt_tokens += max(0, prompt)
        self._completion_tokens += max(0, completion)
        if prompt > 0 or completion > 0:
            self._silent_calls -= 1
        cost = effect.cost(reply)
        if cost is None:
            if self._limits.cost is not None:
                raise _unpriced(self._step, effect)
        else:
            self._cost += max(0.0, cost)


def _not_a_reply(step: Step, effect: Request, why: str) -> InputError:
    asked = type(effect).__name__
    return InputError(f"{step.name} asked for {asked}, and the answer says it was stopped: {why}; give a reply to it")


def _unpriced(step: Step, effect: Effect[Any]) -> InputError:
    return InputError(
        f"{step.name} asked for {type(effect).__name__}, and the reply does not say what it cost, which is limited; "
        f"wrap the model: priced(model, Price(...))"
    )


def _undeclared(step: Step, outcome: object, declared: tuple[type, ...]) -> UndeclaredOutcome:
    return UndeclaredOutcome(step.name, outcome, [kind.__name__ for kind in declared])


def _rising(step: Step, following: Step, before: tuple[float, ...], rank: tuple[float, ...]) -> CertificateError:
    return CertificateError(
        f"the rank does not fall from {step.name} {before} to {following.name} {rank}; the certificate is of another "
        f"machine or of other limits: prove it anew"
    )


def _declared(step: Step, effect: Request) -> bool:
    if not isinstance(effect, All):
        return False
    for member in effect.effects:  # noqa: SIM110 - a generator for `all` costs more than the loop
        if type(member) not in step.effects:
            return False
    return True
