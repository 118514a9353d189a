"""Find personal data: what a pattern is, and where a text has matches."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, final

from graphexec._arguments import validate_each
from graphexec._parsing import compile_lazily
from graphexec.errors import InputError, format_value
from graphexec.nodes.privacy.patterns import PATTERNS, Finder, find_spans

# What a pattern is: a regular expression, or a function that returns the start and the end of each match.
AnyPattern: TypeAlias = str | re.Pattern[str] | Finder

# A token's name: letters, digits and underscores, in capitals.
_NAME = compile_lazily(r"[A-Z][A-Z0-9_]{0,39}")
# A token, or a text that looks like one.
TOKEN = compile_lazily(r"\[[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}\]")
# So many texts without a match are remembered, each of so many characters at most: those of a long conversation.
_MOST_CLEAN = 4_096
_LONGEST_CLEAN = 10_000
# The kind of the tokens that stand for what only looks like a token.
_LITERAL = "TEXT"


def to_finders(patterns: Iterable[str] | Mapping[str, AnyPattern]) -> Mapping[str, Finder]:
    """Return the functions that find the matches, by the name of their pattern. Raises `InputError`."""
    if not isinstance(patterns, Mapping):
        names = validate_each("redact_pii: patterns", patterns, str, "names, or a dict of patterns by name")
        if unknown := [one for one in names if one not in PATTERNS]:
            raise InputError(
                f"redact_pii has no pattern {unknown[0]}; it has {', '.join(PATTERNS)}; pass your own in a dict by name"
            )
        return {one: PATTERNS[one] for one in names}
    # A mapping is an iterable of names, too, which type checkers cannot distinguish.
    own: Mapping[str, AnyPattern] = patterns  # pyright: ignore[reportUnknownVariableType]
    return {name: _to_finder(name, pattern) for name, pattern in own.items()}


def _to_finder(name: object, pattern: AnyPattern) -> Finder:
    if not isinstance(name, str) or not _NAME().fullmatch(name) or name == _LITERAL:
        raise InputError(f"redact_pii has a pattern {format_value(name)}; name it in capitals, such as BADGE")
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as error:
            raise InputError(
                f"redact_pii: the pattern {name} is invalid ({error}); give a regular expression"
            ) from error
    if isinstance(pattern, re.Pattern):
        if pattern.search("") is not None:
            raise InputError(f"redact_pii: the pattern {name} matches the empty string; let it match a character")
        finditer = pattern.finditer
        return lambda text: [match.span() for match in finditer(text)]
    if not callable(pattern):
        raise InputError(
            f"redact_pii: the pattern {name} is {format_value(pattern)}; give a regular expression or a function"
        )
    return pattern


@final
class CleanTexts:
    """The last texts that have no match: each request has those of the request before."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def add(self, text: str) -> None:
        """Remember a text, unless it is too long."""
        if len(text) <= _LONGEST_CLEAN:
            if len(self._texts) >= _MOST_CLEAN:
                self._texts.clear()
            self._texts[text] = None


@final
@dataclasses.dataclass(frozen=True)
class Matcher:
    """The patterns, and the strings that they do not apply to."""

    finders: Mapping[str, Finder]
    keep: frozenset[str]
    # Texts without a match between their tokens, and JSON without one in its values.
    clean: CleanTexts = dataclasses.field(default_factory=CleanTexts)
    clean_json: CleanTexts = dataclasses.field(default_factory=CleanTexts)

    def find(self, text: str, *, tokens: bool) -> list[tuple[int, int, str]]:
        """Return the start, the end and the kind of each match in order; with `tokens`, of what looks like one, too.

        Between the matches there is none: `ann@example.com4111 1111 1111 1111` has an address only once the number is
        a token.
        """
        found = self._find_all(text, tokens=tokens)
        gaps = list(_gaps(found, len(text))) if found else []
        while gaps:
            start, end = gaps.pop()
            inner = self._find_all(text[start:end], tokens=tokens)
            found += [(start + first, start + last, kind) for first, last, kind in inner]
            if inner:
                gaps += [(start + first, start + last) for first, last in _gaps(inner, end - start)]
        return sorted(found)

    def _find_all(self, text: str, *, tokens: bool) -> list[tuple[int, int, str]]:
        spans = [
            (start, end, kind)
            for kind, finder in self.finders.items()
            for start, end in finder(text)
            if text[start:end] not in self.keep
        ]
        if tokens and "[" in text:
            spans += [(*match.span(), _LITERAL) for match in TOKEN().finditer(text)]
        return find_spans(spans)


def _gaps(spans: Sequence[tuple[int, int, str]], length: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of what is between the matches of a text of this length."""
    done = 0
    for start, end, _ in (*spans, (length, length, "")):
        if done < start:
            yield done, start
        done = end
