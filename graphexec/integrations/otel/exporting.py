"""Telemetry of a program of graphexec's own, sent to the endpoint that the environment names."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from logging.handlers import BufferingHandler

from graphexec.integrations.otel import instrument
from graphexec.integrations.otel.content import clip

# Seconds that the end waits for the delivery.
_PATIENCE = 3.0
# Characters of why it failed.
_LONGEST_REASON = 400


def _sends(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER") != "none"


@contextmanager
def exporting(*, enabled: bool = True) -> Generator[None]:
    """Send the spans and the metrics of the runs in the block by OTLP over HTTP; their end waits 3 seconds at most.

    The variables of OpenTelemetry's SDK configure it: OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS, OTEL_SERVICE_NAME,
    OTEL_METRICS_EXPORTER=none and OTEL_TRACES_EXPORTER=none. What cannot be delivered is one line on stderr. Raises
    `InputError` without the extra `otlp`.
    """
    if not enabled:
        yield
        return
    from graphexec.models.bridges.bridging import require

    require("opentelemetry.exporter.otlp.proto.http", "otlp")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What the SDK logs of failed deliveries would mix with the answer.
    failures, logger = BufferingHandler(100), logging.getLogger("opentelemetry")
    failures.setLevel(logging.WARNING)
    logger.addHandler(failures)
    logger.propagate = False
    resource = Resource.create({SERVICE_NAME: "graphexec"}).merge(OTELResourceDetector().detect())
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if _sends("TRACES"):
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if _sends("METRICS") else []
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # For the spans of tools, unless the user's file has set another.
        trace.set_tracer_provider(tracers)
    end = instrument(tracer_provider=tracers, meter_provider=meters)
    try:
        yield
    finally:
        end()
        threads = [threading.Thread(target=one.shutdown, daemon=True) for one in (tracers, meters)]
        for one in threads:
            one.start()
        ends = time.monotonic() + _PATIENCE
        for one in threads:
            one.join(max(0.0, ends - time.monotonic()))
        if failures.buffer or any(one.is_alive() for one in threads):
            reason = "it does not answer"
            if failures.buffer:
                last = failures.buffer[-1]
                reason = str(last.exc_info[1]) if last.exc_info else last.getMessage()
            print(
                "graphexec: OTEL_EXPORTER_OTLP_ENDPOINT (default: http://localhost:4318) has not taken all telemetry: "
                f"{clip(' '.join(reason.split()), _LONGEST_REASON)}; start a collector there, or correct the OTEL_* "
                "variables",
                file=sys.stderr,
            )
