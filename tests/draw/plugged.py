"""Machines with pieces, for pictures: nodes that only have classes, on the seats that the classes have."""

import dataclasses
from typing import Any

from graphexec import AgentExecutor, AgentFinish, Effect, Machine, StoppedResponse
from graphexec.effects import AskHuman, CallModel
from graphexec.executor import AGENT_EXECUTOR, Acted, Ready, Stopped
from graphexec.kernel.node import Node
from graphexec.nodes import Piece
from tests.kernel.machines import value

# A node of a piece: its name, the class that it takes, those that it returns, and the effects that it requests.
Part = tuple[str, type, tuple[type, ...], tuple[type[Effect[Any]], ...]]
# A piece: its name, and its nodes, each at the class of its own or of the machine.
Fake = tuple[str, tuple[Part, ...]]


def part(name: str, takes: type, *outcomes: type, asks: type[Effect[Any]] | None = None) -> Part:
    """Describe a node; one that asks may also be stopped by a limit."""
    if asks is None:
        return name, takes, outcomes, ()
    return name, takes, tuple(dict.fromkeys((*outcomes, Stopped))), (asks,)


@value
class Judged:
    """The class of a piece's own, between its two nodes."""


CRITIC: Fake = ("critic", (part("judge", AgentFinish, AgentFinish, Judged), part("revise", Judged, Ready)))
OUTPUT: Fake = ("output_type", (part("check_output", AgentFinish, AgentFinish, Ready),))
APPROVE: Fake = ("approve_tools", (part("approve", Acted, Acted, asks=AskHuman),))
GUARD: Fake = ("guard_input", (part("screen", Ready, Ready, Stopped),))
COMPACT: Fake = ("compact", (part("compact_steps", Ready, Ready, asks=CallModel),))
REDACT: Fake = (
    "redact_pii",
    (
        part("hide", Ready, Ready),
        part("restore_arguments", Acted, Acted),
        part("restore_answer", AgentFinish, AgentFinish),
        part("restore_text", StoppedResponse, StoppedResponse),
    ),
)
MANY: tuple[Fake, ...] = (
    GUARD,
    REDACT,
    COMPACT,
    ("tell_time", (part("tell", Ready, Ready),)),
    ("select_tools", (part("select", Ready, Ready, asks=CallModel),)),
    ("escalate", (part("ask_stronger", Ready, Ready, asks=CallModel),)),
    APPROVE,
    ("limit_tool", (part("count", Acted, Acted, Stopped),)),
    ("cache_tools", (part("look_up", Acted, Acted),)),
    ("ask_user", (part("ask", Acted, Acted, asks=AskHuman),)),
    ("todo_list", (part("write", Acted, Acted), part("remind", AgentFinish, AgentFinish, Ready))),
    CRITIC,
    OUTPUT,
    ("guard_output", (part("guard", AgentFinish, AgentFinish, Stopped),)),
)


def make_node(name: str, takes: type, outcomes: tuple[type, ...], effects: tuple[type[Effect[Any]], ...]) -> Any:
    """Return a node that no run enters."""
    options: dict[str, Any] = {
        "kind": "pure",
        "when_spent": None,
        "spent_outcome": None,
        "most": 0,
        "returns": outcomes,
    }
    if effects:
        returns = tuple(one for one in outcomes if one is not Stopped)
        options = {"kind": "asks", "most": 1, "returns": returns}
    plan: Node[Any, Any] = AGENT_EXECUTOR["plan"]
    options |= {"takes": (takes,), "outcomes": outcomes, "effects": effects, "meters": (), "least": 0, "parameters": {}}
    return dataclasses.replace(plan, name=name, **options)


def plugged(*pieces: Fake) -> Machine[Any, Any]:
    """Return the standard machine with these pieces on its seats; `guard_input` runs before the first plan."""
    executor = AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[], handle_parsing_errors=True)
    made = [Piece(name, tuple(make_node(*one) for one in nodes), once=name == "guard_input") for name, nodes in pieces]
    return executor.plug(*made).graph
