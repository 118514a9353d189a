"""A model behind OpenAI's Responses API or a compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.messages import AssistantMessage, ChatRequest, Image, Message, ToolCall, ToolMessage
from graphexec.models.history import HistoryForm, ordered_parts
from graphexec.models.http.dialect import TOOL_CHOICE, Dialect, Sampling, describe_tool, option, written
from graphexec.models.http.json_bodies import instructions, valid_arguments
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import Member
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.openai_repairs import FORMAT, STRICT_SCHEMA
from graphexec.models.providers.responses_reply import ResponsesStream


def _items(messages: Sequence[Message], form: HistoryForm) -> Iterator[JSON]:
    for message in form.fitted(messages):
        match message:
            case AssistantMessage():
                # The API requires each item of reasoning before the item that followed it.
                yield from filter(None, map(_part, ordered_parts(message, form.provider, {"reasoning"})))
            case ToolMessage(call_id, content, images):
                yield {"type": "function_call_output", "call_id": call_id, "output": _content(content, images)}
            case _:
                yield {"role": "user", "content": _content(message.content, message.images)}


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
            said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part}]}
            return said if part.strip() else {}
        case ToolCall(call_id, name, arguments):
            members = {"call_id": call_id, "name": name, "arguments": valid_arguments(arguments)}
            return {"type": "function_call"} | members
        case _:
            return part


def _write_others(request: ChatRequest, _: Sampling) -> JSON:
    # `strict` is sent, because the default of this API is True.
    tools = [{"type": "function", **describe_tool(tool), "strict": False} for tool in request.tools]
    body: JSON = {
        # The server need not store anything: each request contains the whole conversation.
        "store": False,
        "instructions": instructions(request.messages) or None,
        "tools": tools or None,
        # A server that stores nothing needs its encrypted reasoning again before the results of calls.
        "include": ["reasoning.encrypted_content"] if tools else None,
    }
    if request.schema is not None:
        # Not `strict`, as in chat completions; `STRICT_SCHEMA` is for servers that demand its rules.
        body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema}}
    return body


def _write_choice(choice: str) -> JSON:
    return {"tool_choice": choice if choice in {"none", "required"} else {"type": "function", "name": choice}}


# OpenAI's Responses API. It does not support stop strings.
RESPONSES = Dialect(
    draft=ResponsesStream,
    members=(
        *map(written, ("input", "instructions", "text.format")),
        option("temperature"),
        option("top_p"),
        option("max_tokens", "max_output_tokens"),
        option("reasoning_effort", "reasoning.effort", aliases=("reasoning", "reasoning_effort")),
        Member("include"),
        TOOL_CHOICE,
    ),
    route=lambda _request, _model, _stream: "responses",
    conversation="input",
    write_messages=lambda messages, form: list(_items(messages, form)),
    write_others=_write_others,
    write_choice=_write_choice,
    repairs=(STRICT_SCHEMA, replace(FORMAT, part="text.format")),
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
