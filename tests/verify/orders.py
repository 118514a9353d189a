"""Orders that are paid and sent: a machine whose effects charge other meters than model and tool calls."""

from collections.abc import Mapping
from typing import Any, ClassVar

from graphexec import END, Asks, Effect, Exhausted, Limits, Machine, ask, edges, graph, kernel, node, on
from tests.kernel.machines import machine_of, value

PAYMENTS, PARCELS, WEIGHT = kernel.Meter("payments"), kernel.Meter("parcels"), kernel.Meter("weight", whole=False)


@value
class Pay(Effect[bool]):
    """A payment; each one counts."""

    charges: ClassVar[Mapping[kernel.Meter, int]] = {PAYMENTS: 1}


@value
class Ship(Effect[float]):
    """Send an order in two parcels; the reply reports their weight."""

    charges: ClassVar[Mapping[kernel.Meter, int]] = {PARCELS: 2, PAYMENTS: 1}
    measures: ClassVar[tuple[kernel.Meter, ...]] = (WEIGHT,)

    def measure(self, reply: float) -> tuple[float]:
        return (reply,)


@value
class Order: ...


@value
class Paid: ...


@value
class Refused: ...


@value
class Delivered: ...


@value
class Cancelled:
    order: Order | Paid | Refused
    limit: Exhausted


@node(when_spent=Cancelled, asks=1)
def pay(order: Order | Refused) -> Asks[Pay, Paid | Refused]:
    accepted = yield from ask(Pay())
    return Paid() if accepted else Refused()


@node(when_spent=Cancelled, asks=1)
def ship(paid: Paid) -> Asks[Ship, Delivered]:
    yield from ask(Ship())
    return Delivered()


ORDERS: Machine[Order, Any] = machine_of(pay, ship)
FIVE = Limits({PAYMENTS: 5})


def rows_of(node: Any, refused: Any = END) -> Any:
    """Return the edges of a node that is paid or not: to the end, where it is not refused."""
    return edges(node, on(Paid, END) | on(Refused, refused) | on(Cancelled, END))


def paying(node: Any, refused: Any = END) -> Machine[Any, Any]:
    """Return a machine of one such node."""
    return graph(rows_of(node, refused), start=node)
