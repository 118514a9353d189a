"""Find a value in what people and tools wrote: in another case or spelling, with a unit, without blanks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

from graphexec._parsing import compile_lazily
from graphexec.errors import close_names

# How similar two words must be to be spellings of one: Lisbon and Lissabon, but not Lisbon and prison.
_SIMILAR = 0.75

_WORD = compile_lazily(r"[^\W\d_]+")
# Three letters and more: shorter ones are often units.
_LONG_WORD = compile_lazily(r"[^\W\d_](?:[^\W_]|'){2,}")
_DIGITS = compile_lazily(r"\d+")
# Digits in groups (also with the Arabic separators), with an exponent or with a unit that changes their value.
_NUMBER = compile_lazily(
    r"(?P<digits>\d+(?:[.,\u066b\u066c]\d+|[ _'’]\d{3}(?!\d))*)"
    r"(?:e(?P<exponent>[+-]?\d{1,3})(?!\w))?(?:\s?(?P<unit>%|percent\b|[kmb](?!\w)|bn\b))?"
)
_YEAR = compile_lazily(r"(?:19|20)\d\d")
_FRACTION = compile_lazily(r"(?<!\d)(\d+)\s?/\s?(\d+)")
_POWERS: Mapping[str | None, int] = {"%": -2, "percent": -2, "k": 3, "m": 6, "b": 9, "bn": 9}
_AFTERNOON = compile_lazily(r"(\d{1,2})(?:[:.]\d\d)?\s?p\.?m\b")
_DATE = compile_lazily(r"\d{4}-\d\d-0?(\d{1,2})")
# Longer numbers are beyond those of floats, and would take long to convert.
_MOST_DIGITS = 400

# Where numbers are written like this, any number may follow from the text: words, months, Roman numerals, bits.
_NUMBER_WORD = compile_lazily(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)t(?:y|ie)\w*|hundred|thousand|[mbtr]+illion|dozen|score"
    r"|half|halves|halve|quarter|third|second|fifth|ninth|twelfth|double|triple|twice|thrice|pair|couple"
    r"|noon|midnight|clock|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)(?:th|s)?\b"
    r"|\b0[xbo][0-9a-f]"
)
_ROMAN = compile_lazily(r"\b(?=[IVXLCDM]{2})M*(?:C[MD]|D?C{0,3})(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})\b")


@cache
def _english_words() -> frozenset[str]:
    """Return words of English questions that are rare in other languages."""
    return frozenset(
        _LONG_WORD().findall(
            "add after and before between book calculate call compute convert could divide divided does each every "
            "from give how how's into it's make many much multiplied multiply number numbers please root send should "
            "show square subtract switch tell than that the then there these this times turn what what's when where "
            "which who who's whose why with would you your"
        )
    )


def fold(text: str) -> str:
    """Return a text in lower case and without accents, with one blank between words."""
    import unicodedata

    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(one for one in decomposed if not unicodedata.combining(one)).split())


@final
@dataclass(frozen=True)
class KnownText:
    """A text, and the words and numbers in it."""

    text: str

    @cached_property
    def _folded(self) -> str:
        return fold(self.text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD().findall(self._folded))

    @cached_property
    def _numbers(self) -> frozenset[float]:
        ones = [1.0] if {"one", "first", "single"} & self._words else []
        return frozenset((*_read_numbers(self._folded), *ones))

    @cached_property
    def has_other_numerals(self) -> bool:
        """True if numbers may be written in words, or in numerals that are not read."""
        return (
            any(one.isnumeric() and not one.isdigit() for one in self.text)
            or _NUMBER_WORD().search(self._folded) is not None
            or _ROMAN().search(self.text) is not None
        )

    @cached_property
    def is_foreign(self) -> bool:
        """True if the text has words, and none that shows it to be English."""
        words = _LONG_WORD().findall(self.text.casefold().replace("’", "'"))
        return bool(words) and _english_words().isdisjoint(words)

    def has(self, value: Any) -> bool:
        """Return whether the text has a value; of a list or an object, any part.

        `None`, booleans, 0, 1, and empty strings and containers always count as known.
        """
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, str):
            return self._has_string(value)
        if isinstance(value, (int, float)):
            # A text does not say them: "the weather", "a kettle".
            return value in (0, 1) or abs(_to_float(str(value))) in self._numbers
        parts = [*_parts_of(value)]
        return not parts or any(map(self.has, parts))

    def _has_string(self, value: str) -> bool:
        folded = fold(value)
        letters = [one for one in folded if one.isalnum()]
        if not letters:
            return folded in self._folded
        spelled = r"[\W_]*".join(letters)
        if re.search(rf"(?<![^\W_]){spelled}(?![^\W_])", self._folded):
            return True
        if _DIGITS().search(folded):
            return self._has_numbers(folded)
        return folded in self._folded or self._has_words(_WORD().findall(folded))

    def _has_numbers(self, folded: str) -> bool:
        """Return whether the text has all numbers of a string; of a date, those of the day and the month.

        The day alone is enough if it is written as in `the 17th`.
        """
        date = _DATE().fullmatch(folded)
        if date and re.search(rf"\bthe {date[1]}(?:st|nd|rd|th)\b", self._folded):
            return True
        several = [one["digits"] for one in _NUMBER().finditer(folded)]
        needed = [one for one in several if not _YEAR().fullmatch(one)] or several
        return all(self._has_number(one) for one in needed)

    def _has_number(self, digits: str) -> bool:
        runs = _DIGITS().findall(digits)
        known = self._numbers
        return all(_to_float(one) in known for one in runs) or any(_to_float(one) in known for one in _join(runs))

    def _has_words(self, words: Sequence[str]) -> bool:
        """Return whether the text has more than half of the words, each in the same or a similar spelling."""
        found = sum(word in self._words or self._has_similar(word) for word in words)
        return 2 * found > len(words)

    def _has_similar(self, word: str) -> bool:
        candidates = [one for one in self._words if one[0] == word[0]]
        return bool(close_names(word, candidates, cutoff=_SIMILAR))


def may_be_known(value: Any, inputs: Sequence[str], observations: Sequence[str]) -> bool:
    """Return whether a value follows from texts, as far as they can be read: in doubt it does."""
    written = KnownText("\n".join([*inputs, *observations]))
    if written.has(value):
        return True
    parts = [*_parts_of(value)]
    strings = [one for one in parts if isinstance(one, str)]
    if _scripts_differ("".join(strings), written.text):
        return True
    if not any(isinstance(one, (int, float)) or (isinstance(one, str) and _DIGITS().search(one)) for one in parts):
        return False
    return written.has_other_numerals or any(KnownText(one).is_foreign for one in inputs)


# Any: JSON data.
def _parts_of(value: Any) -> Iterator[Any]:
    """Yield the values in a list or an object at any depth, or a value that is neither."""
    pending = [value]
    while pending:
        match pending.pop():
            case {**members}:
                pending += reversed(members.values())
            case [*parts]:
                pending += reversed(parts)
            case part:
                yield part


# Two letters that are not Latin ones: a unit such as μm has one.
_OTHER_SCRIPT = compile_lazily(r"[^\W\d_a-zA-Z\u00c0-\u024f\u1e00-\u1eff]{2}")


def _scripts_differ(value: str, text: str) -> bool:
    """Return whether one of two texts is in Latin letters, and the other is not: Lisbon, and a Cyrillic question."""
    own, other = (_OTHER_SCRIPT().search(one) is not None for one in (value, text))
    return own != other and all(_WORD().search(one) for one in (value, text))


def _read_numbers(folded: str) -> Iterator[float]:
    """Yield every number that a part of a text can mean: 1,250 is one and 250, or 1.25, or 1250."""
    for found in _NUMBER().finditer(folded):
        exponent = found["exponent"] or _POWERS.get(found["unit"], 0)
        for number in (*(runs := _DIGITS().findall(found["digits"])), *_join(runs)):
            yield _to_float(number)
            yield _to_float(f"{number}e{exponent}")
    for hour in _AFTERNOON().findall(folded):
        yield float(hour) + 12
    for over, under in _FRACTION().findall(folded):
        if _to_float(under):
            yield _to_float(over) / _to_float(under)


def _to_float(number: str) -> float:
    return float(number) if len(number) <= _MOST_DIGITS else math.inf


def _join(runs: Sequence[str]) -> tuple[str, ...]:
    """Return digits in several groups as one number, and with the last group as its decimals."""
    *first, last = runs
    return ("".join(runs), f"{''.join(first)}.{last}") if first else ()
