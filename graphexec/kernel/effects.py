"""Effects: values with typed replies, which nodes yield (`page = yield from ask(Fetch(url))`) and handlers answer.

An effect is a frozen dataclass, `class Fetch(Effect[Page])`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar, final

from graphexec.errors import NodeError, format_value
from graphexec.kernel.meters import Exhausted, Meter, is_whole

R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741 - an outcome, throughout the package


class Effect(Generic[R_co]):
    """A request to the world whose reply is an `R`. Subclasses are frozen dataclasses.

    `charges` is the cost of one such effect by meter, in whole numbers of at least 1, paid before it is carried out,
    successful or not. `measures` are the meters that its reply reports, in the order of `measure`. Of a meter in both,
    the charge is a prepayment: the least that such an effect takes.

    Raises `NodeError`, when the class is defined, for invalid charges, and for measures without a `measure`.
    """

    __slots__ = ()
    charges: ClassVar[Mapping[Meter, int]] = MappingProxyType({})
    measures: ClassVar[tuple[Meter, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for meter, amount in cls.charges.items():
            if not is_whole(amount) or amount < 1 or not meter.whole:
                raise NodeError(
                    f"{cls.__name__} has charges={{{format_value(meter)}: {amount!r}}}; charge a whole meter a whole "
                    f'number, 1 or more: {{Meter("pages"): 1}}'
                )
        # Any: the class of the reply has nothing to do with it.
        if cls.measures and cls.measure is Effect[Any].measure:
            names = ", ".join(map(str, cls.measures))
            raise NodeError(f"{cls.__name__} measures {names} and does not say how; define measure(self, reply)")

    def __ask__(self) -> Generator[Self, Any, R_co]:
        """Ask for this effect alone. `ask` is the way to call it."""
        # The reply comes from outside: from a handler, whose word is taken, or from JSON, read by its type.
        reply: R_co = yield self
        return reply

    def measure(self, reply: Any) -> Sequence[float | None]:
        """Return what the reply (an `R`, which a covariant class cannot say) took of each of `measures`.

        `None` is an amount that the reply does not report: a limit on that meter cannot be kept. Negative amounts count
        as 0.
        """
        del reply
        return ()

    def cut(self, exhausted: Exhausted) -> Any:
        """Return the reply to use when the run's deadline cuts this effect, or `None` if the node must be left."""
        del exhausted
        return None


class Askable(Protocol[E_co, R_co]):
    """An effect, seen as what it is and what it replies: this is how both types survive `ask`."""

    def __ask__(self) -> Generator[E_co, Any, R_co]: ...


@final
@dataclass(frozen=True, slots=True)
class All(Generic[E_co]):
    """Several effects at once; the reply is the tuple of their replies, in the order asked."""

    effects: tuple[E_co, ...]


# What a node yields, whatever its replies are.
Request: TypeAlias = Effect[Any] | All[Effect[Any]]


def members_of(request: Request) -> tuple[Effect[Any], ...]:
    """Return the effects of a batch, or the single effect."""
    return request.effects if isinstance(request, All) else (request,)


# The return annotation of a node that asks: `Asks[Fetch | Store, Outcome]`.
Asks: TypeAlias = Generator[E | All[E], Any, O]


def ask(effect: Askable[E, R]) -> Generator[E, Any, R]:
    """Ask for one effect: `page = yield from ask(Fetch(url))`. What its handler raises ends the run."""
    return effect.__ask__()


def ask_all(effects: Sequence[Askable[E, R]]) -> Generator[All[E], Any, tuple[R, ...]]:
    """Ask for several effects at once; the replies come in the order asked. Asking for none answers at once."""
    if not effects:
        return ()
    # An Askable[E, R] is an E: `__ask__` yields the effect itself.
    batch: All[Any] = All(tuple(effects))
    replies: tuple[R, ...] = yield batch
    return replies


@dataclass(frozen=True, slots=True)
class Perform(Effect[Any]):
    """Run an opaque node's function on its value; the reply is the node's outcome."""

    node: str
    function: Callable[[Any], Any]
    value: object
