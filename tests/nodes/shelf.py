"""A sample of every piece of the shelf, with models and handlers that answer them, and helpers that run them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import graphexec.nodes
from graphexec import AgentExecutor, Answered, AskHuman, Event, Snapshot, snapshot_of, tool
from graphexec.errors import MissingHandlerError
from graphexec.kernel import PendingEffect, advance
from graphexec.kernel.effects import members_of
from graphexec.memory import MemoryHistory
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, Review, ReviewCall
from graphexec.verify import Certificate
from tests.executor.actors import caller_of, snapshot_after

# The iterations of the samples' executors.
ITERATIONS = 4


def call(*arguments: str, tool: str = "look_up") -> ModelReply:
    """Return a reply that calls a tool once for each argument."""
    return calls(*((tool, f'{{"question": "{one}"}}') for one in arguments))


def calls(*several: tuple[str, str]) -> ModelReply:
    """Return a reply that calls several tools, each with its arguments as JSON."""
    made = [ToolCall(f"{tool}-{place}", tool, arguments) for place, (tool, arguments) in enumerate(several)]
    return ModelReply("", tuple(made))


def make_inner(*replies: ModelReply | str, name: str = "inner") -> AgentExecutor:
    """Return an executor that a piece embeds or starts."""
    model = ScriptedModel([*replies] or [f"answer of {name}"], repeat_last=True)
    return caller_of(model, handle_parsing_errors=True)


def judge_text(text: Any) -> str | None:
    """Refuse what has the word secret."""
    return "it is secret" if "secret" in str(text) else None


def answer_person(asked: AskHuman) -> str:
    """Answer every question of a person."""
    return f"yes to {asked.question}"


def approve(call: ReviewCall) -> Review:
    """Approve every call."""
    return Review("approve")


@dataclass(frozen=True)
class Answer:
    """The type that `output_type` reads."""

    text: str


# Any: the factories take different options.
_NODES: Any = graphexec.nodes

# One sample of each piece, by the name of its factory. Each call makes a new one.
SAMPLES: Mapping[str, Callable[[], Piece]] = {
    "approve_tools": lambda: _NODES.approve_tools({"look_up": ["approve", "reject"]}, reviewer=approve),
    "ask_user": lambda: _NODES.ask_user(answer_person),
    "cache_tools": lambda: _NODES.cache_tools("look_up"),
    "catch_errors": lambda: _NODES.catch_errors(),  # noqa: PLW0108
    "clear_results": lambda: _NODES.clear_results(max_tokens=20, keep=1),
    "compact": lambda: _NODES.compact(max_tokens=20, keep=1),
    "critic": lambda: _NODES.critic(rounds=1),
    "emulate_tools": lambda: _NODES.emulate_tools(ScriptedModel(["emulated"], repeat_last=True), most=2),
    "escalate": lambda: _NODES.escalate(ScriptedModel(["stronger"], repeat_last=True)),
    "guard_input": lambda: _NODES.guard_input(judge_text),
    "guard_output": lambda: _NODES.guard_output(judge_text),
    "handoffs": lambda: _NODES.handoffs({"other": make_inner(name="other")}, handoffs=2, iterations=2),
    "limit_conversation": lambda: _NODES.limit_conversation(
        MemoryHistory(), model_calls=50, tool_calls={"look_up": 50}
    ),
    "limit_tool": lambda: _NODES.limit_tool("look_up", 1),
    "map_agents": lambda: _NODES.map_agents(make_inner(), most=2),
    "no_dummies": lambda: _NODES.no_dummies(),  # noqa: PLW0108
    "no_immediate_repeats": lambda: _NODES.no_immediate_repeats(),  # noqa: PLW0108
    "no_repeats": lambda: _NODES.no_repeats(),  # noqa: PLW0108
    "output_type": lambda: _NODES.output_type(Answer, reasks=1),
    "redact_pii": lambda: _NODES.redact_pii(),  # noqa: PLW0108
    "select_tools": lambda: _NODES.select_tools(max_tools=1),
    "stop_repeats": lambda: _NODES.stop_repeats(),  # noqa: PLW0108
    "sub_agent": lambda: _NODES.sub_agent(make_inner(), "research", "Research a question.", calls=2, iterations=2),
    "tell_time": lambda: _NODES.tell_time(lambda: "2026-01-02T03:04:05+00:00"),
    "todo_list": lambda: _NODES.todo_list(),  # noqa: PLW0108
}

# Rules against repetitions, of which an agent may have one.
REPEAT_RULES = frozenset({"no_repeats", "no_immediate_repeats"})


def factories() -> set[str]:
    """Return the names of the functions of `graphexec.nodes` that make a piece."""
    public = {name: getattr(graphexec.nodes, name) for name in graphexec.nodes.__all__}
    return {name for name, one in public.items() if callable(one) and not isinstance(one, type) and name.islower()}


def look_up(question: str) -> str:
    """Look something up."""
    return f"found {question}"


LOOK_UP = tool(look_up)


def make_executor(
    pieces: Sequence[Any] = (),
    replies: Sequence[ModelReply | str] = (),
    *,
    model: ScriptedModel | None = None,
    **options: Any,
) -> AgentExecutor:
    """Return an executor of a scripted model with one tool, and with these pieces."""
    scripted = ScriptedModel([*replies] or [call("a"), "done"], repeat_last=True) if model is None else model
    options.setdefault("handlers", {AskHuman: answer_person})
    options.setdefault("max_iterations", ITERATIONS)
    options.setdefault("max_fan_out", 8)
    return caller_of(scripted, LOOK_UP, handle_parsing_errors=True, nodes=pieces, **options)


def proof_of(executor: AgentExecutor) -> Certificate:
    """Return the certificate of an executor that has to have one."""
    certificate = executor.verify().certificate
    assert certificate is not None
    return certificate


def pause(executor: AgentExecutor) -> PendingEffect:
    """Run until a person has to answer, and store the run."""
    return resume(executor, snapshot_after(MissingHandlerError, lambda: executor.run("hi")).to_json())


def resume(executor: AgentExecutor, stored: str) -> PendingEffect:
    pending = advance(executor.graph, Snapshot.from_json(stored, executor.graph), executor.limits)
    assert isinstance(pending, PendingEffect)
    return pending


class PauseError(Exception):
    """Raised by an observer to pause a run after a request was answered."""


class Pauses:
    """An observer that pauses a run each time all effects of a request of the outer run have their replies."""

    raise_error = True

    def __init__(self) -> None:
        self._answered = 0

    def __call__(self, event: Event[Any]) -> None:
        if not isinstance(event, Answered) or event.call is None or event.call.request is None:
            return
        self._answered += 1
        if self._answered == len(members_of(event.call.request)):
            raise PauseError


def run_in_pieces(make: Callable[[Sequence[Any]], AgentExecutor], inputs: Any) -> tuple[Any, int]:
    """Run to the end, stored as JSON and resumed by a new executor after each request; return the result and pauses.

    `make` returns the executor with these observers.
    """
    start, pauses = inputs, 0
    while True:
        executor = make([Pauses()])
        try:
            return executor.run(start), pauses
        except PauseError as error:
            snapshot = snapshot_of(error)
            assert snapshot is not None
            start, pauses = Snapshot.from_json(snapshot.to_json(), executor.graph), pauses + 1
            assert pauses < 200
