"""Write and read JSON bodies, independent of the protocol.

pydantic validates the bodies: it rejects invalid JSON, invalid UTF-8 and wrong types.
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

# A JSON object to send; its values are arbitrary.
JSON = dict[str, Any]

# A negative count would increase the budget of a run, and `true` must not count as 1.
TokenCount = Annotated[int, Field(ge=0, strict=True)]


class Wire(BaseModel):
    """A part of a body. Unknown members are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


W = TypeVar("W", bound=Wire)


def write(body: JSON) -> bytes:
    """Return a body as bytes, without members that are `None`. Raises `BadRequestError` if it is not valid JSON."""
    members = {name: value for name, value in body.items() if value is not None}
    try:
        # ASCII: a lone surrogate in a message is escaped instead of failing here.
        return json.dumps(members, default=_to_plain, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(
            f"the request to {body['model']} cannot be written as JSON ({error}); "
            "give tool parameters and schemas as plain dicts, lists, strings and numbers"
        ) from error


def read(body: bytes, kind: type[W], endpoint: Endpoint) -> W:
    """Parse and validate a body. Raises `InvalidReplyError` if it is invalid."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        shown = endpoint.quote(body.decode("utf-8", "replace"))
        raise invalid_reply(endpoint, f"sent an invalid reply ({problem}): {shown or 'nothing'}") from error


def invalid_reply(endpoint: Endpoint, fact: str) -> InvalidReplyError:
    """Return the error for a reply that does not follow the protocol."""
    return InvalidReplyError(
        f"{endpoint} {fact}; check that the base URL is {endpoint.provider.kind}, or try again", status=200
    )


# Any: an object's values are arbitrary JSON.
def arguments_text(arguments: str | dict[str, Any] | None) -> str:
    """Return the arguments of a call as a string, because some servers send an object."""
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""


def parse_arguments(arguments: str) -> JSON:
    """Return the arguments of a call as an object; an empty one if they are not a JSON object."""
    try:
        return read_object(arguments)
    except ValueError:
        return {}


def valid_arguments(arguments: str) -> str:
    """Return the arguments of an earlier call, or an empty object if they are not a JSON object.

    llama.cpp fails (500) on a history with invalid arguments. The observation of the call repeats what the model wrote.
    """
    return arguments if parse_arguments(arguments) else "{}"


def tool_choice(request: ChatRequest) -> str | None:
    """Return the tool choice of a request, or `None` for the default."""
    return request.tool_choice if request.tools and request.tool_choice != "auto" else None


def conversation(request: ModelRequest) -> Sequence[Message]:
    """Return the messages of a request; a completion request becomes a single user message."""
    return request.messages if isinstance(request, ChatRequest) else (UserMessage(request.prompt),)


def instructions(messages: Sequence[Message]) -> str:
    """Return the system messages as one string, for protocols that send them separately; blank ones are ignored."""
    return "\n\n".join([one.content for one in messages if isinstance(one, SystemMessage) and one.content.strip()])


# Any: the values of a JSON object are arbitrary.
def _to_plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        # isinstance does not narrow the type arguments, and JSON needs none.
        mapping: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return dict(mapping)
    raise TypeError(f"{type(value).__name__} is not JSON")
