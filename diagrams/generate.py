"""Draw every machine of the package, of the examples, and with each piece: `python diagrams/generate.py`.

The pictures are generated from the tables that run, with their proofs. A test compares them byte for byte with the
files: do not edit those.
"""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Iterable, Iterator
from dataclasses import make_dataclass
from datetime import date
from inspect import isfunction
from pathlib import Path
from typing import Any

from graphexec import (
    AgentExecutor,
    Graph,
    RunResult,
    create_structured_agent,
    create_tool_calling_agent,
    nodes,
    tool,
)
from graphexec.draw import draw, recording_of
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from graphexec.memory import MemoryHistory
from graphexec.messages import ModelReply, ModelRequest, ToolCall, Usage
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece
from graphexec.testing import on_loop_time, run_virtually
from graphexec.tools import AnyTool
from graphexec.tools.everyday import calculator
from graphexec.verify import Verdict, verify

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"

# The formats of each machine's picture.
SUFFIXES = {"mermaid": ".mmd", "dot": ".dot", "svg": ".svg"}
INDEX = "README.md"
# The functions of the shelf that make a piece.
PIECES = [name for name in nodes.__all__ if isfunction(getattr(nodes, name))]


def verdicts() -> Iterator[tuple[str, str, Verdict]]:
    """Yield the name, a line about it, and the proof of each machine: the package's own, and one per example.

    Examples are imported, not run: each has an `executor` or a `machine` (a graph) at its top level.
    """
    own = (
        ("agent_executor", "The standard machine: replies that cannot be parsed go back to the model.", AGENT_EXECUTOR),
        ("strict_agent_executor", "The standard machine, in which such a reply raises.", agent_graph(strict=True)),
        (
            "generating_agent_executor",
            "The standard machine, in which a stopped run asks for a final answer.",
            agent_graph(generate=True),
        ),
        (
            "strict_generating_agent_executor",
            "The machine with both variants.",
            agent_graph(strict=True, generate=True),
        ),
    )
    for name, about, machine in own:
        yield name, about, machine.verify()
    for path in sorted(EXAMPLES.glob("*.py")):
        module = runpy.run_path(str(path), run_name=path.stem)
        executor = module.get("executor")
        verdict = executor.verify() if isinstance(executor, AgentExecutor) else module["machine"].verify()
        yield f"examples_{path.stem}", module["__doc__"].partition("\n")[0], verdict


def machines() -> Iterator[tuple[str, Graph[Any, Any]]]:
    """Yield the name and the graph of each machine that is drawn."""
    for name, _, verdict in verdicts():
        yield name, verdict.graph


class Thinking:
    """A scripted model whose replies take time on the event loop's clock."""

    def __init__(self, script: Iterable[tuple[float, ModelReply]]) -> None:
        self._script = iter(script)

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Raise: a sync call has no clock to wait on."""
        raise NotImplementedError

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the next reply after its seconds."""
        del request, timeout
        seconds, reply = next(self._script)
        await asyncio.sleep(seconds)
        return reply


@tool
def to_metres(feet: float) -> str:
    """Convert feet to metres."""
    return f"{feet * 0.3048:g} m"


def a_run() -> RunResult:
    """Run the tool-calling agent with two concurrent calls, a mistake and an answer, on a virtual clock."""

    def calls(*given: tuple[str, str]) -> ModelReply:
        called = tuple(ToolCall(f"call_{number}", *one) for number, one in enumerate(given))
        return ModelReply("", called, usage=Usage(312, 24), finish_reason="tool_calls")

    model = Thinking(
        [
            (1.9, calls(("to_metres", '{"feet": 12}'), ("to_metres", '{"feet": 9}'))),
            (0.8, calls(("calculator", '{"sum": "3.6576 * 2.7432 * 35"}'))),
            (0.7, calls(("calculator", '{"expression": "3.6576 * 2.7432 * 35"}'))),
            (1.1, ModelReply("About 351.", usage=Usage(398, 9))),
        ]
    )
    tools: list[AnyTool] = [to_metres, calculator]
    agent = create_tool_calling_agent(model, tools)
    executor = AgentExecutor(agent=agent, tools=tools, handle_parsing_errors=True)
    question = "A floor of 12 by 9 feet: what do tiles at 35 a square metre cost?"
    return run_virtually(on_loop_time(executor).arun(question))


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


def small_agent(*, structured: bool = False) -> AgentExecutor:
    """Return an executor with one tool and five iterations, whose model is never asked."""
    model = ScriptedModel([])
    agent = (
        create_structured_agent(model, [look_up], rules=())
        if structured
        else create_tool_calling_agent(model, [look_up])
    )
    return AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True, max_iterations=5)


def samples() -> dict[str, Piece]:
    """Return each piece of the shelf by its name, with small arguments."""

    def accept(text: str) -> None:
        """Accept every text."""

    made = [
        nodes.approve_tools({"look_up": ["approve", "reject"]}),
        nodes.ask_user(),
        nodes.cache_tools("look_up"),
        nodes.catch_errors(),
        nodes.clear_results(),
        nodes.compact(),
        nodes.critic(),
        nodes.emulate_tools(ScriptedModel([])),
        nodes.escalate(ScriptedModel([])),
        nodes.guard_input(accept),
        nodes.guard_output(accept),
        nodes.handoffs({"hotels": small_agent()}),
        nodes.limit_conversation(MemoryHistory(), model_calls=9, tool_calls={"look_up": 2}),
        nodes.limit_tool("look_up", 2),
        nodes.map_agents(small_agent()),
        nodes.no_dummies(),
        nodes.no_immediate_repeats(),
        nodes.no_repeats(),
        nodes.output_type(make_dataclass("Booking", [("city", str), ("day", date)])),
        nodes.redact_pii(),
        nodes.select_tools(),
        nodes.stop_repeats(),
        nodes.sub_agent(small_agent(), "name", "description"),
        nodes.tell_time(),
        nodes.todo_list(),
    ]
    return dict(zip(PIECES, made, strict=True))


def pieces() -> Iterator[tuple[str, str]]:
    """Yield the name of each piece of the shelf, and a picture of a small agent with it."""
    for name, piece in samples().items():
        # The rule no_dummies is about worked examples, which structured agents show.
        executor = small_agent(structured=name == "no_dummies").plug(piece)
        yield name, draw(executor.verify(), "svg")


def pictures() -> dict[str, str]:
    """Return the text of each file in this folder by its path."""
    drawn: dict[str, str] = {}
    index = [
        "# Diagrams",
        "",
        "Every machine of the package and of the examples. Generated by `python diagrams/generate.py`; a test compares "
        "the files with the tables.",
    ]
    result = a_run()
    recording = recording_of(result)
    assert result.journal is not None, "executors keep a journal"
    proof = verify(result.journal.graph, result.limits)
    drawn["run.svg"] = draw(proof, "svg", runs=result)
    index += ["", "## A run", "", f"{recording.records[0]['input']['input']}", "", "![the path of the run](run.svg)"]
    index += ["", "```text", draw(proof, "text", runs=result).rstrip(), "```"]
    for name, about, verdict in verdicts():
        drawn |= {f"{name}{suffix}": draw(verdict, how) for how, suffix in SUFFIXES.items()}
        links = ", ".join(f"[{how}]({name}{suffix})" for how, suffix in SUFFIXES.items())
        index += [
            "",
            f"## {name}",
            "",
            about,
            "",
            f"![{name}]({name}.svg)",
            "",
            links,
            "",
            "```text",
            draw(verdict, "text").rstrip(),
            "```",
        ]
    index += ["", "## Pieces", "", "A small agent with each piece of `graphexec.nodes`."]
    for name, picture in pieces():
        drawn[f"nodes/{name}.svg"] = picture
        index += ["", f"### {name}", "", f"![{name}](nodes/{name}.svg)"]
    return {**drawn, INDEX: "\n".join([*index, ""])}


if __name__ == "__main__":
    files = pictures()
    for old in HERE.rglob("*"):
        if old.suffix in SUFFIXES.values() and old.relative_to(HERE).as_posix() not in files:
            old.unlink()
    (HERE / "nodes").mkdir(exist_ok=True)
    for file, text in files.items():
        (HERE / file).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(files)} files")
