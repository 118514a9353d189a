"""The base class of bridges: another library does the wire, and its replies are read as chunks of chat completions."""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from graphexec import errors
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, SystemMessage
from graphexec.messages.turns import Conversation
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.draft import Piece
from graphexec.models.http.endpoint import Endpoint, Provider
from graphexec.models.http.failures import classify_response, timeout_error
from graphexec.models.http.json_bodies import stop_strings, to_chat, write
from graphexec.models.http.json_values import JSON, to_object
from graphexec.models.http.remote import ClosableModel
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_reply import REASONING_MEMBERS, ChatStream
from graphexec.models.secret import is_secret_name, remove_secrets, to_secret
from graphexec.runtime.io import IO
from graphexec.runtime.threads import NotDone

# The meanings of exceptions, by the ends of the names of their classes and of those of their causes, in this order.
_TIMEOUTS, _CONNECTIONS = ("Timeout", "TimeoutError"), ("ConnectionError", "ConnectError", "TransportError")
_UNREADABLE = ("UnexpectedModelBehavior", "ValidationError", "JSONDecodeError")
_KEYS, _LIMITS = (
    ("AuthenticationError", "PermissionDeniedError", "Unauthorized"),
    ("RateLimitError", "ResourceExhausted"),
)
_REQUESTS = ("InvalidRequestError", "BadRequestError")
_REFUSALS = ("RefusalError", "ContentFilterFinishReasonError")
_MEANINGS: tuple[tuple[tuple[str, ...], type[errors.ModelError], str], ...] = (
    (_TIMEOUTS, errors.ModelTimeoutError, "did not answer in time ({}); allow its client a longer timeout"),
    (_CONNECTIONS, errors.ModelConnectionError, "cannot be reached ({}); check its address and network"),
    (_KEYS, errors.AuthenticationError, "refused its key ({}); check the key, and what it may be used for"),
    (_LIMITS, errors.RateLimitError, "has too many requests ({}); wait, or make fewer calls"),
    (("ContextOverflowError",), errors.ContextOverflowError, "cannot read so much ({}); shorten what it is sent"),
    (("ModelNotFoundError",), errors.ModelNotFoundError, "is not there ({}); check its name and address"),
    (_REFUSALS, errors.RefusalError, "refuses to answer ({}); ask in other words"),
    (("ModelAPIError", "InternalServerError"), errors.ServerError, "failed ({}); try again later"),
    (_REQUESTS, errors.BadRequestError, "does not take the request ({}); see what its library says of this error"),
    (_UNREADABLE, errors.InvalidReplyError, "sent a reply that cannot be read ({}); try again, or look at its library"),
    (("NotImplementedError",), errors.BadRequestError, "has no such calls ({}); use create_structured_agent"),
    (("",), errors.ModelError, "failed ({}); see what its library says of this error"),
)


# Any: a module of a package that may be missing, and whose types are not known then.
def require(module: str, extra: str) -> Any:
    """Return a module. Raises `InputError` that names the extra if its package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        remedy = f"install it with pip install 'graphexec-agents[{extra}]'"
        raise errors.InputError(f"the package of {package} is missing; {remedy}") from None


class BridgedModel(ClosableModel):
    """A model of another library, `kind`. Its clients are not closed, and retries are theirs.

    A blocking call with a `timeout` ends in time; a blocking stream at the first piece behind it.
    """

    # Any: objects of the library, here and below.
    def __init__(self, client: Any, kind: str, sampling: Sampling, *key_holders: Any, address: str = "") -> None:
        self._client = client
        self.name = sampling.model
        self.provider = sampling.provider
        # Only a server's own reasoning can be sent to it by several clients.
        origin = sampling.provider if address else f"{kind} {sampling.provider}"
        self._sampling = replace(sampling, provider=origin)
        options = f"the options of {kind}"
        own = Provider("", options, options, kind=f"that of {kind}", hint="if it has one", example="https://host/v1")
        known = tuple(one for one in map(to_secret, _secrets_of(*key_holders)) if one is not None)
        self._endpoint = Endpoint(self.name or kind, address or kind, provider=own, others=known, origin=origin)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    async def _ask(self, request: ModelRequest, timeout: float | None, io: IO, /) -> JSON | ModelReply:
        """Return the whole reply, or the one of chat completions to read it from."""

    @abstractmethod
    def _chunks(self, request: ModelRequest, timeout: float | None, io: IO, /) -> AsyncGenerator[JSON, None]:
        """Yield the reply as the chunks of chat completions."""

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        call = partial(self._ask, request, timeout, io)
        try:
            given = await call() if timeout is None else await io.within(call, timeout)
            if isinstance(given, NotDone):
                raise TimeoutError  # noqa: TRY301 - it has the words of the library's own
            if isinstance(given, ModelReply):
                return given
            draft = ChatStream(self._endpoint, stop_strings(request))
            return _finish(draft.decode(json.dumps(given, default=str).encode()))
        except Exception as error:  # noqa: BLE001 - a library may raise any
            # It has the request, and may quote the reply.
            raise self._to_error(error, timeout) from None

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        draft, left = ChatStream(self._endpoint, stop_strings(request)), timeout
        try:
            async with aclosing(self._chunks(request, timeout, io)) as chunks:
                while True:
                    began = io.now()
                    async with io.timeout(left):
                        chunk = await anext(chunks, None)
                    left = None if left is None else left - (io.now() - began)
                    if chunk is None:
                        break
                    if left is not None and left <= 0:
                        raise TimeoutError  # noqa: TRY301 - as above
                    for delta in draft.take(json.dumps(chunk, default=str)):
                        yield delta
            yield _finish(draft.reply())
        except Exception as error:  # noqa: BLE001 - as above
            raise self._to_error(error, timeout) from None

    async def _close(self, io: IO) -> None:
        """Do nothing: the client belongs to the user."""

    def _to_error(self, error: Exception, timeout: float | None) -> Exception:
        """Return the `ModelError` for an exception of the library, or one of ours as it is, without secrets."""
        ours = error if isinstance(error, errors.GraphexecError) else self._explain(error, timeout)
        return remove_secrets(ours, self._endpoint.secrets) if isinstance(ours, errors.ModelError) else ours

    def _explain(self, error: Exception, timeout: float | None) -> errors.ModelError:
        endpoint, names = self._endpoint, set[str]()
        for one in _causes(error):
            status, headers, body = _response_of(one)
            if status is not None:
                return classify_response(endpoint, status, headers, body, now=time.time()).error
            names |= {base.__name__ for base in type(one).__mro__}
        kind, words = next((kind, words) for ends, kind, words in _MEANINGS if any(one.endswith(ends) for one in names))
        if kind is errors.ModelTimeoutError and timeout is not None:
            return timeout_error(endpoint, timeout)
        return kind(f"{endpoint} {words.format(f'{type(error).__name__}: {endpoint.quote(str(error))}')}")

    def prepare(self, request: ModelRequest, *, has_schema: bool) -> JSON:
        """Return the body of a request for chat completions, with one system message, which is the first."""
        chat = to_chat_with_schema(request, has_schema=has_schema)
        return json.loads(write(CHAT_COMPLETIONS.encode(chat, self._sampling, stream=False)))  # type: ignore[no-any-return]


def to_chat_with_schema(request: ModelRequest, *, has_schema: bool) -> ChatRequest:
    """Return a request as one of chat, whose schema is in a system message unless the library `has_schema`."""
    chat = to_chat(request)
    if chat.schema is None or has_schema:
        return chat
    rule = SystemMessage(f"Reply only with JSON that follows this schema: {json.dumps(chat.schema, default=dict)}")
    if type(chat.messages) is Conversation:
        return replace(chat, messages=chat.messages.with_head(lambda head: (*head, rule)), schema=None)
    return replace(chat, messages=[*chat.messages, rule], schema=None)


# Any: messages of the library, here and below.
def restore(sent: JSON, load: Callable[[Any], Any], read: Callable[[Any], JSON]) -> Any:
    """Return the library's own message that was kept with a reply; `None` without one, or if the reply was changed.

    `load` makes it from JSON, and `read` reads it as a chunk. What is sent of reasoning is removed.
    """
    reasoning = {name: sent.pop(name, None) for name in REASONING_MEMBERS}
    for detail in reasoning["reasoning_details"] or ():
        own = load(detail["message"])
        if _ids_and_text(read(own)["choices"][0]["delta"]) == _ids_and_text(sent):
            return own
    return None


def _ids_and_text(message: JSON) -> tuple[list[object], str]:
    return [call["id"] for call in message.get("tool_calls", ())], message.get("content") or ""


def make_chunk(text: str | None, thoughts: str | None, calls: Sequence[tuple[object, ...]]) -> JSON:
    """Return a chunk of chat completions; `calls` are indices, which may be any, ids, names and arguments."""
    written = [
        {
            "index": index if isinstance(index, int) else None,
            "id": call_id,
            "function": {"name": name, "arguments": arguments},
        }
        for index, call_id, name, arguments in calls
    ]
    delta = {"content": text, "reasoning_content": thoughts, "tool_calls": written}
    return {"choices": [{"delta": {name: value for name, value in delta.items() if value}}]}


def end_chunk(chunk: JSON, reason: object, model: str | None, counts: Sequence[int | None], kept: object) -> JSON:
    """Add to a chunk what the end of a reply has; `kept` is the message, if there is more in it than a chunk has."""
    (choice,) = chunk["choices"]
    choice["finish_reason"] = reason
    choice["delta"] |= {"reasoning_details": [{"message": kept}]} if kept else {}
    prompt, completion, cached = counts
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    return chunk | {"model": model, "usage": usage}


def _finish(reply: ModelReply) -> ModelReply:
    calls_stop = reply.tool_calls and reply.finish_reason == "stop"
    return replace(reply, finish_reason="tool_calls") if calls_stop else reply


def _causes(error: BaseException | None) -> Iterator[Any]:
    """Yield an exception and its causes; libraries wrap those of their clients."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


# Any: an exception of any client, here and below.
def _response_of(error: Any) -> tuple[int | None, Mapping[str, str], bytes]:
    """Return the status, the headers and the body of the response that an exception reports, as far as it has them."""
    response: Any = getattr(error, "response", None)
    # Of AWS, whose message is in the exception's text.
    metadata = to_object(to_object(response).get("ResponseMetadata"))
    found = [getattr(error, "status_code", None), getattr(response, "status_code", None), getattr(error, "code", None)]
    codes = [one for one in (*found, metadata.get("HTTPStatusCode")) if isinstance(one, int) and one in range(400, 600)]
    headers: Any = getattr(response, "headers", None) or getattr(error, "headers", None) or {}
    body: Any = getattr(error, "body", None) or str(error)
    text = json.dumps(body, default=str) if isinstance(body, dict) else str(body)
    return codes[0] if codes else None, headers, text.encode(errors="replace")


def _secrets_of(*owners: Any) -> Iterator[object]:
    """Yield the keys in the environment, and those among the attributes of objects: `api_key`, and secret strings."""
    yield from (value for name, value in os.environ.items() if is_secret_name(name))
    for owner in owners:
        yield getattr(owner, "api_key", None)
        yield from (value for value in getattr(owner, "__dict__", {}).values() if hasattr(value, "get_secret_value"))
