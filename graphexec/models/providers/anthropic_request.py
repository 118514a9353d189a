"""Encode requests for Anthropic's Messages API.

Source: Anthropic's API reference. The API rejects some valid conversations with 400: blank texts, which mean nothing,
are removed; blank stop strings raise an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

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
from graphexec.messages.turns import derive_texts
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import (
    JSON,
    Encoded,
    chosen_mode,
    encode_items,
    encode_once,
    encoded_list,
    forced_tool,
    instructions,
    merge_bodies,
    parse_arguments,
    stop_strings,
)
from graphexec.models.providers.anthropic_reply import THINKING
from graphexec.models.providers.histories import fitting_conversation, ordered_parts

# The keywords that are copied. `close_schema` handles those that contain schemas.
_KEPT = {"$ref", "type", "enum", "const", "title", "required"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


# Any: a schema's values are arbitrary JSON.
def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with every object closed, and with unsupported keywords moved into descriptions."""
    found: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for word, value in schema.items():
        if word in {"$defs", "properties"} and _is_object(value):
            found[word] = {name: _close_inner(inner) for name, inner in value.items()}
        elif word in {"anyOf", "oneOf", "allOf"} and _is_list(value):
            found["anyOf" if word == "oneOf" else word] = [_close_inner(inner) for inner in value]
        elif word == "items":
            found[word] = _close_inner(value)
        elif word in _KEPT or (word == "format" and value in _FORMATS) or (word == "minItems" and value in (0, 1)):
            found[word] = value
        elif word not in {"additionalProperties", "description"}:
            unsupported[word] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
        found.setdefault("properties", {})
    if "$ref" in schema:
        # The API allows no other keyword than the definitions beside it.
        return {word: value for word, value in found.items() if word in {"$ref", "$defs"}}
    description = [str(schema["description"])] if "description" in schema else []
    if unsupported:
        description.append("{" + ", ".join(f"{word}: {value}" for word, value in unsupported.items()) + "}")
    if description:
        found["description"] = "\n\n".join(description)
    return found


# Any: a part of a schema is arbitrary JSON.
def _has_maps(part: Any) -> bool:
    """Return whether a schema has an object with keys of any name, which would have none if it were closed."""
    if not _is_object(part):
        return _is_list(part) and any(map(_has_maps, part))
    if part.get("type") == "object":
        others = part.get("additionalProperties")
        if "patternProperties" in part or _is_object(others) or ("properties" not in part and others is not False):
            return True
    return any(map(_has_maps, part.values()))


# Any: the value may be `true` or `false`, which are schemas, too; the server may reject them.
def _close_inner(schema: Any) -> Any:
    return close_schema(schema) if _is_object(schema) else schema


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


# Any: a list's values are arbitrary JSON.
def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


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
    messages = fitting_conversation(request)
    turns = _encode_turns(messages, sampling.provider)
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
        body["tools"] = encode_once(request.tools, _tools) if request.tools else None
        body["tool_choice"] = _tool_choice(request, sampling.model)
        # A reply without a format may be what the instructions ask for.
        if request.schema is not None and not _has_maps(request.schema):
            output["format"] = {"type": "json_schema", "schema": close_schema(request.schema)}
    body["output_config"] = output or None
    extra = dict(sampling.extra_body or {})
    if "system" in extra:
        # Blocks can be joined, strings cannot.
        body["system"] = _text(body["system"] or "")
        extra["system"] = _text(extra["system"]) if isinstance(extra["system"], str) else extra["system"]
    return merge_bodies(body, extra)


def _tool_choice(request: ChatRequest, model: str) -> JSON | None:
    if name := forced_tool(request, model):
        return {"type": "tool", "name": name}
    mode = chosen_mode(request)
    return None if mode is None else {"type": {"required": "any"}.get(mode, mode)}


def _stops(stops: Sequence[str], model: str) -> list[str]:
    for stop in stops:
        if not stop.strip():
            raise BadRequestError(
                f"{model} cannot stop at {stop!r}: Anthropic's API rejects stop strings that consist of blanks; "
                "use a stop string with another character"
            )
    return list(stops)


def _encode_turns(messages: Sequence[Message], provider: str) -> Encoded | list[JSON]:
    """Return the turns of user and assistant; where possible, those of a run's steps are encoded once."""
    texts = derive_texts(messages, (_encode_part, provider), lambda part: _encode_part(part, provider), ",")
    return _turns(messages, provider) if texts is None else encoded_list(texts)


def _encode_part(messages: Sequence[Message], provider: str) -> str | None:
    """Return the turns of some messages as JSON, or `None` if they may have to be merged with those around them."""
    turns = _turns(messages, provider)
    if not turns or turns[-1]["role"] != "user":
        return None
    if isinstance(messages[0], AssistantMessage) and turns[0]["role"] != "assistant":
        return None
    return encode_items(turns)


def _turns(messages: Sequence[Message], provider: str) -> list[JSON]:
    """Return the messages of user and assistant, with consecutive messages of one role merged."""
    turns: list[JSON] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, provider)
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


def _blocks(message: Message, provider: str) -> list[JSON]:
    match message:
        case SystemMessage():
            return []
        case UserMessage(content, images):
            return [*map(_image, images), *_text(content)]
        case AssistantMessage():
            # The API requires the thinking of a reply with calls, unchanged and in its place.
            return [block for part in ordered_parts(message, provider, THINKING) for block in _part(part)]
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
