"""The cost of telemetry: two spans of a step, beside two spans of the SDK alone.

    python benchmarks/telemetry.py [--check]

A step is a reply of a scripted model with one call, and the call of a trivial tool. `plain` is a step without
telemetry, and `watched` one with an observer that does nothing. `bare` is one with two spans of the SDK without
attributes, by `around_call`, and `alone` are two such spans without a run. `spans` is an instrumented step with the
SDK's tracer, `metrics` one with its meter, too, and `unset` one without the SDK. Spans are exported to memory. Times
are of the processor, in microseconds a step, the least of rounds in which all take turns. What telemetry adds to a
plain step may be twice what the bare spans add. With `--check` the exit status is 1 if it is more.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from graphexec import AgentExecutor, CallContext, create_tool_calling_agent, tool
from graphexec.integrations.otel import instrument
from graphexec.messages import ModelReply, ModelRequest, ToolCall, Usage

STEPS, ROUNDS = 200, 25
GOAL = 2.0


@tool
def add_one(x: int) -> int:
    """Add one."""
    return x + 1


class Calls:
    """A model that calls the tool endlessly."""

    name, provider = "tiny", "scripted"
    reply = ModelReply("", (ToolCall("call_1", "add_one", '{"x": 1}'),), usage=Usage(10, 2), model="tiny-1")

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the call."""
        del request, timeout
        return self.reply


def measure(work: Callable[[], object]) -> float:
    """Return the time of the processor for one of the steps that a function makes."""
    gc.collect()
    began = time.process_time()
    work()
    return (time.process_time() - began) / STEPS * 1e6


def main() -> int:
    """Measure, print, and return the exit status."""
    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    exporter = InMemorySpanExporter()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = tracers.get_tracer("bare")
    agent = create_tool_calling_agent(Calls(), [add_one])

    # Any: the options of an executor, and of the instrumentation.
    def run(**options: Any) -> Callable[[], float]:
        executor = AgentExecutor(agent=agent, tools=[add_one], max_iterations=STEPS, **options)
        return lambda: measure(lambda: executor.run("q"))

    def run_instrumented(**providers: Any) -> Callable[[], float]:
        measured = run()

        def instrumented() -> float:
            end = instrument(**providers)
            try:
                return measured()
            finally:
                end()

        return instrumented

    def make_span(call: CallContext[Any]) -> AbstractContextManager[object]:
        return tracer.start_as_current_span(call.node)

    def make_spans() -> None:
        with tracer.start_as_current_span("run"):
            for _ in range(STEPS):
                for name in ("chat", "execute_tool"):
                    with tracer.start_as_current_span(name):
                        pass

    rounds: dict[str, Callable[[], float]] = {
        "alone": lambda: measure(make_spans),
        "plain": run(),
        "watched": run(observers=[id]),
        "bare": run(around_call=make_span),
        "unset": run_instrumented(),
        "spans": run_instrumented(tracer_provider=tracers),
        "metrics": run_instrumented(tracer_provider=tracers, meter_provider=meters),
    }
    times: dict[str, list[float]] = {name: [] for name in rounds}
    gc.disable()
    for number in range(ROUNDS + 1):
        for name, one in rounds.items():
            seconds = one()
            exporter.clear()
            # The first round fills caches.
            times[name] += [seconds] if number else []
    least = {name: min(several) for name, several in times.items()}
    for name, seconds in least.items():
        print(f"{name:8} {seconds:6.1f}")
    added = (least["spans"] - least["plain"]) / (least["bare"] - least["plain"])
    print(f"telemetry adds {added:.2f} times what two bare spans add; at most {GOAL}")
    return int("--check" in sys.argv and added > GOAL)


if __name__ == "__main__":
    sys.exit(main())
