"""Attacks on a run as plain data, and the adversary that carries them out by answering its effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import ModelError
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.graph import Graph
from graphexec.runtime.handlers import Handler, Handlers
from graphexec.runtime.io import IO
from graphexec.testing.explorer.oracle import Oracle
from graphexec.testing.failures import Readable
from graphexec.testing.scripted import ScriptedError, delay, pause

# The parts of an attack: answers to model calls, to tool calls, and to all other effects.
Part: TypeAlias = Literal["turns", "results", "others"]


@dataclass(frozen=True, slots=True, repr=False)
class Move(Readable):
    """One answer: a reply by its number, or an unusual one by a negative number; `None` raises an exception.

    The numbers go round: the one after an effect's last reply is its first again.
    """

    number: int | None
    seconds: float = 0.0
    stubborn: bool = False

    def __repr__(self) -> str:
        return f"{'raises' if self.number is None else self.number}{delay(self.seconds, stubborn=self.stubborn)}"


@dataclass(frozen=True, slots=True, repr=False)
class Attack(Readable):
    """The answers to each part of a run's effects. The last move of each part repeats endlessly."""

    moves: Mapping[Part, tuple[Move, ...]]

    def __repr__(self) -> str:
        return ", ".join(f"{part}=({', '.join(map(repr, moves))})" for part, moves in self.moves.items())

    @property
    def seconds(self) -> float:
        """The sum of the seconds of its moves."""
        return sum(move.seconds for moves in self.moves.values() for move in moves)

    def at_once(self) -> Attack:
        """Return the attack without its delays."""
        return Attack({part: tuple(Move(move.number) for move in moves) for part, moves in self.moves.items()})


@dataclass
class Adversary:
    """Answers the effects of one run according to an attack. `seen` counts the effects that each list answered."""

    attack: Attack
    oracle: Oracle
    seen: Counter[Part] = field(default_factory=Counter[Part])
    raised: list[BaseException] = field(default_factory=list[BaseException])
    # The effects and their answers, shown in a failure.
    log: list[str] = field(default_factory=list[str])

    def handlers(self, graph: Graph[Any, Any]) -> Handlers:
        """Return handlers with which this adversary answers all effects of the graph."""
        handler = Handler(self._carry_out, instant=not self.attack.seconds)
        return Handlers(dict.fromkeys((kind for node in graph for kind in node.effects), handler))

    async def _carry_out(self, effect: Effect[Any], call: CallContext[Any], io: IO) -> Any:
        del call
        move = self._next(effect)
        # A sync run has no virtual time.
        if move.seconds and not io.blocking:
            await pause(move.seconds, stubborn=move.stubborn)
        return self._answer(effect, move.number)

    def _next(self, effect: Effect[Any]) -> Move:
        part = part_of(type(effect))
        moves = self.attack.moves.get(part, ())
        number = self.seen[part]
        self.seen[part] += 1
        return moves[min(number, len(moves) - 1)] if moves else Move(0)

    def _answer(self, effect: Effect[Any], number: int | None) -> Any:
        if number is None:
            error = ModelError("as scripted") if MODEL_CALLS in effect.charges else ScriptedError("as scripted")
            self.raised.append(error)
            self.log.append(f"{type(effect).__name__}: raises {type(error).__name__}")
            raise error
        replies = (self.oracle.unusual(effect) if number < 0 else ()) or self.oracle(effect)
        reply = replies[number % len(replies)]
        self.log.append(f"{type(effect).__name__}: {reply.name}")
        return reply.value


def part_of(kind: type[Effect[Any]]) -> Part:
    """Return the part of an attack that answers effects of this class."""
    if MODEL_CALLS in kind.charges:
        return "turns"
    return "results" if TOOL_CALLS in kind.charges else "others"


def numbers_by_part(oracle: Oracle) -> dict[Part, range]:
    """Return the numbers of the replies from which an attack can choose, by the parts that a machine asks for."""
    found: dict[Part, range] = {}
    for kind, numbers in oracle.numbers.items():
        part = part_of(kind)
        before = found.get(part, numbers)
        found[part] = range(min(before.start, numbers.start), max(before.stop, numbers.stop))
    return found
