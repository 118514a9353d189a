"""Spans and metrics of runs for OpenTelemetry, under the names of its conventions for generative AI.

Nothing of OpenTelemetry is imported before `instrument` is called. It needs `pip install 'graphexec-agents[otel]'`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphexec._arguments import FLAG, NAME, has_methods, optional, validate
from graphexec.runtime import instrument as on_each_run

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument"]

# The variable of OpenTelemetry's own instrumentations, and its values for content on spans.
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_VALUES = ("true", "span_only", "span_and_event")

_TRACERS, _METERS = has_methods("a TracerProvider", "get_tracer"), has_methods("a MeterProvider", "get_meter")

# What ends the instrumentation that holds.
_ends: list[Callable[[], None]] = []


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    name: str | None = None,
    content: bool | None = None,
) -> Callable[[], None]:
    """Trace and measure every run of this process from now on; return the function that ends this.

    A run is a span `invoke_agent` in the caller's trace, `invoke_workflow` for a machine without an agent. Each call is
    one within, which is current while it works: `chat {model}`, `execute_tool {tool}`, and for another effect the name
    of its class. A call that is cut off ends at the cut. Only failures are errors: `graphexec.outcome` and
    `graphexec.reason` say how else a run has ended.

    `name` is the agent's; a nested run has that of the tool. With `content`, spans have prompts, replies, arguments and
    results, which may be private, each text up to 8,000 characters, and of a request only what no earlier one of the
    run has. By default OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so. Without it no text of a person, a
    model or a tool leaves the process: only the error of a model's provider has a message, others have their class.

    A second call replaces the first. Raises `InputError` for invalid options, and if opentelemetry-api is missing.
    """
    # Loads the package of models.
    from graphexec.models.bridges.bridging import require

    require("opentelemetry.trace", "otel")
    # Loads OpenTelemetry.
    from graphexec.integrations.otel.runs import Telemetry

    validate(
        "otel.instrument",
        ("tracer_provider", tracer_provider, optional(_TRACERS, "the global one")),
        ("meter_provider", meter_provider, optional(_METERS, "the global one")),
        ("name", name, optional(NAME)),
        ("content", content, optional(FLAG, "what the environment says")),
    )
    if content is None:
        content = os.environ.get(_CONTENT_VARIABLE, "").strip().lower() in _CONTENT_VALUES
    telemetry = Telemetry(tracer_provider, meter_provider, name or "", content=content)
    while _ends:
        _ends.pop()()
    end = on_each_run(telemetry.begin)
    _ends.append(end)
    return end
