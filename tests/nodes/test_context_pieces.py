"""Pieces that change what the model is shown: compact, select_tools, todo_list, tell_time and critic."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import (
    AgentExecutor,
    AgentFinish,
    StoppedResponse,
    create_react_agent,
    create_tool_calling_agent,
    messages,
)
from graphexec.actions import run_of
from graphexec.errors import InputError, ModelError
from graphexec.models import ScriptedModel
from graphexec.models.functions import FunctionModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import Piece, Review, approve_tools, compact, critic, select_tools, tell_time, todo_list
from graphexec.nodes.todos import find_todos
from graphexec.testing import scripted_tool
from graphexec.tools import AnyTool
from tests.nodes.shelf import run_in_pieces
from tests.parameters import cases

NAMES = ("search", "add", "mail", "read")
ITERATIONS = 5


def find(input: str) -> str:  # noqa: A002 - the argument of a scripted tool
    return f"found {input}"


def make_tools() -> list[AnyTool]:
    return [dataclasses.replace(scripted_tool(name, []), function=find) for name in NAMES]


def call(*tools: str) -> messages.ModelReply:
    calls = [messages.ToolCall(f"c{place}", name, json.dumps({"input": "x" * 40})) for place, name in enumerate(tools)]
    return messages.ModelReply("", tuple(calls))


def write(*lists: Sequence[tuple[str, str]]) -> messages.ModelReply:
    """Return a reply that writes to-do lists, each of items with a status."""
    data = [{"todos": [{"content": text, "status": status} for text, status in items]} for items in lists]
    calls = [messages.ToolCall(f"w{place}", "write_todos", json.dumps(one)) for place, one in enumerate(data)]
    return messages.ModelReply("", tuple(calls))


def make(
    pieces: Sequence[Piece], replies: Sequence[ScriptedReply], **options: Any
) -> tuple[AgentExecutor, ScriptedModel]:
    model = ScriptedModel(replies, repeat_last=True)
    tools = make_tools()
    options.setdefault("max_iterations", ITERATIONS)
    executor = AgentExecutor(
        agent=create_tool_calling_agent(model, tools),
        tools=tools,
        nodes=pieces,
        handle_parsing_errors=True,
        max_fan_out=4,
        **options,
    )
    return executor, model


def text_of(request: messages.ModelRequest) -> str:
    assert isinstance(request, messages.ChatRequest)
    return "\n".join(message.content for message in request.messages)


def offered(request: messages.ModelRequest) -> list[str]:
    assert isinstance(request, messages.ChatRequest)
    return [tool.name for tool in request.tools]


def is_paired(request: messages.ModelRequest) -> bool:
    """Return whether every tool message has its call before it, and every call its result."""
    assert isinstance(request, messages.ChatRequest)
    pending: set[str] = set()
    for message in request.messages:
        if isinstance(message, messages.AssistantMessage):
            assert not pending
            pending = {one.id for one in message.tool_calls}
        elif isinstance(message, messages.ToolMessage):
            pending.remove(message.call_id)
    return not pending


PIECES: dict[str, tuple[Callable[[], Piece], list[ScriptedReply]]] = {
    "compact": (lambda: compact(1, 1), [call("add"), "a", call("add", "mail"), "b", "c", "done"]),
    "select_tools": (lambda: select_tools(1), ["mail", call("mail"), "done"]),
    "todo_list": (todo_list, [write([("buy", "pending")]), "done", write([("buy", "completed")]), "done"]),
    "tell_time": (lambda: tell_time(lambda: "noon"), [call("add"), "done"]),
    "critic": (critic, [call("add"), "done", "Too short.", "done again", "OK"]),
}


@pytest.mark.parametrize("name", PIECES)
class TestEachPiece:
    def test_termination_is_proved(self, name: str) -> None:
        piece, replies = PIECES[name]
        assert make([piece()], replies)[0].verify().proved

    def test_run_paused_at_each_effect_ends_alike(self, name: str) -> None:
        piece, replies = PIECES[name]
        plain = make([piece()], replies)[0].run("q")
        model = ScriptedModel(replies, repeat_last=True)
        tools = make_tools()

        def build(observers: Sequence[Any]) -> AgentExecutor:
            return AgentExecutor(
                agent=create_tool_calling_agent(model, tools),
                tools=tools,
                nodes=[piece()],
                handle_parsing_errors=True,
                max_iterations=ITERATIONS,
                max_fan_out=4,
                observers=observers,
            )

        result, pauses = run_in_pieces(build, "q")
        assert pauses > 1
        assert (result.output, len(result.steps)) == (plain.output, len(plain.steps))
        assert run_of(result.ending) == run_of(plain.ending) or name == "tell_time"

    def test_unplug_restores(self, name: str) -> None:
        executor, _ = make([], ["done"])
        restored = executor.plug(PIECES[name][0]()).unplug(name)
        assert restored.graph.edges == executor.graph.edges
        assert [*restored.graph.nodes] == [*executor.graph.nodes]


# Transitions and model calls, by the iterations.
BOUNDS: dict[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    "compact": (lambda i: 6 * i + 4, lambda i: 2 * i + 1),
    "select_tools": (lambda i: 4 * i + 3, lambda i: i + 1),
    "todo_list": (lambda i: 7 * i + 2, lambda i: i),
    "tell_time": (lambda i: 4 * i + 3, lambda i: i),
    "critic": (lambda i: 7 * i + 4, lambda i: i + 2),
}


@cases("name", PIECES)
@cases("iterations", [1, 3, 8])
def test_bound_is_the_documented_one(name: str, iterations: int) -> None:
    executor, _ = make([PIECES[name][0]()], ["done"], max_iterations=iterations)
    verdict = executor.verify()
    transitions, calls = BOUNDS[name]
    assert verdict.bounds is not None
    assert (verdict.bounds.transitions.number or 0) <= transitions(iterations)
    assert (verdict.bounds.model_calls.number or 0) <= calls(iterations)


class TestCompact:
    REPLIES = (call("add", "mail"), call("search"), "Added and mailed.", call("read"), "Searched, too.", "done")

    def make(self, replies: Sequence[ScriptedReply] = REPLIES, **options: Any) -> tuple[AgentExecutor, ScriptedModel]:
        return make([compact(200, 1)], replies, **options)

    def test_summary_stands_for_older_steps(self) -> None:
        executor, model = self.make()
        result = executor.run("q")
        assert "found" in text_of(model.requests[1])
        assert "Summarize them" in text_of(model.requests[2])
        assert "Added and mailed." in text_of(model.requests[3])
        assert "mail(" not in text_of(model.requests[3])
        assert result.output == "done"

    def test_record_stays_whole(self) -> None:
        result = self.make()[0].run("q")
        assert [step.action.tool for step in result.steps] == ["add", "mail", "search", "read"]

    def test_later_summary_takes_in_the_earlier_one(self) -> None:
        executor, model = self.make()
        executor.run("q")
        assert "Added and mailed.\nsearch(" in text_of(model.requests[4])
        assert "Searched, too." in text_of(model.requests[5])

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=4),
        st.integers(1, 4),
        st.integers(1, 400),
    )
    def test_calls_and_results_stay_together(self, turns: list[list[str]], keep: int, most: int) -> None:
        def reply(request: messages.ModelRequest) -> messages.ModelReply:
            assert is_paired(request)
            if "Summarize" in text_of(request):
                return messages.ModelReply("so far")
            return call(*left.pop(0)) if left else messages.ModelReply("done")

        left = [*turns]
        tools = make_tools()
        agent = create_tool_calling_agent(ScriptedModel(["-"]), tools)
        agent = dataclasses.replace(agent, model=FunctionModel(reply))
        result = AgentExecutor(agent=agent, tools=tools, nodes=[compact(most, keep)]).run("q")
        assert len(result.steps) == sum(map(len, turns))
        assert result.output == "done"

    @cases("summary", ["", "<think>hm</think>", "long " * 200, ModelError("down")])
    def test_failed_summary_changes_nothing(self, summary: ScriptedReply) -> None:
        replies: list[ScriptedReply] = [call("add", "mail"), call("search"), summary, "done"]
        executor, model = self.make(replies)
        assert executor.run("q").output == "done"
        assert text_of(model.requests[3]).count("found") == 3

    def test_last_call_is_for_the_decision(self) -> None:
        executor, model = self.make([call("add"), call("add"), "summary", "done"], max_model_calls=2)
        result = executor.run("q")
        assert isinstance(result.ending, StoppedResponse)
        assert len(model.requests) == 2

    def test_tools_and_system_prompt_count(self) -> None:
        counted: list[str] = []

        def count(text: str) -> int:
            counted.append(text)
            return 0

        executor, _ = make([compact(1, 1, count=count)], [call("add"), call("mail"), "done"])
        executor.run("q")
        assert any("You are a helpful assistant" in text for text in counted)
        assert any('"name": "search"' in text for text in counted)

    def test_short_run_is_not_summarized(self) -> None:
        executor, model = make([compact()], [call("add"), call("mail"), "done"])
        executor.run("q")
        assert len(model.requests) == 3

    def test_long_prompt_without_older_steps_is_not_summarized(self) -> None:
        executor, model = make([compact(1, 1)], [call("add"), "done"])
        executor.run("q " * 400)
        assert len(model.requests) == 2

    @cases("keep", [3, 4, 100])
    def test_as_many_steps_as_are_kept_are_not_summarized(self, keep: int) -> None:
        executor, model = make([compact(1, keep)], [call("add"), call("mail"), call("read"), "done"])
        executor.run("q")
        assert len(model.requests) == 4

    @cases(("tokens", "asked"), [(99, 3), (100, 3), (101, 4)])
    def test_more_than_the_limit_is_too_long(self, tokens: int, asked: int) -> None:
        texts: list[str] = []

        def count(text: str) -> int:
            texts.append(text)
            return tokens if "You are a helpful assistant" in text else 0

        executor, model = make([compact(100, 1, count=count)], [call("add"), call("mail"), "so far", "done"])
        executor.run("q")
        assert texts
        assert len(model.requests) == asked

    def test_many_calls_of_one_reply_stay_together(self) -> None:
        calls = tuple(messages.ToolCall(f"c{place}", "add", f'{{"input": "{place}"}}') for place in range(10))
        model = ScriptedModel([call("mail"), messages.ModelReply("", calls), "Mailed.", "done"])
        tools = make_tools()
        executor = AgentExecutor(agent=create_tool_calling_agent(model, tools), tools=tools, nodes=[compact(1, 5)])
        executor.run("q")
        last = model.requests[-1]
        assert isinstance(last, messages.ChatRequest)
        assert is_paired(last)
        assert "Mailed." in text_of(last)
        assert [message.content for message in last.messages if isinstance(message, messages.ToolMessage)] == [
            f"found {place}" for place in range(10)
        ]

    @cases("summary", ["Added and mailed.", ModelError("down")])
    def test_asynchronous_run_is_summarized_alike(self, summary: ScriptedReply) -> None:
        replies: list[ScriptedReply] = [call("add", "mail"), call("search"), summary, "done"]
        (one, model), (other, same) = self.make(replies), self.make(replies)
        result = asyncio.run(one.arun("q"))
        assert result.steps == other.run("q").steps
        assert model.requests == same.requests

    def test_task_and_history_stay(self) -> None:
        history = [messages.UserMessage("I am Ann."), messages.AssistantMessage("Hello, Ann.")]
        model = ScriptedModel(self.REPLIES)
        tools = make_tools()
        agent = create_tool_calling_agent(model, tools)
        executor = AgentExecutor(agent=agent, tools=tools, nodes=[compact(1, 1)], max_fan_out=4)
        executor.run({"input": "Who am I?", "chat_history": history})
        for request in model.requests:
            if "Summarize" not in text_of(request):
                assert isinstance(request, messages.ChatRequest)
                assert [*request.messages[1:3]] == history
                assert request.messages[3] == messages.UserMessage("Who am I?")

    @cases(
        ("options", "text"),
        [
            ({"max_tokens": 0}, "max_tokens"),
            ({"max_tokens": -5}, "max_tokens"),
            ({"max_tokens": 0.5}, "max_tokens"),
            ({"keep": 0}, "keep"),
            ({"keep": -1}, "keep"),
            ({"count": 4}, "count"),
            ({"name": ""}, "name"),
        ],
    )
    def test_options_are_validated(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(InputError, match=text):
            compact(**options)


class TestSelectTools:
    def test_chosen_tools_are_offered(self) -> None:
        executor, model = make([select_tools(2, always=["read"])], ["- mail\n- `add`.\nfly", call("mail"), "done"])
        executor.run("q")
        assert [offered(one) for one in model.requests] == [[], ["add", "mail", "read"], ["add", "mail", "read"]]

    def test_at_most_so_many_are_chosen(self) -> None:
        executor, model = make([select_tools(1)], ["mail, add, search", "done"])
        executor.run("q")
        assert offered(model.requests[1]) == ["mail"]

    @cases("reply", ["", "fly, swim", "mailing", '{"tools": 3}', ModelError("down"), call("add")])
    def test_unusable_choice_offers_all(self, reply: ScriptedReply) -> None:
        replies: list[ScriptedReply] = [reply, "done"]
        executor, model = make([select_tools(1)], replies)
        assert executor.run("q").output == "done"
        assert offered(model.requests[1]) == [*NAMES]

    def test_tools_of_pieces_are_always_offered(self) -> None:
        executor, model = make([select_tools(1), todo_list()], ["mail", "done"])
        executor.run("q")
        assert offered(model.requests[1]) == ["mail", "write_todos"]
        assert "write_todos" not in text_of(model.requests[0])

    def test_few_tools_need_no_choice(self) -> None:
        executor, model = make([select_tools(4)], ["done"])
        executor.run("q")
        assert len(model.requests) == 1

    def test_another_model_chooses(self) -> None:
        chooser = ScriptedModel(["add"])
        executor, model = make([select_tools(1, model=chooser)], ["done"])
        executor.run("q")
        assert (len(chooser.requests), offered(model.requests[0])) == (1, ["add"])

    def test_unknown_tool_in_always_is_refused(self) -> None:
        with pytest.raises(InputError, match="select_tools names the tool maill"):
            make([select_tools(always=["maill"])], ["done"])

    def test_agent_in_plain_text_describes_the_chosen(self) -> None:
        model, tools = ScriptedModel(["mail", "Thought: ok\nFinal Answer: done"]), make_tools()
        AgentExecutor(agent=create_react_agent(model, tools), tools=tools, nodes=[select_tools(1)]).run("q")
        assert "The names of the tools are: mail\n" in text_of(model.requests[1])

    def test_agent_that_cannot_offer_fewer_is_refused(self) -> None:
        tools = make_tools()
        agent = dataclasses.replace(create_react_agent(ScriptedModel(["-"]), tools), remake=None)
        with pytest.raises(InputError, match="offers all of its tools in each request; give it narrow"):
            AgentExecutor(agent=agent, tools=tools, nodes=[select_tools(1)])


class TestTodoList:
    def test_list_that_a_person_answered_is_skipped(self) -> None:
        """The call of a wrong list has a result, as a person gave it one."""
        respond = approve_tools({"write_todos": ["respond"]}, reviewer=lambda _: Review("respond", "noted"))
        executor, _ = make([todo_list(), respond], [write([("a", "someday")]), "done"])
        assert executor.run("go").output == "done"

    def test_list_is_written_and_answer_ends_the_run(self) -> None:
        executor, _ = make([todo_list()], [write([("buy", "completed"), ("cook", "completed")]), "done"])
        result = executor.run("q")
        assert result.steps[0].observation == "[x] buy\n[x] cook"
        assert result.output == "done"
        assert len(result.steps) == 1

    def test_open_items_are_reminded_of_once(self) -> None:
        executor, model = make([todo_list()], [write([("buy", "pending")]), "done", "really"])
        result = executor.run("q")
        assert result.output == "really"
        assert "Your to-do list has open items:\n- buy" in text_of(model.requests[-1])
        assert len(model.requests) == 3

    def test_parallel_lists_are_one_list(self) -> None:
        replies: list[ScriptedReply] = [write([("a", "completed")], [("b", "pending")]), "done"]
        executor, _ = make([todo_list()], replies)
        result = executor.run("q")
        assert [step.status for step in result.steps] == ["ok", "error"]
        assert run_of(result.ending) is not None
        assert find_todos(result.ending.run) == [{"content": "a", "status": "completed"}]

    def test_invalid_list_is_not_kept(self) -> None:
        executor, _ = make([todo_list()], [write([("a", "someday")]), "done"])
        result = executor.run("q")
        assert result.steps[0].status == "bad_arguments"
        assert find_todos(result.ending.run) == []


class TestTellTime:
    def test_time_is_in_each_request(self) -> None:
        times = iter(["Monday", "Tuesday"])
        executor, model = make([tell_time(lambda: next(times))], [call("add"), "done"])
        executor.run("q")
        assert ["began at this time: Monday." in text_of(one) for one in model.requests] == [True, True]

    def test_default_is_the_local_time(self) -> None:
        executor, model = make([tell_time()], ["done"])
        executor.run("q")
        assert "day, 20" in text_of(model.requests[0])


class TestCritic:
    @cases("review", ["OK", "ok.", "**OK**", "Okay!", "", ModelError("down")])
    def test_accepted_answer_is_given_out(self, review: ScriptedReply) -> None:
        replies: list[ScriptedReply] = ["done", review, "no"]
        executor, model = make([critic()], replies)
        assert executor.run("q").output == "done"
        assert len(model.requests) == 2

    def test_criticism_goes_back_to_the_model(self) -> None:
        executor, model = make([critic()], ["done", "It is short.", "all is done", "OK"])
        result = executor.run("What?")
        assert result.output == "all is done"
        assert "Its answer: done" in text_of(model.requests[1])
        assert "Your answer was reviewed: It is short." in text_of(model.requests[2])
        assert [step.status for step in result.steps] == ["rejected"]

    @cases("rounds", [0, 1, 3])
    def test_rounds_are_bounded(self, rounds: int) -> None:
        executor, model = make([critic(rounds)], ["No."], max_iterations=9)
        assert isinstance(executor.run("q").ending, AgentFinish)
        assert len(model.requests) == 1 + 2 * rounds

    def test_another_model_reviews(self) -> None:
        reviewer = ScriptedModel(["Bad.", "OK"])
        executor, model = make([critic(model=reviewer, prompt="Right? {answer} {input}")], ["a", "b"])
        assert executor.run("q").output == "b"
        assert [text_of(one) for one in reviewer.requests] == ["Right? a q", "Right? b q"]
        assert len(model.requests) == 2

    def test_result_of_a_direct_tool_is_not_reviewed(self) -> None:
        tools = [dataclasses.replace(one, return_direct=True) for one in make_tools()]
        model = ScriptedModel([call("add")])
        executor = AgentExecutor(agent=create_tool_calling_agent(model, tools), tools=tools, nodes=[critic()])
        assert executor.run("q").output.startswith("found")

    def test_prompt_needs_the_answer(self) -> None:
        with pytest.raises(InputError, match="answer"):
            critic(prompt="Good?")
