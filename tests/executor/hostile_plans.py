"""Plans of executors whose tools, memories, observers and policies start runs, sleep, raise and call models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from graphexec import Limits
from graphexec.agents import RuleName
from graphexec.effects import agent_limits
from graphexec.testing import agent_scripts
from graphexec.testing.failures import Readable
from graphexec.testing.scripts import AgentScript, Call, ScriptedTurn, TurnKind

AgentKind: TypeAlias = Literal["function", "async function", "tool calling", "react", "structured"]
NodeKind: TypeAlias = Literal["review", "insist", "vote", "last word", "perform"]
ActKind: TypeAlias = Literal["nothing", "block", "wait", "raise", "run", "report"]
EntryPoint: TypeAlias = Literal["run", "stream", "iter", "arun", "astream", "aiter", "atokens"]
ENTRY_POINTS: tuple[EntryPoint, ...] = ("arun", "arun", "astream", "aiter", "atokens", "run", "stream", "iter")
NODES: tuple[NodeKind, ...] = ("review", "insist", "vote", "last word", "perform")

# The scripts contain calls of unknown tools, too.
PLAIN = ("echo", "nap", "hang", "stubborn", "late", "fail", "flaky", "direct", "report")
ON_ERROR: tuple[Literal["observe", "raise"], ...] = ("observe", "observe", "observe", "raise")
MEMORIES: tuple[Literal["none", "buffer", "summary"], ...] = ("none", "none", "buffer", "summary")
RULES: tuple[tuple[RuleName, ...], ...] = ((), ("no_dummies", "no_repeats"), ("no_immediate_repeats",))
KINDS: tuple[TurnKind, ...] = ("act", "answer", "empty", "garbage", "nonsense", "model error", "exception")
STARTING = ("run", "sync", "thread", "tasks", "as", "stream", "batch", "leave", "catch", "again")


@dataclass(frozen=True, slots=True, repr=False)
class Act(Readable):
    """The behaviour of user code: `wait` sleeps asynchronously, `block` blocks the loop."""

    kind: ActKind = "nothing"
    executor: int = 0
    seconds: float = 0.0

    def __repr__(self) -> str:
        more = {"run": f" {self.executor}", "wait": f" {self.seconds:g} s", "block": f" {self.seconds:g} s"}
        return f"{self.kind}{more.get(self.kind, '')}"


NOTHING_DONE = Act()


@dataclass(frozen=True, slots=True, repr=False)
class ObserverPlan(Readable):
    """An observer that acts at every n-th event. The exception of a `strict` one ends the run."""

    act: Act
    every: int = 1
    strict: bool = False

    def __repr__(self) -> str:
        return f"{self.act!r} at every {self.every}{', strict' if self.strict else ''}"


@dataclass(frozen=True)
class AgentPlan:
    """One executor. Each turn of its model reports the next number of `tokens`; the last number repeats."""

    script: AgentScript
    kind: AgentKind = "tool calling"
    tokens: tuple[int, ...] = (0,)
    limits: Limits = field(default_factory=Limits)
    at_once: int = 64
    early: Literal["force", "generate"] = "force"
    return_direct: Literal["single", "any"] = "single"
    parsing: bool | Act = True
    on_error: Literal["observe", "raise"] | Act = "observe"
    memory: Literal["none", "buffer", "summary"] | Act = "none"
    observers: tuple[ObserverPlan, ...] = ()
    nodes: tuple[NodeKind, ...] = ()
    # The behaviour of the handler of `AskHuman`, and of the opaque node.
    person: Act = NOTHING_DONE
    attempts: int = 1
    instant: bool = False
    # Of an agent that may have them.
    rules: tuple[RuleName, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The agents, and the way to run the first one; its run crashes at these events, and is resumed."""

    agents: tuple[AgentPlan, ...]
    entry_point: EntryPoint = "arun"
    crashes: tuple[int, ...] = ()


@st.composite
def acts(draw: st.DrawFn, agents: int) -> Act:
    kinds: tuple[ActKind, ...] = ("nothing", "run", "run", "run", "nothing", "raise", "wait", "block", "report")
    kind = draw(st.sampled_from(kinds))
    seconds = draw(st.sampled_from((0.5, 4.0, math.inf))) if kind == "wait" else 0.5
    return Act(kind, draw(st.integers(0, agents - 1)), seconds)


@st.composite
def some_limits(draw: st.DrawFn, *, seconds: bool) -> Limits:
    """Return low limits or none; iterations or model calls are always limited."""
    iterations = draw(st.sampled_from((1, 2, 3, 4, 6, 6, 0, None)))
    model_calls = st.integers(0, 8) if iterations is None else st.none() | st.integers(0, 12)
    return agent_limits(
        iterations=iterations,
        model_calls=draw(model_calls),
        tool_calls=draw(st.none() | st.integers(0, 12)),
        tokens=draw(st.none() | st.integers(0, 40)),
        cost=draw(st.none() | st.just(20.0)),
        seconds=draw(st.sampled_from((None, None, 20, 20, 6, 1, 0) if seconds else (None, None, None, 0, 100))),
        fan_out=draw(st.sampled_from((8, 8, 8, 3, 2, 0))),
        restarts=draw(st.sampled_from((None, 0, 1, 3))),
        depth=draw(st.sampled_from((8, 8, 3, 2, 1, 0))),
        nested_runs=draw(st.sampled_from((1_000, 1_000, None, 5, 2, 0))),
        budgets={"reviews": draw(st.none() | st.integers(0, 3))},
    )


@st.composite
def agent_plans(draw: st.DrawFn, agents: int, *, is_async: bool) -> AgentPlan:
    starting = [f"{how}_{number}" for how in STARTING for number in range(agents)]
    # Most agents start runs, and most of their turns are valid.
    calls = draw(st.sampled_from((starting, [*starting, *PLAIN], PLAIN)))
    kinds: list[TurnKind] = ["act", "answer", "act", "act", "answer", *KINDS]
    script = draw(agent_scripts(calls, delays=is_async, max_turns=3, kinds=kinds))
    first = draw(st.lists(st.sampled_from(starting), max_size=3))
    opening = [ScriptedTurn("act", tuple(Call(name, "x") for name in first))] if first else []
    parsing: bool | Act = draw(st.sampled_from((True, True, True, False)) | acts(agents))
    return AgentPlan(
        AgentScript((*opening, *script.turns)),
        draw(st.sampled_from(("tool calling", "function", "async function", "react", "structured"))),
        tuple(draw(st.lists(st.sampled_from((0, 0, 0, 1, 1, 7, 7, 30, -1)), min_size=1, max_size=3))),
        draw(some_limits(seconds=is_async)),
        draw(st.sampled_from((64, 2, 1))),
        draw(st.sampled_from(("force", "generate"))),
        draw(st.sampled_from(("single", "any"))),
        parsing,
        draw(st.sampled_from(ON_ERROR) | acts(agents)),
        draw(st.sampled_from(MEMORIES) | acts(agents)),
        tuple(draw(st.lists(observer_plans(agents), max_size=2))),
        tuple(draw(st.lists(st.sampled_from(NODES), max_size=2, unique=True))),
        draw(acts(agents)),
        draw(st.sampled_from((1, 1, 3))),
        draw(st.booleans()),
        draw(st.sampled_from(RULES)),
    )


def observer_plans(agents: int) -> st.SearchStrategy[ObserverPlan]:
    return st.builds(ObserverPlan, acts(agents), st.sampled_from((1, 5, 20)), st.sampled_from((False, False, True)))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    entry_point: EntryPoint = draw(st.sampled_from(ENTRY_POINTS))
    count = draw(st.integers(1, 3))
    agents = draw(st.tuples(*(agent_plans(count, is_async=entry_point.startswith("a")) for _ in range(count))))
    crashes = draw(st.lists(st.integers(1, 60), max_size=3)) if draw(st.booleans()) else []
    return Plan(agents, entry_point, tuple(crashes))
