"""`graphexec run --record` and `--json` write exactly the documented fields."""

import contextlib
import errno
import io
import json
import os
import re
import subprocess
from collections import ChainMap, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, draw, effects, models
from graphexec.cli import records
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.draw.runs.records import __doc__ as description
from graphexec.executor import Ready
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.messages import ChatRequest, Image, ModelReply, Reasoning, ReplyDelta, ToolCall, Usage, UserMessage
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import guard_input
from tests.cli.conversations import Silence, serving
from tests.cli.terminals import ARGUMENTS, PATIENCE, Program, command, environment
from tests.cli.test_run import SOLVED, asking, run
from tests.cli.test_run import records as records_of
from tests.cli.traced import double
from tests.draw.recorded import two_agents
from tests.parameters import cases
from tests.traces import read_trace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


# Any: JSON.
def read(file: Path) -> list[dict[str, Any]]:
    return [*read_trace(file.read_text(encoding="utf-8"))]


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("began", "time", "heartbeat")}


@pytest.mark.medium
def test_record_is_the_json_output(file: Path) -> None:
    ended, printed = run(SOLVED, "--record", str(file)), run(SOLVED, "--json")
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    assert "plan" in ended.err
    assert [record["event"] for record in read(file)] == [record["event"] for record in records_of(printed)]
    assert read(file)[-1]["output"] == "37 * 48 is 1776."
    both = records_of(run(SOLVED, "--json", "--record", str(file)))
    # Each recording has its own clock, and only the file has signs of life.
    assert [timeless(record) for record in read(file)] == [timeless(record) for record in both]
    assert (read(file)[0]["heartbeat"], "heartbeat" in both[0]) == (2, False)


@pytest.mark.medium
def test_file_is_written_from_the_beginning(tmp_path: Path, file: Path) -> None:
    with serving(SOLVED) as server:
        ended = command(*asking(server, "--record", str(tmp_path)))
        assert server.asked == []
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"graphexec: {tmp_path} cannot be written: " in ended.err
    with serving([Silence()]) as server, Program(*asking(server, "--record", str(file))) as running:
        assert server.waiting.wait(60)
        # On a busy machine, the file has signs of life already.
        events = [record["event"] for record in read(file) if record["event"] != "alive"]
        assert events == ["start", "entered", "asked"]
        ended = running.interrupt()
    assert (ended.code, read(file)[-1]["status"]) == (130, "interrupted")


# ---- a full disk


class FullDisk(io.StringIO):
    """A file on a disk with space for some lines."""

    room = 0
    kept = ""

    def write(self, text: str, /) -> int:
        if text.strip():
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= 1
        return super().write(text)

    def close(self) -> None:
        if not self.closed:
            self.kept = self.getvalue()
            super().close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full = FullDisk()
    monkeypatch.setattr(records, "open_for_writing", {Path("run.jsonl"): full}.__getitem__)
    return full


@pytest.mark.parametrize("room", [0, 3])
def test_full_disk_does_not_end_the_run(disk: FullDisk, room: int) -> None:
    disk.room = room
    ended = run(SOLVED, "--quiet", "--record", "run.jsonl")
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    assert ended.err == "graphexec: run.jsonl is incomplete: No space left on device\n"
    # The file has the beginning of the run.
    assert [record["event"] for record in read_trace(disk.kept)] == ["start", "entered", "asked"][:room]
    assert disk.closed


def test_full_disk_keeps_the_exit_code(disk: FullDisk) -> None:
    ended = run(SOLVED, "--quiet", "--record", "run.jsonl", "--max-iterations", "1")
    assert (ended.code, disk.kept) == (3, "")
    assert "graphexec: run.jsonl is incomplete: No space left on device" in ended.err.splitlines()


FULL = Path("/dev/full")


def run_into(full: str, *options: str) -> tuple[int, str, str]:
    """Run with one stream, or none, on a full disk; return the exit code, stdout and stderr."""
    with serving(SOLVED) as server, FULL.open("w", encoding="utf-8") as disk:
        ended = subprocess.run(
            [*ARGUMENTS, *asking(server, *options)],
            stdout=disk if full == "stdout" else subprocess.PIPE,
            stderr=disk if full == "stderr" else subprocess.PIPE,
            check=False,
            encoding="utf-8",
            env=environment(),
            timeout=PATIENCE,
        )
        assert len(server.asked) == 2
    return ended.returncode, ended.stdout or "", ended.stderr or ""


PRINTED, MISSING = "37 * 48 is 1776.\n", "is incomplete: No space left on device\n"


@pytest.mark.medium
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@cases(
    ("full", "args", "ended"),
    ("", ["--record", str(FULL), "--quiet"], (0, PRINTED, f"graphexec: /dev/full {MISSING}")),
    ("stderr", [], (0, PRINTED, "")),
    ("stdout", ["--json", "--record", "trace.jsonl"], (1, "", f"graphexec: the standard output {MISSING}")),
    ("stdout", ["--quiet"], (1, "", "graphexec: OSError: [Errno 28] No space left on device\n")),
)
def test_full_device_loses_its_output(tmp_path: Path, full: str, args: list[str], ended: tuple[int, str, str]) -> None:
    with contextlib.chdir(tmp_path):
        assert run_into(full, *args) == ended
    if "trace.jsonl" in args:
        assert read(tmp_path / "trace.jsonl")[-1]["output"] == "37 * 48 is 1776."


# ---- the documented fields


SUM = ModelReply(
    "",
    (ToolCall("1", "double", '{"number": 2}'),),
    Usage(10, 1, 5),
    "tool_calls",
    reasoning=(Reasoning("Twice."), Reasoning("", "{}"), Reasoning("So 4.")),
)
ANSWER = ModelReply("It is 4.", usage=Usage(20, 2))


def executing(*replies: ScriptedReply, max_iterations: int = 15) -> gx.AgentExecutor:
    """Return an executor with a scripted, cached model."""
    model = models.cached(models.ScriptedModel(replies))
    agent = gx.create_tool_calling_agent(model, [double])
    limits: dict[str, Any] = {"max_iterations": max_iterations, "early_stopping_method": "generate", "max_fan_out": 2}
    return gx.AgentExecutor(agent=agent, tools=[double], **limits)


def inventing() -> gx.AgentExecutor:
    """Return an executor whose model invents an observation, which stays unread."""
    model = models.ScriptedModel(["Action: double\nAction Input: 2\nObservation: 5", "Final Answer: It is 4."])
    return gx.AgentExecutor(agent=gx.create_react_agent(model, [double]), tools=[double])


def write_records(executor: gx.AgentExecutor) -> list[dict[str, Any]]:
    out = io.StringIO()
    follow(RunSetup("What is 2 * 2?", executor, "scripted", "tool_calling"), [records.Records(out)])
    return [json.loads(line) for line in out.getvalue().splitlines()]


@dataclass(frozen=True)
class Measure(gx.Effect[float]):
    where: str

    @property
    def provider_id(self) -> str:
        return "call_7"


def asked_otherwise() -> list[dict[str, Any]]:
    """Return records of effects that the standard machine does not request."""
    recorder = draw.Recorder(
        executing(ANSWER).verify(),
        parameters={"seed": 1},
        heartbeat=2,
        clock=lambda: 5.0,
    )
    recorder.alive()
    asked = [UserMessage("What is this?", (Image("https://images.example/1.png"),))]
    shown = effects.CallModel(ChatRequest(asked, schema={"type": "string"}))
    failed = effects.ToolResult("failed", "error", error="KeyError", traceback="Traceback (most recent call last):")
    replies: list[tuple[gx.Effect[Any], object]] = [(gx.AskHuman("Go on?"), 1.0), (Measure("here"), 1.0), (shown, 1.0)]
    for sequence, (effect, reply) in enumerate([*replies, (effects.CallTool("double", "2"), failed)], 1):
        call: CallContext[Any] = CallContext(DetachedScope("a-run"), "plan", effect, effect, sequence, 0)
        call.charged = {"model_calls": 1}
        recorder(gx.Asked("plan", effect, call))
        recorder(gx.Reported("plan", effect, "at it", call))
        recorder(gx.Answered("plan", effect, reply, 2.0, gx.Spent(), call))
        recorder(gx.Reported("plan", effect, ReplyDelta(reasoning="Hm."), call))
    unread = actions.AgentStep(actions.AgentAction("_Exception", "no JSON"), "no JSON", "parse_error")
    recorder(gx.Moved("parse", Ready(actions.Run({}, actions.Steps([unread]))), "plan"))
    recorder.failure(KeyError("x"), "plan", 2.0)
    return [*recorder.records]


def documented_fields() -> dict[str, set[str]]:
    """Return the documented fields of each record and of the objects in it."""
    items = re.findall(r"^- `(\w+)`(?: \([^)]*\))?(?:, each)?: (.*(?:\n  .*)*)", description or "", re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))) for name, text in items}


# Any: JSON.
def parts(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a record with the name of its event, and the objects in it with the names of their fields."""
    name = record.pop("event")
    yield name, record
    for field in ("limits", "spent", "cause", "error", "call"):
        if record.get(field) is not None:
            yield field, record[field]
    for field in ("effects", "replies", "steps"):
        for one in record.get(field, ()):
            yield field, one
            for call in one.get("tool_calls", ()):
                yield "tool_calls", call
            if "request" in one:
                yield "request", one["request"]
            if "prompt" in one:
                yield "prompt", dict(ChainMap(one["prompt"], *one["prompt"]["messages"]))


# The objects of several forms.
_VARIOUS = ("cause", "effects", "replies", "prompt", "request")


def test_documentation_lists_exactly_the_written_fields() -> None:
    again = executing(SUM, ANSWER)
    runs = [again, again, executing(SUM, "About 4.", max_iterations=1), executing(SUM, ValueError("no"))]
    runs += [inventing(), executing(ANSWER).plug(guard_input(lambda _: "no numbers"))]
    found: dict[str, set[str]] = defaultdict(set)
    embedding = [dict(record) for record in two_agents().records]
    for record in [record for executor in runs for record in write_records(executor)] + asked_otherwise() + embedding:
        for name, fields in parts(record):
            found[name] |= {*fields}
            # Only these objects differ between effects, and only some calls have these fields.
            some = {
                *("provider_id", "within", "cached_tokens", "reasoning", "unread", "call", "run", "steps", "traceback"),
                *("heartbeat", "parameters", "input", "model", "agent", "tools", "limits", "began", "time"),
                *("budgets", "task"),
            }
            assert name in _VARIOUS or found[name] - some == {*fields} - some
    assert found == documented_fields()


def test_records_have_replies_and_the_last_word() -> None:
    records = write_records(executing(SUM, ANSWER))
    thought, answer = [record["replies"][0] for record in records if "replies" in record and "content" in str(record)]
    assert (thought["reasoning"], thought["cached_tokens"]) == ("Twice.\n\nSo 4.", 5)
    assert not {"reasoning", "cached_tokens"} & {*answer}
    assert [record["spent"].get("cached_tokens") for record in records if "spent" in record][-1] == 5
    executor = executing(SUM, "About 4.", max_iterations=1)
    trace = write_records(executor)
    result = trace[-1]
    assert (result["status"], result["exit_code"], result["output"]) == ("stopped", 3, "About 4.")
    assert result["cause"] == {"limit": "iterations", "value": 1, "reached": 1, "wanted": 1, "outer": False}


def test_reply_from_the_cache_is_reported() -> None:
    executor = executing(SUM, ANSWER)
    first, second = write_records(executor), write_records(executor)
    assert "reported" not in {record["event"] for record in first}
    reported = [record for record in second if record["event"] == "reported"]
    assert reported[0] == {
        "event": "reported",
        "node": "plan",
        "call": {"run": reported[0]["call"]["run"], "sequence": 1, "member": 0},
        "effects": [{"effect": "CallModel"}],
        "news": "Cached",
        "text": reported[0]["text"],
        "time": reported[0]["time"],
    }
    assert "was not called: its reply was in the cache" in reported[0]["text"]
    assert len(reported) == 2
