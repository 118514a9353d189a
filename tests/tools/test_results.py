"""Results of tools are values: read once, at once, at any depth, and changed by nobody afterwards."""

import asyncio
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import datetime as dt
import enum
import itertools
import math
import pathlib
import sqlite3
import threading
import types
import unittest.mock
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import graphexec as gx
from graphexec.draw import Recorder, Recording
from graphexec.effects import ToolResult
from graphexec.executor import AGENT_EXECUTOR
from graphexec.messages import Image, ToolMessage
from graphexec.messages.observations import Excerpt, format_observation
from graphexec.models import ScriptedModel
from graphexec.tools.results import MOST_ITEMS
from tests.executor import actors
from tests.executor.actors import Running, act, answer, call, caller_of, make_executor
from tests.parameters import cases, examples
from tests.tools.actors import HOW, call_tool, tool_of


class Row(NamedTuple):
    cell: Any


@dataclasses.dataclass
class Page:
    items: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Sheet:
    items: Any


class Reply(BaseModel):
    data: Any


class Open(BaseModel):
    model_config = {"extra": "allow"}


class Colour(enum.Enum):
    RED = "red"


class Array:
    """Numbers of another library, whose comparison is no truth value."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __repr__(self) -> str:
        return "array([1, 2])"


def yielding(items: list[Any], end: Any = None) -> Generator[Any, None, Any]:
    yield from items
    return end


async def yielding_async(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def returning(value: Any) -> Any:
    return value


class Awaitable:
    """An awaitable that is no coroutine."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        yield from ()
        return self.value


class Cursor:
    """An async iterator that is no generator."""

    def __init__(self, items: list[Any]) -> None:
        self.left = [*items]

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


def numbered(items: list[Any]) -> dict[Any, Any]:
    return dict(enumerate(items))


# How a tool may return a list of items: what it returns, and the value of that.
OF_ITEMS: list[tuple[Callable[[list[Any]], Any], Callable[[list[Any]], Any]]] = [
    (iter, list),
    (itertools.chain, list),
    (yielding, list),
    (lambda items: yielding(items, "end"), lambda values: [*values, "end"]),
    (yielding_async, list),
    (Cursor, list),
    (lambda items: map(list[Any].pop, [[item] for item in items]), list),
    (lambda items: filter(lambda _: True, items), list),
    (lambda items: zip(items, [*range(9)], strict=False), lambda values: [*zip(values, [*range(9)], strict=False)]),
    (reversed, lambda values: values[::-1]),
    (lambda items: numbered(items).values(), list),
    (lambda items: numbered(items).items(), lambda values: [*numbered(values).items()]),
    (tuple, tuple),
    (list, list),
    (collections.deque, collections.deque),
    (numbered, numbered),
    (lambda items: types.MappingProxyType(numbered(items)), numbered),
    (lambda items: collections.OrderedDict(numbered(items)), lambda values: collections.OrderedDict(numbered(values))),
]
# How it may return one value.
OF_ONE: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (returning, lambda value: value),
    (Awaitable, lambda value: value),
    (lambda value: returning(Awaitable(value)), lambda value: value),
    *((kind, kind) for kind in (Row, Page, Sheet, ToolResult)),
    (lambda value: Reply(data=value), lambda value: Reply(data=value)),
    (lambda value: Open.model_validate({"data": value}), lambda value: Open.model_validate({"data": value})),
    # As a tool of LangChain with "content_and_artifact" returns it.
    (lambda value: ("done", value), lambda value: ("done", value)),
]
# Values that are no JSON, or nearly none.
ODD: list[Any] = [
    "",
    b"bytes",
    b"\xff\x00",
    bytearray(b"x"),
    range(3),
    Colour.RED,
    dt.datetime(2026, 11, 30, 1, 2, tzinfo=dt.UTC),
    dt.date(2026, 11, 30),
    dt.timedelta(1),
    Decimal("1.10"),
    uuid.UUID(int=1),
    pathlib.PurePosixPath("a/b"),
    ValueError("as a value"),
    math.inf,
    math.nan,
    10**400,
    1 + 2j,
    frozenset({1}),
    {1},
    {(1, 2): 3},
    Array(),
    Image.from_bytes(b"\x89PNG\r\n\x1a\n"),
    "\ud800",
    {"kind": "graphexec.image", "url": "data"},
    ToolMessage("c0", "of another call"),
    int,
    NotImplemented,
    ...,
]

# Functions that make a result, and its value: a coroutine can be returned only once.
Made = tuple[Callable[[], Any], Any]


def results() -> st.SearchStrategy[Made]:
    plain = st.text(st.characters(codec="utf-8"), max_size=5) | st.integers() | st.none() | st.booleans()
    keys: st.SearchStrategy[Made] = st.just((lambda: numbered([None]).keys(), [0]))
    leaf = keys | (plain | st.sampled_from(ODD)).map(lambda value: ((lambda: value), value))

    def around(inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
        def many(way: Any, parts: list[Made]) -> Made:
            return (lambda: way[0]([make() for make, _ in parts])), way[1]([value for _, value in parts])

        def one(way: Any, part: Made) -> Made:
            return (lambda: way[0](part[0]())), way[1](part[1])

        several = st.builds(many, st.sampled_from(OF_ITEMS), st.lists(inner, max_size=3))
        return several | st.builds(one, st.sampled_from(OF_ONE), inner)

    return st.recursive(leaf, around, max_leaves=6)


def texts_of(model: ScriptedModel) -> list[str]:
    """Return the results in the last request."""
    request: Any = model.requests[-1]
    return [one.content for one in request.messages if isinstance(one, ToolMessage)]


# Options of the executor, by the way of its run.
WAYS: dict[str, dict[str, Any]] = {
    "verbose": {"verbose": True},
    "trimmed": {"trim_intermediate_steps": 1},
    "cut": {"max_observation": 20},
    **{way: {} for way in ("plain", "streamed", "recorded", "resumed", "twice")},
}


@settings(max_examples=examples(100, 30), deadline=None)
@given(results(), st.booleans(), st.booleans(), st.sampled_from([None, 60.0]), st.sampled_from([*WAYS]))
def test_model_is_sent_the_value_of_any_result(
    made: Made, is_async: bool, is_async_run: bool, timeout: float | None, way: str
) -> None:
    """In a task, in the run's thread or in another one, and however the run is watched, stored and resumed."""
    make, value = made
    most = WAYS[way].get("max_observation")
    expected = Excerpt(most).of(value)
    calls: list[Any] = [call("give", "1"), call("give", "2")] if way == "twice" else [call("give")]
    model = ScriptedModel([calls, *([] if way == "resumed" else ["done"])])
    recorder = Recorder(AGENT_EXECUTOR.verify())
    options = {"max_observation": 10**6, **WAYS[way]} | ({"observers": [recorder]} if way == "recorded" else {})
    one = tool_of(make, is_async=is_async, timeout=timeout)
    executor = caller_of(model, one, **options)
    run = actors.run_async if is_async_run else actors.run_sync
    steps: list[Any] = []
    if way == "resumed":
        stored = actors.snapshot_after(AssertionError, lambda: run(executor)).to_json()
        model = ScriptedModel(["done"])
        executor = caller_of(model, one, **options)
        steps += run(executor, gx.Snapshot.from_json(stored, executor.graph)).steps
        assert format_observation(steps[0].observation) == expected
    elif way == "streamed":
        actors.run_by("astream" if is_async_run else "stream", executor)
    else:
        steps += run(executor).steps
        for step in steps:
            assert is_same(step.observation, value)
    assert texts_of(model) == [expected] * len(calls)
    if way == "recorded":
        recording = Recording(tuple(recorder.records))
        assert Recording.from_json_lines(recording.to_json_lines()).records == recording.records


def is_same(observed: Any, value: Any) -> bool:
    """Return whether an observation is a value; one that does not equal its own copy is compared as text."""
    with contextlib.suppress(ValueError):
        if value == copy.deepcopy(value) and observed != value:
            return False
    return type(observed) is type(value) and format_observation(observed) == format_observation(value)


def test_verbose_run_shows_what_the_model_sees(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([call("give"), "done"])
    executor = caller_of(model, tool_of(lambda: map(str.upper, ["ada"])), verbose=True)
    assert (actors.run_sync(executor).steps[0].observation, texts_of(model)) == (["ADA"], ['["ADA"]'])
    assert '<- ["ADA"]' in capsys.readouterr().err


@cases("lazy", itertools.count, lambda: yielding_async([*range(9_999)]))
def test_endless_result_stops_behind_what_is_shown(lazy: Callable[[], Any]) -> None:
    result = call_tool(tool_of(lazy), {}, max_observation=20)
    assert result.text.startswith("[0,1,2,3,4,5,6,7,8,9\n[... ")
    assert len(result.observation) == 21


def failing() -> Iterator[int]:
    yield 1
    raise LookupError("I know no more")


async def failing_async() -> AsyncIterator[int]:
    for number in failing():
        yield number


@HOW
@cases("make", failing, failing_async)
def test_error_of_an_iterator_is_the_tools(run: Running, make: Callable[[], Any]) -> None:
    (step,) = run(make_executor(act("give"), answer(), tools=[tool_of(make)])).steps
    assert (step.status, step.observation) == ("error", "give failed: LookupError: I know no more")


def test_endless_result_is_an_error_without_a_limit() -> None:
    result = call_tool(tool_of(itertools.count), {})
    assert (result.status, f"more than {MOST_ITEMS:,} items" in result.text) == ("error", True)


def test_connection_is_read_in_the_thread_of_its_call() -> None:
    """A cursor of SQLite refuses other threads."""
    with contextlib.closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        threads = [threading.get_ident()]

        def rows() -> Iterator[Any]:
            threads.append(threading.get_ident())
            yield from connection.execute("select 1, 'a' union select 2, 'b'")
            threads.append(threading.get_ident())

        def query() -> Any:
            threads.append(threading.get_ident())
            return rows()

        executor = make_executor(act("give"), answer(), tools=[tool_of(query)])
        assert asyncio.run(executor.arun("q")).steps[0].observation == [(1, "a"), (2, "b")]
    here, *there = threads
    assert len({*there}) == 1
    assert here not in there


def test_generator_is_closed_at_its_bound() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.set()

    call_tool(tool_of(endless), {}, max_observation=5)
    assert closed.is_set()


@HOW
def test_later_changes_do_not_reach_the_record(run: Running) -> None:
    """With trimmed steps, each request is made anew."""
    lines: list[str] = []

    @gx.tool
    def add(line: str) -> list[str]:
        """Add a line."""
        lines.append(line)
        return lines

    model = ScriptedModel([call("add", "1", line="x"), call("add", "2", line="y"), call("add", "3", line="z"), "done"])
    result = run(caller_of(model, add, trim_intermediate_steps=2))
    assert [step.observation for step in result.steps] == [["x"], ["x", "y"], ["x", "y", "z"]]
    assert texts_of(model) == ['["x","y"]', '["x","y","z"]']


def test_what_cannot_be_copied_stays_as_it_is() -> None:
    lock = threading.Lock()
    result = call_tool(tool_of(lambda: [lock, map(str, [1])]), {})
    assert result.observation == [lock, ["1"]]


@cases(("limit", "text"), (None, "nothing to see"), (7, "nothing\n[... 7 more characters were cut; ask for less]"))
def test_changed_observation_is_what_the_model_is_sent(limit: int | None, text: str) -> None:
    result = call_tool(tool_of(lambda: "the password is hunter2"), {}, max_observation=limit)
    changed = dataclasses.replace(result, observation="nothing to see")
    assert changed.text == text
    step = gx.AgentStep(act("give"), result.observation, excerpt=dataclasses.replace(result.excerpt, note=" (noted)"))
    assert dataclasses.replace(step, observation="nothing to see").text == f"{text} (noted)"


class Endless(collections.abc.Sequence[int]):
    """A sequence that computes its items."""

    def __getitem__(self, index: Any) -> Any:
        return index

    def __len__(self) -> int:
        return 10**18

    def __repr__(self) -> str:
        return "Endless()"


class Remote:
    """An object that asks a server for each attribute."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError(name)

    def __repr__(self) -> str:
        return "Remote()"


@HOW
@cases("make", Endless, Remote, unittest.mock.MagicMock)
def test_object_that_only_looks_like_items_stays_one(run: Running, make: Callable[[], Any]) -> None:
    (step,) = run(make_executor(act("give"), answer(), tools=[tool_of(make)])).steps
    assert (step.status, type(step.observation).__name__) == ("ok", make.__name__)
