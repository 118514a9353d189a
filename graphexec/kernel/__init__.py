"""The state machine: nodes, tables, the engine, snapshots. Pure: no I/O, no clock, no randomness."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.effects import All, Askable, Asks, CallContext, CallId, Effect, Perform, ask, ask_all
from graphexec.kernel.events import (
    Answered,
    Asked,
    Cut,
    Done,
    Entered,
    Event,
    Failed,
    Journal,
    Moved,
    Reported,
    journal_of,
)
from graphexec.kernel.graph import Graph, draft, edges, graph, on
from graphexec.kernel.meters import ITERATIONS, Budget, Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import END, Edge, Node, charged, metered, node, opaque, rename, reserved
from graphexec.kernel.program import Proof, Ranks
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import PendingEffect, advance, begin, replay
from graphexec.kernel.surgery import drop_edge, embed, replace, splice, wrap

__all__ = [
    "END",
    "ITERATIONS",
    "All",
    "Answered",
    "Askable",
    "Asked",
    "Asks",
    "Budget",
    "CallContext",
    "CallId",
    "Cut",
    "Done",
    "Edge",
    "Effect",
    "Entered",
    "Event",
    "Exhausted",
    "Failed",
    "Graph",
    "Journal",
    "Limits",
    "MeasureError",
    "Meter",
    "Moved",
    "Node",
    "PendingEffect",
    "Perform",
    "Proof",
    "Ranks",
    "Reported",
    "Snapshot",
    "Spent",
    "advance",
    "ask",
    "ask_all",
    "begin",
    "charged",
    "draft",
    "drop_edge",
    "edges",
    "embed",
    "graph",
    "journal_of",
    "metered",
    "node",
    "on",
    "opaque",
    "rename",
    "replace",
    "replay",
    "reserved",
    "snapshot_of",
    "splice",
    "wrap",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
