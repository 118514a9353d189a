"""Records: their version, the times and errors of calls, batches, nested runs, and their size."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, draw, messages, models, runtime
from graphexec.draw.page import html
from graphexec.draw.runs.prompts import PromptHistory
from graphexec.effects import CallModel
from graphexec.executor import Ready
from graphexec.kernel.stepping import replay
from graphexec.messages.turns import Conversation, MessageTurn
from graphexec.testing.clock import on_loop_time, run_virtually
from graphexec.tools import AnyTool
from tests.draw.recorded import Turn, answering, calling, failed_run, sixty_steps, two_agents
from tests.draw.recorded import record as record_turns
from tests.drivers import options_of
from tests.executor.actors import caller_of
from tests.kernel.machines import SELF_LOOP, Landed, Left, Stopped, machine_of, value
from tests.parameters import cases
from tests.traces import read_trace, unpack_page
from tests.verify.acting import acting


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
    assert "recorded.py" in result["error"]["traceback"]
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
        steps = steps.extended([gx.AgentStep(actions.AgentAction("echo", "x"), str(number))])
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


def events_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the recorded events, and check the records behind them."""
    records = [*draw.recording_of(error).records]
    assert records[0]["event"] == "start"
    assert records[-1]["event"] == "result"
    last = -2 if records[-2]["event"] == "failed" else -1
    return [(record["event"], record["node"]) for record in records[1:last]]


def run_until(number: int) -> tuple[list[Any], ValueError | None]:
    """Run until an observer raises at an event, the first of which is number 0; return the events, and the error."""
    seen: list[Any] = []

    class Strict:
        raise_error = True

        def __call__(self, event: Any) -> None:
            seen.append(event)
            if len(seen) == number + 1:
                raise ValueError("no further")

    model = models.ScriptedModel([calls("a", "b"), calls("c"), "done"])
    # One call of a batch at a time, in their order.
    executor = caller_of(model, look_up, observers=[Strict()], tool_concurrency=1)
    try:
        executor.run("go")
    except ValueError as error:
        return seen, error
    return seen, None


# The last event, `Done`, is that of a run that is over.
@cases("number", *range(len(run_until(1000)[0]) - 1))
def test_records_end_at_the_event_that_ended_the_run(number: int) -> None:
    seen, error = run_until(number)
    assert error is not None
    *before, last = seen[: number + 1]
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


# ---- records of batches, with one record for each member, and of nested runs


Trace = list[dict[str, Any]]


def taking(name: str, seconds: float, *, fails: bool = False) -> AnyTool:
    """Return a tool that answers or fails after so many seconds."""

    @gx.tool(name=name, description="Take a while.")
    async def take(what: str) -> str:
        await asyncio.sleep(seconds)
        if fails:
            raise ValueError(what)
        return f"{name} {what}"

    return take


QUICK = taking("quick", 0.02)
TOOLS = [QUICK, taking("slow", 0.5), taking("broken", 0.1, fails=True)]


def call_together(*names: str, tools: Sequence[AnyTool] = TOOLS, **options: Any) -> gx.AgentExecutor:
    """Return an executor that calls these tools together, and then answers."""

    def decide(steps: Sequence[object], inputs: object) -> list[gx.AgentAction] | gx.AgentFinish:
        return gx.AgentFinish({"output": "done"}) if steps else [gx.AgentAction(name, "x", "") for name in names]

    return gx.AgentExecutor(agent=decide, tools=tools, **options)


def recorded(executor: gx.AgentExecutor) -> Trace:
    """Return the records of an async run on a virtual clock."""
    recorder = draw.Recorder(executor.verify())

    async def watched() -> None:
        try:
            async for event in on_loop_time(executor).astream("go on"):
                recorder(event)
        except ValueError as error:
            recorder.failed(error)

    run_virtually(watched())
    return read_trace(recorder.recording.to_json_lines())


def members(trace: Trace) -> list[tuple[str, int, float | None]]:
    """Return the tool records in order: event, member and duration."""
    return [
        (one["event"], one["call"]["member"], one["replies"][0]["seconds"] if one["event"] == "answered" else None)
        for one in trace
        if one["event"] in ("asked", "answered") and one["node"] == "dispatch_tools"
    ]


RAISING = {"handle_tool_errors": "raise"}
BOTH_ASKED = [("asked", 0, None), ("asked", 1, None)]


@cases(
    ("names", "options", "expected", "status"),
    # Tools of different speed have their own records.
    (["slow", "quick"], {}, [*BOTH_ASKED, ("answered", 1, 0.02), ("answered", 0, 0.5)], "answered"),
    # Tools in turn are recorded in turn.
    (
        ["slow", "quick"],
        {"tool_concurrency": 1},
        [("asked", 0, None), ("answered", 0, 0.5), ("asked", 1, None), ("answered", 1, 0.02)],
        "answered",
    ),
    # A tool that fails keeps the results of others.
    (["quick", "broken"], RAISING, [*BOTH_ASKED, ("answered", 0, 0.02)], "error"),
    (["quick", "broken", "slow"], RAISING, [*BOTH_ASKED, ("asked", 2, None), ("answered", 0, 0.02)], "error"),
    # All members are charged before the first one starts.
    (
        ["quick", "broken", "slow"],
        {**RAISING, "tool_concurrency": 1},
        [("asked", 0, None), ("answered", 0, 0.02), ("asked", 1, None)],
        "error",
    ),
)
def test_members_have_records_of_their_own(
    names: list[str], options: dict[str, Any], expected: list[tuple[str, int, float | None]], status: str
) -> None:
    executor = call_together(*names, **options)
    trace = recorded(executor)
    assert members(trace) == [(event, name, seconds and pytest.approx(seconds)) for event, name, seconds in expected]
    assert trace[-1]["status"] == status


@cases("concurrency", 1, 2, 8)
def test_a_deadline_cuts_each_member_alone(concurrency: int) -> None:
    executor = call_together("quick", "slow", "slow", max_execution_time=0.1, tool_concurrency=concurrency)
    trace = recorded(executor)
    times = {member: seconds for event, member, seconds in members(trace) if event == "answered"}
    # A member that has not begun is cut at its start.
    began = {1: {1: 0.02, 2: 0.1}, 2: {1: 0.0, 2: 0.02}, 8: {1: 0.0, 2: 0.0}}[concurrency]
    assert times == {0: pytest.approx(0.02), **{one: pytest.approx(0.1 - at) for one, at in began.items()}}


# ---- nested runs


def nesting(inner_calls: int, **options: Any) -> tuple[gx.AgentExecutor, list[Trace]]:
    """An executor with a tool that runs another one, which calls a tool so often; and the traces of the inner runs."""
    traces: list[Trace] = []
    inner = acting([1] * inner_calls)

    @gx.tool
    async def delegate(what: str) -> str:
        """Have another agent do it."""
        recorder = draw.Recorder(inner.verify())
        async for event in inner.astream(what):
            recorder(event)
        traces.append(read_trace(recorder.recording.to_json_lines()))
        return "done"

    return call_together("delegate", "quick", tools=[delegate, QUICK], **options), traces


def test_nested_charges_are_recorded() -> None:
    executor, traces = nesting(2)
    trace = recorded(executor)
    (record,) = [record for record in trace if "within" in record]
    assert (record["event"], record["call"]["member"]) == ("answered", 0)
    # Three decisions and two tools.
    assert (record["within"]["model_calls"], record["within"]["tool_calls"]) == (3, 2)
    assert trace[-1]["spent"]["model_calls"] == 2 + 3
    assert (traces[0][-1]["spent"]["model_calls"], traces[0][-1]["spent"]["tool_calls"]) == (3, 2)
    # A recorded result has them, too.
    result = run_virtually(on_loop_time(executor).arun("go on"))
    assert [one["within"] for one in draw.recording_of(result).records if "within" in one] == [record["within"]]


def test_nested_run_stays_within_outer_limits() -> None:
    """The outer limit stops the inner run, and the outer one later."""
    executor, traces = nesting(9, max_model_calls=4, early_stopping_method="generate", max_tool_calls=20)
    trace = recorded(executor)
    assert trace[-1]["status"] == "stopped"
    assert trace[-1]["spent"]["model_calls"] == 5
    (stopped,) = traces
    assert stopped[-1]["cause"]["outer"] is True


class User:
    """The context of a run, which must not be recorded."""

    def __repr__(self) -> str:
        return "the-user-is-4711"


def test_context_appears_in_no_record_or_page() -> None:
    executor = call_together("quick", "slow")
    recorder = draw.Recorder(executor.verify())

    async def watched() -> None:
        run_context = on_loop_time(executor).run_context
        start = Ready(actions.Run({"input": "go on"}))
        async for event in runtime.astream(executor.graph, start, **options_of(run_context), context=User()):
            assert not isinstance(event, gx.Asked) or (event.call is not None and event.call.context.__class__ is User)
            recorder(event)

    run_virtually(watched())
    recording = recorder.recording
    assert recording.result is not None
    page = unpack_page(html(recording.machine, recording))
    for recorded_charges in (recording.to_json_lines(), page):
        assert "4711" not in recorded_charges
        assert "User" not in recorded_charges
