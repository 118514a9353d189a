"""A resumed run keeps its clock, its spending and its replies."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Done, Exhausted, Limits, Snapshot, Spent, advance, begin
from graphexec.effects import CallModel, agent_limits, reported_tokens
from graphexec.errors import SnapshotError
from graphexec.kernel import PendingEffect, snapshot_of
from graphexec.messages import ModelReply, Usage
from graphexec.runtime import RunContext, make_run_context, run
from graphexec.runtime.handlers import handlers_for
from tests.drivers import LIVE, Driver, FakeClock, Script, drive_from_text, run_script
from tests.kernel.machines import (
    CLOCK,
    ERRAND,
    INTERVIEW,
    PROMPTS,
    SURVEY,
    Errand,
    Home,
    Interview,
    Prompt,
    Question,
    Stopped,
    Tick,
    Topic,
    Topics,
    limited,
    model_of,
    reporter,
    without_handlers,
)
from tests.parameters import cases


def texts(script: Script[Any, Any]) -> tuple[str, ...]:
    return drive_from_text(script).texts


# ---- replies are kept


@cases("driver", LIVE)
def test_resume_asks_only_for_missing_replies(driver: Driver) -> None:
    for number, text in enumerate(texts(Script(INTERVIEW, Topic("tea", 4), reporter()))):
        asked: list[str] = []

        def answer(question: Question, asked: list[str] = asked) -> str:
            asked.append(question.text)
            return f"re: {question.text}"

        snapshot = Snapshot.from_json(text, INTERVIEW)
        result = driver(Script(INTERVIEW, snapshot, make_run_context({Question: answer})))
        assert asked == [f"tea {n} {n}" for n in range(number, 4)]
        assert result.outcome == Interview(tuple(f"re: tea {n} {n}" for n in range(4)))


def test_opaque_node_with_a_stored_outcome_is_skipped() -> None:
    *_, last = texts(Script(ERRAND, Errand(), without_handlers()))
    data = json.loads(last)
    assert (data["node"], len(data["replies"])) == ("come_back", 1)
    snapshot = Snapshot.from_json(last, ERRAND)
    # There is no handler that could perform it.
    state = advance(ERRAND, snapshot, Limits())
    assert isinstance(state, Done)
    assert state.outcome == Home(("left", "back"))


def test_answered_batch_is_not_asked_again() -> None:
    from graphexec.effects import CallTool, ToolResult

    def script() -> Script[Any, Any]:
        return Script(SURVEY, Topics(("a", "b")), make_run_context({CallTool: lambda call: ToolResult(call.name)}))

    *_, last = texts(script())
    done = run(SURVEY, Snapshot.from_json(last, SURVEY), without_handlers())
    assert done.spent["tool_calls"] == 2
    assert done.outcome == drive_from_text(script()).outcome


# ---- spending and clock are kept


@cases("driver", LIVE)
def test_resume_does_not_reset_budgets(driver: Driver) -> None:
    def script(value: Any) -> Script[Any, Any]:
        return Script(PROMPTS, value, model_of(Usage(2, 1), agent_limits(model_calls=5, tokens=100)))

    whole = drive_from_text(script(Prompt()))
    assert whole.spent["model_calls"] == 5
    for text in whole.texts:
        result = driver(script(Snapshot.from_json(text, PROMPTS)))
        assert result.outcome == whole.outcome
        assert reported_tokens(result.spent) == reported_tokens(whole.spent) == 15


def test_crash_after_a_charge_is_counted() -> None:
    # After a crash during the call, the run resumes from the state before it; the attempt counts.
    limits = agent_limits(model_calls=3)
    snapshot = begin(PROMPTS, Prompt())
    for attempt in range(3):
        state = advance(PROMPTS, snapshot, limits)
        assert isinstance(state, PendingEffect)
        snapshot = Snapshot.from_json(state.snapshot.to_json(), PROMPTS).retried()
        assert snapshot.spent["model_calls"] == attempt + 1
    end = advance(PROMPTS, snapshot, limits)
    assert isinstance(end, Done)
    assert end.outcome == Stopped(Prompt(), Exhausted("model_calls", 3, 3))


def test_crash_loop_ends() -> None:
    def failing(call: CallModel) -> ModelReply:
        raise OSError("the line is dead")

    calls = 0
    value: Any = Prompt()
    crashing = make_run_context({CallModel: failing}, limits=agent_limits(model_calls=4))
    while True:
        try:
            done = run(PROMPTS, value, crashing)
        except OSError as error:
            calls += 1
            value = snapshot_of(error)
        else:
            break
    assert (calls, done.outcome) == (4, Stopped(Prompt(), Exhausted("model_calls", 4, 4)))


def test_resume_does_not_charge_the_entry_again() -> None:
    from graphexec import END, Asks, ask, edges, graph, metered, node, on

    @metered(when_spent=Stopped)
    @node
    def enter(topic: Topic) -> Asks[Question, Interview]:
        first = yield from ask(Question("first?"))
        second = yield from ask(Question("second?"))
        return Interview((first, second))

    machine = graph(edges(enter, on(Interview, END) | on(Stopped, END)), start=enter)

    def script(value: Any) -> Script[Any, Any]:
        return Script(machine, value, make_run_context({Question: lambda q: q.text}, limits=Limits(iterations=1)))

    whole = drive_from_text(script(Topic("tea")))
    assert isinstance(whole.outcome, Interview)
    for text in whole.texts:
        result = drive_from_text(script(Snapshot.from_json(text, machine)))
        assert (result.outcome, result.spent.iterations) == (whole.outcome, 1)


@cases("driver", [*LIVE, drive_from_text])
def test_clock_continues_after_a_resume(driver: Driver) -> None:
    def make_context() -> RunContext:
        # Another process has another clock.
        clock = FakeClock(5_000_000.0)

        def answer(question: Question) -> str:
            clock.advance(4.0)
            return "fine"

        return RunContext(handlers_for({Question: answer}), Limits(seconds=10), clock=clock)

    snapshot = Snapshot("interview", Topic("tea", 3), ("fine",), Spent(seconds=7.0))
    result = driver(Script(INTERVIEW, snapshot, make_context()))
    assert result.outcome == Stopped(Topic("tea", 3), Exhausted("seconds", 10, 11.0))
    snapshot = Snapshot("interview", Topic("tea", 3), ("fine",), Spent(seconds=2.0))
    result = driver(Script(INTERVIEW, snapshot, make_context()))
    assert (type(result.outcome), result.spent.seconds) == (Interview, 10.0)


@given(at=st.integers(0, 12), limit=st.integers(0, 12))
def test_pause_at_any_state_changes_nothing(at: int, limit: int) -> None:
    def script(value: Any) -> Script[Any, Any]:
        return Script(PROMPTS, value, model_of(Usage(1, 0), agent_limits(model_calls=limit, tokens=9)))

    whole = drive_from_text(script(Prompt()))
    paused = whole.texts[min(at, len(whole.texts) - 1)]
    resumed = run_script(lambda: script(Snapshot.from_json(paused, PROMPTS)))
    assert resumed.outcome == whole.outcome
    assert replace(resumed.spent, seconds=0) == replace(whole.spent, seconds=0)


# ---- snapshots as text


def test_snapshot_is_plain_data() -> None:
    snapshot = Snapshot("interview", Topic("tea", 2), ("fine",), Spent(iterations=3, seconds=1.5))
    assert json.loads(snapshot.to_json()) == {
        "version": 2,
        "node": "interview",
        "value": {"class": "Topic", "data": {"name": "tea", "questions": 2}},
        "replies": [{"reply": {"class": "str", "data": "fine"}}],
        "spent": {
            "iterations": 3,
            "seconds": 1.5,
            "restarts": 0,
            "budgets": {},
            "meters": {},
        },
        "entered": False,
        "open": [],
        "sequence": 0,
        "run": "",
    }


def test_snapshot_of_another_version_is_refused() -> None:
    old = json.dumps({"node": "interview", "value": {}, "replies": [], "spent": {}})
    for text, version in ((old, "1"), (GOOD.replace('"version": 2', '"version": 3'), "3")):
        with pytest.raises(SnapshotError, match=f"^this snapshot has version {version}, but this"):
            Snapshot.from_json(text, INTERVIEW)


def test_snapshot_from_json_can_be_stored_again() -> None:
    machines: list[tuple[Any, object, RunContext]] = [
        (INTERVIEW, Topic("tea"), reporter()),
        (ERRAND, Errand(), without_handlers()),
        (PROMPTS, Prompt(), model_of(Usage(), agent_limits(model_calls=2))),
        (CLOCK, Tick(), limited(iterations=2)),
    ]
    for machine, value, context in machines:
        script: Script[Any, Any] = Script(machine, value, context)
        for text in texts(script):
            assert Snapshot.from_json(text, script.graph).to_json() == text


def test_cut_is_stored() -> None:
    state = advance(INTERVIEW, begin(INTERVIEW, Topic("tea")), Limits(seconds=1))
    assert isinstance(state, PendingEffect)
    text = state.cut(at=2.0).to_json()
    assert json.loads(text)["replies"] == [
        {"exhausted": {"limit": "seconds", "value": 1.0, "reached": 2.0, "wanted": 1, "outer": False}}
    ]
    assert Snapshot.from_json(text, INTERVIEW).replies == (Exhausted("seconds", 1, 2),)


GOOD = Snapshot("interview", Topic("tea")).to_json()


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(GOOD), **changes})


@cases(
    ("text", "says"),
    [
        ("", "this is not a snapshot: it needs node, value, replies and spent: JSONDecodeError"),
        ("{", "this is not a snapshot: it needs node, value, replies and spent: JSONDecodeError"),
        ("null", "this is not a snapshot: it needs node, value, replies and spent: TypeError"),
        ("[]", "this is not a snapshot: it needs node, value, replies and spent: TypeError"),
        ('"text"', "this is not a snapshot: it needs node, value, replies and spent: TypeError"),
        ("{}", "this is not a snapshot: it needs node, value, replies and spent: KeyError('node')"),
        (
            changed(node="tick"),
            "the snapshot is at tick, which is not a node of this graph; resume it with its own graph",
        ),
        (changed(node=[]), "the snapshot is at [], which is not a node of this graph; resume it with its own graph"),
        (
            changed(value={"class": "Tick", "data": {}}),
            "the snapshot holds a Tick, which no edge of this graph carries; resume it with its own graph",
        ),
        (changed(value=None), "the snapshot at interview does not fit this graph: "),
        (changed(value={"class": ["Topic"], "data": {}}), "the snapshot at interview does not fit this graph: "),
        (changed(value={"class": "Topic"}), "the snapshot at interview does not fit this graph: 'data'"),
        (changed(value={"class": "Topic", "data": {"name": 3}}), "the snapshot at interview does not fit this graph: "),
        (changed(replies=3), "the snapshot at interview does not fit this graph: "),
        (changed(replies="abc"), "the snapshot at interview does not fit this graph: "),
        (changed(replies=[{}]), "the snapshot at interview does not fit this graph: 'reply'"),
        (changed(replies=[{"reply": 3}]), "the snapshot at interview does not fit this graph: 3 is not a stored reply"),
        (changed(replies=[{"exhausted": {}}]), "the snapshot at interview does not fit this graph: "),
        (changed(spent={"seconds": "x"}), "the snapshot at interview does not fit this graph: "),
        (changed(spent=None), "the snapshot at interview does not fit this graph: "),
    ],
)
def test_snapshot_of_another_graph_is_refused(text: str, says: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        Snapshot.from_json(text, INTERVIEW)
    assert str(caught.value).startswith(says)


@given(st.text() | st.binary().map(repr) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_garbage_raises_only_snapshot_errors(text: str) -> None:
    with pytest.raises(SnapshotError):
        Snapshot.from_json(text, INTERVIEW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["class", "data", "reply"]), inner),
    max_leaves=5,
)


@given(key=st.sampled_from(["node", "value", "replies", "spent"]), value=JSON)
def test_altered_snapshot_is_read_or_refused(key: str, value: object) -> None:
    try:
        snapshot = Snapshot.from_json(changed(**{key: value}), INTERVIEW)
    except SnapshotError:
        return
    # A snapshot that can be read can be resumed, or is refused when its reply is used.
    try:
        advance(INTERVIEW, snapshot, Limits())
    except SnapshotError:
        return


@cases(
    ("reply", "machine"),
    [({"class": "str", "data": 3}, INTERVIEW), ({"class": "str", "data": None}, INTERVIEW)],
)
def test_stored_reply_of_another_type_is_refused(reply: object, machine: Any) -> None:
    snapshot = Snapshot.from_json(changed(replies=[{"reply": reply}]), machine)
    with pytest.raises(SnapshotError, match="a stored reply is not a reply to Question"):
        advance(machine, snapshot, Limits())


def test_stored_batch_of_another_length_is_refused() -> None:
    first = advance(SURVEY, begin(SURVEY, Topics(("a", "b"))), Limits())
    assert isinstance(first, PendingEffect)
    data = json.loads(first.snapshot.to_json())
    result = {"observation": "a", "status": "ok", "return_direct": False}
    data["replies"] = [{"reply": {"class": "tuple", "data": [result]}}]
    snapshot = Snapshot.from_json(json.dumps(data), SURVEY)
    with pytest.raises(SnapshotError, match="a stored reply is not a reply to All"):
        advance(SURVEY, snapshot, Limits())


def test_stored_outcome_of_an_unknown_class_is_refused() -> None:
    data = json.loads(begin(ERRAND, Errand()).to_json())
    data["replies"] = [{"reply": {"class": "Nowhere", "data": {}}}]
    with pytest.raises(SnapshotError, match="the snapshot holds a Nowhere, which no edge of this graph carries"):
        advance(ERRAND, Snapshot.from_json(json.dumps(data), ERRAND), Limits())


# ---- values that JSON cannot express


class Thing:
    pass


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@cases(
    "inside",
    [Thing(), loop(), b"\xff", lambda: 1, {1: Thing()}, (Thing(),)],
)
def test_value_without_a_json_form_is_refused(inside: Any) -> None:
    for snapshot in (
        Snapshot("interview", inside),
        Snapshot("interview", Topic(inside)),
        Snapshot("interview", Topic("tea"), (inside,)),
    ):
        with pytest.raises(SnapshotError, match="the state at interview cannot be stored as JSON: "):
            snapshot.to_json()


def test_class_that_pydantic_cannot_read_is_refused() -> None:
    from dataclasses import make_dataclass

    lost = make_dataclass("Lost", [("where", "Nowhere")], frozen=True)
    with pytest.raises(SnapshotError, match="the state at interview cannot be stored as JSON: "):
        Snapshot("interview", lost(1)).to_json()


def test_handler_may_reply_any_json_value() -> None:
    for reply in ("", "ü\n\x00", "9" * 1000):
        context = make_run_context({Question: lambda _, reply=reply: reply})
        result = run_script(lambda context=context: Script(INTERVIEW, Topic("tea", 1), context))  # type: ignore[misc]
        assert result.outcome == Interview((reply,))
