"""Pieces that change what the model is shown, or which model decides: compact, critic, escalate and others."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, messages, nodes, testing, verify
from graphexec.draw.model.picture import look_of
from graphexec.errors import MissingAPIKeyError, ServerError
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.functions import FunctionModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import Piece, clear_results, compact, critic, select_tools, tell_time, todo_list
from graphexec.nodes.escalation import is_stuck
from graphexec.nodes.todos import find_todos
from graphexec.tools import AnyTool
from tests.executor import actors
from tests.executor.actors import HOW, Running, echo, fail
from tests.nodes.shelf import proof_of, run_in_pieces
from tests.parameters import cases, examples

NAMES = ("search", "add", "mail", "read")
ITERATIONS = 5


def find(input: str) -> str:  # noqa: A002 - the argument of a scripted tool
    return f"found {input}"


def make_tools() -> list[AnyTool]:
    return [dataclasses.replace(testing.scripted_tool(name, []), function=find) for name in NAMES]


def call(*tools: str) -> messages.ModelReply:
    calls = tuple(actors.call(name, f"c{place}", input="x" * 40) for place, name in enumerate(tools))
    return messages.ModelReply("", calls)


def write(*lists: Sequence[tuple[str, str]]) -> list[ToolCall]:
    """Return calls that write to-do lists, each of items with a status."""
    data = [[{"content": text, "status": status} for text, status in items] for items in lists]
    return [actors.call("write_todos", f"w{place}", todos=one) for place, one in enumerate(data)]


def make(pieces: Sequence[Piece], model: Any, **options: Any) -> gx.AgentExecutor:
    options = {"max_iterations": ITERATIONS, "handle_parsing_errors": True, "max_fan_out": 4, **options}
    return actors.caller_of(model, *make_tools(), nodes=pieces, **options)


def run(
    pieces: Sequence[Piece], replies: Sequence[ScriptedReply], inputs: Any = "q", **options: Any
) -> tuple[Any, list[messages.ModelRequest]]:
    """Return the result of a run, and the requests of its model."""
    model = ScriptedModel(replies, repeat_last=True)
    return make(pieces, model, **options).run(inputs), model.requests


def text_of(request: messages.ModelRequest) -> str:
    return "\n".join(message.content for message in actors.messages(request))


def offered(request: messages.ModelRequest) -> list[str]:
    assert isinstance(request, messages.ChatRequest)
    return [tool.name for tool in request.tools]


def is_paired(request: messages.ModelRequest) -> bool:
    """Return whether every tool message has its call before it, and every call its result."""
    pending: set[str] = set()
    for message in actors.messages(request):
        if isinstance(message, messages.AssistantMessage):
            assert not pending
            pending = {one.id for one in message.tool_calls}
        elif isinstance(message, messages.ToolMessage):
            pending.remove(message.call_id)
    return not pending


@cases(
    ("piece", "options", "text"),
    (compact, {"max_tokens": 0}, "max_tokens"),
    (compact, {"max_tokens": -5}, "max_tokens"),
    (compact, {"max_tokens": 0.5}, "max_tokens"),
    (compact, {"keep": 0}, "keep"),
    (compact, {"keep": -1}, "keep"),
    (compact, {"count": 4}, "count"),
    (compact, {"name": ""}, "name"),
    (critic, {"prompt": "Good?"}, "answer"),
    (compact, {"prompt": "Shorten it."}, "steps"),
    (compact, {"model": "gpt"}, "model"),
    (select_tools, {"prompt": "Choose."}, "tools"),
    (todo_list, {"description": 3}, "description"),
    (select_tools, {"always": ["maill"]}, "select_tools names the tool maill"),
    *((clear_results, {name: -1}, name) for name in ("max_tokens", "keep", "at_least")),
    *((clear_results, {name: 3}, name) for name in ("exclude", "placeholder", "inputs", "count", "name")),
    (clear_results, {"exclude": ["maill"]}, "clear_results names the tool maill"),
)
def test_options_are_validated(piece: Callable[..., Piece], options: dict[str, Any], text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        make([piece(**options)], ScriptedModel([]))


COMPACTED = (call("add", "mail"), call("search"), "Added and mailed.", call("read"), "Searched, too.", "done")


def count_as(tokens: int) -> Callable[[str], int]:
    """Return a count by which the system prompt has so many tokens, and all else none."""
    return lambda text: tokens if "You are a helpful assistant" in text else 0


class TestCompact:
    def test_summary_stands_for_older_steps(self) -> None:
        result, requests = run([compact(200, 1)], COMPACTED)
        texts = [text_of(request) for request in requests]
        assert "found" in texts[1]
        assert "Summarize them" in texts[2]
        assert "Added and mailed." in texts[3]
        assert "mail(" not in texts[3]
        # A later summary takes in the earlier one.
        assert "Added and mailed.\nsearch(" in texts[4]
        assert "Searched, too." in texts[5]
        assert [step.action.tool for step in result.steps] == ["add", "mail", "search", "read"]
        assert result.output == "done"

    @settings(max_examples=examples(25), deadline=None)
    @given(
        st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=10), max_size=4),
        st.integers(1, 6),
        st.integers(1, 400),
    )
    def test_calls_and_results_stay_together(self, turns: list[list[str]], keep: int, most: int) -> None:
        def reply(request: messages.ModelRequest) -> messages.ModelReply:
            assert is_paired(request)
            if "Summarize" in text_of(request):
                return messages.ModelReply("so far")
            # The last reply has all of its results.
            assert not (made := turns[: len(turns) - len(left)]) or text_of(request).count("found") >= len(made[-1])
            return call(*left.pop(0)) if left else messages.ModelReply("done")

        left = [*turns]
        result = make([compact(most, keep)], FunctionModel(reply), max_iterations=15, max_fan_out=10).run("q")
        assert len(result.steps) == sum(map(len, turns))
        assert result.output == "done"

    def test_another_model_summarizes(self) -> None:
        other = ScriptedModel(["Added and mailed."])
        piece = compact(200, 1, model=other, prompt="Shorten {steps} of {task}.")
        _, requests = run([piece], [call("add", "mail"), call("search"), "done"])
        assert text_of(other.requests[0]).startswith("Shorten add(")
        assert text_of(other.requests[0]).endswith(" of q.")
        assert "Added and mailed." in text_of(requests[-1])

    @cases("summary", "", "<think>hm</think>", "long " * 200, gx.ModelError("down"))
    def test_failed_summary_changes_nothing(self, summary: ScriptedReply) -> None:
        result, requests = run([compact(200, 1)], [call("add", "mail"), call("search"), summary, "done"])
        assert result.output == "done"
        assert text_of(requests[3]).count("found") == 3

    @cases(
        ("piece", "replies", "inputs", "asked"),
        (compact(), [call("add"), call("mail"), "done"], "q", 3),
        (compact(1, 1), [call("add"), "done"], "q " * 400, 2),
        (compact(1, 3), [call("add"), call("mail"), call("read"), "done"], "q", 4),
        (compact(1, 4), [call("add"), call("mail"), call("read"), "done"], "q", 4),
        (compact(1, 100), [call("add"), call("mail"), call("read"), "done"], "q", 4),
        (compact(100, 1, count=count_as(99)), [call("add"), call("mail"), "so far", "done"], "q", 3),
        (compact(100, 1, count=count_as(100)), [call("add"), call("mail"), "so far", "done"], "q", 3),
        (compact(100, 1, count=count_as(101)), [call("add"), call("mail"), "so far", "done"], "q", 4),
    )
    def test_only_more_than_the_limit_is_summarized(self, piece: Piece, replies: Any, inputs: str, asked: int) -> None:
        assert len(run([piece], replies, inputs)[1]) == asked

    def test_last_call_is_for_the_decision(self) -> None:
        result, requests = run([compact(200, 1)], [call("add"), call("add"), "summary", "done"], max_model_calls=2)
        assert isinstance(result.ending, gx.StoppedResponse)
        assert len(requests) == 2

    def test_tools_and_system_prompt_count(self) -> None:
        counted: list[str] = []

        def count(text: str) -> int:
            counted.append(text)
            return 0

        run([compact(1, 1, count=count)], [call("add"), call("mail"), "done"])
        assert any("You are a helpful assistant" in text for text in counted)
        assert any('"name": "search"' in text for text in counted)

    @cases("summary", "Added and mailed.", gx.ModelError("down"))
    def test_asynchronous_run_is_summarized_alike(self, summary: ScriptedReply) -> None:
        replies: list[ScriptedReply] = [call("add", "mail"), call("search"), summary, "done"]
        model = ScriptedModel(replies)
        result = asyncio.run(make([compact(200, 1)], model).arun("q"))
        other, requests = run([compact(200, 1)], replies)
        assert (result.steps, model.requests) == (other.steps, requests)

    def test_task_and_history_stay(self) -> None:
        history = [messages.UserMessage("I am Ann."), messages.AssistantMessage("Hello, Ann.")]
        _, requests = run([compact(1, 1)], COMPACTED, {"input": "Who am I?", "chat_history": history})
        for request in requests:
            if "Summarize" not in text_of(request):
                assert actors.messages(request)[1:4] == [*history, messages.UserMessage("Who am I?")]


def results_of(request: messages.ModelRequest) -> list[str]:
    return [one.content for one in actors.messages(request) if isinstance(one, messages.ToolMessage)]


FOUND, GONE = f"found {'x' * 40}", "[cleared]"


class TestClearResults:
    @cases(
        ("options", "shown"),
        ({"keep": 1}, [GONE, GONE, FOUND]),
        ({"keep": 0}, [GONE, GONE, GONE]),
        ({"keep": 3}, [FOUND, FOUND, FOUND]),
        ({"keep": 1, "exclude": ["add"]}, [FOUND, GONE, FOUND]),
        ({"keep": 0, "placeholder": "-"}, ["-", "-", "-"]),
        # A cleared result frees 37 characters, 9 tokens.
        ({"keep": 0, "at_least": 9}, [GONE, FOUND, FOUND]),
        ({"keep": 0, "at_least": 10}, [GONE, GONE, FOUND]),
        ({"max_tokens": 10_000}, [FOUND, FOUND, FOUND]),
        ({"max_tokens": 100, "keep": 0, "count": count_as(101)}, [GONE, GONE, GONE]),
        ({"max_tokens": 100, "keep": 0, "count": count_as(100)}, [FOUND, FOUND, FOUND]),
    )
    def test_old_results_are_cleared(self, options: dict[str, Any], shown: list[str]) -> None:
        given: dict[str, Any] = {"max_tokens": 1, **options}
        result, requests = run([clear_results(**given)], [call("add", "mail", "read"), "done"])
        assert results_of(requests[-1]) == shown
        assert [step.observation for step in result.steps] == [FOUND] * 3

    def test_inputs_are_cleared_too(self) -> None:
        result, requests = run([clear_results(1, 1, inputs=True)], [call("add"), call("mail"), "done"])
        sent = [one for message in actors.messages(requests[-1]) for one in getattr(message, "tool_calls", ())]
        assert [one.arguments for one in sent] == ["{}", '{"input": "' + "x" * 40 + '"}']
        assert [step.action.tool_input for step in result.steps] == [{"input": "x" * 40}] * 2

    @settings(max_examples=examples(25), deadline=None)
    @given(
        st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=6),
        st.integers(0, 4),
        st.integers(1, 400),
        st.integers(0, 60),
    )
    def test_last_results_stay(self, turns: list[list[str]], keep: int, most: int, at_least: int) -> None:
        replies = [*(call(*turn) for turn in turns), "done"]
        pieces = [clear_results(most, keep, at_least=at_least), compact(10_000)]
        result, requests = run(pieces, replies, max_iterations=15)
        assert [step.observation for step in result.steps] == [FOUND] * sum(map(len, turns))
        before: list[str] = []
        for request in requests:
            assert is_paired(request)
            shown = results_of(request)
            assert GONE not in shown[max(0, len(shown) - keep) :]
            # What is cleared stays so.
            assert all(now == GONE for earlier, now in zip(before, shown, strict=False) if earlier == GONE)
            before = shown

    def test_text_agent_and_repeated_call(self) -> None:
        """The record is whole, so a repeated call is answered with the whole result."""
        model, tools = (
            ScriptedModel([*['Action: add\nAction Input: {"input": "y"}'] * 2, "Final Answer: done"]),
            make_tools(),
        )
        agent = gx.create_react_agent(model, tools)
        pieces = [clear_results(1, 0), nodes.cache_tools("add")]
        gx.AgentExecutor(agent=agent, tools=tools, nodes=pieces).run("q")
        assert "Observation: [cleared]" in text_of(model.requests[1])
        assert [text_of(request).count("found y") for request in model.requests] == [0, 0, 0]
        result, requests = run([nodes.cache_tools("add"), clear_results(1, 1)], [call("add"), call("add"), "done"])
        assert results_of(requests[-1]) == [GONE, FOUND]
        assert result.spent.meters["tool_calls"] == 1

    def test_stored_run_keeps_what_is_cleared(self) -> None:
        model = ScriptedModel([call("add"), call("mail"), "done"])

        def make_again(observers: Any) -> gx.AgentExecutor:
            return make([clear_results(1, 1)], model, observers=observers)

        result, _ = run_in_pieces(make_again, "q")
        assert (result.output, results_of(model.requests[-1])) == ("done", [GONE, FOUND])


class TestSelectTools:
    @cases(
        ("pieces", "replies", "tools"),
        (
            [select_tools(2, always=["read"])],
            ["- mail\n- `add`.\nfly", call("mail"), "done"],
            [[], ["add", "mail", "read"], ["add", "mail", "read"]],
        ),
        ([select_tools(1)], ["mail, add, search", "done"], [[], ["mail"]]),
        *(
            ([select_tools(1)], [reply, "done"], [[], [*NAMES]])
            for reply in ("", "fly, swim", "mailing", '{"tools": 3}', gx.ModelError("down"), call("add"))
        ),
        ([select_tools(1), todo_list()], ["mail", "done"], [[], ["mail", "write_todos"]]),
        ([select_tools(4)], ["done"], [[*NAMES]]),
    )
    def test_chosen_tools_are_offered(self, pieces: Any, replies: Any, tools: list[list[str]]) -> None:
        result, requests = run(pieces, replies)
        assert [offered(request) for request in requests] == tools
        assert "write_todos" not in text_of(requests[0])
        assert result.output == "done"

    def test_another_model_chooses(self) -> None:
        chooser = ScriptedModel(["add"])
        _, requests = run([select_tools(1, model=chooser, prompt="At most {most} for {task}: {tools}")], ["done"])
        assert text_of(chooser.requests[0]).startswith("At most 1 for q: - search")
        assert (len(chooser.requests), offered(requests[0])) == (1, ["add"])

    def test_agent_in_plain_text_describes_the_chosen(self) -> None:
        model, tools = ScriptedModel(["mail", "Thought: ok\nFinal Answer: done"]), make_tools()
        agent = gx.create_react_agent(model, tools)
        gx.AgentExecutor(agent=agent, tools=tools, nodes=[select_tools(1)]).run("q")
        assert "The names of the tools are: mail\n" in text_of(model.requests[1])
        with pytest.raises(gx.InputError, match="offers all of its tools in each request; give it remake"):
            gx.AgentExecutor(agent=dataclasses.replace(agent, remake=None), tools=tools, nodes=[select_tools(1)])


class TestTodoList:
    def test_list_is_written_and_answer_ends_the_run(self) -> None:
        result, _ = run([todo_list()], [write([("buy", "completed"), ("cook", "completed")]), "done"])
        assert [step.observation for step in result.steps] == ["[x] buy\n[x] cook"]
        assert result.output == "done"
        # The call of a wrong list has a result if a person gave it one.
        respond = nodes.approve_tools({"write_todos": ["respond"]}, reviewer=lambda _: nodes.Review("respond", "noted"))
        assert run([todo_list(), respond], [write([("a", "someday")]), "done"])[0].output == "done"

    def test_open_items_are_reminded_of_once(self) -> None:
        result, requests = run([todo_list()], [write([("buy", "pending")]), "done", "really"])
        assert result.output == "really"
        assert "Your to-do list has open items:\n- buy" in text_of(requests[-1])
        assert len(requests) == 3

    @cases(
        ("lists", "statuses", "kept"),
        (([("a", "completed")], [("b", "pending")]), ["ok", "error"], [{"content": "a", "status": "completed"}]),
        (([("a", "someday")],), ["bad_arguments"], []),
    )
    def test_first_valid_list_is_kept(self, lists: Any, statuses: list[str], kept: Any) -> None:
        result, _ = run([todo_list()], [write(*lists), "done"])
        assert [step.status for step in result.steps] == statuses
        assert find_todos(result.ending.run) == kept


def test_time_is_in_each_request() -> None:
    times = iter(["Monday", "Tuesday"])
    _, requests = run([tell_time(lambda: next(times))], [call("add"), "done"])
    assert ["began at this time: Monday." in text_of(one) for one in requests] == [True, True]
    assert "day, 20" in text_of(run([tell_time()], ["done"])[1][0]), "the default is the local time"


class TestCritic:
    @cases("review", "OK", "ok.", "**OK**", "Okay!", "", gx.ModelError("down"))
    def test_accepted_answer_is_given_out(self, review: ScriptedReply) -> None:
        result, requests = run([critic()], ["done", review, "no"])
        assert (result.output, len(requests)) == ("done", 2)

    def test_criticism_goes_back_to_the_model(self) -> None:
        result, requests = run([critic()], ["done", "It is short.", "all is done", "OK"], "What?")
        assert result.output == "all is done"
        assert "Its answer: done" in text_of(requests[1])
        assert "Your answer was reviewed: It is short." in text_of(requests[2])
        assert [step.status for step in result.steps] == ["rejected"]

    @cases("rounds", 0, 1, 3)
    def test_rounds_are_bounded(self, rounds: int) -> None:
        result, requests = run([critic(rounds)], ["No."], max_iterations=9)
        assert isinstance(result.ending, gx.AgentFinish)
        assert len(requests) == 1 + 2 * rounds

    def test_another_model_reviews(self) -> None:
        reviewer = ScriptedModel(["Bad.", "OK"])
        result, requests = run([critic(model=reviewer, prompt="Right? {answer} {input}")], ["a", "b"])
        assert (result.output, len(requests)) == ("b", 2)
        assert [text_of(one) for one in reviewer.requests] == ["Right? a q", "Right? b q"]
        with pytest.raises(gx.InputError, match=r"has \{user\}, but there is only \{input\}, \{task\}, "):
            run([critic(prompt="{answer} {user}")], ["a"])

    def test_result_of_a_direct_tool_is_not_reviewed(self) -> None:
        tools = [dataclasses.replace(one, return_direct=True) for one in make_tools()]
        executor = actors.caller_of(ScriptedModel([call("add")]), *tools, nodes=[critic()])
        assert executor.run("q").output.startswith("found")


# ---- escalate: a stronger model makes the next decision when the agent is stuck


# Arguments that are not JSON.
UNREADABLE = ToolCall("c1", "echo", "{")


AT_ONCE: dict[str, Callable[[actions.Run], bool]] = {"when": lambda run: not run.steps}
FAILURES = [actors.call("fail", text=str(number)) for number in range(9)]


def make_executor(weak: ScriptedModel, strong: ScriptedModel, **options: Any) -> gx.AgentExecutor:
    piece = nodes.escalate(strong, **{name: options.pop(name) for name in ("times", "when") if name in options})
    return actors.caller_of(weak, echo, fail, nodes=[piece], handle_parsing_errors=True, **options)


@HOW
def test_stronger_model_decides_after_two_failures(run: Running) -> None:
    weak = ScriptedModel([actors.call("fail", text="a"), actors.call("fail", text="b"), "done"])
    strong = ScriptedModel([actors.call("echo", text="c")])
    result = run(make_executor(weak, strong))
    assert [step.observation for step in result.steps][2:] == ["c"]
    assert (result.output, len(weak.requests), len(strong.requests)) == ("done", 3, 1)
    # It sees what the agent's own model would have seen.
    assert actors.messages(strong.requests[0])[:-2] == actors.messages(weak.requests[1])
    assert (result.spent["model_calls"], result.spent["escalations"]) == (4, 1)


@HOW
@cases(
    ("weak", "strong", "options", "ending", "asked"),
    ([UNREADABLE], ["better"], {}, ("finished", "better"), (1, 1)),
    # The agent goes on when the escalations are used up.
    (FAILURES, FAILURES, {"max_iterations": 5}, ("iterations", "Agent stopped"), (5, 2)),
    # A failure of the stronger model changes nothing.
    ([UNREADABLE, "done"], [ServerError("down")], {"times": 1}, ("finished", "done"), (2, 1)),
    ([UNREADABLE], ["better"], {"max_model_calls": 1}, ("model_calls", "Agent stopped"), (1, 0)),
    (["weak"], ["strong"], AT_ONCE, ("finished", "strong"), (0, 1)),
)
def test_stronger_model_is_asked_within_the_limits(
    run: Running, weak: Any, strong: Any, options: Any, ending: tuple[str, str], asked: tuple[int, int]
) -> None:
    models = ScriptedModel(weak, repeat_last=True), ScriptedModel(strong, repeat_last=True)
    result = run(make_executor(*models, **options))
    assert (result.reason, result.output[: len(ending[1])]) == ending
    assert tuple(len(model.requests) for model in models) == asked
    assert result.spent["model_calls"] == sum(asked)


def test_key_of_the_stronger_model_is_checked_first() -> None:
    class Locked(ScriptedModel):
        def check_access(self) -> None:
            raise MissingAPIKeyError("no key")

    weak = ScriptedModel(["done"])
    with pytest.raises(MissingAPIKeyError):
        make_executor(weak, Locked([])).run("q")
    assert weak.requests == []


@HOW
def test_function_agent_goes_on_as_usual(run: Running) -> None:
    def agent(steps: Any, inputs: dict[str, Any]) -> Any:
        return gx.AgentFinish({"output": "done"}) if len(steps) == 2 else gx.AgentAction("fail", {"text": "a"})

    strong = ScriptedModel([])
    executor = gx.AgentExecutor(agent=agent, tools=[fail], nodes=[nodes.escalate(strong)])
    assert run(executor).output == "done"


@cases(
    ("statuses", "stuck"),
    *(([], False), (["parse_error"], True), (["error"], False), (["error", "unknown_tool"], True)),
    *((["parse_error", "bad_arguments"], True), (["error", "ok"], False), (["ok", "error"], False)),
    (["ok", "timed_out", "error"], True),
)
def test_two_failures_are_a_reason(statuses: list[actions.StepStatus], stuck: bool) -> None:
    steps = [gx.AgentStep(gx.AgentAction("echo", {}), "", status) for status in statuses]
    assert is_stuck(actions.Run({}).with_steps(steps)) is stuck


def test_both_nodes_are_drawn_as_the_piece() -> None:
    graph = make_executor(ScriptedModel([]), ScriptedModel([])).graph
    assert look_of(graph["ask_stronger"]) == "model"
    assert graph["judge_progress"].group == graph["ask_stronger"].group == "escalate"


@cases(("options", "text"), ({"times": 0}, "escalate has times="), ({"when": 3}, "escalate has when="))
def test_invalid_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        nodes.escalate(ScriptedModel([]), **options)
    (kind,) = nodes.escalate(ScriptedModel([])).handlers
    assert issubclass(kind, nodes.AskStronger)
    with pytest.raises(gx.InputError):
        nodes.escalate(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_calls_are_counted_within_the_bound(data: st.DataObject) -> None:
    reply: st.SearchStrategy[Any] = st.sampled_from(
        [actors.call("fail", text="a"), actors.call("echo", text="b"), UNREADABLE, "done"]
    )
    weak = ScriptedModel(data.draw(st.lists(reply, min_size=1, max_size=6), label="weak"), repeat_last=True)
    replies = data.draw(st.lists(reply | st.just(ServerError("down")), min_size=1, max_size=4), label="strong")
    strong = ScriptedModel(replies, repeat_last=True)
    iterations, times = data.draw(st.integers(1, 5), label="iterations"), data.draw(st.integers(1, 3), label="times")
    limit = data.draw(st.none() | st.integers(1, 9), label="limit")
    executor = make_executor(weak, strong, times=times, max_iterations=iterations, max_model_calls=limit)
    result = executor.run("q")
    certificate = proof_of(executor)
    verify.check(certificate, executor.graph)
    bounds = certificate.bounds
    assert result.spent["model_calls"] == len(weak.requests) + len(strong.requests)
    assert result.spent["model_calls"] <= min(bounds.model_calls.number or 0, iterations + times)
    # A limit that may cut a visit off can make the proved bound higher by that visit's call.
    assert limit is not None or bounds.model_calls.number == iterations + times
