"""Sums of products of limits, such as `4*iterations*extensions + 2`: what a closed form is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from graphexec.errors import format_integer


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Whole coefficients by product of names; the product of none is 1. Two are compared term by term, if at all."""

    terms: Mapping[tuple[str, ...], int]

    def __add__(self, other: Polynomial) -> Polynomial:
        return _of((product, coefficient) for one in (self, other) for product, coefficient in one.terms.items())

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + _of((product, -coefficient) for product, coefficient in other.terms.items())

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _of(
            (tuple(sorted(product + another)), coefficient * factor)
            for product, coefficient in self.terms.items()
            for another, factor in other.terms.items()
        )

    def or_more(self, other: Polynomial) -> Polynomial:
        """A polynomial that is at least as large as both wherever no name is negative: term by term the larger."""
        products = self.terms.keys() | other.terms.keys()
        return _of((product, max(self.terms.get(product, 0), other.terms.get(product, 0))) for product in products)

    @property
    def is_number(self) -> bool:
        """Whether no name is in it."""
        return not any(self.terms)

    def or_less(self, other: Polynomial) -> Polynomial:
        """A polynomial that is at most as large as both wherever no name is negative: term by term the smaller."""
        products = self.terms.keys() | other.terms.keys()
        return _of((product, min(self.terms.get(product, 0), other.terms.get(product, 0))) for product in products)

    def at(self, values: Mapping[str, int]) -> int:
        """Its value with a number for each name."""
        total = 0
        for product, coefficient in self.terms.items():
            for name in product:
                coefficient *= values[name]  # noqa: PLW2901
            total += coefficient
        return total

    def __str__(self) -> str:
        def place(term: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
            return -len(term[0]), term[0]

        text = ""
        for product, coefficient in sorted(self.terms.items(), key=place):
            size = abs(coefficient)
            factors = [format_integer(size), *product] if size != 1 or not product else [*product]
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {'*'.join(factors)}" if text else f"{'-' * (coefficient < 0)}{'*'.join(factors)}"
        return text or "0"


def number(value: int) -> Polynomial:
    """The polynomial that is a number."""
    return _of([((), value)])


def name(symbol: str) -> Polynomial:
    """The polynomial that is a name."""
    return _of([((symbol,), 1)])


def most(several: Iterable[Polynomial]) -> Polynomial | None:
    """A polynomial that is at least as large as each, or `None` of none."""
    found = list(several)
    return reduce(Polynomial.or_more, found) if found else None


def _of(terms: Iterable[tuple[tuple[str, ...], int]]) -> Polynomial:
    summed: dict[tuple[str, ...], int] = {}
    for product, coefficient in terms:
        summed[product] = summed.get(product, 0) + coefficient
    return Polynomial({product: coefficient for product, coefficient in summed.items() if coefficient})
