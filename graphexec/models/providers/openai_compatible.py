"""A model behind an OpenAI-compatible server: OpenAI, llama.cpp, Ollama, vLLM, LM Studio and many others."""

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
from graphexec.models.http.json_bodies import JSON, tool_choice, valid_arguments, write
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.openai_reply import ChatStream, decode


def route(request: ModelRequest) -> str:
    """Return the path of the request below the base URL."""
    return "chat/completions" if isinstance(request, ChatRequest) else "completions"


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
    """Return the body of the POST. Raises `BadRequestError` if a tool's parameters or the schema are not JSON."""
    body: JSON = {
        "model": sampling.model,
        "stop": request.stop or None,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "stream": stream or None,
        # Without this option a stream has no usage, and a limit on tokens would not work.
        "stream_options": {"include_usage": True} if stream else None,
    }
    if not isinstance(request, ChatRequest):
        return write(body | {"prompt": request.prompt})
    body["messages"] = [_message(message) for message in request.messages]
    body["tools"] = [_tool(tool) for tool in request.tools] or None
    body["tool_choice"] = tool_choice(request)
    if request.schema is not None:
        # Not `strict`: OpenAI's strict mode rejects schemas that local servers accept (oneOf, optional fields).
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": request.schema}}
    return write(body)


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


def _call(call: ToolCall) -> JSON:
    function = {"name": call.name, "arguments": valid_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: ToolSpec) -> JSON:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


CHAT_COMPLETIONS = Dialect(
    OPENAI,
    route,
    bearer,
    encode,
    lambda body, request, endpoint: decode(body, endpoint, chat=isinstance(request, ChatRequest)),
    lambda _, endpoint: ChatStream(endpoint),
)


class OpenAICompatible(RemoteModel):
    """A model that is called with OpenAI's Chat Completions and Completions protocols.

    `base_url` is the server's address, which begins with `http://` or `https://` and usually ends with `/v1`. The
    default is the environment variable `OPENAI_BASE_URL`, or else OpenAI's own server. The default of `api_key` is
    `OPENAI_API_KEY`; a server on this machine needs no key, and for another server without keys pass `api_key=""`. The
    defaults of `temperature` and `max_tokens` (of the reply) are the server's.

    `timeout` is the time in seconds that an attempt waits for the server; the `timeout` of a call bounds all its
    attempts and waits together. A rate limit, a server error or a broken connection is retried up to `max_retries`
    times, after the wait that the server asks for, unless that is more than 60 s. A `client` or `async_client` that you
    pass (an `httpx.Client`, or one like it) is not closed. Raises `InputError` for an invalid option; every failure of
    a call is a `ModelError`. Threads and event loops may share a model.
    """

    _dialect = CHAT_COMPLETIONS
