"""The spans and the metrics of a run and of its calls."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.trace import NonRecordingSpan, SpanKind, Status, StatusCode, set_span_in_context

from graphexec import __version__, effects, errors
from graphexec.actions import AgentAction, AgentFinish, StoppedResponse, reason_of, run_of
from graphexec.agents import Agent
from graphexec.agents.calls import CallRules
from graphexec.integrations.otel import names
from graphexec.integrations.otel.content import clip, format_messages, format_value, new_messages
from graphexec.kernel.effects import CallContext, Perform
from graphexec.kernel.events import Answered, Done, Event, Failed, Reported
from graphexec.kernel.meters import Exhausted, Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, CompletionRequest, Message, ModelReply, ReplyDelta, Usage, UserMessage
from graphexec.models.progress_reports import Cached, FellBack, Retried
from graphexec.runtime import RunStart
from graphexec.runtime.observers import AroundCall, Observer

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

T = TypeVar("T")

# Any: attributes, of the classes that OpenTelemetry takes.
Attributes = dict[str, Any]

# Characters of the message of an error.
_LONGEST_ERROR = 200
# The errors of models whose messages quote a reply.
_QUOTING = {f"graphexec.errors.{name}" for name in ("InvalidReplyError", "InvalidCallError", "RefusalError")}
# How an exception ends a run or a call, by its first class here: only failures are errors.
_OUTCOMES: dict[type[BaseException], str] = {
    # It waits for a person, whose answer resumes it.
    errors.MissingHandlerError: "paused",
    errors.RunSuspended: "paused",
    errors.AbandonedError: "cancelled",
    CancelledError: "cancelled",
    KeyboardInterrupt: "interrupted",
    SystemExit: "interrupted",
    Exception: "failed",
    # Of a stream that its consumer has left.
    BaseException: "closed",
}
# For a provider or a tool that is not known.
_OTHER = "_OTHER"


@final
class Telemetry:
    """What the runs of an instrumentation share: the tracer, the instruments of the metrics, and the options."""

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, name: str, *, content: bool
    ) -> None:
        self.tracer = trace.get_tracer("graphexec", __version__, tracers, names.SCHEMA_URL)
        self.name, self.content = clip(name), content
        meter = metrics.get_meter("graphexec", __version__, meters, names.SCHEMA_URL)

        def record(metric: names.Metric) -> Callable[..., None]:
            if not metric.boundaries:
                return meter.create_counter(metric.name, metric.unit).add
            limits = [*metric.boundaries]
            return meter.create_histogram(metric.name, metric.unit, explicit_bucket_boundaries_advisory=limits).record

        self.record = {one: record(one) for one in vars(names).values() if isinstance(one, names.Metric)}
        self._meters = meters

    def begin(self, start: RunStart) -> tuple[Observer, AroundCall]:
        """Begin the span of a run; return its observer, and what makes the context managers of its calls."""
        run = RunTelemetry(self, start)
        return run, partial(CallSpan, run)

    @property
    def measures(self) -> bool:
        """Whether metrics are recorded: the providers of the API itself, until a program sets another, ignore them."""
        provider = self._meters or metrics.get_meter_provider()
        return not type(provider).__module__.startswith("opentelemetry.metrics")


class CallKind(NamedTuple):
    """What the spans and the metrics of calls of one kind have: a name, a kind and attributes."""

    name: str
    kind: SpanKind
    attributes: Attributes
    # None for an effect of which the conventions measure nothing.
    duration: names.Metric | None = None
    measured: Attributes = {}  # noqa: RUF012 - nothing is added to it


@final
class CallSpan:
    """The span of a call: current in the block. The run ends it when the call is answered, or with itself."""

    __slots__ = ("_call", "_ended", "_kind", "_run", "_span", "_started", "_token", "error", "extra")

    def __init__(self, run: RunTelemetry, call: CallContext[Any]) -> None:
        self._run, self._call, self._ended = run, call, 0
        # What the block has raised.
        self.error: BaseException | None = None
        # Attributes that are known only later.
        self.extra: Attributes = {}

    def __enter__(self) -> None:
        run, call = self._run, self._call
        self._kind = kind = run.kind_of(call)
        attributes, provider_id = kind.attributes, call.provider_id
        if provider_id is not None:
            attributes = {**attributes, names.TOOL_CALL_ID: clip(provider_id)}
        self._started = now = time_ns()
        span: Span
        try:
            span = run.shared.tracer.start_span(kind.name, run.context, kind.kind, attributes, None, now)
        except Exception:
            # The call itself is made. What is traced within it belongs to the run.
            logging.getLogger("graphexec").exception("a span processor or sampler failed; %s has no span", kind.name)
            span = NonRecordingSpan(run.span.get_span_context())
        self._span = span
        run.open[call.sequence, call.member] = self
        self._token = otel.attach(set_span_in_context(span, run.context))

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        # The block of a coroutine that is closed may end in another context.
        if kind is not GeneratorExit:
            otel.detach(self._token)
        self.error, self._ended = error, time_ns()

    def finish(self, reply: object) -> None:
        """End the span with what answered the call, or what has ended it, and record the metrics.

        It ends at the end of its block, or now if the call was cut off.
        """
        attributes, run, error, text = self.extra, self._run, "", ""
        content, usage = run.content, Usage()
        match reply:
            case ModelReply():
                usage = reply.usage
                attributes[names.FINISH_REASONS] = (reply.finish_reason,)
                attributes[names.INPUT_TOKENS] = usage.prompt_tokens
                attributes[names.OUTPUT_TOKENS] = usage.completion_tokens
                known = {names.CACHED_TOKENS: usage.cached_tokens, names.COST: reply.cost}
                attributes |= drop_empty({names.RESPONSE_MODEL: clip(reply.model or ""), **known})
            case effects.ToolResult():
                error = "" if reply.status == "ok" else reply.error or reply.status
            case effects.ModelFailure():
                error, text = reply.error, reply.text if content or reply.error not in _QUOTING else ""
            case Exhausted():
                error = "cut"
            case BaseException():
                outcome, error, text = describe(reply, content=content)
                if not error:
                    attributes[names.OUTCOME] = outcome
            case _:
                pass
        if content:
            attributes |= run.describe_content(self._call, reply)
        ended = self._ended or time_ns()
        end(self._span, attributes, ended, error, text)
        if self._kind.duration is not None:
            run.calls[self._kind.duration] += 1
            # A call without an answer is none that has taken so long.
            if run.measures and names.OUTCOME not in attributes:
                self._measure(self._kind.duration, (ended - self._started) / 1e9, error, usage)

    def _measure(self, duration: names.Metric, seconds: float, error: str, usage: Usage) -> None:
        kind, record = self._kind.measured, self._run.shared.record
        reported = {names.ERROR_TYPE: error, names.RESPONSE_MODEL: self.extra.get(names.RESPONSE_MODEL)}
        measured = {**kind, **drop_empty(reported)}
        record[duration](seconds, measured)
        if duration is names.INFERENCE_DURATION:
            counted = {**kind, names.MODALITY: "unknown"}
            record[names.INPUT_USAGE](usage.prompt_tokens, counted)
            record[names.OUTPUT_USAGE](usage.completion_tokens, counted)
            record[names.CACHED_USAGE](usage.cached_tokens, counted)
            if not error:
                record[names.INPUT_SIZE](usage.prompt_tokens, measured)
                record[names.OUTPUT_SIZE](usage.completion_tokens, measured)

    def take_report(self, news: object) -> None:
        """Add what a model or a tool reports of its attempts, and when the first piece of a reply comes."""
        if isinstance(news, ReplyDelta):
            if names.REQUEST_STREAM not in self.extra:
                self.extra |= {names.REQUEST_STREAM: True, names.FIRST_CHUNK: (time_ns() - self._started) / 1e9}
        elif isinstance(news, Retried):
            self.extra[names.ATTEMPTS] = news.attempt + 1
        elif isinstance(news, (FellBack, Cached)):
            self.extra[names.FALLBACK if isinstance(news, FellBack) else names.CACHED] = True


@final
class RunTelemetry:
    """The span of a run, and those of its calls that are open. It is the run's observer."""

    # What else happens is not made for it, and no task for what a call reports.
    event_types = (Answered, Reported, Done, Failed)
    reports_at_end = True

    def __init__(self, shared: Telemetry, start: RunStart) -> None:
        self.shared, self.measures = shared, shared.measures
        self._graph = start.graph
        self._kinds: dict[tuple[object, ...], CallKind] = {}
        self.open: dict[tuple[int, int], CallSpan] = {}
        # The number of calls of which the conventions have a duration.
        self.calls = Counter[names.Metric]()
        # The last messages to the model of each agent.
        self._known: dict[str, tuple[Message, ...]] = {}
        agent = find_setting(start.graph.settings, Agent)
        operation = names.INVOKE_WORKFLOW if agent is None else names.INVOKE_AGENT
        host, name, value = start.host, shared.name, start.value
        if host is not None:
            name = clip(host.effect.name) if isinstance(host.effect, effects.CallTool) else host.node
        self._name, model = name, "" if agent is None else text_of(agent.model, "name")
        self._measured = drop_empty({names.OPERATION: operation, names.AGENT_NAME: name, names.REQUEST_MODEL: model})
        attributes = {**self._measured, names.RUN_ID: start.run_id}
        self._spent = value.spent if isinstance(value, Snapshot) else Spent()
        if isinstance(value, Snapshot) and value.run_id:
            attributes[names.RESUMED] = True
        parent, self._began, title = otel.get_current(), time_ns(), f"{operation} {name}".rstrip()
        self.span = shared.tracer.start_span(title, parent, SpanKind.INTERNAL, attributes, None, self._began)
        self.context = set_span_in_context(self.span, parent)
        # Not for a trace that is not sampled.
        self.content = shared.content and self.span.is_recording()
        if self.content and not isinstance(value, Snapshot) and (run := run_of(value)) is not None:
            inputs = run.inputs["input"] if [*run.inputs] == ["input"] else dict(run.inputs)
            self.span.set_attribute(names.INPUT_MESSAGES, format_messages([UserMessage(format_value(inputs))]))

    def __call__(self, event: Event[Any]) -> None:
        """Take an event of the run."""
        match event:
            case Answered(call=CallContext() as call):
                if (answered := self.open.pop((call.sequence, call.member), None)) is not None:
                    answered.finish(event.reply)
            case Reported(call=CallContext() as call):
                if (reporting := self.open.get((call.sequence, call.member))) is not None:
                    reporting.take_report(event.news)
            case Done(outcome=ending):
                attributes = {names.OUTCOME: "finished"}
                if isinstance(ending, StoppedResponse):
                    attributes = {names.OUTCOME: "stopped", names.REASON: reason_of(ending)}
                if self.content and isinstance(ending, (AgentFinish, StoppedResponse)):
                    output = ending.answer if isinstance(ending, AgentFinish) else ending.output
                    attributes[names.OUTPUT_MESSAGES] = format_messages([AssistantMessage(format_value(output))])
                self._end(attributes, event.spent)
            case Failed():
                outcome, *described = describe(event.error, content=self.content)
                self._end({names.OUTCOME: outcome}, event.spent, *described)
            case _:
                pass

    def _end(self, attributes: Attributes, spent: Spent, error: str = "", text: str = "") -> None:
        while self.open:
            _, left = self.open.popitem()
            left.finish(left.error or errors.AbandonedError())
        attributes |= {
            names.INPUT_TOKENS: int(spent[effects.PROMPT_TOKENS] - self._spent[effects.PROMPT_TOKENS]),
            names.OUTPUT_TOKENS: int(spent[effects.COMPLETION_TOKENS] - self._spent[effects.COMPLETION_TOKENS]),
        }
        ended, record = time_ns(), self.shared.record
        end(self.span, attributes, ended, error, text)
        measured = self._measured | drop_empty({names.ERROR_TYPE: error})
        record[names.AGENT_DURATION]((ended - self._began) / 1e9, measured)
        named = drop_empty({names.AGENT_NAME: self._name})
        record[names.MODEL_CALLS](self.calls[names.INFERENCE_DURATION], named)
        record[names.TOOL_CALLS](self.calls[names.TOOL_DURATION], named)

    def kind_of(self, call: CallContext[Any]) -> CallKind:
        """Return the kind of a call."""
        effect = call.effect
        request: object = getattr(effect, "request", None)
        key = call.node, effect.__class__, effect.name if isinstance(effect, effects.CallTool) else request.__class__
        if (found := self._kinds.get(key)) is None:
            found = self._kinds[key] = self._make_kind(call)
        return found

    def _make_kind(self, call: CallContext[Any]) -> CallKind:
        effect, own = call.effect, self._graph.nodes[call.node].settings
        settings = self._graph.settings if own is None else own
        node = {names.NODE: call.node}
        if isinstance(effect, effects.CallTool):
            name, rules = clip(effect.name), find_setting(settings, CallRules)
            if rules is not None:
                # A model may call a tool that does not exist, by any name.
                tool = rules.find_tool(AgentAction(effect.name, ""))
                name = _OTHER if tool is None else clip(tool.name)
            caller = self._name if own is None else call.node.rpartition(".")[0]
            measured = drop_empty({names.TOOL_NAME: name, names.TOOL_TYPE: "function", names.AGENT_NAME: caller})
            # Without the description, which may be long, and would be the same on each span.
            attributes = {names.OPERATION: names.EXECUTE_TOOL, **measured}
            title = f"{names.EXECUTE_TOOL} {name}"
            return CallKind(title, SpanKind.INTERNAL, attributes, names.TOOL_DURATION, measured)
        if not isinstance(effect, effects.ModelEffect):
            return CallKind(call.node if type(effect) is Perform else type(effect).__name__, SpanKind.INTERNAL, node)
        # A subclass asks another model than the agent's.
        agent = find_setting(settings, Agent) if type(effect) in (effects.CallModel, effects.AttemptModel) else None
        model = None if agent is None else agent.model
        name = text_of(model, "name")
        operation = names.TEXT_COMPLETION if isinstance(effect.request, CompletionRequest) else names.CHAT
        provider = text_of(model, "provider") or _OTHER
        measured = drop_empty({names.OPERATION: operation, names.PROVIDER: provider, names.REQUEST_MODEL: name})
        title = f"{operation} {name}".rstrip()
        return CallKind(title, SpanKind.CLIENT, {**measured, **node}, names.INFERENCE_DURATION, measured)

    def describe_content(self, call: CallContext[Any], reply: object) -> Attributes:
        """Return the attributes with the content of a call and of its reply."""
        effect = call.effect
        if isinstance(effect, effects.CallTool):
            result = {names.TOOL_RESULT: clip(reply.text)} if isinstance(reply, effects.ToolResult) else {}
            return {names.TOOL_ARGUMENTS: format_value(effect.tool_input), **result}
        if not isinstance(effect, effects.ModelEffect):
            return {}
        agent, request = call.node.rpartition(".")[0], effect.request
        texts = (UserMessage(request.prompt),) if isinstance(request, CompletionRequest) else tuple(request.messages)
        same, new = new_messages(texts, self._known.get(agent, ()))
        self._known[agent] = texts
        output = format_messages([reply.message]) if isinstance(reply, ModelReply) else ""
        attributes = {names.KNOWN_MESSAGES: same, names.OUTPUT_MESSAGES: output}
        return {names.INPUT_MESSAGES: format_messages(new), **drop_empty(attributes)}


def end(span: Span, attributes: Attributes, ended: int, error: str, text: str) -> None:
    """End a span, with the type and the message of an error if it has one."""
    if error:
        attributes = {**attributes, names.ERROR_TYPE: error}
        span.set_status(Status(StatusCode.ERROR, clip(text, _LONGEST_ERROR) or None))
    if attributes:
        span.set_attributes(attributes)
    span.end(ended)


def describe(error: BaseException, *, content: bool) -> tuple[str, str, str]:
    """Return how an exception ends a run or a call, and if it has failed, the type of the error and its message.

    Without content this is the message of a provider only.
    """
    outcome = next(outcome for kind, outcome in _OUTCOMES.items() if isinstance(error, kind))
    if outcome != "failed":
        return outcome, "", ""
    name = errors.qualified_name(type(error))
    is_told = content or (isinstance(error, errors.ModelError) and name not in _QUOTING)
    return outcome, name, str(error) if is_told else ""


def find_setting(settings: tuple[object, ...], kind: type[T]) -> T | None:
    """Return the setting of a graph that is of this class, if any."""
    return next((one for one in settings if isinstance(one, kind)), None)


def drop_empty(attributes: Attributes) -> Attributes:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value}


def text_of(model: object, name: str) -> str:
    """Return an attribute that the protocol of models does not require, or an empty string."""
    found = getattr(model, name, "")
    return clip(found) if isinstance(found, str) else ""
