"""Sums of products of limits, such as `4*iterations*extensions + 2`, for closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce

from graphexec.errors import format_integer


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Whole coefficients by product of names; the empty product is 1. Polynomials are compared term by term."""

    terms: Mapping[tuple[str, ...], int]

    def __add__(self, other: Polynomial) -> Polynomial:
        if not self.terms or not other.terms:
            return self if self.terms else other
        summed = dict(self.terms)
        for product, coefficient in other.terms.items():
            summed[product] = summed.get(product, 0) + coefficient
        return _without_zeros(summed)

    def __sub__(self, other: Polynomial) -> Polynomial:
        if not other.terms:
            return self
        left = dict(self.terms)
        for product, coefficient in other.terms.items():
            left[product] = left.get(product, 0) - coefficient
        return _without_zeros(left)

    def __mul__(self, other: Polynomial) -> Polynomial:
        products: dict[tuple[str, ...], int] = {}
        for product, coefficient in self.terms.items():
            for another, factor in other.terms.items():
                joined = tuple(sorted(product + another)) if product and another else product or another
                products[joined] = products.get(joined, 0) + coefficient * factor
        return _without_zeros(products)

    def or_more(self, other: Polynomial) -> Polynomial:
        """Return the term-by-term maximum: it is at least as large as both where no name is negative."""
        return self._by_terms(other, max)

    @property
    def is_number(self) -> bool:
        """True if it contains no name."""
        return not any(self.terms)

    def or_less(self, other: Polynomial) -> Polynomial:
        """Return the term-by-term minimum: it is at most as large as both where no name is negative."""
        return self._by_terms(other, min)

    def _by_terms(self, other: Polynomial, choose: Callable[[int, int], int]) -> Polynomial:
        if self.terms == other.terms:
            return self
        products = dict.fromkeys([*self.terms, *other.terms])
        return _without_zeros({one: choose(self.terms.get(one, 0), other.terms.get(one, 0)) for one in products})

    def at(self, values: Mapping[str, int]) -> int:
        """Return its value, given a number for each name."""
        total = 0
        for product, coefficient in self.terms.items():
            for name in product:
                coefficient *= values[name]  # noqa: PLW2901
            total += coefficient
        return total

    def of(self, values: Mapping[str, int]) -> Polynomial:
        """Return the polynomial of the other names, given a number for some."""
        summed: dict[tuple[str, ...], int] = {}
        for product, coefficient in self.terms.items():
            left = tuple([one for one in product if one not in values])
            fixed = math.prod([values[one] for one in product if one in values])
            summed[left] = summed.get(left, 0) + coefficient * fixed
        return _without_zeros(summed)

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


@lru_cache(maxsize=1_000)
def number(value: int) -> Polynomial:
    """Return a constant polynomial."""
    return Polynomial({(): value} if value else {})


def name(symbol: str) -> Polynomial:
    """Return the polynomial of one name."""
    return Polynomial({(symbol,): 1})


def most(several: Iterable[Polynomial]) -> Polynomial:
    """Return a polynomial that is at least as large as each, and as 0."""
    return reduce(Polynomial.or_more, several, number(0))


def _without_zeros(terms: dict[tuple[str, ...], int]) -> Polynomial:
    if 0 in terms.values():
        return Polynomial({product: coefficient for product, coefficient in terms.items() if coefficient})
    return Polynomial(terms)


def covers(form: Polynomial, values: Mapping[str, int], proved: Polynomial) -> bool:
    """Return whether a form, given some values, is never lower than what is proved, and as linear in the other names.

    If that is a number, it has none of them.
    """
    most = 0 if proved.is_number else 1
    is_linear = all(sum(one not in values for one in product) <= most for product in form.terms)
    return is_linear and min((form.of(values) - proved).terms.values(), default=0) >= 0
