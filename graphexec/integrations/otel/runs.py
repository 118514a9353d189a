"""The spans and the metrics of a run and of its calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from graphexec import __version__
from graphexec.actions import AgentFinish, StoppedResponse, reason_of, run_of
from graphexec.agents import Agent
from graphexec.effects import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    CallTool,
    ModelEffect,
    ModelFailure,
    ToolResult,
)
from graphexec.errors import (
    AbandonedError,
    InvalidCallError,
    InvalidReplyError,
    MissingHandlerError,
    ModelError,
    RefusalError,
    qualified_name,
)
from graphexec.integrations.otel import names
from graphexec.integrations.otel.content import clip, format_messages, format_value, messages_of, new_messages
from graphexec.integrations.otel.kinds import Attributes, CallKind, drop_empty, find_setting, make_kind, text_of
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Answered, Done, Event, Failed, Reported
from graphexec.kernel.meters import Exhausted, Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, Message, ModelReply, ReplyDelta, Usage, UserMessage
from graphexec.models.progress_reports import Cached, FellBack, Retried
from graphexec.runtime import RunStart
from graphexec.runtime.observers import AroundCall, Observer

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

# Characters of the message of an error.
_LONGEST_ERROR = 200
# The errors of models whose messages quote a reply.
_QUOTING = frozenset(map(qualified_name, (InvalidReplyError, InvalidCallError, RefusalError)))


@final
class Telemetry:
    """What the runs of an instrumentation share: the tracer, the instruments of the metrics, and the options."""

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, name: str, *, content: bool
    ) -> None:
        self.tracer = trace.get_tracer("graphexec", __version__, tracers, names.SCHEMA_URL)
        self.name, self.content = name, content
        meter = metrics.get_meter("graphexec", __version__, meters, names.SCHEMA_URL)

        def record(metric: names.Metric) -> Callable[..., None]:
            if not metric.boundaries:
                return meter.create_counter(metric.name, metric.unit).add
            limits = [*metric.boundaries]
            return meter.create_histogram(metric.name, metric.unit, explicit_bucket_boundaries_advisory=limits).record

        self.record = {one: record(one) for one in vars(names).values() if isinstance(one, names.Metric)}
        self._meters = meters
        # The spans of runs that nothing refers to any more, with the arguments of `_end`.
        self.left: deque[tuple[Span, Attributes, int]] = deque()

    def begin(self, start: RunStart) -> tuple[Observer, AroundCall]:
        """Begin the span of a run; return its observer, and what makes the context managers of its calls."""
        self.end_left()
        run = RunTelemetry(self, start)
        return run, partial(CallSpan, run)

    def end_left(self) -> None:
        """End the spans of the runs that have been left."""
        with suppress(IndexError):
            while True:
                _end(*self.left.popleft())

    @property
    def measures(self) -> bool:
        """Whether metrics are recorded: the providers of the API itself, until a program sets another, ignore them."""
        provider = self._meters or metrics.get_meter_provider()
        return not type(provider).__module__.startswith("opentelemetry.metrics")


@final
class CallSpan:
    """The span of a call: current in the block, and ended when the call is answered, or has failed."""

    __slots__ = ("_call", "_ended", "_kind", "_run", "_span", "_started", "_token", "extra")

    def __init__(self, run: RunTelemetry, call: CallContext[Any]) -> None:
        self._run = run
        self._call = call
        self._ended = 0
        # Attributes that are known only later.
        self.extra: Attributes = {}

    def __enter__(self) -> None:
        run, call = self._run, self._call
        self._kind = kind = run.kind_of(call)
        next(kind.calls)
        attributes, provider_id = kind.attributes, call.provider_id
        if provider_id is not None:
            attributes = {**attributes, names.TOOL_CALL_ID: clip(provider_id)}
        self._started = now = time_ns()
        self._span = span = run.shared.tracer.start_span(kind.name, run.context, kind.kind, attributes, None, now)
        run.open[call.sequence, call.member] = self
        self._token = otel.attach(set_span_in_context(span, run.context))

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        # The block of a coroutine that is closed may end in another context.
        if kind is not GeneratorExit:
            otel.detach(self._token)
        self._ended = time_ns()
        # A call that is cut off is answered soon; one of a run that has ended is ended with it.
        if isinstance(error, Exception) and _outcome_of(error) == "failed" and self._run.close(self._call):
            self.finish(error)

    def finish(self, reply: object) -> None:
        """End the span with what answered the call, or with the exception that it raised."""
        attributes, content, error, text = self.extra, self._run.shared.content, "", ""
        usage: Usage | None = None
        if isinstance(reply, ModelReply):
            usage = reply.usage
            attributes[names.FINISH_REASONS] = (reply.finish_reason,)
            attributes[names.INPUT_TOKENS] = usage.prompt_tokens
            attributes[names.OUTPUT_TOKENS] = usage.completion_tokens
            if usage.cached_tokens:
                attributes[names.CACHED_TOKENS] = usage.cached_tokens
            if reply.model:
                attributes[names.RESPONSE_MODEL] = clip(reply.model)
            if reply.cost is not None:
                attributes[names.COST] = reply.cost
        elif isinstance(reply, ToolResult):
            if reply.status != "ok":
                error = reply.error or reply.status
        elif isinstance(reply, ModelFailure):
            error, text = reply.error, reply.text if content or reply.error not in _QUOTING else ""
        elif isinstance(reply, Exhausted):
            error = "cut"
        elif isinstance(reply, Exception):
            error, text = _describe(reply, content=content)
        if content:
            self._run.add_content(self._call, reply, attributes)
        self.end(error, text, usage)

    def end(self, error: str = "", text: str = "", usage: Usage | None = None) -> None:
        """End the span at the end of its block, or now if the call was cut off; record the metrics."""
        ended = self._ended or time_ns()
        _end(self._span, self.extra, ended, error, text)
        if self._run.measures and self._kind.duration is not None:
            self._measure(self._kind, self._kind.duration, ended, error, usage or Usage())

    def _measure(self, kind: CallKind, duration: names.Metric, ended: int, error: str, usage: Usage) -> None:
        measured, extra, record = kind.measured, self.extra, self._run.shared.record
        if error:
            measured = {**measured, names.ERROR_TYPE: error}
        if names.RESPONSE_MODEL in extra:
            measured = {**measured, names.RESPONSE_MODEL: extra[names.RESPONSE_MODEL]}
        record[duration]((ended - self._started) / 1e9, measured)
        if duration is names.INFERENCE_DURATION:
            counted = {**kind.measured, names.MODALITY: "unknown"}
            record[names.INPUT_SIZE](usage.prompt_tokens, measured)
            record[names.OUTPUT_SIZE](usage.completion_tokens, measured)
            record[names.INPUT_USAGE](usage.prompt_tokens, counted)
            record[names.OUTPUT_USAGE](usage.completion_tokens, counted)
            record[names.CACHED_USAGE](usage.cached_tokens, counted)

    def take_report(self, news: object) -> None:
        """Add what a model or a tool reports of its attempts, and when the first piece of a reply comes."""
        match news:
            case ReplyDelta() if names.REQUEST_STREAM not in self.extra:
                waited = (time_ns() - self._started) / 1e9
                self.extra |= {names.REQUEST_STREAM: True, names.FIRST_CHUNK: waited}
            case Retried(attempt=attempt):
                self.extra[names.ATTEMPTS] = attempt + 1
            case FellBack():
                self.extra[names.FALLBACK] = True
            case Cached():
                self.extra[names.CACHED] = True
            case _:
                pass


@final
class RunTelemetry:
    """The span of a run, and those of its calls that are open. It is the run's observer, and makes its call spans."""

    # What else happens is not made for it.
    event_types = (Answered, Reported, Done, Failed)
    span: Span | None = None

    def __init__(self, shared: Telemetry, start: RunStart) -> None:
        self.shared = shared
        self.measures = shared.measures
        self._start = start
        self._kinds: dict[tuple[object, ...], CallKind] = {}
        self.open: dict[tuple[int, int], CallSpan] = {}
        # The last messages to the model of each agent.
        self._known: dict[str, tuple[Message, ...]] = {}
        agent = find_setting(start.graph.settings, Agent)
        operation = names.INVOKE_WORKFLOW if agent is None else names.INVOKE_AGENT
        host, name = start.host, shared.name
        if host is not None:
            name = host.effect.name if isinstance(host.effect, CallTool) else host.node
        self._name = name
        model = "" if agent is None else text_of(agent.model, "name")
        self._measured = drop_empty({names.OPERATION: operation, names.AGENT_NAME: name, names.REQUEST_MODEL: model})
        attributes = {**self._measured, names.RUN_ID: start.run_id}
        value = start.value
        self._spent = value.spent if isinstance(value, Snapshot) else Spent()
        if isinstance(value, Snapshot) and value.run_id:
            attributes[names.RESUMED] = True
        elif shared.content and (run := run_of(value)) is not None:
            inputs = run.inputs["input"] if [*run.inputs] == ["input"] else dict(run.inputs)
            attributes[names.INPUT_MESSAGES] = format_messages([UserMessage(format_value(inputs))])
        parent, self._began, title = otel.get_current(), time_ns(), f"{operation} {name}".rstrip()
        self.span = shared.tracer.start_span(title, parent, SpanKind.INTERNAL, attributes, None, self._began)
        self.context = set_span_in_context(self.span, parent)

    def __del__(self) -> None:
        # A run that goes on in another stream has no last event. This may be called within a lock of the SDK.
        if self.span is not None:
            self.shared.left.append((self.span, {names.OUTCOME: "closed"}, time_ns()))

    def __call__(self, event: Event[Any]) -> None:
        """Take an event of the run."""
        if isinstance(event, Answered):
            if event.call is not None and (answered := self.close(event.call)) is not None:
                answered.finish(event.reply)
            return
        match event:
            case Done():
                self._finish(event.outcome, event.spent)
            case Failed(error=error):
                outcome = _outcome_of(error)
                described = _describe(error, content=self.shared.content) if outcome == "failed" else ("", "")
                self._end({names.OUTCOME: outcome}, event.spent, *described)
            case Reported(call=call):
                if call is not None and (reporting := self.open.get((call.sequence, call.member))) is not None:
                    reporting.take_report(event.news)
            case _:
                pass

    def _finish(self, ending: object, spent: Spent) -> None:
        attributes = {names.OUTCOME: "finished"}
        if isinstance(ending, StoppedResponse):
            attributes = {names.OUTCOME: "stopped", names.REASON: reason_of(ending)}
        if self.shared.content and isinstance(ending, (AgentFinish, StoppedResponse)):
            output = ending.answer if isinstance(ending, AgentFinish) else ending.output
            attributes[names.OUTPUT_MESSAGES] = format_messages([AssistantMessage(format_value(output))])
        self._end(attributes, spent)

    def close(self, call: CallContext[Any]) -> CallSpan | None:
        """Return the span of a call once, as it ends."""
        return self.open.pop((call.sequence, call.member), None)

    def kind_of(self, call: CallContext[Any]) -> CallKind:
        """Return the kind of a call."""
        effect = call.effect
        what: object = None
        if isinstance(effect, CallTool):
            what = effect.name
        elif isinstance(effect, ModelEffect):
            what = type(effect.request)
        key = call.node, effect.__class__, what
        found = self._kinds.get(key)
        # Two threads may begin the same kind of call.
        return found or self._kinds.setdefault(key, make_kind(self._start.graph, self._name, call))

    def add_content(self, call: CallContext[Any], reply: object, attributes: Attributes) -> None:
        """Add the content of a call and of its reply to the attributes of its span."""
        effect = call.effect
        if isinstance(effect, CallTool):
            attributes[names.TOOL_ARGUMENTS] = format_value(effect.tool_input)
            if isinstance(reply, ToolResult):
                attributes[names.TOOL_RESULT] = clip(reply.text)
        elif isinstance(effect, ModelEffect):
            agent, messages = call.node.rpartition(".")[0], messages_of(effect.request)
            same, new = new_messages(messages, self._known.get(agent, ()))
            self._known[agent] = messages
            attributes[names.INPUT_MESSAGES] = format_messages(new)
            if same:
                attributes[names.KNOWN_MESSAGES] = same
            if isinstance(reply, ModelReply):
                attributes[names.OUTPUT_MESSAGES] = format_messages([reply.message])

    def _end(self, attributes: Attributes, spent: Spent | None = None, error: str = "", text: str = "") -> None:
        span, self.span = self.span, None
        if span is None:
            return
        while self.open:
            _, left = self.open.popitem()
            left.extra[names.OUTCOME] = "cancelled"
            left.end()
        if spent is not None:
            attributes |= {
                names.INPUT_TOKENS: int(spent[PROMPT_TOKENS] - self._spent[PROMPT_TOKENS]),
                names.OUTPUT_TOKENS: int(spent[COMPLETION_TOKENS] - self._spent[COMPLETION_TOKENS]),
            }
        ended, record = time_ns(), self.shared.record
        _end(span, attributes, ended, error, text)
        if not self.measures:
            return
        measured = {**self._measured, names.ERROR_TYPE: error} if error else self._measured
        record[names.AGENT_DURATION]((ended - self._began) / 1e9, measured)
        named = {names.AGENT_NAME: self._name} if self._name else {}
        counts = {names.MODEL_CALLS: names.INFERENCE_DURATION, names.TOOL_CALLS: names.TOOL_DURATION}
        for metric, duration in counts.items():
            kinds = [kind for kind in self._kinds.values() if kind.duration is duration]
            record[metric](sum(next(kind.calls) for kind in kinds), named)


def _end(span: Span, attributes: Attributes, ended: int, error: str = "", text: str = "") -> None:
    if error:
        attributes = {**attributes, names.ERROR_TYPE: error}
        span.set_status(Status(StatusCode.ERROR, clip(text, _LONGEST_ERROR) or None))
    if attributes:
        span.set_attributes(attributes)
    span.end(ended)


def _describe(error: BaseException, *, content: bool) -> tuple[str, str]:
    """Return the type of an error, and its message, which without content is only that of a provider."""
    name = qualified_name(type(error))
    return name, str(error) if content or (isinstance(error, ModelError) and name not in _QUOTING) else ""


def _outcome_of(error: BaseException) -> str:
    """Return how an exception ended a run or a call: only the last is an error."""
    if isinstance(error, MissingHandlerError):
        # It waits for a person, whose answer resumes it.
        return "paused"
    if isinstance(error, AbandonedError) or type(error).__name__ == "CancelledError":
        return "cancelled"
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "interrupted"
    # Of a stream that its consumer has left.
    return "failed" if isinstance(error, Exception) else "closed"
