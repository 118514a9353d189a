"""Records: their version, the times and errors of calls, and their size."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from graphexec import AgentAction, AgentStep, InputError
from graphexec.actions import Steps
from graphexec.draw import Recording
from graphexec.draw.runs.prompts import PromptHistory
from graphexec.messages import ChatRequest, SystemMessage, UserMessage
from graphexec.messages.turns import Conversation, MessageTurn
from tests.draw.debugged import Turn, answering, calling, failed_run, sixty_steps, two_agents
from tests.draw.debugged import record as record_turns
from tests.draw.recorded import records_of_version_1


def recorded() -> Recording:
    return record_turns([(1.0, calling(("search", {"query": "x"}))), (1.0, answering("done"))], "q")


def test_old_records_are_upgraded_and_newer_ones_refused() -> None:
    records = records_of_version_1(recorded())
    records[0]["tools"] = ["look_up"]
    upgraded = Recording.from_json_lines("".join(f"{json.dumps(record)}\n" for record in records))
    assert upgraded.records[0]["tools"] == [{"name": "look_up"}]
    for old, new in zip(records, upgraded.records, strict=True):
        if old["event"] == "answered":
            [reply] = new["replies"]
            assert reply["seconds"] == old["seconds"]
            assert reply["began"] == pytest.approx(old["spent"]["seconds"] - old["seconds"])
            assert "seconds" not in new
    # A newer version is refused.
    text = recorded().to_json_lines().replace('"version":3', '"version":4', 1)
    with pytest.raises(
        InputError, match=r"^line 1 has version 4 of the records; this graphexec reads up to 3; install"
    ):
        Recording.from_json_lines(text)


def test_moves_of_embedded_graphs_are_recorded_with_their_tasks() -> None:
    moves = [record for record in two_agents().records if record["event"] == "moved"]
    tasks = [(record["node"], record["task"]) for record in moves if "task" in record]
    assert tasks == [("research.enter", {"input": "elm trees"}), ("write.enter", {"input": "about the fungus"})]
    assert two_agents().records[0]["budgets"].keys() > {"research.iterations", "write.iterations"}
    # An unread reply is recorded once, and outcomes within outcomes do not repeat the run.
    assert [record["node"] for record in moves if "steps" in record] == ["parse"]
    assert "Steps(" not in str(moves)
    task = next(record["value"] for record in moves if record["outcome"] == "Task")
    assert task["acted"]["actions"][0]["tool_input"] == {"task": "elm trees"}


def test_failed_call_has_its_seconds() -> None:
    *_, failed, result = failed_run().records
    assert (failed["event"], failed["node"], failed["call"]["sequence"]) == ("failed", "plan", 3)
    assert (failed["began"], failed["seconds"]) == (pytest.approx(2.0), pytest.approx(2.5))
    assert result["seconds"] == result["spent"]["seconds"] == pytest.approx(4.5)
    assert "acomplete" in result["error"]["traceback"]
    assert "debugged.py" in result["error"]["traceback"]
    assert "graphexec/runtime" not in result["error"]["traceback"]


def test_messages_of_prompts_are_made_once() -> None:
    made: list[int] = []

    def record(calls: int) -> int:
        turns: list[Turn] = [(0.0, calling(("search", {"query": str(number)}))) for number in range(calls)]
        recording = record_turns([*turns, (0.0, answering("done"))], "q", max_iterations=calls + 1)
        prompts = [one["effects"][0]["prompt"] for one in recording.records if "prompt" in str(one.get("effects"))]
        made.append(sum(len(prompt["messages"]) for prompt in prompts))
        return len(recording.to_json_lines())

    small, large = record(20), record(80)
    assert made == [2 + 2 * 20, 2 + 2 * 80]
    assert large < 4 * small
    # A conversation that goes on makes only new messages.
    positions: list[int] = []

    def turns(steps: Steps, first: int) -> Iterator[MessageTurn]:
        for position in range(first, len(steps)):
            positions.append(position)
            yield MessageTurn(position + 1, (UserMessage(str(steps[position].observation)),))

    history, steps = PromptHistory(), Steps()
    for number in range(50):
        steps = steps.extended([AgentStep(AgentAction("echo", "x"), str(number))])
        conversation = Conversation((SystemMessage("Be brief."),), steps, turns)
        prompt = history.record(ChatRequest(conversation))["prompt"]
        assert [message["content"] for message in prompt["messages"]][-1] == str(number)
        assert prompt["kept"] == (number + 1 if number else 0)
    assert positions == list(range(50))


def test_requests_have_their_tools_once() -> None:
    records = sixty_steps().records
    effects = [one["effects"][0] for one in records if one["event"] == "asked"]
    [request] = [effect["request"] for effect in effects if "request" in effect]
    assert [one["name"] for one in request["tools"]] == ["fetch", "search"]
    assert request["tools"][1]["parameters"]["properties"]["query"]["type"] == "string"
    # Unparsed replies are in the records.
    [moved] = [record for record in records if "steps" in record and record["event"] == "moved"]
    [step] = moved["steps"]
    assert (moved["node"], step["status"]) == ("parse", "parse_error")
    assert "not a JSON object" in step["observation"]
