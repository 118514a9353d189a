"""Pieces about calls: `limit_tool`, `cache_tools`, `ask_user` and others answer them, `stop_repeats` warns."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import errors, messages, models, nodes, verify
from graphexec.errors import CallLimitError, ServerError
from graphexec.executor import Ready
from graphexec.memory import MemoryHistory
from graphexec.messages import AssistantMessage, ModelReply, ToolCall, ToolMessage
from graphexec.messages.observations import Excerpt
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import (
    Piece,
    Plugged,
    Review,
    approve_tools,
    ask_user,
    cache_tools,
    emulate_tools,
    limit_conversation,
    limit_tool,
)
from graphexec.nodes.tool_calls import REPEATS, ROUND, WARNING, count_repeats
from tests.drivers import limit_of
from tests.executor.actors import act, answer, echo, make_react, prompt, run_executor, scripted
from tests.executor.actors import messages as messages_of
from tests.nodes.shelf import calls, pause, proof_of
from tests.parameters import cases, examples


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


def edit_with(tool: str, **options: Any) -> list[Piece]:
    """Return a limit with these options before the edits of calls of `read` into those of a tool."""
    review = Review("edit", arguments={"word": "a"}, tool=tool)
    limit = limit_conversation(MemoryHistory(), **options)
    return [limit, approve_tools({"read": ["edit"]}, reviewer=lambda _: review)]


@cases(
    ("replies", "nodes", "statuses"),
    (script("search a, search b, search c"), [limit_tool("search", 2)], "ok ok rejected"),
    ([ToolCall("1", "search", "{}"), *script("search broken; search a")], [ONE], "bad_arguments error rejected"),
    ([calls(("search", "{}"), ("search", '{"word": "a"}'))], [ONE], "bad_arguments ok"),
    (script("search a, read b"), [ONE, limit_tool("read", 0, name="limit_read")], "ok rejected"),
    # A person's edit is no way round a limit, also if the call could not be made before.
    (script("read a"), edit_with("search", tool_calls={"search": 0}), "rejected"),
    (script("read a"), edit_with("search", tool_calls=1), "ok"),
    ([calls(("read", "{}"))], edit_with("search", tool_calls=1), "rejected"),
    ([calls(("read", "{}"))], edit_with("read", tool_calls={"read": 1}), "rejected"),
    ([calls(("read", "{}"))], edit_with("search", tool_calls={"read": 0}), "ok"),
    ([calls(("read", "{}"))], edit_with("search", model_calls=9), "ok"),
    # An approval comes before the question.
    (script("ask_user Which?"), [ask_user(never_asked), REJECT], "rejected"),
)
def test_calls_are_counted_and_gated(replies: Any, nodes: list[Piece], statuses: str) -> None:
    assert " ".join(status for _, status in Scene(*replies, nodes=tuple(nodes)).run()) == statuses


STOPPED = "read was not called: the run was stopped by another call."


@cases(
    ("tool", "on_limit", "ends", "called"),
    ("search", "continue", "finished ok rejected ok", "search a, read x"),
    ("search", "end", "search_calls ok rejected rejected", "search a"),
    ("search", "error", "search_calls 1", "search a"),
    (None, "continue", "finished ok rejected rejected", "search a"),
    (None, "end", "tool_calls ok rejected rejected", "search a"),
    (None, "error", "tool_calls 1", "search a"),
)
def test_limit_does_what_it_says(tool: str | None, on_limit: Any, ends: str, called: str) -> None:
    scene = Scene(*script("search a; search b, read x"), nodes=(limit_tool(tool, 1, on_limit=on_limit),))
    assert scene.executor.verify().proved
    if on_limit == "error":
        with pytest.raises(CallLimitError) as caught:
            scene.executor.run("hi")
        assert f"{caught.value.limit} {caught.value.value}" == ends
    else:
        result = scene.executor.run("hi")
        assert " ".join([result.reason, *(step.status for step in result.steps)]) == ends
        assert (result.steps[-1].observation == STOPPED) is (tool == "search" and on_limit == "end")
    assert ", ".join(scene.called) == called


def test_last_word_is_asked_with_every_call_answered() -> None:
    nodes = (limit_tool("search", 1, on_limit="end"),)
    scene = Scene(*script("search a; search b, read x"), nodes=nodes, early_stopping_method="generate")
    assert scene.executor.run("hi").output == "done"
    sent = messages_of(scene.model.requests[-1])
    made = [one.id for message in sent if isinstance(message, AssistantMessage) for one in message.tool_calls]
    answered = [message.call_id for message in sent if isinstance(message, ToolMessage)]
    assert sorted(made) == sorted(answered) == ["c0", "c0", "c1"]


def emulator(**options: Any) -> tuple[ScriptedModel, Piece]:
    model = ScriptedModel(["one", "two", ServerError("503")], repeat_last=True)
    return model, emulate_tools(model, **options)


@cases(
    ("options", "replies", "steps", "called"),
    ({}, "search a, read x; read y", "one ok, two ok, read failed: 503 error", ""),
    ({"names": ["search"]}, "search a, read x", "one ok, about x ok", "read x"),
    ({"names": []}, "search a", "1: a ok", "search a"),
    ({"most": 1}, "search a, search b", "one ok, search was not called: at most 1 rejected", ""),
    ({}, "nope a, search a", "nope is not a valid tool unknown_tool, one ok", ""),
)
def test_model_writes_results_of_tools(options: dict[str, Any], replies: str, steps: str, called: str) -> None:
    model, piece = emulator(**options)
    scene = Scene(*script(replies), nodes=(piece,))
    for (observation, status), wanted in zip(scene.run(), steps.split(", "), strict=True):
        text, _, expected = wanted.rpartition(" ")
        assert observation.startswith(text)
        assert status == expected
    assert ", ".join(scene.called) == called
    if model.requests:
        asked = messages_of(model.requests[0])[0].content
        assert all(part in asked for part in ("search", "Search for a word.", '{"word":"a"}'))


def test_emulated_calls_are_counted_and_approved() -> None:
    model, piece = emulator()
    gate = approve_tools({"search": ["reject"]}, reviewer=lambda _: Review("reject"))
    scene = Scene(*script("search a, read x"), nodes=(piece, gate), max_iterations=3)
    result = scene.executor.run("hi")
    assert ([step.status for step in result.steps], len(model.requests)) == (["rejected", "ok"], 1)
    assert result.spent["model_calls"] == 3
    assert str(proof_of(scene.executor).bounds.model_calls) == "9*iterations = 27 (exact)"
    stopped = Scene(*script("search a"), nodes=(emulator()[1],), max_model_calls=1).executor.run("hi")
    assert stopped.reason == "model_calls"


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
    (lambda: limit_tool("search", 1, on_limit="stop"), "on_limit='stop'; give 'continue', 'end' or 'error'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: emulate_tools("local", prompt="{tool} of {user}"), r"has \{user\}, but there is only \{tool\}, "),
    (lambda: emulate_tools("local", names="search"), "names is 'search'; give a list of names"),
    (lambda: Scene(nodes=(emulate_tools(ScriptedModel([]), names=["serch"]),)), "names the tool serch"),
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


ACT = "Thought: hm\nAction: echo\nAction Input: hi"
DONE = "Thought: I know\nFinal Answer: done"


def make_steps(letters: str) -> list[gx.AgentStep]:
    """Return a step for each letter; equal letters are equal steps."""
    return [gx.AgentStep(gx.AgentAction("look", {"at": letter}), letter.upper()) for letter in letters]


def count_naively(steps: Sequence[object], most: int) -> int:
    """Return how many copies of one round are at the end of the list, counted naively."""
    times = 0
    for size in range(1, ROUND + 1):
        for count in range(1, most + 1):
            if size * count <= len(steps) and list(steps[-size * count :]) == list(steps[-size:]) * count:
                times = max(times, count)
    return times


# ---- counting


@settings(max_examples=examples(400, 100), deadline=None)
@example(letters="", most=3)
@example(letters="aaaa", most=3)
@example(letters="cabab", most=3)
@example(letters="abcdabcd", most=3)
# A round has four turns at most.
@example(letters="abcdeabcde", most=3)
@given(letters=st.text("ab", max_size=20) | st.text("abcd", max_size=30), most=st.integers(2, 5))
def test_count_agrees_with_the_naive_count(letters: str, most: int) -> None:
    assert count_repeats(make_steps(letters), most) == count_naively(letters, most)


@cases(
    ("other", "times"),
    (gx.AgentStep(act("look", at="a"), "A", excerpt=Excerpt(note=", a warning")), 2),
    (gx.AgentStep(gx.AgentAction("look", {"at": "a"}, log="again", call_id="c2"), "A"), 2),
    (gx.AgentStep(act("see", at="a"), "A"), 1),
    (gx.AgentStep(act("look", at="b"), "A"), 1),
    (gx.AgentStep(act("look", at="a"), "B"), 1),
)
def test_only_tool_input_and_result_are_compared(other: gx.AgentStep, times: int) -> None:
    one = gx.AgentStep(gx.AgentAction("look", {"at": "a"}, log="first", call_id="c1"), "A")
    assert count_repeats([one, other], 3) == times


def make_batch_steps(*letters: str, reply: str) -> list[gx.AgentStep]:
    """Return the steps of one reply with several native tool calls."""
    calls = tuple(messages.ToolCall(f"{reply}{number}", "look", "{}") for number, _ in enumerate(letters))
    message = messages.AssistantMessage("", calls)
    return [
        gx.AgentStep(gx.AgentAction("look", {"at": letter}, call_id=call.id, message=message), letter.upper())
        for letter, call in zip(letters, calls, strict=True)
    ]


def test_replies_repeat_but_not_calls_of_one() -> None:
    thrice, pair = make_batch_steps("a", "a", "a", reply="r"), make_batch_steps("a", "b", reply="s")
    assert count_repeats(thrice, 3) == 1
    assert count_repeats([*thrice, *thrice], 3) == 2
    assert count_repeats([*make_steps("a"), *thrice], 3) == 1
    assert count_repeats([*pair, *pair, *pair], 5) == 3
    assert count_repeats([*pair, *make_batch_steps("a", "c", reply="s")], 5) == 1
    # An agent may use only some calls of a reply; a model may repeat a reply with the same call ids.
    assert count_repeats(thrice[:2], 3) == 1
    first = make_batch_steps("a", "a", reply="r")[:1]
    assert count_repeats(first * 3, 5) == 3


class Vague:
    """An observation that is equal to everything."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return self.text


def test_results_are_compared_as_text() -> None:
    action = gx.AgentAction("look", "a")
    assert count_repeats([gx.AgentStep(action, Vague("x")), gx.AgentStep(action, Vague("y"))], 3) == 1
    assert count_repeats([gx.AgentStep(action, Vague("x")), gx.AgentStep(action, Vague("x"))], 3) == 2


class Watched(list[gx.AgentStep]):
    """A history that counts how many of its steps are read."""

    seen = 0

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = super().__getitem__(index)
        self.seen += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[gx.AgentStep]:
        raise AssertionError("the whole history is looked at")


def test_cost_is_independent_of_the_runs_length() -> None:
    short, long = (Watched(make_steps("a" * length)) for length in (100, 10_000))
    assert count_repeats(short, 3) == count_repeats(long, 3) == 3
    assert short.seen == long.seen <= ROUND * 3 * ROUND


# ---- in the machine


def make_guarded_executor(agent: Any, tools: Sequence[Any] = (echo,), **settings: Any) -> gx.AgentExecutor:
    """Return an executor with `stop_repeats`."""
    given = {name: settings.pop(name) for name in ("warn_after", "stop_after") if name in settings}
    return gx.AgentExecutor(agent=agent, tools=list(tools), nodes=[nodes.stop_repeats(**given)], **settings)


def test_repeating_run_is_stopped() -> None:
    result = run_executor(lambda: make_guarded_executor(scripted(act("echo", text="a")), max_iterations=20))
    ending = result.outcome
    assert isinstance(ending, gx.StoppedResponse)
    assert limit_of(ending) == gx.Exhausted(REPEATS, 3, 3)
    assert ending.output == "Agent stopped due to repeat limit."
    assert ending.reason == "Stopped after 3 steps: the limit of 3 repeats was reached (3 spent)."
    assert result.spent.iterations == 3


def test_warned_model_may_change_its_mind() -> None:
    model = models.ScriptedModel([ACT, ACT, DONE])
    result = make_guarded_executor(gx.create_react_agent(model, [echo])).run("q")
    assert isinstance(result.ending, gx.AgentFinish)
    asked = [prompt(request) for request in model.requests]
    warning = WARNING.format(times=2)
    assert [warning in one for one in asked] == [False, False, True]
    assert f"Observation: hi\n{warning}" in asked[2]
    # The observations themselves are unchanged.
    assert [step.observation for step in result.steps] == ["hi", "hi"]
    assert [step.excerpt.note for step in result.steps] == ["", f"\n{warning}"]


@cases(("warn_after", "stop_after", "warned"), (2, 2, 0), (2, 3, 1), (2, 5, 3), (4, 5, 1), (3, 3, 0))
def test_warning_and_stop_follow_the_options(warn_after: int, stop_after: int, warned: int) -> None:
    options: dict[str, Any] = {"max_iterations": 20, "warn_after": warn_after, "stop_after": stop_after}
    result = make_guarded_executor(scripted(act("echo", text="a")), **options).run("q")
    assert limit_of(result.ending) == gx.Exhausted(REPEATS, stop_after, stop_after)
    assert len(result.steps) == stop_after
    assert [bool(step.excerpt.note) for step in result.steps].count(True) == warned


@gx.tool
def dice(text: str) -> str:
    """Return another number each time."""
    rolled.append(text)
    return str(len(rolled))


rolled: list[str] = []


@cases(
    ("agent", "tool", "limit", "steps"),
    (scripted(*[act("echo", text=letter) for letter in "ab" * 5]), echo, REPEATS, 6),
    # Different results are no repetition.
    (scripted(act("dice", text="a")), dice, "iterations", 20),
    # Unreadable replies may repeat.
    (gx.create_react_agent(models.ScriptedModel(["garbage"], repeat_last=True), [echo]), echo, REPEATS, 3),
)
def test_limit_of_a_repeating_run(agent: Any, tool: Any, limit: str, steps: int) -> None:
    result = make_guarded_executor(agent, [tool], max_iterations=20, handle_parsing_errors=True).run("q")
    assert (limit_of(result.ending).limit, len(result.steps)) == (limit, steps)


def test_run_without_repetition_is_not_stopped() -> None:
    turns = [act("echo", text=str(number)) for number in range(12)]
    result = make_guarded_executor(scripted(*turns, answer())).run("q")
    assert isinstance(result.ending, gx.AgentFinish)
    assert not any(step.excerpt.note for step in result.steps)


def test_repeating_run_may_generate_a_last_answer() -> None:
    model = models.ScriptedModel([ACT, ACT, ACT, DONE])
    result = make_guarded_executor(gx.create_react_agent(model, [echo]), early_stopping_method="generate").run("q")
    assert isinstance(result.ending, gx.StoppedResponse)
    assert (result.ending.output, result.ending.generated, limit_of(result.ending).limit) == ("done", True, REPEATS)
    # Unreadable replies are warned of, too.
    model = models.ScriptedModel(["garbage"], repeat_last=True)
    make_guarded_executor(gx.create_react_agent(model, [echo]), handle_parsing_errors=True).run("q")
    assert WARNING.format(times=2) in prompt(model.requests[-1])


# ---- the graph


@cases("parsing", True, False)
@cases("stopping", "force", "generate")
def test_node_is_on_every_edge_to_plan(parsing: bool, stopping: Any) -> None:
    plain = make_react(DONE, max_iterations=4, handle_parsing_errors=parsing, early_stopping_method=stopping)
    graph = plain.plug(nodes.stop_repeats()).graph
    assert {edge.source for edge in graph.edges if edge.target == "plan"} == {"stop_repeats"}
    back = {edge.source for edge in plain.graph.edges if edge.target == "plan"}
    assert {edge.source for edge in graph.edges if edge.target == "stop_repeats"} == back
    certificate, before = proof_of(plain.plug(nodes.stop_repeats())), proof_of(plain)
    verify.check(certificate, graph)
    plain_bound = before.bounds.transitions.number
    assert plain_bound is not None
    assert certificate.bounds.transitions.number == plain_bound + 5
    assert certificate.bounds.model_calls == before.bounds.model_calls


WHOLE = "; give a whole number, 2 or more"


@cases(
    ("options", "says"),
    ({"warn_after": 1, "stop_after": 3}, "warn_after="),
    ({"warn_after": 0, "stop_after": 3}, "warn_after="),
    ({"warn_after": 3, "stop_after": 2}, "warn_after=3 and stop_after=2; make stop_after at least warn_after"),
    ({"warn_after": -1, "stop_after": -1}, "(warn|stop)_after="),
    ({"warn_after": 2, "stop_after": 1}, "(warn|stop)_after="),
    *(({option: one}, f"{option}=.*{WHOLE}") for option in ("warn_after", "stop_after") for one in ("2", 2.5)),
    *(({option: one}, f"{option}=.*{WHOLE}") for option in ("warn_after", "stop_after") for one in (True, None)),
)
def test_invalid_numbers_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.InputError, match=f"stop_repeats has {says}"):
        nodes.stop_repeats(**options)


def test_two_pieces_have_names() -> None:
    executor = make_guarded_executor(scripted(act("echo", text="a")))
    assert "stop_repeats" in f"{executor.graph:mermaid}"
    assert "stop_repeats" not in f"{executor.unplug('stop_repeats').graph:mermaid}"
    both = executor.plug(nodes.stop_repeats(warn_after=2, stop_after=2, name="strict"))
    assert both.seats()[Ready] == ("stop_repeats", "strict")
    assert len(both.run("q").steps) == 2
