"""Runs drawn over their machine: pictures show the path, and runs take only drawn edges."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.draw import Recorder, Recording, draw, picture_of, recording_of, save, timeline
from graphexec.draw.layout.placement import lay_out
from graphexec.draw.runs.overlay import overlay_runs
from graphexec.executor import (
    AGENT_EXECUTOR,
    STRICT_AGENT_EXECUTOR,
    Acted,
    LimitReached,
    dispatch_tools,
    limit_reached,
    parse,
    stopped_response,
)
from graphexec.messages import ModelReply, ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.runtime import report
from tests.counting import count_calls
from tests.kernel.machines import SELF_LOOP, Left
from tests.parameters import cases

CALL = "Look.\nAction: look_up\nAction Input: a"
DIRECT = "Direct.\nAction: announce\nAction Input: a"
BROKEN = "no action in sight"
FINISH = "Final Answer: 42"


@gx.tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"found {what}"


@gx.tool(return_direct=True)
def announce(what: str) -> str:
    """Return something to the user directly."""
    return what


TOOLS = [look_up, announce]


def executor(replies: list[str], **limits: Any) -> gx.AgentExecutor:
    model = ScriptedModel(replies, repeat_last=True)
    agent = gx.create_react_agent(model, TOOLS)
    return gx.AgentExecutor(agent=agent, tools=TOOLS, handle_parsing_errors=True, **limits)


def a_run() -> gx.RunResult:
    return executor([CALL, BROKEN, CALL, FINISH]).run("?")


def edges_of(picture: Any) -> set[tuple[str, str, str]]:
    return {(arrow.source, arrow.outcome, arrow.target) for arrow in picture.arrows}


@pytest.mark.medium
def test_random_runs_take_exactly_the_drawn_edges() -> None:
    chance = random.Random(5)
    taken: set[tuple[str, str, str]] = set()
    for _ in range(1_000):
        replies = chance.choices([CALL, DIRECT, BROKEN, FINISH], k=chance.randint(1, 4))
        some = executor(replies, max_iterations=chance.randint(0, 4), max_tool_calls=chance.choice([None, 0, 1]))
        events = some.stream("?")
        taken |= {
            (event.node, type(event.outcome).__name__, event.target) for event in events if isinstance(event, gx.Moved)
        }
    assert taken == edges_of(picture_of(AGENT_EXECUTOR))


def test_edges_list_their_step_numbers() -> None:
    shown = overlay_runs(picture_of(AGENT_EXECUTOR), [recording_of(a_run())])
    notes = {(arrow.source, arrow.outcome): arrow.notes for arrow in shown.arrows}
    assert notes["plan", "Replied"] == ("steps 1, 5, 7, 11",)
    assert notes["parse", "Acted"] == ("steps 2, 8",)
    assert notes["parse", "Ready"] == ("step 6",)
    assert notes["parse", "AgentFinish"] == ("step 12",)
    assert notes["plan", "LimitReached"] == ()
    heats = {(arrow.source, arrow.outcome): arrow.heat for arrow in shown.arrows}
    assert heats["plan", "Replied"] == 1
    assert heats["parse", "Acted"] == 0.5
    assert heats["plan", "LimitReached"] == 0
    assert shown.caption[0] == "Answer: 42"
    assert shown.caption[1].startswith("Answered after 4 model calls, 2 tool calls, 0 tokens, ")
    assert not any(box.current for box in shown.boxes)
    assert {box.name for box in shown.boxes if box.heat == 0} == {"stopped_response"}


def test_caption_names_the_limit() -> None:
    stopped = executor([CALL], max_iterations=2).run("?")
    shown = overlay_runs(picture_of(AGENT_EXECUTOR), [recording_of(stopped)])
    assert shown.caption[0].startswith("Stopped by the limit on iterations, after 2 model calls")


def test_unfinished_run_has_a_current_node() -> None:
    running = executor([CALL, FINISH])
    recorder = Recorder(running.verify())
    here: list[str] = []
    for event in running.stream("?"):
        recorder(event)
        shown = overlay_runs(recorder.recording.machine, [recorder.recording])
        here += [box.name for box in shown.boxes if box.current]
    assert list(dict.fromkeys(here)) == ["plan", "parse", "dispatch_tools", "check_return_direct"]


def test_failed_run_shows_its_last_node() -> None:
    failing = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), TOOLS), tools=TOOLS)
    recorder = Recorder(failing.verify())
    with pytest.raises(AssertionError, match="ScriptedModel") as caught:
        list(map(recorder, failing.stream("?")))
    recorder.failed(caught.value)
    shown = overlay_runs(recorder.recording.machine, [recorder.recording])
    assert shown.caption[0].startswith(f"Failed with {type(caught.value).__name__} after 1 model call")
    assert [box.name for box in shown.boxes if box.current] == ["plan"]


def test_failed_event_makes_the_result() -> None:
    recorders: list[Recorder] = []

    def record(event: gx.Event[Any]) -> None:
        recorders[0](event)

    model = ScriptedModel([CALL])
    failing = gx.AgentExecutor(agent=gx.create_react_agent(model, TOOLS), tools=TOOLS, observers=[record])
    recorders.append(Recorder(failing.verify(), inputs="?"))
    with pytest.raises(AssertionError, match="ScriptedModel") as caught:
        failing.run("?")
    assert recorders[0].records[-1] == recording_of(caught.value).records[-1]
    assert recorders[0].records[-1]["status"] == "error"


@cases(
    ("error", "status", "code"),
    [(KeyboardInterrupt(), "interrupted", 130), (GeneratorExit(), "interrupted", 130), (SystemExit(2), "error", 1)],
)
def test_failed_status_depends_on_the_error(error: BaseException, status: str, code: int) -> None:
    record = Recorder(AGENT_EXECUTOR)(gx.Failed(error, gx.Snapshot("plan", None)))
    assert (record["status"], record["exit_code"]) == (status, code)


def test_several_runs_make_a_heat_map() -> None:
    runs = [executor([CALL, FINISH]).run("?"), executor([FINISH]).run("?"), executor([CALL], max_iterations=1).run("?")]
    shown = overlay_runs(picture_of(AGENT_EXECUTOR), [recording_of(run) for run in runs])
    notes = {(arrow.source, arrow.outcome): arrow.notes for arrow in shown.arrows}
    assert notes["plan", "Replied"] == ("×4 in 3 of 3 runs",)
    assert notes["parse", "AgentFinish"] == ("×2 in 2 of 3 runs",)
    assert notes["parse", "Ready"] == ()
    assert shown.caption == ("3 runs: 2 answered, 1 stopped.",)
    assert shown.boxes[0].notes[0].startswith("×5")


def test_run_of_another_machine_is_refused() -> None:
    with pytest.raises(gx.InputError, match="the run took parse --Ready--> plan, which this machine does not have"):
        draw(STRICT_AGENT_EXECUTOR, "mermaid", runs=a_run())


def test_invalid_run_is_refused() -> None:
    nothing: Any = {"output": 42}
    with pytest.raises(gx.InputError, match="is not a run; pass the result"):
        draw(AGENT_EXECUTOR, "mermaid", runs=[nothing])
    whole = a_run()
    without = gx.RunResult(whole.ending, whole.steps, whole.spent, whole.limits)
    with pytest.raises(gx.InputError, match="has no journal"):
        draw(AGENT_EXECUTOR, "mermaid", runs=without)
    with pytest.raises(gx.InputError, match="has no journal"):
        without.draw("run.svg")


def test_result_journal_and_records_give_one_picture(tmp_path: Path) -> None:
    result = a_run()
    assert result.journal is not None
    recording = recording_of(result)
    read = Recording.from_json_lines(recording.to_json_lines())
    drawn = [draw(AGENT_EXECUTOR, "mermaid", runs=run) for run in (result, result.journal, recording, read)]
    assert len(set(drawn)) == 1
    file = result.draw(tmp_path / "run.mmd")
    assert "×4" in file.read_text(encoding="utf-8")


def test_run_of_a_machine_is_drawn_as_its_journal() -> None:
    done = SELF_LOOP.run(Left(3))
    assert done.journal is not None
    drawn = [draw(SELF_LOOP, "mermaid", runs=run) for run in (done, [done], done.journal)]
    assert len(set(drawn)) == 1
    forgotten = gx.advance(SELF_LOOP, gx.begin(SELF_LOOP, Left(3)), gx.Limits())
    assert isinstance(forgotten, gx.Done)
    with pytest.raises(gx.InputError, match="has no journal"):
        draw(SELF_LOOP, "mermaid", runs=forgotten)


def test_live_records_equal_replayed_records() -> None:
    watched = executor([CALL, BROKEN, DIRECT])
    recorder = Recorder(watched.verify(), inputs={"input": "?"})
    records = list(map(recorder, watched.stream("?")))
    followed = recording_of(executor([CALL, BROKEN, DIRECT]).run("?")).records
    assert len(records) == len(followed) - 1

    def timeless(record: dict[str, Any]) -> dict[str, Any]:
        spent = {"spent": {**record["spent"], "seconds": 0}} if "spent" in record else {}
        # Each run has an id of its own.
        call = {"call": {**record["call"], "run": "a run"}} if "call" in record else {}
        replies = [{**reply, "began": 0, "seconds": 0} for reply in record.get("replies", ())]
        answered = {"replies": replies} if replies else {}
        run = {"run": "a run"} if "run" in record else {}
        began = {"began": "then"} if record["event"] == "start" else {}
        return {**record, "seconds": 0, **spent, **call, **answered, **run, **began}

    assert [timeless(one) for one in recorder.records] == [timeless(one) for one in followed]


def test_records_contain_only_new_parts_of_prompts() -> None:
    records = recording_of(a_run()).records
    asked = [
        record["effects"][0]["prompt"] for record in records if record["event"] == "asked" and record["node"] == "plan"
    ]
    whole = ""
    for prompt in asked:
        (message,) = prompt["messages"]
        assert prompt["kept"] == 0
        whole = whole[: message.get("kept", 0)] + message["content"]
    assert whole.startswith("Answer the question")
    assert whole.count("Observation: found a") == 2
    assert "Observation: found a" in asked[1]["messages"][0]["content"]
    assert "Answer the question" not in asked[1]["messages"][0]["content"]


START = '{"event": "start", "machine": {"start": "a", "boxes": [{"name": "a", "look": "pure"}], "arrows": []}}\n'
ASKED = '{"event": "asked", "node": "a", "effects": '


@cases(
    ("text", "expected"),
    [
        ("", "do not begin with a start"),
        ('{"event": "moved"}\n', "do not begin with a start"),
        ("not JSON\n", "line 1 is not a record"),
        ('{"event": "start", "machine": {"start": "a"}}\n', "not the picture of a machine: boxes: Field required"),
        ('{"event": "start", "machine": 7}\n', "not the picture of a machine"),
        ("[1]\n", "line 1 is not a record"),
        ("[" * 100_000, "line 1 is not a record"),
        (START + ASKED + "[{}]}", "line 2 is not a valid record: asked.effects.0.effect: Field required"),
        (START + ASKED + '"x"}', "line 2 is not a valid record: asked.effects: Input should be a valid list"),
        (START + START, "these are records of several runs"),
        (
            '{"event": "start", "machine": {"start": "x", "boxes": [], "arrows": []}}',
            "names x, which is not one of its nodes",
        ),
        (
            START + '{"event": "moved", "node": "plan"}',
            "line 2 is not a valid record: moved.outcome: Field required",
        ),
        (START + '\n{"event": "asked"}\n', "line 3 is not a valid record: asked.node: Field required"),
    ],
)
def test_invalid_records_give_a_one_line_error(text: str, expected: str) -> None:
    with pytest.raises(gx.InputError, match=expected) as caught:
        Recording.from_json_lines(text)
    assert "\n" not in str(caught.value)


def test_proof_must_have_the_limits_of_the_run(tmp_path: Path) -> None:
    long = executor([CALL] * 20 + [FINISH], max_iterations=100).run("?")
    short = executor([FINISH], max_iterations=2).run("?")
    drawn = AGENT_EXECUTOR.draw(tmp_path / "run.txt", runs=long).read_text(encoding="utf-8")
    assert "costs 1 of 100 iterations" in drawn
    assert "at most 402 transitions" in drawn
    both = AGENT_EXECUTOR.draw(tmp_path / "runs.txt", runs=[long, short]).read_text(encoding="utf-8")
    assert "Proved" not in both
    assert "costs an iteration" in both
    assert "Proved" not in executor([FINISH]).draw(tmp_path / "other.txt", runs=long).read_text(encoding="utf-8")
    assert "at most 14 transitions" in AGENT_EXECUTOR.draw(
        tmp_path / "given.txt", runs=executor([FINISH], max_iterations=3).run("?"), limits=gx.Limits(iterations=3)
    ).read_text(encoding="utf-8")


def test_failed_run_is_drawn_from_its_exception() -> None:
    model = ScriptedModel([CALL])
    failing = gx.AgentExecutor(agent=gx.create_react_agent(model, TOOLS), tools=TOOLS)
    with pytest.raises(AssertionError) as caught:
        failing.run("?")
    records = recording_of(caught.value).records
    assert [record["node"] for record in records if record["event"] == "moved"][:3] == [
        "plan",
        "parse",
        "dispatch_tools",
    ]
    assert records[-1]["status"] == "error"
    assert records[-1]["spent"]["model_calls"] == 2
    assert "Failed with AssertionError after 2 model calls" in draw(failing.verify(), "text", runs=caught.value)
    assert "error" in timeline(caught.value)


def test_replay_repeats_an_exception_of_a_node() -> None:
    agent = gx.create_react_agent(ScriptedModel([BROKEN]), TOOLS)
    with pytest.raises(gx.ParseError) as caught:
        gx.AgentExecutor(agent=agent, tools=TOOLS).run("?")
    records = recording_of(caught.value).records
    assert [record["event"] for record in records] == [
        "start",
        *["entered", "asked", "answered", "moved", "entered", "failed", "result"],
    ]
    failed, result = records[-2:]
    assert (failed["node"], "call" in failed) == ("parse", False)
    assert failed["error"] == result["error"]
    with pytest.raises(gx.InputError, match="KeyError did not end a run; pass an exception that did"):
        recording_of(KeyError("x"))


@pytest.mark.medium
def test_recording_a_run_takes_calls_in_proportion() -> None:
    def cost(iterations: int) -> tuple[int, int]:
        replies = [ModelReply("", (ToolCall("call", "look_up", '{"what": "x"}'),))] * iterations
        agent = gx.create_tool_calling_agent(ScriptedModel([*replies, "done"]), TOOLS)
        result = gx.AgentExecutor(agent=agent, tools=TOOLS, max_iterations=iterations + 1).run("?")
        # Before the calls are counted: the first recording of a run may prove its machine.
        size = len(recording_of(result).to_json_lines())
        return count_calls(lambda: recording_of(result)), size

    (calls, size), (more_calls, larger_size) = cost(300), cost(1200)
    assert more_calls <= 4 * calls
    # The numbers of the records have more digits.
    assert larger_size < 4.1 * size


def test_records_grow_linearly_with_fan_out() -> None:
    def size(width: int) -> int:
        calls = tuple(ToolCall(f"call_{number}", "look_up", '{"what": "x"}') for number in range(width))
        model = ScriptedModel([ModelReply("", calls), "done"])
        wide = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, TOOLS), tools=TOOLS)
        return len(recording_of(wide.run("?")).to_json_lines())

    small, large = size(20), size(80)
    assert large < 4 * small


def test_reports_do_not_repeat_inputs() -> None:
    @gx.tool
    def talkative(text: str) -> str:
        """Report."""
        report("at it")
        return "done"

    model = ScriptedModel([f"Go.\nAction: talkative\nAction Input: {'x' * 1000}", FINISH])
    busy = gx.AgentExecutor(agent=gx.create_react_agent(model, [talkative]), tools=[talkative])
    recorder = Recorder(busy.verify())
    list(map(recorder, busy.stream("?")))
    (reported,) = [record for record in recorder.records if record["event"] == "reported"]
    assert reported["effects"] == [{"effect": "CallTool", "tool": "talkative"}]


class Sullen:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD = {
    "a long number": 10**5000,
    "a long number in a list": [10**5000],
    "no repr": Sullen(),
    "no repr in a list": [Sullen()],
    "not a number": float("nan"),
    "depth": nested(5000),
    "bytes": b"\xff",
    "a set in a dict": {1: {2}},
}


@cases("what", ODD)
def test_any_tool_result_can_be_recorded(what: str) -> None:
    odd = ODD[what]

    @gx.tool(return_direct=True)
    def give(it: str) -> Any:
        """Give it."""
        return odd

    model = ScriptedModel(["Go.\nAction: give\nAction Input: x"])
    result = gx.AgentExecutor(agent=gx.create_react_agent(model, [give]), tools=[give]).run("?")
    recording = recording_of(result)
    assert Recording.from_json_lines(recording.to_json_lines()).result is not None
    assert timeline(recording)


def test_any_input_can_be_recorded() -> None:
    recorder = Recorder(AGENT_EXECUTOR, inputs={"chat_history": [UserMessage("hi")], "odd": Sullen()})
    assert "hi" in recorder.recording.to_json_lines()


def test_recorder_accepts_one_run_only() -> None:
    one = executor([FINISH])
    recorder = Recorder(one.verify())
    list(map(recorder, one.stream("?")))
    with pytest.raises(gx.InputError, match="already has the result of a run; make a Recorder for each run"):
        list(map(recorder, executor([FINISH]).stream("?")))
    with pytest.raises(gx.InputError, match="a verdict has limits of its own"):
        Recorder(one.verify(), limits=gx.Limits())
    executors: Any = one
    with pytest.raises(gx.InputError, match=r"is not a graph; write Recorder\(executor.verify\(\)\)"):
        Recorder(executors)


def test_invalid_subject_gives_a_one_line_error() -> None:
    wrong: Any = executor([FINISH])
    with pytest.raises(gx.InputError, match=r"is not a graph; write draw\(executor.verify\(\), ...\)"):
        draw(wrong, "svg")
    blue: Any = {AGENT_EXECUTOR.edges[0]: "blue"}
    with pytest.raises(gx.InputError, match="plan --Replied--> parse is marked 'blue'; use one of red, orange, grey"):
        draw(AGENT_EXECUTOR, "svg", marks=blue)


def test_result_can_be_pickled_and_copied() -> None:
    result = a_run()
    again = pickle.loads(pickle.dumps(result))
    assert (again, again.journal) == (result, None)
    assert copy.deepcopy(result) == result
    assert dataclasses.asdict(result)["ending"]["return_values"] == {"output": "42"}


def test_suffix_sets_the_format(tmp_path: Path) -> None:
    for suffix, begins in ((".mmd", "---\ntitle"), (".dot", "digraph"), (".svg", "<svg"), (".md", "|"), (".txt", "")):
        file = AGENT_EXECUTOR.draw(tmp_path / f"flow{suffix}")
        assert file.read_text(encoding="utf-8").startswith(begins), suffix
    assert save(AGENT_EXECUTOR, tmp_path / "flow", format="dot").read_text(encoding="utf-8").startswith("digraph")
    assert AGENT_EXECUTOR.draw(tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG\r\n")
    with pytest.raises(gx.InputError, match=r"the suffix .jpeg of flow.jpeg is unknown; use one of .mmd"):
        AGENT_EXECUTOR.draw(tmp_path / "flow.jpeg")
    with pytest.raises(gx.InputError, match="flow has no suffix; use one of"):
        AGENT_EXECUTOR.draw(tmp_path / "flow")


def test_executor_draws_its_own_limits(tmp_path: Path) -> None:
    file = executor([FINISH], max_iterations=3).draw(tmp_path / "flow.mmd")
    assert "14 transitions (4*iterations + 2)" in file.read_text(encoding="utf-8")
    file = AGENT_EXECUTOR.draw(tmp_path / "flow.mmd", limits=gx.Limits(iterations=2))
    assert "10 transitions (4*iterations + 2)" in file.read_text(encoding="utf-8")


def test_unknown_format_suggests_the_nearest() -> None:
    with pytest.raises(gx.InputError, match="cannot be drawn as mermaids; did you mean mermaid"):
        format(AGENT_EXECUTOR, "mermaids")
    with pytest.raises(gx.InputError, match="cannot be drawn as jpeg; there are mermaid, mermaid-state, dot"):
        draw(AGENT_EXECUTOR, "jpeg")
    with pytest.raises(gx.InputError, match="a PNG is binary"):
        format(AGENT_EXECUTOR, "png")


def shown_in_a_notebook() -> dict[str, str]:
    # The method that a notebook calls.
    bundle: dict[str, str] = getattr(AGENT_EXECUTOR, "_repr_mimebundle_")(include=None, exclude=None)  # noqa: B009
    return bundle


def test_notebook_shows_the_picture() -> None:
    bundle = shown_in_a_notebook()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == repr(AGENT_EXECUTOR)


def test_notebook_falls_back_to_mermaid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lay_out.cache_clear()
    for name in ("pygraphviz", "resvg_py"):
        monkeypatch.setitem(sys.modules, name, None)
    assert shown_in_a_notebook()["text/vnd.mermaid"].startswith("---")
    with pytest.raises(gx.InputError, match=r"pygraphviz, which is missing; pip install 'graphexec-agents\[draw\]'"):
        format(AGENT_EXECUTOR, "svg")


def test_questions_and_own_effects_are_recorded() -> None:
    @final
    @dataclass(frozen=True)
    class Measure(gx.Effect[float]):
        place: str

    @gx.charged(when_spent=limit_reached)
    @gx.node
    def approve(acted: Acted) -> gx.Asks[gx.AskHuman | Measure, Acted]:
        yield from gx.ask(gx.AskHuman("May I?"))
        yield from gx.ask(Measure("here"))
        return acted

    model = ScriptedModel([CALL, FINISH])
    plain = gx.AgentExecutor(
        agent=gx.create_react_agent(model, TOOLS),
        tools=TOOLS,
        handlers={gx.AskHuman: lambda asked: "yes", Measure: lambda asked: 21.5},
    )
    rows = gx.edges(approve, gx.on(Acted, dispatch_tools) | gx.on(LimitReached, stopped_response))
    result = plain.with_graph(gx.splice(plain.graph, rows, after=parse, on=Acted)).run("?")
    records = [record for record in recording_of(result).records if record.get("node") == "approve"]
    assert [record["effects"] for record in records if record["event"] == "asked"] == [
        [{"effect": "AskHuman", "question": "May I?"}],
        [{"effect": "Measure", "value": {"place": "here"}}],
    ]
    replies = [reply for record in records if record["event"] == "answered" for reply in record["replies"]]
    assert [(reply["effect"], reply["value"]) for reply in replies] == [("AskHuman", "yes"), ("Measure", 21.5)]
