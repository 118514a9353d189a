"""A resumed run keeps its clock, its spending and its replies."""

import json
from dataclasses import make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Exhausted, Limits, Snapshot, Spent, advance, begin
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits
from graphexec.errors import SnapshotError
from graphexec.kernel import snapshot_of
from graphexec.messages import ModelReply
from graphexec.runtime import run
from graphexec.runtime.handlers import RunContext, handlers_for
from tests.drivers import LIVE, Driver, FakeClock, Script, drive_from_text, make_run_context, options_of
from tests.kernel import machines as m
from tests.parameters import cases


def test_stored_replies_are_not_asked_again() -> None:
    *_, last = drive_from_text(Script(m.ERRAND, m.Errand(), m.without_handlers())).texts
    data = json.loads(last)
    assert (data["node"], len(data["replies"])) == ("come_back", 1)
    stored = Snapshot.from_json(last, m.ERRAND)
    assert stored.to_json() == last
    # There is no handler that could perform it.
    assert m.finish(m.ERRAND, stored).outcome == m.Home(("left", "back"))
    whole = drive_from_text(Script(m.SURVEY, m.Topics(("a", "b")), m.surveyors()))
    done = run(m.SURVEY, Snapshot.from_json(whole.texts[-1], m.SURVEY), **options_of(m.without_handlers()))
    assert (done.outcome, done.spent["tool_calls"]) == (whole.outcome, 2)


def test_crash_after_a_charge_is_counted() -> None:
    # After a crash during the call, the run resumes from the state before it; the attempt counts.
    limits = agent_limits(model_calls=3)
    snapshot = begin(m.PROMPTS, m.Prompt())
    for attempt in range(3):
        snapshot = m.reload(m.pending(m.PROMPTS, snapshot, limits).snapshot, m.PROMPTS).retried()
        assert snapshot.spent["model_calls"] == attempt + 1
    assert m.finish(m.PROMPTS, snapshot, limits).outcome == m.Stopped(m.Prompt(), Exhausted("model_calls", 3, 3))

    def failing(call: CallModel) -> ModelReply:
        raise OSError("the line is dead")

    value: Any = m.Prompt()
    crashing = make_run_context({CallModel: failing}, limits=agent_limits(model_calls=4))
    for _ in range(4):
        with pytest.raises(OSError, match="the line is dead") as caught:
            run(m.PROMPTS, value, **options_of(crashing))
        value = snapshot_of(caught.value)
    assert run(m.PROMPTS, value, **options_of(crashing)).outcome == m.Stopped(
        m.Prompt(), Exhausted("model_calls", 4, 4)
    )


@cases("driver", *LIVE)
@cases("limits", Limits(), Limits(seconds=1_000), Limits(seconds=7))
@cases(
    ("machine", "value", "effect"),
    (m.INTERVIEW, m.Topic("tea"), m.Question),
    (m.SURVEY, m.Topics(("a", "b")), CallTool),
)
def test_time_of_failed_calls_is_spent(driver: Driver, limits: Limits, machine: Any, value: Any, effect: type) -> None:
    clock = FakeClock(5_000_000.0)
    taken = 0.0
    errors = iter((OSError("down"), KeyboardInterrupt(), OSError("down"), SystemExit()))

    def answer(asked: Any) -> Any:
        nonlocal taken
        clock.advance(4.0)
        taken += 4.0
        if (error := next(errors, None)) is not None:
            raise error
        return "fine" if effect is m.Question else ToolResult("fine")

    context = RunContext(handlers_for({effect: answer}), limits, at_once=1, clock=clock)
    while True:
        try:
            result = driver(Script(machine, value, context))
        except (OSError, KeyboardInterrupt, SystemExit) as error:
            found = snapshot_of(error)
            assert found is not None
            assert found.spent.seconds == taken
            value = Snapshot.from_json(found.to_json(), machine)
            # The clock stands still in a pause.
            clock.advance(1_000.0)
        else:
            assert result.spent.seconds == taken
            return


def test_snapshot_is_plain_data() -> None:
    snapshot = Snapshot("interview", m.Topic("tea", 2), ("fine",), Spent(iterations=3, seconds=1.5))
    assert json.loads(snapshot.to_json()) == {
        "version": 2,
        "node": "interview",
        "value": {"class": "Topic", "data": {"name": "tea", "questions": 2}},
        "replies": [{"reply": {"class": "str", "data": "fine"}}],
        "spent": {"iterations": 3, "seconds": 1.5, "restarts": 0, "meters": {}},
        "entered": False,
        "open": [],
        "sequence": 0,
        "run": "",
    }
    text = m.pending(m.INTERVIEW, m.Topic("tea"), Limits(seconds=1)).cut(at=2.0).to_json()
    assert json.loads(text)["replies"] == [
        {"exhausted": {"limit": "seconds", "value": 1.0, "reached": 2.0, "wanted": 1, "outer": False}}
    ]
    assert Snapshot.from_json(text, m.INTERVIEW).replies == (Exhausted("seconds", 1, 2),)


GOOD = Snapshot("interview", m.Topic("tea")).to_json()


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(GOOD), **changes})


NO_SNAPSHOT = "this is not a snapshot: it needs node, value, replies and spent: "
NO_NODE = "the snapshot is at {}, which is not a node of this graph; resume it with its own graph"
UNFIT = "the snapshot at interview does not fit this graph: "


@cases(
    ("text", "says"),
    ("", f"{NO_SNAPSHOT}JSONDecodeError"),
    ("{", f"{NO_SNAPSHOT}JSONDecodeError"),
    ("null", f"{NO_SNAPSHOT}TypeError"),
    ("[]", f"{NO_SNAPSHOT}TypeError"),
    ('"text"', f"{NO_SNAPSHOT}TypeError"),
    ("{}", f"{NO_SNAPSHOT}KeyError('node')"),
    ('{"node": "interview", "value": {}, "replies": [], "spent": {}}', "this snapshot has version 1, but this"),
    (changed(version=3), "this snapshot has version 3, but this"),
    (changed(node="tick"), NO_NODE.format("tick")),
    (changed(node=[]), NO_NODE.format("[]")),
    (
        changed(value={"class": "Tick", "data": {}}),
        "the snapshot holds a Tick, which no edge of this graph carries; resume it with its own graph",
    ),
    (changed(value=None), UNFIT),
    (changed(value={"class": ["Topic"], "data": {}}), UNFIT),
    (changed(value={"class": "Topic"}), f"{UNFIT}'data'"),
    (changed(value={"class": "Topic", "data": {"name": 3}}), UNFIT),
    # Fields that were renamed, where the new one has a default.
    (
        changed(value={"class": "Topic", "data": {"name": "tea", "pages": 3}}),
        f"{UNFIT}pages is stored, and its class",
    ),
    (changed(replies=3), UNFIT),
    (changed(replies="abc"), UNFIT),
    (changed(replies=[{}]), f"{UNFIT}'reply'"),
    (changed(replies=[{"reply": 3}]), f"{UNFIT}3 is not a stored reply"),
    # Of an open call alone.
    (changed(replies=["paid"]), UNFIT),
    (changed(replies=[{"exhausted": {}}]), UNFIT),
    (changed(spent={"seconds": "x"}), UNFIT),
    (changed(spent=None), UNFIT),
)
def test_snapshot_of_another_graph_is_refused(text: str, says: str) -> None:
    assert m.error_message(SnapshotError, Snapshot.from_json, text, m.INTERVIEW).startswith(says)


@given(st.text() | st.binary().map(repr) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_garbage_raises_only_snapshot_errors(text: str) -> None:
    with pytest.raises(SnapshotError):
        Snapshot.from_json(text, m.INTERVIEW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["class", "data", "reply"]), inner),
    max_leaves=5,
)


@given(key=st.sampled_from(["node", "value", "replies", "spent"]), value=JSON)
def test_altered_snapshot_is_read_or_refused(key: str, value: object) -> None:
    try:
        snapshot = Snapshot.from_json(changed(**{key: value}), m.INTERVIEW)
    except SnapshotError:
        return
    # A snapshot that can be read can be resumed, or is refused when its reply is used.
    try:
        advance(m.INTERVIEW, snapshot, Limits())
    except SnapshotError:
        return


RESULT = {"observation": "a", "status": "ok", "return_direct": False}


@cases(
    ("machine", "value", "reply", "text"),
    (m.INTERVIEW, m.Topic("tea"), {"class": "str", "data": 3}, "a stored reply is not a reply to Question"),
    (m.INTERVIEW, m.Topic("tea"), {"class": "str", "data": None}, "a stored reply is not a reply to Question"),
    (m.SURVEY, m.Topics(("a", "b")), {"class": "tuple", "data": [RESULT]}, "a stored reply is not a reply to All"),
    (
        m.ERRAND,
        m.Errand(),
        {"class": "Nowhere", "data": {}},
        "the snapshot holds a Nowhere, which no edge of this graph carries",
    ),
)
def test_stored_reply_of_another_type_is_refused(machine: Any, value: object, reply: object, text: str) -> None:
    data = json.loads(m.pending(machine, value).snapshot.to_json())
    snapshot = Snapshot.from_json(json.dumps({**data, "replies": [{"reply": reply}]}), machine)
    assert text in m.error_message(SnapshotError, advance, machine, snapshot, Limits())


class Thing:
    pass


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


# pydantic cannot read its annotation.
LOST: Any = make_dataclass("Lost", [("where", "Nowhere")], frozen=True)


@cases("inside", Thing(), loop(), b"\xff", lambda: 1, {1: Thing()}, (Thing(),), LOST(1))
def test_value_without_a_json_form_is_refused(inside: Any) -> None:
    for value, replies in ((inside, ()), (m.Topic(inside), ()), (m.Topic("tea"), (inside,))):
        message = m.error_message(SnapshotError, Snapshot("interview", value, replies).to_json)
        assert "the state at interview cannot be stored as JSON: " in message


@cases("reply", "", "ü\n\x00", "9" * 1000)
def test_handler_may_reply_any_json_value(reply: str) -> None:
    context = make_run_context({m.Question: lambda _: reply})
    assert m.run_machine(m.INTERVIEW, m.Topic("tea", 1), context).outcome == m.Interview((reply,))
