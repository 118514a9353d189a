"""Machines with endless runs, one for each cause, and similar machines whose runs all end."""

from typing import Any

import graphexec as gx
from graphexec import actions, effects, kernel, messages
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
from graphexec.verify.proof.flow import flow_of
from tests.kernel.machines import machine_of, value

# ---- rows of the agent's machine

# Any: their nodes stand in several machines.
_FINISH: Any = gx.on(gx.AgentFinish, gx.END)
_STOP: Any = gx.on(LimitReached, stopped_response)
_PARSING: Any = gx.edges(parse, gx.on(Acted, dispatch_tools) | gx.on(Ready, plan) | _FINISH)
_CHECKING: Any = gx.edges(check_return_direct, gx.on(Ready, plan) | _FINISH)
_ACTING: Any = gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | _STOP) | _CHECKING
_STOPPING: Any = gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END))

# ---- parse asks the model again without spending a budget


@value
class Unclear:
    """The reply was unreadable."""

    run: actions.Run


@gx.node
def careful_parse(replied: Replied) -> Acted | gx.AgentFinish | Unclear:
    return Unclear(replied.run)


@gx.charged(when_spent=limit_reached)
@gx.node
def ask_again(unclear: Unclear) -> gx.Asks[effects.CallModel, Replied]:
    reply = yield from gx.ask(effects.CallModel(messages.CompletionRequest("Say it again.")))
    return Replied(unclear.run, reply)


careful = kernel.rename(careful_parse, "parse")


def retrying(asker: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine with `asker` on a cycle around `parse`."""
    return machine_of(plan, careful, asker, dispatch_tools, check_return_direct, stopped_response)


UNMETERED_RETRY = retrying(ask_again)
METERED_RETRY = retrying(gx.metered(when_spent=limit_reached)(ask_again))

# ---- loops over small values


@value
class A:
    """A value."""


@value
class B:
    """Another."""


@value
class Over:
    """The end."""


@value
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


_OVER: Any = gx.on(Over, gx.END)
_LEAVE: Any = _OVER | gx.on(Left, gx.END)


def leaving(right: Any, there: Any, back: Any) -> gx.Machine[A, Any]:
    """Return a loop of `go_left` and another node, with the routes between them."""
    return gx.graph(gx.edges(go_left, there | _LEAVE) | gx.edges(right, back), start=go_left)


# The loop resets the budget that should bound it.
RESET_INSIDE = leaving(come_back, gx.on(B, come_back), gx.on(A, go_left, resets=[LEFT]) | _OVER)
RESET_OUTSIDE = leaving(come_back, gx.on(B, come_back), gx.on(A, go_left) | gx.on(Over, gx.END, resets=[LEFT]))

# Two loops, each of which resets the budget of the other.
_THERE: Any = gx.on(B, go_right, resets=[RIGHT])
EACH_OTHERS = leaving(go_right, _THERE, gx.on(A, go_left, resets=[LEFT]) | _LEAVE)
ONE_OF_TWO = leaving(go_right, _THERE, gx.on(A, go_left) | _LEAVE)

# ---- a stop that asks the model once more


@gx.node
def last_words(reached: LimitReached) -> gx.Asks[effects.CallModel, gx.AgentFinish]:
    reply = yield from gx.ask(effects.CallModel(messages.CompletionRequest("Answer now.")))
    return gx.AgentFinish({"output": getattr(reply, "content", reply)})


def still_reached(reached: LimitReached, limit: gx.Exhausted) -> LimitReached:
    return reached


def generating(generate: Any, rows: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine with `generate` instead of the stopped response."""
    asking = gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, generate))
    acting = gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(LimitReached, generate))
    return gx.graph(asking | _PARSING | acting | _CHECKING | rows, start=plan)


_spending: Any = kernel.rename(gx.metered(when_spent=still_reached)(last_words), "generate")
GENERATE_FROM_THE_SPENT = generating(_spending, gx.edges(_spending, _FINISH | gx.on(LimitReached, _spending)))
_reserved: Any = kernel.rename(gx.charged(when_spent=still_reached, asks=1)(last_words), "generate")
GENERATE_ON_ITS_OWN = generating(_reserved, gx.edges(_reserved, _FINISH | _STOP) | _STOPPING)

# ---- a person who may grant more without a limit


@gx.charged(when_spent=limit_reached)
@gx.node
def ask_for_more(reached: LimitReached) -> gx.Asks[gx.AskHuman, Ready | LimitReached]:
    answer = yield from gx.ask(gx.AskHuman("More?"))
    return Ready(reached.run) if answer == "yes" else reached


def extending(asker: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine in which a person may reset the iterations."""
    asking = gx.edges(plan, gx.on(Replied, parse) | gx.on(LimitReached, asker))
    extending = gx.edges(asker, gx.on(Ready, plan, resets=[kernel.ITERATIONS]) | _STOP)
    return gx.graph(asking | _PARSING | _ACTING | extending | _STOPPING, start=plan)


EXTENSIONS = gx.Budget("extensions", 2)
FREE_EXTENSION = extending(ask_for_more)
PAID_EXTENSION = extending(gx.metered(when_spent=limit_reached, budget=EXTENSIONS)(ask_for_more))
PAID_EXTENSION_FLOW = flow_of(PAID_EXTENSION)

# ---- an agent within an agent


@value
class Task:
    """The task that a parent passes to its child."""


@gx.node
def take_on(task: Task) -> Ready:
    return Ready(actions.Run({}))


@gx.node
def deliver(finish: gx.AgentFinish) -> Task | Over:
    return Over()


@gx.node
def give_up(stopped: gx.StoppedResponse) -> Over:
    return Over()


def parent(child: Any, deliverer: Any) -> gx.Machine[Task, Any]:
    """Return a machine that passes tasks to `child`, one after another."""
    return machine_of(take_on, child, deliverer, give_up)


TASKS = gx.Budget("tasks", 3)
counting_deliver = gx.metered(when_spent=Left, budget=TASKS)(deliver)
OWN = [gx.Budget("iterations", 5)]
ENDLESS_CHILD = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), deliver)
CHILD_COUNTED = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), counting_deliver)


@gx.node
def hand_back(finish: gx.AgentFinish) -> Ready | Over:
    return Ready(finish.run)


def handing_back(routes: Any) -> gx.Machine[Ready, Any]:
    """Return a parent agent that passes every action to a child; they share the iterations."""
    child = gx.embed(AGENT_EXECUTOR, "child")
    return gx.graph(
        gx.edges(plan, gx.on(Replied, parse) | _STOP)
        | gx.edges(parse, gx.on(Acted, delegate) | gx.on(Ready, plan) | _FINISH)
        | gx.edges(delegate, gx.on(Ready, child))
        | gx.edges(child, gx.on(gx.AgentFinish, hand_back) | gx.on(gx.StoppedResponse, give_up))
        | gx.edges(hand_back, routes)
        | gx.edges(give_up, _OVER)
        | _STOPPING,
        start=plan,
    )


@gx.node
def delegate(acted: Acted) -> Ready:
    return Ready(acted.run)


REFILLS_ITS_PARENT = handing_back(gx.on(Ready, plan, resets=[kernel.ITERATIONS]) | _OVER)
SHARES_WITH_ITS_PARENT = handing_back(gx.on(Ready, plan) | _OVER)

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
UNFINISHED: Any = _OVER
UNHANDLED = gx.draft(gx.edges(look, gx.on(B, turn) | _OVER) | gx.edges(turn, UNFINISHED), start=look)
HANDLED = machine_of(turn, unheard)
UNREACHABLE = gx.draft(gx.edges(unheard, _OVER) | gx.edges(unused, _OVER), start=unheard)
REACHABLE = machine_of(unheard)


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


tock_ending = kernel.rename(tock_or_stop, "tock")


def ticking(other: Any) -> gx.Machine[A, Any]:
    return machine_of(tick, other)


ONLY_STOPPING = ticking(tock)
STOPPING_OR_NOT = ticking(tock_ending)
