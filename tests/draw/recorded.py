"""Recordings of runs: of scripted agents that do anything, and of one machine that asks everybody."""

from __future__ import annotations


from hypothesis import strategies as st

from graphexec import AgentExecutor, Limits, tool
from graphexec.draw import Recorder, Recording
from graphexec.testing.clock import on_loop_time, run_virtually
from graphexec.testing.scripts import AgentScript
from graphexec.testing.strategies import agent_scripts

# Longer than each delay of a script but the one without end, which is then cut.
_SECONDS = 300.0


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


TOOLS = [echo, broken]


def recording_in(executor: AgentExecutor, given: object = "q", **told: object) -> Recording:
    """Record a run under a virtual clock, whatever ends it."""
    recorder = Recorder(executor.graph, executor.limits, input=given, **told)

    async def watched() -> None:
        try:
            async for event in executor.astream(given):  # type: ignore[arg-type]
                recorder(event)
        except Exception as error:  # noqa: BLE001 - what a run raises is recorded
            recorder.failed(error)

    run_virtually(watched())
    return recorder.recording


def scripted(script: AgentScript, within: Limits) -> Recording:
    """Record what a scripted agent does."""
    executor = AgentExecutor(agent=script.agent(), tools=TOOLS, handle_parsing_errors=True).with_limits(within)
    return recording_in(on_loop_time(executor))


def recordings() -> st.SearchStrategy[Recording]:
    """Runs of agents that do anything, within all kinds of limits, that end in any way."""
    scripts = agent_scripts([one.name for one in TOOLS], max_turns=4)
    within = st.builds(
        Limits, iterations=st.integers(0, 6), tool_calls=st.none() | st.integers(0, 9), seconds=st.sampled_from([3.0, _SECONDS])
    )
    return st.builds(scripted, scripts, within)


def cut_short(recording: Recording, records: int) -> Recording:
    """The run as far as it had come after so many records."""
    return Recording(recording.records[: max(records, 1)])
