"""Names of spans, attributes and metrics: those of semantic-conventions-genai v0.1.0, and those of graphexec alone.

A test compares them with that release, in which all of them are still in development.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

# Operations. A run of a machine without an agent is a workflow.
CHAT, TEXT_COMPLETION, EXECUTE_TOOL = "chat", "text_completion", "execute_tool"
INVOKE_AGENT, INVOKE_WORKFLOW = "invoke_agent", "invoke_workflow"

OPERATION = "gen_ai.operation.name"
ERROR_TYPE = "error.type"
AGENT_NAME = "gen_ai.agent.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
# Of metrics alone.
MODALITY = "gen_ai.token.modality"
# Content, by opt-in.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# Of a run: its id, which a resumed one keeps; how it ended, and why it was stopped.
RUN_ID, RESUMED = "graphexec.run.id", "graphexec.run.resumed"
OUTCOME, REASON = "graphexec.outcome", "graphexec.reason"
# Of a call: its node, what the model or the tool has reported of its attempts, and the cost.
NODE, ATTEMPTS, FALLBACK = "graphexec.node", "graphexec.attempts", "graphexec.fallback"
CACHED, COST = "graphexec.cached", "graphexec.cost"
# The number of messages of a request that an earlier span of the run has.
KNOWN_MESSAGES = "graphexec.input.known_messages"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric: a histogram if it has boundaries of buckets, else a counter."""

    name: str
    unit: str
    boundaries: tuple[float, ...] = ()


_SECONDS = tuple(0.01 * 2**power for power in range(14))
_LONG_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))
_CALLS = tuple(2**power for power in range(8))

INFERENCE_DURATION = Metric("gen_ai.client.inference.duration", "s", _SECONDS)
INPUT_USAGE = Metric("gen_ai.client.inference.usage.input_tokens", "{token}")
OUTPUT_USAGE = Metric("gen_ai.client.inference.usage.output_tokens", "{token}")
CACHED_USAGE = Metric("gen_ai.client.inference.usage.cache_read.input_tokens", "{token}")
INPUT_SIZE = Metric("gen_ai.client.inference.operation.input_tokens", "{token}", _TOKENS)
OUTPUT_SIZE = Metric("gen_ai.client.inference.operation.output_tokens", "{token}", _TOKENS)
TOOL_DURATION = Metric("gen_ai.execute_tool.duration", "s", _SECONDS)
AGENT_DURATION = Metric("gen_ai.invoke_agent.duration", "s", _LONG_SECONDS)
MODEL_CALLS = Metric("gen_ai.invoke_agent.inference_calls", "{inference_call}", _CALLS)
TOOL_CALLS = Metric("gen_ai.invoke_agent.tool_calls", "{tool_call}", _CALLS)
