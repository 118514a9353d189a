"""Units of measurement: their spellings and the conversions between them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from graphexec.errors import close_names

# Characters: several times the longest name of a unit. The time for a name is quadratic in its length.
_LONGEST = 100


class UnknownUnitError(ValueError):
    """A unit is unknown, or two units have different dimensions; the message suggests other units."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a `dimension`: `value` of it is `value * factor + zero` in the dimension's first unit.

    `names` are its symbol, the plural that messages use, and other spellings.
    """

    dimension: str
    factor: Fraction
    names: tuple[str, ...]
    zero: Fraction = Fraction(0)

    @property
    def symbol(self) -> str:
        """The symbol, which follows a number."""
        return self.names[0]

    @property
    def plural(self) -> str:
        """The name that messages use."""
        return self.names[1]


def convert(value: float, source: Unit, target: Unit) -> float:
    """Return `value` of `source` in `target`, as a float. Raises `UnknownUnitError` if their dimensions differ."""
    if source.dimension != target.dimension:
        raise UnknownUnitError(
            f"{source.plural} measure {source.dimension} and {target.plural} {target.dimension}; convert to one of "
            f"{_plurals(source.dimension)}"
        )
    if not math.isfinite(value):
        raise UnknownUnitError(f"{value} is not a number that can be converted; give a finite one")
    try:
        return float((Fraction(value) * source.factor + source.zero - target.zero) / target.factor)
    except OverflowError:
        raise UnknownUnitError(
            f"{value:g} {source.plural} are too many {target.plural}; convert a smaller number"
        ) from None


def find_unit(name: str) -> Unit:
    """Find a unit by symbol, name, plural or another spelling. Raises `UnknownUnitError` with similar names."""
    if len(name) > _LONGEST:
        raise UnknownUnitError(f"the unit has {len(name):,} characters; write one such as {_plurals('length')}")
    # The exact case is tried first: Mb and MB are different units.
    key = _normalize(name)
    found = _BY_NAME.get(key) or _BY_NAME.get(key.lower())
    if found is None:
        close = close_names(key.lower(), _BY_NAME, most=3)
        near = [_BY_NAME[spelling].plural for spelling in close]
        hint = f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else f"use one of {_plurals(*_DIMENSIONS)}"
        raise UnknownUnitError(f"{name!r} is not a unit that is known here; {hint}")
    return found


def _normalize(name: str) -> str:
    """Return a spelling in its normal form: without `degrees`, `°` and dots, with one form of `per` and exponents."""
    # NFKC replaces ³ by 3, and the two characters for µ by one.
    name = unicodedata.normalize("NFKC", name)
    name = re.sub(r"°|\bdegrees?\b|\bdeg\b|\.", " ", name, flags=re.IGNORECASE)
    name = name.replace("^", "").replace("_", " ")
    name = re.sub(r"\s*(?:/|\bper\b)\s*", "/", name, flags=re.IGNORECASE)
    return " ".join(name.split())


def _units(table: str) -> Iterable[Unit]:
    """Read lines such as `0.3048 ft feet foot`; `_` stands for a space in a name, and the `zero` follows `@`."""
    dimension = ""
    for line in table.strip().splitlines():
        factor, *names = line.split()
        if not names:
            dimension = factor
            continue
        size, _, zero = factor.partition("@")
        yield Unit(dimension, Fraction(size), tuple(name.replace("_", " ") for name in names), Fraction(zero or 0))


# The factors of a dimension refer to its first unit. A singular that is the plural without its s is not listed. A year
# has 365 days, which is what people expect of hours in a year. There is no month, because its length varies.
UNITS: tuple[Unit, ...] = tuple(
    _units("""
length
    1 m meters metres
    1e-9 nm nanometers nanometres
    1e-6 µm micrometers micrometres um
    1e-3 mm millimeters millimetres
    1e-2 cm centimeters centimetres
    1e3 km kilometers kilometres
    0.0254 in inches inch
    0.3048 ft feet foot
    0.9144 yd yards
    1609.344 mi miles
    1852 nmi nautical_miles
mass
    1 kg kilograms kilogrammes kilos
    1e-6 mg milligrams milligrammes
    1e-3 g grams grammes
    1e3 t tonnes metric_tons tons
    0.028349523125 oz ounces
    0.45359237 lb pounds lbs
    6.35029318 st stones stone
temperature
    1 K kelvins kelvin
    1@273.15 °C Celsius centigrade
    5/9@45967/180 °F Fahrenheit
volume
    1 L liters litres
    1e-3 mL milliliters millilitres cc cm3 cubic_centimeters
    1e-2 cL centiliters centilitres
    1e-1 dL deciliters decilitres
    1e3 m3 cubic_meters cubic_metres
    28.316846592 ft3 cubic_feet cubic_foot
    3.785411784 gal gallons us_gallons
    0.946352946 qt quarts
    0.473176473 pt pints
    0.2365882365 cup cups
    0.0295735295625 fl_oz fluid_ounces
    0.01478676478125 tbsp tablespoons
    0.00492892159375 tsp teaspoons
time
    1 s seconds secs
    1e-3 ms milliseconds
    60 min minutes mins
    3600 h hours hrs
    86400 d days
    604800 wk weeks
    31536000 yr years
speed
    1 m/s meters/second metres/second m/second mps
    5/18 km/h kilometers/hour kilometres/hour km/hour kph kmh kmph
    0.44704 mph miles/hour mi/h
    0.3048 ft/s feet/second foot/second
    1852/3600 kn knots kt
data
    1 B bytes
    1/8 bit bits
    1e3 kB kilobytes
    1e6 MB megabytes
    1e9 GB gigabytes
    1e12 TB terabytes
    1024 KiB kibibytes
    1048576 MiB mebibytes
    1073741824 GiB gibibytes
    1099511627776 TiB tebibytes
    125 kbit kilobits
    125000 Mbit megabits Mb
    125000000 Gbit gigabits Gb
""")
)
_DIMENSIONS = tuple(dict.fromkeys(one.dimension for one in UNITS))


def _plurals(*dimensions: str) -> str:
    return ", ".join(one.plural for one in UNITS if one.dimension in dimensions)


def _spellings() -> dict[str, Unit]:
    exact: dict[str, Unit] = {}
    lower: dict[str, Unit] = {}
    for one in UNITS:
        for name in one.names:
            # Adds the singular of regular plurals, also in `miles/hour`.
            name = _normalize(name)  # noqa: PLW2901 - lookups are normalized, too
            for spelling in (name, re.sub(r"(?<=\w\w)s(?=/|\Z)", "", name)):
                exact.setdefault(spelling, one)
                lower.setdefault(spelling.lower(), one)
    return lower | exact


_BY_NAME = _spellings()
