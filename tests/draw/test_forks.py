"""Forks: another reply at a step of a recorded run, from which the run goes on."""

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
from graphexec import actions, effects
from graphexec.draw import Fork, Recorder, Recording, compare_runs, fork, recording_of
from graphexec.messages import Image, ModelReply, Reasoning, ToolCall, Usage
from graphexec.models import Price, ScriptedModel, priced
from graphexec.nodes import Review, ReviewCall, approve_tools, guard_input, guard_output, map_agents, sub_agent
from graphexec.testing.clock import on_loop_time
from tests.checks.scripts import AgentScript
from tests.checks.strategies import agent_scripts
from tests.draw import forked as own
from tests.draw.debugged import answering, calling
from tests.draw.forked import Colour, comparable, read_back, record_fork, requests_of, scripted, steps_of
from tests.draw.recorded import recording_in, records_of_version_1
from tests.parameters import cases
from tests.traces import unpack_page

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


def recorded(*replies: Any, **options: Any) -> Recording:
    """Return a run of these replies, read back from a file."""
    recording = read_back(make(*replies, **options).run("Which?"))
    CALLED.clear()
    return recording


def failed_run(*replies: Any, **options: Any) -> Exception:
    with pytest.raises((RuntimeError, ValueError)) as failed:
        make(*replies, **options).run("Which?")
    CALLED.clear()
    return failed.value


def observations(result: gx.RunResult) -> list[Any]:
    return [step.observation for step in result.steps]


def test_another_reply_leads_to_another_run() -> None:
    recording = recorded(looking("a"), answering("It is a."))
    second = make(answering("It is b, after all."))
    forked = fork(recording, second, at=1, reply=looking("b"), trace="trace.jsonl")
    assert (requests_of(second), CALLED) == (0, [])
    result = forked.run()
    assert (result.output, CALLED) == ("It is b, after all.", ["b"])
    assert requests_of(second) == 1
    assert (result.spent.iterations, result.usage) == (2, Usage(700, 44))
    whole = recording_of(result)
    replies = [record["replies"][0] for record in whole.records if record["event"] == "answered"]
    assert replies[0]["tool_calls"][0]["arguments"] == '{"word": "b"}'
    assert forked.parent == {"trace": "trace.jsonl", "run": recording.records[1]["run"], "step": 1}
    assert "b is a word" in unpack_page(compare_runs(recording, whole))
    # A new text keeps the usage of the old one.
    result = fork(recording, make(), at=1, reply="I know: b.").run()
    assert (str(result), result.usage, CALLED) == ("I know: b.", Usage(300, 24), ["b"])


def test_trace_of_a_fork_names_its_parent() -> None:
    recording = recorded(looking("a"), answering("a"))
    once = record_fork(fork(recording, make(answering("b")), at=3, observation="b", trace="a.jsonl"))
    records = once.records
    assert records[0]["parent"] == {"trace": "a.jsonl", "run": recording.records[1]["run"], "step": 3}
    assert records[0]["input"] == {"input": "Which?"}
    assert records[1]["run"] != recording.records[1]["run"]
    assert records[-1]["output"] == "b"
    assert Recording.from_json_lines(once.to_json_lines()).records == records
    # So is a fork of a fork.
    twice = fork(read_back(once), make(answering("c")), at=3, observation="c", trace="fork.jsonl")
    assert twice.run().output == "c"
    assert twice.parent["run"] == records[1]["run"]


def test_observation_is_a_result_of_the_tool() -> None:
    result = fork(recorded(looking("bad"), answering("a")), make(answering("b")), at=3, observation="bad is fine").run()
    assert [(step.observation, step.status, step.error) for step in result.steps] == [("bad is fine", "ok", None)]
    # The other calls of a step keep their replies.
    recording = recorded(looking("a", "b", "c"), answering("abc"))
    result = fork(recording, make(answering("axc")), at=3, call=1, observation="x").run()
    assert (observations(result), CALLED) == (["a is a word", "x", "c is a word"], [])


LATER = [looking("b"), answering("ab")]


@cases("at, left", (1, LATER), (3, LATER), (5, LATER[1:]))
def test_without_another_reply_the_run_goes_on_as_it_was(at: int, left: list[ModelReply]) -> None:
    recording = recorded(looking("a"), *LATER)
    second = make(*left)
    again = recording_of(fork(recording, second, at=at).run())
    assert comparable(again.records) == comparable(recording.records)
    assert requests_of(second) == len(left)


def test_failed_run_goes_on_where_it_failed() -> None:
    failed = failed_run(looking("a"), RuntimeError("broken"))
    last = len(steps_of(read_back(failed)))
    assert fork(read_back(failed), make(answering("a")), at=last).run().output == "a"
    assert fork(failed, make(), at=last, reply="known").run().output == "known"
    assert CALLED == []
    # A reply may answer a call that failed.
    failed = failed_run(looking("a", "bad"), **IN_TURN)
    result = fork(read_back(failed), make(answering("ab")), at=3, call=1, observation="b").run()
    assert (observations(result), CALLED) == (["a is a word", "b"], [])


IN_TURN: dict[str, Any] = {"handle_tool_errors": "raise", "tool_concurrency": 1}


@cases("in_file", False, True)
def test_calls_without_a_reply_are_made_and_charged_once(in_file: bool) -> None:
    failed = failed_run(looking("a", "bad", "c"), answering("ac"), **IN_TURN)
    CALLED.clear()
    result = fork(read_back(failed) if in_file else failed, make(answering("ac")), at=3).run()
    assert sorted(CALLED) == ["bad", "c"]
    assert [step.status for step in result.steps] == ["ok", "error", "ok"]
    assert (result.spent.meters["tool_calls"], result.spent.meters["model_calls"]) == (3, 2)
    whole = recording_of(result)
    assert [one["event"] for one in whole.records].count("asked") == 5
    assert whole.result is not None
    assert whole.result["spent"]["tool_calls"] == 3


LOOK_UP = gx.AgentAction("look_up", {"word": "b"})


@cases(
    "reply, output",
    *((None, "a is a word"), ("A!", "A!"), (gx.AgentFinish({"output": "A!"}), "A!")),
    *((LOOK_UP, "b is a word"), ([LOOK_UP], "b is a word")),
    ({"content": "", "tool_calls": [{"name": "look_up", "arguments": {"word": "b"}}]}, "b is a word"),
)
def test_decision_of_a_function_may_be_replaced(reply: object, output: str) -> None:
    executor = gx.AgentExecutor(agent=decide_once, tools=[look_up])
    recording = read_back(executor.run("Which?"))
    options: dict[str, Any] = {} if reply is None else {"reply": reply}
    assert fork(recording, executor, at=1, **options).run().output == output
    with pytest.raises(gx.InputError, match=r"^step 1 \(plan\): 5 is not a decision of the agent .*; pass an answer"):
        fork(recording, executor, at=1, reply=5)


def decide_once(steps: actions.Steps, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
    return gx.AgentFinish({"output": steps[-1].observation}) if steps else gx.AgentAction("look_up", {"word": "a"})


def run_stream(forked: Fork) -> gx.Done[Any]:
    *_, last = forked.stream()
    assert isinstance(last, gx.Done)
    return last


RUNS: list[Callable[[Fork], Any]] = [Fork.run, lambda forked: asyncio.run(forked.arun()), run_stream]


@cases("run", *RUNS)
def test_fork_runs_in_every_way(run: Callable[[Fork], Any]) -> None:
    recording = recorded(looking("a"), answering("a"))
    whole = record_fork(fork(recording, make(answering("b")), at=3))
    again = recording_of(run(fork(recording, make(answering("b")), at=3)))
    assert comparable(again.records) == comparable(read_back(whole).records)
    # A failed one has the whole run, too.
    with pytest.raises(RuntimeError, match="broken") as failed:
        run(fork(recording, make(RuntimeError("broken")), at=3))
    events = [record["event"] for record in recording_of(failed.value).records]
    assert (events.count("answered"), events[-2:]) == (2, ["failed", "result"])


def test_fork_counts_calls_and_notices_a_changed_prompt() -> None:
    second = make(answering("b"))
    forked = fork(recorded(looking("a"), answering("a")), second, at=3)
    with closing(forked.stream()) as events:
        assert [next(events) for _ in forked.events] == [*forked.events]
    assert requests_of(second) == 0
    # Limits count what the run has spent.
    recording = recorded(looking("a"), *LATER, max_model_calls=3)
    stopped = fork(recording, make(looking("c"), looking("d"), max_model_calls=3), at=3, observation="x").run()
    assert (stopped.reason, stopped.spent.meters["model_calls"]) == ("model_calls", 3)
    recording = recorded(looking("a"), answering("a"))
    assert fork(recording, make(answering("a")), at=3).changed_request is None
    other = make().with_agent(gx.create_tool_calling_agent(ScriptedModel([]), [look_up], system="Answer in French."))
    assert fork(recording, other, at=3).changed_request == 1


def test_cost_reasoning_and_images_are_kept() -> None:
    def make_priced(*replies: ModelReply) -> gx.AgentExecutor:
        model = priced(ScriptedModel(replies), Price(prompt=1.0, completion=2.0))
        return make().with_agent(gx.create_tool_calling_agent(model, [look_up]))

    parts = (Reasoning("thinking", '{"signature": "xyz"}', "anthropic"), Reasoning("more"))
    reply = dataclasses.replace(looking("a"), reasoning=parts)
    recording = read_back(make_priced(reply, answering("a")).run("Which?"))
    forked = fork(recording, make_priced(answering("a")), at=3)
    replies = [event.reply for event in forked.events if isinstance(event, gx.Answered)]
    assert replies[0].reasoning == parts
    assert recording.result is not None
    assert forked.run().spent.meters["cost"] == recording.result["spent"]["cost"] > 0
    # Images are read from the records.
    red = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))

    @gx.tool
    def paint() -> Image:
        """Paint."""
        return red

    def requests(executor: gx.AgentExecutor) -> list[str]:
        assert isinstance(executor.agent.model, ScriptedModel)
        return [str(request) for request in executor.agent.model.requests]

    first = scripted([calling(("paint", {})), answering("red")], [paint])
    inputs: Mapping[str, Any] = {"input": "Which?", "images": [red]}
    recording = read_back(first.run(inputs))
    forked = fork(recording, scripted([answering("green")], [paint]), at=3)
    assert forked.changed_request is None
    assert observations(forked.run()) == [red]
    assert requests(forked.executor)[0] == requests(first)[1]


@cases(
    "other, facts",
    (
        make(max_model_calls=1),
        [
            "step 3: plan calls CallModel in the recorded run",
            "plan leads to stopped_response with LimitReached in that of this executor",
            "pass the executor that ran, with the same tools and limits, or fork an earlier step",
        ],
    ),
    (
        gx.AgentExecutor(agent=lambda steps, inputs: [], tools=[]),
        ["step 1: plan calls CallModel ", ", and plan calls CallAgent in that of this"],
    ),
    (make(handle_parsing_errors=False), None),
)
def test_another_machine_is_refused_where_it_differs(other: gx.AgentExecutor, facts: list[str] | None) -> None:
    garbage = ModelReply("", (ToolCall("c", "look_up", "{not json"),), usage=Usage(1, 1))
    recording = recorded(garbage, looking("a"), answering("a"))
    with pytest.raises(gx.ParseError if facts is None else gx.InputError) as refused:
        fork(recording, other, at=4)
    for fact in facts or ():
        assert fact in str(refused.value)


@cases(
    "options, message",
    ({"at": 0}, r"^there is no step 0: the run has steps 1 to 6; name one of them$"),
    ({"at": 7}, r"^there is no step 7: the run has steps 1 to 6; name one of them$"),
    ({"at": 2, "reply": "x"}, r"^step 2 \(parse\) makes no calls, .*; name a step that does, such as step 1$"),
    ({"at": 3, "observation": "x"}, r"^step 3 \(dispatch_tools\) makes 2 calls: 0 \(look_up\), 1 \(look_up\); nam"),
    ({"at": 3, "observation": "x", "call": 2}, r"^step 3 \(dispatch_tools\) has no call 2; its calls are 0 to 1$"),
    ({"at": 3, "observation": "x", "call": -1}, r"has no call -1"),
    ({"at": 3, "call": 1}, r"^call 1 of step 3 is named, but no other reply; pass its reply, or leave call out$"),
    ({"at": 1, "observation": "x"}, r"^step 1 \(plan\): CallModel is not the call of a tool"),
    ({"at": 3, "call": 0, "reply": "x"}, r"^step 3 \(dispatch_tools\): 'x' is not a reply to CallTool; pass its o"),
    ({"at": 1, "reply": 5}, r"^step 1 \(plan\): 5 is not a reply to CallModel; pass a ModelReply$"),
    ({"at": 1, "reply": "x", "observation": "x"}, r"^both a reply and an observation are given"),
)
def test_fork_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gx.InputError, match=message):
        fork(recorded(looking("a", "b"), answering("ab")), make(), **options)


def test_incomplete_and_old_records_can_be_forked() -> None:
    executor = make(looking("a"), answering("a"))
    recorder = Recorder(executor.verify())
    list(map(recorder, executor.stream("Which?")))
    with pytest.raises(gx.InputError, match=r"do not have the inputs of the run; pass them, as inputs="):
        fork(recorder, make(), at=1)
    assert fork(recorder, make(answering("b")), at=3, inputs="Which?").run().output == "b"
    # The run has not begun.
    recorder = Recorder(make().verify(), inputs="Which?")
    with pytest.raises(
        gx.InputError, match=r"^the run has not begun, so there is no step to go on from; run it again$"
    ):
        fork(recorder, make(), at=1)
    # Records of version 1.
    records = records_of_version_1(recorded(looking("a"), answering("a")))
    old = Recording.from_json_lines("".join(f"{json.dumps(record)}\n" for record in records))
    assert fork(old, make(answering("b")), at=3, observation="b").run().output == "b"
    without_calls = [{name: one for name, one in record.items() if name != "call"} for record in old.records]
    with pytest.raises(gx.InputError, match=r"^a record of plan does not say which call it belongs to; fork a run"):
        fork(Recording(without_calls), make(), at=1)


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


INNER = [calling(("shout", {"word": "a"})), answering("A")]


def test_nested_and_embedded_agents_are_replayed() -> None:
    def nested(*replies: Any, inner: list[Any]) -> gx.AgentExecutor:
        return scripted(replies, [scripted(inner, [shout]).as_tool("helper", "Help with a word.")])

    recording = read_back(nested(calling(("helper", {"input": "a"})), answering("A!"), inner=INNER).run("Which?"))
    again = fork(recording, nested(answering("A!"), inner=[]), at=3).run()
    assert comparable(recording_of(again).records) == comparable(recording.records)
    assert again.spent.meters["model_calls"] == 4

    # Embedded agents are replayed by their machine.
    def embedding(*replies: Any, inner: list[Any]) -> gx.AgentExecutor:
        return scripted(replies, []).plug(sub_agent(scripted(inner, [shout]), "helper", "Help with a word."))

    recording = read_back(embedding(calling(("helper", {"task": "a"})), answering("A!"), inner=INNER).run("Which?"))
    shouted = step_at(recording, "helper.dispatch_tools")
    again = fork(recording, embedding(answering("B!"), inner=[answering("B")]), at=shouted, observation="B").run()
    assert again.output == "B!"
    assert again.spent.meters["model_calls"] == 4


def step_at(recording: Recording, node: str) -> int:
    return [step[0]["node"] for step in steps_of(recording)].index(node) + 1


def notes_of(result: gx.RunResult) -> Mapping[str, str]:
    return result.ending.run.aside.notes


def test_replies_to_own_effects_are_read_by_their_type() -> None:
    def make_choosing(reply: str) -> gx.AgentExecutor:
        return make(answering(reply)).plug(own.choose_colour)

    executor = make_choosing("a").with_handlers({own.AskColour: lambda _: Colour("blue", 1)})
    recording = read_back(executor.run("Which?"))
    assert notes_of(fork(recording, make_choosing("b"), at=1).run()) == {"colour": "blue 1"}
    for reply in (Colour("green", 2), {"name": "green", "shade": 2}, '{"name": "green", "shade": 2}'):
        assert notes_of(fork(recording, make_choosing("b"), at=1, reply=reply).run()) == {"colour": "green 2"}
    with pytest.raises(gx.InputError, match=r"^step 1 \(choose_colour\): 'green' is not a reply to AskColour; pass a"):
        fork(recording, executor, at=1, reply="green")
    # One that JSON cannot hold is refused by its name.
    executor = make(answering("a")).plug(own.choose_thing).with_handlers({own.AskThing: lambda _: own.Thing()})
    result = executor.run("Which?")
    message = (
        r"^step 1 \(choose_thing\): the record does not hold the whole reply to AskThing \(.*\); fork the result of "
        "the run in the process that ran it, which has the reply$"
    )
    with pytest.raises(gx.InputError, match=message):
        fork(read_back(result), executor, at=1)
    assert notes_of(fork(result, make(answering("b")).plug(own.choose_thing), at=1).run()) == {"thing": "thing"}


def test_outcomes_of_opaque_nodes_approvals_and_nested_runs_are_read() -> None:
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
    again = fork(refused, make_guarded(), at=step_at(refused, "guard_output")).run()
    assert (again.reason, observations(again)) == ("refused", ["a is a word"])

    # Approvals and nested runs.
    def make_approved(*replies: Any) -> gx.AgentExecutor:
        helper = scripted([answering("A")], [])
        return make(*replies).plug(approve_tools({"look_up": ["approve", "reject"]}), map_agents(helper))

    together = calling(("look_up", {"word": "a"}), ("map_agents", {"tasks": ["x"]}))
    first = make_approved(together, answering("a")).with_handlers({ReviewCall: lambda _: Review("approve")})
    recording = read_back(first.run("Which?"))
    again = fork(recording, make_approved(answering("b")), at=step_at(recording, "dispatch_tools")).run()
    assert again.output == "b"
    assert recording.result is not None
    assert observations(again) == [step["observation"] for step in recording.result["steps"]]
    approving, reply = step_at(recording, "approve_tools"), '{"decision": "reject"}'
    assert fork(recording, make_approved(answering("c")), at=approving, reply=reply).run().steps[0].status == "rejected"


@gx.tool
async def echo(text: str) -> str:
    """Repeat the text. It runs in the event loop, so that the order of results is always the same."""
    return text


@gx.tool
async def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


LIMITS = st.builds(
    effects.agent_limits,
    iterations=st.sampled_from([5, 3, 1, 0]),
    tool_calls=st.sampled_from([None, 6, 2]),
    seconds=st.sampled_from([300.0, 3.0]),
)


@given(agent_scripts(["echo", "broken"], max_turns=4), LIMITS, st.data())
def test_fork_reproduces_the_run_of_any_agent(script: AgentScript, within: gx.Limits, data: st.DataObject) -> None:
    asked: list[int] = []
    function = script.agent()

    async def agent(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
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
        new = {"reply": effects.ToolResult(one["observation"], one["status"], error=one["error"])}
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
