"""A model with a cache, and the stores of its replies."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphexec import messages, models
from graphexec.actions import AgentAction, AgentStep, Steps
from graphexec.errors import InputError, ServerError
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, ToolCall, ToolMessage, Usage, UserMessage
from graphexec.messages.turns import Conversation, MessageTurn
from graphexec.models import FunctionModel, ScriptedModel, SQLiteCache, cached
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import MODES, Ask, Typewriter, all_modes, record_reports
from tests.models.pictures import CAT, DOG
from tests.parameters import cases, examples

FULL = ModelReply("text", (ToolCall("c1", "add", '{"a": 1'),), Usage(3, 4), finish_reason="length", model="m", cost=0.5)
MakeStore = Callable[[Path], models.CacheStore]
STORES: list[MakeStore] = [lambda _: {}, lambda folder: SQLiteCache(folder / "replies.db")]
all_stores = cases("make_store", *STORES)


@all_stores
@all_modes
def test_repeated_request_is_free(ask: Ask, make_store: MakeStore, tmp_path: Path) -> None:
    inner = ScriptedModel([FULL])
    model = cached(inner, make_store(tmp_path), name="tiny")
    with record_reports() as reports:
        assert ask(model) == FULL
        assert reports == []
        # In any mode.
        assert [again(model) for again in MODES] == [replace(FULL, usage=Usage(), cost=0.0)] * len(MODES)
    notice = reports[0]
    assert isinstance(notice, models.Cached)
    assert str(notice) == "<ScriptedModel: 0 of 1 replies left> was not called: its reply was in the cache"
    assert len(inner.requests) == 1


@all_modes
def test_errors_and_incomplete_streams_are_not_stored(ask: Ask) -> None:
    model = cached(ScriptedModel([ServerError("down"), "up"]))
    with pytest.raises(ServerError):
        ask(model)
    assert ask(model).content == ask(model).content == "up"
    model = cached(Typewriter(["hello", "again"]))
    pieces = model.stream(HELLO)
    assert next(pieces) == messages.ReplyDelta("h")
    pieces.close()
    assert ask(model).content == ask(model).content == "again"


ADD = messages.ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "number"}}})
DIFFERENT: list[messages.ModelRequest] = [
    *(CompletionRequest("hello", stop=stop) for stop in [(), ("x",), ("x", "y")]),
    ChatRequest([]),
    *(ChatRequest([role("hello")]) for role in (UserMessage, messages.SystemMessage, messages.AssistantMessage)),
    ChatRequest([messages.AssistantMessage("hello", (ToolCall("1", "add", "{}"),))]),
    ChatRequest([messages.AssistantMessage("hello", (ToolCall("1", "add", "{ }"),))]),
    ChatRequest([ToolMessage("1", "hello")]),
    ChatRequest([UserMessage("hel"), UserMessage("lo")]),
    *(ChatRequest([UserMessage(text)]) for text in ("hello\ud800", "hello\\ud800")),
    *(ChatRequest([UserMessage("hello", (image,))]) for image in (CAT, DOG)),
    ChatRequest([UserMessage("hello")], stop=("x",)),
    *(
        ChatRequest([UserMessage("hello")], tools=(tool,))
        for tool in (ADD, replace(ADD, description="adds"), replace(ADD, parameters={}))
    ),
    ChatRequest([UserMessage("hello")], tools=(ADD,), tool_choice="none"),
    *(ChatRequest([UserMessage("hello")], schema=schema) for schema in ({}, {"type": "object"})),
]


def test_different_requests_have_different_keys() -> None:
    numbers = [str(number) for number in range(len(DIFFERENT))]
    inner = ScriptedModel(numbers)
    model = cached(inner)
    assert [model.complete(request).content for request in DIFFERENT * 2] == numbers * 2
    inner.assert_complete()


def test_equal_requests_have_equal_keys() -> None:
    model = cached(ScriptedModel(["one", "two"]))
    step = AgentStep(AgentAction("add", {"a": 1}, log="l"), 1)
    turn = MessageTurn(1, [ToolMessage("1", "1")])
    lazy = Conversation((UserMessage("hello"),), Steps((step,)), lambda steps, first: iter([turn][first:]))
    listed: list[messages.Message] = [UserMessage("hello"), ToolMessage("1", "1")]
    for request in (ChatRequest(lazy), ChatRequest(listed), ChatRequest(tuple(listed))):
        assert model.complete(request).content == "one"
    for schema in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, MappingProxyType({"b": (2,), "a": 1})):
        assert model.complete(ChatRequest([], schema=schema)).content == "two"


@cases("value", object(), b"bytes", {1})
def test_request_must_be_json(value: object) -> None:
    with pytest.raises(InputError, match=r"a request to a cached model contains .*, which is not JSON; remove it"):
        cached(ScriptedModel([])).complete(ChatRequest([], schema={"default": value}))


texts = st.text(st.characters(codec=None))
replies = st.builds(
    ModelReply,
    texts,
    st.lists(st.builds(ToolCall, texts, texts, texts), max_size=3).map(tuple),
    st.builds(Usage, st.integers(0), st.integers(0)),
    st.sampled_from(["stop", "length", "tool_calls", "other"]),
    texts,
    st.floats(0, 1e6),
)


@given(replies)
@example(ModelReply("half a pair: \ud800, nothing: \0, \N{SNOWMAN}", (ToolCall("", "", ""),)))
@example(ModelReply("a reply", usage=Usage(prompt_tokens=9, completion_tokens=9), cost=9.0))
def test_stored_reply_is_unchanged_and_free(reply: ModelReply) -> None:
    free = replace(reply, usage=Usage(), cost=0.0)
    model = cached(ScriptedModel([reply]))
    assert [model.complete(HELLO), model.complete(HELLO)] == [reply, free]
    with TemporaryDirectory() as folder:
        path = Path(folder, "c")
        assert cached(ScriptedModel([reply]), SQLiteCache(path), name="a").complete(HELLO) == reply
        assert cached(ScriptedModel([]), SQLiteCache(str(path)), name="a").complete(HELLO) == free


BROKEN = [
    *("", "{", "null", "[]", "3", '"text"', '{"content": 3}', '{"usage": {}}', "[" * 100_000),
    *('{"content": "a", "tool_calls": [1]}', '{"content": "a", "finish_reason": "?"}'),
]


@dataclass
class OddStore:
    """A memory whose entries and keys are those that two functions make of them."""

    read: Callable[[str], str] = lambda entry: entry
    find: Callable[[str], str] = lambda key: key
    inner: dict[str, str] = field(default_factory=dict[str, str])

    def get(self, key: str) -> str | None:
        entry = self.inner.get(self.find(key))
        return entry and self.read(entry)

    def __setitem__(self, key: str, entry: str) -> None:
        self.inner[self.find(key)] = entry


@all_modes
@cases("broken", *BROKEN)
def test_invalid_entry_is_replaced(ask: Ask, broken: str) -> None:
    reads = iter([broken])
    model = cached(ScriptedModel(["one", "two"]), OddStore(lambda entry: next(reads, entry)), name="a")
    assert [ask(model).content for _ in range(3)] == ["one", "two", "two"]


def test_damaged_entry_and_that_of_another_request_are_misses() -> None:
    damaged = OddStore(lambda entry: entry.replace("right", "wrong"))
    model = cached(FunctionModel(lambda _: "right"), damaged, name="a")
    with record_reports() as reports:
        assert [model.complete(HELLO).content for _ in range(2)] == ["right", "right"]
    (failed,) = reports
    assert isinstance(failed, models.CacheFailed)
    assert "its checksum is wrong" in str(failed)
    model = cached(FunctionModel(lambda request: f"{request}"), OddStore(find=lambda _: "one"), name="a")
    assert model.complete(HELLO).content != model.complete(CompletionRequest("Bye")).content


@all_stores
def test_identity_and_name_distinguish_models_in_a_store(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(tmp_path)

    def answer(inner: Typewriter | ScriptedModel, name: str) -> str:
        return cached(inner, store, name=name).complete(HELLO).content

    assert answer(Typewriter(["a"], identity="tiny, temperature 0"), "") == "a"
    assert answer(Typewriter(["b"], identity="tiny, temperature 1"), "") == "b"
    assert answer(Typewriter(["c"], identity="tiny, temperature 0"), "again") == "c"
    assert answer(ScriptedModel(["d"]), "tiny, temperature 0") == "d"
    assert answer(Typewriter([], identity="tiny, temperature 0"), "") == "a"
    with pytest.raises(InputError, match=r"distinguish <ScriptedModel.*> from other models in the store; pass n"):
        cached(ScriptedModel([]), store)
    # A store of its own needs neither.
    assert [cached(ScriptedModel([reply])).complete(HELLO).content for reply in "ab"] == ["a", "b"]


def test_threads_create_and_share_the_file(tmp_path: Path) -> None:
    start = threading.Barrier(6)

    def work(name: str) -> None:
        start.wait(10)
        cache = SQLiteCache(tmp_path / "c")
        for number in range(10):
            cache[f"{name}{number}"] = name

    with record_reports() as reports, ThreadPoolExecutor(6) as threads:
        list(threads.map(work, "abcdef", timeout=30))
    assert reports == []
    cache = SQLiteCache(tmp_path / "c")
    assert all(cache.get(f"{name}{number}") == name for name in "abcdef" for number in range(10))


NO_DATABASE = b"this is no database, and long enough to be seen as none" * 100


@all_modes
def test_broken_file_is_reported_without_failing(ask: Ask, tmp_path: Path) -> None:
    model = cached(ScriptedModel(["one", "two"]), SQLiteCache(tmp_path / "c"), name="a")
    assert ask(model).content == "one"
    (tmp_path / "c").write_bytes(NO_DATABASE)
    with record_reports() as reports:
        assert ask(model).content == "two"
    # The reading and the writing.
    assert [type(report) for report in reports] == [models.CacheFailed] * 2
    assert str(reports[0]).startswith("the cache failed with DatabaseError: file is not a database; the run continues")


@cases("name", "c", "missing/c", "")
def test_invalid_file_is_rejected(tmp_path: Path, name: str) -> None:
    (tmp_path / "c").write_bytes(NO_DATABASE)
    with pytest.raises(InputError, match=r"the cache .* cannot be used: .*; pass a file in a writable folder"):
        SQLiteCache(tmp_path / name)
    with pytest.raises(InputError, match="pass a dict to cached for memory"):
        SQLiteCache(":memory:")


def test_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = SQLiteCache("c")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    cache["key"] = "entry"
    assert cache.get("key") == "entry"
    assert repr(cache) == f"SQLiteCache({str(tmp_path / 'c')!r})"


@pytest.mark.medium
def test_instant_needs_instant_model_and_store(tmp_path: Path) -> None:
    in_a_file = cached(ScriptedModel([]), SQLiteCache(tmp_path / "c"), name="a")
    made = [cached(ScriptedModel([])), cached(Typewriter([])), in_a_file]
    assert [model.instant for model in made] == [True, False, False]


TIME = FakeTime()
WRAPS: dict[str, Callable[[models.WrappedModel], models.WrappedModel]] = {
    "cached": cached,
    "retrying": lambda model: models.retrying(model, clock=TIME.clock),
    "with_fallbacks": lambda model: models.with_fallbacks(model, Typewriter(["fallen"])),
    "rate_limited": lambda model: models.rate_limited(model, per_second=100, clock=TIME.clock),
    "priced": lambda model: models.priced(model, models.Price(1_000_000, 0)),
}


@all_modes
@settings(max_examples=examples(30))
@given(order=st.permutations(sorted(WRAPS)))
def test_wrappers_nest_in_any_order(ask: Ask, order: list[str]) -> None:
    inner = Typewriter([ServerError("down"), "up"])
    # The innermost wrapper wraps the model itself; each of the others wraps a wrapped model.
    model = models.priced(inner, models.Price(0, 0))
    for name in order:
        model = WRAPS[name](model)
    with record_reports() as reports:
        first, second, third = [ask(model, timeout=5) for _ in range(3)]
    falls = order.index("with_fallbacks") < order.index("retrying")
    assert first.content == ("fallen" if falls else "up")
    # A cache inside the fallbacks has no reply of the first call.
    assert second.content == third.content
    assert (third.usage, third.cost) == (Usage(), 0)
    recovery, *others = [type(notice) for notice in reports]
    assert recovery is (models.FellBack if falls else models.Retried)
    assert set(others) == {models.Cached}
    assert all(timeout is not None and timeout <= 5 for timeout in inner.timeouts)
