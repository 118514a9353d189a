"""What is sent: a request as the JSON of OpenAI's Chat Completions or Completions.

Source: OpenAI's API reference, and llama.cpp's `tools/server/README.md` for what its server makes of it.
"""

from __future__ import annotations

from typing import assert_never

from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models.bodies import JSON, told_again, write
from graphexec.models.dialect import Sampling


def route(request: ModelRequest) -> str:
    """Return where the request goes, below the base URL."""
    return "chat/completions" if isinstance(request, ChatRequest) else "completions"


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
    """Return the body of the POST.

    Raises `BadRequest` where a tool's parameters or the schema are not JSON.
    """
    body: JSON = {"model": sampling.model}
    if isinstance(request, ChatRequest):
        body |= _chat(request)
    else:
        body["prompt"] = request.prompt
    if request.stop:
        body["stop"] = list(request.stop)
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.max_tokens is not None:
        body["max_tokens"] = sampling.max_tokens
    if stream:
        # Without the option a stream tells no usage, and a limit on tokens would count nothing.
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return write(body)


def _chat(request: ChatRequest) -> JSON:
    body: JSON = {"messages": [_message(message) for message in request.messages]}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice
    if request.schema is not None:
        # Not `strict`: OpenAI's strict mode refuses schemas that local servers take (oneOf, optional fields).
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": request.schema}}
    return body


def _message(message: Message) -> JSON:
    match message:
        case SystemMessage(content):
            return {"role": "system", "content": content}
        case UserMessage(content):
            return {"role": "user", "content": content}
        case AssistantMessage(content, ()):
            return {"role": "assistant", "content": content}
        case AssistantMessage(content, calls):
            return {"role": "assistant", "content": content or None, "tool_calls": [_call(call) for call in calls]}
        case ToolMessage(call_id, content):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case _:
            assert_never(message)


def _call(call: ToolCall) -> JSON:
    function = {"name": call.name, "arguments": told_again(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: ToolSpec) -> JSON:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
