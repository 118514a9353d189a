"""Machines with endless runs, one for each cause, and similar machines whose runs all end."""

from typing import Any

import graphexec as gx
from graphexec import actions, effects, kernel
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    Observed,
    Ready,
    Replied,
    Stopped,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.verify.proof.flow import flow_of
from tests.kernel.machines import Halted, machine_of, stub, value
from tests.kernel.unchecked import unchecked_graph

# ---- rows of the agent's machine

# Any: their nodes stand in several machines.
_FINISH: Any = gx.on(gx.AgentFinish, gx.END)
_STOP: Any = gx.on(Stopped, stopped_response)
_PARSING: Any = gx.edges(parse, gx.on(Acted, dispatch_tools) | gx.on(Ready, plan) | _FINISH)
_CHECKING: Any = gx.edges(check_return_direct, gx.on(Ready, plan) | _FINISH)
_ACTING: Any = gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | _STOP) | _CHECKING
_STOPPING: Any = gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END))

# ---- parse asks the model again without spending a budget


@value
class Unclear:
    run: actions.Run


careful = stub("parse", Replied, Acted | gx.AgentFinish | Unclear)
ask_again = gx.node(when_spent=limit_reached)(stub("ask_again", Unclear, Replied, asks=effects.CallModel))


def retrying(asker: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine with `asker` on a cycle around `parse`."""
    return machine_of(plan, careful, asker, dispatch_tools, check_return_direct, stopped_response)


UNMETERED_RETRY = retrying(ask_again)
METERED_RETRY = retrying(gx.node(when_spent=limit_reached, meters=[gx.ITERATIONS])(ask_again))

# ---- loops over small values


@value
class A: ...


@value
class B: ...


@value
class Over: ...


LEFT, RIGHT = gx.Meter("left", 3), gx.Meter("right", 2)


go_left: Any = gx.node(when_spent=Halted, meters=[LEFT])(stub("go_left", A, B | Over))
go_right: Any = gx.node(when_spent=Halted, meters=[RIGHT])(stub("go_right", B, A | Over))
come_back = stub("come_back", B, A | Over)


_OVER: Any = gx.on(Over, gx.END)
_LEAVE: Any = _OVER | gx.on(Halted, gx.END)


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


last_words = stub("generate", Stopped, gx.AgentFinish, asks=effects.CallModel)


def still_reached(reached: Stopped, limit: gx.Exhausted) -> Stopped:
    return reached


def generating(generate: Any, rows: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine with `generate` instead of the stopped response."""
    asking = gx.edges(plan, gx.on(Replied, parse) | gx.on(Stopped, generate))
    acting = gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(Stopped, generate))
    return gx.graph(asking | _PARSING | acting | _CHECKING | rows, start=plan)


_spending: Any = kernel.node(name="generate")(gx.node(when_spent=still_reached, meters=[gx.ITERATIONS])(last_words))
GENERATE_FROM_THE_SPENT = generating(_spending, gx.edges(_spending, _FINISH | gx.on(Stopped, _spending)))
_reserved: Any = kernel.node(name="generate")(gx.node(when_spent=still_reached, asks=1)(last_words))
GENERATE_ON_ITS_OWN = generating(_reserved, gx.edges(_reserved, _FINISH | _STOP) | _STOPPING)

# ---- a person who may grant more without a limit


ask_for_more = gx.node(when_spent=limit_reached)(stub("ask_for_more", Stopped, Ready | Stopped, asks=gx.AskHuman))


def extending(asker: Any) -> gx.Machine[Ready, Any]:
    """The agent's machine in which a person may reset the iterations."""
    asking = gx.edges(plan, gx.on(Replied, parse) | gx.on(Stopped, asker))
    extending = gx.edges(asker, gx.on(Ready, plan, resets=[kernel.ITERATIONS]) | _STOP)
    return gx.graph(asking | _PARSING | _ACTING | extending | _STOPPING, start=plan)


FREE_EXTENSION = extending(ask_for_more)
PAID_EXTENSION = extending(gx.node(when_spent=limit_reached, meters=[gx.Meter("extensions", 2)])(ask_for_more))
PAID_EXTENSION_FLOW = flow_of(PAID_EXTENSION)

# ---- an agent within an agent


@value
class Task: ...


take_on, deliver = stub("take_on", Task, Ready), stub("deliver", gx.AgentFinish, Task | Over)
give_up, hand_back = stub("give_up", gx.StoppedResponse, Over), stub("hand_back", gx.AgentFinish, Ready | Over)
delegate = stub("delegate", Acted, Ready)


def parent(child: Any, deliverer: Any) -> gx.Machine[Task, Any]:
    """Return a machine that passes tasks to `child`, one after another."""
    return machine_of(take_on, child, deliverer, give_up)


TASKS = gx.Meter("tasks", 3)
counting_deliver = gx.node(when_spent=Halted, meters=[TASKS])(deliver)
OWN = [gx.Meter("iterations", 5)]
ENDLESS_CHILD = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), deliver)
CHILD_COUNTED = parent(gx.embed(AGENT_EXECUTOR, "research", own=OWN), counting_deliver)


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


REFILLS_ITS_PARENT = handing_back(gx.on(Ready, plan, resets=[kernel.ITERATIONS]) | _OVER)
SHARES_WITH_ITS_PARENT = handing_back(gx.on(Ready, plan) | _OVER)

# ---- a table that `graph` refuses


unheard, unused = stub("unheard", A, Over), stub("unused", B, Over)
UNREACHABLE = unchecked_graph(gx.edges(unheard, _OVER) | gx.edges(unused, _OVER), unheard)


tick: Any = gx.node(when_spent=Halted, meters=[gx.ITERATIONS])(stub("tick", A, B))
tock, tock_ending = stub("tock", B, A), stub("tock", B, A | Over)


def ticking(other: Any) -> gx.Machine[A, Any]:
    return machine_of(tick, other)


ONLY_STOPPING = ticking(tock)
STOPPING_OR_NOT = ticking(tock_ending)
