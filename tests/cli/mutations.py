"""Damaged documents: structural and textual changes of valid JSON, and texts that stop readers."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from graphexec.kernel.serialization import format_json

# What stands in the place of a value: every kind of JSON, and the values that stop a careless reader.
VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1.5, -0.0, 10**400, -(10**5000), 1e308, float("nan"), float("inf")),
    *("", "x", "plan", "END", "\ud800", "\x00\n\u202e", "9" * 5000, [], [[]], ["x", 1], {}, {"": {}}),
    *({"kind": "graphexec.image", "url": 3}, {"kind": "graphexec.data", "data": 3}),
    *({"class": "Ready", "data": None}, {"exhausted": {"limit": 3}}),
)

DEEP = 100_000
# Whole texts.
TEXTS: Sequence[bytes] = (
    *(b"", b"\n", b"\x00" * 100, b"\xff\xfe[\x00]\x00", b"\xef\xbb\xbf{}", gzip.compress(b"{}")),
    *(b'["' * DEEP, b"[" * 10 * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP),
    *(b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"9" * DEEP, b"-" + b"9" * DEEP, b"1e" + b"9" * DEEP),
    *(b"NaN", b"-Infinity", b'"\\ud800"', b'"' + b"x" * DEEP, b"null", b"{}", b"[]", b"[{}]"),
    *(b'{"event": "start"}', b'{"version": 2}', b"{} {}"),
)


def damage(document: bytes, chance: random.Random) -> bytes:
    """Return a document with some changes; each line of it is JSON."""
    if chance.random() < 0.02:
        return chance.choice(TEXTS)
    if chance.random() < 0.6:
        lines = document.splitlines()
        number = chance.randrange(len(lines))
        value = json.loads(lines[number])
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            value = _change_value(value, chance)
        # Half of a surrogate pair is an escape, or bytes that are not UTF-8.
        lines[number] = format_json(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
        return b"\n".join(lines) + b"\n"
    return chance.choice(_TEXTUAL)(document, chance)


def _change_value(document: Any, chance: random.Random) -> Any:
    """Return a document in which one value is replaced, removed, duplicated, or swapped with another."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places:
        return chance.choice(VALUES)
    parent, key = chance.choice(places)
    match chance.randrange(5):
        case 0 | 1:
            parent[key] = copy.deepcopy(chance.choice(VALUES))
        case 2:
            del parent[key]
        case 3:
            if isinstance(key, int):
                parent.append(copy.deepcopy(parent[key]))
            else:
                parent[chance.choice(["x", "", *parent])] = copy.deepcopy(parent[key])
        case _:
            other, name = chance.choice(places)
            parent[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(parent[key])
    return document


def _places(value: Any) -> Any:
    """Yield the places of the values within a value: what holds it, and its key or index."""
    kind: type[Any] = value.__class__
    if kind in (dict, list):
        for key in list(value) if kind is dict else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _truncate(document: bytes, chance: random.Random) -> bytes:
    return document[: chance.randrange(len(document))]


def _flip(document: bytes, chance: random.Random) -> bytes:
    changed = bytearray(document)
    for _ in range(chance.choice((1, 2, 8))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


_PIECES = (b"\x00", b"\xff", b"[", b"{", b'"', b",", b"\n", b"\r", b"1e999", b"9" * 5000, b"[" * DEEP, b'{"a":' * DEEP)


def _insert(document: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(document))
    return document[:place] + chance.choice(_PIECES) + document[place:]


def _repeat(document: bytes, chance: random.Random) -> bytes:
    lines = document.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def _shuffle(document: bytes, chance: random.Random) -> bytes:
    lines = document.splitlines(keepends=True)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


_TEXTUAL: Sequence[Callable[[bytes, random.Random], bytes]] = (_truncate, _flip, _insert, _repeat, _shuffle)
