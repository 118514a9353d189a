"""Machines with pieces, for pictures: nodes that only have classes, on the seats that the classes have."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

from graphexec import AgentFinish, Effect, Graph, StoppedResponse
from graphexec.effects import AskHuman, CallModel
from graphexec.executor import AGENT_EXECUTOR, Acted, LimitReached, Ready
from graphexec.kernel.graph import check_table
from graphexec.kernel.node import Edge, Node

_HOMES: dict[type, str] = {
    Ready: "plan",
    Acted: "dispatch_tools",
    LimitReached: "stopped_response",
    AgentFinish: "END",
    StoppedResponse: "END",
}

# A node of a piece: its name, the class that it takes, those that it returns, and the effects that it requests.
Part = tuple[str, type, tuple[type, ...], tuple[type[Effect[Any]], ...]]
# A piece: its name, and its nodes, each at the class of its own or of the machine.
Fake = tuple[str, tuple[Part, ...]]


def part(name: str, takes: type, *outcomes: type, asks: type[Effect[Any]] | None = None) -> Part:
    """Describe a node; one that asks may also be stopped by a limit."""
    if asks is None:
        return name, takes, outcomes, ()
    return name, takes, tuple(dict.fromkeys((*outcomes, LimitReached))), (asks,)


@final
@dataclass(frozen=True)
class Judged:
    """The class of a piece's own, between its two nodes."""


CRITIC: Fake = ("critic", (part("judge", AgentFinish, AgentFinish, Judged), part("revise", Judged, Ready)))
OUTPUT: Fake = ("output_type", (part("check_output", AgentFinish, AgentFinish, Ready),))
APPROVE: Fake = ("approve_tools", (part("approve", Acted, Acted, asks=AskHuman),))
GUARD: Fake = ("guard_input", (part("screen", Ready, Ready, LimitReached),))
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
    ("limit_tool", (part("count", Acted, Acted, LimitReached),)),
    ("cache_tools", (part("look_up", Acted, Acted),)),
    ("ask_user", (part("ask", Acted, Acted, asks=AskHuman),)),
    ("todo_list", (part("write", Acted, Acted), part("remind", AgentFinish, AgentFinish, Ready))),
    CRITIC,
    OUTPUT,
    ("guard_output", (part("guard", AgentFinish, AgentFinish, LimitReached),)),
)


def plugged(*pieces: Fake, once: Sequence[str] = ("guard_input",)) -> Graph[Any, Any]:
    """Return the standard machine with these pieces on its seats; those named in `once` run before the first plan."""
    seats: dict[type, list[str]] = {kind: [] for kind in _HOMES}
    first = [nodes[0][0] for name, nodes in pieces if name in once]
    for name, nodes in pieces:
        for node, takes, _, _ in nodes if name not in once else ():
            if takes in _HOMES:
                seats[takes].append(node)
    chains = {kind: [*chain, _HOMES[kind]] for kind, chain in seats.items()}
    entry = {kind: chain[0] for kind, chain in chains.items()}
    plan = AGENT_EXECUTOR["plan"]
    made: list[Node[Any, Any]] = list(AGENT_EXECUTOR)
    edges = [
        dataclasses.replace(edge, target=entry[edge.outcome]) if _HOMES.get(edge.outcome) == edge.target else edge
        for edge in AGENT_EXECUTOR.edges
    ]
    for group, nodes in pieces:
        own = {takes: node for node, takes, _, _ in nodes if takes not in _HOMES}
        for node, takes, outcomes, effects in nodes:
            asks: dict[str, Any] = {"kind": "asks" if effects else "pure", "effects": effects, "meters": ()}
            limit: dict[str, Any] = {} if effects else {"when_spent": None, "spent_outcome": None}
            counts: dict[str, Any] = {"least": 0, "most": 1 if effects else 0, "settings": {}}
            returns = tuple(one for one in outcomes if one is not LimitReached or not effects)
            kinds: dict[str, Any] = {"takes": (takes,), "outcomes": outcomes, "returns": returns, "group": group}
            made.append(dataclasses.replace(plan, name=node, **kinds, **asks, **limit, **counts))
            chain = first + chains[Ready] if node in first else chains.get(takes, [])
            after = dict(pairwise(chain))
            for outcome in outcomes:
                target = own.get(outcome) or (after[node] if outcome is takes else entry[outcome])
                edges.append(Edge(node, outcome, target))
    return check_table(made, edges, first[0] if first else entry[Ready])
