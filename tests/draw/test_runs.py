"""Runs drawn over their machine: pictures show the path, and runs take only drawn edges."""

import copy
import dataclasses
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import pytest

import graphexec as gx
from graphexec import executor as machine
from graphexec import messages, models, runtime
from graphexec.draw import Picture, Recorder, Recording, draw, picture_of, recording_of, save
from graphexec.draw.runs.overlay import overlay_runs
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from tests.counting import count_calls
from tests.draw.recorded import Sullen, nested, timeless
from tests.executor.actors import caller_of, make_react
from tests.kernel.machines import SELF_LOOP, Left, check_refusal
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


react = partial(make_react, tools=TOOLS)


def executor(replies: list[str], **limits: Any) -> gx.AgentExecutor:
    agent = gx.create_react_agent(models.ScriptedModel(replies, repeat_last=True), TOOLS)
    return gx.AgentExecutor(agent=agent, tools=TOOLS, handle_parsing_errors=True, **limits)


def calling(*replies: messages.ModelReply, **options: Any) -> gx.AgentExecutor:
    return caller_of(models.ScriptedModel([*replies, "done"]), *TOOLS, **options)


def a_run() -> gx.RunResult:
    return executor([CALL, BROKEN, CALL, FINISH]).run("?")


def shown_over(*runs: gx.RunResult) -> Picture:
    return overlay_runs(picture_of(AGENT_EXECUTOR), [recording_of(run) for run in runs])


def notes_in(picture: Picture) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(arrow.source, arrow.outcome): arrow.notes for arrow in picture.arrows}


@pytest.mark.medium
def test_random_runs_take_exactly_the_drawn_edges() -> None:
    chance = random.Random(5)
    taken: set[tuple[str, str, str]] = set()
    for _ in range(1_000):
        replies = chance.choices([CALL, DIRECT, BROKEN, FINISH], k=chance.randint(1, 4))
        some = executor(replies, max_iterations=chance.randint(0, 4), max_tool_calls=chance.choice([None, 0, 1]))
        moves = [event for event in some.stream("?") if isinstance(event, gx.Moved)]
        taken |= {(event.node, type(event.outcome).__name__, event.target) for event in moves}
    assert taken == {(arrow.source, arrow.outcome, arrow.target) for arrow in picture_of(AGENT_EXECUTOR).arrows}


def test_edges_list_their_step_numbers() -> None:
    shown = shown_over(a_run())
    assert notes_in(shown).items() >= {
        (("plan", "Replied"), ("steps 1, 5, 7, 11",)),
        (("parse", "Acted"), ("steps 2, 8",)),
        (("parse", "Ready"), ("step 6",)),
        (("parse", "AgentFinish"), ("step 12",)),
        (("plan", "Stopped"), ()),
    }
    assert all(arrow.taken == bool(arrow.notes) for arrow in shown.arrows)
    assert shown.caption[0] == "Answer: 42"
    assert shown.caption[1].startswith("Answered after 4 model calls, 2 tool calls, 0 tokens, ")
    assert not any(box.current for box in shown.boxes)
    assert {box.name for box in shown.boxes if not box.taken} == {"stopped_response"}


def test_runs_are_counted_and_have_a_current_node() -> None:
    stopped = executor([CALL], max_iterations=1).run("?")
    caption = shown_over(stopped).caption
    assert caption[0].startswith("Stopped by the limit on iterations, after 1 model call")
    shown = shown_over(executor([CALL, FINISH]).run("?"), executor([FINISH]).run("?"), stopped)
    assert notes_in(shown)["plan", "Replied"] == ("×4",)
    assert notes_in(shown)["parse", "AgentFinish"] == ("×2",)
    assert notes_in(shown)["parse", "Ready"] == ()
    assert shown.caption == ("3 runs: 2 answered, 1 stopped.",)
    assert shown.boxes[0].notes == ("×5",)
    running = executor([CALL, FINISH])
    recorder = Recorder(running.verify())
    here: list[str] = []
    for event in running.stream("?"):
        recorder(event)
        shown = overlay_runs(recorder.recording.machine, [recorder.recording])
        here += [box.name for box in shown.boxes if box.current]
    assert list(dict.fromkeys(here)) == ["plan", "parse", "dispatch_tools", "check_return_direct"]


def test_failed_run_is_recorded_by_its_observer_and_its_exception() -> None:
    recorders: list[Recorder] = []

    def record(event: gx.Event[Any]) -> None:
        recorders[0](event)

    failing = react(CALL, observers=[record])
    recorders.append(Recorder(failing.verify(), inputs="?"))
    with pytest.raises(AssertionError, match="ScriptedModel") as caught:
        failing.run("?")
    records = recording_of(caught.value).records
    assert records[-1] == recorders[0].records[-1]
    assert (records[-1]["status"], records[-1]["spent"]["model_calls"]) == ("error", 2)
    moved = [record["node"] for record in records if record["event"] == "moved"]
    assert moved[:3] == ["plan", "parse", "dispatch_tools"]
    assert "Failed with AssertionError after 2 model calls" in draw(failing.verify(), "text", runs=caught.value)
    shown = overlay_runs(recorders[0].recording.machine, [recorders[0].recording])
    assert shown.caption[0].startswith("Failed with AssertionError after 2 model calls")
    assert [box.name for box in shown.boxes if box.current] == ["plan"]
    # A recorder may be told of the error.
    recorder = Recorder(failing.verify())
    with pytest.raises(AssertionError, match="ScriptedModel") as caught:
        list(map(recorder, react().stream("?")))
    recorder.failed(caught.value)
    shown = overlay_runs(recorder.recording.machine, [recorder.recording])
    assert shown.caption[0].startswith("Failed with AssertionError after 1 model call")


@cases(
    "error, status, code",
    (KeyboardInterrupt(), "interrupted", 130),
    (GeneratorExit(), "interrupted", 130),
    (SystemExit(2), "error", 1),
)
def test_failed_status_depends_on_the_error(error: BaseException, status: str, code: int) -> None:
    record = Recorder(AGENT_EXECUTOR)(gx.Failed(error, gx.Snapshot("plan", None)))
    assert (record["status"], record["exit_code"]) == (status, code)


def test_replay_repeats_an_exception_of_a_node() -> None:
    with pytest.raises(gx.ParseError) as caught:
        react(BROKEN).run("?")
    records = recording_of(caught.value).records
    events = ["start", "entered", "asked", "answered", "moved", "entered", "failed", "result"]
    assert [record["event"] for record in records] == events
    failed, result = records[-2:]
    assert (failed["node"], "call" in failed) == ("parse", False)
    assert failed["error"] == result["error"]


def without_journal() -> gx.RunResult:
    whole = a_run()
    return gx.RunResult(whole.ending, whole.steps, whole.spent, whole.limits)


def forgotten() -> Any:
    done = gx.advance(SELF_LOOP, gx.begin(SELF_LOOP, Left(3)), gx.Limits())
    assert isinstance(done, gx.Done)
    return done


def over(runs: list[Any] | Callable[[], Any], graph: Any = AGENT_EXECUTOR) -> Callable[[Path], object]:
    return lambda folder: draw(graph, "mermaid", runs=runs() if callable(runs) else runs)


def record_twice() -> None:
    recorder = Recorder(WRONG.verify())
    for _ in range(2):
        list(map(recorder, executor([FINISH]).stream("?")))


WRONG: Any = executor([FINISH])
BLUE: Any = {AGENT_EXECUTOR.edges[0]: "blue"}
REFUSED: list[tuple[Callable[[Path], object], list[str]]] = [
    (over(a_run, agent_graph(strict=True)), ["took parse --Ready--> plan, which this machine does not have"]),
    (over([{"output": 42}]), ["is not a run", "pass the result"]),
    (over(without_journal), ["has no journal"]),
    (over(forgotten, SELF_LOOP), ["has no journal"]),
    (lambda _: without_journal().draw("run.svg"), ["has no journal"]),
    (lambda _: recording_of(KeyError("x")), ["KeyError did not end a run", "pass an exception that did"]),
    (lambda _: draw(WRONG, "svg"), ["is not a graph", "write draw(executor.verify(), ...)"]),
    (lambda _: draw(AGENT_EXECUTOR, "svg", marks=BLUE), ["plan --Replied--> parse", "'blue'", "red, orange, grey"]),
    (lambda _: Recorder(WRONG), ["is not a graph", "write Recorder(executor.verify())"]),
    (lambda _: record_twice(), ["already has the result of a run", "make a Recorder for each run"]),
    (lambda _: format(AGENT_EXECUTOR, "mermaids"), ["cannot be drawn as mermaids", "did you mean mermaid"]),
    (lambda _: draw(AGENT_EXECUTOR, "jpeg"), ["cannot be drawn as jpeg", "mermaid, dot"]),
    (lambda _: format(AGENT_EXECUTOR, "png"), ["a PNG is binary"]),
    (lambda folder: AGENT_EXECUTOR.draw(folder / "flow.jpeg"), ["suffix .jpeg of flow.jpeg", "use one of .mmd"]),
    (lambda folder: AGENT_EXECUTOR.draw(folder / "flow"), ["flow has no suffix", "use one of"]),
]


@cases("call, facts", *REFUSED)
def test_wrong_call_is_refused(call: Callable[[Path], object], facts: list[str], tmp_path: Path) -> None:
    check_refusal(gx.InputError, facts, call, tmp_path)


BOX = '{"name": "a", "look": "pure"}'
START = '{"event": "start", "version": 2, "machine": {"start": "a", "boxes": [' + BOX + '], "arrows": []}}\n'
ASKED = '{"event": "asked", "node": "a", "effects": '
UNKNOWN = '{"event": "start", "version": 2, "machine": {"start": "x", "boxes": [], "arrows": []}}'


@cases(
    "text, expected",
    ("", "do not begin with a start"),
    ('{"event": "moved"}\n', "do not begin with a start"),
    ("not JSON\n", "line 1 is not a record"),
    ('{"event": "start", "version": 2, "machine": {"start": "a"}}\n', "picture of a machine: boxes: Field required"),
    ('{"event": "start", "version": 2, "machine": 7}\n', "not the picture of a machine"),
    (START.replace("2", "4"), "line 1 has version 4 of the records; this graphexec reads 2; record the run again"),
    ('{"event": "start"}\n', "line 1 has version None of the records"),
    ("[1]\n", "line 1 is not a record"),
    ("[" * 100_000, "line 1 is not a record"),
    (START + ASKED + "[{}]}", "line 2 is not a valid record: asked.effects.0.effect: Field required"),
    (START + ASKED + '"x"}', "line 2 is not a valid record: asked.effects: Input should be a valid list"),
    (START + START, "these are records of several runs"),
    (UNKNOWN, "names x, which is not one of its nodes"),
    (START + '{"event": "moved", "node": "plan"}', "line 2 is not a valid record: moved.outcome: Field required"),
    (START + '\n{"event": "asked"}\n', "line 3 is not a valid record: asked.node: Field required"),
)
def test_invalid_records_give_a_one_line_error(text: str, expected: str) -> None:
    with pytest.raises(gx.InputError, match=expected) as caught:
        Recording.from_json_lines(text)
    assert "\n" not in str(caught.value)


def test_results_journals_and_records_give_one_picture(tmp_path: Path) -> None:
    result = a_run()
    assert result.journal is not None
    recording = recording_of(result)
    read = Recording.from_json_lines(recording.to_json_lines())
    drawn = [draw(AGENT_EXECUTOR, "mermaid", runs=run) for run in (result, result.journal, recording, read)]
    assert len(set(drawn)) == 1
    file = result.draw(tmp_path / "run.mmd")
    assert "×4" in file.read_text(encoding="utf-8")
    done = SELF_LOOP.run(Left(3))
    assert done.journal is not None
    assert len({draw(SELF_LOOP, "mermaid", runs=run) for run in (done, done.journal)}) == 1
    assert draw(SELF_LOOP, "mermaid", runs=[done]) == draw(SELF_LOOP, "mermaid", runs=done)
    # A result can be pickled and copied.
    again = pickle.loads(pickle.dumps(result))
    assert (again, again.journal) == (result, None)
    assert copy.deepcopy(result) == result
    assert dataclasses.asdict(result)["ending"]["return_values"] == {"output": "42"}


def test_live_records_equal_replayed_records() -> None:
    watched = executor([CALL, BROKEN, DIRECT])
    recorder = Recorder(watched.verify(), inputs={"input": "?"})
    records = list(map(recorder, watched.stream("?")))
    followed = recording_of(executor([CALL, BROKEN, DIRECT]).run("?")).records
    assert len(records) == len(followed) - 1
    assert timeless(list(recorder.records)) == timeless(list(followed))


def test_records_repeat_no_prompts_and_inputs() -> None:
    records = recording_of(a_run()).records
    asked = [record for record in records if record["event"] == "asked" and record["node"] == "plan"]
    whole = ""
    for record in asked:
        prompt = record["effects"][0]["prompt"]
        (message,) = prompt["messages"]
        assert prompt["kept"] == 0
        whole = whole[: message.get("kept", 0)] + message["content"]
    assert whole.startswith("Answer the question")
    assert whole.count("Observation: found a") == 2
    second = asked[1]["effects"][0]["prompt"]["messages"][0]["content"]
    assert ("Observation: found a" in second, "Answer the question" in second) == (True, False)

    # Reports do not repeat inputs.
    @gx.tool
    def talkative(text: str) -> str:
        """Report."""
        runtime.report("at it")
        return "done"

    busy = react(f"Go.\nAction: talkative\nAction Input: {'x' * 1000}", FINISH, tools=[talkative])
    recorder = Recorder(busy.verify())
    list(map(recorder, busy.stream("?")))
    (reported,) = [record for record in recorder.records if record["event"] == "reported"]
    assert reported["effects"] == [{"effect": "CallTool", "tool": "talkative"}]


@pytest.mark.medium
def test_recording_a_run_takes_calls_in_proportion() -> None:
    def cost(iterations: int) -> tuple[int, int]:
        replies = [messages.ModelReply("", (messages.ToolCall("call", "look_up", '{"what": "x"}'),))] * iterations
        result = calling(*replies, max_iterations=iterations + 1).run("?")
        # Before the calls are counted: the first recording of a run may prove its machine.
        size = len(recording_of(result).to_json_lines())
        return count_calls(lambda: recording_of(result)), size

    (calls, size), (more_calls, larger_size) = cost(300), cost(1200)
    assert more_calls <= 4 * calls
    # The numbers of the records have more digits.
    assert larger_size < 4.1 * size


def test_records_grow_linearly_with_fan_out() -> None:
    def size(width: int) -> int:
        calls = tuple(messages.ToolCall(f"call_{number}", "look_up", '{"what": "x"}') for number in range(width))
        return len(recording_of(calling(messages.ModelReply("", calls)).run("?")).to_json_lines())

    assert size(80) < 4 * size(20)


@cases("odd", 10**5000, [10**5000], Sullen(), [Sullen()], float("nan"), nested(5000, []), b"\xff", {1: {2}})
def test_any_tool_result_can_be_recorded(odd: object) -> None:
    @gx.tool(return_direct=True)
    def give(it: str) -> Any:
        """Give it."""
        return odd

    recording = recording_of(react("Go.\nAction: give\nAction Input: x", tools=[give]).run("?"))
    assert Recording.from_json_lines(recording.to_json_lines()).result is not None
    assert draw(recording.machine, "text", runs=recording)
    recorder = Recorder(AGENT_EXECUTOR, inputs={"chat_history": [messages.UserMessage("hi")], "odd": Sullen()})
    assert "hi" in recorder.recording.to_json_lines()


def test_questions_and_own_effects_are_recorded() -> None:
    @final
    @dataclass(frozen=True)
    class Measure(gx.Effect[float]):
        place: str

    @gx.node(when_spent=machine.limit_reached)
    def approve(acted: machine.Acted) -> gx.Asks[gx.AskHuman | Measure, machine.Acted]:
        yield from gx.ask(gx.AskHuman("May I?"))
        yield from gx.ask(Measure("here"))
        return acted

    handlers: dict[Any, Callable[[Any], object]] = {gx.AskHuman: lambda asked: "yes", Measure: lambda asked: 21.5}
    plain = react(CALL, FINISH, handlers=handlers)
    ways = gx.on(machine.Acted, machine.dispatch_tools) | gx.on(machine.Stopped, machine.stopped_response)
    graph = gx.splice(plain.graph, gx.edges(approve, ways), after=machine.parse, on=machine.Acted)
    result = plain.with_graph(graph).run("?")
    records = [record for record in recording_of(result).records if record.get("node") == "approve"]
    assert [record["effects"] for record in records if record["event"] == "asked"] == [
        [{"effect": "AskHuman", "question": "May I?"}],
        [{"effect": "Measure", "value": {"place": "here"}}],
    ]
    replies = [reply for record in records if record["event"] == "answered" for reply in record["replies"]]
    assert [(reply["effect"], reply["value"]) for reply in replies] == [("AskHuman", "yes"), ("Measure", 21.5)]


def test_proof_must_have_the_limits_of_the_run(tmp_path: Path) -> None:
    def drawn(graph: Any, **options: Any) -> str:
        return str(graph.draw(tmp_path / "run.txt", **options).read_text(encoding="utf-8"))

    long = executor([CALL] * 20 + [FINISH], max_iterations=100).run("?")
    short = executor([FINISH], max_iterations=2).run("?")
    for fact in ("costs 1 of 100 iterations", "at most 402 transitions"):
        assert fact in drawn(AGENT_EXECUTOR, runs=long)
    both = drawn(AGENT_EXECUTOR, runs=[long, short])
    assert ("Proved" in both, "costs an iteration" in both) == (False, True)
    assert "Proved" not in drawn(executor([FINISH]), runs=long)
    three = executor([FINISH], max_iterations=3)
    assert "at most 14 transitions" in drawn(AGENT_EXECUTOR, runs=three.run("?"), limits=gx.Limits(iterations=3))
    # An executor has limits of its own.
    assert "14 transitions (4*iterations + 2)" in drawn(three)
    assert "10 transitions (4*iterations + 2)" in drawn(AGENT_EXECUTOR, limits=gx.Limits(iterations=2))


@pytest.mark.medium
@cases(
    "suffix, begins",
    *((".mmd", b"---\ntitle"), (".dot", b"digraph"), (".svg", b"<svg"), (".txt", b"")),
    (".png", b"\x89PNG\r\n"),
)
def test_suffix_sets_the_format(suffix: str, begins: bytes, tmp_path: Path) -> None:
    assert AGENT_EXECUTOR.draw(tmp_path / f"flow{suffix}").read_bytes().startswith(begins)
    assert save(AGENT_EXECUTOR, tmp_path / "flow", format="dot").read_bytes().startswith(b"digraph")
