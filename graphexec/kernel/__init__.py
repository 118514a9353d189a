"""The state machine: nodes, tables, the engine, snapshots. Pure: no I/O, no clock, no randomness."""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.effects import All, Asks, CallContext, Effect, ask, ask_all, members_of
from graphexec.kernel.events import (
    Answered,
    Asked,
    ChargedReply,
    Done,
    Entered,
    Event,
    Failed,
    Moved,
    Reported,
    Restarted,
)
from graphexec.kernel.graph import Graph, edges, on
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import END, Node, node
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import PendingEffect, advance, begin, fork, replay_to
from graphexec.kernel.surgery import embed, replace, splice, wrap

if TYPE_CHECKING:
    from graphexec.kernel.serialization import dump_reply, load_reply

__all__ = [
    "END",
    "ITERATIONS",
    "All",
    "Answered",
    "Asked",
    "Asks",
    "CallContext",
    "ChargedReply",
    "Done",
    "Effect",
    "Entered",
    "Event",
    "Exhausted",
    "Failed",
    "Graph",
    "Limits",
    "MeasureError",
    "Meter",
    "Moved",
    "Node",
    "PendingEffect",
    "Reported",
    "Restarted",
    "Snapshot",
    "Spent",
    "advance",
    "ask",
    "ask_all",
    "begin",
    "dump_reply",
    "edges",
    "embed",
    "fork",
    "load_reply",
    "members_of",
    "node",
    "on",
    "replace",
    "replay_to",
    "snapshot_of",
    "splice",
    "wrap",
]

# Storing needs pydantic.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, {"graphexec.kernel.serialization": "dump_reply load_reply"})
