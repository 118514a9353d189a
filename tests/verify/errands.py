"""A machine that asks a person before deletions, one with a shortcut around that, and the standard executor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, final

import pydantic

import graphexec as gx
from graphexec import tool
from graphexec.actions import Run, Steps
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.executor import Ready
from graphexec.kernel import charged, draft, metered, node
from graphexec.messages import CompletionRequest, ModelReply
from graphexec.models import ScriptedModel
from graphexec.verify.explorer.oracle import Replies


@final
@dataclass(frozen=True)
class Errand:
    done: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Wanted:
    errand: Errand
    tool: str


@final
@dataclass(frozen=True)
class Urgent:
    errand: Errand
    tool: str


@final
@dataclass(frozen=True)
class Approved:
    errand: Errand
    tool: str


@final
@dataclass(frozen=True)
class Replied:
    text: str


@final
@dataclass(frozen=True)
class Stopped:
    at: Errand | Wanted | Urgent | Approved
    limit: gx.Exhausted


@metered(when_spent=Stopped, asks=1)
@node
def decide(errand: Errand) -> gx.Asks[CallModel, Wanted | Urgent | Replied]:
    reply = yield from gx.ask(CallModel(CompletionRequest("What next?")))
    if reply.content == "look":
        return Wanted(errand, "list_files")
    if reply.content == "delete":
        return Wanted(errand, "delete_file")
    return Urgent(errand, "delete_file") if reply.content == "delete now" else Replied(reply.content)


@charged(when_spent=Stopped, asks=1)
@node
def approve(wanted: Wanted | Urgent) -> gx.Asks[gx.AskHuman, Approved | Errand]:
    answer = yield from gx.ask(gx.AskHuman(f"May I use {wanted.tool}?"))
    return Approved(wanted.errand, wanted.tool) if answer == "yes" else wanted.errand


@charged(when_spent=Stopped, asks=1)
@node
def act(approved: Approved | Urgent) -> gx.Asks[CallTool, Errand]:
    result: ToolResult = yield from gx.ask(CallTool(approved.tool, {}))
    return Errand((*approved.errand.done, result.status))


_APPROVED = gx.edges(approve, gx.on(Approved, act) | gx.on(Errand, decide) | gx.on(Stopped, gx.END)) | gx.edges(
    act, gx.on(Errand, decide) | gx.on(Stopped, gx.END)
)

GUARDED: gx.Graph[Errand, Replied | Stopped] = gx.graph(
    gx.edges(decide, gx.on(Wanted, approve) | gx.on(Urgent, approve) | gx.on(Replied, gx.END) | gx.on(Stopped, gx.END))
    | _APPROVED,
    start=decide,
)

# Urgent errands are done at once, without an approval.
SHORTCUT: gx.Graph[Errand, Replied | Stopped] = gx.graph(
    gx.edges(decide, gx.on(Wanted, approve) | gx.on(Urgent, act) | gx.on(Replied, gx.END) | gx.on(Stopped, gx.END))
    | _APPROVED,
    start=decide,
)

REPLIES: Replies = {
    CallModel: [ModelReply("look"), ModelReply("delete"), ModelReply("delete now"), ModelReply("it is done")]
}


# ---- a questionnaire: one node that asks several questions


@dataclass(frozen=True)
class Question(gx.Effect[bool]):
    text: str


@final
@dataclass(frozen=True)
class Form:
    name: str = "form"


@final
@dataclass(frozen=True)
class Same:
    pass


@final
@dataclass(frozen=True)
class Different:
    pass


@final
@dataclass(frozen=True)
class Unfinished:
    at: Form
    limit: gx.Exhausted


@charged(when_spent=Unfinished, asks=2)
@node
def compare(form: Form) -> gx.Asks[Question, Same | Different]:
    first = yield from gx.ask(Question(f"{form.name} 1"))
    second = yield from gx.ask(Question(f"{form.name} 2"))
    return Same() if first == second else Different()


QUESTIONNAIRE: gx.Graph[Form, Same | Different | Unfinished] = gx.graph(
    gx.edges(compare, gx.on(Same, gx.END) | gx.on(Different, gx.END) | gx.on(Unfinished, gx.END)),
    start=compare,
)


# ---- retries: a loop that counts in its value


@final
@dataclass(frozen=True)
class Trying:
    times: int = 0
    notify: Callable[[], None] | None = None


@final
@dataclass(frozen=True)
class GivenUp:
    pass


@final
@dataclass(frozen=True)
class Interrupted:
    at: Trying
    limit: gx.Exhausted


@charged(when_spent=Interrupted, asks=1)
@node
def attempt(trying: Trying) -> gx.Asks[CallModel, Trying | GivenUp]:
    yield from gx.ask(CallModel(CompletionRequest(f"try {trying.times}")))
    return GivenUp() if trying.times == 2 else Trying(trying.times + 1, trying.notify)


TRYING: gx.Graph[Trying, GivenUp | Interrupted] = gx.graph(
    gx.edges(attempt, gx.on(Trying, attempt) | gx.on(GivenUp, gx.END) | gx.on(Interrupted, gx.END)),
    start=attempt,
)


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


def never_called(steps: Steps, inputs: dict[str, Any]) -> Any:
    raise AssertionError("nothing calls this")


def executor_of(kind: Kind = "react", tools: Sequence[Any] = (look_up,), *, strict: bool = False) -> gx.AgentExecutor:
    model = ScriptedModel(["never asked"])
    agent: Any
    match kind:
        case "react":
            agent = gx.create_react_agent(model, tools)
        case "tool calling":
            agent = gx.create_tool_calling_agent(model, tools)
        case "structured":
            agent = gx.create_structured_agent(model, tools)
        case "callable":
            agent = never_called
    return gx.AgentExecutor(agent=agent, tools=list(tools), handle_parsing_errors=not strict)


READY = Ready(Run({"input": "q"}))


# ---- a parcel: a node that depends on its input


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Label(pydantic.BaseModel):
    text: str


@final
@dataclass(frozen=True)
class Parcel:
    contents: Any


@final
@dataclass(frozen=True)
class Expected:
    pass


@final
@dataclass(frozen=True)
class Unexpected:
    pass


CONTENTS: list[Any] = [
    Colour.RED,
    Colour,
    Label(text='it\'s "mine"'),
    Steps([gx.AgentStep(gx.AgentAction("look_up", {"text": "x"}), "y", "error")]),
    Run({"input": "q", "numbers": [1, 2.5, float("inf"), -1, True, None]}),
    (Form(), Form("other"), ("one",), ()),
    b"bytes",
]


@node
def unpack(parcel: Parcel) -> Expected | Unexpected:
    return Expected() if parcel.contents == CONTENTS else Unexpected()


PARCEL: gx.Graph[Parcel, Expected | Unexpected] = gx.graph(
    gx.edges(unpack, gx.on(Expected, gx.END) | gx.on(Unexpected, gx.END)),
    start=unpack,
)


# ---- a draft without an edge


UNROUTED: gx.Graph[Parcel, Expected] = draft(gx.edges(unpack, gx.on(Expected, gx.END)), start=unpack)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
