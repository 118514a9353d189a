"""A chat model of LangChain as a model: Gemini, Vertex, Bedrock and all others that it has.

LangChain does the wire, and its replies are read as chunks of chat completions.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, final

from graphexec import errors
from graphexec._arguments import Constraint, has_methods, optional, validate
from graphexec._mistakes import explain_calls
from graphexec.messages import ModelReply, ModelRequest, SystemMessage
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

_MODEL = has_methods("a chat model of LangChain", "invoke", "ainvoke", "stream", "astream")
_CONFIG = Constraint("a dict of callbacks, tags and metadata", lambda value: isinstance(value, Mapping))
# The members that have the reason of the end: of OpenAI and Gemini, Anthropic, Bedrock, Ollama.
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_OPTIONS = "the options of its class"
_PROVIDER = Provider("", _OPTIONS, _OPTIONS, kind="that of its class", hint="if it has one", example="https://host/v1")
# The meanings of exceptions, by the ends of the names of their classes and of those of their causes, in this order.
_TIMEOUTS, _CONNECTIONS = ("Timeout", "TimeoutError"), ("ConnectionError", "ConnectError", "TransportError")
_UNREADABLE = ("ValidationError", "JSONDecodeError")
_MEANINGS: tuple[tuple[tuple[str, ...], type[errors.ModelError], str], ...] = (
    (_TIMEOUTS, errors.ModelTimeoutError, "did not answer in time ({}); allow its client a longer timeout"),
    (_CONNECTIONS, errors.ModelConnectionError, "cannot be reached ({}); check its address and network"),
    (_UNREADABLE, errors.InvalidReplyError, "sent a reply that cannot be read ({}); try again, or look at its library"),
    (("NotImplementedError",), errors.BadRequestError, "has no such calls ({}); use create_structured_agent"),
    (("",), errors.ModelError, "failed ({}); see what its library says of this error"),
)


# Any: the package is optional, so its types may be unknown; so in this module.
@explain_calls("from_langchain", "from_langchain(chat_model)", {})
def from_langchain(chat_model: Any, *, config: Mapping[str, Any] | None = None) -> LangChainModel:
    """Return a model that calls a chat model of LangChain; `config` (callbacks, tags, metadata) goes to each call.

    Raises `InputError` for another object, and if langchain-core (extra `langchain`) is missing.
    """
    try:
        import langchain_core.messages
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "langchain_core":
            raise
        remedy = "install it with pip install 'graphexec-agents[langchain]'"
        raise errors.InputError(f"the package of langchain_core is missing; {remedy}") from None
    validate("from_langchain", ("chat_model", chat_model, _MODEL), ("config", config, optional(_CONFIG)))
    return LangChainModel(chat_model, dict(config or {}), langchain_core.messages)


@final
class LangChainModel(ClosableModel):
    """A model that calls a chat model of LangChain; `from_langchain` makes it.

    Its clients are not closed, and retries are theirs. A blocking call with a `timeout` ends in time; a blocking stream
    at the first piece behind it.
    """

    def __init__(self, model: Any, config: JSON, types: Any) -> None:
        # Options may be bound to it.
        inner = getattr(model, "bound", model)
        kind = type(inner).__name__
        names = [getattr(inner, name, None) for name in ("model_name", "model", "model_id")]
        self.name = next((one for one in names if isinstance(one, str) and one), kind).removeprefix("models/")
        self.provider = str(getattr(inner, "_llm_type", ""))
        self._client, self._config, self._types = model, config, types
        self._stream_options: JSON = {"stream_usage": True} if hasattr(inner, "stream_usage") else {}
        self._has_schemas = type(inner).__module__.startswith("langchain_openai")
        # Its reasoning can be sent to it alone.
        origin = f"{kind} {self.provider}"
        self._sampling = Sampling(self.name, provider=origin)
        known = tuple(one for one in map(to_secret, _secrets_of(inner)) if one is not None)
        self._endpoint = Endpoint(self.name, kind, provider=_PROVIDER, others=known, origin=origin)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        call = partial(self._ask, request, io)
        try:
            given = await call() if timeout is None else await io.within(call, timeout)
            if isinstance(given, NotDone):
                raise TimeoutError  # noqa: TRY301 - it has the words of the library's own
            draft = ChatStream(self._endpoint, stop_strings(request))
            return _finish(draft.decode(_to_json(given).encode()))
        except Exception as error:  # noqa: BLE001 - a library may raise any
            # It has the request, and may quote the reply.
            raise self._to_error(error, timeout) from None

    async def _ask(self, request: ModelRequest, io: IO) -> JSON:
        """Return the whole reply as that of chat completions."""
        model, history, options = self._prepare(request)
        forms = (partial(form, history, self._config, **options) for form in (model.invoke, model.ainvoke))
        message = await io.either(*forms)
        return self._end(_read(message), message, "stop")

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        draft, left = ChatStream(self._endpoint, stop_strings(request)), timeout
        try:
            async with aclosing(self._chunks(request, io)) as chunks:
                while True:
                    began = io.now()
                    async with io.timeout(left):
                        chunk = await anext(chunks, None)
                    left = None if left is None else left - (io.now() - began)
                    if chunk is None:
                        break
                    if left is not None and left <= 0:
                        raise TimeoutError  # noqa: TRY301 - as above
                    for delta in draft.take(_to_json(chunk)):
                        yield delta
            yield _finish(draft.reply())
        except Exception as error:  # noqa: BLE001 - as above
            raise self._to_error(error, timeout) from None

    async def _chunks(self, request: ModelRequest, io: IO) -> AsyncGenerator[JSON, None]:
        """Yield the reply as the chunks of chat completions."""
        model, history, options = self._prepare(request)
        options |= self._stream_options
        forms = (partial(form, history, self._config, **options) for form in (model.stream, model.astream))
        whole = None
        async with aclosing(io.iterate(*forms)) as chunks:
            async for chunk in chunks:
                whole = chunk if whole is None else whole + chunk
                yield _read(chunk)
        if whole is not None:
            # A fake model has neither a provider nor a reason of the end.
            default = "" if whole.response_metadata.get("model_provider") else "stop"
            yield self._end({"choices": [{"delta": {}}]}, whole, default)

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

    def _prepare(self, request: ModelRequest) -> tuple[Any, list[Any], JSON]:
        """Return the model with the tools bound, the messages, and the options of a call."""
        model, chat = self._client, to_chat(request)
        tools, wanted = chat.tools, chat.tool_choice
        # The package refuses a schema beside tools that are not strict.
        if chat.schema is not None and (tools or not self._has_schemas):
            shape = json.dumps(chat.schema, default=dict)
            rule = SystemMessage(f"Reply only with JSON that follows this schema: {shape}")
            chat = replace(chat, messages=[*chat.messages, rule], schema=None)
        body: JSON = json.loads(write(CHAT_COMPLETIONS.encode(chat, self._sampling, stream=False)))
        options: JSON = {name: body[name] for name in ("stop", "response_format") if name in body}
        history = [self._convert(one) for one in body["messages"]]
        if not tools:
            return model, history, options
        # LangChain's own name for required calls is "any".
        none = {"type": "none"} if "anthropic" in self.provider else "none"
        chosen = {} if wanted == "auto" else {"tool_choice": {"required": "any", "none": none}.get(wanted, wanted)}
        return model.bind_tools(body["tools"], **chosen), history, options

    def _convert(self, sent: JSON) -> Any:
        """Return a message: LangChain's own one that was kept with a reply, unless the reply was changed."""
        reasoning = {name: sent.pop(name, None) for name in REASONING_MEMBERS}
        for detail in reasoning["reasoning_details"] or ():
            (own,) = self._types.messages_from_dict([detail["message"]])
            if _ids_and_text(_read(own)["choices"][0]["delta"]) == _ids_and_text(sent):
                return own
        return self._types.convert_to_messages([sent])[0]

    def _end(self, chunk: JSON, given: Any, default: str) -> JSON:
        """Add to a chunk what the end of a reply has, and the message, if there is more in it than a chunk has."""
        message = self._types.message_chunk_to_message(given)
        meta, used = message.response_metadata, to_object(message.usage_metadata)
        kept = {name: value for name, value in message.additional_kwargs.items() if value and name != "tool_calls"}
        (choice,) = chunk["choices"]
        choice["finish_reason"] = next((meta[name] for name in _REASONS if meta.get(name)), default)
        if kept or not isinstance(message.content, str):
            choice["delta"]["reasoning_details"] = [{"message": self._types.messages_to_dict([message])[0]}]
        cached = to_object(used.get("input_token_details")).get("cache_read")
        return chunk | {"model": meta.get("model_name") or meta.get("model"), "usage": used | {"cached_tokens": cached}}


def _ids_and_text(message: JSON) -> tuple[list[object], str]:
    return [call["id"] for call in message.get("tool_calls", ())], message.get("content") or ""


def _read(message: Any) -> JSON:
    """Return a message, or a piece of one, as a chunk of chat completions."""
    thoughts = "".join([one.get("reasoning", "") for one in message.content_blocks if one["type"] == "reasoning"])
    # Of a stream, the strings as received: LangChain completes arguments that were cut.
    found = getattr(message, "tool_call_chunks", None) or [*message.tool_calls, *message.invalid_tool_calls]
    calls: list[JSON] = [
        {
            # Of some providers, it is a string.
            "index": index if isinstance(index := one.get("index"), int) else None,
            "id": one["id"],
            "function": {"name": one["name"], "arguments": one["args"]},
        }
        for one in found
    ]
    delta = {"content": str(message.text), "reasoning_content": thoughts, "tool_calls": calls}
    return {"choices": [{"delta": {name: value for name, value in delta.items() if value}}]}


def _finish(reply: ModelReply) -> ModelReply:
    calls_stop = reply.tool_calls and reply.finish_reason == "stop"
    return replace(reply, finish_reason="tool_calls") if calls_stop else reply


def _to_json(given: JSON) -> str:
    return json.dumps(given, default=str)


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
