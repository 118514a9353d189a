"""Telemetry of a program of graphexec's own, sent to the endpoint that the environment names."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from graphexec.integrations.otel import instrument
from graphexec.integrations.otel.content import clip

# Seconds that the end waits for the delivery.
_PATIENCE = 3.0
# Characters of why it failed.
_LONGEST_REASON = 160


@final
class _Failures(logging.Handler):
    """Keeps what the SDK logs of failed deliveries, which would mix with the answer."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


@contextmanager
def exporting(*, enabled: bool = True) -> Generator[None]:
    """Send the spans and the metrics of the runs in the block by OTLP over HTTP; their end waits 3 seconds at most.

    The variables of OpenTelemetry's SDK configure it: OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS, OTEL_SERVICE_NAME,
    OTEL_METRICS_EXPORTER=none. What cannot be delivered is one line on stderr. Raises `InputError` without the extra
    `otlp`.
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

    failures, logger = _Failures(), logging.getLogger("opentelemetry")
    logger.addHandler(failures)
    logger.propagate = False
    resource = Resource.create({SERVICE_NAME: "graphexec"}).merge(OTELResourceDetector().detect())
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    sends_metrics = os.environ.get("OTEL_METRICS_EXPORTER") != "none"
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if sends_metrics else []
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
        if failures.last or any(one.is_alive() for one in threads):
            reason = clip(" ".join(failures.last.split()) or "it does not answer", _LONGEST_REASON)
            print(
                "graphexec: OTEL_EXPORTER_OTLP_ENDPOINT (default: http://localhost:4318) has not taken all telemetry: "
                f"{reason}; start a collector there, or correct the variable",
                file=sys.stderr,
            )
