"""`graphexec run --otel`, with a collector on this machine, and without one."""

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from graphexec import errors
from graphexec.integrations.otel.exporting import exporting
from tests.stopwatch import Stopwatch

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

AGENT = """
from opentelemetry import trace
from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel

@tool
def look(text: str) -> str:
    "Look it up."
    with trace.get_tracer("mine").start_as_current_span("mine"):
        return text

model = ScriptedModel([ToolCall("c1", "look", '{"text": "a"}'), "the answer"])
executor = AgentExecutor(agent=create_tool_calling_agent(model, [look]), tools=[look])
"""


@contextmanager
def collector() -> Generator[tuple[str, list[tuple[str, bytes]]]]:
    """Yield the address of a collector, and the paths and bodies that it receives."""
    received: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        # Any: as in the base class.
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Write nothing to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


RUN = ("run", "--quiet", "my_agent.py:executor", "q")


def run_command(path: Path, endpoint: str, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (path / "my_agent.py").write_text(AGENT, encoding="utf-8")
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1", **variables}
    words = [sys.executable, "-m", "graphexec", *command]
    return subprocess.run(words, cwd=path, env=environment, input="q", capture_output=True, text=True, check=False)


@pytest.mark.medium
def test_run_sends_its_telemetry(tmp_path: Path) -> None:
    with collector() as (endpoint, received):
        done = run_command(tmp_path, endpoint, *RUN, "--otel")
        assert (done.returncode, done.stdout, done.stderr) == (0, "the answer\n", "")
        variables = {"OTEL_METRICS_EXPORTER": "none", "OTEL_SERVICE_NAME": "me"}
        chat = run_command(tmp_path, endpoint, "chat", "my_agent.py:executor", "--otel", **variables)
        assert (chat.returncode, chat.stdout) == (0, "the answer\n")
    assert sorted(path for path, _ in received) == ["/v1/metrics", "/v1/traces", "/v1/traces"]
    services = set[str]()
    for path, body in received:
        if path == "/v1/metrics":
            [measured] = ExportMetricsServiceRequest.FromString(body).resource_metrics
            names = {metric.name for scope in measured.scope_metrics for metric in scope.metrics}
            assert "gen_ai.client.inference.usage.input_tokens" in names
            continue
        [of_program] = ExportTraceServiceRequest.FromString(body).resource_spans
        spans = [span for scope in of_program.scope_spans for span in scope.spans]
        # The tool's own span is in the trace, too.
        found = ", ".join(sorted(span.name for span in spans))
        assert found == "chat scripted, chat scripted, execute_tool look, invoke_agent, mine"
        assert len({span.trace_id for span in spans}) == 1
        services |= {one.value.string_value for one in of_program.resource.attributes if one.key == "service.name"}
    assert services == {"graphexec", "me"}


@pytest.mark.medium
def test_dead_endpoint_neither_delays_nor_spoils_the_answer(tmp_path: Path) -> None:
    sends_nothing = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    with Stopwatch() as plain:
        done = run_command(tmp_path, "http://127.0.0.1:9", *RUN, "--otel", **sends_nothing)
    assert (done.stdout, done.stderr) == ("the answer\n", "")
    with Stopwatch() as watch:
        done = run_command(tmp_path, "http://127.0.0.1:9", *RUN, "--otel")
    assert (done.returncode, done.stdout) == (0, "the answer\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("graphexec: OTEL_EXPORTER_OTLP_ENDPOINT")
    assert "Connection refused" in line
    assert watch.elapsed <= watch.extend(plain.elapsed + 4.5)


def test_missing_exporter_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(errors.InputError, match=r"pip install 'graphexec-agents\[otlp\]'"), exporting():
        pass
