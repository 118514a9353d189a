"""A model behind OpenAI's Responses API or a compatible server."""

from __future__ import annotations

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
from graphexec.models.http.dialect import Dialect, Sampling, bearer
from graphexec.models.http.endpoint import OPENAI
from graphexec.models.http.json_bodies import JSON, conversation, instructions, tool_choice, valid_arguments, write
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.responses_reply import ResponsesStream, StopCutter, decode


def route(_request: ModelRequest) -> str:
    """Return the path below the base URL, which is the same for every request."""
    return "responses"


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
    """Return the body of the POST, without stop strings, which the API does not support.

    A completion request becomes a single user message. Raises `BadRequestError` if a tool's parameters or the schema
    are not JSON.
    """
    messages = conversation(request)
    body: JSON = {
        "model": sampling.model,
        "input": [item for message in messages for item in _items(message)],
        # The server need not store anything: each request contains the whole conversation.
        "store": False,
        "instructions": instructions(messages) or None,
        "temperature": sampling.temperature,
        "max_output_tokens": sampling.max_tokens,
        "stream": stream or None,
    }
    if isinstance(request, ChatRequest):
        body["tools"] = [_tool(tool) for tool in request.tools] or None
        body["tool_choice"] = tool_choice(request)
        if request.schema is not None:
            # Not `strict`, as in chat completions: strict mode rejects optional fields and oneOf.
            body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema}}
    return write(body)


def _items(message: Message) -> list[JSON]:
    match message:
        case SystemMessage():
            return []
        case UserMessage(content):
            return [{"role": "user", "content": content}]
        case AssistantMessage("", calls) if calls:
            return [_call(call) for call in calls]
        case AssistantMessage(content, calls):
            text: JSON = {"type": "output_text", "text": content}
            return [{"type": "message", "role": "assistant", "content": [text]}, *(_call(call) for call in calls)]
        case ToolMessage(call_id, content):
            return [{"type": "function_call_output", "call_id": call_id, "output": content}]


def _call(call: ToolCall) -> JSON:
    members = {"call_id": call.id, "name": call.name, "arguments": valid_arguments(call.arguments)}
    return {"type": "function_call"} | members


def _tool(tool: ToolSpec) -> JSON:
    # `strict` is sent, because the default of this API is True.
    members = {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": False}
    return {"type": "function"} | members


RESPONSES = Dialect(
    OPENAI,
    route,
    bearer,
    encode,
    lambda body, request, endpoint: decode(body, endpoint, stop=request.stop),
    lambda request, endpoint: ResponsesStream(endpoint, StopCutter(request.stop)),
)


class OpenAIResponses(RemoteModel):
    """A model that is called with OpenAI's Responses API. Requests ask the server to store nothing.

    The API does not support stop strings, so the client cuts the reply before the first one, also while it streams;
    `usage` includes the part that was cut off. Calls after that position are dropped. System messages are joined and
    sent as `instructions`. A `CompletionRequest` is sent as a user message. `max_tokens` bounds a reply including its
    reasoning, which is not sent again. The options are as in `OpenAICompatible`.
    """

    _dialect = RESPONSES
