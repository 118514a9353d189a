"""Forks: another reply at a step of a recorded run, from which the run goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.actions import Steps
from graphexec.draw import Fork, Recorder, Recording, compare_runs, fork, recording_of
from graphexec.effects import ToolResult, agent_limits
from graphexec.kernel import Answered, Done
from graphexec.messages import Image, ModelReply, Reasoning, ToolCall, Usage
from graphexec.models import Price, ScriptedModel, priced
from graphexec.nodes import approve_tools, guard_input, guard_output, map_agents, sub_agent
from graphexec.nodes.approvals import Review, ReviewCall
from graphexec.testing.clock import on_loop_time
from graphexec.testing.scripts import AgentScript
from graphexec.testing.strategies import agent_scripts
from tests.draw.debugged import answering, calling
from tests.draw.forked import (
    AskColour,
    AskThing,
    Colour,
    Thing,
    choose_colour,
    choose_thing,
    comparable,
    read_back,
    record_fork,
    requests_of,
    scripted,
    steps_of,
)
from tests.draw.recorded import recording_in, records_of_version_1
from tests.parameters import cases

CALLED: list[str] = []


@gx.tool
def look_up(word: str) -> str:
    """Look up a word."""
    CALLED.append(word)
    if word == "bad":
        raise ValueError("no such word")
    return f"{word} is a word"


@pytest.fixture(autouse=True)
def _no_calls() -> None:  # pyright: ignore[reportUnusedFunction]
    CALLED.clear()


def looking(*words: str) -> ModelReply:
    return calling(*(("look_up", {"word": word}) for word in words))


def make(*replies: Any, **options: Any) -> gx.AgentExecutor:
    return scripted(replies, [look_up], **options)


def test_another_reply_leads_to_another_run() -> None:
    first = make(looking("a"), answering("It is a."))
    recording = read_back(first.run("Which?"))
    CALLED.clear()
    second = make(answering("It is b, after all."))
    forked = fork(recording, second, at=1, reply=looking("b"), trace="trace.jsonl")
    assert (requests_of(second), CALLED) == (0, [])
    result = forked.run()
    assert (result.output, CALLED) == ("It is b, after all.", ["b"])
    assert requests_of(second) == requests_of(first) - 1
    assert (result.spent.iterations, result.usage) == (2, Usage(700, 44))
    whole = recording_of(result)
    replies = [record["replies"][0] for record in whole.records if record["event"] == "answered"]
    assert replies[0]["tool_calls"][0]["arguments"] == '{"word": "b"}'
    assert forked.parent == {"trace": "trace.jsonl", "run": recording.records[1]["run"], "step": 1}
    assert "b is a word" in compare_runs(recording, whole)


def test_trace_of_a_fork_names_its_parent() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    records = record_fork(fork(recording, make(answering("b")), at=3, observation="b", trace="a.jsonl")).records
    assert records[0]["parent"] == {"trace": "a.jsonl", "run": recording.records[1]["run"], "step": 3}
    assert records[0]["input"] == {"input": "Which?"}
    assert records[1]["run"] != recording.records[1]["run"]
    assert records[-1]["output"] == "b"
    assert Recording.from_json_lines(Recording(records).to_json_lines()).records == records


def test_new_text_keeps_the_usage_of_the_old_one() -> None:
    first = make(looking("a"), answering("a"))
    result = fork(first.run("Which?"), make(), at=1, reply="I know: b.").run()
    assert (str(result), result.usage, CALLED) == ("I know: b.", Usage(300, 24), ["a"])


def test_observation_is_a_result_of_the_tool() -> None:
    executor = make(looking("bad"), answering("a"))
    recording = read_back(executor.run("Which?"))
    forked = fork(recording, make(answering("b")), at=3, observation="bad is fine")
    assert [(step.observation, step.status, step.error) for step in forked.run().steps] == [("bad is fine", "ok", None)]


def test_other_calls_of_a_step_keep_their_replies() -> None:
    recording = read_back(make(looking("a", "b", "c"), answering("abc")).run("Which?"))
    CALLED.clear()
    result = fork(recording, make(answering("axc")), at=3, call=1, observation="x").run()
    assert ([step.observation for step in result.steps], CALLED) == (["a is a word", "x", "c is a word"], [])


def test_without_another_reply_the_run_goes_on_as_it_was() -> None:
    first = make(looking("a"), looking("b"), answering("ab"))
    recording = read_back(first.run("Which?"))
    for at, left in (
        (1, [looking("b"), answering("ab")]),
        (3, [looking("b"), answering("ab")]),
        (5, [answering("ab")]),
    ):
        second = make(*left)
        again = recording_of(fork(recording, second, at=at).run())
        assert comparable(again.records) == comparable(recording_of(recording).records)
        assert requests_of(second) == len(left)


def test_failed_run_goes_on_where_it_failed() -> None:
    with pytest.raises(RuntimeError) as failed:
        make(looking("a"), RuntimeError("broken")).run("Which?")
    last = len(steps_of(read_back(failed.value)))
    assert fork(read_back(failed.value), make(answering("a")), at=last).run().output == "a"
    assert fork(failed.value, make(), at=last, reply="known").run().output == "known"
    assert CALLED == ["a"]


def test_calls_without_a_reply_are_made_and_charged_once() -> None:
    executor = make(looking("a", "bad", "c"), answering("ac"), handle_tool_errors="raise", tool_concurrency=1)
    with pytest.raises(ValueError, match="no such word") as failed:
        executor.run("Which?")
    for run in (failed.value, read_back(failed.value)):
        CALLED.clear()
        second = make(answering("ac"))
        forked = fork(run, second, at=3)
        result = forked.run()
        assert sorted(CALLED) == ["bad", "c"]
        assert [step.status for step in result.steps] == ["ok", "error", "ok"]
        assert (result.spent.meters["tool_calls"], result.spent.meters["model_calls"]) == (3, 2)
        whole = recording_of(result)
        assert [one["event"] for one in whole.records].count("asked") == 5
        assert whole.result is not None
        assert whole.result["spent"]["tool_calls"] == 3


def test_reply_may_answer_a_call_that_failed() -> None:
    executor = make(looking("a", "bad"), handle_tool_errors="raise", tool_concurrency=1)
    with pytest.raises(ValueError, match="no such word") as failed:
        executor.run("Which?")
    CALLED.clear()
    result = fork(read_back(failed.value), make(answering("ab")), at=3, call=1, observation="b").run()
    assert ([step.observation for step in result.steps], CALLED) == (["a is a word", "b"], [])


def test_fork_of_a_fork_is_a_run_of_its_own() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    once = record_fork(fork(recording, make(answering("b")), at=3, observation="b"))
    twice = fork(read_back(once), make(answering("c")), at=3, observation="c", trace="fork.jsonl")
    assert twice.run().output == "c"
    assert twice.parent["run"] == once.records[1]["run"]


@cases(
    ("reply", "output"),
    [
        ("A!", "A!"),
        (gx.AgentFinish({"output": "A!"}), "A!"),
        (gx.AgentAction("look_up", {"word": "b"}), "b is a word"),
        ([gx.AgentAction("look_up", {"word": "b"})], "b is a word"),
        ({"content": "", "tool_calls": [{"name": "look_up", "arguments": {"word": "b"}}]}, "b is a word"),
    ],
)
def test_decision_of_a_function_may_be_replaced(reply: object, output: str) -> None:
    executor = gx.AgentExecutor(agent=decide_once, tools=[look_up])
    recording = read_back(executor.run("Which?"))
    assert fork(recording, executor, at=1).run().output == "a is a word"
    assert fork(recording, executor, at=1, reply=reply).run().output == output
    with pytest.raises(gx.InputError, match=r"^step 1 \(plan\): 5 is not a decision of the agent .*; pass an answer"):
        fork(recording, executor, at=1, reply=5)


def decide_once(steps: Steps, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
    return gx.AgentFinish({"output": steps[-1].observation}) if steps else gx.AgentAction("look_up", {"word": "a"})


def test_fork_runs_in_every_way() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    asynchronous = asyncio.run(fork(recording, make(answering("b")), at=3).arun())
    *_, last = fork(recording, make(answering("b")), at=3).stream()
    assert isinstance(last, Done)
    again = fork(recording, make(answering("b")), at=3)
    assert comparable(recording_of(asynchronous).records) == comparable(recording_of(last).records)
    assert comparable(recording_of(again.run()).records) == comparable(recording_of(last).records)


def test_failed_fork_has_the_whole_run() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    ways: list[Callable[[Fork], object]] = [Fork.run, lambda one: asyncio.run(one.arun()), lambda one: [*one.stream()]]
    for run in ways:
        with pytest.raises(RuntimeError, match="broken") as failed:
            run(fork(recording, make(RuntimeError("broken")), at=3))
        events = [record["event"] for record in recording_of(failed.value).records]
        assert (events.count("answered"), events[-2:]) == (2, ["failed", "result"])


def test_fork_that_is_left_calls_nothing_more() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    second = make(answering("b"))
    forked = fork(recording, second, at=3)
    with closing(forked.stream()) as events:
        assert [next(events) for _ in forked.events] == [*forked.events]
    assert requests_of(second) == 0


def test_records_of_version_1_can_be_forked() -> None:
    records = records_of_version_1(recording_of(make(looking("a"), answering("a")).run("Which?")))
    old = Recording.from_json_lines("".join(f"{json.dumps(record)}\n" for record in records))
    assert fork(old, make(answering("b")), at=3, observation="b").run().output == "b"
    without_calls = [{name: one for name, one in record.items() if name != "call"} for record in old.records]
    with pytest.raises(gx.InputError, match=r"^a record of plan does not say which call it belongs to; fork a run"):
        fork(Recording(without_calls), make(), at=1)


def test_limits_count_what_the_run_has_spent() -> None:
    recording = read_back(make(looking("a"), looking("b"), answering("ab"), max_model_calls=3).run("Which?"))
    stopped = fork(recording, make(looking("c"), looking("d"), max_model_calls=3), at=3, observation="x").run()
    assert (stopped.reason, stopped.spent.meters["model_calls"]) == ("model_calls", 3)


def test_cost_and_reasoning_are_kept() -> None:
    parts = (Reasoning("thinking", '{"signature": "xyz"}', "anthropic"), Reasoning("more"))
    first = dataclasses.replace(looking("a"), reasoning=parts)
    price = Price(prompt=1.0, completion=2.0)
    executor = scripted([], [look_up]).with_agent(make_priced([first, answering("a")], price))
    recording = read_back(executor.run("Which?"))
    second = scripted([], [look_up]).with_agent(make_priced([answering("a")], price))
    forked = fork(recording, second, at=3)
    replies = [event.reply for event in forked.events if isinstance(event, Answered)]
    assert replies[0].reasoning == parts
    again = forked.run()
    assert recording.result is not None
    assert again.spent.meters["cost"] == recording.result["spent"]["cost"] > 0


def make_priced(replies: list[Any], price: Price) -> Any:
    return gx.create_tool_calling_agent(priced(ScriptedModel(replies), price), [look_up])


def test_images_are_read_from_the_records() -> None:
    red = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))

    @gx.tool
    def paint() -> Image:
        """Paint."""
        return red

    first = scripted([calling(("paint", {})), answering("red")], [paint])
    inputs: Mapping[str, Any] = {"input": "Which?", "images": [red]}
    recording = read_back(first.run(inputs))
    forked = fork(recording, scripted([answering("green")], [paint]), at=3)
    assert forked.changed_request is None
    result = forked.run()
    assert result.steps[0].observation == red
    model = forked.executor.agent.model
    assert isinstance(model, ScriptedModel)
    assert str(model.requests[0]) == str(first_requests(first)[1])


def first_requests(executor: gx.AgentExecutor) -> list[Any]:
    model = executor.agent.model
    assert isinstance(model, ScriptedModel)
    return list(model.requests)


def test_changed_prompt_is_noticed() -> None:
    recording = read_back(make(looking("a"), answering("a")).run("Which?"))
    assert fork(recording, make(answering("a")), at=3).changed_request is None
    other = make().with_agent(gx.create_tool_calling_agent(ScriptedModel([]), [look_up], system="Answer in French."))
    assert fork(recording, other, at=3).changed_request == 1


def decide_nothing(steps: Steps, inputs: dict[str, Any]) -> list[Any]:
    return []


def test_another_machine_is_refused_where_it_differs() -> None:
    garbage = ModelReply("", (ToolCall("c", "look_up", "{not json"),), usage=Usage(1, 1))
    recording = read_back(make(garbage, looking("a"), answering("a")).run("Which?"))
    with pytest.raises(gx.InputError) as refused:
        fork(recording, make(max_model_calls=1), at=4)
    assert str(refused.value) == (
        "step 3: plan calls CallModel in the recorded run, and plan leads to stopped_response with LimitReached in "
        "that of this executor; pass the executor that ran, with the same tools and limits, or fork an earlier step"
    )
    with pytest.raises(
        gx.InputError, match=r"^step 1: plan calls CallModel .*, and plan calls CallAgent in that of this"
    ):
        fork(recording, gx.AgentExecutor(agent=decide_nothing, tools=[]), at=4)
    with pytest.raises(gx.ParseError):
        fork(recording, make(handle_parsing_errors=False), at=4)


@cases(
    ("options", "message"),
    [
        ({"at": 0}, r"^there is no step 0: the run has steps 1 to 6; name one of them$"),
        ({"at": 7}, r"^there is no step 7: the run has steps 1 to 6; name one of them$"),
        ({"at": 2, "reply": "x"}, r"^step 2 \(parse\) makes no calls, .*; name a step that does, such as step 1$"),
        (
            {"at": 3, "observation": "x"},
            r"^step 3 \(dispatch_tools\) makes 2 calls: 0 \(look_up\), 1 \(look_up\); name",
        ),
        ({"at": 3, "observation": "x", "call": 2}, r"^step 3 \(dispatch_tools\) has no call 2; its calls are 0 to 1$"),
        ({"at": 3, "observation": "x", "call": -1}, r"has no call -1"),
        ({"at": 3, "call": 1}, r"^call 1 of step 3 is named, but no other reply; pass its reply, or leave call out$"),
        ({"at": 1, "observation": "x"}, r"^step 1 \(plan\): CallModel is not the call of a tool"),
        (
            {"at": 3, "call": 0, "reply": "x"},
            r"^step 3 \(dispatch_tools\): 'x' is not a reply to CallTool; pass its obs",
        ),
        ({"at": 1, "reply": 5}, r"^step 1 \(plan\): 5 is not a reply to CallModel; pass a ModelReply$"),
        ({"at": 1, "reply": "x", "observation": "x"}, r"^both a reply and an observation are given"),
    ],
)
def test_fork_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    recording = read_back(make(looking("a", "b"), answering("ab")).run("Which?"))
    with pytest.raises(gx.InputError, match=message):
        fork(recording, make(), **options)


def test_run_that_has_not_begun_is_refused() -> None:
    with pytest.raises(
        gx.InputError, match=r"^the run has not begun, so there is no step to go on from; run it again$"
    ):
        fork(Recorder(make().verify(), inputs="Which?"), make(), at=1)


def test_records_without_inputs_need_them() -> None:
    executor = make(looking("a"), answering("a"))
    recorder = Recorder(executor.verify())
    for event in executor.stream("Which?"):
        recorder(event)
    with pytest.raises(gx.InputError, match=r"do not have the inputs of the run; pass them, as inputs="):
        fork(recorder, make(), at=1)
    assert fork(recorder, make(answering("b")), at=3, inputs="Which?").run().output == "b"


def test_records_of_a_resumed_run_are_refused() -> None:
    snapshot = fork(make(looking("a"), answering("a")).run("Which?"), make(), at=3).snapshot
    resumed = make(answering("b")).run(snapshot)
    with pytest.raises(gx.InputError, match=r"^the records begin within a run that was resumed"):
        fork(read_back(resumed), make(), at=1, inputs="Which?")
    # A result has its snapshot.
    assert fork(resumed, make(answering("c")), at=1).run().output == "c"


@gx.tool
def shout(word: str) -> str:
    """Shout."""
    return word.upper()


def nested(*replies: Any, inner: list[Any]) -> gx.AgentExecutor:
    """Return an executor whose tool is another one."""
    helper = scripted(inner, [shout])
    return scripted(replies, [helper.as_tool("helper", "Help with a word.")])


def test_charges_of_nested_runs_are_kept() -> None:
    inner = [calling(("shout", {"word": "a"})), answering("A")]
    first = nested(calling(("helper", {"input": "a"})), answering("A!"), inner=inner)
    recording = read_back(first.run("Which?"))
    forked = fork(recording, nested(answering("A!"), inner=[]), at=3)
    again = forked.run()
    assert comparable(recording_of(again).records) == comparable(recording.records)
    assert again.spent.meters["model_calls"] == 4


def test_embedded_agents_are_replayed_by_their_machine() -> None:
    inner = [calling(("shout", {"word": "a"})), answering("A")]

    def make_outer(*replies: Any, inner: list[Any]) -> gx.AgentExecutor:
        helper = scripted(inner, [shout])
        return scripted(replies, []).plug(sub_agent(helper, "helper", "Help with a word."))

    recording = read_back(make_outer(calling(("helper", {"task": "a"})), answering("A!"), inner=inner).run("Which?"))
    shouted = [step[0]["node"] for step in steps_of(recording)].index("helper.dispatch_tools") + 1
    again = fork(recording, make_outer(answering("B!"), inner=[answering("B")]), at=shouted, observation="B").run()
    assert again.output == "B!"
    assert again.spent.meters["model_calls"] == 4


def notes_of(result: gx.RunResult) -> Mapping[str, str]:
    return result.ending.run.aside.notes


def test_reply_to_own_effect_is_read_by_its_type() -> None:
    def make_choosing(reply: str) -> gx.AgentExecutor:
        return make(answering(reply)).plug(choose_colour)

    executor = make_choosing("a").with_handlers({AskColour: lambda _: Colour("blue", 1)})
    recording = read_back(executor.run("Which?"))
    assert notes_of(fork(recording, make_choosing("b"), at=1).run()) == {"colour": "blue 1"}
    for reply in (Colour("green", 2), {"name": "green", "shade": 2}, '{"name": "green", "shade": 2}'):
        assert notes_of(fork(recording, make_choosing("b"), at=1, reply=reply).run()) == {"colour": "green 2"}
    with pytest.raises(gx.InputError, match=r"^step 1 \(choose_colour\): 'green' is not a reply to AskColour; pass a"):
        fork(recording, executor, at=1, reply="green")


def test_outcomes_of_opaque_nodes_are_read_with_their_run() -> None:
    asked: list[str] = []

    async def check(text: str) -> str | None:
        asked.append(text)
        return "it is rude" if "rude" in text else None

    def make_guarded(*replies: Any) -> gx.AgentExecutor:
        return make(*replies).plug(guard_input(check), guard_output(check))

    recording = read_back(make_guarded(looking("a"), answering("a")).run("Which?"))
    count = len(asked)
    result = fork(recording, make_guarded(answering("b")), at=4).run()
    assert (result.output, len(asked)) == ("b", count + 1)
    refused = read_back(make_guarded(looking("a"), answering("a rude word")).run("Which?"))
    guarded = [step[0]["node"] for step in steps_of(refused)].index("guard_output") + 1
    again = fork(refused, make_guarded(), at=guarded).run()
    assert (again.reason, [step.observation for step in again.steps]) == ("refused", ["a is a word"])


def test_approvals_and_nested_runs_are_read() -> None:
    def make_approved(*replies: Any) -> gx.AgentExecutor:
        helper = scripted([answering("A")], [])
        return make(*replies).plug(approve_tools({"look_up": ["approve", "reject"]}), map_agents(helper))

    together = calling(("look_up", {"word": "a"}), ("map_agents", {"tasks": ["x"]}))
    first = make_approved(together, answering("a")).with_handlers({ReviewCall: lambda _: Review("approve")})
    recording = read_back(first.run("Which?"))
    last = [step[0]["node"] for step in steps_of(recording)].index("dispatch_tools") + 1
    again = fork(recording, make_approved(answering("b")), at=last).run()
    assert again.output == "b"
    assert [step.observation for step in again.steps] == [step["observation"] for step in last_steps(recording)]
    approving = [step[0]["node"] for step in steps_of(recording)].index("approve_tools") + 1
    rejected = fork(recording, make_approved(answering("c")), at=approving, reply='{"decision": "reject"}')
    assert rejected.run().steps[0].status == "rejected"


def last_steps(recording: Recording) -> list[Any]:
    assert recording.result is not None
    return list(recording.result["steps"])


def test_reply_that_json_cannot_hold_is_refused_by_its_name() -> None:
    executor = make(answering("a")).plug(choose_thing).with_handlers({AskThing: lambda _: Thing()})
    result = executor.run("Which?")
    message = (
        r"^step 1 \(choose_thing\): the record does not hold the whole reply to AskThing \(.*\); fork the result of "
        "the run in the process that ran it, which has the reply$"
    )
    with pytest.raises(gx.InputError, match=message):
        fork(read_back(result), executor, at=1)
    assert notes_of(fork(result, make(answering("b")).plug(choose_thing), at=1).run()) == {"thing": "thing"}


@gx.tool
async def echo(text: str) -> str:
    """Repeat the text. It runs in the event loop, so that the order of results is always the same."""
    return text


@gx.tool
async def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


LIMITS = st.builds(
    agent_limits,
    iterations=st.sampled_from([5, 3, 1, 0]),
    tool_calls=st.sampled_from([None, 6, 2]),
    seconds=st.sampled_from([300.0, 3.0]),
)


@given(agent_scripts(["echo", "broken"], max_turns=4), LIMITS, st.data())
def test_fork_reproduces_the_run_of_any_agent(script: AgentScript, within: gx.Limits, data: st.DataObject) -> None:
    asked: list[int] = []
    function = script.agent()

    async def agent(steps: Steps, inputs: dict[str, Any]) -> Any:
        asked.append(len(steps))
        return await function(steps, inputs)

    made = gx.AgentExecutor(agent=agent, tools=[echo, broken], handle_parsing_errors=True).with_limits(within)
    executor = on_loop_time(made)
    recording = recording_in(executor)
    asked.clear()
    steps = steps_of(recording)
    at = data.draw(st.integers(1, len(steps)))
    again = record_fork(fork(read_back(recording), executor, at=at))
    assert comparable(again.records) == comparable(read_back(recording).records)
    # A call that failed has no reply, so it is made again.
    failed = [one for one in calls_of(steps[at - 1], "asked") if one["effect"] == "CallAgent"]
    failed = failed[len(calls_of(steps[at - 1], "answered")) :]
    later = [one for step in steps[at:] for one in calls_of(step, "asked") if one["effect"] == "CallAgent"]
    assert len(asked) == len(failed) + len(later)


GARBAGE = ModelReply("", (ToolCall("c", "look_up", "{not json"),), usage=Usage(7, 1))
REPLIES = st.one_of(
    st.lists(st.sampled_from(["a", "b", "bad"]), min_size=1, max_size=3).map(lambda words: looking(*words)),
    st.sampled_from([GARBAGE, calling(("unknown", {})), calling(("look_up", {"wort": 1})), RuntimeError("broken")]),
)


@given(st.lists(REPLIES, max_size=5), st.booleans(), st.data())
def test_same_reply_reproduces_the_run(first: list[Any], in_file: bool, data: st.DataObject) -> None:
    options: dict[str, Any] = {"max_iterations": 4, "tool_concurrency": 1}
    replies = [*first, answering("end")]
    executor = make(*replies, **options)
    try:
        run: Any = executor.run("Which?")
    except RuntimeError as error:
        run = error
    recording = read_back(run)
    answered = [calls_of(step, "answered") for step in steps_of(recording)]
    if not any(answered):
        return
    at = data.draw(st.sampled_from([step for step, calls in enumerate(answered, 1) if calls]))
    call = data.draw(st.integers(0, len(answered[at - 1]) - 1))
    spoken = [one for calls in answered[:at] for one in calls if one["effect"] == "CallModel"]
    if answered[at - 1][call]["effect"] == "CallModel":
        new: dict[str, Any] = {"reply": replies[len(spoken) - 1]}
    else:
        one = answered[at - 1][call]
        new = {"reply": ToolResult(one["observation"], one["status"], error=one["error"])}
    CALLED.clear()
    second = make(*replies[len(spoken) :], **options)
    forked = fork(recording if in_file else run, second, at=at, call=call, **new)
    assert comparable(record_fork(forked).records) == comparable(recording.records)
    assert requests_of(second) == requests_of(executor) - len(spoken)
    later = [one for calls in answered[at:] for one in calls if one.get("tool") == "look_up"]
    assert len(CALLED) == len([one for one in later if one["status"] != "bad_arguments"])


def calls_of(step: list[Any], event: str) -> list[Any]:
    """Return the effects or the replies of a step's calls."""
    names = {"asked": "effects", "answered": "replies"}
    return [record[names[event]][0] for record in step if record["event"] == event]
