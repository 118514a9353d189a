"""Runs to debug, under a virtual clock: long, parallel, stopped and failed ones."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import graphexec as gx
from graphexec import draw, executor, models, nodes, tools
from graphexec.messages import ModelReply, ModelRequest, ToolCall, Usage
from graphexec.testing.clock import on_loop_time, run_virtually

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
    options = {"handle_parsing_errors": True, **options}
    made = gx.AgentExecutor(agent=gx.create_tool_calling_agent(thinking(turns), TOOLS), tools=TOOLS, **options)

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
        agent = gx.create_tool_calling_agent(thinking(turns), TOOLS)
        return nodes.sub_agent(gx.AgentExecutor(agent=agent, tools=TOOLS), name, f"Let the {name} agent work.")

    research = embedded("research", (1.0, calling(("search", {"query": "elms"}))), (1.0, answering("Fungus.")))
    write = embedded("write", (1.0, answering("Elms die of a fungus.")))
    turns: list[Turn] = [
        (1.0, ModelReply("", (ToolCall("c", "search", "{not json"),), usage=Usage(300, 24))),
        (1.0, calling(("research", {"task": "elm trees"}))),
        (1.0, calling(("write", {"task": "about the fungus"}))),
        (1.0, answering("Elms die of a fungus.")),
    ]
    return record(turns, "Why do elms die?", nodes=[research, write], max_iterations=6)
