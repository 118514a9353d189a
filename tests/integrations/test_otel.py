"""Telemetry: the spans and the metrics of runs, with the SDK's exporter and reader in memory."""

import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import errors
from graphexec.actions import Run
from graphexec.executor import Ready
from graphexec.integrations import langchain, otel
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, Usage
from graphexec.models import ScriptedModel, cached, retrying, with_fallbacks
from graphexec.nodes import map_agents, sub_agent
from graphexec.tools import tool_from_schema
from tests.executor.actors import BlockingModel, call, caller_of, echo, fail, run_by, run_sync, snapshot_after
from tests.parameters import cases

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from graphexec.integrations.otel import names

CONVENTIONS = tomllib.loads((Path(__file__).parent / "genai_conventions.toml").read_text(encoding="utf-8"))


class Telemetry:
    """The spans and metrics of runs while it is instrumented."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def instrument(self, **options: Any) -> Callable[[], None]:
        options = {"tracer_provider": self.tracers, "meter_provider": self.meters, **options}
        return otel.instrument(**options)

    def take(self) -> list[ReadableSpan]:
        """Return the spans since the last time, in the order of their starts."""
        spans = sorted(self._exporter.get_finished_spans(), key=lambda one: one.start_time or 0)
        self._exporter.clear()
        return spans

    def metrics(self) -> dict[str, Any]:
        found = self._reader.get_metrics_data()
        scopes = [] if found is None else [scope for one in found.resource_metrics for scope in one.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    recorded = Telemetry()
    recorded.instrument()
    yield recorded
    # Whichever test has instrumented last.
    recorded.instrument()()


def tree(spans: list[ReadableSpan], *, bare: bool = False) -> str:
    """Return the names of spans, each with its children in any order, and unless `bare` with what is equal in runs."""
    unequal = (names.RUN_ID, names.FIRST_CHUNK, names.REQUEST_STREAM)

    def below(parent: int | None) -> str:
        return ", ".join(sorted(describe(one) for one in spans if (one.parent and one.parent.span_id) == parent))

    def describe(one: ReadableSpan) -> str:
        assert one.context is not None
        found = sorted((key, value) for key, value in attributes(one).items() if key not in unequal)
        inner = below(one.context.span_id)
        title = one.name if bare else f"{one.name} {one.kind.name} {one.status.status_code.name} {found}"
        return f"{title}[{inner}]" if inner else title

    return below(None)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


def named(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (one,) = [span for span in spans if span.name == name]
    return one


def calling(*replies: Any, tools: Any = (echo, fail), **options: Any) -> gx.AgentExecutor:
    """Return an executor whose model gives these replies."""
    return caller_of(ScriptedModel(replies), *tools, **options)


class Named(ScriptedModel):
    """A scripted model with a name of its own."""

    __slots__ = ()
    name, provider = "inner", "openai"


def team(look: Any, **options: Any) -> gx.AgentExecutor:
    """Return an executor with agents as a tool, of `map_agents`, and embedded, and with a call that fails."""
    inner = caller_of(Named([call("echo", text="b"), "inner answer"] * 3), echo)
    asked = [call("expert", "c1", input="a"), call("fail", "c2", text="a"), call(look.name, "c3", text="a")]
    replies = [asked, [call("research_all", "c4", tasks=["x"])], [call("helper", "c5", task="y")], "done"]
    tools = [inner.as_tool("expert", "Ask."), fail, look]
    return calling(*replies, tools=tools, nodes=[map_agents(inner), sub_agent(inner, "helper", "Help.")], **options)


WAYS = ("run", "arun", "stream", "astream", "invoke", "batch", "abatch", "stream_answer", "astream_answer")


@pytest.mark.medium
def test_every_way_to_run_has_the_same_tree(telemetry: Telemetry) -> None:
    """The span of a call is current, and that of a run is not."""
    tracer = telemetry.tracers.get_tracer("mine")

    @gx.tool
    def look(text: str) -> str:
        """Look it up."""
        with tracer.start_as_current_span("mine"):
            return text

    def watch(event: object) -> None:
        seen.add(trace.get_current_span())

    trees: dict[str, list[ReadableSpan]] = {}
    for way in WAYS:
        seen = set[object]()
        with tracer.start_as_current_span("request") as request:
            run_by(way, team(look, observers=[watch]))
            assert trace.get_current_span() is request
        assert seen == {request}
        trees[way] = telemetry.take()
    assert {way for way, spans in trees.items() if tree(spans) != tree(trees["run"])} == set()
    inner = "chat inner, chat inner, execute_tool echo"
    # The embedded agent belongs to the run.
    assert tree(trees["run"], bare=True) == (
        f"request[invoke_agent[ResearchAll[invoke_agent research_all[{inner}]], chat inner, chat inner, chat scripted, "
        f"chat scripted, chat scripted, chat scripted, execute_tool echo, execute_tool expert[invoke_agent expert"
        f"[{inner}]], execute_tool fail, execute_tool look[mine]]]"
    )
    found = [attributes(one) for one in trees["run"]]
    assert {one.get(names.PROVIDER) for one in found if one.get(names.NODE, "").startswith("helper.")} == {"openai"}
    executing = {one.get(names.AGENT_NAME) for one in found if names.TOOL_NAME in one}
    assert executing == {None, "helper", "expert", "research_all"}


def test_names_are_those_of_the_release(telemetry: Telemetry) -> None:
    own = [value for value in vars(names).values() if isinstance(value, str) and value.startswith(("gen_ai.", "error"))]
    assert set(own) == set(CONVENTIONS["attributes"])
    team(echo).run("q")
    for span in telemetry.take():
        found = attributes(span)
        operation = found.get(names.OPERATION)
        assert operation is None or operation in CONVENTIONS["operations"]
        kind, *required = CONVENTIONS["spans"].get(operation, ["INTERNAL"])
        assert (span.kind.name, [one for one in required if one not in found]) == (kind, [])
        types = {key: type(value).__name__ for key, value in found.items() if not key.startswith("graphexec.")}
        assert types == {key: CONVENTIONS["attributes"][key] for key in types}
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.schema_url == names.SCHEMA_URL
    measured = telemetry.metrics()
    assert {*measured} == {*CONVENTIONS["metrics"]}
    for name, (unit, *limits) in CONVENTIONS["metrics"].items():
        assert measured[name].unit == unit
        for point in measured[name].data.data_points:
            assert {*point.attributes} <= {*CONVENTIONS["attributes"]}
            if limits:
                bounds = point.explicit_bounds
                assert [bounds[0], bounds[-1], bounds[1] / bounds[0]] == pytest.approx(limits)


@gx.tool
def interrupt(text: str) -> str:
    """Interrupt."""
    raise KeyboardInterrupt


def test_metrics_count_what_runs_spend(telemetry: Telemetry) -> None:
    usage = Usage(10, 3, cached_tokens=4)
    reply = ModelReply("", (call("echo", text="a"), call("fail", "c2", text="a")), usage=usage, model="scripted-1")
    with pytest.raises(errors.RateLimitError):
        calling(reply, errors.RateLimitError("slow down")).run("q")
    with pytest.raises(KeyboardInterrupt):
        calling(call("interrupt", text="a"), tools=[interrupt]).run("q")
    measured = telemetry.metrics()

    def sums(name: str, key: str = "") -> dict[Any, Any]:
        points = measured[f"gen_ai.{name}"].data.data_points
        return {one.attributes.get(key): getattr(one, "sum", None) or getattr(one, "value", 0) for one in points}

    usage_of, failed = "client.inference.usage", "graphexec.errors.RateLimitError"
    assert sums(f"{usage_of}.input_tokens", names.MODALITY) == {"unknown": 10}
    assert sums(f"{usage_of}.output_tokens", names.REQUEST_MODEL) == {"scripted": 3}
    assert sums(f"{usage_of}.cache_read.input_tokens", names.PROVIDER) == {"scripted": 4}
    # A failed call has no size, and one without an answer no duration.
    assert {*sums("client.inference.duration", names.ERROR_TYPE)} == {None, failed}
    size = "client.inference.operation.input_tokens"
    assert {*sums(size, names.ERROR_TYPE)} == {None}
    assert sums(size, names.RESPONSE_MODEL) == {"scripted-1": 10, None: 0}
    assert {*sums("execute_tool.duration", names.ERROR_TYPE)} == {None, "ValueError"}
    assert {*sums("execute_tool.duration", names.TOOL_NAME)} == {"echo", "fail"}
    assert (sums("invoke_agent.inference_calls"), sums("invoke_agent.tool_calls")) == ({None: 3}, {None: 3})
    # The values are those of the spans.
    runs = [one for one in telemetry.take() if one.name == "invoke_agent"]
    seconds = {
        attributes(one).get(names.ERROR_TYPE): ((one.end_time or 0) - (one.start_time or 0)) / 1e9 for one in runs
    }
    assert sums("invoke_agent.duration", names.ERROR_TYPE) == pytest.approx(seconds)


# ---- ends


def leave(executor: gx.AgentExecutor) -> None:
    events = executor.stream("q")
    next(events)
    events.close()


def cancel(executor: gx.AgentExecutor) -> None:
    async def run() -> None:
        running = asyncio.create_task(executor.arun("q"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def say(effect: gx.AskHuman) -> str:
    return "yes"


@gx.node(asks=1)
def approve(ready: Ready) -> gx.Asks[gx.AskHuman, Ready]:
    """Ask a person."""
    yield from gx.ask(gx.AskHuman("Go on?"))
    return ready


@cases(
    ("executor", "run", "ends"),
    (calling("a"), run_sync, ["finished"]),
    (calling(call("echo", text="a"), max_model_calls=1), run_sync, ["stopped", "model_calls"]),
    (calling("a"), leave, ["closed"]),
    (caller_of(BlockingModel()), cancel, ["cancelled"]),
    (calling(call("interrupt", text="a"), tools=[interrupt]), run_sync, ["interrupted"]),
    (calling("a", nodes=[approve]), run_sync, ["paused"]),
    (calling(call("fail", text="secret"), handle_tool_errors="raise"), run_sync, ["failed", "ValueError"]),
    (calling(errors.RateLimitError("slow down")), run_sync, ["failed", "graphexec.errors.RateLimitError"]),
)
def test_only_failures_are_errors(executor: Any, run: Any, ends: list[str], telemetry: Telemetry) -> None:
    with contextlib.suppress(Exception, KeyboardInterrupt):
        run(executor)
    spans = telemetry.take()
    found = attributes(named(spans, "invoke_agent"))
    assert [found[key] for key in (names.OUTCOME, names.REASON, names.ERROR_TYPE) if key in found] == ends
    # A call without an answer is no error, either.
    failed = {one.name for one in spans if not one.status.is_unset}
    assert failed == {one.name for one in spans if names.ERROR_TYPE in attributes(one)}
    assert ("invoke_agent" in failed) == (ends[0] == "failed")
    described = {one.status.description for one in spans if one.status.description}
    assert described == ({"slow down"} if "RateLimit" in ends[-1] else set())


def test_tool_calls_have_the_status_of_their_results(telemetry: Telemetry) -> None:
    calls = [call("echo", "c1", text="a"), call("fail", "c2", text="a"), call("echo", "c3", x=1), call("secret", "c4")]
    # As a server may name a tool.
    odd = tool_from_schema("odd\ud800", "Odd.", {"type": "object"}, lambda: "a")
    calling([*calls, call(odd.name, "c5")], "done", tools=[echo, fail, odd]).run("q")
    found = [(one.name, attributes(one)) for one in telemetry.take() if one.name.startswith("execute_tool")]
    # A name that only the model knows is not a name of spans.
    assert {one[names.TOOL_CALL_ID]: (name, one.get(names.ERROR_TYPE)) for name, one in found} == {
        "c1": ("execute_tool echo", None),
        "c2": ("execute_tool fail", "ValueError"),
        "c3": ("execute_tool echo", "bad_arguments"),
        "c4": ("execute_tool _OTHER", "unknown_tool"),
        "c5": ("execute_tool odd?", None),
    }


SLOW, CUT = 0.6, 0.15


@gx.tool
def slow(text: str) -> str:
    """Take a while."""
    threading.Event().wait(SLOW)
    return text


@gx.tool(name="slow")
async def slow_async(text: str) -> str:
    """Take a while."""
    await asyncio.sleep(SLOW)
    return text


ONE, TWO = [call("slow", text="a")], [call("slow", text="a"), call("slow", "c2", text="b")]


@pytest.mark.medium
@cases("way", "run", "arun", "stream", "astream")
def test_cut_calls_end_at_the_cut(way: str, telemetry: Telemetry) -> None:
    """The best of three, as the machine may be busy."""
    for model, tool, cut in (
        (ScriptedModel([ONE] * 3), slow, ["execute_tool slow"]),
        (ScriptedModel([ONE] * 3), slow_async, ["execute_tool slow"]),
        (ScriptedModel([TWO] * 3), slow, ["execute_tool slow"] * 2),
        (BlockingModel(), slow, ["chat"]),
    ):
        late: list[float] = []
        while len(late) < 3 and min(late, default=1.0) > 0.02:
            run_by(way, caller_of(model, tool, max_execution_time=CUT))
            spans = telemetry.take()
            run, several = named(spans, "invoke_agent"), [one for one in spans if names.ERROR_TYPE in attributes(one)]
            assert [(one.name, attributes(one)[names.ERROR_TYPE]) for one in several] == [(name, "cut") for name in cut]
            assert attributes(run)[names.REASON] == "seconds"
            late.append(max((one.end_time or 0) - (run.start_time or 0) for one in several) / 1e9 - CUT)
        assert min(late) <= 0.02, cut


# ---- one trace


def test_other_effects_have_the_names_of_their_classes(telemetry: Telemetry) -> None:
    """A machine without an agent is a workflow."""

    def stop(question: str, limit: gx.Exhausted) -> gx.AgentFinish:
        return gx.AgentFinish({"output": question})

    @gx.node(asks=1, when_spent=stop)
    def begin(question: str) -> gx.Asks[gx.AskHuman, gx.AgentFinish]:
        reply = yield from gx.ask(gx.AskHuman(question))
        return gx.AgentFinish({"output": reply})

    machine = gx.graph(gx.edges(begin, gx.on(gx.AgentFinish, gx.END)), start=begin)
    machine.run("Who?", handlers={gx.AskHuman: say})
    outer, inner = telemetry.take()
    assert (outer.name, attributes(outer)[names.OPERATION]) == ("invoke_workflow", "invoke_workflow")
    assert (inner.name, attributes(inner)) == ("AskHuman", {names.NODE: "begin"})
    assert names.REQUEST_MODEL not in attributes(outer)


def test_resumed_run_has_the_id_of_the_run(telemetry: Telemetry) -> None:
    snapshot = snapshot_after(errors.MissingHandlerError, lambda: calling(nodes=[approve]).run("q"))
    calling("b", nodes=[approve], handlers={gx.AskHuman: say}).run(snapshot)
    first, second = [attributes(one) for one in telemetry.take() if one.name == "invoke_agent"]
    assert second[names.RUN_ID] == first[names.RUN_ID]
    assert (second[names.RESUMED], names.RESUMED in first) == (True, False)


def test_second_instrumentation_replaces_the_first(telemetry: Telemetry) -> None:
    other = Telemetry()
    remove = other.instrument(name="adder\ud800")
    calling("a").run("q")
    assert (telemetry.take(), tree(other.take(), bare=True)) == ([], "invoke_agent adder?[chat scripted]")
    again = telemetry.instrument()
    remove()
    calling("a").run("q")
    assert (len(telemetry.take()), other.take()) == (2, [])
    again()
    again()
    calling("a").run("q")
    assert telemetry.take() == []


class Broken(SimpleSpanProcessor):
    """A span processor that fails on calls."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if not span.name.startswith("invoke"):
            raise RuntimeError("on_start")


def test_failing_span_processor_does_not_fail_the_run(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    telemetry.tracers.add_span_processor(Broken(InMemorySpanExporter()))
    for way in ("run", "arun"):
        assert run_by(way, calling([call("echo", text="a"), call("fail", "c2", text="a")], "b")).output == "b"
    assert tree(telemetry.take(), bare=True) == "invoke_agent, invoke_agent"
    assert "on_start" in caplog.text


# ---- models


class Streams(Named):
    """A model that streams its reply."""

    __slots__ = ()

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Iterator[ReplyDelta | ModelReply]:
        yield ReplyDelta("a")
        yield ModelReply("a")


BUSY = errors.RateLimitError("slow down", retry_after=0.0)


def asked_before() -> Any:
    model = cached(ScriptedModel([ModelReply("a", usage=Usage(5, 5))]))
    caller_of(model).run("q")
    return model


@cases(
    ("make", "expected"),
    (lambda: retrying(ScriptedModel([BUSY, BUSY, "a"])), {names.ATTEMPTS: 3}),
    (lambda: with_fallbacks(ScriptedModel([BUSY]), Streams([])), {names.FALLBACK: True, names.REQUEST_STREAM: True}),
    (lambda: Streams([]), {names.REQUEST_STREAM: True}),
    (asked_before, {names.CACHED: True}),
    (lambda: ScriptedModel([ModelReply("a", cost=0.5)]), {names.COST: 0.5}),
)
def test_spans_of_models_say_how_the_reply_came(make: Any, expected: dict[str, Any], telemetry: Telemetry) -> None:
    list(caller_of(make()).stream("q", tokens=True))
    span = telemetry.take()[-1]
    known = (names.ATTEMPTS, names.FALLBACK, names.REQUEST_STREAM, names.CACHED, names.COST)
    found = attributes(span)
    assert {key: found[key] for key in known if key in found} == expected
    assert span.status.is_unset
    assert (names.FIRST_CHUNK in found) == (names.REQUEST_STREAM in expected)


# ---- content

SECRET = "hunter2"


def written(span: ReadableSpan) -> str:
    return f"{span.name} {attributes(span)} {span.status.description} {span.events}"


def test_no_content_leaves_unless_it_is_asked_for(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = (call("echo", text=SECRET), call("fail", "c2", text=SECRET), call(SECRET, "c3"))
    replies = ModelReply(SECRET, calls), SECRET
    unread = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([SECRET]), [echo]), tools=[echo])
    raising = calling(calls[1], handle_tool_errors="raise")
    for executor in (calling(*replies), raising, unread, calling(errors.InvalidReplyError(SECRET))):
        with contextlib.suppress(ValueError, errors.ModelError):
            executor.run(SECRET)
    assert [one for one in telemetry.take() if SECRET in written(one)] == []
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    telemetry.instrument()
    calling(*replies).run(SECRET)
    spans = {one.name: attributes(one) for one in telemetry.take()}
    first = spans["execute_tool echo"]
    assert (first[names.TOOL_ARGUMENTS], first[names.TOOL_RESULT]) == (f'{{"text": "{SECRET}"}}', SECRET)
    outer = spans["invoke_agent"]
    assert json.loads(outer[names.INPUT_MESSAGES]) == [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}]
    assert SECRET in outer[names.OUTPUT_MESSAGES]
    # Of the last request only what the first one did not have.
    last = spans["chat scripted"]
    new = json.loads(last[names.INPUT_MESSAGES])
    assert (last[names.KNOWN_MESSAGES], [one["role"] for one in new]) == (2, ["assistant", "tool", "tool", "tool"])
    assert [one["type"] for one in new[0]["parts"]] == ["text", "tool_call", "tool_call", "tool_call"]


def test_call_without_an_answer_has_its_request(telemetry: Telemetry) -> None:
    telemetry.instrument(content=True)
    with pytest.raises(KeyboardInterrupt):
        calling(call("interrupt", text=SECRET), tools=[interrupt]).run("q")
    cancel(caller_of(BlockingModel()))
    found = [attributes(one) for one in telemetry.take()]
    assert [one[names.OUTCOME] for one in found if names.TOOL_ARGUMENTS in one] == ["interrupted"]
    assert names.INPUT_MESSAGES in found[-1]


@pytest.mark.medium
@cases("make", gx.create_tool_calling_agent, gx.create_react_agent)
def test_content_grows_with_the_run(make: Any, telemetry: Telemetry) -> None:
    """The text of a step, however long the run is; without that, 40 steps would have 30 times the text of ten."""

    def recorded(steps: int) -> int:
        reply = "Action: echo\nAction Input: aaaa" if make is gx.create_react_agent else [call("echo", text="aaaa")]
        final = "Final Answer: b" if make is gx.create_react_agent else "b"
        agent = make(ScriptedModel([*[reply] * steps, final]), [echo])
        gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=100).run("q")
        return sum(len(str(attributes(one).get(names.INPUT_MESSAGES))) for one in telemetry.take())

    telemetry.instrument(content=True)
    ten, twenty, forty = map(recorded, (10, 20, 40))
    assert forty - twenty == pytest.approx(2 * (twenty - ten), rel=0.1)


class Shown:
    """A value that counts how often it is shown, and cannot be."""

    times = 0

    def __repr__(self) -> str:
        self.times += 1
        raise ValueError


def test_content_is_bounded_and_can_be_encoded(telemetry: Telemetry) -> None:
    """It is not made for a trace that is not sampled."""
    telemetry.instrument(content=True)
    shown = Shown()
    odd = "\ud800" * 90_000
    calls = [call("echo", text="a" * 100_000), call(odd, odd), *[call("echo", text="a" * 900)] * 100]
    executor = calling(calls, odd, max_iterations=200)
    executor.run({"input": "q", "more": shown})
    spans = telemetry.take()
    assert len(spans) == 105
    for span in spans:
        written(span).encode()
        assert max(len(str(value)) for value in attributes(span).values()) < 90_000
    times = shown.times
    telemetry.instrument(content=True, tracer_provider=TracerProvider(ALWAYS_OFF))
    calling("a").run({"input": "q", "more": shown})
    assert shown.times == times > 0


# ---- memory, and what is missing


def test_abandoned_run_ends_with_its_stream(telemetry: Telemetry) -> None:
    """It holds nothing but its run: what nobody refers to any more is closed."""
    events = calling(call("echo", text="a"), "b").stream("q")
    next(events)
    assert telemetry.take() == []
    del events
    gc.collect()
    assert attributes(named(telemetry.take(), "invoke_agent"))[names.OUTCOME] == "closed"


def test_steps_that_are_changed_continue_the_run(telemetry: Telemetry) -> None:
    turns = langchain.iterate(calling(call("echo", text="a"), "b"), "q")
    for _ in turns:
        if not turns.ended:
            turns.run = Run({"input": "q"}, turns.run.steps)
    outer = [attributes(one) for one in telemetry.take() if one.name == "invoke_agent"]
    assert [one[names.OUTCOME] for one in outer] == ["closed", "finished"]
    assert len({one[names.RUN_ID] for one in outer}) == 1


@cases(
    ("options", "fact"),
    ({"name": 1}, "name=1"),
    ({"content": "yes"}, "content='yes'"),
    ({"tracer_provider": MeterProvider()}, "tracer_provider=.* a TracerProvider"),
    ({"meter_provider": TracerProvider}, "meter_provider=.* a MeterProvider"),
    ({}, r"pip install 'graphexec-agents\[otel\]'"),
)
def test_mistake_is_named(options: dict[str, Any], fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not options:
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(errors.InputError, match=fact):
        otel.instrument(**options)


@pytest.mark.medium
def test_nothing_loads_opentelemetry_before_it_is_used() -> None:
    code = "import sys, graphexec, graphexec.integrations.otel, graphexec.cli.runs.running as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [one for one in loaded.split() if one.startswith("opentelemetry")] == []
