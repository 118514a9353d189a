"""`limit_tool`, `cache_tools` and `ask_user`: pieces that answer calls in the place of a tool."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import Piece, Plugged, Review, approve_tools, ask_user, cache_tools, limit_tool
from tests.nodes.shelf import pause
from tests.parameters import cases


def call(*several: str) -> ModelReply:
    """Return a reply that makes calls, each a name and a value of its argument."""
    made = [one.split(maxsplit=1) for one in several]
    arguments = [{"question" if name.startswith("ask") else "word": value} for name, value in made]
    calls = zip(made, arguments, strict=True)
    return ModelReply("", tuple(ToolCall(f"c{n}", one[0], json.dumps(given)) for n, (one, given) in enumerate(calls)))


def script(text: str) -> list[ModelReply]:
    """Return the replies of `name value, name value; ...`; the calls of one reply are separated by commas."""
    return [call(*reply.split(", ")) for reply in text.split("; ")]


class Scene:
    """An executor with two tools that count their calls, without the rules of `create_agent`."""

    def __init__(self, *replies: ScriptedReply, nodes: tuple[Plugged, ...], **options: Any) -> None:
        self.called: list[str] = []

        @gx.tool(repeatable=True)
        def search(word: str, most: int = 3) -> str:
            """Search for a word."""
            self.called.append(f"search {word}")
            if word == "broken":
                raise ValueError("no network")
            return f"{len(self.called)}: {word}"

        @gx.tool(repeatable=True)
        def read(word: str) -> str:
            """Read about a word."""
            self.called.append(f"read {word}")
            return f"about {word}"

        self.model = ScriptedModel([*replies, "done"], repeat_last=True)
        options = {"kind": "tool_calling", "nodes": nodes, **options}
        self.executor: gx.AgentExecutor = gx.create_agent(self.model, [search, read], **options)

    def run(self) -> list[tuple[Any, str]]:
        return [(step.observation, step.status) for step in self.executor.run("hi").steps]


def never_asked(_: object) -> Any:
    raise AssertionError("nobody is asked")


def shout(effect: gx.AskHuman) -> str:
    return effect.question.upper()


ONE, CACHE = limit_tool("search", 1), cache_tools("search")
REFUSED = "search was not called: it may be called once in a run. Go on without it, or give your answer."


@cases(
    ("replies", "nodes", "steps", "called"),
    ("search a; search b, read x", [ONE], ["1: a ok", f"{REFUSED} rejected", "about x ok"], "search a, read x"),
    ("search a; search a, search b", [CACHE], ["1: a ok", "1: a ok", "2: b ok"], "search a, search b"),
    ("search a, search a, search a", [CACHE], ["1: a ok"] * 3, "search a"),
    ("ask_user a, ask_boss b", [ask_user(shout), ask_user(shout, name="ask_boss")], ["A ok", "B ok"], ""),
)
def test_calls_are_answered(replies: str, nodes: list[Piece], steps: list[str], called: str) -> None:
    scene = Scene(*script(replies), nodes=tuple(nodes))
    assert [f"{observation} {status}" for observation, status in scene.run()] == steps
    assert ", ".join(scene.called) == called


REJECT = approve_tools({"ask_user": ["reject"]}, reviewer=lambda _: Review("reject"))


@cases(
    ("replies", "nodes", "statuses"),
    (script("search a, search b, search c"), [limit_tool("search", 2)], "ok ok rejected"),
    ([ToolCall("1", "search", "{}"), *script("search broken; search a")], [ONE], "bad_arguments error rejected"),
    (script("search a, read b"), [ONE, limit_tool("read", 0, name="limit_read")], "ok rejected"),
    # An approval comes before the question.
    (script("ask_user Which?"), [ask_user(never_asked), REJECT], "rejected"),
)
def test_calls_are_counted_and_gated(replies: Any, nodes: list[Piece], statuses: str) -> None:
    assert " ".join(status for _, status in Scene(*replies, nodes=tuple(nodes)).run()) == statuses


@cases("calls", *range(4))
def test_limit_is_never_exceeded(calls: int) -> None:
    replies = [call(*[f"Search {word}" for word in words]) for words in ("ab", "c", "de")]
    scene = Scene(*replies, nodes=(limit_tool("search", calls),), tool_lookup="case_insensitive")
    assert [status for _, status in scene.run()].count("rejected") == 5 - calls
    assert len(scene.called) == calls


@cases("order", 1, -1)
def test_person_is_not_asked_about_refused_calls(order: int) -> None:
    asked: list[object] = []

    def review(effect: object) -> Review:
        asked.append(effect)
        return Review("approve")

    gate = approve_tools({"search": ["approve"]}, reviewer=review)
    Scene(call("search a", "search b"), nodes=(gate, ONE)[::order]).run()
    assert len(asked) == 1


@cases(
    ("refused", "text"),
    (lambda: limit_tool("search", -1), "limit_tool has calls=-1"),
    (lambda: Scene(nodes=(limit_tool("serch", 1),)), r"limit_tool names the tool serch, .* did you mean search\?"),
    (cache_tools, "cache_tools has no tools; name those"),
)
def test_wrong_options_are_refused(refused: Callable[[], object], text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        refused()


def test_only_successes_are_cached_with_their_default_arguments() -> None:
    scene = Scene(call("search a"), ToolCall("1", "search", '{"most": 3, "word": "a"}'), nodes=(CACHE,))
    assert scene.run() == [("1: a", "ok"), ("1: a", "ok")]
    reply = call("search broken", "read x")
    scene = Scene(reply, reply, nodes=(CACHE,))
    scene.run()
    assert sorted(scene.called) == ["read x"] * 2 + ["search broken"] * 2


def test_stored_run_keeps_its_results() -> None:
    nodes = CACHE, approve_tools({"read": ["approve"]})
    pending = pause(Scene(call("search a"), call("search a", "read x"), nodes=nodes).executor)
    tomorrow = Scene(nodes=nodes)
    stored = gx.Snapshot.from_json(pending.reply((Review("approve"),)).to_json(), tomorrow.executor.graph)
    assert [step.observation for step in tomorrow.executor.run(stored).steps] == ["1: a", "1: a", "about x"]
    assert tomorrow.called == ["read x"]


def test_question_is_answered() -> None:
    scene = Scene(call("ask_user Which?", "read x"), nodes=(ask_user(shout),))
    assert scene.run() == [("WHICH?", "ok"), ("about x", "ok")]
    assert "ask_user" in repr(scene.model.requests[0])
    # Without a function, the run waits for the answer.
    scene = Scene(call("ask_user Which?"), nodes=(ask_user(),))
    pending = pause(scene.executor)
    assert scene.executor.run(pending.reply(("blue",))).steps[0].observation == "blue"
    # A call without a question is reported.
    ((text, status),) = Scene(ToolCall("1", "ask_user", "{}"), nodes=(ask_user(never_asked),)).run()
    assert status == "bad_arguments"
    assert "question" in text
