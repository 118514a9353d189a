"""A reference loop for agents, after the tables of docs/semantics.md: one `while`, no graph, no engine.

The executor is compared with it. Comments name the table's rows. It differs from LangChain: an empty list of actions is
a parse error; a tool's exception is an observation, unless it is raised; there are more limits, each checked before
its effect; and if the final reply of a stopped run is not an answer, the text of the stopped run is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphexec import errors, messages
from graphexec.actions import AgentAction, AgentFinish, AgentStep

Decision: TypeAlias = AgentFinish | tuple[AgentAction, ...]

# Name: does it work, and is its result the answer? Each takes a number, which is its result.
TOOLS = {"echo": (True, False), "aecho": (True, False), "fail": (False, False)} | {
    "direct": (True, True),
    "direct_fail": (False, True),
}


# Seconds that each turn of the agent and each tool call takes; and the grace period for the final answer after the time
# limit.
TAKES = 100
GRACE = 10


@dataclass(frozen=True)
class Settings:
    """The settings of the executor. `None` means no limit."""

    iterations: int | None = 15
    seconds: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    fan_out: int | None = 1_000
    parsing: bool | str | Callable[[errors.ParseError], str] = True
    # A number of steps to show, or a user's function that selects them.
    trim: int | Callable[[Any], Sequence[Any]] = -1
    return_direct: Literal["single", "any"] = "single"
    early_stopping: Literal["force", "generate"] = "force"
    tool_errors: Literal["observe", "raise"] = "observe"
    lookup: Literal["exact", "case_insensitive"] = "exact"
    with_steps: bool = False
    # The number of concurrent tools, which does not affect the results.
    at_once: int = 8


@dataclass(frozen=True)
class Script:
    """The agent's turns (the last one repeats), its final answer when stopped, and the function that parses them."""

    # A `ModelReply`, or what a callable agent returns or raises.
    turns: tuple[Any, ...]
    conclusion: Any
    read: Callable[[Any], Decision]


@dataclass
class Expected:
    """The ending of a run, by which runs are compared, and everything else that is observable about it."""

    # "finished", "return_direct", the name of the limit, "parse error" or "tool error".
    end: str = ""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    generated: bool = False
    steps: list[AgentStep] = field(default_factory=list[AgentStep])
    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: int = field(default=0, compare=False)
    # The steps of each turn; what the agent was shown at each question; the tools that really ran.
    turns: list[tuple[AgentStep, ...]] = field(default_factory=list[tuple[AgentStep, ...]], compare=False)
    shown: list[list[AgentStep]] = field(default_factory=list[list[AgentStep]], compare=False)
    called: list[str] = field(default_factory=list[str], compare=False)
    chunks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], compare=False)

    def observe(self, new: list[AgentStep]) -> None:
        """Row 12."""
        self.steps += new
        self.turns.append(tuple(new))

    def ended(self, end: str, values: dict[str, Any], given: Settings) -> Expected:
        """Row 16."""
        self.end, self.values = end, values
        pairs = [(step.action, step.observation) for step in self.steps]
        self.chunks.append(values | ({"intermediate_steps": pairs} if given.with_steps else {}))
        return self


def interpret(script: Script, given: Settings) -> Expected:
    """Run the script."""
    run = Expected()
    charged = 0
    while True:
        # Rows 2 to 4.
        if given.seconds is not None and run.seconds >= given.seconds:
            return _stopped(run, "seconds", script, given)
        if given.iterations is not None and run.iterations >= given.iterations:
            return _stopped(run, "iterations", script, given)
        run.iterations += 1
        if given.tokens is not None and charged >= given.tokens:
            return _stopped(run, "tokens", script, given)
        if given.model_calls is not None and run.model_calls >= given.model_calls:
            return _stopped(run, "model_calls", script, given)
        if given.cost is not None and run.cost >= given.cost:
            return _stopped(run, "cost", script, given)
        before = run.tokens
        reply = _ask(run, script.turns[min(run.model_calls, len(script.turns) - 1)], given)
        # Each call takes at least one token, even if none is reported.
        charged += max(1, run.tokens - before)
        try:
            decision = _read(script, reply)
        except errors.ParseError as error:
            # Rows 7 and 8.
            if given.parsing is False:
                run.end = "parse error"
                return run
            feedback = _feedback(error, given)
            action = AgentAction("_Exception", feedback, error.llm_output or str(error))
            step = AgentStep(action, feedback, "parse_error")
            run.chunks.append({"steps": [step]})
            run.observe([step])
            continue
        if isinstance(decision, AgentFinish):
            # Row 5.
            return run.ended("finished", dict(decision.return_values), given)
        if given.seconds is not None and run.seconds >= given.seconds:
            return _stopped(run, "seconds", script, given)
        if given.fan_out is not None and len(decision) > given.fan_out:
            return _stopped(run, "fan_out", script, given)
        if given.tool_calls is not None and run.tool_calls + len(decision) > given.tool_calls:
            return _stopped(run, "tool_calls", script, given)
        # Rows 6 and 10.
        run.tool_calls += len(decision)
        run.chunks += [{"actions": [action]} for action in decision]
        new: list[AgentStep] = []
        answers: list[object] = []
        for action in decision:
            step, direct = _carried_out(action, run, given)
            if step.status == "error" and given.tool_errors == "raise":
                # Row 11.
                run.end = "tool error"
                return run
            new.append(step)
            answers += [step.observation] if direct else []
        run.chunks += [{"steps": [step]} for step in new]
        run.observe(new)
        # Rows 13 and 14.
        if answers and (len(decision) == 1 or given.return_direct == "any"):
            return run.ended("return_direct", {"output": answers[-1]}, given)


EMPTY = "Decide on an action, or finish."


def _ask(run: Expected, reply: Any, given: Settings) -> Any:
    """Show the agent its steps, and count the cost of its reply."""
    if callable(given.trim):
        run.shown.append([AgentStep(action, observation) for action, observation in given.trim(run.steps)])
    else:
        run.shown.append(run.steps[-given.trim :] if given.trim > 0 else list(run.steps))
    run.model_calls += 1
    run.seconds += TAKES
    if isinstance(reply, messages.ModelReply):
        run.tokens += reply.usage.total_tokens
        run.cost += reply.cost or 0.0
    return reply


def _read(script: Script, reply: Any) -> Decision:
    decision = script.read(reply)
    if decision == ():
        raise errors.ParseError("the agent returned an empty list of actions", observation=EMPTY)
    return decision


def _feedback(error: errors.ParseError, given: Settings) -> str:
    if isinstance(given.parsing, bool):
        return error.observation or "Invalid or incomplete response"
    return given.parsing if isinstance(given.parsing, str) else given.parsing(error)


def _carried_out(action: AgentAction, run: Expected, given: Settings) -> tuple[AgentStep, bool]:
    """Return the step of an action, and whether its result is an answer."""
    tool = action.tool
    if tool not in TOOLS and tool.lower() in TOOLS and given.lookup == "case_insensitive":
        tool = tool.lower()
    if tool not in TOOLS:
        unknown = f"{tool} is not a valid tool, try one of [{', '.join(TOOLS)}]."
        hint = f" Did you mean {tool.lower()}?" if tool.lower() in TOOLS else ""
        return AgentStep(action, unknown + hint, "unknown_tool"), False
    number = action.tool_input["number"] if isinstance(action.tool_input, dict) else action.tool_input
    if number == "x":
        wrong = "number: Input should be a valid integer, unable to parse string as an integer"
        observation = f"{tool} was not called: {wrong}. Call it as {tool}(number: integer)."
        return AgentStep(action, observation, "bad_arguments"), False
    run.called.append(tool)
    run.seconds += TAKES
    works, direct = TOOLS[tool]
    if not works:
        return AgentStep(action, f"{tool} failed: ValueError: no", "error", error="ValueError"), False
    return AgentStep(action, int(number)), direct


STOPPED = {
    "iterations": "Agent stopped due to iteration limit or time limit.",
    "seconds": "Agent stopped due to iteration limit or time limit.",
    "model_calls": "Agent stopped due to model call limit.",
    "tool_calls": "Agent stopped due to tool call limit.",
    "tokens": "Agent stopped due to token limit.",
    "cost": "Agent stopped due to cost limit.",
    "fan_out": "Agent stopped due to fan out limit.",
}


def _stopped(run: Expected, limit: str, script: Script, given: Settings) -> Expected:
    """Row 15."""
    text = ""
    in_time = given.seconds is None or run.seconds < given.seconds + GRACE
    if given.early_stopping == "generate" and in_time:
        reply = _ask(run, script.conclusion, given)
        try:
            decision = script.read(reply)
            text = str(decision.return_values["output"]) if isinstance(decision, AgentFinish) else ""
        except errors.ParseError as error:
            text = error.llm_output if error.prose else ""
    run.generated = bool(text.strip())
    return run.ended(limit, {"output": text.strip() or STOPPED[limit]}, given)
