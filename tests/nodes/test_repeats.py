"""`stop_repeats`: an agent that repeats itself is warned, and then stopped."""

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import errors, messages, models, nodes, verify
from graphexec.executor import Ready
from graphexec.messages.observations import Excerpt
from graphexec.nodes.tool_calls import REPEATS, ROUND, WARNING, count_repeats
from tests.drivers import limit_of
from tests.executor.actors import act, answer, echo, prompt, run_executor, scripted
from tests.nodes.shelf import proof_of
from tests.parameters import cases, examples

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
    plain = gx.AgentExecutor(
        agent=gx.create_react_agent(models.ScriptedModel([DONE]), [echo]),
        tools=[echo],
        max_iterations=4,
        handle_parsing_errors=parsing,
        early_stopping_method=stopping,
    )
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
