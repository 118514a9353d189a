"""Recordings: of given events, and of runs to debug under a virtual clock: long, parallel, stopped and failed ones."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import graphexec as gx
from graphexec import draw, executor, models, nodes, tools
from graphexec.draw import Recorder, Recording
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel import Effect, Event
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.messages import ModelReply, ModelRequest, ToolCall, Usage
from graphexec.runtime import stream
from graphexec.testing.clock import on_loop_time, run_virtually
from graphexec.verify import verify
from tests.executor.actors import caller_of
from tests.kernel.machines import Landed, Left, Stopped, countdown


class Sullen:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


def nested(depth: int, inner: object = None) -> Any:
    """Return a value in so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


# What two recordings of one run may differ in.
_OWN = frozenset({"run", "began", "seconds", "time", "heartbeat", "traceback"})


# Any: JSON.
def timeless(value: Any) -> Any:
    """Return records, or a part of them, without ids and times."""
    match value:
        case {**members}:
            return {name: timeless(one) for name, one in members.items() if name not in _OWN}
        case [*items]:
            return [timeless(one) for one in items]
        case _:
            return value


def record_events(*events: Event[Any]) -> Recording:
    """Return the recording of a run of the standard machine with exactly these events."""
    recorder = Recorder(verify(AGENT_EXECUTOR, gx.Limits()), inputs="q")
    for event in events:
        recorder(event)
    return recorder.recording


def _call_of(effect: Effect[Any], member: int, node: str) -> CallContext[Any]:
    """Return a call that belongs to no running execution."""
    return CallContext(DetachedScope("a-run"), node, effect, effect, 1, member)


def asked_and_answered(effect: Any, reply: Any, *, node: str = "dispatch_tools", at: float = 0.0) -> list[Event[Any]]:
    """Return the events of a node that requests an effect at `at` seconds and gets the reply after two."""
    before, after = gx.Spent(seconds=at), gx.Spent(seconds=at + 2)
    return [gx.Entered(node, None, before), gx.Asked(node, effect), gx.Answered(node, effect, reply, 2.0, after)]


def asked_together(
    *asked: tuple[Effect[Any], Any, float], node: str = "dispatch_tools", at: float = 0.0
) -> list[Event[Any]]:
    """Return the events of a node that requests all effects at `at` seconds; each reply takes its own time."""
    calls = [_call_of(effect, member, node) for member, (effect, _, _) in enumerate(asked)]
    begun: list[Event[Any]] = [gx.Asked(node, effect, call) for (effect, _, _), call in zip(asked, calls, strict=True)]
    answers = [
        gx.Answered(node, effect, reply, seconds, gx.Spent(seconds=at + seconds), call)
        for (effect, reply, seconds), call in zip(asked, calls, strict=True)
    ]
    answers.sort(key=lambda event: event.spent.seconds)
    return [gx.Entered(node, None, gx.Spent(seconds=at)), *begun, *answers]


def three_entries() -> Recording:
    """Record a run in which each visit consumes an iteration and its edge resets them."""
    ways = gx.on(Left, countdown, resets=[gx.ITERATIONS]) | gx.on(Landed, gx.END) | gx.on(Stopped, gx.END)
    machine, limits = gx.graph(gx.edges(countdown, ways), start=countdown), gx.Limits(iterations=2)
    recorder = Recorder(verify(machine, limits))
    list(map(recorder, stream(machine, Left(3), limits=limits)))
    return recorder.recording


# What the model does: it takes so many seconds, and then replies or raises.
Turn = tuple[float, ModelReply | Exception]


def thinking(turns: Iterable[Turn]) -> models.FunctionModel:
    """Return a model that takes its time."""
    left = iter(turns)

    async def think(request: ModelRequest) -> ModelReply:
        seconds, reply = next(left)
        await asyncio.sleep(seconds)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return models.FunctionModel(think)


@gx.tool
async def fetch(url: str, seconds: float = 1.0) -> str:
    """Fetch a page."""
    await asyncio.sleep(seconds)
    if "bad" in url:
        raise ValueError(f"HTTP 503 for {url}")
    return f"<html>contents of {url}</html>"


@gx.tool
async def search(query: str) -> str:
    """Search the web."""
    await asyncio.sleep(0.8)
    return f"3 hits for {query}"


TOOLS: Sequence[tools.AnyTool] = [fetch, search]


def calling(*calls: tuple[str, dict[str, Any]], text: str = "") -> ModelReply:
    made = [ToolCall(f"call_{at}", name, json.dumps(given)) for at, (name, given) in enumerate(calls)]
    return ModelReply(text, tuple(made), usage=Usage(300, 24), finish_reason="tool_calls")


def answering(text: str) -> ModelReply:
    return ModelReply(text, usage=Usage(400, 20), finish_reason="stop")


def record(turns: Iterable[Turn], question: str, **options: Any) -> draw.Recording:
    """Run the turns and return the records, also of a run that an exception ended."""
    made = caller_of(thinking(turns), *TOOLS, **{"handle_parsing_errors": True, **options})

    def run() -> draw.Recording:
        try:
            return draw.recording_of(run_virtually(on_loop_time(made).arun(question)))
        except Exception as error:  # noqa: BLE001 - a run may end with any exception
            return draw.recording_of(error)

    # The thread of a browser test already has an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def sixty_steps() -> draw.Recording:
    """Record 16 iterations; 5 of them fail: three pages, an unknown tool, and a reply that cannot be parsed."""
    turns: list[Turn] = []
    for number in range(15):
        reply = calling(("fetch", {"url": f"https://{'bad' if number in (3, 7, 8) else 'site'}{number}.example"}))
        if number == 10:
            reply = calling(("fetchh", {"url": "x"}))
        elif number == 5:
            reply = ModelReply("", (ToolCall("c", "fetch", "{not json"),), usage=Usage(300, 24))
        turns.append((1.0 + number / 10, reply))
    return record(
        [*turns, (2.0, answering("Shop 3."))], "Which of the fifteen shops is the cheapest?", max_iterations=20
    )


def twelve_tools() -> draw.Recording:
    """Record twelve calls at once, of 0.3 to 3.6 seconds; two fail."""
    urls = [f"https://shop{at}.example/{'bad' if at in (4, 9) else 'ok'}" for at in range(12)]
    calls = [("fetch", {"url": url, "seconds": round(0.3 * (at + 1), 1)}) for at, url in enumerate(urls)]
    return record([(1.2, calling(*calls)), (1.4, answering("Shop 3 is cheapest."))], "Ask all twelve shops at once.")


def stopped_run() -> draw.Recording:
    """Record a run that repeats the same search until its limit."""
    turns: list[Turn] = [(1.0, calling(("search", {"query": "again"})))] * 9
    return record(turns, "Never ends, does it?", max_iterations=4)


def failed_run() -> draw.Recording:
    """Record a run whose second model call raises after 2.5 seconds."""
    turns: list[Turn] = [
        (1.2, calling(("search", {"query": "first"}))),
        (2.5, RuntimeError("connection reset by peer while reading the reply")),
    ]
    return record(turns, "Fails half-way.")


@gx.node
def convert_prices(observed: executor.Observed) -> executor.Observed:
    """Convert the prices in observations, which must be numbers."""
    for result in observed.results:
        if "price" in str(result.observation):
            float(str(result.observation))
    return observed


def failed_node() -> draw.Recording:
    """Record a run in which a node cannot read the second result of a tool."""
    turns: list[Turn] = [(1.0, calling(("search", {"query": query}))) for query in ("flights", "price")]
    return record(turns, "What does the flight cost?", nodes=[convert_prices])


def two_agents() -> draw.Recording:
    """Record a run with an unread reply, in which two embedded agents carry out a call each."""

    def embedded(name: str, *turns: Turn) -> nodes.Piece:
        return nodes.sub_agent(caller_of(thinking(turns), *TOOLS), name, f"Let the {name} agent work.")

    research = embedded("research", (1.0, calling(("search", {"query": "elms"}))), (1.0, answering("Fungus.")))
    write = embedded("write", (1.0, answering("Elms die of a fungus.")))
    turns: list[Turn] = [
        (1.0, ModelReply("", (ToolCall("c", "search", "{not json"),), usage=Usage(300, 24))),
        (1.0, calling(("research", {"task": "elm trees"}))),
        (1.0, calling(("write", {"task": "about the fungus"}))),
        (1.0, answering("Elms die of a fungus.")),
    ]
    return record(turns, "Why do elms die?", nodes=[research, write], max_iterations=6)
