"""A machine that asks a person before deletions, one with a shortcut around that, and the standard executor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

import pydantic

import graphexec as gx
from graphexec import actions, executor, models, tool
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.kernel import ITERATIONS, node
from graphexec.messages import CompletionRequest, ModelReply
from graphexec.testing.explorer.oracle import Replies
from tests.kernel.machines import Halted, machine_of, value


@value
class Errand:
    done: tuple[str, ...] = ()


@value
class Wanted:
    errand: Errand
    tool: str


@value
class Urgent:
    errand: Errand
    tool: str


@value
class Approved:
    errand: Errand
    tool: str


@value
class Replied:
    text: str


@value
class Stopped:
    at: Errand | Wanted | Urgent | Approved
    limit: gx.Exhausted


@node(when_spent=Stopped, meters=[ITERATIONS], asks=1)
def decide(errand: Errand) -> gx.Asks[CallModel, Wanted | Urgent | Replied]:
    reply = yield from gx.ask(CallModel(CompletionRequest("What next?")))
    if reply.content == "look":
        return Wanted(errand, "list_files")
    if reply.content == "delete":
        return Wanted(errand, "delete_file")
    return Urgent(errand, "delete_file") if reply.content == "delete now" else Replied(reply.content)


@node(when_spent=Stopped, asks=1)
def approve(wanted: Wanted | Urgent) -> gx.Asks[gx.AskHuman, Approved | Errand]:
    answer = yield from gx.ask(gx.AskHuman(f"May I use {wanted.tool}?"))
    return Approved(wanted.errand, wanted.tool) if answer == "yes" else wanted.errand


@node(when_spent=Stopped, asks=1)
def act(approved: Approved | Urgent) -> gx.Asks[CallTool, Errand]:
    result: ToolResult = yield from gx.ask(CallTool(approved.tool, {}))
    return Errand((*approved.errand.done, result.status))


_STOPPED: Any = gx.on(Stopped, gx.END)
_APPROVED: Any = gx.edges(approve, gx.on(Approved, act) | gx.on(Errand, decide) | _STOPPED) | gx.edges(
    act, gx.on(Errand, decide) | _STOPPED
)


def deciding(urgent: Any) -> gx.Machine[Errand, Replied | Stopped]:
    """Return the machine that leads urgent errands to a node."""
    routes = gx.on(Wanted, approve) | gx.on(Urgent, urgent) | gx.on(Replied, gx.END) | _STOPPED
    return gx.graph(gx.edges(decide, routes) | _APPROVED, start=decide)


GUARDED = deciding(approve)
# Urgent errands are done at once, without an approval.
SHORTCUT = deciding(act)

REPLIES: Replies = {
    CallModel: [ModelReply("look"), ModelReply("delete"), ModelReply("delete now"), ModelReply("it is done")]
}


# ---- a questionnaire: one node that asks several questions


@value
class Form:
    name: str = "form"


@value
class Expected: ...


@value
class Unexpected: ...


@value
class Trying:
    times: int = 0
    notify: Callable[[], None] | None = None


@dataclass(frozen=True)
class Question(gx.Effect[bool]):
    text: str


@node(when_spent=Halted, asks=2)
def compare(form: Form) -> gx.Asks[Question, Expected | Unexpected]:
    first = yield from gx.ask(Question(f"{form.name} 1"))
    second = yield from gx.ask(Question(f"{form.name} 2"))
    return Expected() if first == second else Unexpected()


QUESTIONNAIRE: gx.Machine[Form, Expected | Unexpected | Halted] = machine_of(compare)

# ---- retries: a loop that counts in its value


@node(when_spent=Halted, asks=1)
def attempt(trying: Trying) -> gx.Asks[CallModel, Trying | Expected]:
    yield from gx.ask(CallModel(CompletionRequest(f"try {trying.times}")))
    return Expected() if trying.times == 2 else Trying(trying.times + 1, trying.notify)


TRYING: gx.Machine[Trying, Expected | Halted] = machine_of(attempt)

# ---- the standard executor, with each kind of agent


@tool
def look_up(text: str) -> str:
    """Look it up."""
    return text


@tool(return_direct=True)
def answer_with(text: str) -> str:
    """Answer with it."""
    return text


@tool(on_error="raise")
def delete_file(name: str) -> str:
    """Delete the file."""
    return name


Kind: TypeAlias = Literal["react", "tool calling", "structured", "callable"]
KINDS: tuple[Kind, ...] = ("react", "tool calling", "structured", "callable")


def never_called(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
    raise AssertionError("nothing calls this")


def executor_of(kind: Kind = "react", tools: Sequence[Any] = (look_up,), *, strict: bool = False) -> gx.AgentExecutor:
    makers: dict[str, Any] = {
        "react": gx.create_react_agent,
        "tool calling": gx.create_tool_calling_agent,
        "structured": gx.create_structured_agent,
    }
    agent: Any = never_called if kind == "callable" else makers[kind](models.ScriptedModel(["never asked"]), tools)
    return gx.AgentExecutor(agent=agent, tools=list(tools), handle_parsing_errors=not strict)


READY = executor.Ready(actions.Run({"input": "q"}))


# ---- values of other kinds


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Label(pydantic.BaseModel):
    text: str
