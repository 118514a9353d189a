"""What is sent to Anthropic: a request as the JSON of its Messages API.

Source: Anthropic's API reference. What it refuses with 400 and a conversation may hold all the same is mended where it
has no meaning (blank texts), and told where it has (blank stop texts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from graphexec.errors import BadRequestError
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
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import JSON, conversation, instructions, parse_arguments, tool_choice, write

# What stays as it is; what holds schemas is in `closed`.
_KEPT = {"$ref", "type", "enum", "const", "title", "required"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


# Any: a schema's values are arbitrary JSON.
def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with every object closed, and with what the API does not know told in descriptions."""
    found: dict[str, Any] = {}
    untold: dict[str, Any] = {}
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
            untold[word] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
        found.setdefault("properties", {})
    if "$ref" in schema:
        # Nothing may stand beside it but the definitions.
        return {word: value for word, value in found.items() if word in {"$ref", "$defs"}}
    told = [str(schema["description"])] if "description" in schema else []
    if untold:
        told.append("{" + ", ".join(f"{word}: {value}" for word, value in untold.items()) + "}")
    if told:
        found["description"] = "\n\n".join(told)
    return found


# Any: what stands where a schema belongs. `true` and `false` are schemas too, which the server may refuse.
def _close_inner(schema: Any) -> Any:
    return close_schema(schema) if _is_object(schema) else schema


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


# Any: a list's values are arbitrary JSON.
def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


# Not the latest, 2026-10-21, which differs for what is sent here in one thing: it refuses a temperature with 400.
VERSION = "2023-06-01"


def route(_request: ModelRequest) -> str:
    """Return where every request goes, below the base URL."""
    return "v1/messages"


def headers(key: str) -> dict[str, str]:
    """Return the headers of Anthropic's own: the protocol's version, and the key if there is one."""
    return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})


def encode(request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
    """Return the body of the POST. A completion is asked for as a single user message.

    Raises `BadRequestError` where a stop text is blank, nothing is said but by the system, or a tool's parameters or
    the schema are not JSON.
    """
    messages = conversation(request)
    turns = _turns(messages)
    if not turns:
        raise BadRequestError(
            f"{sampling.model} has no message to answer: all but the system's are blank, which Anthropic's API "
            "refuses; add a user message with text"
        )
    body: JSON = {
        "model": sampling.model,
        "max_tokens": sampling.max_tokens,
        "messages": turns,
        "system": instructions(messages) or None,
        "stop_sequences": _stops(request.stop, sampling.model) or None,
        "temperature": sampling.temperature,
        "stream": stream or None,
    }
    if isinstance(request, ChatRequest):
        body["tools"] = [_tool(tool) for tool in request.tools] or None
        if choice := tool_choice(request):
            body["tool_choice"] = {"type": choice}
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": close_schema(request.schema)}}
    return write(body)


def _stops(stops: Sequence[str], model: str) -> list[str]:
    for stop in stops:
        if not stop.strip():
            raise BadRequestError(
                f"{model} cannot stop at {stop!r}: Anthropic's API refuses a stop text of blanks alone; "
                "stop at a text with a letter or a sign in it"
            )
    return list(stops)


def _turns(messages: Sequence[Message]) -> list[JSON]:
    """Return the messages of user and assistant in turn, neighbours of one role merged."""
    turns: list[JSON] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += blocks
    for turn in turns:
        # The results of a turn's calls come before any text, or the API takes them as missing.
        turn["content"].sort(key=_is_no_result)
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last["type"] == "text":
            # The API continues a text of the assistant's, and refuses one that ends in a blank.
            last["text"] = last["text"].rstrip()
    return turns


def _is_no_result(block: JSON) -> bool:
    return bool(block["type"] != "tool_result")


def _blocks(message: Message) -> list[JSON]:
    match message:
        case SystemMessage():
            return []
        case UserMessage(content):
            return _text(content)
        case AssistantMessage(content, calls):
            return [*_text(content), *(_call(call) for call in calls)]
        case ToolMessage(call_id, content):
            result: JSON = {"type": "tool_result", "tool_use_id": call_id}
            return [result | ({"content": content} if content.strip() else {})]


def _text(content: str) -> list[JSON]:
    """Return a text's block, or none where it is blank: the API refuses those."""
    return [{"type": "text", "text": content}] if content.strip() else []


def _call(call: ToolCall) -> JSON:
    # The API takes objects only. What the model had written instead is in the tool's answer to it.
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": parse_arguments(call.arguments)}


def _tool(tool: ToolSpec) -> JSON:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
