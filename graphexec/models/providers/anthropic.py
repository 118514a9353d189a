"""A model behind Anthropic's Messages API or a compatible server, such as llama.cpp's.

Source: Anthropic's API reference. The API rejects some valid conversations with 400: blank texts, which mean nothing,
are removed; blank stop strings raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.errors import BadRequestError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.models.history import HistoryForm, ordered_parts
from graphexec.models.http.dialect import TOOL_CHOICE, Dialect, Sampling, option, written
from graphexec.models.http.endpoint import Provider
from graphexec.models.http.json_bodies import instructions, stop_strings
from graphexec.models.http.json_values import JSON, parse_arguments
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.anthropic_reply import THINKING, AnthropicStream
from graphexec.models.providers.openai_repairs import FORMAT, REASONING
from graphexec.models.providers.schemas import close_schema, has_free_keys

# Not the latest version, 2026-10-21: for these requests it differs only in that it rejects a temperature with 400.
VERSION = "2023-06-01"

ANTHROPIC = Provider(
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    kind="that of a server for Anthropic's Messages API",
    hint="which ends before /v1/messages",
    example="http://127.0.0.1:8080",
)


def _turns(messages: Sequence[Message], form: HistoryForm) -> list[JSON]:
    """Return the messages of user and assistant, with consecutive messages of one role merged."""
    turns: list[JSON] = []
    blocks: list[JSON]
    for message in form.fitted(messages):
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, form)
        if not blocks:
            continue
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += blocks
    for turn in turns:
        # The results of the calls must precede any text of the turn; otherwise the API treats them as missing.
        blocks = turn["content"]
        blocks.sort(key=lambda block: bool(block["type"] != "tool_result"))
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last["type"] == "text":
            # The API continues a text of the assistant, and rejects one that ends in whitespace.
            last["text"] = last["text"].rstrip()
    return turns


def _blocks(message: UserMessage | AssistantMessage | ToolMessage, form: HistoryForm) -> list[JSON]:
    match message:
        case UserMessage(content, images):
            return [*map(_image, images), *_text(content)]
        case AssistantMessage():
            # The API requires the thinking of a reply with calls, unchanged and in its place.
            return [block for part in ordered_parts(message, form.provider, THINKING) for block in _part(part)]
        case ToolMessage(call_id, content, images):
            result: JSON = {"type": "tool_result", "tool_use_id": call_id}
            if images:
                return [result | {"content": [*map(_image, images), *_text(content)]}]
            return [result | ({"content": content} if content.strip() else {})]


def _image(image: Image) -> JSON:
    if image.is_data:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    else:
        source = {"type": "url", "url": image.url}
    return {"type": "image", "source": source}


def _text(content: str) -> list[JSON]:
    """Return the block of a text, or none if the text is blank: the API rejects blank texts."""
    return [{"type": "text", "text": content}] if content.strip() else []


def _part(part: str | JSON | ToolCall) -> list[JSON]:
    match part:
        case str():
            return _text(part)
        case ToolCall(call_id, name, arguments):
            # The API accepts only objects. The observation of the call repeats what the model wrote instead.
            return [{"type": "tool_use", "id": call_id, "name": name, "input": parse_arguments(arguments)}]
        case _:
            return [part]


def _write_others(request: ChatRequest, sampling: Sampling) -> JSON:
    for stop in stop_strings(request):
        if not stop.strip():
            raise BadRequestError(
                f"{sampling.model} cannot stop at {stop!r}: Anthropic's API rejects stop strings that consist of "
                "blanks; use a stop string with another character"
            )
    system = instructions(request.messages)
    tools = [
        {"name": one.name, "description": one.description, "input_schema": one.parameters} for one in request.tools
    ]
    body: JSON = {
        "max_tokens": sampling.max_tokens,
        # Blocks can be joined, strings cannot.
        "system": _text(system) if "system" in (sampling.extra_body or {}) else system or None,
        "stop_sequences": list(stop_strings(request)) or None,
        "tools": tools or None,
    }
    # A reply without a format may be what the instructions ask for.
    if request.schema is not None and not has_free_keys(request.schema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": close_schema(request.schema)}}
    return body


def _write_choice(choice: str) -> JSON:
    kinds = {"none": {"type": "none"}, "required": {"type": "any"}}
    return {"tool_choice": kinds.get(choice, {"type": "tool", "name": choice})}


# Anthropic's Messages API.
MESSAGES = Dialect(
    draft=AnthropicStream,
    members=(
        *map(written, ("messages", "output_config.format")),
        written("stop_sequences", refusable=True, aliases=("stop",)),
        option("temperature"),
        option("top_p"),
        option("reasoning_effort", "output_config.effort"),
        TOOL_CHOICE,
    ),
    route=lambda _request, _model, _stream: "v1/messages",
    headers=lambda key: {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {}),
    write_messages=_turns,
    write_others=_write_others,
    write_choice=_write_choice,
    form=lambda _: HistoryForm(alternates=True),
    max_tokens=4096,
    repairs=(replace(FORMAT, part="output_config.format"), REASONING),
)


@explain_class("Anthropic('claude-sonnet-4-5')", options=MODEL_OPTIONS)
class Anthropic(RemoteModel):
    """A model that is called with Anthropic's Messages API.

    `base_url` is the server's address, which begins with `http://` or `https://` and ends before `/v1`. The default is
    the environment variable `ANTHROPIC_BASE_URL`, or else Anthropic's own server. The default of `api_key` is
    `ANTHROPIC_API_KEY`. `max_tokens` bounds a reply; `None` means 4096, since the API requires a number.
    `reasoning_effort` is sent as the effort of the API's `output_config`; `extra_body={"thinking": ...}` makes a model
    think. There is no `seed`. The other options are as in `OpenAICompatible`.

    System messages are joined and sent separately from the conversation. A `CompletionRequest` is sent as a user
    message. A blank stop string is a `BadRequestError`, since the API rejects it. The parts of a schema that the API
    does not support (ranges, sizes, patterns) are sent as descriptions. Prompt tokens include those of the API's cache.
    """

    _dialect = MESSAGES
    _provider = ANTHROPIC
