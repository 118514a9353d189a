"""Write the JSON bodies of requests, independent of the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, final

from graphexec._parsing import compile_lazily
from graphexec._parsing.json import read_json
from graphexec.errors import BadRequestError
from graphexec.messages import ChatRequest, Message, ModelRequest, SystemMessage, UserMessage
from graphexec.messages.turns import derive_texts
from graphexec.models.http.json_values import JSON


@final
class Encoded(str):
    """A value of a body that is JSON already."""

    __slots__ = ()


def decode(body: JSON) -> None:
    """Replace the encoded values of a body by their values."""
    body |= {name: json.loads(value) for name, value in body.items() if type(value) is Encoded}


def encode_messages(
    messages: Sequence[Message], key: Hashable, write: Callable[[Sequence[Message]], Iterable[JSON] | None]
) -> Encoded | None:
    """Return what `write` makes of the messages as JSON, in which each turn is encoded once in a run.

    It is called for each turn; if one depends on those around it, it returns `None`, and so does this. It is known by
    the `key`.
    """

    def encode(part: Sequence[Message]) -> str | None:
        items = write(part)
        return None if items is None else ",".join(map(to_json, items))

    texts = derive_texts(messages, key, encode, ",")
    return Encoded(f"[{','.join(texts)}]") if texts else None


def write(body: JSON) -> bytes:
    """Return a body as bytes. Raises `BadRequestError` if it is not valid JSON."""
    try:
        plain = {name: value for name, value in body.items() if type(value) is not Encoded}
        parts = [to_json(plain)[:-1]]
        for name, value in body.items():
            if type(value) is Encoded:
                parts += (",", to_json(name), ":", value)
        return "".join([*parts, "}"]).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(
            f"the request to {body['model']} cannot be written as JSON ({error}); "
            "give tool parameters and schemas as plain dicts, lists, strings and numbers"
        ) from error


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


def tool_choice_of(request: ChatRequest, model: str) -> str | None:
    """Return the tool choice of a request: `none`, `required` or the name of a tool; `None` is the default.

    Raises `BadRequestError` for a tool that the request does not offer, and for required calls without tools.
    """
    choice, offered = request.tool_choice, [tool.name for tool in request.tools]
    if choice == "auto" or (choice == "none" and not offered):
        return None
    if choice in {"none", *offered} or (choice == "required" and offered):
        return choice
    raise BadRequestError(
        f"{model} cannot follow tool_choice={choice!r}: the request offers {', '.join(offered) or 'no tools'}; "
        "write auto, none, required, or the name of an offered tool"
    )


def merge_bodies(body: JSON, extra: Mapping[str, Any]) -> JSON:
    """Return a body with further members: objects are merged, lists joined, other values replace those of `body`.

    In `tools` and `system`, an item that has the name of one of ours, or only `cache_control`, adds to ours.
    """
    merged = {name: value for name, value in body.items() if value is not None}
    for name, value in extra.items():
        before = merged.get(name)
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
    further = [{"type": "text", "text": one} if isinstance(one, str) else one for one in further]
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


def to_chat(request: ModelRequest) -> ChatRequest:
    """Return a request as one of chat; a completion request becomes a single user message."""
    if isinstance(request, ChatRequest):
        return request
    return ChatRequest((UserMessage(request.prompt),), stop=request.stop)


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


def to_json(value: object) -> str:
    """Return JSON in ASCII, with U+FFFD for lone surrogates, which servers refuse: a tool may cut a text in a sign."""
    text = _encode(value)
    if "\\ud" not in text:
        return text
    return _ESCAPES().sub(lambda found: "\\ufffd" if found["lone"] else found[0], text)
