"""`limit_tool`, `cache_tools` and `ask_user`: pieces that answer calls in the place of a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphexec import AgentExecutor, AskHuman, InputError, Snapshot, create_agent, snapshot_of, tool
from graphexec.errors import MissingHandlerError
from graphexec.kernel import PendingEffect, advance
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import Piece, Plugged, Review, approve_tools, ask_user, cache_tools, limit_tool
from tests.parameters import cases


def call(*several: tuple[str, str]) -> ModelReply:
    """Return a reply that makes calls, each a name and a value of its argument."""
    keys = {"ask_user": "question", "ask_boss": "question"}
    return ModelReply(
        "",
        tuple(
            ToolCall(f"c{place}", name, json.dumps({keys.get(name, "word"): value}))
            for place, (name, value) in enumerate(several)
        ),
    )


class Scene:
    """An executor with two tools that count their calls, without the rules of `create_agent`."""

    def __init__(self, *replies: ScriptedReply, nodes: tuple[Plugged, ...], **options: Any) -> None:
        self.called: list[str] = []

        @tool(repeatable=True)
        def search(word: str, most: int = 3) -> str:
            """Search for a word."""
            self.called.append(f"search {word}")
            if word == "broken":
                raise ValueError("no network")
            return f"{len(self.called)}: {word}"

        @tool(repeatable=True)
        def read(word: str) -> str:
            """Read about a word."""
            self.called.append(f"read {word}")
            return f"about {word}"

        self.model = ScriptedModel([*replies, "done"], repeat_last=True)
        self.executor: AgentExecutor = create_agent(
            self.model, [search, read], kind="tool_calling", nodes=nodes, **options
        )

    def run(self) -> list[tuple[Any, str]]:
        return [(step.observation, step.status) for step in self.executor.run("hi").steps]


def pause(scene: Scene) -> PendingEffect:
    """Run until a person has to answer, and store the run."""
    with pytest.raises(MissingHandlerError) as raised:
        scene.executor.run("hi")
    snapshot = snapshot_of(raised.value)
    assert snapshot is not None
    graph = scene.executor.graph
    pending = advance(graph, Snapshot.from_json(snapshot.to_json(), graph), scene.executor.limits)
    assert isinstance(pending, PendingEffect)
    return pending


class TestLimitTool:
    def test_further_calls_are_refused(self) -> None:
        scene = Scene(call(("search", "a")), call(("search", "b"), ("read", "x")), nodes=(limit_tool("search", 1),))
        assert scene.run() == [
            ("1: a", "ok"),
            (
                "search was not called: it may be called once in a run. Go on without it, or give your answer.",
                "rejected",
            ),
            ("about x", "ok"),
        ]

    def test_calls_of_one_reply_count(self) -> None:
        scene = Scene(call(*[("search", word) for word in "abc"]), nodes=(limit_tool("search", 2),))
        assert [status for _, status in scene.run()] == ["ok", "ok", "rejected"]

    def test_failed_calls_count_and_others_do_not(self) -> None:
        bad = ModelReply("", (ToolCall("1", "search", "{}"),))
        scene = Scene(bad, call(("search", "broken")), call(("search", "a")), nodes=(limit_tool("search", 1),))
        assert [status for _, status in scene.run()] == ["bad_arguments", "error", "rejected"]

    @cases("calls", range(4))
    def test_limit_is_never_exceeded(self, calls: int) -> None:
        replies = [call(*[("Search", word) for word in words]) for words in ("ab", "c", "de")]
        scene = Scene(*replies, nodes=(limit_tool("search", calls),), tool_lookup="case_insensitive")
        assert [status for _, status in scene.run()].count("rejected") == 5 - calls
        assert len(scene.called) == calls

    def test_two_limits_have_names(self) -> None:
        both = limit_tool("search", 1), limit_tool("read", 0, name="limit_read")
        scene = Scene(call(("search", "a"), ("read", "b")), nodes=both)
        assert [status for _, status in scene.run()] == ["ok", "rejected"]

    def test_person_is_not_asked_about_refused_calls(self) -> None:
        asked: list[object] = []

        def review(effect: object) -> Review:
            asked.append(effect)
            return Review("approve")

        gate = approve_tools({"search": ["approve"]}, reviewer=review)
        for nodes in ((gate, limit_tool("search", 1)), (limit_tool("search", 1), gate)):
            asked.clear()
            Scene(call(("search", "a"), ("search", "b")), nodes=nodes).run()
            assert len(asked) == 1

    def test_wrong_options_are_refused(self) -> None:
        with pytest.raises(InputError, match="limit_tool has calls=-1"):
            limit_tool("search", -1)
        with pytest.raises(InputError, match=r"limit_tool names the tool serch, .* did you mean search\?"):
            Scene(nodes=(limit_tool("serch", 1),))


class TestCacheTools:
    def test_same_call_is_made_once(self) -> None:
        scene = Scene(call(("search", "a")), call(("search", "a"), ("search", "b")), nodes=(cache_tools("search"),))
        assert scene.run() == [("1: a", "ok"), ("1: a", "ok"), ("2: b", "ok")]
        assert scene.called == ["search a", "search b"]

    def test_default_arguments_are_the_same(self) -> None:
        reply = ModelReply("", (ToolCall("1", "search", '{"most": 3, "word": "a"}'),))
        scene = Scene(call(("search", "a")), reply, nodes=(cache_tools("search"),))
        assert scene.run() == [("1: a", "ok"), ("1: a", "ok")]

    def test_call_twice_in_a_reply_is_made_once(self) -> None:
        scene = Scene(call(*[("search", "a")] * 3), nodes=(cache_tools("search"),))
        assert scene.run() == [("1: a", "ok")] * 3
        assert scene.called == ["search a"]

    def test_failures_and_other_tools_are_called_again(self) -> None:
        reply = call(("search", "broken"), ("read", "x"))
        scene = Scene(reply, reply, nodes=(cache_tools("search"),))
        scene.run()
        assert sorted(scene.called) == ["read x"] * 2 + ["search broken"] * 2

    def test_stored_run_keeps_its_results(self) -> None:
        nodes = cache_tools("search"), approve_tools({"read": ["approve"]})
        pending = pause(Scene(call(("search", "a")), call(("search", "a"), ("read", "x")), nodes=nodes))
        tomorrow = Scene(nodes=nodes)
        stored = Snapshot.from_json(pending.reply((Review("approve"),)).to_json(), tomorrow.executor.graph)
        assert [step.observation for step in tomorrow.executor.run(stored).steps] == ["1: a", "1: a", "about x"]
        assert tomorrow.called == ["read x"]

    def test_no_names_are_refused(self) -> None:
        with pytest.raises(InputError, match="cache_tools has no tools; name those"):
            cache_tools()


class TestAskUser:
    def test_question_is_answered(self) -> None:
        asked: list[str] = []

        def answer(effect: AskHuman) -> str:
            asked.append(effect.question)
            return "blue"

        scene = Scene(call(("ask_user", "Which?"), ("read", "x")), nodes=(ask_user(answer),))
        assert scene.run() == [("blue", "ok"), ("about x", "ok")]
        assert asked == ["Which?"]
        assert "ask_user" in repr(scene.model.requests[0])

    def test_run_waits_for_the_answer(self) -> None:
        scene = Scene(call(("ask_user", "Which?")), nodes=(ask_user(),))
        pending = pause(scene)
        assert scene.executor.run(pending.reply(("blue",))).steps[0].observation == "blue"

    def test_call_without_a_question_is_reported(self) -> None:
        reply = ModelReply("", (ToolCall("1", "ask_user", "{}"),))
        (step,) = Scene(reply, nodes=(ask_user(lambda _: pytest.fail("asked")),)).run()
        assert step[1] == "bad_arguments"
        assert "question" in step[0]

    def test_approval_comes_first(self) -> None:
        gate = approve_tools({"ask_user": ["reject"]}, reviewer=lambda _: Review("reject"))
        scene = Scene(call(("ask_user", "Which?")), nodes=(ask_user(lambda _: pytest.fail("asked")), gate))
        assert [status for _, status in scene.run()] == ["rejected"]

    def test_two_people_can_be_asked(self) -> None:
        def answer(effect: AskHuman) -> str:
            return effect.question.upper()

        both = ask_user(answer), ask_user(answer, name="ask_boss")
        scene = Scene(call(("ask_user", "a"), ("ask_boss", "b")), nodes=both)
        assert scene.run() == [("A", "ok"), ("B", "ok")]


@cases("piece", [limit_tool("search", 1), cache_tools("search"), ask_user(lambda _: "yes")])
def test_bound_is_one_transition_for_each_iteration(piece: Piece) -> None:
    scene = Scene(nodes=(), max_iterations=5)
    # The tool of `ask_user` is one that the rules against repetitions know, so they are in both machines.
    plain = (scene.executor.with_tools([*scene.executor.tools.values(), *piece.tools])).verify().bounds
    bounds = scene.executor.plug(piece).verify().bounds
    assert plain is not None
    assert bounds is not None
    assert plain.transitions.value is not None
    assert bounds.transitions.value == plain.transitions.value + 5
    assert str(bounds.model_calls) == str(plain.model_calls)
