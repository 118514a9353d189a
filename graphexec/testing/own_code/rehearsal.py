"""Runs that call the user's code with scripted models, and check that each run ends and has no faults."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from graphexec.effects import AskHuman, CallAgent, CallTool, LoadMemory, ModelEffect, RunGraph, SaveMemory
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.stepping import begin
from graphexec.runtime.handlers import Handlers
from graphexec.runtime.io import IO
from graphexec.runtime.runner import astream, stream
from graphexec.testing.adversary import Adversary, Attack, Move, Part
from graphexec.testing.clock import VirtualClock, loop_time
from graphexec.testing.failures import DeadlockError
from graphexec.testing.own_code.faults import check_run, open_calls
from graphexec.testing.own_code.watchdog import HangError
from graphexec.testing.runs import BrokenPromiseError, RunReport, report_run
from graphexec.testing.scripted import ScriptedTool
from graphexec.testing.setup import Trial, Verifiable
from graphexec.verify import Bounds, verify

# The number of moves in a script: enough to find errors that occur late.
_LENGTH: Final = 16

# The number of attempts to shorten a failing script.
_ATTEMPTS: Final = 60

# The numbers of the possible replies.
Numbers: TypeAlias = Mapping[Part, range]


@final
class Rehearsal:
    """Runs of one machine that call the user's code.

    Models and people are scripted, and so are the effects of `replies`, those without a handler, and all effects of a
    bare graph.
    """

    def __init__(
        self, machine: Verifiable, trial: Trial, replies: Mapping[type[Effect[Any]], Sequence[object]] | None
    ) -> None:
        self.machine, self.trial = machine, trial
        self.scripted = {kind for node in trial.graph for kind in node.effects}
        if isinstance(machine, AgentExecutor):
            answered = {*machine.run_context.handlers}
            for handlers in trial.graph.find_settings(Handlers):
                answered |= handlers.keys()
            models = {kind for kind in self.scripted if issubclass(kind, (ModelEffect, RunGraph))}
            self.scripted &= {*models, AskHuman, *(replies or {}), *(self.scripted - answered)}
            agent = f"the agent function {getattr(machine.agent.function, '__qualname__', '')}".rstrip()
            memory = f"the memory {type(machine.memory).__name__}"
            trial.watchdog.names = {CallAgent: agent, LoadMemory: memory, SaveMemory: memory}

    def run_scripts(self, examples: int) -> None:
        """Run `examples` scripts, async and sync. Raises `AssertionError` for the first fault, with its script."""
        __tracebackhide__ = True
        certificate = verify(self.trial.graph, self.trial.limits).certificate
        assert certificate is not None, "a proved machine has a certificate"
        for attack in scripts(self.trial.numbers, examples):
            found = self._find_fault(attack, certificate.bounds)
            if found is not None:
                raise AssertionError(str(self._shrink(attack, found, certificate.bounds)))

    def _find_fault(self, attack: Attack, bounds: Bounds) -> BrokenPromiseError | None:
        """Return the first fault of the user's code under a script, with its replies."""
        try:
            run = self.play(attack)
            check_run(run, self.trial, bounds)
            # Virtual time in an async run would be real time in a sync run.
            if run.seconds <= self.trial.watchdog.patience:
                check_run(self.play(attack, is_async=False), self.trial, bounds)
        except BrokenPromiseError as fault:
            replies = self.trial.watchdog.describe_replies()
            return BrokenPromiseError(fault.who, f"{fault.fact}{replies}", fault.remedy)
        return None

    def _shrink(self, attack: Attack, found: BrokenPromiseError, bounds: Bounds) -> BrokenPromiseError:
        """Return the fault in the same code under the shortest script found."""
        shorter = _make_shorter(attack)
        for _ in range(_ATTEMPTS):
            if (smaller := next(shorter, None)) is None:
                break
            again = self._find_fault(smaller, bounds)
            if again is not None and again.who == found.who:
                found, shorter = again, _make_shorter(smaller)
        return found

    def play(self, attack: Attack, *, is_async: bool = True) -> RunReport:
        """Run the machine: async on a virtual clock, or sync in real time."""
        trial, watchdog, adversary = self.trial, self.trial.watchdog, Adversary(attack, self.trial.oracle)
        scripted, clock = adversary.handlers(trial.graph), loop_time if is_async else time.monotonic
        start = begin(trial.graph, trial.start)
        if isinstance(self.machine, AgentExecutor):
            executor = self._replace_handlers(self.machine, scripted, clock)
            made = (executor.astream if is_async else executor.stream)(start, context=trial.context)
        else:
            drive = astream if is_async else stream
            made = drive(
                trial.graph, start, overrides=scripted, limits=trial.limits, clock=clock, context=trial.context
            )
        watchdog.log = adversary.log
        watchdog.uncharged.clear()
        # Abandoned calls of an earlier run may still be open.
        watchdog.open.clear()
        report = report_run(trial, adversary, VirtualClock(patience=2 * watchdog.patience), made)
        if isinstance(report.error, DeadlockError):
            who = ", ".join(dict.fromkeys(map(watchdog.describe_call, open_calls(report.events)))) or "the run"
            place = ", ".join(report.error.own_places) or str(report.error)
            raise HangError(watchdog.describe_hang(who, place)) from None
        return dataclasses.replace(report, uncharged=tuple(watchdog.uncharged))

    def _replace_handlers(
        self, machine: AgentExecutor, scripted: Handlers, clock: Callable[[], float]
    ) -> AgentExecutor:
        """Return the executor with scripted models, people and tools (`scripted_tool`), and a watch over its calls."""
        own = machine.run_context
        overrides = Handlers({kind: scripted[kind] for kind in self.scripted})
        handlers = Handlers({**own.handlers, **overrides})
        stand_ins = {name for name, one in machine.tools.items() if isinstance(one, ScriptedTool)}
        if CallTool not in self.scripted and stand_ins:
            usual = own.handlers[CallTool]

            async def answer(effect: CallTool, call: CallContext[Any], io: IO) -> Any:
                handler = scripted[CallTool] if effect.name in stand_ins else usual
                return await handler.answer(effect, call, io)

            handlers[CallTool] = dataclasses.replace(usual, answer=answer)

        @contextlib.contextmanager
        def around_call(call: CallContext[Any]) -> Generator[None]:
            around = contextlib.nullcontext() if own.around_call is None else own.around_call(call)
            with self.trial.watchdog.around_call(call), around:
                yield

        changed = machine.with_limits(self.trial.limits)
        context = dataclasses.replace(
            changed.run_context, handlers=handlers, clock=clock, around_call=around_call, overrides=overrides
        )
        return changed.with_context(context)


def repetitions(numbers: Numbers, *, unusual: bool = False) -> list[Attack]:
    """Return the scripts that repeat a single reply; with `unusual`, also each unusual one."""
    least = min((one.start for one in numbers.values()), default=0) if unusual else 0
    return [_script(numbers, [number]) for number in range(least, _most(numbers))]


def scripts(numbers: Numbers, count: int) -> Iterator[Attack]:
    """Yield `count` scripts: each reply alone, unusual ones in turn, some pairs in turn, then random ones."""
    most = _most(numbers)
    pairs = [[one, other] * (_LENGTH // 2) for one in range(most) for other in range(most) if one != other]
    # Each script begins with other unusual replies, because a run may end with one.
    begun = [
        Attack({**_script(numbers, [first]).moves, part: tuple(map(Move, [*unusual[first:], *unusual[:first]]))})
        for part, one in numbers.items()
        for unusual in [range(-1, one.start - 1, -1)]
        for first in range(len(unusual))
    ]
    begun = begun[:: math.ceil(2 * len(begun) / count) or 1]
    # Seeded, so that the scripts are reproducible.
    chance = random.Random(0)  # noqa: S311 - not used for security

    def draw(one: range) -> Move:
        return Move(chance.choice(range(one.start, 0) if one.start and not chance.randrange(8) else range(one.stop)))

    usual = [*repetitions(numbers), *begun, *(_script(numbers, pair) for pair in pairs)]
    drawn = (
        Attack({part: tuple(draw(one) for _ in range(_LENGTH)) for part, one in numbers.items()})
        for _ in itertools.count()
    )
    yield from itertools.islice(itertools.chain(usual[: max(most + len(begun), count // 2)], drawn), count)


def _most(numbers: Numbers) -> int:
    return max((one.stop for one in numbers.values()), default=1)


def _script(numbers: Numbers, order: Sequence[int]) -> Attack:
    """Return the script that gives the replies with these numbers in each part."""
    return Attack(dict.fromkeys(numbers, tuple(map(Move, order))))


def _make_shorter(attack: Attack) -> Iterator[Attack]:
    """Yield scripts with fewer moves: without a part, with half of it, then with one move less."""
    for part, moves in attack.moves.items():
        half = len(moves) // 2
        shorter = [(), moves[:half], moves[half:], *((*moves[:at], *moves[at + 1 :]) for at in range(len(moves)))]
        for left in dict.fromkeys(shorter):
            if len(left) < len(moves):
                yield Attack({**attack.moves, part: left})
