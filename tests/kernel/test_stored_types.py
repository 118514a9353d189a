"""Values of many types are stored and read back as they are, or refused with their place while the run lives."""

import collections
import enum
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from types import new_class
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar, cast, final
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PrivateAttr,
    RootModel,
    SecretBytes,
    SecretStr,
    SerializeAsAny,
    computed_field,
    create_model,
    field_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

import graphexec as gx
from graphexec.errors import InputError, SnapshotError
from graphexec.kernel import PendingEffect
from tests.kernel import machines as m
from tests.parameters import cases

T = TypeVar("T")


# Any: type checkers do not know the fields of such models.
make_model: Any = create_model
Alias = make_model("Alias", n=(int, Field(alias="N")))
Swapped = make_model("Swapped", a=(int, Field(alias="b")), b=(int, Field(alias="a")))
Choices = make_model("Choices", n=(int, Field(validation_alias=AliasChoices("x", "y"))))
Parsed = make_model("Parsed", numbers=(Json[list[int]], ...))
Login = make_model("Login", password=(SecretStr, ...), token=(SecretBytes, SecretBytes(b"")))
Excluded = make_model("Excluded", n=(int, Field(default=1, exclude=True)))
Open = make_model("Open", __config__=ConfigDict(extra="allow"))
Encoded = make_model("Encoded", __config__=ConfigDict(ser_json_bytes="base64"), data=(bytes, ...))
BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
Decoded = make_model("Decoded", __config__=BASE64, data=(bytes, ...))
Patch = make_model("Patch", name=(str | None, None), tags=(list[str], Field(default_factory=list)))
Root = make_model("Root", __base__=RootModel[list[date]])


class TwoAliases(BaseModel):
    n: int = Field(validation_alias="read", serialization_alias="written")


class Animal(BaseModel):
    name: str = ""


class Dog(Animal):
    age: int = 3


class Zoo(BaseModel):
    animal: Animal
    other: SerializeAsAny[Animal] = Animal()


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int

    # As pydantic's documentation has it.
    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.n


class Serialized(BaseModel):
    n: int

    @field_serializer("n")
    def bracket(self, n: int) -> str:
        return f"<{n}>"


class OpenLogin(BaseModel):
    password: SecretStr

    @field_serializer("password", when_used="json")
    def show(self, password: SecretStr) -> str:
        return password.get_secret_value()


class Private(BaseModel):
    n: int = 0
    _hidden: int = PrivateAttr(0)

    @classmethod
    def of(cls, hidden: int) -> "Private":
        made = cls()
        made._hidden = hidden
        return made


class Box(BaseModel, Generic[T]):
    inside: T


class Settings(TypedDict):
    n: int
    name: NotRequired[str]


class Pair(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    RED = "red"


@dataclass
class Defaults:
    n: int = 1
    cache: int = field(default=0, init=False, compare=False)


@dataclass
class Grows:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


@pydantic_dataclass(config=ConfigDict(extra="allow"))
class OpenPoint:
    x: int = Field(alias="X")


Cat, Bird = (make_dataclass(name, [("kind", Literal[name.lower()], name.lower())]) for name in ("Cat", "Bird"))
One, Two = (make_dataclass(name, [("x", int)]) for name in ("One", "Two"))


def defaults(cached: int, **more: int) -> Defaults:
    made = Defaults()
    made.cache = cached
    made.__dict__.update(more)
    return made


SMALL = st.integers(0, 3)
TEXTS = st.sampled_from(["", "a", "1", "2020-01-01", "2020-01-01T00:00:00", "\ud800", "é"])
NUMBERS = st.floats(width=16)
DECIMALS = st.sampled_from(list(map(Decimal, ("0", "-0", "1.0", "1.00", "1E+5", "NaN"))))
DAYS = st.dates(date(2020, 1, 1), date(2020, 1, 3))
# A fold is refused: `ZONED` has it.
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2020, 1, 2)).map(lambda one: one.replace(fold=0))
EAST = timedelta(hours=2)
OFFSETS = [UTC, timezone(EAST), timezone(EAST, "CET"), ZoneInfo("Etc/GMT-2")]
ZONES = st.sampled_from([*OFFSETS, ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), None])
ZONED = st.builds(datetime, st.just(2020), st.just(10), st.just(25), st.just(2), tzinfo=ZONES, fold=st.integers(0, 1))
IDS = st.uuids()
ORDERED: Any = collections.OrderedDict[str, int](b=1, a=2)
DEFAULTS: Any = [collections.defaultdict[str, int](make) for make in (int, lambda: 5)]
ANY_BOX: Any = Box
# Under `Any`: what JSON has, and what it lacks.
ANYTHING = st.recursive(
    st.none() | st.booleans() | SMALL | TEXTS | NUMBERS | DECIMALS | DAYS | TIMES | IDS | st.binary(max_size=2),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner),
        st.dictionaries(SMALL | TEXTS | st.none(), inner, max_size=2),
        st.sampled_from([{1}, frozenset({1}), Colour.RED, Level.LOW, Pair(1, "b"), Alias(N=1), PurePosixPath("a")]),
    ),
    max_leaves=3,
)

# These are stored, whatever the value is.
KEPT: Sequence[tuple[Any, st.SearchStrategy[Any]]] = [
    (Alias, st.builds(Alias, N=SMALL)),
    (Swapped, st.builds(Swapped, a=SMALL, b=SMALL)),
    (Choices, st.builds(Choices, x=SMALL)),
    (Computed, st.builds(Computed, n=SMALL)),
    (Parsed, st.builds(Parsed, numbers=st.just("[1]"))),
    (OpenLogin, st.builds(OpenLogin, password=TEXTS)),
    (Decoded, st.builds(Decoded, data=st.just("_w=="))),
    (Patch, st.builds(Patch) | st.builds(Patch, name=st.none()) | st.builds(Patch, tags=st.just(["a"]))),
    (Root, st.builds(Root, st.lists(DAYS, max_size=2))),
    (Box[int], st.builds(Box[int], inside=SMALL)),
    (Box[datetime], st.builds(Box[datetime], inside=TIMES)),
    (Settings, st.fixed_dictionaries({"n": SMALL}, optional={"name": TEXTS})),
    (Pair, st.builds(Pair, SMALL, TEXTS)),
    (list[Pair], st.lists(st.builds(Pair, SMALL, TEXTS), max_size=2)),
    (Level, st.just(Level.LOW)),
    (Word, st.just(Word.RED)),
    (Annotated[Cat | Bird, Field(discriminator="kind")], st.builds(Cat) | st.builds(Bird)),
    (Cat | Bird, st.builds(Cat) | st.builds(Bird)),
    (date | datetime, TIMES),
    (float | Decimal, NUMBERS),
    (int | float, SMALL | NUMBERS),
    (int | str, SMALL | TEXTS),
    (bool | int, st.booleans() | SMALL),
    (int | None, SMALL | st.none()),
    (dict[int, str], st.dictionaries(SMALL, TEXTS, max_size=2)),
    (dict[date, int], st.dictionaries(DAYS, SMALL, max_size=2)),
    (dict[UUID, int], st.dictionaries(IDS, SMALL, max_size=2)),
    (dict[Word, int], st.dictionaries(st.just(Word.RED), SMALL)),
    (tuple[int, ...], st.lists(SMALL, max_size=2).map(tuple)),
    (tuple[int, date], st.tuples(SMALL, DAYS)),
    (set[date], st.sets(DAYS, max_size=2)),
    (frozenset[str], st.frozensets(TEXTS.filter(lambda text: text != "\ud800"), max_size=2)),
    (collections.deque[int], st.lists(SMALL, max_size=2).map(collections.deque)),
    (collections.Counter[str], st.just(collections.Counter("aab"))),
    (collections.OrderedDict[str, int], st.just(ORDERED)),
    (date, DAYS),
    (datetime, TIMES),
    (time, st.times(timezones=st.just(UTC)).map(lambda one: one.replace(fold=0))),
    (timedelta, st.timedeltas(timedelta(-2), timedelta(2))),
    (float, NUMBERS),
    (Decimal, DECIMALS.filter(Decimal.is_finite)),
    (complex, st.just(1 + 2j)),
    (Fraction, st.just(Fraction(1, 3))),
    (UUID, IDS),
    (bytes, st.just(b"abc")),
    (PurePosixPath, st.just(PurePosixPath("a/b"))),
    (IPv4Address, st.just(IPv4Address("1.2.3.4"))),
    (re.Pattern[str], st.just(re.compile("a"))),
    (Any, st.recursive(st.none() | st.booleans() | SMALL | TEXTS, lambda one: st.lists(one, max_size=2))),
    (int, st.sampled_from([10**5_000, -(10**700)])),
]
# Of these, some values are refused.
REFUSED: Sequence[tuple[Any, st.SearchStrategy[Any]]] = [
    (TwoAliases, st.builds(TwoAliases, read=SMALL)),
    (Serialized, st.builds(Serialized, n=SMALL)),
    (Login, st.builds(Login, password=TEXTS, token=st.binary(max_size=2))),
    (dict[str, SecretStr], st.dictionaries(TEXTS, st.builds(SecretStr, TEXTS), max_size=2)),
    (Zoo, st.builds(Zoo, animal=st.builds(Animal) | st.builds(Dog), other=st.builds(Animal) | st.builds(Dog))),
    (list[Animal], st.lists(st.builds(Animal) | st.builds(Dog), max_size=2)),
    (Excluded, st.builds(Excluded, n=SMALL)),
    (Private, st.builds(Private.of, SMALL)),
    (Open, st.builds(Open, x=ANYTHING)),
    (OpenPoint, st.builds(cast("Any", OpenPoint), X=SMALL, more=SMALL) | st.builds(cast("Any", OpenPoint), X=SMALL)),
    (Encoded, st.builds(Encoded, data=st.binary(max_size=2))),
    (ANY_BOX, st.builds(ANY_BOX, inside=ANYTHING)),
    (Colour, st.sampled_from(Colour)),
    (int, st.sampled_from([True, Level.LOW])),
    (str, st.just(Word.RED)),
    (float, st.just(1)),
    (Defaults, st.builds(defaults, SMALL) | st.builds(defaults, SMALL, more=SMALL)),
    (Grows, st.builds(Grows, SMALL)),
    (One | Two, st.builds(One, SMALL) | st.builds(Two, SMALL)),
    (str | datetime, TEXTS | TIMES),
    (datetime | str, TEXTS | TIMES),
    (datetime | date, DAYS | TIMES),
    (UUID | str, IDS | IDS.map(str)),
    (Decimal | float, NUMBERS | DECIMALS),
    (bytes | str, TEXTS | st.binary(max_size=2)),
    (bytes, st.binary(max_size=2)),
    (Decimal, DECIMALS),
    (datetime, ZONED),
    (date, TIMES),
    (re.Pattern[str], st.sampled_from([re.compile("a"), re.compile("a", re.I)])),
    (Any, ANYTHING),
    (object, ANYTHING),
    (list[Any], st.lists(ANYTHING, max_size=2)),
    (dict[tuple[int, int], int], st.just({(1, 2): 3})),
    (dict[Pair, int], st.just({Pair(1, "b"): 3})),
    (dict[Level, int], st.just({Level.LOW: 3})),
    (dict[int | str, int], st.dictionaries(SMALL | TEXTS, SMALL, max_size=2)),
    (dict[frozenset[int], int], st.just({frozenset({1}): 3})),
    (dict[str | None, int], st.just({None: 1})),
    (Sequence[int], st.lists(SMALL, max_size=2) | st.tuples(SMALL)),
    (Mapping[str, int], st.just(ORDERED) | st.just({"a": 1})),
    (collections.deque[int], st.just(collections.deque([1], maxlen=3))),
    (collections.defaultdict[str, int], st.sampled_from(DEFAULTS)),
    (Annotated[int, AfterValidator(lambda n: 2 * n)], SMALL),
]


@m.value
class Out:
    first: object


@m.value
class Stopped:
    of: object
    limit: gx.Exhausted


@m.value
class Start:
    pass


@cache
def holder(number: int) -> tuple[Any, gx.Graph[Any, Any]]:
    """Return a class with a field of the type, and a machine that starts with it."""
    kind = TYPES[number][0]
    held: Any = final(make_dataclass("Held", [("x", kind)], frozen=True, eq=False))

    def take(held: Any) -> Out:
        return Out(held.x)

    take.__annotations__ = {"held": held, "return": Out}
    machine = gx.node(take)
    return held, gx.graph(gx.edges(machine, gx.on(Out, gx.END)), start=machine)


@cache
def asker(number: int) -> gx.Graph[Any, Any]:
    """Return a machine that asks twice for a reply of the type."""
    kind = TYPES[number][0]
    effect, make = cast("Any", gx.Effect), cast("Any", dataclass(frozen=True))
    asked: Any = make(new_class("Asked", (effect[kind],)))

    def put(start: Start) -> Generator[Any, Any, Out]:
        first = yield from gx.ask(asked())
        yield from gx.ask(asked())
        return Out(first)

    put.__annotations__ = {"start": Start, "return": gx.Asks[asked, Out]}
    machine: Any = gx.node(when_spent=Stopped, asks=2)(put)
    return gx.graph(gx.edges(machine, gx.on(Out, gx.END) | gx.on(Stopped, gx.END)), start=machine)


def stored_in_a_field(number: int, value: object) -> object:
    held, machine = holder(number)
    read: Any = gx.Snapshot.from_json(gx.Snapshot("take", held(value)).to_json(), machine).value
    return read.x


def stored_as_a_reply(number: int, value: object) -> object:
    machine = asker(number)

    def pending(paused: gx.Snapshot) -> PendingEffect:
        state = gx.advance(machine, paused, gx.Limits())
        assert isinstance(state, PendingEffect)
        return state

    paused = pending(gx.begin(machine, Start())).reply(value)
    done: Any = gx.advance(machine, pending(gx.Snapshot.from_json(paused.to_json(), machine)).reply(value), gx.Limits())
    return done.outcome.first


def exact(value: Any) -> object:
    """Return a form that differs if a type or a value does; written apart from the code that it tests."""
    # Any: `isinstance` narrows a value to one whose parts are unknown.
    held: Any = value
    kind = cast("Any", type)(value)
    if isinstance(value, (SecretStr, SecretBytes)):
        return kind, value.get_secret_value()
    if isinstance(value, BaseModel):
        more = value.__pydantic_extra__, value.__pydantic_private__
        return kind, sorted(value.model_fields_set), exact(value.__dict__), exact(more)
    if is_dataclass(value):
        return kind, [exact(getattr(value, one.name)) for one in fields(value)], getattr(held, "more", None)
    if isinstance(value, dict):
        made = getattr(held, "default_factory", None)
        members = [(exact(key), exact(one)) for key, one in held.items()]
        return kind, made, members if isinstance(value, collections.OrderedDict) else sorted(members, key=repr)
    if isinstance(value, (list, tuple, collections.deque)):
        return kind, getattr(held, "maxlen", None), list(map(exact, held))
    if isinstance(value, (set, frozenset)):
        return kind, sorted(map(repr, map(exact, held)))
    if isinstance(value, (datetime, time)):
        zone = str(value.tzinfo) if isinstance(value.tzinfo, ZoneInfo) else (value.tzname() or "").removeprefix("UTC")
        return kind, value.isoformat(), value.fold, zone.removeprefix("UTC")
    if kind is int:
        return kind, value
    return kind, repr(value)


TYPES = [*KEPT, *REFUSED]
VALUES = st.integers(0, len(TYPES) - 1).flatmap(lambda number: st.tuples(st.just(number), TYPES[number][1]))


@given(VALUES)
def test_stored_values_are_the_same_or_refused(drawn: tuple[int, Any]) -> None:
    number, value = drawn
    for store in (stored_in_a_field, stored_as_a_reply):
        refused, read = "", value
        try:
            read = store(number, value)
        except SnapshotError as error:
            refused = str(error)
        except InputError:
            # It is not a reply of the type.
            continue
        assert exact(read) == exact(value)
        # Not in another process, and with the place.
        assert not refused or re.search(r"cannot be stored as JSON: (Held\.x|reply 1)", refused)
        assert not refused or number >= len(KEPT), refused


def test_start_of_a_subclass_is_refused() -> None:
    class Later(Start):  # pyright: ignore[reportGeneralTypeIssues] - it is final
        pass

    with pytest.raises(SnapshotError, match="the value is a Later, a subclass of the final Start"):
        gx.begin(asker(0), Later()).to_json()


def test_replies_of_any_type_stay_what_they_are() -> None:
    """In JSON, the replies to a batch are a list, and so is a tuple."""

    @dataclass(frozen=True)
    class Both(gx.Effect[Any]):
        pass

    @gx.node(when_spent=Stopped, asks=3)
    def put(start: Start) -> gx.Asks[Both, Out | Stopped]:
        one = yield from gx.ask(Both())
        several = yield from gx.ask_all([Both(), Both()])
        return Out((one, several))

    machine: Any = gx.graph(gx.edges(put, gx.on(Out, gx.END) | gx.on(Stopped, gx.END)), start=put)
    snapshot = gx.begin(machine, Start())
    replies = ((1, "a"), ([2], {"b": None}))
    for reply in replies:
        pending: Any = gx.advance(machine, snapshot, gx.Limits())
        snapshot = gx.Snapshot.from_json(pending.reply(reply).to_json(), machine)
    done: Any = gx.advance(machine, snapshot, gx.Limits())
    assert done.outcome == Out(replies)
    asked: Any = gx.advance(machine, gx.begin(machine, Start()), gx.Limits())
    with pytest.raises(SnapshotError, match=r"reply 1\[1\] is a tuple, and would be read back as a list"):
        asked.reply((1, (2,))).to_json()


def message(kind: Any, value: object) -> str:
    TYPES.append((kind, st.nothing()))
    with pytest.raises(SnapshotError) as caught:
        stored_in_a_field(len(TYPES) - 1, value)
    return str(caught.value)


@cases(
    ("kind", "value", "place", "remedy"),
    (Login, Login(password=SecretStr("root")), "Held.x.password is a secret", "field_serializer"),
    (list[Zoo], [Zoo(animal=Dog())], "Held.x[0].animal is a Dog, and would be read back as an Animal", "annotate"),
    (Any, {"a": [(1,)]}, "Held.x['a'][0] is a tuple, and would be read back as a list", "annotate"),
    (Any, {1: 2}, "Held.x has the key 1, which is an int", "annotate"),
    (dict[str, TwoAliases], {"a": TwoAliases.model_validate({"read": 1})}, "Held.x['a'].n cannot be read", "one alias"),
    (Private, Private.of(5), "Held.x._hidden", "field_serializer"),
    (Excluded, Excluded(n=1), "Held.x.n is set, and would be read back as not set", "do not exclude"),
    (dict[tuple[int, int], int], {(1, 2): 3}, "Held.x cannot be read back", "use a type that JSON keeps"),
    (Any, [b"\xff"], "Held.x[0] cannot be written", "context"),
    (bytearray, bytearray(b"a"), "Held.x has no JSON: ", "bytearray"),
    (datetime, datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "the time zone Europe/Berlin", "UTC"),
)
def test_refusal_names_the_place_and_the_remedy(kind: Any, value: object, place: str, remedy: str) -> None:
    said = message(kind, value)
    assert said.startswith("the state at take cannot be stored as JSON: ")
    assert place in said
    assert remedy in said
    assert "root" not in said
