"""Graphs that `graph` refuses: their class makes them without a check of the table."""

from typing import Any

from graphexec import END, Machine
from graphexec.kernel.graph import edges_of


def unchecked_graph(table: Any, start: Any) -> Machine[Any, Any]:
    """Return the machine of a table that may have faults."""
    targets = [route.target for _, routes in table.rows for route in routes.routes if route.target is not END]
    nodes = dict.fromkeys([*(source for source, _ in table.rows), *targets, start])
    return Machine(nodes, [edge for source, routes in table.rows for edge in edges_of(source, routes)], start.name)
