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
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models.http.dialect import CHOOSE_TOOL, REQUEST_WRITES_IT, Dialect, Sampling
from graphexec.models.http.endpoint import Provider
from graphexec.models.http.json_bodies import (
    conversation,
    encode_messages,
    encode_tool_choice,
    instructions,
    merge_bodies,
    stop_strings,
)
from graphexec.models.http.json_values import JSON, parse_arguments
from graphexec.models.http.refusals import TOOL_CHOICE, Parameter
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.anthropic_reply import THINKING, AnthropicStream
from graphexec.models.providers.histories import HistoryForm, distinct_calls, ordered_parts
from graphexec.models.providers.openai_repairs import FORMAT, REASONING
from graphexec.models.providers.schemas import close_schema, has_free_keys

# Not the latest version, 2026-10-21: for these requests it differs only in that it rejects a temperature with 400.
VERSION = "2023-06-01"


def route(_request: ModelRequest) -> str:
    """Return the path below the base URL, which is the same for every request."""
    return "v1/messages"


def headers(key: str) -> dict[str, str]:
    """Return Anthropic's headers: the version of the protocol, and the API key if there is one."""
    return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> JSON:
    """Return the body of the POST. A completion request becomes a single user message.

    Raises `BadRequestError` if a stop string is blank, if all messages but the system's are blank, and for a tool
    choice that the request does not offer.
    """
    form = HistoryForm().of(request, sampling.provider)
    messages = distinct_calls(conversation(request), form)
    # Where turns need not be merged, those of a run's steps are encoded once.
    turns = encode_messages(messages, form, _part_turns) or _turns(messages, form)
    if not turns:
        raise BadRequestError(
            f"{sampling.model} has no message to answer: all but the system's are blank, which Anthropic's API "
            "rejects; add a user message with text"
        )
    body: JSON = {
        "model": sampling.model,
        "max_tokens": sampling.max_tokens,
        "messages": turns,
        "system": instructions(messages) or None,
        "stop_sequences": _stops(stop_strings(request), sampling.model) or None,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stream": stream or None,
    }
    output: JSON = {} if sampling.reasoning_effort is None else {"effort": sampling.reasoning_effort}
    if isinstance(request, ChatRequest):
        body["tools"] = _tools(request.tools) or None
        choice = encode_tool_choice(request, sampling.model, lambda name: {"type": "tool", "name": name})
        body["tool_choice"] = {"type": "any" if choice == "required" else choice} if isinstance(choice, str) else choice
        # A reply without a format may be what the instructions ask for.
        if request.schema is not None and not has_free_keys(request.schema):
            output["format"] = {"type": "json_schema", "schema": close_schema(request.schema)}
    body["output_config"] = output or None
    extra = dict(sampling.extra_body or {})
    if "system" in extra:
        # Blocks can be joined, strings cannot.
        body["system"] = _text(body["system"] or "")
        extra["system"] = _text(extra["system"]) if isinstance(extra["system"], str) else extra["system"]
    return merge_bodies(body, extra)


def _stops(stops: Sequence[str], model: str) -> list[str]:
    for stop in stops:
        if not stop.strip():
            raise BadRequestError(
                f"{model} cannot stop at {stop!r}: Anthropic's API rejects stop strings that consist of blanks; "
                "use a stop string with another character"
            )
    return list(stops)


def _part_turns(messages: Sequence[Message], form: HistoryForm) -> list[JSON] | None:
    """Return the turns of some messages, or `None` if they may have to be merged with those around them."""
    turns = _turns(messages, form)
    if not turns or turns[-1]["role"] != "user":
        return None
    if isinstance(messages[0], AssistantMessage) and turns[0]["role"] != "assistant":
        return None
    return turns


def _turns(messages: Sequence[Message], form: HistoryForm) -> list[JSON]:
    """Return the messages of user and assistant, with consecutive messages of one role merged."""
    turns: list[JSON] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, form)
        if not blocks:
            continue
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += blocks
    for turn in turns:
        # The results of the calls must precede any text of the turn; otherwise the API treats them as missing.
        turn["content"].sort(key=_is_not_result)
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last["type"] == "text":
            # The API continues a text of the assistant, and rejects one that ends in whitespace.
            last["text"] = last["text"].rstrip()
    return turns


def _is_not_result(block: JSON) -> bool:
    return bool(block["type"] != "tool_result")


def _blocks(message: Message, form: HistoryForm) -> list[JSON]:
    match form.fit(message):
        case SystemMessage():
            return []
        case UserMessage(content, images):
            return [*map(_image, images), *_text(content)]
        case AssistantMessage() as said:
            # The API requires the thinking of a reply with calls, unchanged and in its place.
            return [block for part in ordered_parts(said, form.provider, THINKING) for block in _part(part)]
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


def _tools(tools: Sequence[ToolSpec]) -> list[JSON]:
    return [{"name": one.name, "description": one.description, "input_schema": one.parameters} for one in tools]


ANTHROPIC = Provider(
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    kind="that of a server for Anthropic's Messages API",
    hint="which ends before /v1/messages",
    example="http://127.0.0.1:8080",
)


MESSAGES = Dialect(
    ANTHROPIC,
    route,
    headers,
    encode,
    AnthropicStream,
    parameters=(
        Parameter("stop_sequences", aliases=("stop",)),
        Parameter("temperature"),
        Parameter("top_p"),
        Parameter("output_config.effort"),
        TOOL_CHOICE,
    ),
    repairs=(replace(FORMAT, part="output_config.format"), REASONING),
    reserved={
        **dict.fromkeys(("messages", "stop_sequences", "stream", "output_config.format"), REQUEST_WRITES_IT),
        "tool_choice": CHOOSE_TOOL,
        "output_config.effort": "pass reasoning_effort",
    },
    absent={"seed": "leave it out, or pass extra_body={'seed': ...} if your server takes it"},
    max_tokens=4096,
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
