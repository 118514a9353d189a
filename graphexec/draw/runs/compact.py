"""The compact form of the records of a trace, in which a record holds what is new.

A line of a trace of version 3 is one of these, in which values are written as described below:

- a whole record, which begins a kind of records; kinds are numbered from 0
- `{"=": 4, "call": {"sequence": 9}}`: the last record of kind 4 with these fields changed or added; but its `spent`, if
  it has one, is the last `spent` of any record, with its changes
- `{"=": [...]}`, a whole record in an array: no line from here on refers to one before it, and kinds and strings are
  numbered from 0 again (a writer that was interrupted goes on so)

A value is compared with one before it: the field of a changed object with the field that was there, an element of an
array with the one at its place in the earlier array or, behind its end, with the element before it. All others, such as
the fields of a whole record, are compared with nothing.

- An object that is compared with another has its fields, but for those that are written, which are changed or added.
- `{"=": {...}}` is the object within, compared with nothing; an object with the field `=` is always written so.
- An array has all its elements.
- `{"=": 17}` is string 17. Strings are numbered from 0 in their order in the trace: all that are written where a value
  is, but no names of fields. `{"=": ["a", 17, "b"]}` is a string that is put together from parts; it has a number, too.
- An object with a field whose name begins with a digit, and arrays and objects inside 32 others, are as they are, and
  their strings have no numbers. (JavaScript moves such fields to the front, and programs do not nest without limit.)

Each line can be read with the lines before it, so the beginning of a trace is a trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import eq
from typing import Any, final

from typing_extensions import TypeIs

from graphexec.draw.runs.data import Record
from graphexec.errors import InputError

# The field of an object that is not one of the data.
MARK = "="
# The depth from which values are as they are.
_DEEP = 32
_DIGITS = frozenset("0123456789")
# The shortest string that is written as a reference, which has about 12 characters.
_SHORTEST = 24
# How many of the last long strings are searched for in a new one: the reply and the observations of a step.
_RECENT = 8
# Characters of all strings that are put together: a trace of some lines must not fill the memory.
_TOGETHER = 2**28
_NOTHING: Record = {}
_SCALARS = frozenset({int, float, bool, type(None)})


@final
class RecordEncoder:
    """Writes the records of one trace, in their order, in their compact form; they are JSON data."""

    def __init__(self) -> None:
        # By event, node and fields: the number of the kind. Alternating forms have a kind each.
        self._numbers: dict[tuple[str, ...], int] = {}
        self._kinds = _Kinds()
        # The numbers of long strings, and of the last of them; the count of all, and their characters.
        self._known: dict[str, int] = {}
        self._recent: deque[tuple[str, int]] = deque(maxlen=_RECENT)
        self._strings = self._together = 0

    def encode(self, record: Record) -> Record:
        """Return the compact form of the next record."""
        form = (str(record.get("event")), str(record.get("node")), *record)
        number = self._numbers.get(form)
        if number is None or _is_opaque(record) or MARK in record:
            written: Record = self._write(record, None, 0)
            self._numbers[form] = self._kinds.begin(record)
            return written
        changes = self._changes(record, self._kinds.base(number), 0)
        self._kinds.follow(number, record)
        return {MARK: number, **changes}

    # Any: JSON values are arbitrary.
    def _write(self, value: Any, base: Any, depth: int) -> Any:
        """Return a value that is compared with `base`."""
        if isinstance(value, str):
            return self._reference(value, depth)
        if type(value) in _SCALARS or depth >= _DEEP:
            return value
        if _is_array(value):
            bases = base if _is_array(base) else ()
            return [self._write(one, _base_at(bases, value, place), depth + 1) for place, one in enumerate(value)]
        if not _is_object(value) or _is_opaque(value):
            return value
        if _is_object(base) and MARK not in value and _extends(value, base):
            return self._changes(value, base, depth)
        whole = {name: self._write(one, None, depth + 1) for name, one in value.items()}
        return {MARK: whole} if _is_object(base) or MARK in value else whole

    def _changes(self, value: Record, base: Record, depth: int) -> Record:
        """Return the fields that differ from those of `base`."""
        changes: Record = {}
        for name, one in value.items():
            if name not in base:
                changes[name] = self._write(one, None, depth + 1)
                continue
            other = base[name]
            # Most fields are the same object, or unequal scalars.
            if one is not other and not _is_same(one, other, depth):
                changes[name] = one if type(one) in _SCALARS else self._write(one, other, depth + 1)
        return changes

    def _reference(self, text: str, depth: int) -> Any:
        """Return a string as it is, or as a reference to earlier strings."""
        # A reference is an object, and at this depth objects are as they are.
        if len(text) < _SHORTEST or depth >= _DEEP:
            self._strings += 1
            return text
        number = self._known.get(text)
        if number is not None:
            return {MARK: number}
        parts = _split(text, tuple(self._recent))
        self._known[text] = self._strings
        self._recent.appendleft((text, self._strings))
        self._strings += 1
        if len(parts) == 1 or self._together + len(text) > _TOGETHER:
            return text
        self._together += len(text)
        return {MARK: parts}


@final
class RecordDecoder:
    """Reads the records of one trace, in their order, from their compact form."""

    def __init__(self) -> None:
        self._kinds = _Kinds()
        self._strings: list[str] = []
        self._together = 0

    def decode(self, written: Record) -> Record:
        """Return the record of the next line.

        Raises `InputError` for a reference to something that no line before has; the message begins with a verb, for
        the name of the line.
        """
        mark = None if _is_opaque(written) else written.get(MARK)
        if mark is None or isinstance(mark, dict):
            whole: Record = self._read(written, None, 0)
            self._kinds.begin(whole)
            return whole
        number = self._known(mark, self._kinds.count, "kind")
        changes = {name: one for name, one in written.items() if name != MARK}
        record = self._changed(changes, self._kinds.base(number), 0)
        self._kinds.follow(number, record)
        return record

    # Any: JSON values are arbitrary.
    def _read(self, written: Any, base: Any, depth: int) -> Any:
        """Return the value that is written, compared with `base`."""
        if isinstance(written, str):
            self._strings.append(written)
            return written
        if depth >= _DEEP:
            return written
        if _is_array(written):
            bases = base if _is_array(base) else ()
            read: list[Any] = []
            for place, one in enumerate(written):
                read.append(self._read(one, _base_at(bases, read, place), depth + 1))
            return read
        if not _is_object(written) or _is_opaque(written):
            return written
        if MARK in written:
            return self._marked(written[MARK], depth)
        return self._changed(written, base if _is_object(base) else _NOTHING, depth)

    def _changed(self, changes: Record, base: Record, depth: int) -> Record:
        return {**base, **{name: self._read(one, base.get(name), depth + 1) for name, one in changes.items()}}

    def _marked(self, mark: Any, depth: int) -> Any:
        """Return the value that is written as an object with a mark."""
        if _is_object(mark):
            return self._changed(mark, _NOTHING, depth)
        if not _is_array(mark):
            return self._string(mark)
        parts = [one if isinstance(one, str) else self._string(one) for one in mark]
        self._together += sum(map(len, parts))
        if self._together > _TOGETHER:
            raise InputError(f"puts together strings of more than {_TOGETHER:,} characters")
        self._strings.append("".join(parts))
        return self._strings[-1]

    def _string(self, number: object) -> str:
        return self._strings[self._known(number, len(self._strings), "string")]

    def _known(self, number: object, count: int, what: str) -> int:
        if type(number) is not int or not 0 <= number < count:
            raise InputError(f"refers to {what} {number!r:.40}, which no line before has")
        return number


class _Kinds:
    """The last record of each kind, and the last usage."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._spent: Any = None

    @property
    def count(self) -> int:
        """The number of kinds."""
        return len(self._records)

    def base(self, number: int) -> Record:
        """Return the record with which one of a kind is compared."""
        record = self._records[number]
        return {**record, "spent": self._spent} if "spent" in record else record

    def begin(self, record: Record) -> int:
        """Add a kind, and return its number."""
        self._records.append(record)
        self._spent = record.get("spent", self._spent)
        return len(self._records) - 1

    def follow(self, number: int, record: Record) -> None:
        """Store the last record of a kind."""
        self._records[number] = record
        self._spent = record.get("spent", self._spent)


def _is_object(value: object) -> TypeIs[Record]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_opaque(value: Record) -> bool:
    """Return whether an object is written as it is."""
    return _have_digits(tuple(value))


# Most objects have the names of one before.
@lru_cache(maxsize=256)
def _have_digits(names: tuple[str, ...]) -> bool:
    # Python converts names that are no strings.
    return any(str(name)[:1] in _DIGITS for name in names)


def _base_at(bases: Sequence[Any], value: Sequence[Any], place: int) -> Any:
    """Return what an element of an array is compared with."""
    if place < len(bases):
        return bases[place]
    return value[place - 1] if place else None


def _extends(value: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Return whether an object begins with the fields of another, so that their order need not be written."""
    return len(value) >= len(base) and all(map(eq, value, base))


def _is_same(one: Any, other: Any, depth: int) -> bool:
    """Return whether two values are written in the same way: 1, 1.0 and true are not."""
    if one is other:
        return True
    # Containers that differ are unequal; those that are equal may still hold 1 and 1.0.
    if type(one) is not type(other) or depth >= _DEEP or one != other:
        return False
    if _is_object(one):
        return [*one] == [*other] and all(map(_is_same, one.values(), other.values(), repeat(depth + 1)))
    if _is_array(one):
        return len(one) == len(other) and all(map(_is_same, one, other, repeat(depth + 1)))
    # Zero has a sign.
    return not isinstance(one, float) or repr(one) == repr(other)


def _split(text: str, known: Sequence[tuple[str, int]]) -> list[str | int]:
    """Return the parts of a string: the numbers of `known` strings, each at most once, and what is between them."""
    for place, (one, number) in enumerate(known, 1):
        before, found, after = text.partition(one)
        if found:
            return [*_split(before, known[place:]), number, *_split(after, known[place:])]
    return [text] if text else []
