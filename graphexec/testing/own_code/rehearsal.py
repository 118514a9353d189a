"""Runs that call the user's code with scripted models, and check that each run ends and has no faults."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, final

from graphexec.effects import AskHuman, CallAgent, CallTool, LoadMemory, ModelEffect, RunGraph, SaveMemory
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.events import Event
from graphexec.kernel.graph import Graph
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.runtime.handlers import Handler, Handlers, RunContext, RunOptions, World
from graphexec.runtime.io import IO
from graphexec.runtime.runner import astream, stream
from graphexec.testing.adversary import PARTS, Adversary, Attack, Move, Part
from graphexec.testing.clock import VirtualClock, loop_time
from graphexec.testing.failures import DeadlockError
from graphexec.testing.own_code.faults import BrokenPromise, OwnRun, find_difference, find_faults, open_calls
from graphexec.testing.own_code.watchdog import HangError, Watchdog
from graphexec.testing.runs import AskCounter, AskedTooOftenError
from graphexec.testing.scripted import ScriptedTool
from graphexec.testing.setup import Trial, Verifiable
from graphexec.verify import Bounds, verify

# The number of moves in a script: enough to find errors that occur late.
_LENGTH: Final = 16

# The number of attempts to shorten a failing script.
_ATTEMPTS: Final = 60


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """Runs of one machine that call the user's code.

    Models and people are scripted, and so are the effects in `scripted`: those with `replies`, or without a handler.
    """

    machine: Verifiable
    trial: Trial
    scripted: frozenset[type[Effect[Any]]]

    @classmethod
    def of(
        cls,
        machine: Verifiable,
        trial: Trial,
        *,
        replies: Mapping[type[Effect[Any]], Sequence[object]] | None = None,
    ) -> Rehearsal:
        """Return the rehearsal of an executor, or of a graph; all effects of a graph are scripted."""
        asked = {kind for node in trial.graph for kind in node.effects}
        if isinstance(machine, AgentExecutor):
            answered = {*machine.run_context.handlers}
            for world in {node.world for node in trial.graph if isinstance(node.world, World)}:
                answered |= world.handlers.keys()
            unanswered = asked - answered
            models = {kind for kind in asked if issubclass(kind, (ModelEffect, RunGraph))}
            asked &= {*models, AskHuman, *(replies or {}), *unanswered}
        trial.watchdog.names = _names(machine)
        return cls(machine, trial, frozenset(asked))

    def run_scripts(self, examples: int) -> None:
        """Run `examples` scripts three times each. Raises `AssertionError` for the first fault, with its script."""
        __tracebackhide__ = True
        certificate = verify(self.trial.graph, self.trial.limits).certificate
        assert certificate is not None, "a proved machine has a certificate"
        for attack in scripts(self.trial.parts, self.trial.unusual, examples):
            found = self._fault(attack, certificate.bounds)
            if found is not None:
                shortest, found = self._shrunk(attack, found, certificate.bounds)
                raise AssertionError(f"{found.who} {found.fact}; {shortest.describe()}; {found.remedy}")

    def _fault(self, attack: Attack, bounds: Bounds) -> BrokenPromise | None:
        self.trial.watchdog.script = attack.describe()
        runs: list[OwnRun] = []
        for play in (self.play_async, self.play_async, self.play_sync):
            if runs and runs[0].seconds > self.trial.watchdog.patience:
                # Virtual time in the async runs would be real time in a sync run.
                return None
            try:
                run = play(attack)
            except AskedTooOftenError as error:
                return BrokenPromise(error.node, error.fact, error.remedy)
            runs.append(run)
            for fault in find_faults(run, self.trial.graph, bounds, self.trial.limits, self.trial.raises):
                return fault
            if run.real and (self.trial.limits.seconds or math.inf) <= run.seconds:
                # The deadline has cut calls that take no virtual time.
                return None
            remembers = isinstance(self.machine, AgentExecutor) and self.machine.memory is not None
            for fault in find_difference(runs[0], run, stateful=self.trial.stateful, remembers=remembers):
                return fault
        return None

    def _shrunk(self, attack: Attack, found: BrokenPromise, bounds: Bounds) -> tuple[Attack, BrokenPromise]:
        """Return the shortest script found with a fault in the same code."""
        attempts, smaller = itertools.count(), True
        while smaller:
            smaller = False
            for shorter in _shorter(attack):
                if next(attempts) >= _ATTEMPTS:
                    return attack, found
                again = self._fault(shorter, bounds)
                if again is not None and again.who == found.who:
                    attack, found, smaller = shorter, again, True
                    break
        return attack, found

    def play_async(self, attack: Attack) -> OwnRun:
        """Run the machine async, on a virtual clock."""
        clock = VirtualClock(patience=2 * self.trial.watchdog.patience)

        async def play(made: AsyncGenerator[Event[Any], None], see: Callable[[Event[Any]], None]) -> None:
            async with aclosing(made) as running:
                async for event in running:
                    see(event)

        def drive(player: Player, see: Callable[[Event[Any]], None]) -> None:
            clock.run(play(player.astream(), see))

        return self._played(attack, loop_time, drive, lambda: clock.seconds)

    def play_sync(self, attack: Attack) -> OwnRun:
        """Run the machine sync, in real time."""

        def drive(player: Player, see: Callable[[Event[Any]], None]) -> None:
            with contextlib.closing(player.stream()) as running:
                for event in running:
                    see(event)

        begun = time.monotonic()
        run = self._played(attack, time.monotonic, drive, lambda: time.monotonic() - begun)
        return dataclasses.replace(run, real=True)

    def _played(
        self,
        attack: Attack,
        clock: Callable[[], float],
        drive: Callable[[Player, Callable[[Event[Any]], None]], None],
        elapsed: Callable[[], float],
    ) -> OwnRun:
        adversary, events, counter = (
            Adversary(attack, self.trial.oracle),
            list[Event[Any]](),
            AskCounter(self.trial.graph),
        )

        def see(event: Event[Any]) -> None:
            events.append(event)
            counter.see(event)

        error = None
        self.trial.watchdog.uncharged.clear()
        # Abandoned calls of an earlier run may still be open.
        self.trial.watchdog.open.clear()
        try:
            drive(self._player(adversary, clock), see)
        except AskedTooOftenError:
            raise
        except DeadlockError as deadlock:
            raise HangError(_describe_deadlock(deadlock, events, self.trial.watchdog)) from None
        except Exception as raised:  # noqa: BLE001 - the caller judges the exception of the run
            error = raised
        return OwnRun(
            tuple(events), error, adversary, self.trial.watchdog, elapsed(), tuple(self.trial.watchdog.uncharged)
        )

    def _player(self, adversary: Adversary, clock: Callable[[], float]) -> Player:
        scripted = adversary.run_context(self.trial.graph, self.trial.limits, clock)
        start = begin(self.trial.graph, self.trial.start)
        if not isinstance(self.machine, AgentExecutor):
            return Player(self.trial.graph, start, scripted, None, self.trial.context)
        own = self.machine.run_context
        overrides = {kind: scripted.handlers[kind] for kind in self.scripted}
        handlers = {**own.handlers, **overrides}
        handlers |= self._stand_ins(own.handlers, scripted.handlers)
        around = own.around_call

        @contextlib.contextmanager
        def around_call(call: CallContext[Any]) -> Generator[None]:
            with self.trial.watchdog.around_call(call), contextlib.nullcontext() if around is None else around(call):
                yield

        changed = self.machine.with_limits(self.trial.limits)
        context = dataclasses.replace(
            changed.run_context, handlers=handlers, clock=clock, around_call=around_call, overrides=overrides
        )
        changed = changed.with_context(context)
        return Player(self.trial.graph, start, scripted, changed, self.trial.context)

    def _stand_ins(self, own: Handlers, scripted: Handlers) -> dict[type[Effect[Any]], Handler]:
        """Return the handler of tools in which scripted tools (`scripted_tool`) are answered by the script."""
        assert isinstance(self.machine, AgentExecutor), "a graph has no tools"
        stand_ins = {name for name, one in self.machine.tools.items() if isinstance(one, ScriptedTool)}
        if CallTool in self.scripted or not stand_ins:
            return {}
        usual = own[CallTool]

        async def answer(effect: CallTool, call: CallContext[Any], io: IO) -> Any:
            handler = scripted[CallTool] if effect.name in stand_ins else usual
            return await handler.answer(effect, call, io)

        return {CallTool: dataclasses.replace(usual, answer=answer)}


@final
@dataclasses.dataclass(frozen=True)
class Player:
    """Starts runs of an executor or of a graph."""

    graph: Graph[Any, Any]
    start: Snapshot
    run_context: RunContext
    executor: AgentExecutor | None
    context: object

    def stream(self) -> Generator[Event[Any], None, None]:
        """Return the events of a sync run."""
        if self.executor is not None:
            return self.executor.stream(self.start, context=self.context)
        return stream(self.graph, self.start, self.run_context, options=RunOptions(self.context))

    def astream(self) -> AsyncGenerator[Event[Any], None]:
        """Return the events of an async run."""
        if self.executor is not None:
            return self.executor.astream(self.start, context=self.context)
        return astream(self.graph, self.start, self.run_context, options=RunOptions(self.context))


def repetitions(parts: Mapping[Part, Sequence[str]]) -> list[Attack]:
    """Return the scripts that repeat a single reply."""
    return [_script(parts, [number]) for number in range(_most(parts))]


def scripts(parts: Mapping[Part, Sequence[str]], unusual: Mapping[Part, Sequence[str]], count: int) -> Iterator[Attack]:
    """Yield `count` scripts: each reply alone, unusual ones in turn, some pairs in turn, then random ones."""
    most = _most(parts)
    pairs = [[one, other] * (_LENGTH // 2) for one in range(most) for other in range(most) if one != other]
    # Each script begins with other unusual replies, because a run may end with one.
    begun = [
        _with_part(_script(parts, [number]), part, tuple(map(Move, [*unusual[part][number:], *unusual[part][:number]])))
        for part in PARTS
        for number in range(len(unusual[part]))
    ]
    begun = begun[:: math.ceil(2 * len(begun) / count) or 1]
    # Seeded, so that the scripts are reproducible.
    chance = random.Random(0)  # noqa: S311 - not used for security
    usual = [*repetitions(parts), *begun, *(_script(parts, pair) for pair in pairs)][
        : max(most + len(begun), count // 2)
    ]

    def draw(part: Part) -> Move:
        return Move(chance.choice(unusual[part] if unusual[part] and not chance.randrange(4) else parts[part]))

    drawn = (
        Attack(*(tuple(draw(part) for _ in range(_LENGTH)) if parts[part] else () for part in PARTS))
        for _ in itertools.count()
    )
    yield from itertools.islice(itertools.chain(usual, drawn), count)


def _most(parts: Mapping[Part, Sequence[str]]) -> int:
    return max(1, *map(len, parts.values()))


def _script(parts: Mapping[Part, Sequence[str]], order: Sequence[int]) -> Attack:
    """Return the script whose moves have these numbers in each part."""
    return Attack(
        *(tuple(Move(parts[part][number % len(parts[part])]) for number in order if parts[part]) for part in PARTS)
    )


def _shorter(attack: Attack) -> Iterator[Attack]:
    """Yield scripts with fewer moves: without a part, with half of it, then with one move less."""
    for part in PARTS:
        moves = attack.part(part)
        if moves:
            yield _with_part(attack, part, ())
        if len(moves) > 1:
            for left in (moves[: len(moves) // 2], moves[len(moves) // 2 :]):
                yield _with_part(attack, part, left)
            for place in range(len(moves)):
                yield _with_part(attack, part, (*moves[:place], *moves[place + 1 :]))


def _with_part(attack: Attack, part: Part, moves: tuple[Move, ...]) -> Attack:
    return Attack(*(moves if one == part else attack.part(one) for one in PARTS))


def _names(machine: Verifiable) -> dict[type, str]:
    if not isinstance(machine, AgentExecutor):
        return {}
    memory = f"the memory {type(machine.memory).__name__}"
    return {
        CallAgent: f"the agent function {getattr(machine.agent.function, '__qualname__', '')}".rstrip(),
        LoadMemory: memory,
        SaveMemory: memory,
    }


def _describe_deadlock(error: DeadlockError, events: Sequence[Event[Any]], watchdog: Watchdog) -> str:
    calls = open_calls(events)
    who = ", ".join(dict.fromkeys(map(watchdog.describe_call, calls))) or "the run"
    return watchdog.describe(who, ", ".join(error.own_places) or str(error))
