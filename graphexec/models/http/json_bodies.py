"""JSON bodies, whatever the protocol: how one is written, with what, and how one is read and checked.

Bodies are checked by pydantic, which refuses what is no JSON, no UTF-8, or of the wrong type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphexec._json import read_object
from graphexec.errors import BadRequestError, InvalidReplyError
from graphexec.messages import ChatRequest, Message, ModelRequest, SystemMessage, UserMessage
from graphexec.models.http.endpoint import Endpoint

# JSON on its way out: its values are arbitrary.
JSON = dict[str, Any]

# A negative count would give tokens back to a run that is bounded by them, and `true` is not one token.
TokenCount = Annotated[int, Field(ge=0, strict=True)]


class Wire(BaseModel):
    """A part of a body. Members that nobody asks for may be there, and are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


W = TypeVar("W", bound=Wire)


def write(body: JSON) -> bytes:
    """Return a body's bytes, without its members that are `None`. Raises `BadRequestError` for what is not JSON."""
    members = {name: value for name, value in body.items() if value is not None}
    try:
        # ASCII: a lone surrogate in a message is escaped instead of failing here.
        return json.dumps(members, default=_to_plain, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(
            f"the request to {body['model']} cannot be written as JSON ({error}); "
            "give tool parameters and schemas as plain dicts, lists, texts and numbers"
        ) from error


def read(body: bytes, kind: type[W], endpoint: Endpoint) -> W:
    """Return a body as what it should be. Raises `InvalidReplyError` where it is not."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        shown = endpoint.quote(body.decode("utf-8", "replace"))
        raise invalid_reply(endpoint, f"sent what is no reply ({fault}): {shown or 'nothing'}") from error


def invalid_reply(endpoint: Endpoint, fact: str) -> InvalidReplyError:
    """Return the error of a reply that is not what the protocol says."""
    return InvalidReplyError(
        f"{endpoint} {fact}; check that the base URL is {endpoint.provider.kind}, or try again", status=200
    )


# Any: an object's values are arbitrary JSON.
def arguments_text(arguments: str | dict[str, Any] | None) -> str:
    """Return a call's arguments as text, where some servers send the object itself."""
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""


def parse_arguments(arguments: str) -> JSON:
    """Return the object that a call's arguments are the text of; an empty one where they are none."""
    try:
        return read_object(arguments)
    except ValueError:
        return {}


def valid_arguments(arguments: str) -> str:
    """Return a call's arguments as a conversation sends them, an empty object where they are none.

    llama.cpp fails (500) on a history whose arguments are no JSON. What the model wrote is in the tool's answer to it.
    """
    return arguments if parse_arguments(arguments) else "{}"


def tool_choice(request: ChatRequest) -> str | None:
    """Return how the tools may be chosen, or `None` where that goes without saying."""
    return request.tool_choice if request.tools and request.tool_choice != "auto" else None


def conversation(request: ModelRequest) -> Sequence[Message]:
    """Return the messages of a request; a completion is asked for as a single user message."""
    return request.messages if isinstance(request, ChatRequest) else (UserMessage(request.prompt),)


def instructions(messages: Sequence[Message]) -> str:
    """Return the system messages, joined, for a protocol with a member for them; blank ones are left out."""
    return "\n\n".join([one.content for one in messages if isinstance(one, SystemMessage) and one.content.strip()])


# Any: the values inside are arbitrary, as in every mapping on its way to JSON.
def _to_plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        # isinstance cannot tell the types inside, and JSON does not ask.
        mapping: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return dict(mapping)
    raise TypeError(f"{type(value).__name__} is not JSON")
