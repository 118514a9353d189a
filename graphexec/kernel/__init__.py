"""The state machine: nodes, tables, the engine, snapshots. Pure: no I/O, no clock, no randomness."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.effects import All, Asks, CallContext, Effect, ask, ask_all
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Moved, Reported
from graphexec.kernel.graph import Graph, edges, on
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import END, Node, node
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import PendingEffect, advance, begin
from graphexec.kernel.surgery import embed, replace, splice, wrap

__all__ = [
    "END",
    "ITERATIONS",
    "All",
    "Answered",
    "Asked",
    "Asks",
    "CallContext",
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
    "Snapshot",
    "Spent",
    "advance",
    "ask",
    "ask_all",
    "begin",
    "edges",
    "embed",
    "node",
    "on",
    "replace",
    "snapshot_of",
    "splice",
    "wrap",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
