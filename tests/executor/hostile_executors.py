"""Build the executors of a plan: models, agents, tools, memories, observers, policies and nodes."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeAlias

import graphexec as gx
from graphexec import actions, agents, effects, messages, models, runtime, testing
from graphexec.agents.react import REACT_PROMPT
from graphexec.executor import Ready, Stopped, limit_reached
from graphexec.memory import BufferMemory
from graphexec.testing.scripted import ScriptedError
from graphexec.tools import AnyTool
from tests.executor import hostile_runs
from tests.executor.hostile_runs import Act, Actor, World, make_tool

Call: TypeAlias = gx.CallContext[Any]
REVIEWS = gx.Meter("reviews", 2)


@gx.node(when_spent=limit_reached, meters=[REVIEWS])
def review(finish: gx.AgentFinish) -> gx.AgentFinish | Ready:
    """Send every second answer back."""
    return finish if str(finish.output).endswith(("2", "4", "6")) else Ready(finish.run)


@gx.node(when_spent=limit_reached)
def insist(finish: gx.AgentFinish) -> gx.Asks[gx.AskHuman, gx.AgentFinish]:
    """Ask until the answer is approved, or a limit is used up."""
    while (yield from gx.ask(gx.AskHuman("good?"))) != "yes":
        pass
    return finish


VOTE = effects.CallModel(messages.ChatRequest((messages.UserMessage("vote"),)))


@gx.node(when_spent=limit_reached, asks=(0, 4))
def vote(finish: gx.AgentFinish) -> gx.Asks[effects.CallModel, gx.AgentFinish]:
    """Ask several models concurrently, and one of them again."""
    yield from gx.ask_all([VOTE] * (len(finish.run.steps) % 4))
    if len(finish.run.steps) % 2:
        yield from gx.ask(VOTE)
    return finish


@gx.node(when_spent=limit_reached, asks=(1, 2), grace=2.0)
def last_word(finish: gx.AgentFinish) -> gx.Asks[effects.CallModel, gx.AgentFinish]:
    """Ask beyond the limits."""
    yield from gx.ask(VOTE)
    return finish


# Retried without a wait, because a sync run would wait in real time.
retried = gx.tool(name="retried", description="Fail at first.", retries=2)(hostile_runs.template.function)


class Builder:
    """Builds one executor of a plan."""

    def __init__(self, world: World, number: int, plan: hostile_runs.AgentPlan) -> None:
        self.world, self.number, self.plan = world, number, plan
        self.model: Any = Actor(world, number, plan)
        if plan.attempts > 1:
            # A sync run would wait in real time, so its sleep does nothing.
            clock = models.Clock(sleep=lambda seconds: None, asleep=world.pause)
            options: Any = {"attempts": plan.attempts, "on": [gx.ModelError], "first_wait": 2.0, "clock": clock}
            self.model = models.retrying(self.model, **options)
        if plan.limits[gx.COST] is not None:
            self.model = models.priced(self.model, models.Price(1_000_000, 0))

    def build(self) -> gx.AgentExecutor:
        plan, world, limits = self.plan, self.world, self.plan.limits
        tools = self.tools()
        executor = gx.AgentExecutor(
            agent=self.agent(tools),
            tools=tools,
            handle_parsing_errors=self.policy(plan.parsing),
            early_stopping_method=plan.early,
            return_direct=plan.return_direct,
            handle_tool_errors=self.policy(plan.on_error),
            tool_concurrency=plan.at_once,
            memory=self.memory(),
            handlers={gx.AskHuman: self.answer_person},
            observers=[partial(world.record, self.number), *self.observers()],
        )
        # The limits of the plan are set last, as there are only a few different graphs.
        executor = self.splice_nodes(executor)
        return testing.on_loop_time(executor.with_limits(limits), world.clock)

    def agent(self, tools: list[AnyTool]) -> Any:
        match self.plan.kind:
            case "tool calling":
                # Such an agent shows no examples, and refuses the rule about them.
                rules: list[agents.RuleName] = [rule for rule in self.plan.rules if rule != "no_dummies"]
                return gx.create_tool_calling_agent(self.model, tools, rules=rules)
            case "react":
                prompt = REACT_PROMPT if self.plan.memory == "none" else REACT_PROMPT + "{chat_history}"
                return gx.create_react_agent(self.model, tools, prompt=prompt)
            case "structured":
                return gx.create_structured_agent(self.model, tools, rules=self.plan.rules)
            case "function":
                return self.decide
            case "async function":
                return self.adecide

    def decide(self, steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        turn, number, _ = self.world.take_turn(self.number)
        return turn.decision(number)

    async def adecide(self, steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        turn, number, _ = self.world.take_turn(self.number)
        await self.world.pause(turn.seconds, stubborn=turn.stubborn)
        return turn.decision(number)

    def splice_nodes(self, executor: gx.AgentExecutor) -> gx.AgentExecutor:
        """Return the executor with the nodes of the plan inserted before its answers."""

        async def perform(finish: gx.AgentFinish) -> gx.AgentFinish:
            await self.world.aact(self.plan.person)
            return finish

        nodes: dict[str, Any] = {
            "review": review,
            "insist": insist,
            "vote": vote,
            "last word": last_word,
            "perform": gx.node(when_spent=limit_reached, opaque=True)(perform),
        }
        answers = [executor.graph["parse"], executor.graph["check_return_direct"]]
        after: list[Any] = []
        for name in self.plan.nodes:
            if name in ("vote", "last word") and "function" in self.plan.kind:
                # A callable agent has no model that could answer.
                continue
            graph = executor.graph
            routes: Any = gx.on(gx.AgentFinish, gx.END) | gx.on(Stopped, graph["stopped_response"])
            if name == "review":
                routes = routes | gx.on(Ready, graph["plan"])
            executor = executor.splice(gx.edges(nodes[name], routes), after=after or answers, on=gx.AgentFinish)
            after = [nodes[name]]
        return executor

    def policy(self, plan: Any) -> Any:
        function: list[Callable[[object], str]] = [lambda _: self.world.act(plan)]
        return function[0] if isinstance(plan, Act) else plan

    async def answer_person(self, question: gx.AskHuman) -> str:
        await self.world.aact(self.plan.person)
        with self.world.lock:
            self.world.turns["person"] += 1
            return "yes" if self.world.turns["person"] % 3 == 0 else "no"

    def observers(self) -> list[Any]:
        crashing = [Crashing(self.world)] if self.number == 0 and self.world.plan.crashes else []
        return [*(Observer(self.world, plan) for plan in self.plan.observers), *crashing]

    def memory(self) -> Any:
        as_messages = self.plan.kind in ("tool calling", "structured")
        match self.plan.memory:
            case "none":
                return None
            case "buffer":
                return BufferMemory(as_messages=as_messages)
            case Act() as act:
                return Diary(self.world, act, () if as_messages else "")

    def tools(self) -> list[AnyTool]:
        world = self.world

        def echo(text: str, call: Call) -> str:
            return text

        def fail(text: str, call: Call) -> str:
            raise ScriptedError(text)

        def flaky(text: str, call: Call) -> str:
            with world.lock:
                world.turns["flaky", call.id] += 1
                if world.turns["flaky", call.id] % 2:
                    raise ScriptedError(text)
            return text

        def news(text: str, call: Call) -> str:
            runtime.report(text)
            return text

        def make_nap(seconds: float, *, stubborn: bool = False) -> Any:
            async def nap(text: str, call: Call) -> str:
                await world.pause(seconds, stubborn=stubborn)
                return text

            return nap

        retry = retried.retry
        return [
            make_tool("echo", echo),
            make_tool("fail", fail),
            make_tool("flaky", flaky, retry=retry),
            make_tool("report", news),
            make_tool("direct", echo, return_direct=True),
            make_tool("nap", make_nap(4.0)),
            make_tool("hang", make_nap(float("inf"))),
            make_tool("stubborn", make_nap(16.0, stubborn=True)),
            make_tool("late", make_nap(4.0), timeout=1.0),
            *(one for number in range(len(world.plan.agents)) for one in self.starting_tools(number, retry)),
        ]

    def starting_tools(self, number: int, retry: Any) -> list[AnyTool]:
        """Return the tools that start runs of the executor with this number."""
        world = self.world

        async def run(text: str, call: Call) -> str:
            return await world.arun(number)

        def sync(text: str, call: Call) -> str:
            return world.run(number)

        def thread(text: str, call: Call) -> str:
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(world.run, number, host=call)
                return str(future.exception() or future.result())

        async def tasks(text: str, call: Call) -> str:
            return str(await asyncio.gather(world.arun(number), world.arun(number), return_exceptions=True))

        async def stream(text: str, call: Call) -> str:
            if not world.may_start():
                return "enough"
            async with aclosing(world.executors[number].astream("q")) as events:
                for _ in range(12):
                    await anext(events, None)
            return "left"

        async def batch(text: str, call: Call) -> str:
            if not world.may_start():
                return "enough"
            return str(len(await world.executors[number].abatch(["q", "q"], return_exceptions=True)))

        async def leave(text: str, call: Call) -> str:
            async def work() -> None:
                with suppress(Exception):
                    await world.arun(number)

            world.left.append(asyncio.create_task(work()))
            await asyncio.sleep(0)
            return "left"

        async def catch(text: str, call: Call) -> str:
            try:
                return await world.arun(number)
            except Exception as error:  # noqa: BLE001 - users' tools may do so
                return type(error).__name__

        async def again(text: str, call: Call) -> str:
            raise ScriptedError(await world.arun(number))

        functions: list[Any] = [run, sync, thread, tasks, stream, batch, leave, catch]
        made = [make_tool(f"{function.__name__}_{number}", function) for function in functions]
        made.append(make_tool(f"again_{number}", again, retry=retry))
        if number > self.number:
            made.append(world.executors[number].as_tool(f"as_{number}", "Let another agent do it."))
        return made


def make_world(plan: hostile_runs.Plan) -> World:
    """Return a world that contains the executors of the plan."""
    world = World(plan)
    # In reverse order: `as_tool` needs an executor that exists already.
    for number in reversed(range(len(plan.agents))):
        world.executors[number] = Builder(world, number, plan.agents[number]).build()
    return world


class Observer:
    """An observer that acts at every n-th event."""

    def __init__(self, world: World, plan: hostile_runs.ObserverPlan) -> None:
        self.world, self.plan = world, plan
        self.raise_error = plan.strict
        self.seen = 0
        self.acting = False

    def __call__(self, event: Any) -> None:
        self.seen += 1
        # Ignore events of runs that it starts itself: nothing limits such a recursion.
        if self.seen % self.plan.every == 0 and not self.acting:
            self.acting = True
            try:
                self.world.act(self.plan.act)
            finally:
                self.acting = False


class Crashing:
    """An observer that ends the outermost run before certain events, as a crash of the process would."""

    raise_error = True

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = 0
        self.run = ""

    def __call__(self, event: Any) -> None:
        # Not at the report of a failed observer either: the state of the event before it is unknown.
        if isinstance(event, (gx.Done, gx.Failed)) or (isinstance(event, gx.Reported) and event.effect is None):
            return
        # Any: a run's own events have a call.
        call: Any = event.call
        self.run = self.run or call.run_id
        if call.run_id != self.run:
            return
        self.seen += 1
        if self.seen in self.world.plan.crashes:
            if isinstance(event, gx.Moved):
                # The transition is not completed.
                self.world.trails[self.run].moves -= 1
            raise hostile_runs.CrashError


class Diary:
    """A user's memory."""

    keys: tuple[str, ...] = ("chat_history",)

    def __init__(self, world: World, act: Act, nothing: object) -> None:
        self.world, self.on, self.nothing = world, act, nothing

    def load(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        self.world.act(self.on)
        return {"chat_history": self.nothing}

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        self.world.act(self.on)

    async def aload(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        await self.world.aact(self.on)
        return {"chat_history": self.nothing}

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        await self.world.aact(self.on)
