"""Attacks on a run as plain data, and the adversary that carries them out by answering its effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphexec.actions import Run
from graphexec.effects import MODEL_CALLS, TOOL_CALLS, AskHuman, CallAgent, CallModel, CallTool, ModelEffect
from graphexec.errors import ModelError
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.graph import Graph
from graphexec.messages import CompletionRequest
from graphexec.runtime.handlers import Handler, Handlers
from graphexec.runtime.io import IO
from graphexec.testing.explorer.oracle import Oracle, Reply
from graphexec.testing.explorer.temporal import UNKNOWN
from graphexec.testing.failures import Readable
from graphexec.testing.scripted import ScriptedError, delay, pause

# The lists of an attack: answers to model calls, to tool calls, and to all other effects.
Part: TypeAlias = Literal["turns", "results", "others"]
PARTS: tuple[Part, ...] = ("turns", "results", "others")

RAISES = "raises"

# The number of different replies to a user's effect in an attack.
_OTHERS = 4


@dataclass(frozen=True, slots=True, repr=False)
class Move(Readable):
    """One answer: the name of a class of replies, or `raises`, or a number for a user's effect.

    If the effect has no such class of replies, the first one is used.
    """

    reply: str
    seconds: float = 0.0
    stubborn: bool = False

    def __repr__(self) -> str:
        return f"{self.reply}{delay(self.seconds, stubborn=self.stubborn)}"


@dataclass(frozen=True, slots=True, repr=False)
class Attack(Readable):
    """The answers to each model call, tool call and other effect. The last move of each list repeats endlessly."""

    turns: tuple[Move, ...]
    results: tuple[Move, ...] = ()
    others: tuple[Move, ...] = ()

    def __repr__(self) -> str:
        parts = [f"{part}=({', '.join(map(repr, moves))})" for part in PARTS if (moves := self.part(part))]
        return ", ".join(parts)

    def describe(self) -> str:
        """Return the attack in words."""
        return f"with the replies {self!r}" if repr(self) else "with any replies"

    def part(self, part: Part) -> tuple[Move, ...]:
        """Return the moves of one of its lists."""
        return {"turns": self.turns, "results": self.results, "others": self.others}[part]

    @property
    def seconds(self) -> float:
        """The sum of the seconds of its moves."""
        return sum(move.seconds for part in PARTS for move in self.part(part))

    def at_once(self) -> Attack:
        """Return the attack without its delays."""
        return Attack(*(tuple(dataclasses.replace(move, seconds=0.0) for move in self.part(part)) for part in PARTS))


@dataclass
class Adversary:
    """Answers the effects of one run according to an attack. `seen` counts the effects that each list answered."""

    attack: Attack
    oracle: Oracle
    seen: dict[Part, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
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
        return self._answer(effect, move)

    def _next(self, effect: Effect[Any]) -> Move:
        part = part_of(effect)
        moves = self.attack.part(part)
        number = self.seen[part]
        self.seen[part] = number + 1
        return moves[min(number, len(moves) - 1)] if moves else Move("")

    def _answer(self, effect: Effect[Any], move: Move) -> Any:
        if move.reply == RAISES:
            error = ModelError("as scripted") if part_of(effect) == "turns" else ScriptedError("as scripted")
            self.raised.append(error)
            self.log.append(f"{type(effect).__name__}: raises {type(error).__name__}")
            raise error
        replies = self.oracle(effect)
        named = [reply for reply in (*replies, *self.oracle.unusual(effect)) if reply.name == move.reply]
        if not named:
            named = [replies[int(move.reply) % len(replies)] if move.reply.isdigit() else replies[0]]
        self.log.append(f"{type(effect).__name__}: {named[0].name}")
        return named[0].value


def part_of(effect: Effect[Any]) -> Part:
    """Return the list of an attack that answers the effect."""
    if MODEL_CALLS in effect.charges:
        return "turns"
    return "results" if TOOL_CALLS in effect.charges else "others"


def replies_by_part(
    graph: Graph[Any, Any], oracle: Oracle, tools: Sequence[str], *, decides: type[Effect[Any]] | None = None
) -> tuple[Mapping[Part, tuple[str, ...]], Mapping[Part, tuple[str, ...]]]:
    """Return the names of the classes of replies that an attack on the graph can choose from, and of unusual ones.

    `decides` is the effect by which the graph's agent decides, if it has one: `CallModel` or `CallAgent`.
    """
    asked = {kind for node in graph for kind in node.effects}
    probes: list[Effect[Any]] = []
    if CallModel in asked and decides is not CallAgent:
        probes.append(CallModel(CompletionRequest("")))
    probes += [kind(CompletionRequest("")) for kind in asked if issubclass(kind, ModelEffect) and kind is not CallModel]
    if CallAgent in asked and decides is not CallModel:
        probes.append(CallAgent(Run({})))
    if CallTool in asked:
        probes += [CallTool(name, {}) for name in (*tools, UNKNOWN)]
    names = _names_by_part(probes, oracle)
    if any(kind not in (CallAgent, CallTool) and not issubclass(kind, ModelEffect) for kind in asked):
        # The replies to users' effects are numbered.
        names["others"] = tuple(map(str, range(_OTHERS)))
    return names, _names_by_part([*probes, *([AskHuman("")] if AskHuman in asked else [])], oracle.unusual)


def _names_by_part(
    effects: Sequence[Effect[Any]], replies: Callable[[Effect[Any]], Sequence[Reply]]
) -> dict[Part, tuple[str, ...]]:
    return {
        part: tuple(dict.fromkeys(reply.name for one in effects if part_of(one) == part for reply in replies(one)))
        for part in PARTS
    }
