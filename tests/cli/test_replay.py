"""`graphexec replay`: a run that goes on from a step of a trace."""

import io
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conversations import Conversation, Reply, Silence, native_tool_call, serving
from tests.cli.machines_of_mine import lay_out
from tests.cli.terminals import PATIENCE, Ended, Program, command
from tests.live.readers import credentials
from tests.parameters import cases, read_tables
from tests.traces import read_trace

MINE: str = read_tables(__file__)["mine"]

QUESTION = "What is 37 * 48?"
SOLVED: list[Reply] = [native_tool_call("calculator", expression="37 * 48"), "It is 1776."]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, monkeypatch, {"mine": MINE})


def record(target: str = "mine.py:executor", code: int = 0) -> None:
    ended = command("run", target, QUESTION, "--record", "trace.jsonl", "--quiet")
    assert ended.code == code, ended.err


def model_at(server: Conversation) -> tuple[str, ...]:
    return ("--model", "m", "--base-url", server.url)


def record_built_in(server: Conversation, *options: str) -> None:
    arguments = (*model_at(server), "--agent", "tool_calling", *options, "--record", "trace.jsonl", "--quiet")
    ended = command("run", QUESTION, *arguments)
    assert ended.code == 0, ended.err


def replay(*options: str) -> Ended:
    return command("replay", "trace.jsonl", *options)


def going_on(*options: str) -> Ended:
    """Go on with a run by an executor whose model says something else."""
    return replay("mine.py:going_on", *options)


# Any: JSON.
def read(name: str) -> list[Any]:
    return read_trace(Path(name).read_text(encoding="utf-8"))


def test_observation_leads_to_a_run_that_names_its_parent() -> None:
    record()
    before = Path("trace.jsonl").read_bytes()
    ended = going_on("--at", "3", "--call", "1", "--observation", "b is none", "--record", "other.jsonl")
    assert (ended.code, ended.out) == (0, "something else\n"), ended.err
    assert "b is none" in ended.err
    assert Path("trace.jsonl").read_bytes() == before
    parent, records = read("trace.jsonl"), read("other.jsonl")
    assert records[0]["parent"] == {"trace": "trace.jsonl", "run": parent[1]["run"], "step": 3}
    assert records[0]["input"] == QUESTION
    assert [step["observation"] for step in records[-1]["steps"]] == ["a is a word", "b is none"]
    assert command("view", "trace.jsonl", "other.jsonl", "-o", "both.html", "--no-open").code == 0


def test_built_in_agent_goes_on_as_it_was_made() -> None:
    with serving([*SOLVED, "It is odd."]) as server:
        record_built_in(server, "--temperature", "0.25", "--max-iterations", "4")
        refused = replay("--at", "1")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        address = server.url.removeprefix("http://").removesuffix("/v1")
        for fact in (f"the model of trace.jsonl was m at {address}", "pass --model m and --base-url"):
            assert fact in refused.err
        called = [one["node"] for one in read("trace.jsonl") if one["event"] == "entered"].index("dispatch_tools") + 1
        ended = replay(*model_at(server), "--at", str(called), "--observation", "1777", "--json")
        assert ended.code == 0, ended.err
        assert len(server.asked) == 3
        body = server.asked[-1]
    assert (body["messages"][-1]["content"], body["temperature"]) == ("1777", 0.25)
    start, *_, result = map(json.loads, ended.out.splitlines())
    assert (start["limits"]["iterations"], start["agent"], result["output"]) == (4, "tool_calling", "It is odd.")


@pytest.mark.medium
def test_calls_and_instructions_may_change() -> None:
    with serving([*SOLVED, "It is 6."]) as server:
        record_built_in(server)
        changes = ("--tool-call", 'calculator {"expression": "2 * 3"}', "--reply", "So:", "--record", "other.jsonl")
        ended = replay(*model_at(server), "--at", "1", *changes)
        assert (ended.code, ended.out) == (0, "It is 6.\n"), ended.err
        assert len(server.asked) == 3
    [step] = read("other.jsonl")[-1]["steps"]
    assert (step["tool_input"], step["observation"]) == ({"expression": "2 * 3"}, "6")
    with serving([*SOLVED, "oui"]) as server:
        record_built_in(server, "--system", "Answer in French.")
        ended = replay(*model_at(server), "--at", "3", "--quiet")
    assert (ended.code, ended.out, ended.err.count("\n")) == (0, "oui\n", 1)
    assert ended.err.startswith("graphexec: from step 1 on, the requests to the model differ from the recorded ones; ")
    assert "check the options of the agent, such as --system and --trim\n" in ended.err


@cases(("option", "at"), ("--reply", ["--at", "1"]), ("--observation", ["--at", "3", "--call", "0"]))
def test_text_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch, option: str, at: list[str]) -> None:
    record()
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a file\n"))
    ended = going_on(*at, option, "-", "--json")
    assert ended.code == 0, ended.err
    assert '"from a file"' in ended.out


@pytest.mark.medium
def test_ended_and_interrupted_runs_go_on() -> None:
    record("mine.py:failing", code=1)
    again = replay("mine.py:failing")
    assert (again.code, "no such word" in again.err) == (1, True)
    ended = going_on("--observation", "bad is a word", "--quiet")
    assert (ended.code, ended.out) == (0, "something else\n"), ended.err
    record("mine.py:stopped", code=3)
    stopped = replay("mine.py:stopped_going_on", "--at", "7")
    assert (stopped.code, stopped.out) == (3, "")
    ended = replay("mine.py:stopped_going_on", "--at", "7", "--max-iterations", "9", "--quiet")
    assert (ended.code, ended.out) == (0, "three words\n"), ended.err
    with serving([SOLVED[0], Silence(), "It is 1776."]) as server:
        arguments = (*model_at(server), "--agent", "tool_calling", "--record", "trace.jsonl")
        with Program("run", QUESTION, *arguments) as running:
            assert server.waiting.wait(60)
            assert running.interrupt().code == 130
        ended = replay(*model_at(server), "--record", "other.jsonl", "--quiet")
        assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert [record["spent"]["model_calls"] for record in read("other.jsonl") if record["event"] == "result"] == [2]


@pytest.mark.medium
def test_interrupted_replay_has_a_result() -> None:
    with serving([*SOLVED, Silence()]) as server:
        record_built_in(server)
        arguments = (*model_at(server), "--at", "3", "--record", "other.jsonl")
        with Program("replay", "trace.jsonl", *arguments) as running:
            assert server.waiting.wait(60)
            assert running.interrupt().code == 130
    records = read("other.jsonl")
    assert (records[0]["parent"]["step"], records[-1]["status"]) == (3, "interrupted")
    assert records[-1]["spent"]["model_calls"] == 2
    assert [step["observation"] for step in records[-1]["steps"]] == ["1776"]


OWN = "mine.py:executor"


@pytest.mark.medium
@cases(
    ("options", "message"),
    ([OWN, "--at", "99"], "trace.jsonl: there is no step 99: the run has steps 1 to 6; name one"),
    ([OWN, "--at", "2", "--reply", "x"], "trace.jsonl: step 2 (parse) makes no calls"),
    ([OWN, "--at", "3", "--reply", "x", "--call", "0"], "'x' is not a reply to CallTool; pass its obs"),
    ([OWN, "--at", "1", "--observation", "x"], "CallModel is not the call of a tool"),
    ([OWN, "--reply", "x", "--observation", "x"], "--observation is of a tool, and --reply of a model"),
    ([OWN, "--tool-call", "{}"], "--tool-call '{}' names no tool; write"),
    ([OWN, "--tool-call", "a {b"], "the arguments are not JSON"),
    ([OWN, "--record", "trace.jsonl"], "--record trace.jsonl is the trace that is replayed; name another"),
    ([OWN, "--model", "m"], "--model does not apply to mine.py:executor"),
    ([], "the run in trace.jsonl had the tools look_up; name the executor of the run, as in graphexec replay "),
    (["--tools", "mine.py:look_up"], "--model is 'scripted'"),
)
def test_wrong_usage_is_one_line(options: list[str], message: str) -> None:
    record()
    before = Path("trace.jsonl").read_bytes()
    ended = replay(*options)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err.partition("\n")[0]
    assert Path("trace.jsonl").read_bytes() == before


@contextmanager
def viewing(*executors: str) -> Generator[tuple[str, httpx.Client]]:
    """View a run live; give the address of its page, and a client that may read it."""
    with Program("view", "--live", "trace.jsonl", *executors, "--no-open") as program:
        address, headers = credentials(program.read_line().strip())
        with httpx.Client(trust_env=False, timeout=PATIENCE, headers=headers) as client:
            yield address, client
        assert program.interrupt().code == 0


@pytest.mark.medium
def test_live_page_goes_on_with_the_named_executor() -> None:
    record()
    with viewing("mine.py:going_on") as (address, client):
        answer = client.post(f"{address}fork", json={"step": 3, "call": 0, "observation": "a is none"})
        assert answer.json()["trace"] == "trace.fork-1.jsonl"
        assert "event: end" in client.get(f"{address}forks/1/events").text
    records = read("trace.fork-1.jsonl")
    assert (records[0]["parent"]["trace"], records[-1]["output"]) == ("trace.jsonl", "something else")
    # Without one, it cannot go on.
    with viewing() as (address, client):
        assert '"fork":null' in client.get(address).text
        refused = client.post(f"{address}fork", json={"step": 3})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("the run in trace.jsonl had the tools look_up; name the executor")


def test_target_of_a_live_page_is_loaded_at_once() -> None:
    ended = command("view", "--live", "trace.jsonl", "nowhere.py:executor", "--no-open")
    assert (ended.code, ended.out, "nowhere.py" in ended.err) == (2, "", True)
