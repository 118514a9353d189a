"""Patterns of personal data: functions that find it in a text, each of ours in time linear in its length.

And what stands in its place where it is hidden for good.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import PLAIN_FUNCTION, Constraint, validate, validate_each
from graphexec._parsing import compile_lazily
from graphexec.errors import InputError, format_value
from graphexec.kernel.meters import is_whole

# Returns the start and the end of each match in a text.
Finder: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
# What a pattern is: a regular expression, or a function that returns the start and the end of each match.
AnyPattern: TypeAlias = str | re.Pattern[str] | Finder

# What is done with the matches of a pattern.
Strategy: TypeAlias = Literal["token", "redact", "mask", "hash", "block"]
_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
_STRATEGY = Constraint(f"one of {', '.join(_STRATEGIES)}", lambda value: value in _STRATEGIES)

# A token's name: letters, digits and underscores, in capitals.
_NAME = compile_lazily(r"[A-Z][A-Z0-9_]{0,39}")
# The kind of the tokens that stand for what only looks like a token.
LITERAL = "TEXT"

# RFC 5321 allows 64 characters before the @, and 63 in each part of the domain.
_LOCAL = compile_lazily(r"[A-Za-z0-9._%+'-]{0,63}[A-Za-z0-9_%+-]\Z")
_DOMAIN = compile_lazily(r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])")
_MOST_LOCAL = 64

# The patterns begin with a set of letters, which is searched ten times as fast as a condition on the letter before.
# As they are printed: in one piece, in groups of four, or as American Express prints them.
_CARD = compile_lazily(
    r"[2-6](?<![0-9].)(?:[0-9]{12,18}|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}|[0-9]{3}([ -])[0-9]{6}\2[0-9]{5})"
    r"(?![0-9])"
)
_IBAN = compile_lazily(r"[A-Z](?<![A-Za-z0-9].)[A-Z][0-9]{2}(?= ?[A-Z0-9])")
# The number of characters by country, from the registry of ISO 13616.
_IBAN_LENGTHS = {
    country: length
    for length, countries in (
        (15, "NO"),
        (16, "BE"),
        (18, "DK FI FO GL NL"),
        (19, "MK SI"),
        (20, "AT BA EE KZ LT LU XK"),
        (21, "CH HR LI LV"),
        (22, "BG BH CR DE GB GE IE ME RS VA"),
        (23, "AE GI IL IQ TL"),
        (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
        (25, "LY PT ST"),
        (26, "IS TR"),
        (27, "FR GR IT MC MR SM"),
        (28, "AL AZ BY CY DO GT HU LB PL SV"),
        (29, "BR EG PS QA UA"),
        (30, "JO KW MU"),
        (31, "MT SC"),
        (32, "LC"),
    )
    for country in countries.split()
}
_LETTERS = {
    length: compile_lazily(rf"(?: ?[A-Z0-9]){{{length - 4}}}(?![A-Za-z0-9])") for length in {*_IBAN_LENGTHS.values()}
}
_PHONE = compile_lazily(r"\+[0-9](?:[ ()./-]{0,2}[0-9]){7,14}(?![0-9])")
# The prefixes of OpenAI, Anthropic and others (sk-), GitHub, AWS, Google and Slack.
_API_KEY = compile_lazily(
    r"sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|AKIA[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{35}|xox[abprs]-[0-9A-Za-z-]{10,}"
)
# A label may stand before them, as in ip:10.0.0.7 and mac:00-1A-2B-3C-4D-5E.
_IPV4 = compile_lazily(r"[0-9](?<![\w.].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9])")
_IPV6 = compile_lazily(r"[0-9A-Fa-f:](?<![\w.].)[0-9A-Fa-f:]{1,38}(?:\.[0-9]{1,3}){0,3}(?<!\w:)(?!\w|:\w)")
_MAC = compile_lazily(r"[0-9A-Fa-f](?<!\w.)[0-9A-Fa-f]([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?!\w)")
# With a scheme, with www, or a domain and a path: a domain alone is a word of many texts.
_IN_URL = r"[^\s<>\"{}|\\^`\[\]]"
_URL = compile_lazily(
    rf"(?i:https?|ftp)://{_IN_URL}+|(?i:www)\.{_IN_URL}+"
    rf"|[A-Za-z0-9](?<![\w./-].)(?:[A-Za-z0-9-]{{0,62}}\.){{1,8}}[A-Za-z]{{2,24}}/{_IN_URL}*"
)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the e-mail addresses, in ASCII."""
    done = 0
    place = text.find("@")
    while place >= 0:
        domain = _DOMAIN().match(text, place)
        local = domain and _LOCAL().search(text[max(done, place - _MOST_LOCAL) : place])
        if domain and local:
            done = domain.end()
            yield place - len(local[0]), done
        place = text.find("@", max(place + 1, done))


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the numbers of payment cards: 13 to 19 digits whose last one is the check digit of Luhn."""
    found = _CARD().search(text)
    while found is not None:
        valid = _is_luhn([int(letter) for letter in found[0] if letter not in " -"])
        if valid:
            yield found.span()
        found = _CARD().search(text, found.end() if valid else found.start() + 1)


def _is_luhn(digits: list[int]) -> bool:
    # The sum of the digits of the double.
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the account numbers (IBAN, ISO 13616) with a valid checksum."""
    for found in _IBAN().finditer(text):
        length = _IBAN_LENGTHS.get(found[0][:2])
        rest = None if length is None else _LETTERS[length]().match(text, found.end())
        if rest and _is_iban((found[0] + rest[0]).replace(" ", "")):
            yield found.start(), rest.end()


def _is_iban(letters: str) -> bool:
    return int("".join([str(int(letter, 36)) for letter in letters[4:] + letters[:4]])) % 97 == 1


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Yield the international telephone numbers: a plus and 8 to 15 digits."""
    for found in _PHONE().finditer(text):
        yield found.span()


def find_api_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the keys of well-known services, by their prefixes."""
    for found in _API_KEY().finditer(text):
        if not text[found.start() - 1 : found.start()].isalnum():
            yield found.span()


def find_ips(text: str) -> Iterator[tuple[int, int]]:
    """Yield the addresses of IP, versions 4 and 6. A version 6 without a digit is more often a name of a program."""
    for pattern in (_IPV4(), _IPV6()):
        found = pattern.search(text)
        while found is not None:
            valid = _is_ip(found[0])
            if valid:
                yield found.span()
            found = pattern.search(text, found.end() if valid else found.start() + 1)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(map(str.isdigit, text))


def find_macs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the hardware addresses: six pairs of hexadecimal digits, with colons or hyphens."""
    for found in _MAC().finditer(text):
        yield found.span()


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """Yield the URLs, without the punctuation of a sentence behind them."""
    for found in _URL().finditer(text):
        yield found.start(), found.start() + len(found[0].rstrip(".,;:!?)'"))


# The patterns that are used by default.
DEFAULT = ("EMAIL", "CARD", "IBAN", "PHONE", "API_KEY")

PATTERNS: Mapping[str, Finder] = {
    "EMAIL": find_emails,
    "CARD": find_cards,
    "IBAN": find_ibans,
    "PHONE": find_phones,
    "API_KEY": find_api_keys,
    "IP": find_ips,
    "MAC": find_macs,
    "URL": find_urls,
}


def hide_for_good(kind: str, value: str, strategy: Strategy) -> str:
    """Return what stands in the place of a match, from which nobody restores it.

    A mask has the letters and digits of the end, at most four and a quarter of them.
    """
    if strategy == "hash":
        digest = hashlib.sha256(value.encode()).digest()[:8]
        # In letters: a pattern of numbers does not match them.
        return f"<{kind}:{''.join([chr(ord('a') + byte % 26) for byte in digest])}>"
    if strategy != "mask":
        return f"[{kind}]"
    hidden = sum(map(str.isalnum, value))
    hidden -= min(4, hidden // 4)
    letters: list[str] = []
    for letter in value:
        letters.append("*" if letter.isalnum() and hidden > 0 else letter)
        hidden -= letter.isalnum()
    return "".join(letters)


def to_strategies(strategy: Strategy | Mapping[str, Strategy], finders: Mapping[str, Finder]) -> Mapping[str, Strategy]:
    """Return the strategy of each pattern by its name; `token` for those without one. Raises `InputError`."""
    tokens: dict[str, Strategy] = dict.fromkeys(finders, "token")
    by_name: Mapping[str, Strategy] = strategy if isinstance(strategy, Mapping) else dict.fromkeys(finders, strategy)
    for name, one in by_name.items():
        if name not in finders:
            raise InputError(f"redact_pii has a strategy for {name}, which is no pattern of it; add it to patterns")
        validate("redact_pii", ("strategy", one, _STRATEGY))
    return {**tokens, **by_name}


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
    if not isinstance(name, str) or not _NAME().fullmatch(name) or name == LITERAL:
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
    if not PLAIN_FUNCTION.fits(pattern):
        raise InputError(
            f"redact_pii: the pattern {name} is {format_value(pattern)}; give a regular expression or a function"
        )
    return partial(_find_checked, name, pattern)


def _find_checked(name: str, finder: Finder, text: str) -> list[tuple[int, int]]:
    # Any: a detector of another library returns other values.
    returned: Any = finder(text)
    spans: list[Any] = [*returned] if isinstance(returned, Iterable) else [returned]
    validate(f"redact_pii: the pattern {name}", *(("a match", span, _SPAN) for span in spans))
    return spans


def _is_span(value: object) -> bool:
    # Any: its items are checked here.
    pair: Any = value
    return isinstance(value, (tuple, list)) and [is_whole(one) and one >= 0 for one in pair] == [True, True]


_SPAN = Constraint("the start and the end, as in (0, 3)", _is_span)
