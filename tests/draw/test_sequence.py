"""A sequence diagram shows each request and reply of a run once, in order."""

import re
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from graphexec import Asked, AskHuman, Effect, Entered, Limits, Reported, Spent, draw, executor, kernel
from graphexec.draw.model.text import sanitize_line
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import format_effect, format_reply
from graphexec.effects import CallTool, ToolResult
from tests.draw import recorded
from tests.draw.readers import Message, read_sequence
from tests.parameters import cases, read_tables


def key_of(record: Record) -> tuple[int, int]:
    return record["call"]["sequence"], record["call"]["member"]


def expected(recording: draw.Recording) -> list[Message]:
    """Return the messages of the records: each call with its reply, in the order of the request."""
    messages = [Message("User", "Agent", "call")]
    asked = {key_of(one): one["effects"][0] for one in recording.records if one["event"] == "asked"}
    replies = {key_of(one): one["replies"][0] for one in recording.records if one["event"] == "answered"}
    for key, effect in sorted(asked.items()):
        name = str(effect["tool"]) if effect["effect"] == "CallTool" else "Model"
        messages.append(Message("Agent", name, "call"))
        if key in replies:
            reply = replies[key]
            cut = isinstance(reply.get("value"), dict) and "limit" in reply["value"]
            wrong = cut or reply.get("status", "ok") != "ok"
            messages.append(Message(name, "Agent", "failure" if wrong else "reply"))
    if recording.result is not None:
        messages.append(Message("Agent", "User", "reply" if recording.result["status"] == "answered" else "failure"))
    return messages


@given(recorded.recordings(), st.integers(0, 60))
def test_each_call_and_reply_appears_once_in_order(recording: draw.Recording, records: int) -> None:
    for run in (recording, recorded.truncate_run(recording, records)):
        assert [message for message, _ in read_sequence(draw.sequence_mermaid(run))] == expected(run)


def test_a_conversation_as_mermaid() -> None:
    assert draw.sequence_mermaid(recorded.sample_conversation()) == read_tables(__file__)["conversation"]


@dataclass(frozen=True)
class Measure(Effect[float]):
    """A custom effect."""

    place: str


def test_participants_are_ordered_by_role() -> None:
    own = kernel.Perform("tidy", str, "x")
    run = recorded.record_events(
        *recorded.asked_and_answered(own, "x", node="tidy"),
        *recorded.asked_and_answered(Measure("here"), 21.5),
        *recorded.asked_and_answered(AskHuman("May I?"), "yes"),
        *recorded.asked_and_answered(CallTool("look_up", "Porto"), ToolResult({"people": 248_769})),
    )
    drawn = draw.sequence_mermaid(run)
    names = ["User", "Agent", "look_up<br/>tool", "Person", "World", "tidy<br/>function"]
    assert re.findall(r"(?:actor|participant) p\d as (.*)", drawn) == names
    assert [lines for _, lines in read_sequence(drawn)[1:]] == [
        *(("run",), ("x", "2.00 s")),
        *(('Measure(place="here")',), ("21.5", "2.00 s")),
        *(("May I?",), ("yes", "2.00 s")),
        *(('look_up("Porto")',), ('{"people": 248769}', "2.00 s")),
    ]
    assert re.findall("Note over .*", drawn) == ["Note over p1: still running"]


def test_only_concurrent_calls_are_drawn_in_parallel() -> None:
    cut = kernel.Exhausted("seconds", 3.0, 3.0)
    both = [(CallTool("echo", one), cut, 3.0) for one in "ab"]
    drawn = draw.sequence_mermaid(recorded.record_events(*recorded.asked_together(*both)))
    _, *messages = read_sequence(drawn)
    assert (drawn.count("par "), [one.kind for one, _ in messages]) == (1, ["call", "failure"] * 2)
    assert {lines for _, lines in messages[1::2]} == {("the limit of 3 seconds was reached (3 spent)", "cut, 3.00 s")}
    calls = [(CallTool("echo", one), ToolResult(one), seconds) for one, seconds in (("a", 0.02), ("b", 0.5))]
    drawn = draw.sequence_mermaid(recorded.record_events(*recorded.asked_together(*calls, in_turn=True)))
    assert "par " not in drawn
    assert [lines for _, lines in read_sequence(drawn)[2::2]] == [("a", "20 ms"), ("b", "0.50 s")]


def test_failed_run_reports_the_error_to_the_user() -> None:
    recorder = draw.Recorder(executor.AGENT_EXECUTOR, limits=Limits(), inputs="q")
    recorder(Entered("plan", None, Spent()))
    recorder(Asked("plan", CallTool("echo", "a")))
    recorder.failed(ValueError("<b>no</b>"))
    *_, (call, _), (last, lines) = read_sequence(draw.sequence_mermaid(recorder.recording))
    assert (call.kind, last.kind, last.target) == ("call", "failure", "User")
    assert lines[0] == "ValueError: <b>no</b>"


@cases(
    "text",
    "<script>alert(1)</script>",
    "]]> --> </svg> & &lt; &#0;",
    "end\npar x\nNote over p0: y",
    "p0->>p1: z; activate p1 #59; %%{init: {}}%%",
    "wrap: $$x$$ \\n `code`",
    "\u202eright-to-left\u202c שלום \x1b[31m\x00\x07\u2028",
    "🎉👩\u200d👩\u200d👧 x" * 10_000,
    "",
)
def test_hostile_text_is_escaped(text: str) -> None:
    run = recorded.record_events(
        *recorded.asked_and_answered(CallTool(text, {text: text}), ToolResult(text)),
        *recorded.asked_and_answered(AskHuman(text), text),
        *recorded.asked_and_answered(Measure(text), 1.0),
        Reported("dispatch_tools", Measure(text), text),
        given=text,
        model=text,
        agent=text,
    )
    mermaid = draw.sequence_mermaid(run)
    messages = read_sequence(mermaid)
    assert [one.kind for one, _ in messages] == ["call", *("call", "reply") * 3]
    assert not any(one < " " or one in "\u202e\u2028" for one in mermaid.replace("\n", ""))
    assert all(len(line) <= 60 for _, lines in messages for line in lines)


def test_label_shows_last_whole_words_of_a_prompt() -> None:
    content = "You are an agent. Question: how many people live here?"
    prompt = {"kept": 0, "messages": [{"role": "user", "content": content}]}
    assert format_effect({"effect": "CallModel", "prompt": prompt}, 30) == "…how many people live here?"


@given(st.text(), st.integers(2, 80))
def test_labels_respect_the_maximum_length(text: str, most: int) -> None:
    effects: list[Record] = [
        {"effect": "CallTool", "tool": text, "tool_input": {text: text}},
        {"effect": "AskHuman", "question": text},
        {"effect": "CallModel", "prompt": {"kept": 0, "messages": [{"role": "user", "content": text}]}},
        {"effect": "CallModel", "prompt": {"kept": 0, "messages": [{"role": "tool", "content": text}] * 3}},
        {"effect": text, "value": text},
    ]
    replies: list[Record] = [
        {"effect": "CallTool", "status": "ok", "observation": [text]},
        {"effect": "CallModel", "content": text, "tool_calls": []},
        {"effect": "CallModel", "content": "", "tool_calls": [{"name": text, "arguments": text}] * 4},
        {"effect": "CallAgent", "value": {"decision": {"return_values": {"output": text}}}},
        {"effect": "CallAgent", "value": {"decision": [{"tool": text, "tool_input": text}] * 3}},
    ]
    room = max(most, 24)
    for line in (*(format_effect(one, room) for one in effects), *(format_reply(one, room) for one in replies)):
        assert len(line) <= room
        assert sanitize_line(line) == line
