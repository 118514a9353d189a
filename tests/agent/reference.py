"""The agent loop as one would write it by hand, from the table of its semantics: no graph, no effects, no engine.

It is what the machine is compared with. It knows turns, tools and limits as plain data, and nothing of graphexec but
the texts that prompts depend on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Call:
    """One call: of a tool that the executor has or has not, with arguments that fit or do not."""

    tool: str
    number: int | str = 0


@dataclass(frozen=True)
class Turn:
    """What the model does at one of its turns, and the tokens that it reports."""

    kind: Literal["answer", "act", "empty", "garbage"]
    calls: tuple[Call, ...] = ()
    tokens: int = 0


@dataclass(frozen=True)
class Settings:
    """How the executor is set up. `None` is no limit."""

    iterations: int | None = 15
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: Literal[0] | None = None
    parsing: bool | str = True
    at_once: int = 8


@dataclass
class Outcome:
    """How a run ends: in an answer, stopped by a limit, or with a parse error that nobody handles."""

    end: str = ""
    output: object = None
    # Tool, observation and status of each step.
    steps: list[tuple[str, object, str]] = field(default_factory=list[tuple[str, object, str]])
    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0


# Name: does it work, and is its result the answer?
TOOLS = {"echo": (True, False), "aecho": (True, False), "fail": (False, False), "direct": (True, True)} | {
    "direct_fail": (False, True)
}
TOLD = {"empty": "Decide on an action, or finish.", "garbage": "unreadable"}


def interpret(turns: tuple[Turn, ...], settings: Settings) -> Outcome:
    """Run the script; its last turn repeats for ever."""
    run = Outcome()

    def stopped(limit: str) -> Outcome:
        run.end = limit
        return run

    turn_number = charged = 0
    while True:
        if settings.seconds == 0:
            return stopped("seconds")
        if run.iterations == settings.iterations:
            return stopped("iterations")
        run.iterations += 1
        if settings.tokens is not None and charged >= settings.tokens:
            return stopped("tokens")
        if run.model_calls == settings.model_calls:
            return stopped("model_calls")
        run.model_calls += 1
        turn = turns[min(turn_number, len(turns) - 1)]
        turn_number += 1
        run.tokens += turn.tokens
        # A call takes one token at least, whatever is reported.
        charged += max(1, turn.tokens)
        if turn.kind == "answer":
            run.end, run.output = "finished", f"answer {turn_number}"
            return run
        if turn.kind in ("empty", "garbage"):
            if settings.parsing is False:
                run.end = "parse error"
                return run
            told = TOLD[turn.kind] if settings.parsing is True else settings.parsing
            run.steps.append(("_Exception", told, "parse_error"))
            continue
        if settings.tool_calls is not None and run.tool_calls + len(turn.calls) > settings.tool_calls:
            return stopped("tool_calls")
        run.tool_calls += len(turn.calls)
        new = [_step(call) for call in turn.calls]
        run.steps += new
        if len(turn.calls) == 1 and new[0][2] == "ok" and TOOLS[turn.calls[0].tool][1]:
            run.end, run.output = "return_direct", new[0][1]
            return run


def _step(call: Call) -> tuple[str, object, str]:
    if call.tool not in TOOLS:
        return call.tool, f"{call.tool} is not a valid tool, try one of [{', '.join(TOOLS)}].", "unknown_tool"
    if isinstance(call.number, str):
        wrong = "number: Input should be a valid integer, unable to parse string as an integer"
        return (
            call.tool,
            f"{call.tool} was not called: {wrong}. Call it as {call.tool}(number: integer).",
            "bad_arguments",
        )
    if not TOOLS[call.tool][0]:
        return call.tool, f"{call.tool} failed: ValueError: {call.number}", "error"
    return call.tool, call.number, "ok"
