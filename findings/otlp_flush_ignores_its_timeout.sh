#!/usr/bin/env bash
# opentelemetry-sdk 1.45.2, opentelemetry-exporter-otlp-proto-http 1.45.2; Python 3.11 to 3.13.
#
# `TracerProvider.force_flush(1000)` of a program whose collector is away takes about seven seconds, and returns True.
# A good guess is wrong twice. The argument is a timeout in milliseconds, documented to return False when it is reached:
# but the batch processor exports in the caller's thread and looks at no clock, so the wait is that of the exporter, which
# tries again with growing pauses for its own ten seconds. And True does not mean that anything arrived: the exporter says
# that it failed, the processor drops the spans and discards what the exporter said. A command that flushes at its end, to
# be sure of its spans, therefore hangs about for seconds and believes that they were sent; the timeout that counts is that
# of the exporter (OTEL_EXPORTER_OTLP_TIMEOUT, in seconds here).
#
# Nothing listens at the port of the endpoint, as when a collector is not started. The script prints what a flush with a
# second returns and how long it takes, with the exporter as it is by default and with one that has a second itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install \
    opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"$folder/env/bin/python" - <<'PYTHON'
import logging
import socket
import sys
import time

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

# The exporter logs each failure.
logging.disable(logging.CRITICAL)
with socket.create_server(("127.0.0.1", 0)) as free:
    endpoint = f"http://127.0.0.1:{free.getsockname()[1]}/v1/traces"


def flush(timeout: float | None) -> tuple[bool, float]:
    """Return what a flush with a second returns, and how many seconds it takes."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=timeout)))
    with provider.get_tracer("finding").start_as_current_span("lost"):
        pass
    began = time.monotonic()
    flushed = provider.force_flush(1000)
    seconds = time.monotonic() - began
    provider.shutdown()
    return flushed, seconds


(usual, took), (bounded, took_bounded) = flush(None), flush(1.0)
print(f"the exporter as it is: force_flush(1000) returned {usual} after {took:.1f} s")
print(f"the exporter with timeout=1: force_flush(1000) returned {bounded} after {took_bounded:.1f} s")
sys.exit(0 if usual and bounded and took > 3 and took_bounded < 2 else 1)
PYTHON
