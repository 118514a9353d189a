"""Orders of a shop: a machine without agents, with its own effects and meters.

An article is reserved, a card is charged, a parcel is shipped. A declined payment is retried with the customer's
next card. If all cards are declined, the article is put back. An order that a limit stopped is left to a person:
a payment that the deadline cut may have been made.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from graphexec import END, Asks, Done, Effect, Exhausted, Limits, Meter, Moved, ask, edges, graph, node, on

# Meters count the resources that effects consume; a run's limits bound them.
PAYMENTS = Meter("payments")
FEES = Meter("fees", whole=False, unit="an amount of money")

# A meter of the machine. Its limit holds in every run, so every run ends.
ATTEMPTS = Meter("attempts", 5)


@dataclass(frozen=True)
class TakeStock(Effect[bool]):
    """Take articles out of stock, or put them back (a negative count). The reply is whether there were enough."""

    article: str
    count: int


@dataclass(frozen=True)
class ChargeCard(Effect[tuple[bool, float]]):
    """Charge a card: one payment. The reply is whether it was accepted, and the bank's fee."""

    charges: ClassVar[Mapping[Meter, int]] = {PAYMENTS: 1}
    measures: ClassVar[tuple[Meter, ...]] = (FEES,)
    card: str
    price: float

    def measure(self, reply: tuple[bool, float]) -> tuple[float]:
        """Return the fee."""
        return (reply[1],)


@dataclass(frozen=True)
class Ship(Effect[str]):
    """Ship an article. The reply is the parcel's number."""

    article: str


@final
@dataclass(frozen=True)
class Order:
    """An article for a customer, who has these cards."""

    article: str
    price: float
    cards: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.cards:
            raise ValueError("the order has no card; give one at least")


@final
@dataclass(frozen=True)
class Reserved:
    """The article is reserved."""

    order: Order


@final
@dataclass(frozen=True)
class Declined:
    """A card was declined; the order has at least one remaining card."""

    order: Order


@final
@dataclass(frozen=True)
class Paid:
    """A card was accepted."""

    order: Order


@final
@dataclass(frozen=True)
class Shipped:
    """The parcel is on its way."""

    parcel: str


@final
@dataclass(frozen=True)
class Cancelled:
    """The order was not carried out."""

    order: Order
    reason: str


@final
@dataclass(frozen=True)
class Interrupted:
    """A limit stopped an order, which a person must finish."""

    at: Order | Reserved | Declined | Paid | Cancelled
    limit: Exhausted


@node(when_spent=Interrupted, asks=1)
def reserve(order: Order) -> Asks[TakeStock, Reserved | Cancelled]:
    """Reserve the article."""
    enough = yield from ask(TakeStock(order.article, 1))
    return Reserved(order) if enough else Cancelled(order, "sold out")


@node(when_spent=Interrupted, meters=[ATTEMPTS], asks=1)
def pay(at: Reserved | Declined) -> Asks[ChargeCard, Paid | Declined | Cancelled]:
    """Charge the first card that is left."""
    card, *others = at.order.cards
    accepted, _ = yield from ask(ChargeCard(card, at.order.price))
    if accepted:
        return Paid(at.order)
    return Declined(replace(at.order, cards=tuple(others))) if others else Cancelled(at.order, "no card was accepted")


@node(when_spent=Interrupted, asks=1)
def ship(paid: Paid) -> Asks[Ship, Shipped]:
    """Ship the article."""
    return Shipped((yield from ask(Ship(paid.order.article))))


@node(when_spent=Interrupted, asks=1, grace=10.0)
def release(cancelled: Cancelled) -> Asks[TakeStock, Cancelled]:
    """Put the article back. The call is reserved: limits do not stop it, and it has a grace period of ten seconds."""
    yield from ask(TakeStock(cancelled.order.article, -1))
    return cancelled


machine = graph(
    edges(reserve, on(Reserved, pay) | on(Cancelled, END) | on(Interrupted, END))
    | edges(pay, on(Paid, ship) | on(Declined, pay) | on(Cancelled, release) | on(Interrupted, END))
    | edges(ship, on(Shipped, END) | on(Interrupted, END))
    | edges(release, on(Cancelled, END) | on(Interrupted, END)),
    start=reserve,
)

# Handlers may block or be async; every kind of run accepts both.
stock = {"lamp": 2, "chair": 0}
balances = {"first": 10.0, "second": 500.0, "gift card": 5.0}


def take_stock(effect: TakeStock) -> bool:
    """Take articles out of stock if there are enough."""
    enough = stock[effect.article] >= effect.count
    stock[effect.article] -= effect.count if enough else 0
    return enough


async def ship_article(effect: Ship) -> str:
    """Give the parcel a number."""
    await asyncio.sleep(0)
    return f"{effect.article}-1"


handlers: Mapping[type[Effect[Any]], Callable[[Any], Any]] = {
    TakeStock: take_stock,
    ChargeCard: lambda effect: (effect.price <= balances[effect.card], 0.25),
    Ship: ship_article,
}
limits = Limits({PAYMENTS: 3, FEES: 1.50})

if __name__ == "__main__":
    print(machine.verify(Limits({PAYMENTS: 3})))

    done = machine.run(Order("lamp", 40, ("first", "second")), handlers=handlers, limits=limits)
    print(done.outcome, "after", done.spent[PAYMENTS], "payments,", done.spent[FEES], "in fees")

    done = asyncio.run(machine.arun(Order("chair", 70, ("second",)), handlers=handlers, limits=limits))
    print(done.outcome)

    for event in machine.stream(Order("lamp", 40, ("gift card",) * 9), handlers=handlers, limits=limits):
        if isinstance(event, Moved):
            print(event.node, "->", event.target)
        elif isinstance(event, Done):
            assert isinstance(event.outcome, Interrupted)
            print(event.outcome.limit)
    print(stock)
