"""A model behind OpenAI's Responses API or a compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Image,
    Message,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models.http.dialect import CHOOSE_TOOL, REQUEST_WRITES_IT, Dialect, Sampling, bearer
from graphexec.models.http.endpoint import OPENAI
from graphexec.models.http.json_bodies import (
    conversation,
    encode_messages,
    encode_tool_choice,
    instructions,
    merge_bodies,
    valid_arguments,
)
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import TOOL_CHOICE, Parameter
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.histories import HistoryForm, distinct_calls, ordered_parts
from graphexec.models.providers.openai_repairs import FORMAT, STRICT_SCHEMA
from graphexec.models.providers.responses_reply import ResponsesStream


def route(_request: ModelRequest) -> str:
    """Return the path below the base URL, which is the same for every request."""
    return "responses"


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> JSON:
    """Return the body of the POST, without stop strings, which the API does not support.

    A completion request becomes a single user message. Raises `BadRequestError` for a tool choice that the request does
    not offer.
    """
    form = HistoryForm().of(request, sampling.provider)
    messages = distinct_calls(conversation(request), form)
    body: JSON = {
        "model": sampling.model,
        "input": encode_messages(messages, form, _items),
        # The server need not store anything: each request contains the whole conversation.
        "store": False,
        "instructions": instructions(messages) or None,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "reasoning": None if sampling.reasoning_effort is None else {"effort": sampling.reasoning_effort},
        "max_output_tokens": sampling.max_tokens,
        "stream": stream or None,
    }
    if isinstance(request, ChatRequest):
        body["tools"] = _tools(request.tools) or None
        # A server that stores nothing needs its encrypted reasoning again before the results of calls.
        body["include"] = ["reasoning.encrypted_content"] if request.tools else None
        body["tool_choice"] = encode_tool_choice(
            request, sampling.model, lambda name: {"type": "function", "name": name}
        )
        if request.schema is not None:
            # Not `strict`, as in chat completions; `STRICT_SCHEMA` is for servers that demand its rules.
            body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema}}
    return merge_bodies(body, sampling.extra_body or {})


def _items(messages: Sequence[Message], form: HistoryForm) -> Iterator[JSON]:
    for message in messages:
        yield from _items_of(message, form)


def _items_of(message: Message, form: HistoryForm) -> list[JSON]:
    match form.fit(message):
        case SystemMessage():
            return []
        case UserMessage(content, images):
            return [{"role": "user", "content": _content(content, images)}]
        case AssistantMessage() as said:
            # The API requires each item of reasoning before the item that followed it.
            parts = ordered_parts(said, form.provider, {"reasoning"})
            return [_part(part) for part in parts if not isinstance(part, str) or part.strip()]
        case ToolMessage(call_id, content, images):
            return [{"type": "function_call_output", "call_id": call_id, "output": _content(content, images)}]


def _content(content: str, images: Sequence[Image]) -> str | list[JSON]:
    """Return a text, or a list of images and the text, as messages and results of calls may hold it.

    Source: OpenAI's API reference, "Create a model response". `detail` is sent, because some servers require it.
    """
    if not images:
        return content
    parts: list[JSON] = [{"type": "input_image", "image_url": image.url, "detail": "auto"} for image in images]
    # The text is last, as in chat completions.
    return [*parts, {"type": "input_text", "text": content}] if content else parts


def _part(part: str | JSON | ToolCall) -> JSON:
    match part:
        case str():
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part}]}
        case ToolCall(call_id, name, arguments):
            members = {"call_id": call_id, "name": name, "arguments": valid_arguments(arguments)}
            return {"type": "function_call"} | members
        case _:
            return part


def _tools(tools: Sequence[ToolSpec]) -> list[JSON]:
    # `strict` is sent, because the default of this API is True.
    functions = ({"name": one.name, "description": one.description, "parameters": one.parameters} for one in tools)
    return [{"type": "function"} | function | {"strict": False} for function in functions]


RESPONSES = Dialect(
    OPENAI,
    route,
    bearer,
    encode,
    ResponsesStream,
    parameters=(
        Parameter("temperature"),
        Parameter("top_p"),
        Parameter("max_output_tokens"),
        Parameter("reasoning.effort", aliases=("reasoning", "reasoning_effort")),
        Parameter("include"),
        TOOL_CHOICE,
    ),
    reserved={
        **dict.fromkeys(("input", "instructions", "stream", "text.format"), REQUEST_WRITES_IT),
        "tool_choice": CHOOSE_TOOL,
        "max_output_tokens": "pass max_tokens",
        "reasoning.effort": "pass reasoning_effort",
    },
    repairs=(STRICT_SCHEMA, replace(FORMAT, part="text.format")),
    absent={"seed": "leave it out, or pass extra_body={'seed': ...} if your server takes it"},
)


@explain_class("OpenAIResponses('gpt-5-mini')", options=MODEL_OPTIONS)
class OpenAIResponses(RemoteModel):
    """A model that is called with OpenAI's Responses API. Requests ask the server to store nothing.

    The API does not support stop strings and seeds. Replies are cut before the first stop string, also while they
    stream; `usage` includes the part that was cut off, and calls after that position are dropped. System messages are
    joined and sent as `instructions`. A `CompletionRequest` is sent as a user message. `max_tokens` bounds a reply
    including its reasoning, which the API returns encrypted, and gets back before the results of the reply's calls;
    `extra_body={"reasoning": {"summary": "auto"}}` asks for a readable summary. The options are as in
    `OpenAICompatible`.
    """

    _dialect = RESPONSES
