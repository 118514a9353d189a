"""Records: their version, the times and errors of calls, and their size."""

import signal
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import pytest

import graphexec as gx
from graphexec import AgentStep, actions, draw, messages, models
from graphexec.draw.runs.prompts import PromptHistory
from graphexec.effects import CallModel
from graphexec.kernel.stepping import replay
from graphexec.messages.turns import Conversation, MessageTurn
from tests.draw.debugged import Turn, answering, calling, failed_run, sixty_steps, two_agents
from tests.draw.debugged import record as record_turns
from tests.executor.actors import caller_of
from tests.kernel.machines import SELF_LOOP, Landed, Left, Stopped, machine_of, value
from tests.parameters import cases


def recorded() -> draw.Recording:
    return record_turns([(1.0, calling(("search", {"query": "x"}))), (1.0, answering("done"))], "q")


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
    assert "think" in result["error"]["traceback"]
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

    def turns(steps: actions.Steps, first: int) -> Iterator[MessageTurn]:
        for position in range(first, len(steps)):
            positions.append(position)
            yield MessageTurn(position + 1, (messages.UserMessage(str(steps[position].observation)),))

    history, steps = PromptHistory(), actions.Steps()
    for number in range(50):
        steps = steps.extended([AgentStep(actions.AgentAction("echo", "x"), str(number))])
        conversation = Conversation((messages.SystemMessage("Be brief."),), steps, turns)
        prompt = history.record(messages.ChatRequest(conversation))["prompt"]
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


# ---- runs that an exception ended: what happened until then, and nothing else


@gx.tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is found"


def calls(*names: str) -> messages.ModelReply:
    return messages.ModelReply("", tuple(messages.ToolCall(name, "look_up", f'{{"what": "{name}"}}') for name in names))


class Strict:
    """An observer that ends the run at an event: the first is number 0."""

    raise_error = True

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.seen.append(event)
        if len(self.seen) == self.number + 1:
            raise ValueError("no further")


def events_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the recorded events, and check the records behind them."""
    records = [*draw.recording_of(error).records]
    assert records[0]["event"] == "start"
    assert records[-1]["event"] == "result"
    last = -2 if records[-2]["event"] == "failed" else -1
    return [(record["event"], record["node"]) for record in records[1:last]]


def run_until(number: int) -> tuple[Strict, ValueError | None]:
    observer = Strict(number)
    model = models.ScriptedModel([calls("a", "b"), calls("c"), "done"])
    # One call of a batch at a time, in their order.
    executor = caller_of(model, look_up, observers=[observer], tool_concurrency=1)
    try:
        executor.run("go")
    except ValueError as error:
        return observer, error
    return observer, None


# The last event, `Done`, is that of a run that is over.
@cases("number", *range(len(run_until(1000)[0].seen) - 1))
def test_records_end_at_the_event_that_ended_the_run(number: int) -> None:
    observer, error = run_until(number)
    assert error is not None
    *before, last = observer.seen[: number + 1]
    # A request and a reply are in the snapshot when an observer is called; an entry and a move are not.
    happened = [*before, last] if isinstance(last, (gx.Asked, gx.Answered)) else before
    assert events_of(error) == [(type(event).__name__.lower(), event.node) for event in happened]
    snapshot, failed = gx.snapshot_of(error), draw.recording_of(error).records[-2]
    assert snapshot is not None
    assert (failed["event"], failed["node"]) == ("failed", snapshot.node)


@cases("decision", (actions.AgentAction("look_up", {"what": "a"}),), actions.AgentFinish({"output": "x"}))
def test_an_interrupt_in_a_node_ends_the_records(decision: Any) -> None:
    interrupted: list[int] = []

    def read(reply: messages.ModelReply) -> Any:
        # Once, as a person does it: the node is not interrupted again when the run is replayed.
        if not interrupted:
            interrupted.append(1)
            signal.raise_signal(signal.SIGINT)
        return decision

    request = CallModel(messages.ChatRequest((messages.UserMessage("q"),)))
    agent = gx.chat_agent(lambda run: request, read, models.ScriptedModel(["one"]), tools=[look_up])
    with pytest.raises(KeyboardInterrupt) as caught:
        gx.AgentExecutor(agent=agent, tools=[look_up]).run("q")
    assert events_of(caught.value) == [
        *[("entered", "plan"), ("asked", "plan"), ("answered", "plan"), ("moved", "plan"), ("entered", "parse")]
    ]
    assert draw.recording_of(caught.value).records[-1]["status"] == "interrupted"


@cases("last", 0, 1, 4)
def test_an_interrupt_in_a_loop_without_requests_ends_the_records(last: int) -> None:
    interrupted: list[int] = []

    @gx.node(when_spent=Stopped, meters=[gx.ITERATIONS])
    def countdown(left: Left) -> Left | Landed:
        if left.steps == last and not interrupted:
            interrupted.append(1)
            signal.raise_signal(signal.SIGINT)
        return Left(left.steps - 1) if left.steps else Landed()

    loop = machine_of(countdown)
    with pytest.raises(KeyboardInterrupt) as caught:
        loop.run(Left(4), limits=gx.Limits(iterations=9))
    visits = 4 - last
    assert events_of(caught.value) == [("entered", "countdown"), ("moved", "countdown")] * visits + [
        ("entered", "countdown")
    ]


def test_run_without_an_end_and_fields_without_values() -> None:
    done = SELF_LOOP.run(Left(2))
    assert done.journal is not None
    # It has one more iteration than any state of the run.
    charged = replace(done.snapshot, spent=replace(done.snapshot.spent, iterations=3), entered=False)
    names = [type(event).__name__ for event in replay(done.journal, until=charged)]
    assert names == ["Entered", "Moved"] * 2

    # A field without a value is left out.
    @gx.node
    def finish(left: Left) -> Unfinished:
        return Unfinished(left.steps)

    finished = gx.graph(gx.edges(finish, gx.on(Unfinished, gx.END)), start=finish).run(Left(3))
    assert [one["value"] for one in draw.recording_of(finished).records if one["event"] == "moved"] == [{"known": 3}]


@value
class Unfinished:
    known: int
    unknown: int = field(init=False)
