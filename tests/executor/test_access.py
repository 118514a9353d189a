"""A missing API key is found before anything of a run is charged, and before a tool runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphexec import AgentExecutor, create_react_agent, models, tool
from graphexec.errors import AuthenticationError, MissingAPIKeyError, ModelError
from graphexec.memory import BufferMemory, Turn
from graphexec.messages import Model
from tests.executor.actors import WAYS, call, caller_of, echo, run_by, snapshot_after
from tests.parameters import cases

KEYLESS = models.OpenAICompatible("gpt-9", base_url="https://models.example/v1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def make_executor(model: Model, **options: Any) -> AgentExecutor:
    return caller_of(model, echo, **options)


@cases("way", WAYS)
def test_missing_key_is_found_before_the_first_step(way: str) -> None:
    events: list[object] = []
    with pytest.raises(MissingAPIKeyError, match=r"gpt-9 at https://models.example/v1 needs an API key; set OPENAI_"):
        run_by(way, make_executor(KEYLESS, observers=[events.append]))
    assert events == []


DONE = models.ScriptedModel(["done"], repeat_last=True)
ANTHROPIC = models.Anthropic("claude-9")


@cases(
    "model",
    [
        models.OpenAIResponses("gpt-9"),
        ANTHROPIC,
        # Wrappers pass the check on, and raise an error that is no reason to fall back.
        models.retrying(KEYLESS),
        models.priced(KEYLESS, models.Price(1, 1)),
        models.rate_limited(KEYLESS, at_once=1),
        models.with_fallbacks(KEYLESS, ANTHROPIC),
        models.retrying(models.with_fallbacks(KEYLESS, KEYLESS)),
        models.with_fallbacks(KEYLESS, DONE, on=(AuthenticationError,)),
    ],
)
def test_every_remote_model_checks_its_key(model: Model) -> None:
    with pytest.raises(MissingAPIKeyError):
        make_executor(model).check_access()
    with pytest.raises(MissingAPIKeyError):
        make_executor(model).run("q")


@cases("model", [models.with_fallbacks(KEYLESS, DONE), models.with_fallbacks(DONE, KEYLESS)])
def test_one_model_of_the_fallbacks_is_enough(model: Model) -> None:
    assert make_executor(model).run("q").output == "done"


def test_cached_replies_need_no_key(tmp_path: Any) -> None:
    store = models.SQLiteCache(tmp_path / "cache")
    assert make_executor(models.cached(DONE, store, name="a")).run("q").output == "done"
    offline = models.cached(KEYLESS, store, name="a")
    offline.check_access()
    with pytest.raises(MissingAPIKeyError):
        make_executor(offline).run("q")


def test_nested_executors_are_checked_once_before_the_outer_run() -> None:
    outer, checks = models.ScriptedModel([call("ask", input="q"), call("ask", input="r"), "done"]), list[str]()

    def delegate_to(inner: AgentExecutor) -> AgentExecutor:
        return caller_of(outer, inner.as_tool("ask", "Ask the other agent."))

    with pytest.raises(MissingAPIKeyError):
        delegate_to(make_executor(KEYLESS)).run("q")
    assert outer.requests == []

    class Counted(models.ScriptedModel):
        def check_access(self) -> None:
            checks.append("inner")

    inner = make_executor(Counted(["one", "two"]))
    assert [step.observation for step in delegate_to(inner).run("q").steps] == ["one", "two"]
    assert checks == ["inner"]
    inner.check_access()
    assert checks == ["inner", "inner"]


def test_resumed_run_is_checked_before_its_tools() -> None:
    called: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note it."""
        called.append(text)
        raise KeyError(text)

    first = models.ScriptedModel([call("note", text="a")])
    state = snapshot_after(KeyError, lambda: caller_of(first, note, handle_tool_errors="raise").run("q"))
    with pytest.raises(MissingAPIKeyError):
        caller_of(KEYLESS, note).run(state)
    assert called == ["a"]


def test_saving_a_memory_needs_no_key() -> None:
    def refuse(turn: Turn) -> None:
        raise OSError("the disk is full")

    history: Any = SimpleNamespace(turns=tuple, add=refuse, clear=refuse)
    memory = BufferMemory(history, as_messages=True)
    state = snapshot_after(OSError, lambda: make_executor(DONE, memory=memory).run("q"), "the disk is full")
    history.add = lambda turn: None
    assert make_executor(KEYLESS, memory=memory).run(state).output == "done"


def test_own_model_may_have_its_own_check_or_none() -> None:
    scripted = models.ScriptedModel(["Final Answer: done"])
    model: Any = SimpleNamespace(complete=scripted.complete, acomplete=scripted.acomplete)
    assert AgentExecutor(agent=create_react_agent(model, []), tools=[]).run("q").output == "done"

    class Closed(models.ScriptedModel):
        def check_access(self) -> None:
            raise ModelError("the model is closed on Sundays; come back tomorrow")

    with pytest.raises(ModelError, match="closed on Sundays"):
        make_executor(models.retrying(Closed(["done"]))).run("q")
