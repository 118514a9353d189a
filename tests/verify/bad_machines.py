"""Machines with endless runs, one for each cause, and similar machines whose runs all end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from graphexec import (
    END,
    AgentFinish,
    AskHuman,
    Asks,
    Budget,
    Exhausted,
    Graph,
    StoppedResponse,
    ask,
    charged,
    draft,
    edges,
    embed,
    graph,
    metered,
    node,
    on,
)
from graphexec.actions import Run
from graphexec.effects import CallModel
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    LimitReached,
    Observed,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.kernel import ITERATIONS, rename
from graphexec.messages import CompletionRequest
from graphexec.verify.proof.flow import flow_of

# ---- parse asks the model again without spending a budget


@final
@dataclass(frozen=True)
class Unclear:
    """The reply was unreadable."""

    run: Run


@node
def careful_parse(replied: Replied) -> Acted | AgentFinish | Unclear:
    return Unclear(replied.run)


@charged(when_spent=limit_reached)
@node
def ask_again(unclear: Unclear) -> Asks[CallModel, Replied]:
    reply = yield from ask(CallModel(CompletionRequest("Say it again.")))
    return Replied(unclear.run, reply)


careful = rename(careful_parse, "parse")


def retrying(asker: Any) -> Graph[Ready, Any]:
    """The agent's machine with `asker` on a cycle around `parse`."""
    return graph(
        edges(plan, on(Replied, careful) | on(LimitReached, stopped_response))
        | edges(careful, on(Acted, dispatch_tools) | on(Unclear, asker) | on(AgentFinish, END))
        | edges(asker, on(Replied, careful) | on(LimitReached, stopped_response))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | edges(stopped_response, on(StoppedResponse, END)),
        start=plan,
    )


UNMETERED_RETRY = retrying(ask_again)
METERED_RETRY = retrying(metered(when_spent=limit_reached)(ask_again))

# ---- loops over small values


@final
@dataclass(frozen=True)
class A:
    """A value."""


@final
@dataclass(frozen=True)
class B:
    """Another."""


@final
@dataclass(frozen=True)
class Over:
    """The end."""


@final
@dataclass(frozen=True)
class Left:
    """A limit is reached."""

    given: object
    limit: Exhausted


LEFT, RIGHT = Budget("left", 3), Budget("right", 2)


@metered(when_spent=Left, budget=LEFT)
@node
def go_left(a: A) -> B | Over:
    return B()


@metered(when_spent=Left, budget=RIGHT)
@node
def go_right(b: B) -> A | Over:
    return A()


@node
def come_back(b: B) -> A | Over:
    return A()


# The loop resets the budget that should bound it.
RESET_INSIDE = graph(
    edges(go_left, on(B, come_back) | on(Over, END) | on(Left, END))
    | edges(come_back, on(A, go_left, resets=[LEFT]) | on(Over, END)),
    start=go_left,
)
RESET_OUTSIDE = graph(
    edges(go_left, on(B, come_back) | on(Over, END) | on(Left, END))
    | edges(come_back, on(A, go_left) | on(Over, END, resets=[LEFT])),
    start=go_left,
)

# Two loops, each of which resets the budget of the other.
EACH_OTHERS = graph(
    edges(go_left, on(B, go_right, resets=[RIGHT]) | on(Over, END) | on(Left, END))
    | edges(go_right, on(A, go_left, resets=[LEFT]) | on(Over, END) | on(Left, END)),
    start=go_left,
)
ONE_OF_TWO = graph(
    edges(go_left, on(B, go_right, resets=[RIGHT]) | on(Over, END) | on(Left, END))
    | edges(go_right, on(A, go_left) | on(Over, END) | on(Left, END)),
    start=go_left,
)

# ---- a stop that asks the model once more


@node
def last_words(reached: LimitReached) -> Asks[CallModel, AgentFinish]:
    reply = yield from ask(CallModel(CompletionRequest("Answer now.")))
    return AgentFinish({"output": getattr(reply, "content", reply)})


def still_reached(reached: LimitReached, limit: Exhausted) -> LimitReached:
    return reached


def generating(generate: Any, rows: Any) -> Graph[Ready, Any]:
    """The agent's machine with `generate` instead of the stopped response."""
    return graph(
        edges(plan, on(Replied, parse) | on(LimitReached, generate))
        | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, generate))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | rows,
        start=plan,
    )


_spending: Any = rename(metered(when_spent=still_reached)(last_words), "generate")
GENERATE_FROM_THE_SPENT = generating(_spending, edges(_spending, on(AgentFinish, END) | on(LimitReached, _spending)))
_reserved: Any = rename(charged(when_spent=still_reached, asks=1)(last_words), "generate")
GENERATE_ON_ITS_OWN = generating(
    _reserved,
    edges(_reserved, on(AgentFinish, END) | on(LimitReached, stopped_response))
    | edges(stopped_response, on(StoppedResponse, END)),
)

# ---- a person who may grant more without a limit


@final
@dataclass(frozen=True)
class Extended:
    """A person allows more."""

    run: Run


@charged(when_spent=limit_reached)
@node
def ask_for_more(reached: LimitReached) -> Asks[AskHuman, Ready | LimitReached]:
    answer = yield from ask(AskHuman("More?"))
    return Ready(reached.run) if answer == "yes" else reached


def extending(asker: Any) -> Graph[Ready, Any]:
    """The agent's machine in which a person may reset the iterations."""
    return graph(
        edges(plan, on(Replied, parse) | on(LimitReached, asker))
        | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | edges(asker, on(Ready, plan, resets=[ITERATIONS]) | on(LimitReached, stopped_response))
        | edges(stopped_response, on(StoppedResponse, END)),
        start=plan,
    )


EXTENSIONS = Budget("extensions", 2)
FREE_EXTENSION = extending(ask_for_more)
PAID_EXTENSION = extending(metered(when_spent=limit_reached, budget=EXTENSIONS)(ask_for_more))
PAID_EXTENSION_FLOW = flow_of(PAID_EXTENSION)

# ---- an agent within an agent


@final
@dataclass(frozen=True)
class Task:
    """The task that a parent passes to its child."""


@node
def take_on(task: Task) -> Ready:
    return Ready(Run({}))


@node
def deliver(finish: AgentFinish) -> Task | Over:
    return Over()


@node
def give_up(stopped: StoppedResponse) -> Over:
    return Over()


def parent(child: Any, deliverer: Any, routes: Any) -> Graph[Task, Any]:
    """Return a machine that passes tasks to `child`, one after another."""
    return graph(
        edges(take_on, on(Ready, child))
        | edges(child, on(AgentFinish, deliverer) | on(StoppedResponse, give_up))
        | edges(deliverer, routes)
        | edges(give_up, on(Over, END)),
        start=take_on,
    )


TASKS = Budget("tasks", 3)
counting_deliver = metered(when_spent=Left, budget=TASKS)(deliver)
OWN = [Budget("iterations", 5)]
_more = on(Task, take_on) | on(Over, END)
ENDLESS_CHILD = parent(embed(AGENT_EXECUTOR, "research", own=OWN), deliver, _more)
CHILD_COUNTED = parent(embed(AGENT_EXECUTOR, "research", own=OWN), counting_deliver, _more | on(Left, END))


@node
def hand_back(finish: AgentFinish) -> Ready | Over:
    return Ready(finish.run)


def handing_back(routes: Any) -> Graph[Ready, Any]:
    """Return a parent agent that passes every action to a child; they share the iterations."""
    child = embed(AGENT_EXECUTOR, "child")
    return graph(
        edges(plan, on(Replied, parse) | on(LimitReached, stopped_response))
        | edges(parse, on(Acted, delegate) | on(Ready, plan) | on(AgentFinish, END))
        | edges(delegate, on(Ready, child))
        | edges(child, on(AgentFinish, hand_back) | on(StoppedResponse, give_up))
        | edges(hand_back, routes)
        | edges(give_up, on(Over, END))
        | edges(stopped_response, on(StoppedResponse, END)),
        start=plan,
    )


@node
def delegate(acted: Acted) -> Ready:
    return Ready(acted.run)


REFILLS_ITS_PARENT = handing_back(on(Ready, plan, resets=[ITERATIONS]) | on(Over, END))
SHARES_WITH_ITS_PARENT = handing_back(on(Ready, plan) | on(Over, END))

# ---- drafts: tables that `graph` refuses


@node
def look(a: A) -> B | Over:
    return Over()


@node
def turn(b: B) -> A | Over:
    return A()


@node
def unheard(a: A) -> Over:
    return Over()


@node
def unused(b: B) -> Over:
    return Over()


# A type checker reports these, too.
UNFINISHED: Any = on(Over, END)
UNHANDLED = draft(edges(look, on(B, turn) | on(Over, END)) | edges(turn, UNFINISHED), start=look)
HANDLED = graph(edges(turn, on(Over, END) | on(A, unheard)) | edges(unheard, on(Over, END)), start=turn)
UNREACHABLE = draft(edges(unheard, on(Over, END)) | edges(unused, on(Over, END)), start=unheard)
REACHABLE = graph(edges(unheard, on(Over, END)), start=unheard)


@metered(when_spent=Left)
@node
def tick(a: A) -> B:
    return B()


@node
def tock(b: B) -> A:
    return A()


@node
def tock_or_stop(b: B) -> A | Over:
    return A()


ONLY_STOPPING = graph(edges(tick, on(B, tock) | on(Left, END)) | edges(tock, on(A, tick)), start=tick)
tock_ending = rename(tock_or_stop, "tock")
STOPPING_OR_NOT = graph(
    edges(tick, on(B, tock_ending) | on(Left, END)) | edges(tock_ending, on(A, tick) | on(Over, END)), start=tick
)
