"""Plans of executors whose tools, memories, observers and policies start runs, sleep, raise and call models."""

import asyncio
import inspect
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast, final

from hypothesis import strategies as st
from typing_extensions import Unpack

import graphexec as gx
from graphexec import Limits, effects, kernel, runtime, testing, tools
from graphexec.agents import RuleName
from graphexec.effects import agent_limits
from graphexec.integrations import langchain
from graphexec.kernel import Meter
from graphexec.messages import ModelReply, ModelRequest, ToolCall, Usage
from graphexec.runtime.calls import Scope
from graphexec.runtime.handlers import RunSettings
from graphexec.runtime.io import run_sync as run_coroutine
from graphexec.runtime.threads import MOST_REPORTS, last_call, threads_since
from graphexec.testing.failures import Readable
from graphexec.testing.scripted import ScriptedError, pause
from tests.checks.scripts import AgentScript, Call, ScriptedTurn, TurnKind
from tests.checks.strategies import agent_scripts
from tests.executor.actors import snapshot_in
from tests.stopwatch import eventually

AgentKind: TypeAlias = Literal["function", "async function", "tool calling", "react", "structured"]
NodeKind: TypeAlias = Literal["review", "insist", "vote", "last word", "perform"]
ActKind: TypeAlias = Literal["nothing", "block", "wait", "raise", "run", "report"]
EntryPoint: TypeAlias = Literal["run", "stream", "iter", "arun", "astream", "aiter", "atokens"]
ENTRY_POINTS: tuple[EntryPoint, ...] = ("arun", "arun", "astream", "aiter", "atokens", "run", "stream", "iter")
NODES: tuple[NodeKind, ...] = ("review", "insist", "vote", "last word", "perform")

# The scripts contain calls of unknown tools, too.
PLAIN = ("echo", "nap", "hang", "stubborn", "late", "fail", "flaky", "direct", "report")
ON_ERROR: tuple[Literal["observe", "raise"], ...] = ("observe", "observe", "observe", "raise")
MEMORIES: tuple[Literal["none", "buffer"], ...] = ("none", "buffer")
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
    memory: Literal["none", "buffer"] | Act = "none"
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
        cost=draw(st.sampled_from((None, None, 20.0, 4.0))),
        seconds=draw(st.sampled_from((None, None, 20, 20, 6, 1, 0) if seconds else (None, None, None, 0, 100))),
        fan_out=draw(st.sampled_from((8, 8, 8, 3, 2, 0))),
        restarts=draw(st.sampled_from((None, 0, 1, 3))),
        depth=draw(st.sampled_from((8, 8, 3, 2, 1, 0))),
        nested_runs=draw(st.sampled_from((1_000, 1_000, None, 5, 2, 0))),
        meters={Meter("reviews"): draw(st.none() | st.integers(0, 3))},
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


# ---- runs of the executors of a plan, and the record of each run's events and model calls


class CrashError(Exception):
    """The end of the process in the middle of a run."""


@dataclass
class Trail:
    """The record of one run, resumptions included."""

    number: int
    # The ids of the runs, from this one to the outermost.
    path: tuple[str, ...]
    deepest: int
    moves: int = 0
    # The charges of this run's own effects, and of the reserved ones among them.
    asked: Counter[str] = field(default_factory=Counter[str])
    reserved: Counter[str] = field(default_factory=Counter[str])
    visit: int = 0
    widest: int = 0
    spent: gx.Spent = field(default_factory=gx.Spent)
    # `Done`, `Failed`, or `None` for an abandoned run.
    end: kernel.Done[Any] | kernel.Failed | None = None
    # The position of its last event among the events of all runs.
    last: int = -1
    restarts: int = 0

    @property
    def depth(self) -> int:
        return len(self.path) - 1


@dataclass
class Spending:
    """One model call of the runs in `path`, the innermost first: admitted after event `since`, counted at `until`."""

    path: tuple[str, ...]
    depth: int
    key: object
    since: int
    tokens: int = 1
    until: float = math.inf
    # Beyond the limits of its own run.
    reserved: bool = False
    # The cost of a callable agent is unknown, so no cost limit stops it.
    has_price: bool = True


@dataclass(frozen=True)
class Duration:
    """The seconds until a run of an executor returned, including `blocked` ones in which the loop was blocked."""

    number: int
    seconds: float
    blocked: float
    # The seconds that the outer run had left.
    left: float | None


# The length in seconds of an endless pause if nothing would cut it.
LONG = 64.0

# The most runs of one plan: after that, tools and observers start no more, as a tree of eight levels takes too long.
MOST_RUNS = 30


@gx.tool
def template(text: str, call: gx.CallContext[Any]) -> str:
    """Do something."""
    return text


def make_tool(name: str, function: Callable[..., Any], **settings: Any) -> tools.AnyTool:
    is_async = inspect.iscoroutinefunction(function)
    return replace(template, name=name, function=function, is_async=is_async, **settings)


@final
class World:
    """The executors of a plan, and the records of their runs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.is_async = plan.entry_point.startswith("a")
        self.clock = testing.VirtualClock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.blocked = 0.0
        self.trails: dict[str, Trail] = {}
        self.spendings: list[Spending] = []
        self.durations: list[Duration] = []
        self.turns: Counter[object] = Counter()
        self.runs = 0
        self.position = 0
        self.events: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.executors: dict[int, gx.AgentExecutor] = {}
        self.left: list[asyncio.Task[None]] = []

    # ---- running the first executor

    def drive(self) -> object:
        """Run the first executor, resuming it after crashes; return its result, or the exception that ended it."""
        before = last_call()
        try:
            return self.clock.run(self._drive()) if self.is_async else run_coroutine(self._drive())
        finally:
            # Abandoned runs in threads end at their next step.
            eventually(lambda: not threads_since(before), "the thread of an abandoned run does not end")

    async def _drive(self) -> object:
        self.loop = asyncio.get_running_loop() if self.is_async else None
        start: Any = "q"
        while True:
            try:
                with self.measure(0) if self.is_async else nullcontext():
                    return await self._enter(start)
            except Exception as error:  # noqa: BLE001 - judged by the caller
                start = self._resume_after(error)
                if start is None:
                    return error

    def _resume_after(self, error: Exception) -> gx.Snapshot | None:
        if not isinstance(error, CrashError):
            return None
        snapshot = snapshot_in(error)
        self.trails[snapshot.run_id].restarts += 1
        return gx.Snapshot.from_json(snapshot.to_json(), self.executors[0].graph).restarted()

    async def _enter(self, start: Any) -> object:
        executor = self.executors[0]
        match self.plan.entry_point:
            case "run":
                return executor.run(start)
            case "stream":
                return list(executor.stream(start))[-1]
            case "iter":
                turns = langchain.iterate(executor, start)
                list(turns)
                return turns.result
            case "arun":
                return await executor.arun(start)
            case "astream" | "atokens" as way:
                async with aclosing(executor.astream(start, tokens=way == "atokens")) as events:
                    return [event async for event in events][-1]
            case "aiter":
                turns = langchain.iterate(executor, start)
                async for _ in turns:
                    pass
                return turns.result

    # ---- the behaviour of user code

    @property
    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    async def pause(self, seconds: float, *, stubborn: bool = False) -> None:
        """Sleep on the virtual clock; do nothing on another loop, which would wait in real time."""
        if not self._on_loop:
            return
        # Python cannot close a stream whose model ignores cancellation; this would be reported when the clock ends.
        stubborn = stubborn and self.plan.entry_point != "atokens"
        endless = math.isinf(seconds) and self.plan.agents[0].limits.seconds is None
        await pause(LONG if endless else seconds, stubborn=stubborn)

    def act(self, act: Act) -> str:
        self.events[f"act {act.kind}"] += 1
        match act.kind:
            case "block":
                with self.lock:
                    self.clock.advance(act.seconds)
                    self.blocked += act.seconds
            case "raise":
                raise ScriptedError("as planned")
            case "run":
                return self.run(act.executor)
            case "report":
                # A report in a thread waits for the loop, which a sync run on the loop's thread blocks.
                if self.events["act report"] <= MOST_REPORTS // 2:
                    runtime.report("news")
            case "nothing" | "wait":
                pass
        return act.kind

    async def aact(self, act: Act) -> str:
        if act.kind == "wait":
            await self.pause(act.seconds)
        if act.kind == "run":
            return await self.arun(act.executor)
        return self.act(act)

    def may_start(self) -> bool:
        """Return whether another run may be started, and count it."""
        with self.lock:
            self.runs += 1
            return self.runs <= MOST_RUNS

    @contextmanager
    def measure(self, number: int) -> Generator[None, None, None]:
        began, blocked = self.clock.seconds, self.blocked
        host = runtime.current_call()
        left = None if host is None else host.seconds_left
        try:
            yield
        finally:
            self.durations.append(Duration(number, self.clock.seconds - began, self.blocked - blocked, left))

    def run(self, number: int, **options: Unpack[RunSettings]) -> str:
        if not self.may_start():
            return "enough"
        with self.measure(number):
            return str(self.executors[number].run("q", **options).output)

    async def arun(self, number: int, **options: Unpack[RunSettings]) -> str:
        if not self.may_start():
            return "enough"
        with self.measure(number):
            return str((await self.executors[number].arun("q", **options)).output)

    # ---- records

    def record(self, number: int, event: Any) -> None:
        with self.lock:
            self.position += 1
            call = event.call
            trail = self.trails.get(call.run_id) or self._trail(number, call)
            self.trails[call.run_id] = trail
            match event:
                case kernel.Entered():
                    trail.visit = 0
                case kernel.Asked():
                    trail.visit += 1
                    of = self.executors[number].graph[event.node]
                    for meter, amount in event.effect.charges.items():
                        trail.asked[meter.name] += amount
                        if of.grace is not None:
                            trail.reserved[meter.name] += amount
                    if of.most is None:
                        trail.widest = max(trail.widest, trail.visit)
                case kernel.Answered():
                    for spending in self.spendings:
                        if spending.key == call.id and spending.until == math.inf:
                            spending.until = self.position
                case kernel.Moved():
                    trail.moves += 1
                case kernel.Done() | kernel.Failed():
                    trail.end = event
                    trail.spent = event.spent
                case _:
                    pass
            trail.last = self.position

    def _trail(self, number: int, call: gx.CallContext[Any]) -> Trail:
        scope: Any = call.scope
        path = [scope.run_id]
        while scope.host is not None:
            scope = scope.host.scope
            path.append(scope.run_id)
        most = self.plan.agents[number].limits.depth or 0
        outer = [self.trails[one] for one in path[1:]]
        deepest = min([len(path) - 1 + most, *(one.deepest for one in outer)])
        return Trail(number, tuple(path), deepest)

    def take_turn(self, number: int) -> tuple[ScriptedTurn, int, int]:
        """Record a model call, and return its turn."""
        call = runtime.current_call()
        assert call is not None, "models are called in calls"
        assert isinstance(call.scope, Scope)
        agent = self.plan.agents[number]
        with self.lock:
            trail = self.trails[call.run_id]
            turn = self.turns[call.run_id]
            self.turns[call.run_id] += 1
            tokens = agent.tokens[min(turn, len(agent.tokens) - 1)]
            reserved = self.executors[trail.number].graph[call.node].grace is not None
            spending = Spending(trail.path, trail.depth, call.id, trail.last, max(tokens, 1), reserved=reserved)
            spending.has_price = not isinstance(call.effect, effects.CallAgent)
            self.spendings.append(spending)
            return agent.script.turns[min(turn, len(agent.script.turns) - 1)], turn, tokens


class Actor:
    """A model that follows its script in the format of its agent."""

    def __init__(self, world: World, number: int, plan: AgentPlan) -> None:
        self.world, self.number, self.plan = world, number, plan
        self.instant = plan.instant

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self._reply(*self.world.take_turn(self.number))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        turn, number, tokens = self.world.take_turn(self.number)
        await self.world.pause(turn.seconds, stubborn=turn.stubborn)
        return self._reply(turn, number, tokens)

    def _reply(self, turn: ScriptedTurn, number: int, tokens: int) -> ModelReply:
        # Invalid usage, as a faulty provider reports it.
        invalid: Any = 0.5
        usage = Usage(tokens // 2, tokens - tokens // 2) if tokens >= 0 else Usage(invalid, 0)
        match turn.kind:
            case "answer":
                reply = self._answer(f"answer {number}")
            case "act":
                reply = self._act(turn)
            case "empty":
                reply = ModelReply("")
            case "garbage":
                reply = ModelReply('{"action": 1', (ToolCall("x", "echo", '{"text": 1'),))
            case "nonsense":
                # An invalid reply, as a user's faulty model returns it.
                return cast("ModelReply", None)
            case "model error":
                raise gx.ModelError("the model failed, as scripted")
            case "exception":
                raise ScriptedError("as scripted")
        return replace(reply, usage=usage)

    def _answer(self, text: str) -> ModelReply:
        structured = json.dumps({"action": "final_answer", "answer": text})
        formats = {"react": f"Final Answer: {text}", "structured": structured}
        return ModelReply(formats.get(self.plan.kind, text))

    def _act(self, turn: ScriptedTurn) -> ModelReply:
        first = turn.calls[0].action
        if self.plan.kind == "react":
            return ModelReply(f"Action: {first.tool}\nAction Input: {turn.calls[0].argument}")
        if self.plan.kind == "structured":
            return ModelReply(json.dumps({"action": first.tool, "action_input": first.tool_input}))
        calls = [ToolCall(f"c{at}", one.tool, json.dumps(one.action.tool_input)) for at, one in enumerate(turn.calls)]
        return ModelReply("", tuple(calls), finish_reason="tool_calls")
