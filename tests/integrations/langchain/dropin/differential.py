"""Runs of LangChain's executor and of ours: 29 scenarios, with 3 kinds of agents, by 5 methods.

Time is virtual: whatever is slow advances it, and waits for ever where it can be cancelled.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pytest
from langchain_classic.agents import BaseMultiActionAgent, BaseSingleActionAgent
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForToolRun
from langchain_core.exceptions import OutputParserException
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException

METHODS = ("invoke", "ainvoke", "stream", "astream", "iter")
KINDS = ("single", "multi", "runnable")
# Seconds: the time limit of those scenarios that have one, and what a slow call takes.
LIMIT, SLOW = 50.0, 100.0


class VirtualTime:
    """The real clocks, and what slow calls have added to them."""

    def __init__(self) -> None:
        self.added = 0.0

    @contextmanager
    def patched(self) -> Generator[None]:
        """Let both executors and the event loop read this clock."""
        wall, monotonic = time.time, time.monotonic
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: wall() + self.added)
            patch.setattr(time, "monotonic", lambda: monotonic() + self.added)
            yield


CLOCK = VirtualTime()


def sleep() -> None:
    """Take a long time."""
    CLOCK.added += SLOW


async def wait() -> None:
    """Take a long time, and then wait until this is cancelled."""
    CLOCK.added += SLOW
    await asyncio.Event().wait()


# What an agent does in a turn. A string is a call of that tool, a function is called, and a pair is slow.
Turn = Any


@dataclass(frozen=True)
class Several:
    """Several decisions in one turn."""

    turns: Sequence[Turn]


def unreadable(**options: Any) -> Turn:
    """Return a turn whose output cannot be read."""

    def fail() -> Any:
        raise OutputParserException("unreadable", **options)

    return fail


def broken() -> Any:
    """Raise what no executor handles."""
    raise KeyError("broken")


@dataclass(frozen=True)
class Scenario:
    """The turns of an agent, the options of the executor, and further inputs. The last turn is repeated."""

    turns: Sequence[Turn]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def last_two(steps: list[Any]) -> list[Any]:
    """Return the last two steps."""
    return steps[-2:]


def as_text(error: OutputParserException) -> str:
    """Return the start of the error."""
    return f"{error}"[:10]


def as_query(error: OutputParserException) -> Any:
    """Return what LangChain passes to its tool for exceptions as arguments."""
    return {"query": f"dict of {str(error)[:10]}"}


END = "END"
UNREADABLE = ["echo", unreadable(), "echo", END]
# Tools that LangChain calls in different ways.
TOOLS = ["plain", "sync", "empty", "calling", "config", "method", "async method", "artifact", "tuple", "checked"]
SCENARIOS = {
    "finish": Scenario([END]),
    "one tool": Scenario(["echo", END], inputs={"more": 1}),
    "tools of each kind": Scenario(
        [*TOOLS, Several(["plain", "number", "async method"]), END], {"return_intermediate_steps": True}
    ),
    "several at once": Scenario([Several(["echo", "number", "echo"]), END], {"return_intermediate_steps": True}),
    "unknown tool": Scenario(["missing", Several(["missing", "echo"]), END], {"return_intermediate_steps": True}),
    "direct": Scenario(["echo", "direct", "echo"], {"return_intermediate_steps": True}),
    "direct beside another": Scenario([Several(["direct", "echo"]), "direct"]),
    "direct in the last turn": Scenario(["direct"], {"max_iterations": 1}),
    "limit": Scenario([Several(["echo", "number"])], {"max_iterations": 2, "return_intermediate_steps": True}),
    "limit of none": Scenario(["echo"], {"max_iterations": 0}),
    "no limit": Scenario(["echo"] * 20 + [END], {"max_iterations": None}),
    "finish in the last turn": Scenario(["echo", END], {"max_iterations": 2}),
    "generate": Scenario(["echo"], {"max_iterations": 1, "early_stopping_method": "generate"}),
    "no time": Scenario(["echo"], {"max_execution_time": 0}),
    "slow tool": Scenario(["echo", "slow", END], {"max_execution_time": LIMIT, "return_intermediate_steps": True}),
    "slow plan": Scenario(["echo", ("slow", "echo")], {"max_execution_time": LIMIT, "return_intermediate_steps": True}),
    "slow finish": Scenario(["echo", ("slow", END)], {"max_execution_time": LIMIT}),
    "unreadable": Scenario(UNREADABLE),
    "unreadable, handled": Scenario(UNREADABLE, {"handle_parsing_errors": True}),
    "unreadable, for the model": Scenario(
        [unreadable(observation="see", llm_output="said", send_to_llm=True), END], {"handle_parsing_errors": True}
    ),
    "unreadable, a text": Scenario(UNREADABLE, {"handle_parsing_errors": "Again!", "return_intermediate_steps": True}),
    "unreadable, a function": Scenario(UNREADABLE, {"handle_parsing_errors": as_text}),
    "unreadable, a dict": Scenario(UNREADABLE, {"handle_parsing_errors": as_query, "return_intermediate_steps": True}),
    "trimmed": Scenario(["echo", "number", "echo", END], {"trim_intermediate_steps": 1}),
    "trimmed by a function": Scenario(["echo", "number", "echo", "plain", END], {"trim_intermediate_steps": last_two}),
    "a tool raises": Scenario(["echo", Several(["echo", "broken", "echo"]), END]),
    "a tool raises what it handles": Scenario(["handled", Several(["handled", "sync"]), END]),
    "the agent raises": Scenario(["echo", broken]),
    "nothing": Scenario(["echo", None], {"handle_parsing_errors": True}),
}


class Method(BaseTool):
    """A tool that is a class."""

    name: str = "method"
    description: str = "Repeat it."

    def _run(self, query: str, run_manager: CallbackManagerForToolRun | None = None) -> str:
        return f"{query} {bool(run_manager)}"


class AsyncMethod(Method):
    """One with a method for async runs, too."""

    name: str = "async method"

    async def _arun(self, query: str, config: RunnableConfig) -> str:
        return f"{query} {config}"


@cache
def make_tools() -> tuple[BaseTool, ...]:
    """Return the tools of all scenarios."""

    def echo(query: str) -> str:
        return f"<{query}>"

    def number(query: str) -> int:
        return len(query)

    def fail(query: str) -> str:
        raise RuntimeError(query)

    def refuse(query: str) -> str:
        raise ToolException(query)

    def slow(query: str) -> str:
        sleep()
        return query

    async def aslow(query: str) -> str:
        await wait()
        return query

    def nothing() -> str:
        return "constant"

    def call(query: str, callbacks: Any = None) -> str:
        inner = RunnableLambda[str, str](lambda value: f"{value}!")
        return f"{inner.invoke(query)} {bool(callbacks)}"

    def read(query: str, config: RunnableConfig) -> str:
        return f"{query} {config}"

    def give_two(query: str) -> tuple[str, int]:
        return query, len(query)

    def both(function: Callable[[str], Any]) -> tuple[Any, Any]:
        async def run(query: str) -> Any:
            return function(query)

        return function, run

    make = partial(StructuredTool.from_function, description="A tool.")
    return (
        make(*both(echo), name="echo"),
        make(echo, name="sync"),
        make(*both(number), name="number"),
        make(*both(echo), name="direct", return_direct=True),
        make(*both(fail), name="broken"),
        make(*both(refuse), name="handled", handle_tool_error=True),
        make(slow, aslow, name="slow"),
        make(nothing, name="empty"),
        make(call, name="calling"),
        make(read, name="config"),
        make(give_two, name="artifact", response_format="content_and_artifact"),
        make(give_two, name="tuple"),
        make(number, name="checked", handle_validation_error=True),
        Method(),
        AsyncMethod(),
        Tool("plain", echo, "A tool.", coroutine=both(echo)[1]),
    )


class Script:
    """What an agent does in its turns, and what it has seen."""

    def __init__(self, turns: Sequence[Turn], *, empty: Any) -> None:
        self.turns, self.empty, self.done, self.seen = turns, empty, 0, list[Any]()

    def next(self, steps: Any, inputs: Mapping[str, Any]) -> tuple[bool, Any]:
        """Return whether this turn is slow, and what the agent decides in it."""
        self.seen.append(([(action.tool, f"{action.tool_input}", seen) for action, seen in steps], sorted(inputs)))
        turn = self.turns[min(self.done, len(self.turns) - 1)]
        self.done += 1
        is_slow = isinstance(turn, tuple)
        return is_slow, self.decide(turn[1] if is_slow else turn)

    def decide(self, turn: Turn) -> Any:
        """Return a decision."""
        if isinstance(turn, Several):
            return [self.decide(one) for one in turn.turns]
        if turn == END:
            return AgentFinish({"output": f"{self.done}"}, f"end {self.done}")
        if callable(turn):
            return turn()
        if turn is None:
            return self.empty
        given = f"{turn}-{self.done}"
        return AgentAction(turn, given if turn == "plain" else {"query": given}, f"log {given}")


def make_agent(kind: str, script: Script) -> Any:
    """Return an agent of this kind that follows the script."""

    def decide(steps: Any, inputs: Mapping[str, Any]) -> Any:
        is_slow, decision = script.next(steps, inputs)
        if is_slow:
            sleep()
        return decision

    async def adecide(steps: Any, inputs: Mapping[str, Any]) -> Any:
        is_slow, decision = script.next(steps, inputs)
        if is_slow:
            await wait()
        return decision

    def run(inputs: dict[str, Any]) -> Any:
        return decide(inputs.pop("intermediate_steps"), inputs)

    async def arun(inputs: dict[str, Any]) -> Any:
        return await adecide(inputs.pop("intermediate_steps"), inputs)

    def plan(_: Any, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
        return decide(intermediate_steps, inputs)

    async def aplan(_: Any, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
        return await adecide(intermediate_steps, inputs)

    if kind == "runnable":
        return RunnableLambda(run, arun)
    base = BaseSingleActionAgent if kind == "single" else BaseMultiActionAgent
    members = {"plan": plan, "aplan": aplan, "input_keys": property(lambda _: ["input"])}
    return type("Planner", (base,), members)()


class Recorder(BaseCallbackHandler):
    """Records each callback, in the thread of the run."""

    run_inline = True
    NAMES = ("chain_start", "chain_end", "chain_error", "tool_start", "tool_end", "tool_error")

    def __init__(self) -> None:
        self.events, self.runs = list[Any](), dict[Any, int]()
        for name in (*self.NAMES, "agent_action", "agent_finish"):
            setattr(self, f"on_{name}", partial(self.record, name))

    def record(self, event: str, /, *given: Any, **more: Any) -> None:
        """Record one callback."""
        # What is serialized of an executor has the name of its module.
        values = given[1:] if event == "chain_start" else given
        # Ids are drawn anew for each run, so that they are numbered here.
        ids = [more.pop(key, None) for key in ("run_id", "parent_run_id")]
        numbers = [one and self.runs.setdefault(one, len(self.runs)) for one in ids]
        # An async run has other colors in LangChain.
        details = sorted((key, str(value)) for key, value in more.items() if key != "color")
        self.events.append((event, *map(str, values), details, *numbers))


# What a run has given: its outputs and what it yielded or its error, what the agent saw, and the callbacks.
Record = tuple[Any, list[Any], list[Any]]


def run_scenario(kind_of_executor: Any, name: str, kind: str, method: str, *, observed: bool, **more: Any) -> Record:
    """Run a scenario once."""
    scenario, recorder = SCENARIOS[name], Recorder()
    script = Script(scenario.turns, empty=[] if kind == "multi" else None)
    executor = kind_of_executor(agent=make_agent(kind, script), tools=make_tools(), **scenario.options, **more)
    inputs = {"input": "question", **scenario.inputs}
    config: Any = {"callbacks": [recorder]} if observed else {}
    yielded = list[Any]()

    async def collect() -> None:
        if method == "ainvoke":
            yielded.append(await executor.ainvoke(inputs, config))
        else:
            async for chunk in executor.astream(inputs, config):
                yielded.append(chunk)

    with CLOCK.patched():
        try:
            if method.startswith("a"):
                asyncio.run(collect())
            elif method == "invoke":
                yielded.append(executor.invoke(inputs, config))
            else:
                chunks = executor.iter(inputs, **config) if method == "iter" else executor.stream(inputs, config)
                for chunk in chunks:
                    yielded.append(chunk)
            ending = None
        except Exception as error:  # noqa: BLE001 - what both raise is compared
            ending = f"{type(error).__name__}: {error}"
    return (ending, yielded), script.seen, recorder.events
