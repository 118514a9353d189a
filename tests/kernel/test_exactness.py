"""What is read back is compared by type, by value, and in every part."""

import collections
import dataclasses
import datetime as dt
import decimal
import functools
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
from pydantic_core import TzInfo, to_jsonable_python

from graphexec.kernel.exactness import class_of, find_difference, find_part, locate
from tests.parameters import cases


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str = ""
    _kept: int = 0


@pydantic.dataclasses.dataclass(config=pydantic.ConfigDict(extra="allow"))
class OpenRecord:
    name: str = ""


class Plain:
    __slots__ = ("one", "two")

    def __init__(self, one: Any, two: Any = None) -> None:
        self.one, self.two = one, two


class OneSlot:
    __slots__ = ("one",)

    def __init__(self, one: Any) -> None:
        self.one = one


class Equal:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise ValueError("it cannot be compared")

    def __hash__(self) -> int:
        return 1


class Odd(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        if when is None:
            raise ValueError("it needs a date")
        return dt.timedelta()

    tzname = dst = lambda self, when: None


@dataclasses.dataclass
class Record:
    name: str = ""

    @functools.cached_property
    def length(self) -> int:
        return len(self.name)


def extended(value: Any, **attributes: Any) -> Any:
    value.__dict__.update(attributes)
    return value


UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=1))
CET = dt.timezone(dt.timedelta(hours=1), "CET")
NOON = dt.datetime(2026, 1, 1, 12)
DEQUE: collections.deque[int] = collections.deque([1], maxlen=2)


@cases(
    ("value", "restored"),
    (Open.model_validate({"more": 1}), Open.model_validate({"more": 1})),
    (OpenRecord(name="a", more=1), OpenRecord(name="a", more=1)),  # type: ignore[call-arg]
    (extended(Record(), more=1, length=0), extended(Record(), more=1)),
    (Plain(1, [2.0]), Plain(1, [2.0])),
    (OneSlot({"a"}), OneSlot({"a"})),
    (Equal(), Equal()),
    *((NOON.replace(tzinfo=zone), NOON.replace(tzinfo=TzInfo(0))) for zone in (UTC, ZoneInfo("UTC"), TzInfo(0))),
    *((NOON.replace(tzinfo=zone), NOON.replace(tzinfo=TzInfo(3600))) for zone in (EAST, TzInfo(3600))),
    ({1: {"a"}, "b": (dt.time(1), bytearray(b"x"))}, {1: {"a"}, "b": (dt.time(1), bytearray(b"x"))}),
    (collections.defaultdict(list, a=[1]), collections.defaultdict(list, a=[1])),
    (DEQUE, collections.deque([1], maxlen=2)),
)
def test_equal_values_of_one_type_are_the_same(value: object, restored: object) -> None:
    assert find_difference(value, restored) is None


@cases(
    ("value", "restored", "place"),
    (1, True, ""),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00"), ""),
    (0.0, -0.0, ""),
    (Open.model_validate({"more": 1}), Open(), ""),
    (Open.model_validate({"more": 1}), Open.model_validate({"more": 2}), ".more"),
    (OpenRecord(name="a", more=1), OpenRecord(name="a"), ""),  # type: ignore[call-arg]
    (Plain([1]), Plain([2]), ".one[0]"),
    (OneSlot(1), OneSlot(2), ".one"),
    (Unequal(), Unequal(), ""),
    (len, sum, ""),
    ({"a": 1}, {}, ""),
    ({"a": 1}, {"b": 1}, " has the key 'a', which"),
    ({"a": [1]}, {"a": [2]}, "['a'][0]"),
    ([1], [1, 2], ""),
    (DEQUE, collections.deque([1]), ""),
    ({1}, {2}, ""),
    ({(1,)}, {(True,)}, " has a member which[0]"),
    (NOON, NOON.replace(tzinfo=UTC), ""),
    (NOON.replace(tzinfo=EAST), NOON.replace(tzinfo=UTC), ""),
    (NOON.replace(tzinfo=Odd()), NOON.replace(tzinfo=UTC), ""),
    (NOON, NOON.replace(hour=1), ""),
    (NOON.replace(fold=1), NOON, ""),
    *((NOON.replace(tzinfo=zone), NOON.replace(tzinfo=TzInfo(3600)), "") for zone in (CET, ZoneInfo("Etc/GMT-1"))),
    *((extended(make(), more=1), make(), "") for make in (Record, OpenRecord, Open)),
    (extended(Record(), more=1), extended(Record(), more=2), ".more"),
    (b"a", b"b", ""),
    (pydantic.SecretStr("a"), pydantic.SecretStr("*"), ""),
)
def test_another_value_is_found_at_its_place(value: object, restored: object, place: str) -> None:
    found = find_difference(value, restored)
    assert found is not None
    assert found[0] == place


def test_places_of_parts() -> None:
    assert find_part({"a": [Open(), {object(), 1}]}, to_jsonable_python) == "['a'][1] in a set"
    assert find_part(Plain(1), to_jsonable_python) == ""
    assert find_part({"a": 1}, lambda part: pydantic.TypeAdapter(class_of(part))) == ""
    assert find_part([1, Plain(1)], lambda part: pydantic.TypeAdapter(class_of(part))) == "[1]"
    assert locate({"a": [1]}, ["a", 0, "int"]) == "['a'][0]"
    assert locate(Open.model_validate({"more": [1]}), ["more", 0]) == ".more[0]"
