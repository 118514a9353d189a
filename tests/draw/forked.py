"""Runs and forks to compare: their records without ids and times, and executors that count their calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphexec import AgentExecutor, Asks, Effect, ask, create_tool_calling_agent, draw, models, node
from graphexec.executor import Ready
from graphexec.models.scripted import ScriptedReply
from graphexec.tools import AnyTool
from tests.draw.recorded import record_virtually

# What two runs that do the same may differ in.
_OWN = frozenset({"run", "began", "seconds", "time", "parent", "heartbeat", "traceback"})


def comparable(records: Iterable[Any]) -> list[Any]:
    """Return records without ids and times; a fork has other names in its start, and no reports of its parent."""
    return [timeless(record) for record in records if record["event"] not in ("start", "reported", "alive")]


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


def read_back(run: draw.AnyRun) -> draw.Recording:
    """Return a run as it is when it has been written and read."""
    return draw.Recording.from_json_lines(draw.recording_of(run).to_json_lines())


def scripted(replies: Iterable[ScriptedReply], tools: Iterable[AnyTool], **options: Any) -> AgentExecutor:
    known = list(tools)
    agent = create_tool_calling_agent(models.ScriptedModel(replies), known)
    options = {"handle_parsing_errors": True, **options}
    return AgentExecutor(agent=agent, tools=known, **options)


def requests_of(executor: AgentExecutor) -> int:
    model = executor.agent.model
    assert isinstance(model, models.ScriptedModel)
    return len(model.requests)


def record_fork(forked: draw.Fork) -> draw.Recording:
    """Run a fork under a virtual clock and record it, also if it fails."""
    return record_virtually(forked.recorder(clock=lambda: 1e9), forked.astream())


def steps_of(recording: draw.Recording) -> list[list[Any]]:
    steps: list[list[Any]] = []
    for record in recording.records:
        if record["event"] == "entered":
            steps.append([])
        if steps:
            steps[-1].append(record)
    return steps


@dataclass(frozen=True)
class Colour:
    """A reply that JSON can hold."""

    name: str
    shade: int


class Thing:
    """A reply that JSON cannot hold."""

    name, shade = "thing", 0


@dataclass(frozen=True)
class AskColour(Effect[Colour]):
    """Ask for a colour."""


@dataclass(frozen=True)
class AskThing(Effect[Thing]):
    """Ask for a thing."""


@node
def choose_colour(ready: Ready) -> Asks[AskColour, Ready]:
    """Note a colour for the model."""
    colour = yield from ask(AskColour())
    return Ready(ready.run.with_aside(notes={"colour": f"{colour.name} {colour.shade}"}))


@node
def choose_thing(ready: Ready) -> Asks[AskThing, Ready]:
    """Note a thing for the model."""
    thing = yield from ask(AskThing())
    return Ready(ready.run.with_aside(notes={"thing": thing.name}))
