"""Machines with endless runs, one for each cause, and similar machines whose runs all end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import graphexec as gx
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


@gx.node
def careful_parse(replied: Replied) -> Acted | gx.AgentFinish | Unclear:
    return Unclear(replied.run)


@gx.charged(when_spent=limit_reached)
@gx.node
def ask_again(unclear: Unclear) -> gx.Asks[CallModel, Replied]:
    reply = yield from gx.ask(CallModel(CompletionRequest("Say it again.")))
    return Replied(unclear.run, reply)


careful = rename(careful_parse, "parse")


def retrying(asker: Any) -> gx.Graph[Ready, Any]:
    """The agent's machine with `asker` on a cycle around `parse`."""
    return gx.graph(
        gx.edges(plan, gx.on(Replied, careful) | gx.on(LimitReached, stopped_response))
        | gx.edges(careful, gx.on(Acted, dispatch_tools) | gx.on(Unclear, asker) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(asker, gx.on(Replied, careful) | gx.on(LimitReached, stopped_response))
        | gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(LimitReached, stopped_response))
        | gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END)),
        start=plan,
    )


UNMETERED_RETRY = retrying(ask_again)
METERED_RETRY = retrying(gx.metered(when_spent=limit_reached)(ask_again))

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
    limit: gx.Exhausted


LEFT, RIGHT = gx.Budget("left", 3), gx.Budget("right", 2)


@gx.metered(when_spent=Left, budget=LEFT)
@gx.node
def go_left(a: A) -> B | Over:
    return B()


@gx.metered(when_spent=Left, budget=RIGHT)
@gx.node
def go_right(b: B) -> A | Over:
    return A()


@gx.node
def come_back(b: B) -> A | Over:
    return A()


# The loop resets the budget that should bound it.
RESET_INSIDE = gx.graph(
    gx.edges(go_left, gx.on(B, come_back) | gx.on(Over, gx.END) | gx.on(Left, gx.END))
    | gx.edges(come_back, gx.on(A, go_left, resets=[LEFT]) | gx.on(Over, gx.END)),
    start=go_left,
)
RESET_OUTSIDE = gx.graph(
    gx.edges(go_left, gx.on(B, come_back) | gx.on(Over, gx.END) | gx.on(Left, gx.END))
    | gx.edges(come_back, gx.on(A, go_left) | gx.on(Over, gx.END, resets=[LEFT])),
    start=go_left,
)

# Two loops, each of which resets the budget of the other.
EACH_OTHERS = gx.graph(
    gx.edges(go_left, gx.on(B, go_right, resets=[RIGHT]) | gx.on(Over, gx.END) | gx.on(Left, gx.END))
    | gx.edges(go_right, gx.on(A, go_left, resets=[LEFT]) | gx.on(Over, gx.END) | gx.on(Left, gx.END)),
    start=go_left,
)
ONE_OF_TWO = gx.graph(
    gx.edges(go_left, gx.on(B, go_right, resets=[RIGHT]) | gx.on(Over, gx.END) | gx.on(Left, gx.END))
    | gx.edges(go_right, gx.on(A, go_left) | gx.on(Over, gx.END) | gx.on(Left, gx.END)),
    start=go_left,
)

# ---- a stop that asks the model once more


@gx.node
def last_words(reached: LimitReached) -> gx.Asks[CallModel, gx.AgentFinish]:
    reply = yield from gx.ask(CallModel(CompletionRequest("Answer now.")))
    return gx.AgentFinish({"output": getattr(reply, "content", reply)})


def still_reached(reached: LimitReached, limit: gx.Exhausted) -> LimitReached:
    return reached


def generating(generate: Any, rows: Any) -> gx.Graph[Ready, Any]:
    """The agent's machine with `generate` instead of the stopped response."""
    return gx.graph(
        gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, generate))
        | gx.edges(parse, gx.on(Acted, dispatch_tools) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(LimitReached, generate))
        | gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | rows,
        start=plan,
    )


_spending: Any = rename(gx.metered(when_spent=still_reached)(last_words), "generate")
GENERATE_FROM_THE_SPENT = generating(
    _spending, gx.edges(_spending, gx.on(gx.AgentFinish, gx.END) | gx.on(LimitReached, _spending))
)
_reserved: Any = rename(gx.charged(when_spent=still_reached, asks=1)(last_words), "generate")
GENERATE_ON_ITS_OWN = generating(
    _reserved,
    gx.edges(_reserved, gx.on(gx.AgentFinish, gx.END) | gx.on(LimitReached, stopped_response))
    | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END)),
)

# ---- a person who may grant more without a limit


@final
@dataclass(frozen=True)
class Extended:
    """A person allows more."""

    run: Run


@gx.charged(when_spent=limit_reached)
@gx.node
def ask_for_more(reached: LimitReached) -> gx.Asks[gx.AskHuman, Ready | LimitReached]:
    answer = yield from gx.ask(gx.AskHuman("More?"))
    return Ready(reached.run) if answer == "yes" else reached


def extending(asker: Any) -> gx.Graph[Ready, Any]:
    """The agent's machine in which a person may reset the iterations."""
    return gx.graph(
        gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, asker))
        | gx.edges(parse, gx.on(Acted, dispatch_tools) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(LimitReached, stopped_response))
        | gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(asker, gx.on(Ready, plan, resets=[ITERATIONS]) | gx.on(LimitReached, stopped_response))
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END)),
        start=plan,
    )


EXTENSIONS = gx.Budget("extensions", 2)
FREE_EXTENSION = extending(ask_for_more)
PAID_EXTENSION = extending(gx.metered(when_spent=limit_reached, budget=EXTENSIONS)(ask_for_more))
PAID_EXTENSION_FLOW = flow_of(PAID_EXTENSION)

# ---- an agent within an agent


@final
@dataclass(frozen=True)
class Task:
    """The task that a parent passes to its child."""


@gx.node
def take_on(task: Task) -> Ready:
    return Ready(Run({}))


@gx.node
def deliver(finish: gx.AgentFinish) -> Task | Over:
    return Over()


@gx.node
def give_up(stopped: gx.StoppedResponse) -> Over:
    return Over()


def parent(child: Any, deliverer: Any, routes: Any) -> gx.Graph[Task, Any]:
    """Return a machine that passes tasks to `child`, one after another."""
    return gx.graph(
        gx.edges(take_on, gx.on(Ready, child))
        | gx.edges(child, gx.on(gx.AgentFinish, deliverer) | gx.on(gx.StoppedResponse, give_up))
        | gx.edges(deliverer, routes)
        | gx.edges(give_up, gx.on(Over, gx.END)),
        start=take_on,
    )


TASKS = gx.Budget("tasks", 3)
counting_deliver = gx.metered(when_spent=Left, budget=TASKS)(deliver)
OWN = [gx.Budget("iterations", 5)]
_more = gx.on(Task, take_on) | gx.on(Over, gx.END)
ENDLESS_CHILD = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), deliver, _more)
CHILD_COUNTED = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), counting_deliver, _more | gx.on(Left, gx.END))


@gx.node
def hand_back(finish: gx.AgentFinish) -> Ready | Over:
    return Ready(finish.run)


def handing_back(routes: Any) -> gx.Graph[Ready, Any]:
    """Return a parent agent that passes every action to a child; they share the iterations."""
    child = gx.embed(AGENT_EXECUTOR, "child")
    return gx.graph(
        gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, stopped_response))
        | gx.edges(parse, gx.on(Acted, delegate) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(delegate, gx.on(Ready, child))
        | gx.edges(child, gx.on(gx.AgentFinish, hand_back) | gx.on(gx.StoppedResponse, give_up))
        | gx.edges(hand_back, routes)
        | gx.edges(give_up, gx.on(Over, gx.END))
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END)),
        start=plan,
    )


@gx.node
def delegate(acted: Acted) -> Ready:
    return Ready(acted.run)


REFILLS_ITS_PARENT = handing_back(gx.on(Ready, plan, resets=[ITERATIONS]) | gx.on(Over, gx.END))
SHARES_WITH_ITS_PARENT = handing_back(gx.on(Ready, plan) | gx.on(Over, gx.END))

# ---- drafts: tables that `graph` refuses


@gx.node
def look(a: A) -> B | Over:
    return Over()


@gx.node
def turn(b: B) -> A | Over:
    return A()


@gx.node
def unheard(a: A) -> Over:
    return Over()


@gx.node
def unused(b: B) -> Over:
    return Over()


# A type checker reports these, too.
UNFINISHED: Any = gx.on(Over, gx.END)
UNHANDLED = gx.draft(gx.edges(look, gx.on(B, turn) | gx.on(Over, gx.END)) | gx.edges(turn, UNFINISHED), start=look)
HANDLED = gx.graph(
    gx.edges(turn, gx.on(Over, gx.END) | gx.on(A, unheard)) | gx.edges(unheard, gx.on(Over, gx.END)), start=turn
)
UNREACHABLE = gx.draft(gx.edges(unheard, gx.on(Over, gx.END)) | gx.edges(unused, gx.on(Over, gx.END)), start=unheard)
REACHABLE = gx.graph(gx.edges(unheard, gx.on(Over, gx.END)), start=unheard)


@gx.metered(when_spent=Left)
@gx.node
def tick(a: A) -> B:
    return B()


@gx.node
def tock(b: B) -> A:
    return A()


@gx.node
def tock_or_stop(b: B) -> A | Over:
    return A()


ONLY_STOPPING = gx.graph(
    gx.edges(tick, gx.on(B, tock) | gx.on(Left, gx.END)) | gx.edges(tock, gx.on(A, tick)), start=tick
)
tock_ending = rename(tock_or_stop, "tock")
STOPPING_OR_NOT = gx.graph(
    gx.edges(tick, gx.on(B, tock_ending) | gx.on(Left, gx.END))
    | gx.edges(tock_ending, gx.on(A, tick) | gx.on(Over, gx.END)),
    start=tick,
)
