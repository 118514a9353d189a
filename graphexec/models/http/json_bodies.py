"""Write and read JSON bodies, independent of the protocol.

pydantic validates the bodies: it rejects invalid JSON, invalid UTF-8 and wrong types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, TypeVar, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import read_json, read_object
from graphexec.errors import BadRequestError, InvalidReplyError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelRequest,
    SystemMessage,
    UserMessage,
)
from graphexec.messages.turns import derive_texts
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.receiving import MOST_PARTS, find_excess, reply_limit_error

# A JSON object to send; its values are arbitrary.
JSON = dict[str, Any]

# A negative count would increase the budget of a run, a huge one is no float, and `true` must not count as 1.
TokenCount = Annotated[int, Field(ge=0, le=10**12, strict=True)]

_MOST_TOKENS = 10**12
_SURROGATE = compile_lazily("[\ud800-\udfff]")

T = TypeVar("T")
S = TypeVar("S", bound=Hashable)

# Calls, messages and their parts. A list that is too long, or has a wrong item, is not read to its end: each item would
# take a kilobyte, and so would its error.
Parts = Annotated[list[T], Field(max_length=MOST_PARTS, fail_fast=True)]


class Wire(BaseModel):
    """A part of a body. Unknown members are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


W = TypeVar("W", bound=Wire)


@final
class Encoded:
    """A value of a body that is JSON already, in `parts`: a long one is joined only once, with the whole body."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    # Any: a JSON value is arbitrary.
    def decode(self) -> Any:
        """Return the value."""
        return json.loads("".join(self.parts))


def encode_items(items: Iterable[JSON]) -> str:
    """Return the items of a list as JSON, without the brackets."""
    return ",".join(map(_to_json, items))


def encode_messages(
    messages: Sequence[Message], style: S, items: Callable[[Sequence[Message], S], Iterable[JSON]]
) -> Encoded:
    """Return the JSON of `items(messages, style)`, in which each turn is encoded once in a run.

    The items of several turns must be those of the first, and then those of the others.
    """
    texts = derive_texts(messages, (items, style), lambda part: encode_items(items(part, style)), ",")
    assert texts is not None, "every part has its own items"
    return encoded_list(texts)


def encoded_list(texts: Sequence[str]) -> Encoded:
    """Return a list whose items are JSON already, one or several in each of the `texts`."""
    parts = [","] * (2 * len(texts) + 1)
    parts[1::2] = texts
    parts[0], parts[-1] = "[", "]"
    return Encoded(*parts) if texts else Encoded("[]")


# By function and identity of its argument: a copy of the result, and its JSON. All requests of an agent have the same
# tools and the same schema.
_encoded: dict[tuple[object, int], tuple[object, Encoded]] = {}
# The number of results that are kept.
_KEPT = 64


def encode_once(given: T, convert: Callable[[T], object]) -> object:
    """Return `convert(given)` as JSON, which is made once as long as the result is equal; to compare it is cheaper.

    A value that is not JSON is returned as it is, so that `write` reports it.
    """
    key, value = (convert, id(given)), convert(given)
    found = _encoded.get(key)
    if found is None or found[0] != value:
        try:
            made = deepcopy(value), Encoded(_to_json(value))
        except (TypeError, ValueError, RecursionError):
            return value
        if len(_encoded) >= _KEPT:
            _encoded.clear()
        found = _encoded[key] = made
    return found[1]


def write(body: JSON) -> bytes:
    """Return a body as bytes. Raises `BadRequestError` if it is not valid JSON."""
    try:
        plain = {name: value for name, value in body.items() if type(value) is not Encoded}
        parts = [_to_json(plain)[:-1]]
        for name, value in body.items():
            if type(value) is Encoded:
                parts += (",", _to_json(name), ":", *value.parts)
        return "".join([*parts, "}"]).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(
            f"the request to {body['model']} cannot be written as JSON ({error}); "
            "give tool parameters and schemas as plain dicts, lists, strings and numbers"
        ) from error


def read(body: bytes, kind: type[W], endpoint: Endpoint) -> W:
    """Parse and validate a body. Raises `InvalidReplyError` if it is invalid, `ReplyLimitError` if it is too large."""
    check_size(body, endpoint)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "too_long":
            seen: int = first.get("ctx", {}).get("actual_length", MOST_PARTS)
            raise reply_limit_error(endpoint, endpoint.limits, "calls", seen) from None
        place = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        raise _unreadable(endpoint, problem, body.decode("utf-8", "replace")) from None


def parse(body: bytes | str, endpoint: Endpoint) -> JSON:
    """Return the object in a body. Raises `InvalidReplyError` if there is none, `ReplyLimitError` if it is too large.

    Bytes that are no text and numbers of any length are read, as they may stand beside the answer.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    # An event has few values and levels.
    if len(text) > endpoint.limits.values or text.count("{") + text.count("[") > endpoint.limits.depth:
        check_size(text.encode("utf-8", "replace"), endpoint)
    try:
        value = _load(text)
    except (ValueError, RecursionError) as error:
        fact = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise _unreadable(endpoint, fact, text) from None
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType]
    # Gemini sends errors as a list with one item.
    found = objects(value)
    if not found:
        raise _unreadable(endpoint, "not a JSON object", text)
    return found[0]


# Any: a JSON value is arbitrary.
def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python reads at most 4,300 digits of an integer.
        return json.loads(text, parse_int=float)


def _unreadable(endpoint: Endpoint, problem: str, text: str) -> InvalidReplyError:
    return invalid_reply(endpoint, f"sent an invalid reply ({problem}): {endpoint.quote(text) or 'nothing'}")


# Any: a JSON value is arbitrary, here and below.
def to_object(value: Any) -> JSON:
    """Return a value that is an object; another one is an empty object."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def objects(value: Any, endpoint: Endpoint | None = None, name: str = "") -> list[JSON]:
    """Return the objects in a list; a single one is a list of one, and other values are none.

    Raises `InvalidReplyError` of the endpoint for a value of another type, if it is called `name` and has the answer.
    """
    several: list[Any] = [*value] if isinstance(value, list) else [value]
    if endpoint is not None and any(one and not isinstance(one, dict) for one in several):
        raise invalid_reply(endpoint, f"sent {name} of another type")
    return [one for one in several if isinstance(one, dict)]


def string(value: Any, endpoint: Endpoint | None, name: str) -> str:
    """Return a string; of nothing and of an object, an empty one.

    Raises `InvalidReplyError` of the endpoint for another value, if it may be a part of the answer.
    """
    if isinstance(value, str):
        return value
    if endpoint is not None and value and not isinstance(value, dict):
        raise invalid_reply(endpoint, f"sent {name} that is no text")
    return ""


def count(value: object) -> int:
    """Return a number of tokens; one that cannot be read is 0: a negative one would increase the budget of a run."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        return 0
    return int(number) if 0 <= number <= _MOST_TOKENS else 0


def mend_surrogates(text: str) -> str:
    """Return a text in which pairs of surrogates are characters, and lone ones U+FFFD: neither can be sent or shown."""
    if text.isascii() or not _SURROGATE().search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def check_size(body: bytes, endpoint: Endpoint) -> None:
    """Raise `ReplyLimitError` for JSON with too many values, or nested too deeply."""
    excess = find_excess(body, endpoint.limits)
    if excess is not None:
        raise reply_limit_error(endpoint, endpoint.limits, *excess)


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
    """Return the arguments of an earlier call as valid JSON, or an empty object if they are not a JSON object.

    llama.cpp fails (500) on a history with invalid arguments. The observation of the call repeats what the model wrote.
    """
    try:
        text, value = read_json(arguments)
    except ValueError:
        return "{}"
    return text if value and isinstance(value, dict) else "{}"


def stop_strings(request: ModelRequest) -> tuple[str, ...]:
    """Return the stop strings of a request; a user may have written a single one."""
    stop: str | Sequence[str] = request.stop
    return (stop,) if isinstance(stop, str) else tuple(stop)


def forced_tool(request: ChatRequest, model: str) -> str | None:
    """Return the name of the tool that a request forces the model to call, if any.

    Raises `BadRequestError` for a tool that the request does not offer, and for required calls without tools.
    """
    choice, offered = request.tool_choice, [tool.name for tool in request.tools]
    if choice in {"auto", "none"}:
        return None
    if choice == "required" and offered:
        return None
    if choice in offered:
        return choice
    raise BadRequestError(
        f"{model} cannot follow tool_choice={choice!r}: the request offers {', '.join(offered) or 'no tools'}; "
        "write auto, none, required, or the name of an offered tool"
    )


def chosen_mode(request: ChatRequest) -> str | None:
    """Return `none` or `required` if the request says so, or `None` for the default."""
    return request.tool_choice if request.tools and request.tool_choice in {"none", "required"} else None


def returned_reasoning(message: AssistantMessage, provider: str) -> list[JSON]:
    """Return the data of a message's reasoning that is sent back: that of the same provider, beside tool calls.

    Providers that need it (Anthropic, OpenAI's Responses, DeepSeek, OpenRouter) need it for the calls whose results
    follow; some refuse it in other messages.
    """
    parts = message.reasoning if message.tool_calls else ()
    return [parse_arguments(part.data) for part in parts if part.provider == provider and part.data]


def merge_bodies(body: JSON, extra: Mapping[str, Any]) -> JSON:
    """Return a body with further members: objects are merged, lists joined, other values replace those of `body`.

    In `tools` and `system`, an item that has the name of one of ours, or only `cache_control`, adds to ours.
    """
    merged = {name: value for name, value in body.items() if value is not None}
    for name, value in extra.items():
        before = merged.get(name)
        if isinstance(before, Encoded):
            before = before.decode()
        if isinstance(before, dict) and isinstance(value, dict):
            merged[name] = merge_bodies(before, value)  # pyright: ignore[reportUnknownArgumentType]
        elif name in {"tools", "system"} and isinstance(before, list | None):
            joined = _join_items(before or [], value if isinstance(value, list) else [value])  # pyright: ignore[reportUnknownArgumentType]
            # A request without tools has no list of them.
            merged.pop(name, None)
            merged |= {name: joined} if joined else {}
        elif isinstance(before, list):
            further: list[Any] = [*value] if isinstance(value, list) else [value]
            merged[name] = before + [item for item in further if item not in before]  # pyright: ignore[reportUnknownVariableType]
        else:
            merged[name] = value
    return merged


# Any: JSON, here and below.
def _join_items(ours: Sequence[Any], further: Sequence[Any]) -> list[Any]:
    joined = [*ours]
    names = [_item_name(item) for item in ours]
    for item in further:
        name = _item_name(item)
        if (name and name in names) or (_is_addition(item) and not name and ours):
            place = names.index(name) if name else len(ours) - 1
            joined[place] = merge_bodies(item, joined[place])
        elif item is not None and not _is_addition(item) and item not in joined:
            joined.append(item)
    return joined


def _item_name(item: Any) -> str | None:
    match item:
        case {"name": str(name)} | {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def _is_addition(item: Any) -> bool:
    return isinstance(item, dict) and not any(name in item for name in ("type", "text", "input_schema"))


def conversation(request: ModelRequest) -> Sequence[Message]:
    """Return the messages of a request; a completion request becomes a single user message."""
    return request.messages if isinstance(request, ChatRequest) else (UserMessage(request.prompt),)


def instructions(messages: Sequence[Message]) -> str:
    """Return the system messages as one string, for protocols that send them separately; blank ones are ignored."""
    return "\n\n".join(derive_texts(messages, _instructions, _instructions, "\n\n") or ())


def _instructions(messages: Sequence[Message]) -> str:
    return "\n\n".join([one.content for one in messages if isinstance(one, SystemMessage) and one.content.strip()])


# Any: the values of a JSON object are arbitrary.
def _to_plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        # isinstance does not narrow the type arguments, and JSON needs none.
        mapping: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return dict(mapping)
    raise TypeError(f"{type(value).__name__} is not JSON")


# Made once: `json.dumps` makes another encoder in each call.
_encode = json.JSONEncoder(default=_to_plain, allow_nan=False, separators=(",", ":")).encode
_ESCAPES = compile_lazily(r"\\(?:ud[89ab]..\\ud[c-f]..|(?P<lone>ud[89a-f]..)|.)")


def _to_json(value: object) -> str:
    """Return JSON in ASCII, with U+FFFD for lone surrogates, which servers refuse: a tool may cut a text in a sign."""
    text = _encode(value)
    if "\\ud" not in text:
        return text
    return _ESCAPES().sub(lambda found: "\\ufffd" if found["lone"] else found[0], text)
