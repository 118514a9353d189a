"""A model behind OpenAI's Responses API, or a server that speaks it."""

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
    """Return where every request goes, below the base URL."""
    return "responses"


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
    """Return the body of the POST, without its stop texts, which the API does not know.

    A completion is asked for as a single user message. Raises `BadRequestError` where a tool's parameters or the schema
    are not JSON.
    """
    messages = conversation(request)
    body: JSON = {
        "model": sampling.model,
        "input": [item for message in messages for item in _of(message)],
        # The server is to keep nothing: each request has the whole conversation.
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
            # Not `strict`, as in chat completions: it refuses optional fields and oneOf.
            body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema}}
    return write(body)


def _of(message: Message) -> list[JSON]:
    match message:
        case SystemMessage():
            return []
        case UserMessage(content):
            return [{"role": "user", "content": content}]
        case AssistantMessage("", calls) if calls:
            return [_call(call) for call in calls]
        case AssistantMessage(content, calls):
            said: JSON = {"type": "output_text", "text": content}
            return [{"type": "message", "role": "assistant", "content": [said]}, *(_call(call) for call in calls)]
        case ToolMessage(call_id, content):
            return [{"type": "function_call_output", "call_id": call_id, "output": content}]


def _call(call: ToolCall) -> JSON:
    called = {"call_id": call.id, "name": call.name, "arguments": valid_arguments(call.arguments)}
    return {"type": "function_call"} | called


def _tool(tool: ToolSpec) -> JSON:
    # Told, since here the API is strict unless told not to be.
    told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": False}
    return {"type": "function"} | told


RESPONSES = Dialect(
    OPENAI,
    route,
    bearer,
    encode,
    lambda body, request, endpoint: decode(body, endpoint, stop=request.stop),
    lambda request, endpoint: ResponsesStream(endpoint, StopCutter(request.stop)),
)


class OpenAIResponses(RemoteModel):
    """A model that is asked over OpenAI's Responses API. The server is told to store nothing.

    The API knows no stop texts: the reply is cut here before the first one, also while it streams, and `usage` counts
    what was cut off. Calls after that place are dropped. System messages are sent as `instructions`, joined; a
    `CompletionRequest` is sent as a user message. `max_tokens` bounds a reply with its reasoning, which is not sent
    again. The options are those of `OpenAICompatible`.
    """

    _dialect = RESPONSES
